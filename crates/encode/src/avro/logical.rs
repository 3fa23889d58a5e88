//! Logical types: which ones count, and on which types. One that does not fit its type is ignored, as Avro says.

use super::decimal::Decimal;

/// A type without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
}

impl Primitive {
    pub const ALL: [Primitive; 8] = [
        Primitive::Null,
        Primitive::Boolean,
        Primitive::Int,
        Primitive::Long,
        Primitive::Float,
        Primitive::Double,
        Primitive::Bytes,
        Primitive::Text,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Primitive::Null => "null",
            Primitive::Boolean => "boolean",
            Primitive::Int => "int",
            Primitive::Long => "long",
            Primitive::Float => "float",
            Primitive::Double => "double",
            Primitive::Bytes => "bytes",
            Primitive::Text => "string",
        }
    }

    pub fn named(name: &str) -> Option<Primitive> {
        Primitive::ALL
            .into_iter()
            .find(|primitive| primitive.name() == name)
    }

    /// As failures tell it.
    pub fn declared(self) -> &'static str {
        match self {
            Primitive::Null => "NULL",
            Primitive::Boolean => "BOOLEAN",
            Primitive::Int => "INT",
            Primitive::Long => "LONG",
            Primitive::Float => "FLOAT",
            Primitive::Double => "DOUBLE",
            Primitive::Bytes => "BYTES",
            Primitive::Text => "STRING",
        }
    }
}

/// What a logical type changes about a value.
#[derive(Debug, Clone, Copy)]
pub enum Meaning {
    /// Nothing; it is only told in failures.
    Plain,
    /// So many units a second.
    Timestamp(u32),
    Date,
    Uuid,
    Decimal(Decimal),
}

/// A logical type that counts.
#[derive(Debug, Clone, Copy)]
pub struct Logical {
    pub meaning: Meaning,
    /// The type with its logical type, as failures tell it.
    pub declared: &'static str,
}

/// `precision` and `scale` as they stand in the schema, if they are whole numbers there; `None` in `scale`: it is no number.
#[derive(Debug, Clone, Copy)]
pub struct Digits {
    pub precision: Option<i64>,
    pub scale: Option<i64>,
}

impl Digits {
    fn decimal(self, size: Option<u32>) -> Option<Decimal> {
        let precision = u32::try_from(self.precision?)
            .ok()
            .filter(|digits| *digits > 0)?;
        let scale = u32::try_from(self.scale?)
            .ok()
            .filter(|scale| *scale <= precision)?;
        let fits = size.is_none_or(|size| precision <= digits_of(size));
        fits.then_some(Decimal {
            precision,
            scale,
            size,
        })
    }
}

/// How many decimal digits always fit into so many bytes.
fn digits_of(size: u32) -> u32 {
    let bits = f64::from(size) * 8.0 - 1.0;
    let digits = (bits * std::f64::consts::LOG10_2).floor();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` cuts at the ends of the range"
    )]
    let digits = digits as u32;
    digits
}

pub fn of_primitive(on: Primitive, name: &str, digits: Digits) -> Option<Logical> {
    use Meaning::{Date, Plain, Timestamp, Uuid};
    let (meaning, declared) = match (on, name) {
        (Primitive::Int, "date") => (Date, "INT/date"),
        (Primitive::Int, "time-millis") => (Plain, "INT/time-millis"),
        (Primitive::Long, "time-micros") => (Plain, "LONG/time-micros"),
        (Primitive::Long, "timestamp-millis") => (Timestamp(1_000), "LONG/timestamp-millis"),
        (Primitive::Long, "timestamp-micros") => (Timestamp(1_000_000), "LONG/timestamp-micros"),
        (Primitive::Long, "timestamp-nanos") => (Timestamp(1_000_000_000), "LONG/timestamp-nanos"),
        (Primitive::Long, "local-timestamp-millis") => (Plain, "LONG/local-timestamp-millis"),
        (Primitive::Long, "local-timestamp-micros") => (Plain, "LONG/local-timestamp-micros"),
        (Primitive::Long, "local-timestamp-nanos") => (Plain, "LONG/local-timestamp-nanos"),
        (Primitive::Text, "uuid") => (Uuid, "STRING/uuid"),
        (Primitive::Bytes, "big-decimal") => (Plain, "BYTES/big-decimal"),
        (Primitive::Bytes, "decimal") => (Meaning::Decimal(digits.decimal(None)?), "BYTES/decimal"),
        _ => return None,
    };
    Some(Logical { meaning, declared })
}

pub fn of_fixed(size: u32, name: &str, digits: Digits) -> Option<Logical> {
    let (meaning, declared) = match (size, name) {
        (16, "uuid") => (Meaning::Uuid, "FIXED/uuid"),
        (12, "duration") => (Meaning::Plain, "FIXED/duration"),
        (_, "decimal") => (
            Meaning::Decimal(digits.decimal(Some(size))?),
            "FIXED/decimal",
        ),
        _ => return None,
    };
    Some(Logical { meaning, declared })
}
