//! Which known name a mistyped one was probably meant to be.

/// The candidate with the fewest single-character mistakes; the first of equals.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .min_by_key(|candidate| distance(typed, candidate))
}

/// How many characters were added, left out, changed, or swapped with their neighbour.
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(last[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_single_mistake_counts_one() {
        for (typed, meant, mistakes) in [
            ("brokers", "brokers", 0),
            ("broker", "brokers", 1),
            ("brrokers", "brokers", 1),
            ("drokers", "brokers", 1),
            ("borkers", "brokers", 1),
            ("", "url", 3),
            ("url", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(typed, meant), mistakes, "{typed} {meant}");
        }
    }

    #[test]
    fn the_closest_candidate_is_named() {
        assert_eq!(nearest("tabel", ["url", "table", "tls"]), Some("table"));
        assert_eq!(nearest("x", []), None);
    }
}
