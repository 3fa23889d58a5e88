//! Which column plays which role (`Outbox`), and a row that is to be published (`Event`).

use std::fmt;
use std::ops::Deref;

use crate::failure::Failure;
use crate::row::{Row, Table, Value};

/// The part that a column plays. The order is that of Ekbatan's table, and of every message's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Id,
    Namespace,
    ActionId,
    ActionName,
    ActionParams,
    StartedDate,
    CompletionDate,
    ModelId,
    ModelType,
    EventType,
    Payload,
    EventDate,
    Delivered,
}

impl Role {
    pub const ALL: [Role; 13] = [
        Role::Id,
        Role::Namespace,
        Role::ActionId,
        Role::ActionName,
        Role::ActionParams,
        Role::StartedDate,
        Role::CompletionDate,
        Role::ModelId,
        Role::ModelType,
        Role::EventType,
        Role::Payload,
        Role::EventDate,
        Role::Delivered,
    ];

    /// The name of its field in messages and templates.
    pub fn name(self) -> &'static str {
        match self {
            Role::Id => "id",
            Role::Namespace => "namespace",
            Role::ActionId => "action_id",
            Role::ActionName => "action_name",
            Role::ActionParams => "action_params",
            Role::StartedDate => "started_date",
            Role::CompletionDate => "completion_date",
            Role::ModelId => "model_id",
            Role::ModelType => "model_type",
            Role::EventType => "event_type",
            Role::Payload => "payload",
            Role::EventDate => "event_date",
            Role::Delivered => "delivered",
        }
    }

    /// Dates, flags and uuids are never JSON; a text may be.
    pub(crate) fn may_hold_json(self) -> bool {
        !matches!(
            self,
            Role::Id
                | Role::ActionId
                | Role::StartedDate
                | Role::CompletionDate
                | Role::EventDate
                | Role::Delivered
        )
    }

    /// A table may lack its column: no event needs it.
    pub(crate) fn may_be_missing(self) -> bool {
        matches!(self, Role::ModelId | Role::ModelType)
    }

    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The layout of an outbox table: the column that plays each role.
#[derive(Debug, Clone)]
pub struct Outbox {
    columns: [String; Role::ALL.len()],
}

/// A table cannot be the outbox: it lacks these columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingColumns {
    pub table: String,
    pub columns: Vec<String>,
}

impl fmt::Display for MissingColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {} has no column {}: it cannot be read as an outbox; add the column, or name the right table in source.table",
            self.table,
            self.columns.join(", ")
        )
    }
}

impl Outbox {
    /// The table of the Java framework Ekbatan: columns are named like their roles.
    pub fn ekbatan() -> Outbox {
        Outbox {
            columns: Role::ALL.map(|role| role.name().to_owned()),
        }
    }

    /// The part that a column plays, if any.
    pub fn role(&self, column: &str) -> Option<Role> {
        let plays = |role: &Role| self.columns[*role as usize] == column;
        Role::ALL.into_iter().find(plays)
    }

    /// Finds the role columns of one definition of the table, once.
    pub fn bind(&self, table: &Table) -> Result<Roles, MissingColumns> {
        let found = self
            .columns
            .each_ref()
            .map(|name| table.columns.iter().position(|column| column == name));
        let missing: Vec<String> = Role::ALL
            .into_iter()
            .filter(|role| found[*role as usize].is_none() && !role.may_be_missing())
            .map(|role| self.columns[role as usize].clone())
            .collect();
        if missing.is_empty() {
            Ok(Roles(found))
        } else {
            Err(MissingColumns {
                table: format!("{}.{}", table.schema, table.name),
                columns: missing,
            })
        }
    }
}

/// The index of the column that plays each role, in one definition of a table.
#[derive(Debug, Clone)]
pub struct Roles([Option<usize>; Role::ALL.len()]);

impl Roles {
    /// The cell that plays a role; null if the table lacks a column that it may lack.
    pub fn cell<'r>(&self, row: &'r Row, role: Role) -> &'r Value {
        static NULL: Value = Value::Null;
        static ABSENT: Value = Value::Absent;
        match self.0[role as usize] {
            // A row is as long as its table's definition, so it is there.
            Some(index) => row.cells.get(index).unwrap_or(&ABSENT),
            None => &NULL,
        }
    }

    /// The place of the column that plays a role.
    pub fn index(&self, role: Role) -> Option<usize> {
        self.0[role as usize]
    }
}

/// Text of a cell: as it was received, or a uuid in its canonical form.
#[derive(Debug, Clone, Copy)]
pub enum Text<'r> {
    Plain(&'r str),
    Uuid([u8; 36]),
}

impl Text<'_> {
    pub(crate) fn uuid(bytes: &[u8; 16]) -> Text<'static> {
        Text::Uuid(hyphenated(bytes))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Plain(text) => text,
            // Only ASCII digits are ever put there.
            Text::Uuid(text) => std::str::from_utf8(text).unwrap_or_default(),
        }
    }
}

/// A yes or no, as the database holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    Bool(bool),
    /// MySQL and MariaDB have numbers for it; any but 0 means yes.
    Number(i64),
}

impl Flag {
    pub fn is_set(self) -> bool {
        match self {
            Flag::Bool(bool) => bool,
            Flag::Number(number) => number != 0,
        }
    }
}

/// A row that is to be published. Every field holds what a message needs.
#[derive(Debug)]
pub struct Event<'r> {
    pub id: Text<'r>,
    pub namespace: Text<'r>,
    pub action_id: Text<'r>,
    pub action_name: Text<'r>,
    pub action_params: Text<'r>,
    pub started_date: i64,
    pub completion_date: i64,
    pub model_id: Option<Text<'r>>,
    pub model_type: Option<Text<'r>>,
    pub event_type: Text<'r>,
    pub payload: Text<'r>,
    pub event_date: i64,
    pub delivered: Flag,
}

/// Reads the cells of one row by role, by what the value is and never by dialect.
pub(crate) struct Cells<'r, 'o> {
    pub row: &'r Row,
    pub roles: &'o Roles,
}

impl<'r> Cells<'r, '_> {
    pub fn get(&self, role: Role) -> &'r Value {
        self.roles.cell(self.row, role)
    }

    pub fn text(&self, role: Role) -> Result<Text<'r>, Failure> {
        self.optional_text(role)?
            .ok_or_else(|| unfit(role, "is null, and a message needs it"))
    }

    pub fn optional_text(&self, role: Role) -> Result<Option<Text<'r>>, Failure> {
        match self.get(role) {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(Text::Plain(text))),
            Value::Uuid(bytes) => Ok(Some(Text::Uuid(hyphenated(bytes)))),
            Value::Bytes(bytes) => match <&[u8; 16]>::try_from(bytes.as_ref()) {
                Ok(bytes) => Ok(Some(Text::Uuid(hyphenated(bytes)))),
                Err(_) => Err(unfit(
                    role,
                    format!("holds {} bytes; only 16 are a uuid", bytes.len()),
                )),
            },
            other => Err(mismatch(role, "text", other)),
        }
    }

    pub fn micros(&self, role: Role) -> Result<i64, Failure> {
        match self.get(role) {
            Value::Micros(micros) => Ok(*micros),
            other => Err(mismatch(role, "a date and time", other)),
        }
    }

    pub fn flag(&self, role: Role) -> Result<Flag, Failure> {
        match self.get(role) {
            Value::Bool(bool) => Ok(Flag::Bool(*bool)),
            Value::Int(number) => Ok(Flag::Number(*number)),
            other => Err(mismatch(role, "a boolean", other)),
        }
    }
}

fn mismatch(role: Role, wanted: &str, got: &Value) -> Failure {
    match got {
        Value::Null => unfit(role, "is null, and a message needs it"),
        Value::Absent => unfit(role, "did not come with the row"),
        Value::Unreadable(what) => unfit(role, what),
        other => unfit(role, format!("must be {wanted}, and is {}", other.kind())),
    }
}

pub(crate) fn unfit(role: Role, what: impl fmt::Display) -> Failure {
    Failure::bad_payload(format!("column {} {what}", role.name()))
}

pub(crate) fn hyphenated(bytes: &[u8; 16]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut places = (0..36).filter(|place| ![8, 13, 18, 23].contains(place));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            if let Some(place) = places.next() {
                text[place] = DIGITS[usize::from(digit)];
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_uuid_is_written_in_lower_case_with_hyphens() {
        let bytes: [u8; 16] = std::array::from_fn(|i| u8::try_from(i * 17).expect("small"));
        let text = Text::Uuid(hyphenated(&bytes));
        assert_eq!(&*text, "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn columns_are_found_by_name_wherever_they_stand() {
        let mut columns: Vec<String> = Role::ALL.map(|r| r.name().to_owned()).to_vec();
        columns.reverse();
        columns.insert(3, "tenant".into());
        let table = Table {
            schema: "eventlog".into(),
            name: "events".into(),
            columns,
        };
        let roles = Outbox::ekbatan().bind(&table).expect("all are there");
        for role in Role::ALL {
            let index = roles.0[role as usize].expect("a column");
            assert_eq!(table.columns[index], role.name());
        }
    }

    #[test]
    fn a_table_without_the_models_columns_is_an_outbox_whose_models_are_null() {
        let has = |role: &Role| !role.may_be_missing();
        let table = Arc::new(Table {
            schema: "eventlog".into(),
            name: "events".into(),
            columns: (Role::ALL.iter().filter(|role| has(role)))
                .map(|role| role.name().to_owned())
                .collect(),
        });
        let roles = Outbox::ekbatan().bind(&table).expect("an outbox");
        let row = Row {
            cells: vec![Value::Bool(true); table.columns.len()],
            change: crate::row::Change::Insert,
            table,
        };
        assert_eq!(roles.cell(&row, Role::ModelId), &Value::Null);
        assert_eq!(roles.cell(&row, Role::ModelType), &Value::Null);
        assert_eq!(roles.cell(&row, Role::Delivered), &Value::Bool(true));
    }

    #[test]
    fn a_table_without_a_role_column_is_refused_naming_it() {
        let table = Table {
            schema: "eventlog".into(),
            name: "events".into(),
            columns: Role::ALL[..11]
                .iter()
                .map(|r| r.name().to_owned())
                .collect(),
        };
        let missing = Outbox::ekbatan().bind(&table).expect_err("two lack");
        assert_eq!(missing.columns, ["event_date", "delivered"]);
        assert!(missing.to_string().contains("eventlog.events"));
    }
}
