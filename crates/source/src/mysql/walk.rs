//! Walks over the rows of one event, one at a time.
//!
//! Every column's length is known, so those of a row that does not matter cost an addition.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::row::{Change, Row, Value};

use super::decode::RowsHead;
use super::inflate;
use super::reader::{CUT, Malformed, Reader};
use super::table::{Definition, Length};
use super::value;

/// The rows of one event that are still to come.
#[derive(Debug)]
pub(super) struct Walk {
    definition: Arc<Definition>,
    change: Change,
    /// After an update; before a delete or an update; of an insert.
    images: Vec<Image>,
    partial: bool,
    rows: Bytes,
    at: usize,
    is_over: bool,
}

/// Which columns a row has.
#[derive(Debug)]
struct Image {
    present: Bytes,
    count: usize,
}

impl Walk {
    /// `body` is the event's, of which the head was read.
    pub(super) fn new(
        definition: Arc<Definition>,
        head: &RowsHead<'_>,
        body: &Bytes,
    ) -> Result<Walk, Malformed> {
        let mut reader = Reader(head.rows);
        if reader.count()? != definition.columns.len() {
            return Err(Malformed(
                "rows with another number of columns than their table",
            ));
        }
        let length = definition.columns.len().div_ceil(8);
        let mut images = Vec::new();
        for _ in 0..if head.change == Change::Update { 2 } else { 1 } {
            let present = body.slice_ref(reader.take(length)?);
            let all = 0..definition.columns.len();
            let count = all.filter(|place| is_set(&present, *place)).count();
            images.push(Image { present, count });
        }
        let rows = if head.compressed {
            inflate::inflate(reader.0)?.into()
        } else {
            body.slice_ref(reader.0)
        };
        Ok(Walk {
            definition,
            change: head.change,
            images,
            partial: head.partial,
            rows,
            at: 0,
            is_over: false,
        })
    }

    /// With bytes of its own: those that it shares are a part of all that came with them, a neighbour's large row among it.
    #[must_use]
    pub(super) fn detached(mut self) -> Walk {
        self.rows = Bytes::copy_from_slice(&self.rows);
        for image in &mut self.images {
            image.present = Bytes::copy_from_slice(&image.present);
        }
        self
    }

    /// How many bytes it holds.
    pub(super) fn size(&self) -> usize {
        self.rows.len()
    }

    /// The next row. There is at least one, though it may have no bytes: an insert that gave no column, whose log has none.
    pub(super) fn next(&mut self) -> Result<Option<Row>, Malformed> {
        if self.is_over {
            return Ok(None);
        }
        let start = self.at;
        let mut change = self.change;
        let cells = match change {
            Change::Insert => self.cells()?,
            _ => self.skip().map(|()| None)?,
        };
        if cells.is_none() && change == Change::Insert {
            change = Change::Update; // what was before one, kept by the server
        }
        self.is_over = self.at >= self.rows.len();
        if !self.is_over && self.at == start {
            return Err(Malformed("rows without columns, and bytes"));
        }
        Ok(Some(Row {
            table: Arc::clone(&self.definition.table),
            change,
            cells: cells.unwrap_or_default(),
        }))
    }

    /// None of a row of the past.
    fn cells(&mut self) -> Result<Option<Vec<Value>>, Malformed> {
        let image = self.images.first().ok_or(CUT)?;
        let mut reader = Reader(self.rows.get(self.at..).ok_or(CUT)?);
        let nulls = reader.take(image.count.div_ceil(8))?;
        let mut cells = Vec::with_capacity(self.definition.table.columns.len());
        let mut given: usize = 0;
        let mut is_past = false;
        for (place, column) in self.definition.columns.iter().enumerate() {
            let is_present = is_set(&image.present, place);
            let is_null = is_present && is_set(nulls, given);
            given = given.saturating_add(usize::from(is_present));
            let cell = if is_present && !is_null {
                cell(&mut reader, column.length)?
            } else {
                &[]
            };
            is_past |= self.definition.row_end == Some(place) && !is_for_ever(cell);
            let Some(kind) = &column.kind else { continue };
            cells.push(match (is_present, is_null) {
                (false, _) => Value::Absent,
                (true, true) => Value::Null,
                (true, false) => value::read(kind, cell, &self.rows),
            });
        }
        self.at = self.rows.len().saturating_sub(reader.0.len());
        Ok((!is_past).then_some(cells))
    }

    /// Passes over one row, of which nothing but its being there matters.
    fn skip(&mut self) -> Result<(), Malformed> {
        let mut reader = Reader(self.rows.get(self.at..).ok_or(CUT)?);
        for (number, image) in self.images.iter().enumerate() {
            if self.partial && number == 1 {
                self.skip_differences(&mut reader)?;
            }
            let nulls = reader.take(image.count.div_ceil(8))?;
            let mut given: usize = 0;
            for (place, column) in self.definition.columns.iter().enumerate() {
                if !is_set(&image.present, place) {
                    continue;
                }
                if !is_set(nulls, given) {
                    cell(&mut reader, column.length)?;
                }
                given = given.saturating_add(1);
            }
        }
        self.at = self.rows.len().saturating_sub(reader.0.len());
        Ok(())
    }

    /// Which JSON columns are told as differences (which are counted like whole ones).
    fn skip_differences(&self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        if reader.packed()? & 1 == 1 {
            let columns = self.definition.columns.iter();
            let json = columns.filter(|column| column.is_json).count();
            reader.skip(json.div_ceil(8))?;
        }
        Ok(())
    }
}

fn cell<'a>(reader: &mut Reader<'a>, length: Length) -> Result<&'a [u8], Malformed> {
    match length {
        Length::Fixed(length) => reader.take(length),
        Length::Counted(bytes) => {
            let length = usize::try_from(reader.uint(bytes)?).map_err(|_| CUT)?;
            reader.take(length)
        }
    }
}

/// The last TIMESTAMP(6) of all: up to MariaDB 11.4 in 2038, then in 2106.
fn is_for_ever(cell: &[u8]) -> bool {
    const MICROS: [u8; 3] = [0x0F, 0x42, 0x3F];
    match cell {
        [0x7F | 0xFF, 0xFF, 0xFF, 0xFF, micros @ ..] => micros == MICROS,
        // Not in the log.
        other => other.is_empty(),
    }
}

/// Bits are counted from each byte's lowest.
fn is_set(bits: &[u8], place: usize) -> bool {
    bits.get(place / 8)
        .is_some_and(|byte| byte >> (place % 8) & 1 == 1)
}
