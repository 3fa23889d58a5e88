//! What a replay is asked for, as its record remembers it: its id is enough to go on.

use headwater_core::instant::Instant;
use headwater_core::positions::Record;
use headwater_core::window::{Key, Window};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Which rows, where to and how fast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// ISO-8601, as `to` is.
    from: String,
    to: String,
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    equal: Vec<(String, String)>,
    /// Whose rows they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Events a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

impl Asked {
    /// `None` unless `from` is before `to`, both in the years that databases and ISO-8601's plain form know.
    pub fn new(from: Instant, to: Instant, equal: Vec<(String, String)>) -> Option<Asked> {
        let plain = |moment: Instant| !moment.to_string().starts_with(['+', '-']);
        (from < to && plain(from) && plain(to)).then(|| Asked {
            from: from.to_string(),
            to: to.to_string(),
            equal,
            database: None,
            topic: None,
            rate: None,
        })
    }

    /// As it was remembered; `None` in a record that is not a replay's.
    pub fn of(record: &Record) -> Option<Asked> {
        Asked::deserialize(record.source.get("replay")?).ok()
    }

    /// As it is remembered.
    pub fn to_source(&self) -> Value {
        json!({ "replay": self })
    }

    /// The rows, or those behind the last one that was published.
    pub fn window(&self, after: Option<Key>) -> Window {
        Window {
            from: self.from.parse().ok(),
            to: self.to.parse().ok(),
            after,
            equal: self.equal.clone(),
            ..Window::default()
        }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "from {} to {}", self.from, self.to)?;
        for (column, value) in &self.equal {
            write!(f, " where {column} = {value}")?;
        }
        match &self.topic {
            Some(topic) => write!(f, ", to topic {topic}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Instant {
        text.parse().unwrap()
    }

    fn record(source: Value) -> Record {
        Record {
            format: headwater_core::positions::FORMAT,
            name: String::new(),
            run: 0,
            source,
            position: Value::Null,
            event_time: None,
            written_at: String::new(),
            headwater: String::new(),
            blocked: None,
            snapshot: None,
        }
    }

    #[test]
    fn what_was_asked_is_remembered_whole() {
        let equal = vec![("model_id".to_owned(), "a=b".to_owned())];
        let (from, to) = (moment("2026-06-11T00:00:00.000001Z"), moment("2026-06-12"));
        let asked = Asked {
            database: Some("file shop.db".into()),
            topic: Some("t".into()),
            rate: Some(5),
            ..Asked::new(from, to, equal.clone()).unwrap()
        };
        let text = asked.to_source().to_string();
        let read = Asked::of(&record(serde_json::from_str(&text).unwrap()));
        assert_eq!(read.as_ref(), Some(&asked));
        let window = asked.window(None);
        assert_eq!((window.from, window.to), (Some(from), Some(to)));
        assert_eq!(window.equal, equal);
    }

    #[test]
    fn a_record_of_a_pipeline_is_no_replays() {
        assert_eq!(Asked::of(&record(json!({"system": "7"}))), None);
    }

    #[test]
    fn a_window_without_a_moment_in_it_is_none() {
        for (from, to) in [
            ("2026-06-12", "2026-06-11"),
            ("2026-06-12", "2026-06-12"),
            ("2026-06-12", "9999-12-31T23:00:00-02:00"),
        ] {
            assert_eq!(
                Asked::new(moment(from), moment(to), Vec::new()),
                None,
                "{to}"
            );
        }
    }
}
