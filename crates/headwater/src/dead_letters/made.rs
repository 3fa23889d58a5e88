//! What is published of a letter's row: the message of the route that failed, by the schemas and routes of today.

use std::collections::HashMap;

use headwater_core::dead_letter::Letter;
use headwater_core::disposition::Skip;
use headwater_core::message::Message;
use headwater_core::row::Row;

use super::lacking;
use crate::config::{Config, ConfigError};
use crate::parts;
use crate::pipeline::{Outcome, Preparer};

/// Makes messages of rows, for every route or for one of them.
pub struct Maker<'c> {
    config: &'c Config,
    every: Preparer,
    /// By the number of their route, counted from 1.
    single: HashMap<usize, Preparer>,
}

impl<'c> Maker<'c> {
    pub fn new(config: &'c Config, id: &str) -> Result<Maker<'c>, ConfigError> {
        let mut single = HashMap::new();
        for number in 1..=config.routes().len() {
            single.insert(number, parts::replayer_of(config, id, number)?);
        }
        Ok(Maker {
            config,
            every: parts::replayer(config, id, None)?,
            single,
        })
    }

    /// The messages that the letter stands for, or why there are none: a sentence.
    pub fn make(&mut self, letter: &Letter, row: &Row) -> Result<Vec<Message>, String> {
        let messages = match (lacking(letter.topic.as_deref()), letter.route) {
            (Some(topic), number) => self.at_topic(topic, number, row),
            (None, Some(number)) => self.by_route(number, row),
            (None, None) => prepare(&mut self.every, row),
        }?;
        if messages.is_empty() {
            return Err("no route takes its row today".into());
        }
        Ok(messages)
    }

    fn by_route(&mut self, number: usize, row: &Row) -> Result<Vec<Message>, String> {
        match self.single.get_mut(&number) {
            Some(preparer) => prepare(preparer, row),
            None => Err(format!(
                "it failed at route {number}, and there are {} today",
                self.config.routes().len()
            )),
        }
    }

    /// By the route of that number; only if that one leads elsewhere today, by any other that leads to this topic: their order may have
    /// changed. While that one fails, another route's message is not the one that is lacking.
    fn at_topic(
        &mut self,
        topic: &str,
        number: Option<usize>,
        row: &Row,
    ) -> Result<Vec<Message>, String> {
        let fits = |it: &Message| &*it.address.topic == topic;
        let own = number.and_then(|number| self.single.get_mut(&number));
        let own = own.map_or_else(|| Ok(Vec::new()), |own| prepare(own, row))?;
        if own.iter().any(fits) {
            return Ok(own.into_iter().filter(fits).collect());
        }
        let mut failed = None;
        for other in (1..=self.single.len()).filter(|it| Some(*it) != number) {
            match self.by_route(other, row) {
                Ok(messages) if messages.iter().any(fits) => {
                    return Ok(messages.into_iter().filter(fits).collect());
                }
                Ok(_) => {}
                Err(why) => drop(failed.get_or_insert(why)),
            }
        }
        Err(failed.unwrap_or_else(|| format!("no route leads to topic {topic} any more")))
    }

    pub fn notices(&mut self) -> Vec<String> {
        let preparers = self.single.values_mut().chain([&mut self.every]);
        preparers.flat_map(Preparer::notices).collect()
    }
}

fn prepare(preparer: &mut Preparer, row: &Row) -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    match preparer.prepare(row, &mut messages) {
        Ok(Outcome::Publish { .. } | Outcome::Skip(Skip::Unrouted)) => Ok(messages),
        Ok(Outcome::Skip(skip)) => Err(format!("its row is skipped today ({})", skip.name())),
        Ok(Outcome::Filtered(rule)) => Err(format!("its row is skipped today by {rule}")),
        Ok(Outcome::Fail { failure, .. }) => Err(failure.to_string()),
        Err(missing) => Err(missing.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use headwater_core::event::Role;
    use headwater_core::row::{Change, Table, Value};

    use super::*;
    use crate::config;

    /// Buyers and sellers have one topic; the second route's key is null. A model has one of its own.
    const CONFIG: &str = r#"name = "shop"
[source]
url = "postgres://headwater@localhost/shop"
[encode]
format = "json"
[[route]]
topic = "orders"
key = "{payload.buyer}"
[[route]]
topic = "orders"
key = "{payload.seller}"
[[route]]
topic = "models.{model_type}"
where = { model_type = ["Order"] }
[sink]
brokers = "localhost:9092"
"#;

    fn row(payload: &str) -> Row {
        let cell = |role: Role| match role {
            Role::Payload => Value::Text(payload.into()),
            Role::ActionParams => Value::Text("{}".into()),
            Role::Id | Role::ActionId => Value::Uuid([7; 16]),
            Role::StartedDate | Role::CompletionDate | Role::EventDate => Value::Micros(7),
            Role::Delivered => Value::Bool(false),
            role => Value::Text(role.name().into()),
        };
        Row {
            table: Arc::new(Table {
                schema: "eventlog".into(),
                name: "events".into(),
                columns: Role::ALL.map(|role| role.name().to_owned()).to_vec(),
            }),
            change: Change::Read,
            cells: Role::ALL.map(cell).to_vec(),
        }
    }

    fn made(letter: (Option<&str>, Option<usize>), payload: &str) -> Result<Vec<String>, String> {
        let config = config::parse(CONFIG, Path::new("headwater.toml"), std::iter::empty())
            .expect("a config");
        let mut maker = Maker::new(&config, "replay-1").expect("a maker");
        let letter = Letter {
            topic: letter.0.map(str::to_owned),
            route: letter.1,
            ..Letter::default()
        };
        let messages = maker.make(&letter, &row(payload))?;
        let told = messages.iter().map(|it| {
            let key = it.address.key.as_deref().unwrap_or_default();
            format!("{} {}", it.address.topic, String::from_utf8_lossy(key))
        });
        Ok(told.collect())
    }

    #[test]
    fn a_letter_is_never_replaced_by_the_message_of_another_route() {
        let why = made((Some("orders"), Some(2)), r#"{"buyer":"b"}"#).expect_err("still null");
        assert!(why.contains("payload.seller is null"), "{why}");
        let both = r#"{"buyer":"b","seller":"s"}"#;
        assert_eq!(
            made((Some("orders"), Some(2)), both),
            Ok(vec!["orders s".into()])
        );
    }

    #[test]
    fn routes_may_have_another_order_today() {
        let both = r#"{"buyer":"b","seller":"s"}"#;
        let told = Ok(vec!["orders b".into()]);
        assert_eq!(made((Some("orders"), Some(3)), both), told);
        assert_eq!(made((Some("orders"), Some(9)), both), told);
    }

    #[test]
    fn without_a_route_that_takes_it_there_is_nothing_to_publish() {
        let why = made((None, Some(3)), "{}").expect_err("not taken");
        assert!(why.contains("no route takes"), "{why}");
        let why = made((Some("models.Order"), Some(3)), "{}").expect_err("not taken");
        assert!(why.contains("payload.buyer is null"), "{why}");
    }

    #[test]
    fn of_an_illegal_topic_only_the_route_counts() {
        let both = r#"{"buyer":"b","seller":"s"}"#;
        let told = Ok(vec!["orders b".into()]);
        assert_eq!(made((Some("or ders"), Some(1)), both), told);
    }
}
