//! What a table map may tell beside the types: as much as `binlog_row_metadata` says.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::super::flavor::Flavor;
use super::super::reader::{Malformed, Reader, text};
use super::{Typed, code};

/// By column; empty where the map does not tell.
#[derive(Debug, Default)]
pub(super) struct Metadata<'a> {
    pub names: Option<Vec<&'a str>>,
    pub unsigned: Vec<Option<bool>>,
    pub collations: Vec<Option<u64>>,
    /// Of ENUM and SET.
    pub values: Vec<Option<Vec<&'a [u8]>>>,
}

impl<'a> Metadata<'a> {
    /// Fields with numbers and lengths.
    pub(super) fn read(
        mut reader: Reader<'a>,
        types: &[Typed],
        flavor: Flavor,
    ) -> Result<Metadata<'a>, Malformed> {
        let mut metadata = Metadata {
            collations: vec![None; types.len()],
            values: vec![None; types.len()],
            ..Metadata::default()
        };
        while !reader.is_empty() {
            let field = reader.u8()?;
            let value = Reader(reader.counted()?);
            let choice = |typed: &Typed| matches!(typed.code, code::ENUM | code::SET);
            match field {
                1 => metadata.unsigned = signs(value, types)?,
                2 => metadata
                    .default_collation(value, types, |typed| typed.has_characters(flavor))?,
                3 => metadata.own_collations(value, types, |typed| typed.has_characters(flavor))?,
                4 => metadata.names = Some(names(value, types.len())?),
                5 => metadata.choices(value, types, code::SET)?,
                6 => metadata.choices(value, types, code::ENUM)?,
                10 => metadata.default_collation(value, types, choice)?,
                11 => metadata.own_collations(value, types, choice)?,
                // Kinds of shapes, keys, what is visible, dimensions of vectors, and what will come: no cell is
                // different for them.
                _ => {}
            }
        }
        Ok(metadata)
    }

    /// One for all, then the exceptions: the place among such columns, and its collation.
    fn default_collation(
        &mut self,
        mut reader: Reader<'_>,
        types: &[Typed],
        is_such: impl Fn(&Typed) -> bool,
    ) -> Result<(), Malformed> {
        let usual = reader.packed()?;
        let such = places(types, is_such);
        for place in &such {
            self.put(*place, usual);
        }
        while !reader.is_empty() {
            let place = reader.count()?;
            let collation = reader.packed()?;
            let place = such.get(place).ok_or(WRONG_COLUMN)?;
            self.put(*place, collation);
        }
        Ok(())
    }

    /// One for each such column.
    fn own_collations(
        &mut self,
        mut reader: Reader<'_>,
        types: &[Typed],
        is_such: impl Fn(&Typed) -> bool,
    ) -> Result<(), Malformed> {
        for place in places(types, is_such) {
            let collation = reader.packed()?;
            self.put(place, collation);
        }
        if reader.is_empty() {
            Ok(())
        } else {
            Err(WRONG_COLUMN)
        }
    }

    fn put(&mut self, place: usize, collation: u64) {
        if let Some(told) = self.collations.get_mut(place) {
            *told = Some(collation);
        }
    }

    /// The names of each such column's choices.
    fn choices(
        &mut self,
        mut reader: Reader<'a>,
        types: &[Typed],
        wanted: u8,
    ) -> Result<(), Malformed> {
        for place in places(types, |typed| typed.code == wanted) {
            let count = reader.count()?;
            let mut values = Vec::new();
            for _ in 0..count {
                values.push(reader.counted()?);
            }
            if let Some(told) = self.values.get_mut(place) {
                *told = Some(values);
            }
        }
        Ok(())
    }
}

const WRONG_COLUMN: Malformed =
    Malformed("it tells the character set of a column that is not there");

fn places(types: &[Typed], is_such: impl Fn(&Typed) -> bool) -> Vec<usize> {
    let places = types.iter().enumerate();
    let such = places.filter(|(_, typed)| is_such(typed));
    such.map(|(place, _)| place).collect()
}

/// One bit for each number, the highest first.
fn signs(reader: Reader<'_>, types: &[Typed]) -> Result<Vec<Option<bool>>, Malformed> {
    let mut signs = vec![None; types.len()];
    for (index, place) in places(types, |typed| typed.is_number())
        .into_iter()
        .enumerate()
    {
        let byte = reader.0.get(index / 8).ok_or(super::super::reader::CUT)?;
        let bit = 0x80_u8.checked_shr(u32::try_from(index % 8).unwrap_or_default());
        if let Some(sign) = signs.get_mut(place) {
            *sign = Some(byte & bit.unwrap_or_default() != 0);
        }
    }
    Ok(signs)
}

fn names(mut reader: Reader<'_>, count: usize) -> Result<Vec<&str>, Malformed> {
    let mut names = Vec::new();
    while !reader.is_empty() {
        names.push(text(reader.counted()?)?);
    }
    if names.len() == count {
        Ok(names)
    } else {
        Err(Malformed("it does not name every column"))
    }
}
