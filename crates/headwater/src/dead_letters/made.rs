//! What is published of a letter's row: the message of the route that failed, by the schemas and routes of today.

use std::collections::HashMap;

use headwater_core::dead_letter::Letter;
use headwater_core::message::Message;
use headwater_core::row::Row;

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
        match (&letter.topic, letter.route) {
            (Some(topic), number) => self.at_topic(topic, number, row),
            (None, Some(number)) => self.by_route(number, row),
            (None, None) => prepare(&mut self.every, row),
        }
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

    /// By the route of that number, or any other that leads to this topic: their order may have changed.
    fn at_topic(
        &mut self,
        topic: &str,
        number: Option<usize>,
        row: &Row,
    ) -> Result<Vec<Message>, String> {
        let first = number.into_iter();
        let others = (1..=self.single.len()).filter(|it| Some(*it) != number);
        let mut failed = None;
        for number in first.chain(others) {
            match self.by_route(number, row) {
                Ok(messages) => {
                    let fits = |it: &Message| &*it.address.topic == topic;
                    if messages.iter().any(fits) {
                        return Ok(messages.into_iter().filter(fits).collect());
                    }
                }
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
        Ok(Outcome::Publish { .. }) => Ok(messages),
        Ok(Outcome::Skip(skip)) => Err(format!("its row is skipped today ({})", skip.name())),
        Ok(Outcome::Filtered(rule)) => Err(format!("its row is skipped today by {rule}")),
        Ok(Outcome::Fail { failure, .. }) => Err(failure.to_string()),
        Err(missing) => Err(missing.to_string()),
    }
}
