//! Where PostgreSQL's log can be resumed, and which log that is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A place in the write-ahead log. Written as `{"lsn": "0/16B6C50"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Lsn(pub u64);

#[derive(Serialize, Deserialize)]
struct Written {
    lsn: String,
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no log position; one looks like 0/16B6C50")]
pub struct NotAnLsn(String);

impl FromStr for Lsn {
    type Err = NotAnLsn;

    fn from_str(text: &str) -> Result<Lsn, NotAnLsn> {
        let half = |digits: &str| u32::from_str_radix(digits, 16).ok();
        text.split_once('/')
            .and_then(|(high, low)| Some((half(high)?, half(low)?)))
            .map(|(high, low)| Lsn(u64::from(high) << 32 | u64::from(low)))
            .ok_or_else(|| NotAnLsn(text.to_owned()))
    }
}

impl TryFrom<Written> for Lsn {
    type Error = NotAnLsn;

    fn try_from(written: Written) -> Result<Lsn, NotAnLsn> {
        written.lsn.parse()
    }
}

impl From<Lsn> for Written {
    fn from(lsn: Lsn) -> Written {
        Written {
            lsn: lsn.to_string(),
        }
    }
}

/// Which log a position belongs to. The same position in another log means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The cluster's system identifier, made at its birth and copied to its standbys and backups.
    pub system: String,
    /// Every promotion and every restore begins a new one.
    pub timeline: u32,
    pub database: String,
    pub slot: String,
    /// By its oid: one that was dropped and made again is another. Records of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<u32>,
    /// By its oid, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_written_as_the_server_writes_it() {
        let lsn = Lsn(0x16_B374_D848);
        assert_eq!(lsn.to_string(), "16/B374D848");
        assert_eq!("16/B374D848".parse(), Ok(lsn));
        assert_eq!("16/0B374D848".parse::<Lsn>(), Ok(lsn));
        let json = serde_json::to_string(&lsn).expect("json");
        assert_eq!(json, r#"{"lsn":"16/B374D848"}"#);
        assert_eq!(serde_json::from_str::<Lsn>(&json).expect("json"), lsn);
        assert_eq!(Lsn(0).to_string(), "0/0");
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in ["", "1", "/", "1/", "x/1", "1/2/3", "100000000/0", "-1/0"] {
            assert!(text.parse::<Lsn>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Lsn>(r#"{"lsn":"x"}"#).is_err());
    }

    #[test]
    fn a_record_that_knows_no_publication_and_no_table_is_read() {
        let json = r#"{"system":"123","timeline":1,"database":"shop","slot":"s"}"#;
        let identity: Identity = serde_json::from_str(json).expect("json");
        assert_eq!((identity.publication, identity.table), (None, None));
        assert_eq!(serde_json::to_string(&identity).expect("json"), json);
    }

    #[test]
    fn positions_are_ordered_as_numbers() {
        let lsn = |text: &str| text.parse::<Lsn>().expect("a position");
        assert!(lsn("1/0") > lsn("0/FFFFFFFF"));
        assert!(lsn("0/A0") > lsn("0/9F"));
    }
}
