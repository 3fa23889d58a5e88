//! Values in a document that are none of JSON's: decimals, dates and times, and bytes.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::reader::{Malformed, Reader};
use super::super::table::{self, code};

pub(super) fn write(kind: u8, value: &[u8], text: &mut String) -> Result<(), Malformed> {
    match kind {
        0 | code::NEWDECIMAL => decimal(value, text)?,
        code::DATE => {
            let moment = Moment::read(value)?;
            let _ = write!(text, "\"{}\"", moment.date());
        }
        code::TIME | code::TIME2 => time(value, text)?,
        code::DATETIME | code::DATETIME2 | code::TIMESTAMP | code::TIMESTAMP2 => {
            let moment = Moment::read(value)?;
            let _ = write!(text, "\"{} {}", moment.date(), moment.clock(31));
            fraction(moment.micros, text);
            text.push('"');
        }
        _ => {
            text.push('"');
            STANDARD.encode_string(value, text);
            text.push('"');
        }
    }
    Ok(())
}

/// Eight bytes: 40 bits as in a DATETIME column, then 24 of microseconds.
struct Moment {
    packed: u64,
    micros: u64,
}

impl Moment {
    fn read(value: &[u8]) -> Result<Moment, Malformed> {
        let raw = Reader(value).u64()?;
        Ok(Moment {
            packed: raw >> 24,
            micros: raw & 0xFF_FFFF,
        })
    }

    fn date(&self) -> String {
        let months = self.packed >> 22 & 0x1_FFFF;
        let day = self.packed >> 17 & 31;
        format!("{:04}-{:02}-{day:02}", months / 13, months % 13)
    }

    fn clock(&self, hours: u64) -> String {
        let hour = self.packed >> 12 & hours;
        let (minute, second) = (self.packed >> 6 & 63, self.packed & 63);
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

/// The whole number is negative if the time is; hours go to 838. (Debezium writes other digits for those below zero: its
/// shifts are not meant for them.)
fn time(value: &[u8], text: &mut String) -> Result<(), Malformed> {
    let raw = Reader(value).array().map(i64::from_le_bytes)?;
    let moment = Moment::read(&raw.unsigned_abs().to_le_bytes())?;
    let sign = if raw < 0 { "-" } else { "" };
    let _ = write!(text, "\"{sign}{}", moment.clock(1023));
    fraction(moment.micros, text);
    text.push('"');
    Ok(())
}

fn fraction(micros: u64, text: &mut String) {
    if micros > 0 {
        let digits = format!("{micros:06}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
}

/// Precision and scale, then as in a column: nine digits are four bytes, the highest first; all bytes are inverted below
/// zero, and the first bit is inverted always.
fn decimal(value: &[u8], text: &mut String) -> Result<(), Malformed> {
    const WRONG: Malformed = Malformed("a decimal of unknown form");
    let mut reader = Reader(value);
    let precision = usize::from(reader.u8()?);
    let scale = usize::from(reader.u8()?);
    if precision > 81 || table::decimal(precision, scale)? != reader.0.len() {
        return Err(WRONG);
    }
    let is_negative = reader.0.first().is_some_and(|byte| byte & 0x80 == 0);
    let mut bytes = reader.0.to_vec();
    if let Some(first) = bytes.first_mut() {
        *first ^= 0x80;
    }
    if is_negative {
        for byte in &mut bytes {
            *byte = !*byte;
        }
    }
    let mut digits = Reader(&bytes);
    let whole = precision.saturating_sub(scale);
    let mut before = part(&mut digits, whole % 9).map_err(|_| WRONG)?;
    for _ in 0..whole / 9 {
        before.push_str(&part(&mut digits, 9)?);
    }
    let mut behind = String::new();
    for _ in 0..scale / 9 {
        behind.push_str(&part(&mut digits, 9)?);
    }
    behind.push_str(&part(&mut digits, scale % 9)?);
    let before = before.trim_start_matches('0');
    let is_zero = before.is_empty() && behind.bytes().all(|digit| digit == b'0');
    if is_negative && !is_zero {
        text.push('-');
    }
    text.push_str(if before.is_empty() { "0" } else { before });
    if scale > 0 {
        let _ = write!(text, ".{behind}");
    }
    Ok(())
}

/// Up to nine digits.
fn part(reader: &mut Reader<'_>, digits: usize) -> Result<String, Malformed> {
    if digits == 0 {
        return Ok(String::new());
    }
    let bytes = reader.take(table::decimal(digits, 0)?)?;
    let number = bytes
        .iter()
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let text = format!("{number:0digits$}");
    if text.len() == digits {
        Ok(text)
    } else {
        Err(Malformed("a decimal of unknown form"))
    }
}
