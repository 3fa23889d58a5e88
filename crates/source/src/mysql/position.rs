//! Where a binlog can be resumed, and which log that is.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::flavor::Flavor;
use super::gtid::{Gtid, Gtids, NotAGtid};

/// The end of a transaction. Where the server names its transactions they count, on any server that has them; file and
/// offset count on one server only.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Position {
    pub gtids: Gtids,
    pub file: Arc<str>,
    pub offset: u64,
    /// The last transaction before the position; none at a position that no transaction was read up to.
    pub last: Option<Last>,
    /// Prepared XA transactions without rows of the outbox, or from before the pipeline began: their end may still come.
    pub prepared: Prepared,
}

/// XA transactions, each as the log writes its name: `X'67',X'62',1`.
pub type Prepared = Arc<BTreeSet<String>>;

/// The last transaction before a position: a server that was reset has another one under the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    pub gtid: Option<Gtid>,
    /// In microseconds since 1970, on the server that first committed it; MariaDB has whole seconds, of the server whose
    /// log was read.
    pub committed: i64,
    /// Where it begins.
    pub file: Arc<str>,
    pub offset: u64,
    /// MariaDB: the one before it in its domain; none if it is the first.
    pub before: Option<Gtid>,
    /// Whose log was read, as in [`Identity`].
    pub server: Option<Arc<str>>,
}

impl Last {
    /// As people call it.
    pub fn name(&self) -> String {
        match &self.gtid {
            Some(gtid) => gtid.to_string(),
            None => format!("{}:{}", self.file, self.offset),
        }
    }
}

impl Position {
    /// A position that was not read up to, but told by the server.
    pub fn new(gtids: Gtids, file: &str, offset: u64) -> Position {
        Position {
            gtids,
            file: file.into(),
            offset,
            last: None,
            prepared: Prepared::default(),
        }
    }

    /// The GTIDs to resume after, so that the last transaction comes again; none where the log cannot be asked so.
    pub fn early(&self) -> Option<Gtids> {
        let Last { gtid, before, .. } = self.last.as_ref()?;
        match (&self.gtids, gtid.as_ref()?) {
            (Gtids::MySql(set), Gtid::MySql(gtid)) => Some(Gtids::MySql(set.without(gtid))),
            (Gtids::MariaDb(list), Gtid::MariaDb(gtid)) => {
                let mut early = list.clone();
                match *before {
                    Some(Gtid::MariaDb(before)) => early.add(before),
                    _ => early.remove(gtid.domain),
                }
                Some(Gtids::MariaDb(early))
            }
            _ => None,
        }
    }

    fn by_place(&self, other: &Position) -> Option<Ordering> {
        by_file(&self.file, &other.file).map(|files| files.then(self.offset.cmp(&other.offset)))
    }
}

/// Files are counted upwards behind the last dot; with another name before it they belong to another log.
fn by_file(one: &str, two: &str) -> Option<Ordering> {
    if one == two {
        return Some(Ordering::Equal);
    }
    let ((name, number), (other_name, other)) = (one.rsplit_once('.')?, two.rsplit_once('.')?);
    if name != other_name {
        return None;
    }
    Some(number.parse::<u64>().ok()?.cmp(&other.parse().ok()?))
}

/// By the GTIDs; where they are the same or missing, by file and offset of one log.
impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Position) -> Option<Ordering> {
        match self.gtids.partial_cmp(&other.gtids)? {
            Ordering::Equal if self.gtids.is_none() => self.by_place(other),
            Ordering::Equal => Some(self.by_place(other).unwrap_or(Ordering::Equal)),
            order => Some(order),
        }
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Position) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { file, offset, .. } = self;
        match &self.gtids {
            Gtids::None => write!(f, "{file}:{offset}"),
            gtids if file.is_empty() => gtids.fmt(f),
            gtids => write!(f, "{gtids} ({file}:{offset})"),
        }
    }
}

/// A position as the record has it.
#[derive(Serialize, Deserialize)]
struct Written {
    /// MySQL's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gtid_set: Option<String>,
    /// MariaDB's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gtid_pos: Option<String>,
    file: String,
    offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<WrittenLast>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    prepared: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct WrittenLast {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gtid: Option<String>,
    committed: i64,
    file: String,
    offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

impl From<Position> for Written {
    fn from(position: Position) -> Written {
        let (gtid_set, gtid_pos) = match &position.gtids {
            Gtids::None => (None, None),
            Gtids::MySql(set) => (Some(set.to_string()), None),
            Gtids::MariaDb(list) => (None, Some(list.to_string())),
        };
        Written {
            gtid_set,
            gtid_pos,
            file: position.file.as_ref().to_owned(),
            offset: position.offset,
            last: position.last.map(|last| WrittenLast {
                gtid: last.gtid.map(|gtid| gtid.to_string()),
                committed: last.committed,
                file: last.file.as_ref().to_owned(),
                offset: last.offset,
                before: last.before.map(|gtid| gtid.to_string()),
                server: last.server.map(|server| server.as_ref().to_owned()),
            }),
            prepared: BTreeSet::clone(&position.prepared),
        }
    }
}

impl TryFrom<Written> for Position {
    type Error = NotAGtid;

    fn try_from(written: Written) -> Result<Position, NotAGtid> {
        let gtids = match (written.gtid_set, written.gtid_pos) {
            (Some(set), None) => Gtids::MySql(set.parse()?),
            (None, Some(list)) => Gtids::MariaDb(list.parse()?),
            (None, None) => Gtids::None,
            (Some(set), Some(_)) => return Err(NotAGtid(set)),
        };
        let gtid = |text: Option<String>| text.map(|text| text.parse()).transpose();
        let last = match written.last {
            None => None,
            Some(last) => Some(Last {
                gtid: gtid(last.gtid)?,
                committed: last.committed,
                file: last.file.into(),
                offset: last.offset,
                before: gtid(last.before)?,
                server: last.server.map(Into::into),
            }),
        };
        Ok(Position {
            gtids,
            file: written.file.into(),
            offset: written.offset,
            last,
            prepared: Arc::new(written.prepared),
        })
    }
}

/// Which log a position belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub flavor: Flavor,
    /// MySQL: `server_uuid`. MariaDB has none: `gtid_domain_id` and `server_id`, as `0-1`.
    pub server: String,
    /// Of the outbox, when its log does not name columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

/// The outbox's columns as `information_schema.columns` told them, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    pub columns: Vec<LayoutColumn>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutColumn {
    pub name: String,
    /// `column_type`: `bigint(20) unsigned`, `enum('a','b')`, `datetime(6)`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `character_set_name`: none unless it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn position(gtids: &str, file: &str, offset: u64) -> Position {
        let gtids = match gtids {
            "" => Gtids::None,
            mysql if mysql.contains(':') => Gtids::MySql(mysql.parse().expect("a set")),
            mariadb => Gtids::MariaDb(mariadb.parse().expect("a list")),
        };
        Position::new(gtids, file, offset)
    }

    #[test]
    fn a_position_comes_back_from_its_record() {
        let last = |gtid: &str, before: Option<&str>| Last {
            gtid: Some(gtid.parse().expect("a gtid")),
            committed: 1_739_454_959_050_447,
            file: "binlog.000002".into(),
            offset: 157,
            before: before.map(|gtid| gtid.parse().expect("a gtid")),
            server: before.map(|_| "0-1".into()),
        };
        let mut mysql = position(&format!("{UUID}:1-5"), "binlog.000002", 400);
        mysql.last = Some(last(&format!("{UUID}:5"), None));
        Arc::make_mut(&mut mysql.prepared).insert("X'61',X'',1".into());
        let mut mariadb = position("0-1-5", "b.1", 4);
        mariadb.last = Some(last("0-1-5", Some("0-2-4")));
        for (position, written) in [
            (
                mysql,
                format!(
                    r#"{{"gtid_set":"{UUID}:1-5","file":"binlog.000002","offset":400,"last":{{"gtid":"{UUID}:5","committed":1739454959050447,"file":"binlog.000002","offset":157}},"prepared":["X'61',X'',1"]}}"#
                ),
            ),
            (
                mariadb,
                r#"{"gtid_pos":"0-1-5","file":"b.1","offset":4,"last":{"gtid":"0-1-5","committed":1739454959050447,"file":"binlog.000002","offset":157,"before":"0-2-4","server":"0-1"}}"#.into(),
            ),
            (
                position("", "binlog.000009", 1 << 33),
                r#"{"file":"binlog.000009","offset":8589934592}"#.into(),
            ),
        ] {
            assert_eq!(serde_json::to_string(&position).expect("JSON"), written);
            let back: Position = serde_json::from_str(&written).expect("a position");
            assert_eq!(back, position);
            assert_eq!(back.last, position.last);
            assert_eq!(back.prepared, position.prepared);
        }
        assert!(
            serde_json::from_str::<Position>(r#"{"gtid_set":"x","file":"b","offset":4}"#).is_err()
        );
    }

    #[test]
    fn positions_are_ordered_by_gtids_then_by_place() {
        let one = format!("{UUID}:1-5");
        let two = format!("{UUID}:1-6");
        for (a, b, order) in [
            (
                (&*one, "b.000001", 9),
                (&*two, "a.000001", 4),
                Some(Ordering::Less),
            ),
            (
                (&*one, "b.000001", 9),
                (&*one, "b.000002", 4),
                Some(Ordering::Less),
            ),
            (
                (&*one, "b.000001", 9),
                (&*one, "other.000002", 4),
                Some(Ordering::Equal),
            ),
            (
                ("", "b.999999", 9),
                ("", "b.1000000", 4),
                Some(Ordering::Less),
            ),
            (
                ("", "b.000001", 9),
                ("", "b.000001", 4),
                Some(Ordering::Greater),
            ),
            (("", "b.000001", 9), ("", "c.000001", 9), None),
            (("", "b.000001", 9), (&*one, "b.000001", 9), None),
            (("0-1-5,1-1-1", "b.1", 9), ("0-1-6", "b.1", 99), None),
        ] {
            let (a, b) = (position(a.0, a.1, a.2), position(b.0, b.1, b.2));
            assert_eq!(a.partial_cmp(&b), order, "{a} {b}");
        }
    }

    #[test]
    fn one_transaction_early_is_without_the_last() {
        let mut early = position(&format!("{UUID}:1-5"), "b.1", 9);
        assert_eq!(early.early(), None);
        let last = |gtid: Option<&str>, before: Option<&str>| {
            let parse = |gtid: &str| gtid.parse().expect("a gtid");
            Some(Last {
                gtid: gtid.map(parse),
                committed: 7,
                file: "b.1".into(),
                offset: 4,
                before: before.map(parse),
                server: None,
            })
        };
        early.last = last(Some(&format!("{UUID}:3")), None);
        let told = early.early().map(|gtids| gtids.to_string());
        assert_eq!(told, Some(format!("{UUID}:1-2:4-5")));
        let mut early = position("0-1-5,1-1-1", "b.1", 9);
        early.last = last(Some("0-1-5"), Some("0-2-4"));
        let told = early.early().map(|gtids| gtids.to_string());
        assert_eq!(told.as_deref(), Some("0-2-4,1-1-1"));
        // The first of its domain.
        early.last = last(Some("0-1-5"), None);
        let told = early.early().map(|gtids| gtids.to_string());
        assert_eq!(told.as_deref(), Some("1-1-1"));
    }
}
