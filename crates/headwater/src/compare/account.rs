//! A window of the table compared with the topics: what `audit` tells, and `recover --dry-run`.

use std::collections::BTreeSet;
use std::time::Duration;

use headwater_core::band::{Band, Place, ShortId};
use headwater_core::event::Role;
use headwater_core::failure::Failure;
use headwater_core::instant::Instant;
use headwater_core::message::Message;
use headwater_core::row::{Row, Value};
use headwater_core::window::Window;
use headwater_sink::kafka::Ends;
use headwater_source::{Error, NoPart, Part};
use tokio::time::timeout;

use super::published::{Absent, Bands, beginning};
use super::unsent::Unsent;
use crate::parts::{self, Database};
use crate::pipeline::{Outcome, Piece, Preparer, Stop, Unfit};

/// So many that seem to be missing are kept before they are looked for once more.
const KEPT: usize = 50_000;
/// Who is asked to stop does not wait for Kafka much longer.
const LAST_LOOK: Duration = Duration::from_secs(5);

mod found;

pub use found::{Account, Named};

/// What is compared, and with what.
pub struct Order<'a, B> {
    pub database: &'a Database,
    /// And where it puts what cannot be encoded.
    pub preparer: (Preparer, Unfit),
    pub published: &'a mut B,
    pub unsent: &'a Unsent,
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

struct Comparing<'a, B> {
    order: Order<'a, B>,
    /// Of dates that are done with.
    account: Account,
    /// Of the last row's date, of which more may be to come.
    of_date: Account,
    suspects: Vec<Suspect>,
    /// Those that rows lead to: others may be of other pipelines.
    led_to: BTreeSet<u16>,
    last_date: Option<i64>,
}

/// Compares all of the window, or until a stop is asked for; or what ended it before.
pub async fn compare<B: Bands>(
    order: Order<'_, B>,
    stop: &mut Stop,
) -> (Account, Result<(), NoPart>) {
    let mut comparing = Comparing {
        order,
        account: Account::default(),
        of_date: Account::default(),
        suspects: Vec::new(),
        led_to: BTreeSet::new(),
        last_date: None,
    };
    let mut from = beginning(comparing.order.window.from);
    let ended = loop {
        match comparing.band(from, stop).await {
            Ok(Some(next)) => from = next,
            Ok(None) => break Ok(()),
            Err(no) => break Err(no),
        }
    };
    comparing.date_is_done();
    let mut account = comparing.account;
    account.unreadable = comparing.order.published.unreadable();
    account.doubts = comparing.order.published.doubts();
    if account.missing + account.unpublishable > 0 {
        account.doubts.extend(comparing.order.unsent.doubt());
    }
    (account, ended)
}

impl<B: Bands> Comparing<'_, B> {
    /// One band; then from where the next one is, if there is one.
    async fn band(&mut self, from: Place, stop: &mut Stop) -> Result<Option<Place>, NoPart> {
        let Some(begun) = stop.or(self.begin(from)).await else {
            self.stopped(from);
            return Ok(None);
        };
        let (mut band, ends, window, part) = match begun {
            Ok(begun) => begun,
            Err(no) => {
                self.stopped(from);
                return Err(no);
            }
        };
        let before = (self.account.clone(), self.of_date.clone(), self.last_date);
        let read = self.rows(part, (&mut band, &ends), stop).await;
        let looked = if matches!(read, Ok(true)) {
            self.look_again(&ends).await
        } else {
            let looking = timeout(LAST_LOOK, self.look_again(&ends)).await;
            looking.unwrap_or_else(|_| Err(Error::transient("Kafka does not answer").into()))
        };
        match (read, looked) {
            (Ok(true), Ok(())) => {
                self.close(&band, &window);
                let to = self.order.window.to;
                let is_last = |horizon: Place| to.is_some_and(|to| to.0 <= horizon.date);
                Ok(band.horizon().filter(|horizon| !is_last(*horizon)))
            }
            (read, Ok(())) => {
                let to = Some(self.stopped(from));
                self.close(&band, &Window { to, ..window });
                read.map(|_| None)
            }
            // What is missing of this band is not known.
            (read, Err(no)) => {
                (self.account, self.of_date, self.last_date) = before;
                self.suspects.clear();
                self.stopped(from);
                if read? { Err(no) } else { Ok(None) }
            }
        }
    }

    async fn begin(&mut self, from: Place) -> Result<(Band, Ends, Window, Part), NoPart> {
        let (band, ends) = self.order.published.band(from, false).await?;
        let window = self.next_window(&band);
        let part = parts::part(self.order.database, &window).await?;
        Ok((band, ends, window, part))
    }

    /// The dates that a band has events of; of the first and of the last one perhaps not all.
    fn next_window(&self, band: &Band) -> Window {
        let all = &self.order.window;
        let from = Some(band.from().date).filter(|date| *date > i64::MIN);
        let horizon = band.horizon().map(|horizon| {
            let whole = i64::from(!horizon.is_before_its_date());
            Instant(horizon.date.saturating_add(whole))
        });
        Window {
            from: from.map(Instant).or(all.from),
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
        let mut pieces: Vec<Piece> = Vec::new();
        match self.order.preparer.0.prepare_each(row, &mut pieces) {
            Ok(Outcome::Publish { event_date }) => {
                let date = Some(event_date);
                self.reach(event_date);
                let id = pieces.first().map(Piece::id);
                self.of_date.rows += u64::from(id.is_none_or(|id| is_in(band, date, id)));
                for piece in pieces {
                    self.piece(piece, event_date, band);
                }
            }
            Ok(Outcome::Skip(_) | Outcome::Filtered(_)) => {}
            Ok(Outcome::Fail { id, failure }) => {
                let date = date_of(row);
                if let Some(date) = date {
                    self.reach(date);
                }
                if is_in(band, date, &id) {
                    self.of_date.rows += 1;
                    self.unpublishable((id, None, None), date, &failure);
                }
            }
            Err(missing) => {
                let mend = "name the right table in source.table, or mend it";
                return Err(Error::fatal(missing.to_string(), mend).into());
            }
        }
        (self.order.progress)(self.account.rows + self.of_date.rows);
        Ok(())
    }

    fn piece(&mut self, piece: Piece, date: i64, band: &mut Band) {
        match piece {
            Piece::Message(_, message) => self.message(&message, date, band),
            Piece::Failed(id, row) if is_in(band, Some(date), &id) => {
                let of = (id, row.route, row.topic.as_deref());
                self.unpublishable(of, Some(date), &row.failure);
            }
            Piece::Failed(..) => {}
        }
    }

    /// Rows come in the order of their dates.
    fn reach(&mut self, date: i64) {
        if self.last_date != Some(date) {
            self.date_is_done();
            self.last_date = Some(date);
        }
    }

    fn date_is_done(&mut self) {
        self.account.add(std::mem::take(&mut self.of_date));
    }

    /// Where an event of this date is counted.
    fn of(&mut self, date: i64) -> &mut Account {
        if self.last_date == Some(date) {
            &mut self.of_date
        } else {
            &mut self.account
        }
    }

    fn message(&mut self, message: &Message, date: i64, band: &mut Band) {
        let failure = self.order.preparer.1.take(message);
        if !is_in(band, Some(date), &message.id) {
            return;
        }
        let id = ShortId::of(&message.id);
        let number = self.order.published.number(&message.address.topic);
        if let Some(topic) = number {
            self.led_to.insert(topic);
            if band.has(topic, id) {
                self.of(date).there += 1;
                return;
            }
        }
        let text = message.id.to_string();
        match (number, failure) {
            (_, Some(failure)) => {
                let topic = Some(&*message.address.topic);
                self.unpublishable((text, None, topic), Some(date), &failure);
            }
            (None, None) => {
                let topic = message.address.topic.to_string();
                let what = self.absent((id, date), &topic, Absent::Surely);
                self.name(what, text, Some(date), &topic);
            }
            (Some(topic), None) => self.suspects.push(Suspect {
                topic,
                id,
                text,
                date,
            }),
        }
    }

    /// Of a message to this topic, of what this route made of a row, or of a row as a whole.
    fn unpublishable(
        &mut self,
        (id, route, topic): (String, Option<usize>, Option<&str>),
        date: Option<i64>,
        failure: &Failure,
    ) {
        let what = if self.order.unsent.has(ShortId::of(&id), route, topic) {
            self.of_date.dead_lettered += 1;
            "dead-lettered"
        } else {
            self.of_date.unpublishable += 1;
            "unpublishable"
        };
        self.name(what, id, date, &failure.to_string());
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
                self.of(suspect.date).there += 1;
                continue;
            }
            let absent = self.order.published.absent(suspect.topic, suspect.date);
            let topic = self.topic(suspect.topic);
            let what = self.absent((suspect.id, suspect.date), &topic, absent);
            self.name(what, suspect.text, Some(suspect.date), &topic);
        }
        Ok(())
    }

    /// Counts an event that is not on its topic.
    fn absent(&mut self, (id, date): (ShortId, i64), topic: &str, absent: Absent) -> &'static str {
        let is_unsent = self.order.unsent.has(id, None, Some(topic));
        let account = self.of(date);
        let (count, what) = match absent {
            _ if is_unsent => (&mut account.dead_lettered, "dead-lettered"),
            Absent::Surely => (&mut account.missing, "missing"),
            Absent::Perhaps => (&mut account.not_comparable, "not comparable"),
        };
        *count += 1;
        what
    }

    /// What the topics have beyond the table.
    fn close(&mut self, band: &Band, window: &Window) {
        let is_before = |date: i64| window.to.is_none_or(|to| date < to.0);
        for (id, topic, _) in band.doubled().filter(|(_, _, date)| is_before(*date)) {
            self.account.doubled += 1;
            let topic = self.topic(topic);
            self.name("doubled", id.to_string(), None, &topic);
        }
        let replayed = band.replayed().filter(|date| is_before(*date));
        self.account.replayed += replayed.count() as u64;
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

    /// Events of the last row's date may still have been to come: whoever goes on compares and counts all of them.
    fn stopped(&mut self, from: Place) -> Instant {
        let from = Some(from.date).filter(|date| *date > i64::MIN);
        let at = self.last_date.max(from);
        if self.last_date < at {
            self.date_is_done();
        } else {
            self.of_date = Account::default();
        }
        let at = Instant(at.unwrap_or(0));
        self.account.stopped_at = Some(at.to_string());
        at
    }

    fn topic(&self, number: u16) -> String {
        let topics = self.order.published.topics();
        topics.get(usize::from(number)).cloned().unwrap_or_default()
    }

    fn name(&mut self, what: &'static str, id: String, date: Option<i64>, detail: &str) {
        let named = Named {
            what,
            id,
            event_date: date.map(|date| Instant(date).to_string()),
            detail: detail.to_owned(),
        };
        match date {
            Some(date) => self.of(date).name(named),
            None => self.account.name(named),
        }
    }
}

/// A date with too many events for one band is read once for each of its bands.
fn is_in(band: &Band, date: Option<i64>, id: &str) -> bool {
    let id = ShortId::of(id);
    date.is_none_or(|date| band.covers(Place { date, id }))
}

fn date_of(row: &Row) -> Option<i64> {
    let mut cells = row.table.columns.iter().zip(&row.cells);
    let (_, cell) = cells.find(|(name, _)| *name == Role::EventDate.name())?;
    match cell {
        Value::Micros(date) => Some(*date),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
