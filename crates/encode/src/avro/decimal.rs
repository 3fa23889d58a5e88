//! Decimals: a number's own digits at the schema's scale, as two's complement.

use super::number::{Number, Scaled, Unscalable};
use crate::document::Value;
use crate::number::in_ascii;

/// What a schema says about a decimal.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    pub precision: u32,
    pub scale: u32,
    /// The bytes of a fixed; `None`: as many as needed.
    pub size: Option<u32>,
}

/// Why a value is not such a decimal.
#[derive(Debug, PartialEq, Eq)]
pub enum NotDecimal {
    /// Neither a number nor text.
    Kind,
    NotANumber,
    Rounding,
    Precision(i64),
    Bytes(usize),
}

impl Decimal {
    /// Leaves the bytes in `bytes`.
    pub fn encode(self, value: Value<'_>, bytes: &mut Vec<u8>) -> Result<(), NotDecimal> {
        let scaled = match (value.number(), value.text()) {
            (Some(number), _) => self.scaled(Number::json(number))?,
            (_, Some(text)) => {
                let text = text.to_str().map_err(|_| NotDecimal::NotANumber)?;
                let text = in_ascii(&text);
                self.scaled(Number::text(&text).ok_or(NotDecimal::NotANumber)?)?
            }
            _ => return Err(NotDecimal::Kind),
        };
        bytes.clear();
        match scaled {
            Scaled::Small(value) => self.put(minimal(&value.to_be_bytes()), value < 0, bytes),
            Scaled::Large(value) => {
                let negative = value.sign() == num_bigint::Sign::Minus;
                self.put(&value.to_signed_bytes_be(), negative, bytes)
            }
        }
    }

    fn scaled(self, number: Number<'_>) -> Result<Scaled, NotDecimal> {
        let scaled = number.scaled(self.scale, i64::from(self.precision));
        scaled.map_err(|unscalable| match unscalable {
            Unscalable::Rounding => NotDecimal::Rounding,
            Unscalable::Digits(digits) => NotDecimal::Precision(digits),
        })
    }

    fn put(self, unscaled: &[u8], negative: bool, bytes: &mut Vec<u8>) -> Result<(), NotDecimal> {
        let size = self.size.map_or(unscaled.len(), |size| size as usize);
        let Some(padding) = size.checked_sub(unscaled.len()) else {
            return Err(NotDecimal::Bytes(unscaled.len()));
        };
        bytes.resize(padding, if negative { 0xFF } else { 0 });
        bytes.extend_from_slice(unscaled);
        Ok(())
    }
}

/// Without the leading bytes that only repeat the sign.
fn minimal(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, second, ..] = rest {
        let repeats = matches!((first, second >> 7), (0, 0) | (0xFF, 1));
        if !repeats {
            break;
        }
        rest = &rest[1..];
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Document, Limits};

    fn encoded(json: &str, decimal: Decimal) -> Result<Vec<u8>, NotDecimal> {
        let mut document = Document::new();
        let value = document.read(json, &Limits::REFERENCE).expect("is JSON");
        let mut bytes = Vec::new();
        decimal.encode(value.expect("a value"), &mut bytes)?;
        Ok(bytes)
    }

    const WIDE: Decimal = Decimal {
        precision: 60,
        scale: 2,
        size: None,
    };

    #[test]
    fn a_number_is_twos_complement_without_bytes_to_spare() {
        for (json, bytes) in [
            ("0", vec![0]),
            ("-0.0", vec![0]),
            ("1.27", vec![0x7F]),
            ("1.28", vec![0, 0x80]),
            ("-1.28", vec![0x80]),
            ("-1.29", vec![0xFF, 0x7F]),
            ("\"٣.٥\"", vec![0x01, 0x5E]),
            ("\"２５e-1\"", vec![0, 0xFA]),
        ] {
            assert_eq!(encoded(json, WIDE), Ok(bytes), "{json}");
        }
    }

    #[test]
    fn large_and_small_numbers_meet_without_a_seam() {
        for digits in 30..50 {
            for first in ["1", "9", "-1", "-9"] {
                let json = format!("{first}{}.25", "7".repeat(digits));
                let bytes = encoded(&json, WIDE).expect("fits");
                let back = num_bigint::BigInt::from_signed_bytes_be(&bytes);
                assert_eq!(back.to_string(), json.replace('.', ""));
                assert_eq!(back.to_signed_bytes_be(), bytes);
            }
        }
    }
}
