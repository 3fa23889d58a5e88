//! Which of the log's tables is the outbox, and how it is described.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::row::{Change, Row, Table};

use super::super::decode::TableMap;
use super::super::table::{self, Definition, Unfit};
use super::{Out, Rows, Trouble, advice};

impl Rows {
    pub(super) fn describe(&mut self, map: &TableMap<'_>) -> Result<(), Trouble> {
        if map.schema != self.schema.as_bytes() || map.name != self.table.as_bytes() {
            self.tables.insert(map.id, None);
            return Ok(());
        }
        let definition = match &self.known {
            Some((bytes, known)) if *bytes == map.columns => Arc::clone(known),
            _ => self.define(map)?,
        };
        self.tables.insert(map.id, Some(definition));
        Ok(())
    }

    fn define(&mut self, map: &TableMap<'_>) -> Result<Arc<Definition>, Trouble> {
        let layout = self.layout.as_ref();
        let defined = table::define(self.flavor, self.outbox(), map.columns, layout);
        let definition = match defined {
            Ok(definition) => Arc::new(definition),
            Err(Unfit::Malformed(malformed)) => return Err(malformed.into()),
            Err(unfit) => return Err(advice::unfit(&unfit, self.outbox(), self.place()).into()),
        };
        // A copy: what is remembered must not hold the bytes of all that came with it.
        let columns = Bytes::copy_from_slice(map.columns);
        self.known = Some((columns, Arc::clone(&definition)));
        Ok(definition)
    }

    pub(super) fn truncate(&mut self) {
        let table = match &self.known {
            Some((_, known)) => Arc::clone(&known.table),
            // Nobody looks at the columns of such a row.
            None => Arc::new(Table {
                schema: self.schema.clone(),
                name: self.table.clone(),
                columns: Vec::new(),
            }),
        };
        self.out.push_back(Out::Row(Row {
            table,
            change: Change::Truncate,
            cells: Vec::new(),
        }));
    }
}
