//! Values without parts: numbers, text, bytes, and what logical types make of them.

use super::base64;
use super::decimal::NotDecimal;
use super::instant;
use super::number::{self, MOST_DIGITS};
use super::plan::{Enum, Node, Shape};
use super::put;
use super::uuid;
use super::value::{Fit, Misfit, Writer};
use crate::document::{Kind, Text, Value};
use crate::unfit::{self, Shown, Unfit};

impl<'d> Writer<'_, 'd> {
    #[inline]
    pub(super) fn leaf(&mut self, node: Node, value: Value<'d>) -> Fit {
        match node.shape {
            Shape::Text => match value.text() {
                Some(text) => self.text(text),
                None => Err(self.mismatch(node, "needs a string", value)),
            },
            Shape::Long => {
                let long = self.whole(node, value, "needs a whole number that fits in a long")?;
                put::long(self.out, long);
                Ok(())
            }
            Shape::Int => self.int(node, value, "needs a whole number that fits in an int"),
            Shape::Timestamp(units) => self.timestamp(node, value, units),
            Shape::Boolean => match value.bool() {
                Some(value) => {
                    self.out.push(u8::from(value));
                    Ok(())
                }
                None => Err(self.mismatch(node, "needs a boolean", value)),
            },
            _ => self.rare(node, value),
        }
    }

    #[inline(never)]
    fn rare(&mut self, node: Node, value: Value<'d>) -> Fit {
        match node.shape {
            Shape::Float => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "to double, then to float: so the reference rounds"
                )]
                let float = self.double(node, value)? as f32;
                if float.is_infinite() {
                    return Err(self.mismatch(
                        node,
                        "has no such number: it is out of range",
                        value,
                    ));
                }
                self.out.extend_from_slice(&float.to_le_bytes());
                Ok(())
            }
            Shape::Double => {
                let double = self.double(node, value)?;
                self.out.extend_from_slice(&double.to_le_bytes());
                Ok(())
            }
            Shape::Date => self.date(node, value),
            Shape::Uuid => {
                let uuid = self.uuid(node, value)?;
                put::bytes(self.out, &uuid);
                Ok(())
            }
            Shape::Decimal(id) => self.decimal(node, id, value),
            Shape::Enum(id) => self.symbol(node, &self.plan.enums[id as usize], value),
            Shape::Bytes => {
                self.base64(node, value)?;
                put::bytes(self.out, &self.desk.scratch);
                Ok(())
            }
            Shape::Fixed(id) => self.fixed(node, id, value),
            Shape::UuidFixed => {
                self.uuid(node, value)?;
                Err(self.mismatch(
                    node,
                    "cannot hold a uuid's text; declare it as a string",
                    value,
                ))
            }
            _ => Err(self.mismatch(node, "needs null", value)),
        }
    }

    #[inline]
    fn text(&mut self, text: Text<'d>) -> Fit {
        put::length(self.out, text.len());
        match text.append_to(self.out) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.lone_surrogate("the text")),
        }
    }

    #[inline]
    fn whole(&self, node: Node, value: Value<'d>, needs: &str) -> Result<i64, Misfit> {
        match value.number() {
            Some(number) => match number::whole(number) {
                Some(whole) => Ok(whole),
                None => Err(self.mismatch(node, needs, value)),
            },
            None => Err(self.mismatch(node, "needs a number", value)),
        }
    }

    fn int(&mut self, node: Node, value: Value<'d>, needs: &str) -> Fit {
        let whole = self.whole(node, value, needs)?;
        if i32::try_from(whole).is_err() {
            return Err(self.mismatch(node, needs, value));
        }
        put::long(self.out, whole);
        Ok(())
    }

    fn double(&self, node: Node, value: Value<'d>) -> Result<f64, Misfit> {
        let Some(number) = value.number() else {
            return Err(self.mismatch(node, "needs a number", value));
        };
        let double: f64 = number.parse().unwrap_or(f64::INFINITY);
        if double.is_infinite() {
            return Err(self.mismatch(node, "has no such number: it is out of range", value));
        }
        // An integer has no negative zero, a decimal has one.
        let is_zero = double == 0.0 && value.kind() == Kind::Integer;
        Ok(if is_zero { 0.0 } else { double })
    }

    #[inline(never)]
    fn timestamp(&mut self, node: Node, value: Value<'d>, units: u32) -> Fit {
        let Some(text) = value.text() else {
            // A number is in the declared unit already.
            let long = match value.number() {
                Some(_) => self.whole(
                    node,
                    value,
                    "needs a whole number of its unit, in the range of a long",
                )?,
                None => {
                    return Err(self.mismatch(node, "needs a number or an ISO-8601 string", value));
                }
            };
            put::long(self.out, long);
            return Ok(());
        };
        let moment = match text.plain() {
            Some(plain) => instant::moment(plain),
            None => text.to_str().ok().and_then(|text| instant::moment(&text)),
        };
        let Some(moment) = moment else {
            return Err(self.not_iso(node, value));
        };
        let Some(long) = moment.in_units(units) else {
            return Err(self.mismatch(
                node,
                "has no such moment: it is outside the range of its unit",
                value,
            ));
        };
        put::long(self.out, long);
        Ok(())
    }

    fn date(&mut self, node: Node, value: Value<'d>) -> Fit {
        let Some(text) = value.text() else {
            return match value.number() {
                Some(_) => self.int(
                    node,
                    value,
                    "needs a whole number of days, in the range of an int",
                ),
                None => Err(self.mismatch(node, "needs a number or an ISO-8601 string", value)),
            };
        };
        let Some(days) = text.to_str().ok().and_then(|text| instant::date(&text)) else {
            return Err(self.not_iso(node, value));
        };
        if i32::try_from(days).is_err() {
            return Err(self.mismatch(
                node,
                "has no such day: it is outside the range of an int",
                value,
            ));
        }
        put::long(self.out, days);
        Ok(())
    }

    #[cold]
    fn not_iso(&self, node: Node, value: Value<'d>) -> Misfit {
        self.unfit(|| {
            let declared = node.declared;
            Unfit::new(format!(
                "{declared}: STRING ({}) is not ISO-8601",
                Shown(value)
            ))
        })
    }

    /// The uuid's text in its canonical form.
    pub(super) fn uuid(&self, node: Node, value: Value<'d>) -> Result<[u8; 36], Misfit> {
        let Some(text) = value.text() else {
            return Err(self.mismatch(node, "needs a string", value));
        };
        let canonical = text.to_str().ok().and_then(|text| uuid::canonical(&text));
        canonical.ok_or_else(|| self.mismatch(node, "needs a uuid, and this is not one", value))
    }

    fn symbol(&mut self, node: Node, known: &Enum, value: Value<'d>) -> Fit {
        let number = value.text().and_then(|text| known.names.get(text));
        if let Some(number) = number {
            put::long(self.out, i64::from(number));
            return Ok(());
        }
        if value.kind() != Kind::Text {
            return Err(self.mismatch(node, "needs a string", value));
        }
        Err(self.unfit(|| {
            let symbols = unfit::listed(known.symbols.iter().map(|symbol| &**symbol));
            Unfit::new(format!(
                "ENUM: STRING ({}) is not one of [{symbols}]",
                Shown(value)
            ))
        }))
    }

    /// Leaves the bytes on the desk.
    fn base64(&mut self, node: Node, value: Value<'d>) -> Fit {
        let decoded = match value.text().map(Text::to_str) {
            Some(Ok(text)) => base64::decode(&text, &mut self.desk.scratch).is_ok(),
            _ => false,
        };
        if decoded {
            Ok(())
        } else {
            Err(self.mismatch(node, "needs a base64 string", value))
        }
    }

    fn fixed(&mut self, node: Node, id: u32, value: Value<'d>) -> Fit {
        self.base64(node, value)?;
        let fixed = &self.plan.fixed[id as usize];
        let (size, got) = (fixed.size, self.desk.scratch.len());
        if got != size {
            return Err(self.unfit(|| {
                let (declared, name) = (node.declared, &fixed.name);
                Unfit::new(format!(
                    "{declared} needs exactly {size} bytes for the fixed type {name}, got {got}"
                ))
            }));
        }
        self.out.extend_from_slice(&self.desk.scratch);
        Ok(())
    }

    fn decimal(&mut self, node: Node, id: u32, value: Value<'d>) -> Fit {
        let decimal = self.plan.decimals[id as usize];
        match decimal.encode(value, &mut self.desk.scratch) {
            Ok(()) if decimal.size.is_none() => put::bytes(self.out, &self.desk.scratch),
            Ok(()) => self.out.extend_from_slice(&self.desk.scratch),
            Err(NotDecimal::Kind) => return Err(self.mismatch(node, "needs a number", value)),
            Err(not) => {
                return Err(self.unfit(|| {
                    let (declared, shown) = (node.declared, Shown(value));
                    let (precision, scale) = (decimal.precision, decimal.scale);
                    let size = decimal.size.unwrap_or_default();
                    Unfit::new(match not {
                        NotDecimal::Rounding => {
                            format!("{declared}: {shown} does not go into scale {scale} without rounding")
                        }
                        NotDecimal::Precision(digits) if digits > MOST_DIGITS && i64::from(precision) >= MOST_DIGITS => {
                            format!("{declared}: {shown} has precision {digits}; more than {MOST_DIGITS} digits are never written")
                        }
                        NotDecimal::Precision(digits) => {
                            format!("{declared}: {shown} has precision {digits} at scale {scale}, and the schema allows {precision}")
                        }
                        NotDecimal::Bytes(needed) => {
                            format!("{declared}: {shown} needs {needed} bytes, and the fixed type holds {size}")
                        }
                        NotDecimal::Kind | NotDecimal::NotANumber => {
                            format!("{declared}: {} ({shown}) is not a number", value.kind())
                        }
                    })
                }));
            }
        }
        Ok(())
    }
}
