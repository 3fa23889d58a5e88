//! The characters of numbers, as Java reads them: what both formats need.

/// The usual case: digits only, and few enough that they surely fit.
#[inline]
pub fn short(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// No exponent is larger: sums of it with the lengths of texts cannot overflow, and every number with it is zero or too large.
const LARGEST: i64 = i64::MAX / 16;

/// What follows an `e`: a sign and digits of any script. What is too large is as large as it can be.
pub fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    let value = digits.chars().try_fold(0_i64, |value, character| {
        let value = value * 10 + i64::from(digit(character)?);
        Some(value.min(LARGEST))
    })?;
    Some(if text.starts_with('-') { -value } else { value })
}

/// The zero of each script with decimal digits that a Java `char` can hold (Unicode 13, first plane), but ASCII's.
const ZEROS: [u32; 36] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
    0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
];

/// Java takes the digits of every script of Unicode's first plane.
pub fn digit(character: char) -> Option<u8> {
    if character.is_ascii() {
        let digit = character.to_digit(10)?;
        return u8::try_from(digit).ok();
    }
    let code = u32::from(character);
    let zero = ZEROS
        .iter()
        .find(|zero| (**zero..**zero + 10).contains(&code))?;
    u8::try_from(code - zero).ok()
}

/// The text with ASCII's digits in place of all others.
pub fn in_ascii(text: &str) -> std::borrow::Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let ascii = |character| digit(character).map_or(character, |digit| char::from(b'0' + digit));
    text.chars().map(ascii).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_only_are_read_and_everything_else_is_left_to_others() {
        for (text, value) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-17", Some(-17)),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("1000000000000000000", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.0", None),
            ("1e3", None),
        ] {
            assert_eq!(short(text), value, "{text}");
        }
    }

    #[test]
    fn an_exponent_has_a_sign_and_an_end() {
        for (text, value) in [
            ("0", Some(0)),
            ("+12", Some(12)),
            ("-12", Some(-12)),
            ("-٣", Some(-3)),
            ("99999999999999999999999", Some(LARGEST)),
            ("-99999999999999999999999", Some(-LARGEST)),
            ("", None),
            ("-", None),
            ("--1", None),
            ("1x", None),
        ] {
            assert_eq!(exponent(text), value, "{text}");
        }
    }

    #[test]
    fn digits_of_every_script_are_digits() {
        assert_eq!(in_ascii("-٣.۵e２"), "-3.5e2");
        assert_eq!(in_ascii("é١"), "é1");
        assert_eq!(
            (digit('٩'), digit('a'), digit('\u{1D7CE}')),
            (Some(9), None, None)
        );
    }
}
