//! The global transaction identifiers of both flavors, one and many.
//!
//! MySQL: a source's uuid (and since 8.3 perhaps a tag) and a number; what was executed is a set of them. MariaDB: domain,
//! server and sequence number; what was executed is the last one of each domain.

mod list;
mod set;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

pub use list::{GtidList, MariaDbGtid};
pub use set::{GtidSet, MySqlGtid, Sid};

/// Text that is no GTID, or no set of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no GTID; MySQL's look like 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5, MariaDB's like 0-1-5"
)]
pub struct NotAGtid(pub(super) String);

/// One transaction's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gtid {
    MySql(MySqlGtid),
    MariaDb(MariaDbGtid),
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gtid::MySql(gtid) => gtid.fmt(f),
            Gtid::MariaDb(gtid) => gtid.fmt(f),
        }
    }
}

impl FromStr for Gtid {
    type Err = NotAGtid;

    /// The two forms have nothing in common: only one has colons.
    fn from_str(text: &str) -> Result<Gtid, NotAGtid> {
        if text.contains(':') {
            text.parse().map(Gtid::MySql)
        } else {
            text.parse().map(Gtid::MariaDb)
        }
    }
}

/// All transactions up to a position, where the log names them.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Gtids {
    /// A MySQL server without GTIDs: only file and offset tell.
    #[default]
    None,
    MySql(GtidSet),
    MariaDb(GtidList),
}

impl Gtids {
    /// One more transaction. A log without GTIDs stays one: those that it had before are not known.
    pub fn add(&mut self, gtid: &Gtid) {
        match (self, gtid) {
            (Gtids::MySql(set), Gtid::MySql(gtid)) => set.add(gtid),
            (Gtids::MariaDb(list), Gtid::MariaDb(gtid)) => list.add(*gtid),
            _ => {}
        }
    }

    pub fn contains(&self, gtid: &Gtid) -> bool {
        match (self, gtid) {
            (Gtids::MySql(set), Gtid::MySql(gtid)) => set.contains(gtid),
            (Gtids::MariaDb(list), Gtid::MariaDb(gtid)) => list.contains(*gtid),
            _ => false,
        }
    }

    pub fn is_none(&self) -> bool {
        matches!(self, Gtids::None)
    }
}

impl PartialOrd for Gtids {
    fn partial_cmp(&self, other: &Gtids) -> Option<Ordering> {
        match (self, other) {
            (Gtids::None, Gtids::None) => Some(Ordering::Equal),
            (Gtids::MySql(one), Gtids::MySql(two)) => one.partial_cmp(two),
            (Gtids::MariaDb(one), Gtids::MariaDb(two)) => one.partial_cmp(two),
            _ => None,
        }
    }
}

impl fmt::Display for Gtids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gtids::None => Ok(()),
            Gtids::MySql(set) => set.fmt(f),
            Gtids::MariaDb(list) => list.fmt(f),
        }
    }
}
