//! Enum values: by name, by number, or by a number in text.

use super::number;
use super::plan::Enum;
use super::scalar::{IsDefault, Token};
use crate::document::Value;
use crate::unfit::{Unfit, cut, listed};

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
        let names = listed(self.values.iter().map(|value| &*value.name));
        let needs = format!("has no value {:?} (it has {names})", cut(text, 40));
        Unfit::mismatch(format!("enum {}", self.name), needs, value)
    }
}
