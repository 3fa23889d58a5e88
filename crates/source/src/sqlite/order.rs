//! In which order rows are read: by the moment of their date, however it is spelled, and then by id.
//!
//! SQLite compares a date's letters. As long as all dates are written alike, that is the order of their moments, and an index may give it; of
//! dates in several spellings, or of several lengths, each is read first.

use headwater_core::event::Role;
use headwater_core::row::Value;
use headwater_core::window::Key;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::rows::{Layout, quoted};
use super::stream::Setback;
use super::value::{Declared, value};

/// The SQL function that reads a date.
const MOMENT: &str = "headwater_moment";

/// By what rows are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Letters,
    Moments,
}

/// Makes the function known to a connection.
pub(super) fn teach(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(MOMENT, 1, flags, |call| {
        // What is no date comes first, and has a place too: it must not be passed over.
        Ok(match value(call.get_raw(0), Declared::Date) {
            Value::Micros(moment) => moment,
            _ => i64::MIN,
        })
    })
}

impl Order {
    /// Of the rows that a filter leaves, and of the one behind which they are to begin.
    pub(super) fn of(
        connection: &Connection,
        (layout, filter): (&Layout, &str),
        after: Option<&Key>,
    ) -> Result<Order, Setback> {
        let date = quoted(Role::EventDate.name());
        let after = after.and_then(|after| after.event_date.as_ref());
        let after = after.map_or_else(String::new, |date| format!(" UNION ALL SELECT {date}"));
        let sql = format!(
            "SELECT count(DISTINCT typeof(date) || length(date) || substr(date, 11, 1) || (substr(date, -1) = 'Z'))
               FROM (SELECT {date} AS date FROM {} WHERE {filter}{after})",
            layout.table_name()
        );
        let spellings: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(if spellings > 1 {
            Order::Moments
        } else {
            Order::Letters
        })
    }

    /// What stands for a date, in SQL.
    fn date(self, date: &str) -> String {
        match self {
            Order::Letters => date.to_owned(),
            Order::Moments => format!("{MOMENT}({date})"),
        }
    }

    /// For ORDER BY.
    pub(super) fn columns(self) -> String {
        let (date, id) = (quoted(Role::EventDate.name()), quoted(Role::Id.name()));
        format!("{}, {id}", self.date(&date))
    }

    /// Which rows stand behind this one: what is null stands first. Ids that are null have no order, so all of them may come again.
    pub(super) fn behind(self, key: &Key) -> String {
        let (date, id) = (quoted(Role::EventDate.name()), quoted(Role::Id.name()));
        let of_its_date = match &key.id {
            Some(last) => format!("{id} > {last}"),
            None => "TRUE".to_owned(),
        };
        match (&key.event_date, self) {
            (None, Order::Letters) => format!("({date} IS NOT NULL OR {of_its_date})"),
            (at, _) => {
                let at = self.date(at.as_deref().unwrap_or("NULL"));
                let date = self.date(&date);
                format!("{date} >= {at} AND ({date} > {at} OR {of_its_date})")
            }
        }
    }
}
