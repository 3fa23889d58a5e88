//! The record that counts, read from the beginning of the topic to where it ended when the reading began.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::positions::{self, Record};
use rdkafka::consumer::Consumer as _;
use rdkafka::message::{BorrowedMessage, Message as _};

use super::super::client::{Abandon, Client};
use super::super::partitions::Partitions;
use super::super::verdict::Doing;
use crate::Error;
use crate::record;

const WATERMARKS: Duration = Duration::from_secs(2);
/// Without a single record for this long, the reading begins again.
const SILENCE: Duration = Duration::from_secs(10);

/// What the records of one pipeline say, in the order in which they were written.
#[derive(Default)]
struct Seen {
    counts: Option<Record>,
    /// The last one, if it cannot be read: the offset, and why. Nobody knows whether it would count.
    unreadable: Option<(i64, String)>,
}

impl Seen {
    fn take(&mut self, offset: i64, value: Option<&[u8]>, name: &str) {
        let Some(value) = value else {
            // Somebody deleted it by hand.
            *self = Seen::default();
            return;
        };
        match record::read(value, name) {
            Ok(record) => {
                self.unreadable = None;
                self.counts = Some(positions::newest(self.counts.take(), record));
            }
            Err(why) => self.unreadable = Some((offset, why)),
        }
    }

    fn conclude(self, topic: &str, name: &str, brokers: &str) -> Result<Option<Record>, Error> {
        let Some((offset, why)) = self.unreadable else {
            return Ok(self.counts);
        };
        let advice = if why.contains("newer Headwater") {
            "run that version, or a newer one".to_owned()
        } else {
            format!(
                "delete it: printf '{name}\\tNULL\\n' | kafka-console-producer.sh --bootstrap-server {brokers} --topic '{topic}' --property parse.key=true --property null.marker=NULL; then `headwater adopt` goes on from the slot's own position"
            )
        };
        Err(Error::fatal(
            format!(
                "the position record of \"{name}\" (topic \"{topic}\", offset {offset}) cannot be used: {why}"
            ),
            advice,
        ))
    }
}

pub(super) async fn newest(
    client: &Client,
    topic: &str,
    name: &str,
) -> Result<Option<Record>, Error> {
    let mut seen = read(client, topic, Wanted::Only(name.to_owned())).await?;
    let seen = seen.remove(name).unwrap_or_default();
    seen.conclude(topic, name, &client.settings.brokers)
}

/// The records whose names begin so. One that cannot be read is left out: nobody has asked for it by its name.
pub(super) async fn beginning(
    client: &Client,
    topic: &str,
    name: &str,
) -> Result<Vec<Record>, Error> {
    let seen = read(client, topic, Wanted::Beginning(name.to_owned())).await?;
    Ok(seen.into_values().filter_map(|it| it.counts).collect())
}

/// Whose records are looked at.
#[derive(Clone)]
enum Wanted {
    Only(String),
    Beginning(String),
}

impl Wanted {
    fn has(&self, name: &str) -> bool {
        match self {
            Wanted::Only(wanted) => name == wanted,
            Wanted::Beginning(wanted) => name.starts_with(wanted),
        }
    }
}

async fn read(
    client: &Client,
    topic: &str,
    wanted: Wanted,
) -> Result<BTreeMap<String, Seen>, Error> {
    let abandon = Abandon(Arc::default());
    let abandoned = Arc::clone(&abandon.0);
    let name = topic.to_owned();
    client
        .ask(Doing::Reading(topic), move |client| {
            let topics: Arc<[String]> = [name.clone()].into();
            let abandoned = Arc::clone(&abandoned);
            let mut partitions = Partitions::of(client, topics, abandoned, SILENCE)?;
            let marks = partitions.consumer().fetch_watermarks(&name, 0, WATERMARKS);
            let (low, high) = marks?;
            partitions.add((0, 0), low, high);
            let mut seen = BTreeMap::new();
            let read = partitions.read(|_, message| take(message, &wanted, &mut seen));
            read.map(|()| seen).map_err(|(_, error)| error)
        })
        .await
}

fn take(message: &BorrowedMessage<'_>, wanted: &Wanted, seen: &mut BTreeMap<String, Seen>) {
    let key = message.key().and_then(|key| std::str::from_utf8(key).ok());
    if let Some(name) = key.filter(|name| wanted.has(name)) {
        let seen = seen.entry(name.to_owned()).or_default();
        seen.take(message.offset(), message.payload(), name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(run: u64, position: &str) -> Vec<u8> {
        format!(
            r#"{{"format":1,"name":"shop","run":{run},"source":null,"position":"{position}","written_at":"","headwater":""}}"#
        )
        .into_bytes()
    }

    fn conclude(values: &[Option<&[u8]>]) -> Result<Option<String>, Error> {
        let mut seen = Seen::default();
        for (offset, value) in (0..).zip(values) {
            seen.take(offset, *value, "shop");
        }
        let record = seen.conclude("positions", "shop", "b:1")?;
        Ok(record.map(|r| r.position.as_str().unwrap().to_owned()))
    }

    #[test]
    fn the_last_record_of_the_newest_run_counts() {
        let (one, two, late) = (json(1, "a"), json(2, "b"), json(1, "z"));
        let found = conclude(&[Some(&one), Some(&two), Some(&late)]).unwrap();
        assert_eq!(found.as_deref(), Some("b"));
    }

    #[test]
    fn a_record_that_cannot_be_read_stops_with_its_offset_and_what_to_do() {
        let good = json(1, "a");
        let text = conclude(&[Some(&good), Some(b"{")])
            .unwrap_err()
            .to_string();
        assert!(text.contains("topic \"positions\", offset 1"), "{text}");
        assert!(text.contains("null.marker=NULL"), "{text}");
    }

    #[test]
    fn a_good_record_after_an_unreadable_one_counts() {
        let good = json(1, "a");
        assert_eq!(
            conclude(&[Some(b"{"), Some(&good)]).unwrap().as_deref(),
            Some("a")
        );
    }

    #[test]
    fn a_record_of_a_newer_headwater_stops_with_its_version() {
        let text = conclude(&[Some(br#"{"format":2,"headwater":"9.9"}"#)])
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("9.9") && text.contains("run that version"),
            "{text}"
        );
    }

    #[test]
    fn a_deleted_record_is_none() {
        let good = json(4, "a");
        assert_eq!(conclude(&[Some(&good), Some(b"{"), None]).unwrap(), None);
    }
}
