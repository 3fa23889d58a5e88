//! Enum values: by name, by number, or by a number in text.

use super::number;
use super::plan::Enum;
use super::scalar::{IsDefault, Token};
use crate::document::Value;
use crate::unfit::{Unfit, cut};

/// How many of its names a failure lists.
const LISTED: usize = 8;

impl Enum {
    pub fn read(&self, value: Value<'_>) -> Result<(i32, IsDefault), Unfit> {
        let Some(token) = Token::of(value) else {
            let declared = format!("enum {} (expected type ENUM)", self.name);
            return Err(Unfit::mismatch(declared, "takes a name or a number", value));
        };
        let text = token.text();
        if let Ok(place) = self
            .values
            .binary_search_by(|known| (*known.name).cmp(&*text))
        {
            let found = &self.values[place];
            return Ok((found.number, found.is_default));
        }
        let number = number::whole(&text)
            .ok()
            .and_then(|number| i32::try_from(number).ok());
        match number {
            Some(number) if self.open || self.has(number) => Ok((number, self.is_default(number))),
            _ => Err(self.unknown(&text, value)),
        }
    }

    fn has(&self, number: i32) -> bool {
        self.values.iter().any(|value| value.number == number)
    }

    fn is_default(&self, number: i32) -> IsDefault {
        self.values
            .iter()
            .any(|value| value.is_default && value.number == number)
    }

    fn unknown(&self, text: &str, value: Value<'_>) -> Unfit {
        let mut names: Vec<&str> = self
            .values
            .iter()
            .take(LISTED)
            .map(|value| &*value.name)
            .collect();
        if self.values.len() > LISTED {
            names.push("...");
        }
        let needs = format!(
            "has no value {:?} (it has {})",
            cut(text, 40),
            names.join(", ")
        );
        Unfit::mismatch(format!("enum {}", self.name), needs, value)
    }
}
