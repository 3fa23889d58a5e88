//! Comments in a schema file, which Avro Java allows and JSON does not.

use std::borrow::Cow;

/// The text with blanks in place of its comments: everything else stays where it is, so that lines keep their numbers.
pub fn blanked(text: &str) -> Cow<'_, str> {
    if !text.contains("//") && !text.contains("/*") {
        return Cow::Borrowed(text);
    }
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/']) {
        blanked.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match rest.as_bytes() {
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            [b'"', ..] => string_length(rest),
            _ => 1,
        };
        let (part, after) = rest.split_at(length);
        if part.starts_with('"') || length == 1 {
            blanked.push_str(part);
        } else {
            let blank = |byte| if byte == b'\n' { '\n' } else { ' ' };
            blanked.extend(part.bytes().map(blank));
        }
        rest = after;
    }
    blanked.push_str(rest);
    Cow::Owned(blanked)
}

/// From its first quote to behind its last.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_blanked_and_nothing_else_moves() {
        for (text, expected) in [
            ("{}", "{}"),
            ("/* é\n*/{} // x", "     \n  {}     "),
            (r#"{"a":"//no","b":"\"/*"}"#, r#"{"a":"//no","b":"\"/*"}"#),
            (r#"{"a":"\\"}//x"#, r#"{"a":"\\"}   "#),
            ("1/2 /* open", "1/2        "),
            ("\"open // ", "\"open // "),
            ("\"\\", "\"\\"),
        ] {
            assert_eq!(blanked(text), expected);
            assert_eq!(blanked(text).len(), text.len());
        }
    }
}
