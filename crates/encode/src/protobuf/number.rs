//! Numbers as Java reads them from text: integers and decimals (`BigDecimal`), doubles (`Double.parseDouble`).
//!
//! Rule: time and memory are bounded by the text's length, whatever its exponent says.

use crate::number::{digit, exponent, in_ascii, short};

/// Why a text is no number of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    NotANumber,
    Fraction,
    OutOfRange,
}

/// No integer type has more digits.
const DIGITS: usize = 20;

/// A decimal text, read: its first significant digits, and where the point is.
struct Decimal {
    negative: bool,
    digits: [u8; DIGITS],
    /// From the first digit that is not zero.
    significant: usize,
    /// Up to the last digit that is not zero.
    nonzero: usize,
    /// The value is its significant digits, times ten to the power of this.
    exponent: i64,
}

/// A whole number that may be written with a fraction of zeros or an exponent (`5.0`, `1e3`).
pub fn whole(text: &str) -> Result<i128, Bad> {
    if let Some(number) = short(text) {
        return Ok(i128::from(number));
    }
    let decimal = Decimal::read(text, i64::from(i32::MAX)).ok_or(Bad::NotANumber)?;
    if decimal.nonzero == 0 {
        return Ok(0);
    }
    let zeros = decimal.exponent + count(decimal.significant - decimal.nonzero);
    if zeros < 0 {
        return Err(Bad::Fraction);
    }
    if count(decimal.nonzero) + zeros > count(DIGITS) {
        return Err(Bad::OutOfRange);
    }
    let digits = decimal.digits[..decimal.nonzero].iter();
    let value = digits.fold(0_i128, |value, digit| value * 10 + i128::from(*digit));
    let power = u32::try_from(zeros).unwrap_or_default();
    let value = value * 10_i128.pow(power);
    Ok(if decimal.negative { -value } else { value })
}

fn count(digits: usize) -> i64 {
    i64::try_from(digits).unwrap_or(i64::MAX / 4)
}

/// A decimal as a double. Zero has no sign; what is beyond the largest double does not fit.
pub fn double(text: &str) -> Result<f64, Bad> {
    match text {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => return Ok(f64::INFINITY),
        "-Infinity" => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    let decimal = Decimal::read(text, i64::from(i32::MAX)).ok_or(Bad::NotANumber)?;
    if decimal.nonzero == 0 {
        return Ok(0.0);
    }
    let parsed = in_ascii(text).parse();
    finite(parsed.map_err(|_| Bad::NotANumber)?)
}

/// A JSON number as a double, with zero's sign.
pub fn json_double(number: &str) -> Result<f64, Bad> {
    finite(number.parse().map_err(|_| Bad::NotANumber)?)
}

fn finite(value: f64) -> Result<f64, Bad> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Bad::OutOfRange)
    }
}

/// Text in the syntax of Java's literals: blanks around it, hexadecimal digits and a type's letter are allowed.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to the nearest float is wanted"
)]
pub fn float(text: &str) -> Result<f32, Bad> {
    match text {
        "Infinity" => return Ok(f32::INFINITY),
        "-Infinity" => return Ok(f32::NEG_INFINITY),
        _ => {}
    }
    let text = text.trim_matches(|c| c <= ' ');
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    match unsigned {
        "NaN" => return Ok(f32::NAN),
        "Infinity" => return Err(Bad::OutOfRange),
        _ => {}
    }
    let number = unsigned.strip_suffix(['f', 'F', 'd', 'D']);
    let value = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => hexadecimal(&unsigned[2..]),
        _ => literal(number.unwrap_or(unsigned)),
    };
    let value = value.ok_or(Bad::NotANumber)?;
    let value = if negative { -value } else { value } as f32;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Bad::OutOfRange)
    }
}

fn literal(number: &str) -> Option<f64> {
    let is_unsigned = !number.starts_with(['+', '-']);
    if !is_unsigned || !number.is_ascii() {
        return None;
    }
    Decimal::read(number, i64::MAX / 4)?;
    number.parse().ok()
}

/// What follows `0x`: digits, perhaps a point, and always a power of two (`1.8p3`).
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, power) = text.split_once(['p', 'P'])?;
    let power = power.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(power);
    let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Beyond this every mantissa that fits into memory is zero or infinite.
    let power = digits.parse().unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
        * if power.starts_with('-') { -1 } else { 1 };
    let mut value: u64 = 0;
    let (mut shift, mut any, mut behind_point) = (0_i64, false, false);
    for c in mantissa.chars() {
        if c == '.' && !behind_point {
            behind_point = true;
            continue;
        }
        let digit = u64::from(c.to_digit(16)?);
        any = true;
        if value >> 60 == 0 {
            value = value << 4 | digit;
            shift -= if behind_point { 4 } else { 0 };
        } else {
            // What is cut off only decides between two halves: one bit remembers it.
            value |= u64::from(digit != 0);
            shift += if behind_point { 0 } else { 4 };
        }
    }
    any.then(|| scaled(value, power.saturating_add(shift)))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rounding to the nearest double is wanted"
)]
fn scaled(mantissa: u64, power: i64) -> f64 {
    let mut value = mantissa as f64;
    let mut power = power.clamp(-4000, 4000);
    while power != 0 {
        let step = power.clamp(-500, 500);
        value *= 2_f64.powi(i32::try_from(step).unwrap_or_default());
        power -= step;
    }
    value
}

impl Decimal {
    /// Sign, digits, point, exponent; nothing else. `limit` is how large the exponent may be.
    fn read(text: &str, limit: i64) -> Option<Decimal> {
        let mut decimal = Decimal {
            negative: text.starts_with('-'),
            digits: [0; DIGITS],
            significant: 0,
            nonzero: 0,
            exponent: 0,
        };
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let mut chars = unsigned.chars();
        let (mut any, mut behind_point) = (false, false);
        loop {
            match chars.next() {
                None => break,
                Some('.') if !behind_point => behind_point = true,
                Some('e' | 'E') => {
                    decimal.exponent += exponent(chars.as_str())?;
                    break;
                }
                Some(c) => {
                    any = true;
                    decimal.exponent -= i64::from(behind_point);
                    decimal.push(digit(c)?);
                }
            }
        }
        let fits = decimal.exponent.abs() <= limit;
        (any && fits).then_some(decimal)
    }

    fn push(&mut self, digit: u8) {
        if digit == 0 && self.significant == 0 {
            return;
        }
        if let Some(place) = self.digits.get_mut(self.significant) {
            *place = digit;
        }
        self.significant += 1;
        if digit != 0 {
            self.nonzero = self.significant;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_be_written_as_decimals() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("+9", 9),
            ("12.000", 12),
            ("1e3", 1000),
            ("1.5E1", 15),
            ("-120e-1", -12),
            (".0", 0),
            ("5.", 5),
            ("0e999999999", 0),
            ("00000000000000000000000000000000000000000000007", 7),
            ("18446744073709551615", i128::from(u64::MAX)),
            (
                "18446744073709551615.0000000000000000000000000",
                i128::from(u64::MAX),
            ),
            ("-9223372036854775808", i128::from(i64::MIN)),
            ("٣٤", 34),
        ] {
            assert_eq!(whole(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_number_says_why() {
        for text in [
            "",
            "-",
            "+",
            ".",
            "e5",
            "1e",
            "1e+",
            "--1",
            "1.2.3",
            " 1",
            "1 ",
            "0x10",
            "1_0",
            "NaN",
            "0e99999999999",
        ] {
            assert_eq!(whole(text), Err(Bad::NotANumber), "{text}");
        }
        for text in ["0.5", "1e-1", "-7.25", "1e-999999999"] {
            assert_eq!(whole(text), Err(Bad::Fraction), "{text}");
        }
        for text in ["1e999999999", "1e20", "123456789012345678901"] {
            assert_eq!(whole(text), Err(Bad::OutOfRange), "{text}");
        }
    }

    #[test]
    fn a_doubles_zero_has_no_sign_unless_it_was_only_too_small() {
        let bits = |text: &str| double(text).map(f64::to_bits);
        assert_eq!(bits("-0.0"), Ok(0.0_f64.to_bits()));
        assert_eq!(bits("-1e-400"), Ok((-0.0_f64).to_bits()));
        assert_eq!(bits("٣.٥"), Ok(3.5_f64.to_bits()));
        assert_eq!(double("1e999"), Err(Bad::OutOfRange));
        for text in ["1f", " 1", "inf", "nan", "+Infinity", "0x1p3", "infinity"] {
            assert_eq!(double(text), Err(Bad::NotANumber), "{text}");
        }
    }

    #[test]
    fn a_float_is_written_like_javas_literals() {
        for (text, value) in [
            ("1.5f", 1.5),
            (" 2D\t", 2.0),
            ("0x1.8p3", 12.0),
            ("-0X.8P-1f", -0.25),
            ("0x10p0", 16.0),
            ("0x1p-999999999999999999999", 0.0),
            ("0x00000000000000000000000000001p0", 1.0),
            ("0x1.00000000000000000000000000001p0", 1.0),
            ("1e-99999999999", 0.0),
            ("-0.0", -0.0),
        ] {
            assert_eq!(
                float(text).map(f32::to_bits),
                Ok(f32::to_bits(value)),
                "{text}"
            );
        }
        assert!(float(" -NaN").is_ok_and(f32::is_nan));
        for text in ["1e39", "+Infinity", "0x1p999", "3.4028236e38"] {
            assert_eq!(float(text), Err(Bad::OutOfRange), "{text}");
        }
        for text in ["", "1ff", "0x1", "0xp1", "٣", "1 2", "e1", "+-1", "f"] {
            assert_eq!(float(text), Err(Bad::NotANumber), "{text}");
        }
    }
}
