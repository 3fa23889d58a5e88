//! Scalars: one JSON value that is text, a number or a boolean, as one value of a scalar type.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost_reflect::Kind as Declared;

use super::number::{self, Bad};
use super::wire::{self, Wire};
use crate::document::{Kind, Text, Value};
use crate::unfit::Unfit;
use crate::varint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
}

/// A JSON scalar, however it was written.
#[derive(Debug, Clone, Copy)]
pub enum Token<'d> {
    Text(Text<'d>),
    /// The number's own characters.
    Number(&'d str),
    Bool(bool),
}

/// Why a token is no value of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    Number(Bad),
    NotBool,
    NotBase64,
    LoneSurrogate,
}

/// Was it the default, which a field with implicit presence leaves out?
pub type IsDefault = bool;

impl<'d> Token<'d> {
    /// A list of one stands for its element. None for everything else that is no scalar.
    pub fn of(mut value: Value<'d>) -> Option<Token<'d>> {
        while value.kind() == Kind::Array && value.len() == 1 {
            value = value.elements().next()?;
        }
        match value.kind() {
            Kind::Text => value.text().map(Token::Text),
            Kind::Integer | Kind::Decimal => Some(Token::Number(value.raw())),
            Kind::True => Some(Token::Bool(true)),
            Kind::False => Some(Token::Bool(false)),
            Kind::Object | Kind::Array | Kind::Null => None,
        }
    }

    /// Its characters; half a surrogate pair is replaced, which no number, name or date has.
    pub fn text(self) -> Cow<'d, str> {
        match self {
            Token::Text(text) => text.lossy(),
            Token::Number(number) => Cow::Borrowed(number),
            Token::Bool(bool) => Cow::Borrowed(if bool { "true" } else { "false" }),
        }
    }
}

impl From<Bad> for Flaw {
    fn from(bad: Bad) -> Flaw {
        Flaw::Number(bad)
    }
}

impl Scalar {
    pub fn of(declared: &Declared) -> Option<Scalar> {
        Some(match declared {
            Declared::Double => Scalar::Double,
            Declared::Float => Scalar::Float,
            Declared::Int32 => Scalar::Int32,
            Declared::Int64 => Scalar::Int64,
            Declared::Uint32 => Scalar::Uint32,
            Declared::Uint64 => Scalar::Uint64,
            Declared::Sint32 => Scalar::Sint32,
            Declared::Sint64 => Scalar::Sint64,
            Declared::Fixed32 => Scalar::Fixed32,
            Declared::Fixed64 => Scalar::Fixed64,
            Declared::Sfixed32 => Scalar::Sfixed32,
            Declared::Sfixed64 => Scalar::Sfixed64,
            Declared::Bool => Scalar::Bool,
            Declared::String => Scalar::String,
            Declared::Bytes => Scalar::Bytes,
            Declared::Message(_) | Declared::Enum(_) => return None,
        })
    }

    pub fn wire(self) -> Wire {
        match self {
            Scalar::Double | Scalar::Fixed64 | Scalar::Sfixed64 => Wire::Eight,
            Scalar::Float | Scalar::Fixed32 | Scalar::Sfixed32 => Wire::Four,
            Scalar::String | Scalar::Bytes => Wire::Sized,
            _ => Wire::Varint,
        }
    }

    /// The type's name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Double => "double",
            Scalar::Float => "float",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Uint32 => "uint32",
            Scalar::Uint64 => "uint64",
            Scalar::Sint32 => "sint32",
            Scalar::Sint64 => "sint64",
            Scalar::Fixed32 => "fixed32",
            Scalar::Fixed64 => "fixed64",
            Scalar::Sfixed32 => "sfixed32",
            Scalar::Sfixed64 => "sfixed64",
            Scalar::Bool => "bool",
            Scalar::String => "string",
            Scalar::Bytes => "bytes",
        }
    }

    /// What a value of it must be.
    fn needs(self) -> &'static str {
        match self {
            Scalar::Double => {
                "takes a double value: a decimal number, \"NaN\", \"Infinity\" or \"-Infinity\""
            }
            Scalar::Float => {
                "takes a float value: a number, \"NaN\", \"Infinity\" or \"-Infinity\""
            }
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => {
                "takes an int32 value: a whole number from -2147483648 to 2147483647"
            }
            Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => {
                "takes an int64 value: a whole number from -9223372036854775808 to 9223372036854775807"
            }
            Scalar::Uint32 | Scalar::Fixed32 => {
                "takes a uint32 value: a whole number from 0 to 4294967295"
            }
            Scalar::Uint64 | Scalar::Fixed64 => {
                "takes a uint64 value: a whole number from 0 to 18446744073709551615"
            }
            Scalar::Bool => "takes a bool value: true or false",
            Scalar::String => "takes text",
            Scalar::Bytes => "takes bytes in base64",
        }
    }

    /// The sentence about a value that is no scalar at all.
    pub fn no_scalar(self, value: Value<'_>) -> Unfit {
        let declared = format!(
            "{} (expected type {})",
            self.name(),
            self.name().to_uppercase()
        );
        Unfit::mismatch(declared, self.needs(), value)
    }

    /// The sentence about a value that does not fit. `got` says what was found.
    pub fn flawed(self, flaw: Flaw, got: &str) -> Unfit {
        let why = match flaw {
            Flaw::Number(Bad::OutOfRange) => " (out of range)",
            Flaw::Number(Bad::Fraction) => " (it has a fraction)",
            Flaw::LoneSurrogate => " (half of a surrogate pair is in it, which is no text)",
            Flaw::Number(Bad::NotANumber) | Flaw::NotBool | Flaw::NotBase64 => "",
        };
        Unfit::new(format!("{} {}, got {got}{why}", self.name(), self.needs()))
    }

    /// Writes the value without its tag.
    pub fn write(self, token: Token<'_>, out: &mut Vec<u8>) -> Result<IsDefault, Flaw> {
        match self {
            Scalar::String => string(token, out),
            Scalar::Bytes => bytes(token, out),
            Scalar::Bool => bool(token, out),
            Scalar::Double => {
                let value = double(token)?;
                out.extend_from_slice(&value.to_le_bytes());
                Ok(value.to_bits() == 0)
            }
            Scalar::Float => {
                let value = float(token)?;
                out.extend_from_slice(&value.to_le_bytes());
                Ok(value.to_bits() == 0)
            }
            _ => self.integer(number::whole(&token.text())?, out),
        }
    }

    fn integer(self, value: i128, out: &mut Vec<u8>) -> Result<IsDefault, Flaw> {
        let out_of_range = |_| Flaw::Number(Bad::OutOfRange);
        match self {
            Scalar::Int32 => {
                wire::signed(out, i32::try_from(value).map_err(out_of_range)?.into());
            }
            Scalar::Sint32 => {
                varint::zigzag(out, i32::try_from(value).map_err(out_of_range)?.into());
            }
            Scalar::Sfixed32 => {
                let value = i32::try_from(value).map_err(out_of_range)?;
                out.extend_from_slice(&value.to_le_bytes());
            }
            Scalar::Uint32 => {
                varint::unsigned(out, u32::try_from(value).map_err(out_of_range)?.into());
            }
            Scalar::Fixed32 => {
                let value = u32::try_from(value).map_err(out_of_range)?;
                out.extend_from_slice(&value.to_le_bytes());
            }
            Scalar::Sint64 => varint::zigzag(out, i64::try_from(value).map_err(out_of_range)?),
            Scalar::Sfixed64 => {
                let value = i64::try_from(value).map_err(out_of_range)?;
                out.extend_from_slice(&value.to_le_bytes());
            }
            Scalar::Uint64 => varint::unsigned(out, u64::try_from(value).map_err(out_of_range)?),
            Scalar::Fixed64 => {
                let value = u64::try_from(value).map_err(out_of_range)?;
                out.extend_from_slice(&value.to_le_bytes());
            }
            _ => wire::signed(out, i64::try_from(value).map_err(out_of_range)?),
        }
        Ok(value == 0)
    }
}

fn string(token: Token<'_>, out: &mut Vec<u8>) -> Result<IsDefault, Flaw> {
    let Token::Text(text) = token else {
        let text = token.text();
        varint::unsigned(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
        return Ok(false);
    };
    varint::unsigned(out, text.len() as u64);
    text.append_to(out).map_err(|_| Flaw::LoneSurrogate)?;
    Ok(text.len() == 0)
}

fn bool(token: Token<'_>, out: &mut Vec<u8>) -> Result<IsDefault, Flaw> {
    let value = match (token, &*token.text()) {
        (Token::Number(_), _) => return Err(Flaw::NotBool),
        (_, "true") => true,
        (_, "false") => false,
        _ => return Err(Flaw::NotBool),
    };
    out.push(u8::from(value));
    Ok(!value)
}

fn double(token: Token<'_>) -> Result<f64, Flaw> {
    if let Token::Number(number) = token {
        let value = number::json_double(number)?;
        if value != 0.0 {
            return Ok(value);
        }
    }
    Ok(number::double(&token.text())?)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to the nearest float is wanted"
)]
fn float(token: Token<'_>) -> Result<f32, Flaw> {
    let Token::Number(number) = token else {
        return Ok(number::float(&token.text())?);
    };
    let value = number::json_double(number)? as f32;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Flaw::Number(Bad::OutOfRange))
    }
}

/// Padding is taken off before; bits that are left over mean nothing.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::RequireNone);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

fn bytes(token: Token<'_>, out: &mut Vec<u8>) -> Result<IsDefault, Flaw> {
    let text = token.text();
    let text = text.trim_end_matches('=');
    let size = text.len() / 4 * 3 + (text.len() % 4).saturating_sub(1);
    varint::unsigned(out, size as u64);
    let start = out.len();
    if BASE64.decode_vec(text, out).is_err() {
        out.truncate(start);
        let decoded = BASE64_URL.decode_vec(text, out);
        decoded.map_err(|_| Flaw::NotBase64)?;
    }
    Ok(size == 0)
}
