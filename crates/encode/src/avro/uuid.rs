//! A uuid's text as Java reads it, in its canonical form.

/// Five groups of hexadecimal digits: their widths, and the bits that Java keeps of each.
const GROUPS: [(usize, u64); 5] = [
    (8, 0xFFFF_FFFF),
    (4, 0xFFFF),
    (4, 0xFFFF),
    (4, 0xFFFF),
    (12, 0xFFFF_FFFF_FFFF),
];

/// Lower case, 36 characters; short groups are padded, the leading digits of long ones dropped. `None`: not a uuid.
pub fn canonical(text: &str) -> Option<[u8; 36]> {
    let bytes = text.as_bytes();
    if bytes.len() > 36 {
        return None;
    }
    usual(bytes).or_else(|| any(text))
}

fn usual(bytes: &[u8]) -> Option<[u8; 36]> {
    let mut lower: [u8; 36] = bytes.try_into().ok()?;
    for (place, byte) in lower.iter_mut().enumerate() {
        let is_hyphen = matches!(place, 8 | 13 | 18 | 23);
        if is_hyphen != (*byte == b'-') || !(is_hyphen || byte.is_ascii_hexdigit()) {
            return None;
        }
        byte.make_ascii_lowercase();
    }
    Some(lower)
}

fn any(text: &str) -> Option<[u8; 36]> {
    let mut canonical = [b'-'; 36];
    let mut groups = text.split('-');
    let mut at = 0;
    for (width, kept) in GROUPS {
        // Java reads each group as a signed long, with its sign.
        let group = i64::from_str_radix(groups.next()?, 16)
            .ok()?
            .cast_unsigned()
            & kept;
        for place in (0..width).rev() {
            let digit = b"0123456789abcdef"[(group >> (4 * place) & 0xF) as usize];
            canonical[at] = digit;
            at += 1;
        }
        at += 1;
    }
    groups.next().is_none().then_some(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_java_reads_it() {
        for (text, expected) in [
            (
                "3F0A9B62-7C1D-4E58-A6B4-0D9E8F7C6B5A",
                Some("3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a"),
            ),
            ("1-2-3-4-5", Some("00000001-0002-0003-0004-000000000005")),
            (
                "123456789a-2-3-4-5",
                Some("3456789a-0002-0003-0004-000000000005"),
            ),
            ("+1-2-3-4-5", Some("00000001-0002-0003-0004-000000000005")),
            ("", None),
            ("1-2-3-4", None),
            ("1-2-3-4-5-6", None),
            ("1-2-3-4-", None),
            ("g-2-3-4-5", None),
            ("3f0a9b627c1d4e58a6b40d9e8f7c6b5a", None),
            ("3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a0", None),
        ] {
            let canonical = canonical(text);
            let canonical = canonical.as_ref().map(|text| std::str::from_utf8(text));
            assert_eq!(canonical, expected.map(Ok), "{text}");
        }
    }
}
