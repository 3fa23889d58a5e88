//! The server's own text of a JSON value (what SELECT gives) in the form in which the log's binary one is written.
//!
//! They differ in spaces, in how doubles are written, and in the letters of `\u00XX`. What text cannot tell stays as the
//! server writes it: dates and bytes, which the log has as types of their own and SELECT only as strings. A decimal that has
//! the digits of a double is taken for one, as nearly every number with a point is: all that came as text.
#![deny(clippy::indexing_slicing)]

use super::number;

/// So many tell any double; a number with more of them is a decimal.
const DOUBLE_DIGITS: usize = 17;

/// In: valid JSON, for the server wrote it; other text comes out as it is.
pub(in super::super) fn retell(told: &str) -> String {
    let mut text = String::with_capacity(told.len());
    let mut rest = told;
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b' ' | b'\t' | b'\n' | b'\r' => {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            b'"' => string(rest.as_bytes()),
            b'-' | b'0'..=b'9' => run(rest, in_number),
            _ => run(rest, in_nothing_else).max(1),
        };
        let (token, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        match first {
            b'"' => put_string(token, &mut text),
            b'-' | b'0'..=b'9' => put_number(token, &mut text),
            _ => text.push_str(token),
        }
        rest = behind;
    }
    text
}

/// How many bytes at the beginning are of one sort.
fn run(rest: &str, is_of_it: fn(u8) -> bool) -> usize {
    let end = rest.bytes().position(|byte| !is_of_it(byte));
    end.unwrap_or(rest.len())
}

fn in_number(byte: u8) -> bool {
    matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

/// Braces, commas, `true` and the like; and whatever is no JSON.
fn in_nothing_else(byte: u8) -> bool {
    !matches!(
        byte,
        b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'-' | b'0'..=b'9'
    )
}

/// The length of a string, with its quotes.
fn string(rest: &[u8]) -> usize {
    let mut escaped = false;
    let end = rest.iter().skip(1).position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    });
    // The first quote, and the last.
    end.map_or(rest.len(), |inside| inside.saturating_add(2))
}

fn put_string(token: &str, text: &mut String) {
    let mut rest = token;
    while let Some(plain) = rest.bytes().position(|byte| byte == b'\\') {
        let (plain, special) = rest.split_at_checked(plain).unwrap_or((rest, ""));
        text.push_str(plain);
        text.push('\\');
        let special = special.get(1..).unwrap_or_default();
        let length = match special.chars().next() {
            Some('u') => 5.min(special.len()),
            Some(other) => other.len_utf8(),
            None => 0,
        };
        let escape = special.get(..length).unwrap_or_default();
        match escape.strip_prefix('u') {
            Some(digits) => {
                text.push('u');
                text.push_str(&digits.to_ascii_uppercase());
            }
            None => text.push_str(escape),
        }
        rest = special.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
}

fn put_number(token: &str, text: &mut String) {
    let before = text.len();
    // Only a double is written with an exponent.
    let is_double = token.contains(['e', 'E'])
        || token.contains('.')
            // The server writes a double without a zero too many, but a decimal with all of its digits.
            && (!token.ends_with('0') || token.ends_with(".0"))
            && significant_digits(token) <= DOUBLE_DIGITS;
    let written =
        is_double && (token.parse()).is_ok_and(|double: f64| number::write(double, text).is_ok());
    if !written {
        text.truncate(before);
        text.push_str(token);
    }
}

/// Without the zeros before the first other digit, and without the one that only makes a fraction of a whole number.
fn significant_digits(token: &str) -> usize {
    let digits = token.strip_suffix(".0").unwrap_or(token).bytes();
    let digits = digits.filter(u8::is_ascii_digit);
    digits.skip_while(|digit| *digit == b'0').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_select_gives_becomes_what_the_log_has() {
        for (told, wanted) in [
            (r"{}", r"{}"),
            (
                r#"{"a": 1, "b": [true, null, -2]}"#,
                r#"{"a":1,"b":[true,null,-2]}"#,
            ),
            (r#"{"a b": "c, d: e"}"#, r#"{"a b":"c, d: e"}"#),
            (r#""say \"hi\" \\""#, r#""say \"hi\" \\""#),
            ("\"\\u001f\\n\u{1F340}\"", "\"\\u001F\\n\u{1F340}\""),
            ("77.1", "77.1"),
            ("12345678.9", "12345678.90000000037252902984619140625"),
            ("1e20", "100000000000000000000"),
            ("1.2345678901234567e19", "12345678901234567168"),
            ("-1.2345678901234567e19", "-12345678901234567168"),
            ("10000000.0", "10000000"),
            ("18446744073709551615", "18446744073709551615"),
            ("1.10", "1.10"),
            // Of 17 digits, and of 18: a decimal.
            (
                "0.00012345678901234567",
                "0.000123456789012345671298354066180991139844991266727447509765625",
            ),
            ("12345678901234568.0", "12345678901234568"),
            ("123456.789012345678", "123456.789012345678"),
            ("-0.00123456789012345678", "-0.00123456789012345678"),
            (
                "123456789012345678901234567890.123",
                "123456789012345678901234567890.123",
            ),
            ("\"unfinished", "\"unfinished"),
            ("\"\\", "\"\\"),
            ("\"\\u1", "\"\\u1"),
        ] {
            assert_eq!(retell(told), wanted, "{told}");
        }
    }
}
