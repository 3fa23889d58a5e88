//! A double as Java writes it: `Double.toString`, or the exact value in plain digits where that would have an exponent.
//!
//! Java's digits are those of JDK 19 and later: the fewest that mean this double, and of those the nearest. Earlier ones
//! wrote a digit too many now and then (2.0E-3 is one of theirs: JDK-4511638 tells the rest). Which of them Kafka Connect ran
//! on cannot be known; the fewest digits are what the manual of all of them promised.
#![deny(clippy::indexing_slicing)]

use super::super::reader::Malformed;
use std::fmt::Write as _;

/// Java switches to exponents outside of this range.
const PLAIN: std::ops::Range<f64> = 1e-3..1e7;

pub(super) fn write(number: f64, text: &mut String) -> Result<(), Malformed> {
    if !number.is_finite() {
        return Err(Malformed("a number that is none"));
    }
    if number == 0.0 || PLAIN.contains(&number.abs()) {
        // Rust's shortest digits are the fewest and nearest, too; with one digit alone it stays exact here, for the point
        // and a zero are added to it.
        let _ = write!(text, "{number:?}");
    } else {
        let _ = write!(text, "{number:.*}", fraction_digits(number));
    }
    Ok(())
}

/// How many decimal digits stand behind the point of a double's exact value: as many as binary ones.
fn fraction_digits(number: f64) -> usize {
    let bits = number.to_bits();
    let exponent = i64::try_from(bits >> 52 & 0x7FF).unwrap_or_default();
    let mantissa = bits & ((1 << 52) - 1);
    // A number below the normal ones has no implied leading one.
    let (mantissa, exponent) = if exponent == 0 {
        (mantissa, 1)
    } else {
        (mantissa | 1 << 52, exponent)
    };
    let whole = exponent.saturating_add(i64::from(mantissa.trailing_zeros()));
    usize::try_from(1075_i64.saturating_sub(whole)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: f64) -> String {
        let mut text = String::new();
        write(number, &mut text).expect("a number");
        text
    }

    #[test]
    fn doubles_are_written_as_java_does() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (77.1, "77.1"),
            (-12.5, "-12.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.001, "0.001"),
            (9_999_999.999, "9999999.999"),
            (1e7, "10000000"),
            (12_345_678.9, "12345678.90000000037252902984619140625"),
            (1e22, "10000000000000000000000"),
            (1e23, "99999999999999991611392"),
            (-1e7, "-10000000"),
        ] {
            assert_eq!(text(number), expected);
        }
        assert!(text(5e-324).starts_with("0.000"));
        assert!(text(5e-324).ends_with("625"));
        assert_eq!(text(f64::MAX).len(), 309);
    }

    #[test]
    fn what_is_no_number_is_malformed() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(write(number, &mut String::new()).is_err());
        }
    }
}
