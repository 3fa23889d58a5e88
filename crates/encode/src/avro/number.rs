//! A decimal number by its own digits, never through a floating-point one.

use num_bigint::BigInt;

use crate::number::{exponent, short};

/// More digits are never written, whatever a schema's precision says: `1e999999999` would otherwise be built.
pub const MOST_DIGITS: i64 = 10_000;
/// An `i128` holds every number of so many digits.
const SMALL_DIGITS: i64 = 38;

/// `-12.50e3` in its parts.
#[derive(Debug, Clone, Copy)]
pub struct Number<'t> {
    negative: bool,
    whole: &'t [u8],
    fraction: &'t [u8],
    exponent: i64,
}

/// A number times a power of ten.
#[derive(Debug, PartialEq, Eq)]
pub enum Scaled {
    Small(i128),
    Large(BigInt),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Unscalable {
    /// Digits would be lost.
    Rounding,
    /// It has so many digits, more than wanted.
    Digits(i64),
}

impl<'t> Number<'t> {
    /// A JSON number, which the reader has found well formed.
    pub fn json(text: &'t str) -> Number<'t> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], exponent(&text[at + 1..]).unwrap_or(i64::MAX)),
            None => (text, 0),
        };
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        Number::of(negative, mantissa, exponent)
    }

    /// Text as Java's `BigDecimal` takes it, its digits already ASCII.
    pub fn text(text: &'t str) -> Option<Number<'t>> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => {
                let exponent = exponent(&text[at + 1..])?;
                (&text[..at], i64::from(i32::try_from(exponent).ok()?))
            }
            None => (text, 0),
        };
        let (negative, mantissa) = match mantissa.as_bytes().first()? {
            b'-' => (true, &mantissa[1..]),
            b'+' => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let number = Number::of(negative, mantissa, exponent);
        let mut digits = number.whole.iter().chain(number.fraction);
        let has_digits = number.whole.len() + number.fraction.len() > 0;
        (has_digits && digits.all(u8::is_ascii_digit)).then_some(number)
    }

    fn of(negative: bool, mantissa: &'t str, exponent: i64) -> Number<'t> {
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Number {
            negative,
            whole: whole.as_bytes(),
            fraction: fraction.as_bytes(),
            exponent,
        }
    }

    /// Its digits without leading zeros.
    fn digits(self) -> impl DoubleEndedIterator<Item = u8> + Clone {
        let zeros = self.whole.iter().take_while(|digit| **digit == b'0');
        let whole = &self.whole[zeros.count()..];
        let mut fraction = self.fraction;
        if whole.is_empty() {
            let zeros = fraction.iter().take_while(|digit| **digit == b'0');
            fraction = &fraction[zeros.count()..];
        }
        whole.iter().chain(fraction).copied()
    }

    /// It times ten to the power of `scale`, if that is whole and has at most `most` digits. Sizes are compared before
    /// anything is built.
    pub fn scaled(self, scale: u32, most: i64) -> Result<Scaled, Unscalable> {
        let digits = self.digits();
        let significant = length(digits.clone().count());
        if significant == 0 {
            return Ok(Scaled::Small(0));
        }
        let shift = self
            .exponent
            .saturating_sub(length(self.fraction.len()))
            .saturating_add(i64::from(scale));
        let trailing = digits.clone().rev().take_while(|digit| *digit == b'0');
        if shift.saturating_neg() > length(trailing.count()) {
            return Err(Unscalable::Rounding);
        }
        let all = significant.saturating_add(shift);
        if all > most.min(MOST_DIGITS) {
            return Err(Unscalable::Digits(all));
        }
        let kept = usize::try_from(all.min(significant)).unwrap_or_default();
        let zeros = usize::try_from(shift.max(0)).unwrap_or_default();
        let written = digits.take(kept).chain(std::iter::repeat_n(b'0', zeros));
        Ok(if all <= SMALL_DIGITS {
            let value = written.fold(0, |sum: i128, digit| sum * 10 + i128::from(digit - b'0'));
            Scaled::Small(if self.negative { -value } else { value })
        } else {
            let ascii: Vec<u8> = written.collect();
            let value = BigInt::parse_bytes(&ascii, 10).unwrap_or_default();
            Scaled::Large(if self.negative { -value } else { value })
        })
    }
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A whole number in the range of a long; `None` if it has a fraction or is outside.
#[inline]
pub fn whole(text: &str) -> Option<i64> {
    match short(text) {
        Some(value) => Some(value),
        None => match Number::json(text).scaled(0, 19) {
            Ok(Scaled::Small(value)) => i64::try_from(value).ok(),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_read_exactly_however_it_is_written() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("25e2", Some(2500)),
            ("8.0", Some(8)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("922337203685477580700e-2", Some(i64::MAX)),
            ("9.223372036854775807e18", Some(i64::MAX)),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e19", None),
            ("0e999999999999999999999", Some(0)),
            ("1e-999999999999999999999", None),
            ("8.999", None),
            ("-0.75", None),
            ("0.000", Some(0)),
        ] {
            assert_eq!(whole(text), expected, "{text}");
        }
    }

    #[test]
    fn digits_are_counted_before_they_are_built() {
        let huge = Number::json("1e999999999").scaled(3, 9);
        assert_eq!(huge, Err(Unscalable::Digits(1_000_000_003)));
        let huge = Number::json("1e999999999").scaled(3, 2_000_000_000);
        assert_eq!(huge, Err(Unscalable::Digits(1_000_000_003)));
        let tiny = Number::json("1e-999999999").scaled(3, 9);
        assert_eq!(tiny, Err(Unscalable::Rounding));
    }

    #[test]
    fn text_is_taken_as_java_takes_it() {
        for good in ["5", "+5", "-.5", "5.", "1e3", "1E+3", "0.10", "00012"] {
            assert!(Number::text(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "+",
            ".",
            "e3",
            "1e",
            "1e+",
            "1_0",
            "0x1",
            "1 ",
            "12,5",
            "--1",
            "1.2.3",
            "1e99999999999",
        ] {
            assert!(Number::text(bad).is_none(), "{bad}");
        }
    }
}
