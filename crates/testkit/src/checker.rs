//! The judge: what was committed against what arrived; it finds lost, doubled, reordered and foreign events.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::Value;
use uuid::Uuid;

use crate::kafka::Consumed;
use crate::load::{Committed, Written};

/// Two neighbours of one key whose first arrivals came in the wrong order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reordered {
    pub key: String,
    pub topic: String,
    pub partition: i32,
    pub before: i64,
    pub after: i64,
}

/// What is wrong with a run; empty where nothing is.
#[derive(Debug, Default)]
pub struct Verdict {
    pub committed: usize,
    pub arrived: usize,
    /// Committed, and nowhere to be found.
    pub lost: Vec<Uuid>,
    /// One entry for every arrival after an event's first.
    pub doubled: Vec<Uuid>,
    /// Judged by first arrivals, within a key of a partition.
    pub reordered: Vec<Reordered>,
    /// Keys that were seen on more than one partition of a topic: no order can be promised to their readers.
    pub split: Vec<String>,
    /// Arrived, and never committed as an event: rolled back, a sentinel, under a wrong key, or not known at all.
    pub foreign: Vec<String>,
}

impl Verdict {
    /// Nothing lost, reordered or foreign; doubles are allowed.
    #[track_caller]
    pub fn assert_at_least_once(&self) {
        let ordered = self.reordered.is_empty() && self.split.is_empty();
        assert!(
            self.lost.is_empty() && ordered && self.foreign.is_empty(),
            "{self}"
        );
    }

    /// Nothing lost, doubled or foreign, in whatever order: a snapshot can only go by what the table holds.
    #[track_caller]
    pub fn assert_each_once(&self) {
        let once = self.lost.is_empty() && self.doubled.is_empty();
        assert!(once && self.foreign.is_empty(), "{self}");
    }

    /// Nothing lost or foreign, in whatever order.
    #[track_caller]
    pub fn assert_each(&self) {
        assert!(self.lost.is_empty() && self.foreign.is_empty(), "{self}");
    }

    /// Nothing doubled either.
    #[track_caller]
    pub fn assert_exactly_once(&self) {
        self.assert_at_least_once();
        assert!(self.doubled.is_empty(), "{self}");
    }
}

/// `consumed` may hold several topics; each partition's messages in the order of their offsets, as
/// [`crate::Kafka::consume_all`] gives them.
pub fn check(written: &Written, consumed: &[Consumed]) -> Verdict {
    let mut verdict = Verdict {
        committed: written.committed.len(),
        arrived: consumed.len(),
        ..Verdict::default()
    };
    let known: HashMap<Uuid, &Committed> = written.committed.iter().map(|c| (c.id, c)).collect();
    let mut seen = HashSet::new();
    let mut first_arrivals = Vec::new();
    for message in consumed {
        match recognise(message, &known, written) {
            Err(why) => verdict.foreign.push(why),
            Ok(event) if seen.insert(event.id) => first_arrivals.push((message, event)),
            Ok(event) => verdict.doubled.push(event.id),
        }
    }
    judge_order(&first_arrivals, &mut verdict);
    let missing = written.committed.iter().filter(|c| !seen.contains(&c.id));
    verdict.lost = missing.map(|c| c.id).collect();
    verdict
}

/// The committed event that a message carries, or what is foreign about it.
fn recognise<'a>(
    message: &Consumed,
    known: &HashMap<Uuid, &'a Committed>,
    written: &Written,
) -> Result<&'a Committed, String> {
    let place = format!("{}/{}@{}", message.topic, message.partition, message.offset);
    let value: Value = serde_json::from_slice(message.value.as_deref().unwrap_or_default())
        .map_err(|e| format!("{place}: not JSON: {e}"))?;
    let id = value["id"]
        .as_str()
        .and_then(|id| Uuid::parse_str(id).ok())
        .ok_or_else(|| format!("{place}: no id"))?;
    let Some(event) = known.get(&id) else {
        let what = if written.rolled_back.contains(&id) {
            "rolled back"
        } else if written.sentinels.contains(&id) {
            "a sentinel"
        } else {
            "never written"
        };
        return Err(format!("{place}: {id} was {what}"));
    };
    if message.key.as_deref() != Some(event.key.as_bytes()) {
        return Err(format!("{place}: {id} under a wrong key"));
    }
    if value["payload"]["seq"].as_i64() != Some(event.seq) {
        return Err(format!("{place}: {id} with another event's payload"));
    }
    Ok(event)
}

fn judge_order(first_arrivals: &[(&Consumed, &Committed)], verdict: &mut Verdict) {
    let mut homes: HashMap<(&str, &str), (i32, i64)> = HashMap::new();
    let mut split = HashSet::new();
    for (message, event) in first_arrivals {
        let home = homes
            .entry((&event.key, &message.topic))
            .or_insert((message.partition, event.seq));
        if home.0 != message.partition {
            split.insert(event.key.clone());
        } else if event.seq < home.1 {
            verdict.reordered.push(Reordered {
                key: event.key.clone(),
                topic: message.topic.clone(),
                partition: message.partition,
                before: home.1,
                after: event.seq,
            });
        }
        *home = (message.partition, event.seq);
    }
    verdict.split = split.into_iter().collect();
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} committed, {} messages arrived: {} lost, {} doubled, {} reordered, {} keys on two partitions, {} foreign",
            self.committed,
            self.arrived,
            self.lost.len(),
            self.doubled.len(),
            self.reordered.len(),
            self.split.len(),
            self.foreign.len()
        )?;
        some(f, "lost", &self.lost)?;
        some(f, "doubled", &self.doubled)?;
        some(f, "reordered", &self.reordered)?;
        some(f, "on two partitions", &self.split)?;
        some(f, "foreign", &self.foreign)
    }
}

fn some<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, what: &str, all: &[T]) -> fmt::Result {
    const SHOWN: usize = 5;
    for one in all.iter().take(SHOWN) {
        writeln!(f, "  {what}: {one:?}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(events: &[(u128, &str, i64)]) -> Written {
        Written {
            committed: events
                .iter()
                .map(|(id, key, seq)| Committed {
                    id: Uuid::from_u128(*id),
                    key: (*key).to_owned(),
                    seq: *seq,
                })
                .collect(),
            ..Written::default()
        }
    }

    fn message(id: u128, key: &str, seq: i64) -> Consumed {
        let id = Uuid::from_u128(id);
        Consumed {
            topic: "t".to_owned(),
            partition: 0,
            offset: 0,
            timestamp: None,
            key: Some(key.as_bytes().to_vec()),
            headers: Vec::new(),
            value: Some(
                serde_json::json!({"id": id.to_string(), "payload": {"seq": seq}})
                    .to_string()
                    .into_bytes(),
            ),
        }
    }

    #[test]
    fn a_faultless_run_has_no_faults() {
        let written = written(&[(1, "a", 1), (2, "b", 1), (3, "a", 2)]);
        let verdict = check(
            &written,
            &[message(2, "b", 1), message(1, "a", 1), message(3, "a", 2)],
        );
        verdict.assert_exactly_once();
    }

    #[test]
    fn a_missing_event_is_lost() {
        let verdict = check(&written(&[(1, "a", 1), (2, "a", 2)]), &[message(2, "a", 2)]);
        assert_eq!(verdict.lost, [Uuid::from_u128(1)]);
        assert!(verdict.to_string().contains("1 lost"));
    }

    #[test]
    fn every_arrival_after_the_first_is_a_double() {
        let one = || message(1, "a", 1);
        let verdict = check(&written(&[(1, "a", 1)]), &[one(), one(), one()]);
        assert_eq!(verdict.doubled.len(), 2);
        verdict.assert_at_least_once();
    }

    #[test]
    fn a_later_event_before_an_earlier_one_of_its_key_is_reordered() {
        let written = written(&[(1, "a", 1), (2, "a", 2)]);
        let verdict = check(&written, &[message(2, "a", 2), message(1, "a", 1)]);
        assert_eq!(verdict.reordered.len(), 1);
        assert_eq!(
            (verdict.reordered[0].before, verdict.reordered[0].after),
            (2, 1)
        );
    }

    #[test]
    fn events_of_two_keys_have_no_order() {
        let written = written(&[(1, "a", 1), (2, "b", 2)]);
        check(&written, &[message(2, "b", 2), message(1, "a", 1)]).assert_exactly_once();
    }

    #[test]
    fn a_repeated_run_of_old_events_is_not_reordered() {
        let written = written(&[(1, "a", 1), (2, "a", 2), (3, "a", 3)]);
        let again = [
            message(1, "a", 1),
            message(2, "a", 2),
            message(1, "a", 1),
            message(2, "a", 2),
            message(3, "a", 3),
        ];
        check(&written, &again).assert_at_least_once();
    }

    #[test]
    fn a_key_on_two_partitions_is_told() {
        let mut elsewhere = message(2, "a", 2);
        elsewhere.partition = 1;
        let verdict = check(
            &written(&[(1, "a", 1), (2, "a", 2)]),
            &[message(1, "a", 1), elsewhere],
        );
        assert_eq!(verdict.split, ["a"]);
    }

    #[test]
    fn what_was_not_committed_is_foreign() {
        let mut written = written(&[(1, "a", 1)]);
        written.rolled_back.insert(Uuid::from_u128(7));
        written.sentinels.insert(Uuid::from_u128(8));
        let mut rubbish = message(1, "a", 1);
        rubbish.value = Some(b"rubbish".to_vec());
        let verdict = check(
            &written,
            &[
                message(1, "a", 1),
                message(7, "a", 1),
                message(8, "a", 1),
                message(9, "a", 1),
                rubbish,
            ],
        );
        assert_eq!(verdict.foreign.len(), 4);
        assert!(verdict.foreign[0].contains("rolled back"));
        assert!(verdict.foreign[1].contains("sentinel"));
    }

    #[test]
    fn an_event_under_a_wrong_key_or_with_a_wrong_payload_is_foreign_and_lost() {
        let written = written(&[(1, "a", 1), (2, "a", 2)]);
        let verdict = check(&written, &[message(1, "b", 1), message(2, "a", 3)]);
        assert_eq!((verdict.foreign.len(), verdict.lost.len()), (2, 2));
    }
}
