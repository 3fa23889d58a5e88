//! Publishes what letters stand for, beside a running pipeline: the row from the table, or out of the letter where it is gone.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal as _;

use headwater_core::message::Message;
use headwater_core::row::Row;
use headwater_sink::kafka::Back;
use headwater_source::NoPart;

use super::{Exit, Replay, closed, found, topic, unknown};
use crate::cli::replay::{new_id, say};
use crate::config::Config;
use crate::dead_letters::{Again, Becomes, Held, Letters, Maker, Stand, portions, read, rows};
use crate::parts::{self, AnySink, Database, Outlet};
use crate::pipeline::Stop;

pub async fn replay(config: &Config, args: &Replay) -> Result<(), Exit> {
    let mut stop = crate::cli::stop_on_signals()?;
    let (topic, back) = topic(config).await?;
    let letters = found(config, back.as_ref(), &args.id).await?;
    let chosen = chosen(letters, args, topic)?;
    let (Some(back), false) = (back, chosen.is_empty()) else {
        say("no dead letter to replay");
        return Ok(());
    };
    let id = new_id();
    let outlet = Outlet::new(config)?.for_replay(&id).behind_refusals();
    let way = if args.dry_run {
        Way::Dry
    } else {
        let sink = outlet.sink().await?;
        Way::Publish(Box::new(Again::new(sink, config.name(), topic)))
    };
    let mut replaying = Replaying {
        back,
        database: parts::database(config)?,
        maker: Maker::new(config, &id)?,
        way,
        all: chosen.len(),
        done: 0,
        open: 0,
    };
    replaying.begin(&id);
    for portion in portions(&chosen) {
        if stop.is_asked() {
            break;
        }
        replaying.portion(portion, &mut stop).await?;
    }
    replaying.end(stop.is_asked())
}

/// The open letters that were asked for.
fn chosen(letters: Letters, args: &Replay, topic: &str) -> Result<Vec<Stand>, Exit> {
    for id in &args.id {
        let named = letters.named(id);
        if named.is_empty() {
            return Err(unknown(id, topic));
        }
        for stand in named {
            if let Some(closed) = closed(stand) {
                say(&format!("{} {closed}", stand.id));
            }
        }
    }
    let wanted = |stand: &Stand| {
        args.all
            || args.kind.is_some_and(|kind| kind.name() == stand.kind)
            || args.id.contains(&stand.id)
            || args.id.contains(&stand.event_id)
    };
    let mut open = letters.into_open();
    open.retain(wanted);
    Ok(open)
}

enum Way {
    Dry,
    Publish(Box<Again<AnySink>>),
}

struct Replaying<'c> {
    back: Back,
    database: Database,
    maker: Maker<'c>,
    way: Way,
    all: usize,
    done: usize,
    /// Those that were tried and stay open.
    open: usize,
}

impl Replaying<'_> {
    fn begin(&self, id: &str) {
        if let Way::Publish(_) = self.way {
            say(&format!(
                "replay {id}: a second try for {} of the open dead letters; within a key the order is no longer that of commit",
                self.all
            ));
        }
    }

    async fn portion(&mut self, portion: &[Stand], stop: &mut Stop) -> Result<(), Exit> {
        let Some(held) = stop.or(read(&self.back, portion)).await else {
            return Ok(());
        };
        let held = held?;
        let there: HashSet<&String> = held.iter().map(|it| &it.letter.id).collect();
        for gone in portion.iter().filter(|it| !there.contains(&it.id)) {
            self.stays_open(&gone.id, "it is gone from the topic of dead letters: headwater replay --where brings its row, if that is in the table");
        }
        let Some(rows) = stop.or(rows(&self.database, &held)).await else {
            return Ok(());
        };
        let rows = rows.map_err(|no| match no {
            NoPart::Source(error) => Exit::from(error),
            NoPart::NoColumn { .. } => Exit::Configuration(no.to_string()),
        })?;
        let ids: Vec<String> = held.iter().map(|it| it.letter.id.clone()).collect();
        for (number, held) in held.into_iter().enumerate() {
            match self.make(&held, &rows) {
                Ok((messages, from)) => self.go(number, held, messages, from),
                Err(why) => self.stays_open(&held.letter.id, &why),
            }
        }
        for notice in self.maker.notices() {
            say(&notice);
        }
        if let Way::Publish(again) = &mut self.way {
            for (number, becomes) in again.carry(stop).await? {
                match becomes {
                    Becomes::Replayed => self.done += 1,
                    Becomes::Refused(why) => {
                        let id = ids.get(number).map(String::as_str);
                        self.stays_open(id.unwrap_or_default(), &why);
                    }
                }
            }
        }
        self.progress();
        Ok(())
    }

    /// The messages, and where their row is from.
    fn make(
        &mut self,
        held: &Held,
        rows: &HashMap<String, Row>,
    ) -> Result<(Vec<Message>, &'static str), String> {
        let letter = &held.letter;
        if let Some(row) = rows.get(&letter.event_id) {
            let messages = self.maker.make(letter, row)?;
            return Ok((messages, "its row is in the table"));
        }
        let Some(row) = letter.row(&parts::outbox()) else {
            return Err(format!(
                "its row is not in the table any more, and the letter does not have all of it ({} cut): it cannot be published again",
                letter.cut.join(", ")
            ));
        };
        let messages = self.maker.make(letter, &row)?;
        Ok((
            messages,
            "its row is gone from the table, and in the letter",
        ))
    }

    fn go(&mut self, number: usize, held: Held, messages: Vec<Message>, from: &str) {
        if let Way::Publish(again) = &mut self.way {
            return again.add(number, held, messages);
        }
        self.done += 1;
        for message in messages {
            let topic = &message.address.topic;
            println!("{}: to topic {topic}; {from}", held.letter.id);
        }
    }

    fn stays_open(&mut self, id: &str, why: &str) {
        self.open += 1;
        say(&format!("{id} stays open: {why}"));
    }

    fn progress(&self) {
        if std::io::stderr().is_terminal() && self.all > 1 {
            eprintln!("{} of {}", self.done + self.open, self.all);
        }
    }

    fn end(&self, is_stopped: bool) -> Result<(), Exit> {
        let (all, done) = (self.all, self.done);
        let what = match self.way {
            Way::Dry => "would be published",
            Way::Publish(_) => "were published and marked",
        };
        say(&format!("{done} of {all} dead letters {what}"));
        if is_stopped {
            say("stopped; the same command goes on with those that are open");
        }
        match self.open {
            0 => Ok(()),
            open => Err(Exit::Person(format!(
                "{open} of {all} dead letters cannot be published yet and stay open"
            ))),
        }
    }
}
