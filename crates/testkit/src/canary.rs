//! Secrets that occur nowhere else, and the search for them in what a program says.

use crate::unique;

/// What was planted, and must never be seen.
#[derive(Default)]
pub struct Canaries(Vec<String>);

impl Canaries {
    /// A secret of its own. It has characters that a url writes in another way.
    pub fn plant(&mut self, hint: &str) -> String {
        let core = unique(&format!("c4nary_{hint}"));
        let secret = format!("/+{core}");
        self.0.push(core);
        secret
    }

    /// Panics if one of them is in `text`: as it is, in a url, in base64 or in hexadecimal digits.
    #[track_caller]
    pub fn assert_unseen(&self, place: &str, text: &str) {
        let lower = text.to_ascii_lowercase();
        for core in &self.0 {
            let hex = hex(core);
            let seen = lower.contains(core.as_str())
                || lower.contains(&hex)
                || base64(core.as_bytes())
                    .iter()
                    .any(|it| text.contains(it.as_str()));
            assert!(!seen, "{core} is seen in {place}:\n{text}");
        }
    }
}

/// As a url has it.
pub fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encoded).collect()
}

fn hex(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four_bits: u8| char::from(DIGITS[usize::from(four_bits)]);
    let digits = text.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

/// What is in the base64 of every text that contains this one, beginning at a multiple of three or one or two after it.
fn base64(bytes: &[u8]) -> [String; 3] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    [0, 1, 2].map(|before: usize| {
        // Whole groups only: the others have bits of what stands beside.
        let whole = &bytes[(3 - before) % 3..];
        let groups = whole.chunks_exact(3);
        let digits = groups.flat_map(|group| {
            let bits = group
                .iter()
                .fold(0, |bits: usize, byte| bits << 8 | usize::from(*byte));
            [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]))
        });
        digits.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_seen(canaries: &Canaries, text: &str) -> bool {
        let unwinding = std::panic::AssertUnwindSafe(|| canaries.assert_unseen("a text", text));
        std::panic::catch_unwind(unwinding).is_err()
    }

    #[test]
    fn a_canary_is_seen_in_every_form() {
        let mut canaries = Canaries::default();
        let mut secret = canaries.plant("x");
        assert!(!is_seen(&canaries, "all is well"));
        assert!(is_seen(&canaries, &format!("<{secret}>")));
        assert!(is_seen(&canaries, &secret.to_uppercase()));
        let encoded = percent_encoded(&secret);
        assert!(encoded.starts_with("%2F%2Bc4nary_x_"), "{encoded}");
        assert!(is_seen(&canaries, &encoded));
        assert!(is_seen(&canaries, &hex(&secret)));
        assert!(is_seen(&canaries, &hex(&secret).to_uppercase()));

        // Wherever it begins.
        secret = "c4nary_base64_12345678".into();
        canaries.0 = vec![secret];
        for text in [
            "YzRuYXJ5X2Jhc2U2NF8xMjM0NTY3OA==",
            "AGM0bmFyeV9iYXNlNjRfMTIzNDU2Nzg=",
            "AHVjNG5hcnlfYmFzZTY0XzEyMzQ1Njc4",
        ] {
            assert!(is_seen(&canaries, text), "{text}");
        }
    }
}
