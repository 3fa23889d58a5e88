//! What a replay would publish: each row is prepared as it would be, and nothing is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_core::instant;
use headwater_core::message::Message;
use headwater_core::row::Row;
use headwater_core::window::Key;

use crate::cli::Exit;
use crate::cli::progress::OfRows;
use crate::config::Config;
use crate::parts;
use crate::pipeline::{Outcome, Preparer, Stop};
use crate::replay::{self, Asked};

/// So many topics are told by name.
const TOLD: usize = 20;

pub async fn dry_run(
    config: &Config,
    asked: &Asked,
    after: Option<Key>,
    stop: &mut Stop,
) -> Result<(), Exit> {
    let mut found = Found {
        preparer: parts::replayer(config, "dry-run", asked.topic.as_deref())?,
        messages: Vec::new(),
        events: 0,
        dates: None,
        topics: BTreeMap::new(),
    };
    let database = parts::database(config)?;
    let window = asked.window(after);
    let Some(opened) = stop.or(parts::part(&database, &window)).await else {
        return Ok(());
    };
    let mut part = opened.map_err(replay::unreadable)?;
    let mut progress = OfRows::begin("looked at");
    let ended = loop {
        match stop.or(part.next()).await.transpose()? {
            Some(Some((row, _))) => found.take(&row)?,
            Some(None) => break "",
            None => break "Stopped before all were looked at: ",
        }
        progress.show(found.events);
    };
    progress.end();
    print!("{ended}");
    found.tell();
    Ok(())
}

struct Found {
    preparer: Preparer,
    messages: Vec<Message>,
    events: u64,
    /// Of the first and of the last one.
    dates: Option<(i64, i64)>,
    topics: BTreeMap<Arc<str>, u64>,
}

impl Found {
    fn take(&mut self, row: &Row) -> Result<(), Exit> {
        self.messages.clear();
        match self.preparer.prepare(row, &mut self.messages) {
            Ok(Outcome::Publish { event_date }) => {
                self.events += 1;
                let first = self.dates.map_or(event_date, |(first, _)| first);
                self.dates = Some((first, event_date));
            }
            Ok(Outcome::Skip(_) | Outcome::Filtered(_)) => {}
            Ok(Outcome::Fail { id, failure }) => {
                return Err(Exit::Person(format!(
                    "the row with id {id} cannot be published: {failure}. A replay would stop there, after {} events",
                    self.events
                )));
            }
            Err(missing) => return Err(Exit::Person(missing.to_string())),
        }
        for notice in self.preparer.notices() {
            eprintln!("({notice})");
        }
        for message in &self.messages {
            let topic = Arc::clone(&message.address.topic);
            *self.topics.entry(topic).or_default() += 1;
        }
        Ok(())
    }

    fn tell(&self) {
        let Some((first, last)) = self.dates else {
            return println!("no event would be published again");
        };
        let (first, last) = (instant::Instant(first), instant::Instant(last));
        println!(
            "{} events would be published again, the first of {first}, the last of {last}",
            self.events
        );
        for (topic, messages) in self.topics.iter().take(TOLD) {
            println!("  {messages} to topic {topic}");
        }
        match self.topics.len().saturating_sub(TOLD) {
            0 => {}
            more => println!("  and {more} more topics"),
        }
    }
}
