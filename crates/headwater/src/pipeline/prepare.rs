//! What becomes of one row: classify, encode, address. Pure.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::disposition::{Disposition, Skip, classify, skipped};
use headwater_core::event::{Event, MissingColumns, Outbox, Role, Roles};
use headwater_core::failure::Failure;
use headwater_core::message::{Id, Message};
use headwater_core::route::Route;
use headwater_core::row::{Row, Table, Value};
use headwater_encode::Encoder;

/// What was decided about a row.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// Its messages have been handed over; the event's date.
    Publish {
        event_date: i64,
    },
    Skip(Skip),
    Fail {
        /// The row's id, as far as it has one.
        id: String,
        failure: Failure,
    },
}

#[derive(Debug)]
pub struct Preparer {
    outbox: Outbox,
    encoder: Encoder,
    routes: Vec<Route>,
    /// The roles in the table's present definition, resolved once for each.
    bound: Option<(Arc<Table>, Roles)>,
}

impl Preparer {
    pub fn new(outbox: Outbox, encoder: Encoder, routes: Vec<Route>) -> Preparer {
        Preparer {
            outbox,
            encoder,
            routes,
            bound: None,
        }
    }

    /// Decides about a row; the messages of an event go to `into`, all of them or none.
    pub fn prepare(
        &mut self,
        row: &Row,
        into: &mut impl Extend<Message>,
    ) -> Result<Outcome, MissingColumns> {
        if let Some(skip) = skipped(row.change) {
            return Ok(Outcome::Skip(skip));
        }
        self.bind(&row.table)?;
        let Some((_, roles)) = &self.bound else {
            unreachable!("bound a line ago")
        };
        Ok(match classify(row, roles) {
            Disposition::Skip(skip) => Outcome::Skip(skip),
            Disposition::Fail(failure) => Outcome::Fail {
                id: id(row, roles),
                failure,
            },
            Disposition::Keep(event) => match messages(&mut self.encoder, &mut self.routes, &event)
            {
                Ok(messages) => {
                    into.extend(messages);
                    Outcome::Publish {
                        event_date: event.event_date,
                    }
                }
                Err(failure) => Outcome::Fail {
                    id: event.id.to_string(),
                    failure,
                },
            },
        })
    }

    /// What was noticed about payloads since it was last asked; each thing once. Without a notice nothing is allocated.
    pub fn notices(&mut self) -> Vec<String> {
        self.encoder.notices()
    }

    /// How many members of payloads have been dropped because their schema does not have them.
    pub fn unknown_members(&self) -> u64 {
        self.encoder.unknown_members()
    }

    fn bind(&mut self, table: &Arc<Table>) -> Result<(), MissingColumns> {
        if !matches!(&self.bound, Some((bound, _)) if Arc::ptr_eq(bound, table)) {
            let roles = self.outbox.bind(table)?;
            self.bound = Some((Arc::clone(table), roles));
        }
        Ok(())
    }
}

/// One message a route; the value is encoded once and shared.
fn messages(
    encoder: &mut Encoder,
    routes: &mut [Route],
    event: &Event<'_>,
) -> Result<Vec<Message>, Failure> {
    let value = Bytes::copy_from_slice(encoder.encode(event)?);
    routes
        .iter_mut()
        .map(|route| {
            Ok(Message {
                id: Id::from(&*event.id),
                address: route.address(event)?,
                content: encoder.content(),
                value: value.clone(),
            })
        })
        .collect()
}

/// The id of a row that may lack anything.
fn id(row: &Row, roles: &Roles) -> String {
    match roles.cell(row, Role::Id) {
        Value::Text(text) => text.to_string(),
        Value::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).to_string(),
        // As the message says it: MariaDB's log does not tell a uuid from other 16 bytes.
        other @ Value::Bytes(bytes) => match uuid::Uuid::from_slice(bytes) {
            Ok(uuid) => uuid.to_string(),
            Err(_) => format!("({})", other.kind()),
        },
        other => format!("({})", other.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_id_whatever_its_column_is_made_of() {
        let table = Arc::new(Table {
            schema: "eventlog".into(),
            name: "events".into(),
            columns: Role::ALL.map(|role| role.name().to_owned()).to_vec(),
        });
        let roles = Outbox::ekbatan().bind(&table).unwrap();
        let told = |value: Value| {
            let mut cells = vec![Value::Null; Role::ALL.len()];
            cells[0] = value;
            let row = Row {
                table: Arc::clone(&table),
                change: headwater_core::row::Change::Insert,
                cells,
            };
            id(&row, &roles)
        };
        let text = "01010101-0101-0101-0101-010101010101";
        assert_eq!(told(Value::Text(text.into())), text);
        assert_eq!(told(Value::Uuid([1; 16])), text);
        assert_eq!(told(Value::Bytes(Bytes::from_static(&[1; 16]))), text);
        assert_eq!(told(Value::Bytes(Bytes::from_static(&[1; 15]))), "(bytes)");
        assert_eq!(told(Value::Null), "(null)");
    }
}
