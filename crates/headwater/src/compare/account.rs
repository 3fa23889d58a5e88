//! A window of the table compared with the topics: what `audit` tells, and `recover --dry-run`.

use std::collections::BTreeSet;

use headwater_core::band::{Band, ShortId};
use headwater_core::instant::Instant;
use headwater_core::message::Message;
use headwater_core::row::Row;
use headwater_core::window::Window;
use headwater_sink::kafka::Ends;
use headwater_source::{Error, NoPart, Part};
use serde::Serialize;

use super::published::{Absent, Published};
use crate::parts::{self, Database};
use crate::pipeline::{Outcome, Preparer, Stop};

/// So many of each kind are named.
const NAMED: usize = 20;
/// So many that seem to be missing are kept before they are looked for once more.
const KEPT: usize = 200_000;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Account {
    /// Rows of the table that are events.
    pub rows: u64,
    /// Messages that they lead to, and that are there.
    pub there: u64,
    pub missing: u64,
    /// Are not there, and may have been: the topic does not keep what is of their date.
    pub not_comparable: u64,
    /// Events that a topic has more than once, without replays.
    pub doubled: u64,
    pub replayed: u64,
    /// On the topics, and not in the table.
    pub foreign: u64,
    /// Messages on the topics that are no events of this format.
    pub unreadable: u64,
    /// Rows that cannot be encoded or addressed.
    pub unpublishable: u64,
    /// Some of each kind, for people.
    pub named: Vec<Named>,
    /// What the topics cannot tell.
    pub doubts: Vec<String>,
    /// Asked to stop: everything before this date was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    pub what: &'static str,
    pub id: String,
    pub event_date: Option<String>,
    /// Its topic, or why it cannot be published.
    pub detail: String,
}

/// What is compared, and with what.
pub struct Order<'a> {
    pub database: &'a Database,
    pub preparer: &'a mut Preparer,
    pub published: &'a mut Published,
    pub window: Window,
    /// Told after every row: how many there were.
    pub progress: &'a mut dyn FnMut(u64),
}

/// A message that a row leads to, and that is not on its topic as far as that was read.
struct Suspect {
    topic: u16,
    id: ShortId,
    text: String,
    date: i64,
}

struct Comparing<'a> {
    order: Order<'a>,
    account: Account,
    suspects: Vec<Suspect>,
    /// Those that rows lead to: others may be of other pipelines.
    led_to: BTreeSet<u16>,
    last_date: Option<i64>,
}

/// Compares all of the window, or until a stop is asked for.
pub async fn compare(order: Order<'_>, stop: &mut Stop) -> Result<Account, NoPart> {
    let mut comparing = Comparing {
        order,
        account: Account::default(),
        suspects: Vec::new(),
        led_to: BTreeSet::new(),
        last_date: None,
    };
    let mut from = comparing.order.window.from;
    loop {
        let Some(read) = stop
            .or(comparing.order.published.band(from.map(|it| it.0)))
            .await
        else {
            comparing.stopped(from);
            break;
        };
        let (mut band, ends) = read?;
        let horizon = band.horizon().map(Instant);
        let window = comparing.next_window(from, horizon);
        let part = parts::part(comparing.order.database, &window).await?;
        let is_done = comparing.rows(part, (&mut band, &ends), stop).await?;
        comparing.look_again(&ends).await?;
        if !is_done {
            let at = comparing.stopped(from);
            let to = Some(at);
            comparing.close(&band, &Window { to, ..window });
            break;
        }
        comparing.close(&band, &window);
        let is_last = |horizon: Instant| comparing.order.window.to.is_some_and(|to| to <= horizon);
        match horizon {
            Some(horizon) if !is_last(horizon) => from = Some(horizon),
            _ => break,
        }
    }
    let mut account = comparing.account;
    account.unreadable = comparing.order.published.unreadable();
    account.doubts = comparing.order.published.doubts();
    Ok(account)
}

impl Comparing<'_> {
    fn next_window(&self, from: Option<Instant>, horizon: Option<Instant>) -> Window {
        let all = &self.order.window;
        Window {
            from,
            to: match (all.to, horizon) {
                (Some(to), Some(horizon)) => Some(to.min(horizon)),
                (to, horizon) => to.or(horizon),
            },
            ..all.clone()
        }
    }

    /// False when asked to stop.
    async fn rows(
        &mut self,
        mut part: Part,
        (band, ends): (&mut Band, &Ends),
        stop: &mut Stop,
    ) -> Result<bool, NoPart> {
        loop {
            let Some(next) = stop.or(part.next()).await else {
                return Ok(false);
            };
            let Some((row, _)) = next? else {
                return Ok(true);
            };
            self.row(&row, band)?;
            if self.suspects.len() >= KEPT {
                self.look_again(ends).await?;
            }
        }
    }

    fn row(&mut self, row: &Row, band: &mut Band) -> Result<(), NoPart> {
        let mut messages: Vec<Message> = Vec::new();
        match self.order.preparer.prepare(row, &mut messages) {
            Ok(Outcome::Publish { event_date }) => {
                self.account.rows += 1;
                self.last_date = Some(event_date);
                for message in messages {
                    self.message(&message, event_date, band);
                }
            }
            Ok(Outcome::Skip(_)) => {}
            Ok(Outcome::Fail { id, failure }) => {
                self.account.rows += 1;
                self.account.unpublishable += 1;
                self.name("unpublishable", id, None, &failure.to_string());
            }
            Err(missing) => {
                let mend = "name the right table in source.table, or mend it";
                return Err(Error::fatal(missing.to_string(), mend).into());
            }
        }
        (self.order.progress)(self.account.rows);
        Ok(())
    }

    fn message(&mut self, message: &Message, date: i64, band: &mut Band) {
        let id = ShortId::of(&message.id);
        let Some(topic) = self.order.published.number(&message.address.topic) else {
            self.account.missing += 1;
            let topic = message.address.topic.to_string();
            return self.name("missing", message.id.to_string(), Some(date), &topic);
        };
        self.led_to.insert(topic);
        if band.has(topic, id) {
            self.account.there += 1;
            return;
        }
        self.suspects.push(Suspect {
            topic,
            id,
            text: message.id.to_string(),
            date,
        });
    }

    /// What was published after the topics were read, and before the table was, is not missing.
    async fn look_again(&mut self, ends: &Ends) -> Result<(), NoPart> {
        if self.suspects.is_empty() {
            return Ok(());
        }
        let only = self.suspects.iter().map(|it| (it.topic, it.id)).collect();
        let mut late = self.order.published.since(ends, only).await?;
        for suspect in std::mem::take(&mut self.suspects) {
            if late.has(suspect.topic, suspect.id) {
                self.account.there += 1;
                continue;
            }
            let what = match self.order.published.absent(suspect.topic, suspect.date) {
                Absent::Surely => {
                    self.account.missing += 1;
                    "missing"
                }
                Absent::Perhaps => {
                    self.account.not_comparable += 1;
                    "not comparable"
                }
            };
            let topic = self.topic(suspect.topic);
            self.name(what, suspect.text, Some(suspect.date), &topic);
        }
        Ok(())
    }

    /// What the topics have beyond the table.
    fn close(&mut self, band: &Band, window: &Window) {
        for (id, topic) in band.doubled() {
            self.account.doubled += 1;
            let topic = self.topic(topic);
            self.name("doubled", id.to_string(), None, &topic);
        }
        self.account.replayed += band.replayed() as u64;
        let is_ours = |(_, topic, date): &(ShortId, u16, i64)| {
            self.led_to.contains(topic) && window.has(*date)
        };
        let foreign: Vec<_> = band.foreign().filter(is_ours).collect();
        for (id, topic, date) in foreign {
            self.account.foreign += 1;
            let topic = self.topic(topic);
            self.name("foreign", id.to_string(), Some(date), &topic);
        }
    }

    /// Events of the last row's date may still have been to come: they are compared once more by whoever goes on.
    fn stopped(&mut self, from: Option<Instant>) -> Instant {
        let at = self.last_date.map(Instant).max(from).unwrap_or(Instant(0));
        self.account.stopped_at = Some(at.to_string());
        at
    }

    fn topic(&self, number: u16) -> String {
        let topics = self.order.published.topics();
        topics.get(usize::from(number)).cloned().unwrap_or_default()
    }

    fn name(&mut self, what: &'static str, id: String, date: Option<i64>, detail: &str) {
        let named = &mut self.account.named;
        if named.iter().filter(|it| it.what == what).count() < NAMED {
            named.push(Named {
                what,
                id,
                event_date: date.map(|date| Instant(date).to_string()),
                detail: detail.to_owned(),
            });
        }
    }
}
