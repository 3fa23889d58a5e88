//! What becomes of a row: it is published, skipped by rule, or cannot be published. Every row gets exactly one answer.

use crate::event::{Cells, Event, Role, Roles, unfit};
use crate::failure::Failure;
use crate::row::{Change, Row, Value};

/// Why a row is deliberately not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skip {
    /// An action without events: `event_type` is null.
    Sentinel,
    Update,
    Delete,
    Truncate,
    /// By a rule of the user's filter.
    Filtered,
    /// No route takes it, and that is allowed.
    Unrouted,
}

impl Skip {
    pub const ALL: [Skip; 6] = [
        Skip::Sentinel,
        Skip::Update,
        Skip::Delete,
        Skip::Truncate,
        Skip::Filtered,
        Skip::Unrouted,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Skip::Sentinel => "sentinel",
            Skip::Update => "update",
            Skip::Delete => "delete",
            Skip::Truncate => "truncate",
            Skip::Filtered => "filtered",
            Skip::Unrouted => "unrouted",
        }
    }
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack for one row; a box would cost an allocation each"
)]
pub enum Disposition<'r> {
    Keep(Event<'r>),
    Skip(Skip),
    Fail(Failure),
}

/// What is skipped whatever the row holds, and whatever its table looks like.
pub fn skipped(change: Change) -> Option<Skip> {
    match change {
        Change::Insert | Change::Read => None,
        Change::Update => Some(Skip::Update),
        Change::Delete => Some(Skip::Delete),
        Change::Truncate => Some(Skip::Truncate),
    }
}

/// Whether the row is an action's sentinel: nothing else about it matters, not even a column that would fail.
pub fn is_sentinel(row: &Row, roles: &Roles) -> bool {
    *roles.cell(row, Role::EventType) == Value::Null
}

/// Decides. `delivered` is not looked at: a row that in-process handlers have seen already is published like any other.
pub fn classify<'r>(row: &'r Row, roles: &Roles) -> Disposition<'r> {
    if let Some(skip) = skipped(row.change) {
        return Disposition::Skip(skip);
    }
    if is_sentinel(row, roles) {
        return Disposition::Skip(Skip::Sentinel);
    }
    let cells = Cells { row, roles };
    match event(&cells) {
        Ok(event) => Disposition::Keep(event),
        Err(failure) => Disposition::Fail(failure),
    }
}

fn event<'r>(cells: &Cells<'r, '_>) -> Result<Event<'r>, Failure> {
    let event_type = cells.text(Role::EventType)?;
    if *cells.get(Role::Payload) == Value::Null {
        let of = format!("is null in an event of type {}", &*event_type);
        return Err(unfit(Role::Payload, of));
    }
    let blank = || {
        unfit(
            Role::Namespace,
            "is null or blank, and a schema is found by it",
        )
    };
    let namespace = cells.optional_text(Role::Namespace)?.ok_or_else(blank)?;
    if namespace.trim().is_empty() {
        return Err(blank());
    }
    Ok(Event {
        id: cells.text(Role::Id)?,
        namespace,
        action_id: cells.text(Role::ActionId)?,
        action_name: cells.text(Role::ActionName)?,
        action_params: cells.text(Role::ActionParams)?,
        started_date: cells.micros(Role::StartedDate)?,
        completion_date: cells.micros(Role::CompletionDate)?,
        model_id: cells.optional_text(Role::ModelId)?,
        model_type: cells.optional_text(Role::ModelType)?,
        event_type,
        payload: cells.text(Role::Payload)?,
        event_date: cells.micros(Role::EventDate)?,
        delivered: cells.flag(Role::Delivered)?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::Outbox;
    use crate::row::Table;

    fn row(change: Change, with: &[(Role, Value)]) -> Row {
        let mut cells = Role::ALL.map(|role| match role {
            Role::StartedDate | Role::CompletionDate | Role::EventDate => Value::Micros(7),
            Role::Delivered => Value::Bool(false),
            Role::Id | Role::ActionId => Value::Uuid([1; 16]),
            Role::Payload | Role::ActionParams => Value::Text("{}".into()),
            other => Value::Text(other.name().into()),
        });
        for (role, value) in with {
            cells[*role as usize] = value.clone();
        }
        let columns = Role::ALL.map(|role| role.name().to_owned()).to_vec();
        Row {
            table: Arc::new(Table {
                schema: "eventlog".into(),
                name: "events".into(),
                columns,
            }),
            change,
            cells: cells.to_vec(),
        }
    }

    fn answer(change: Change, with: &[(Role, Value)]) -> String {
        let row = row(change, with);
        let roles = Outbox::ekbatan().bind(&row.table).expect("all columns");
        match classify(&row, &roles) {
            Disposition::Keep(event) => format!("keep {}", event.delivered.is_set()),
            Disposition::Skip(skip) => format!("skip {}", skip.name()),
            Disposition::Fail(failure) => failure.to_string(),
        }
    }

    #[test]
    fn only_inserts_and_snapshot_reads_are_kept() {
        assert_eq!(answer(Change::Insert, &[]), "keep false");
        assert_eq!(answer(Change::Read, &[]), "keep false");
        assert_eq!(answer(Change::Update, &[]), "skip update");
        assert_eq!(answer(Change::Delete, &[]), "skip delete");
        assert_eq!(answer(Change::Truncate, &[]), "skip truncate");
    }

    #[test]
    fn a_delivered_row_is_kept_and_says_so() {
        let delivered = |value| answer(Change::Read, &[(Role::Delivered, value)]);
        assert_eq!(delivered(Value::Bool(true)), "keep true");
        assert_eq!(delivered(Value::Int(7)), "keep true");
        assert_eq!(delivered(Value::Int(0)), "keep false");
    }

    #[test]
    fn a_sentinel_is_skipped_whatever_else_it_holds() {
        let sentinel = [
            (Role::EventType, Value::Null),
            (Role::Payload, Value::Null),
            (Role::Namespace, Value::Text("  ".into())),
            (Role::EventDate, Value::Unreadable("infinity".into())),
        ];
        assert_eq!(answer(Change::Insert, &sentinel), "skip sentinel");
    }

    #[test]
    fn what_a_message_needs_and_the_row_lacks_fails_naming_the_column() {
        let text = |text: &'static str| Value::Text(text.into());
        for (role, value, says) in [
            (
                Role::Payload,
                Value::Null,
                "bad_payload: column payload is null in an event of type event_type",
            ),
            (
                Role::Namespace,
                Value::Null,
                "bad_payload: column namespace is null or blank, and a schema is found by it",
            ),
            (
                Role::Namespace,
                text(" \t"),
                "bad_payload: column namespace is null or blank, and a schema is found by it",
            ),
            (
                Role::Id,
                Value::Null,
                "bad_payload: column id is null, and a message needs it",
            ),
            (
                Role::ActionParams,
                Value::Absent,
                "bad_payload: column action_params did not come with the row",
            ),
            (
                Role::EventDate,
                Value::Null,
                "bad_payload: column event_date is null, and a message needs it",
            ),
            (
                Role::EventDate,
                text("now"),
                "bad_payload: column event_date must be a date and time, and is text",
            ),
            (
                Role::Delivered,
                Value::Null,
                "bad_payload: column delivered is null, and a message needs it",
            ),
            (
                Role::Delivered,
                text("t"),
                "bad_payload: column delivered must be a boolean, and is text",
            ),
            (
                Role::EventType,
                Value::Int(3),
                "bad_payload: column event_type must be text, and is a number",
            ),
            (
                Role::Id,
                Value::Bytes(vec![0; 15].into()),
                "bad_payload: column id holds 15 bytes; only 16 are a uuid",
            ),
            (
                Role::StartedDate,
                Value::Unreadable("is infinity".into()),
                "bad_payload: column started_date is infinity",
            ),
        ] {
            assert_eq!(answer(Change::Insert, &[(role, value)]), says);
        }
    }

    #[test]
    fn null_is_fine_where_the_table_allows_it() {
        let nulls = [(Role::ModelId, Value::Null), (Role::ModelType, Value::Null)];
        assert_eq!(answer(Change::Insert, &nulls), "keep false");
    }
}
