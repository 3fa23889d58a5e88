//! What a comparison has found: counted, and some of it named.

use std::fmt;

use serde::Serialize;

/// So many of each kind are named.
const NAMED: usize = 20;

/// What was found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Account {
    /// Rows of the table that are events.
    pub rows: u64,
    /// Messages that they lead to, and that are there.
    pub there: u64,
    pub missing: u64,
    /// Are not there, and stand for that on the topic of dead letters.
    pub dead_lettered: u64,
    /// Are not there, and may have been: the topic does not keep what is of their date.
    pub not_comparable: u64,
    /// Events that a topic has more than once, without replays.
    pub doubled: u64,
    pub replayed: u64,
    /// On the topics, and not in the table.
    pub foreign: u64,
    /// Messages on the topics that are no events of this format.
    pub unreadable: u64,
    /// Rows that cannot be encoded or addressed today; messages of them that are there count as such.
    pub unpublishable: u64,
    /// Some of each kind, for people.
    pub named: Vec<Named>,
    /// What the topics cannot tell.
    pub doubts: Vec<String>,
    /// It ended before the end: this is of all that is before this date, and of nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    pub what: &'static str,
    pub id: String,
    pub event_date: Option<String>,
    /// Its topic, or why it cannot be published.
    pub detail: String,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = self.event_date.as_deref().unwrap_or("-");
        write!(f, "{}: {} {date} {}", self.what, self.id, self.detail)
    }
}

impl Account {
    /// Of other dates than what is counted here.
    pub(super) fn add(&mut self, other: Account) {
        self.rows += other.rows;
        self.there += other.there;
        self.missing += other.missing;
        self.dead_lettered += other.dead_lettered;
        self.not_comparable += other.not_comparable;
        self.unpublishable += other.unpublishable;
        for named in other.named {
            self.name(named);
        }
    }

    pub(super) fn name(&mut self, named: Named) {
        let alike = self.named.iter().filter(|it| it.what == named.what);
        if alike.count() < NAMED {
            self.named.push(named);
        }
    }
}
