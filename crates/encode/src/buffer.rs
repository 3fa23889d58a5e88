//! Lists that are used again for every row, and what becomes of them after a huge one.

/// A list with room for more bytes than this is given back: one huge row must not hold memory for ever.
pub const KEPT: usize = 1024 * 1024;

/// Makes a list ready for the next row.
pub fn empty<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > KEPT {
        *list = Vec::new();
    }
    list.clear();
}

/// The same for text.
pub fn empty_text(text: &mut String) {
    if text.capacity() > KEPT {
        *text = String::new();
    }
    text.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_that_grew_too_large_is_given_back() {
        let mut small = vec![7_u64; 10];
        empty(&mut small);
        assert!(small.is_empty() && small.capacity() >= 10);
        let mut large = vec![7_u64; KEPT / 8 + 1];
        empty(&mut large);
        assert_eq!(large.capacity(), 0);
        let mut text = "x".repeat(KEPT + 1);
        empty_text(&mut text);
        assert_eq!(text.capacity(), 0);
    }
}
