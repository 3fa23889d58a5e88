//! Which rows of the table, by what every outbox has: the event's date, and the id among events of one date.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::instant::Instant;

/// Where a row stands among all rows of the table. Only its source can read the two: they are the database's own words for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// None: null. No message is made of such a row, but what stands behind it is to be found.
    pub event_date: Option<String>,
    pub id: Option<String>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |part: &Option<String>| part.as_deref().unwrap_or("NULL").to_owned();
        write!(f, "{} {}", shown(&self.event_date), shown(&self.id))
    }
}

/// A part of the table's events, in the order of date and id; all of them if nothing is said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// Events of this date or later.
    pub from: Option<Instant>,
    /// Events before this date.
    pub to: Option<Instant>,
    /// Events behind this row.
    pub after: Option<Key>,
    /// Events whose columns have just these values, as the database writes them as text.
    pub equal: Vec<(String, String)>,
    /// Events with one of these ids, as messages have them; with any, if none is named.
    pub ids: Vec<String>,
}

impl Window {
    /// Whether an event of this date (microseconds since 1970) can be in it.
    pub fn has(&self, date: i64) -> bool {
        self.from.is_none_or(|from| date >= from.0) && self.to.is_none_or(|to| date < to.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_with_its_first_date_and_ends_before_its_last() {
        let window = Window {
            from: Some(Instant(10)),
            to: Some(Instant(20)),
            ..Window::default()
        };
        let has = [9, 10, 19, 20].map(|date| window.has(date));
        assert_eq!(has, [false, true, true, false]);
        assert!(Window::default().has(i64::MIN));
    }
}
