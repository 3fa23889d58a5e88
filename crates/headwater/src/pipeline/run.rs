//! The loop: the only place where source, sink, ledger and positions meet.
//!
//! Rule: only what the ledger returns is remembered, and only what is remembered is confirmed.

mod end;
mod report;
mod row;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::instant;
use headwater_core::ledger::{Ledger, Ticket};
use headwater_core::message::Message;
use headwater_core::positions::{FORMAT, Positions, Record};
use headwater_core::sink::{Sink, Unsent};
use headwater_core::source::{Item, Source};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::bound::Bound;
use super::ended::{Ended, broken, lost};
use super::figures::{Board, Doing, Tally};
use super::letters::{Letters, Seed, Seeds};
use super::memory::{Due, Memory};
use super::prepare::{Piece, Preparer};
use super::shown::{Now, Shown};
use super::stop::Stop;
use super::ticks::Ticks;
use crate::clock;

/// Without an answer from the broker for this long the log is given up, so that its server can be stopped meanwhile.
const UNANSWERED: Duration = Duration::from_secs(10);

/// One run: from opening a log until it has to be opened again.
pub struct Run<'a, P, K, R> {
    pub record: Record,
    pub bound: Bound,
    pub preparer: &'a mut Preparer,
    pub sink: &'a mut K,
    pub positions: &'a mut R,
    pub tally: &'a mut Tally,
    shown: Shown<'a>,
    ledger: Ledger<Due<P>>,
    memory: Memory<P>,
    letters: &'a Letters,
    /// What the preparer made of the row that was read last; kept for its room.
    pieces: Vec<Piece>,
    /// Messages of rows that were read, in order, for which there was no room yet.
    waiting: VecDeque<(Message, Option<Seed>)>,
    /// Letters of refused messages, and behind them the message that the sink gave back; they go before all others.
    held: VecDeque<(Message, Ticket)>,
    /// Of messages under way.
    seeds: Seeds,
    /// Rows were read after the last mark.
    inside: bool,
    /// None: still where the record stands.
    last_mark: Option<Due<P>>,
    /// The same as text, once a row needs it.
    after: Option<Arc<str>>,
    /// How many the preparer had dropped when it was last asked.
    unknown_members: u64,
    event_time: Option<i64>,
    /// Writes a position into the record, as its source wants it.
    enter: fn(&P, &mut Record),
    /// Events of this date or later are in the log too, or may be.
    again_since: Option<i64>,
    /// Since when an answer of the broker has been awaited.
    unanswered: Option<Instant>,
    ticks: Ticks,
}

impl<'a, P, K, R> Run<'a, P, K, R>
where
    P: Clone + fmt::Display + PartialEq + Serialize + DeserializeOwned,
    K: Sink,
    R: Positions,
{
    pub fn new(
        (record, enter): (Record, fn(&P, &mut Record)),
        bound: Bound,
        (preparer, letters): (&'a mut Preparer, &'a Letters),
        (sink, positions): (&'a mut K, &'a mut R),
        (tally, board): (&'a mut Tally, &'a Board),
    ) -> Self {
        Run {
            shown: Shown::new(board, record.run),
            ledger: Ledger::new(record.run),
            memory: Memory::new(tally.events),
            letters,
            pieces: Vec::new(),
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            seeds: Seeds::default(),
            inside: false,
            last_mark: None,
            after: None,
            unknown_members: preparer.unknown_members(),
            event_time: None,
            enter,
            again_since: again_since(&record),
            unanswered: None,
            ticks: Ticks::begin(),
            record,
            bound,
            preparer,
            sink,
            positions,
            tally,
        }
    }

    /// Carries rows until something ends it.
    pub async fn carry<S: Source<Position = P>>(
        &mut self,
        source: &mut S,
        stop: &mut Stop,
    ) -> Ended {
        let mut stopping = stop.is_asked();
        self.shown.begun::<S>(&self.record);
        loop {
            if stopping && !self.inside && self.is_settled() {
                self.tell_what_comes_again();
                return Ended::Asked;
            }
            if stopping {
                self.shown.doing(Doing::Stopping);
                self.hurry();
            }
            let reading = self.has_room() && (self.inside || !stopping);
            let done = tokio::select! {
                report = self.sink.next_report() => self.reported(report),
                written = self.positions.written(), if self.memory.is_writing() => {
                    match self.written(written) {
                        Ok(Some(position)) => self.confirm(source, position).await,
                        Ok(None) => Ok(()),
                        Err(ended) => Err(ended),
                    }
                }
                item = listen(source, reading) => match item {
                    Ok(item) => self.read(item, source),
                    Err(trouble) => Err(lost(trouble)),
                },
                now = self.ticks.next() => {
                    self.shown.heard(source.end());
                    self.ticked(now)
                }
                () = stop.turn(stopping) => {
                    if std::mem::replace(&mut stopping, true) { Err(self.overdue()) } else { Ok(()) }
                }
            };
            if let Err(ended) = done {
                return ended;
            }
        }
    }

    async fn confirm<S: Source<Position = P>>(
        &mut self,
        source: &mut S,
        position: P,
    ) -> Result<(), Ended> {
        self.shown.confirmed::<S>(&position);
        source.confirm(position).await.map_err(lost)
    }

    fn read<S: Source<Position = P>>(&mut self, item: Item<P>, source: &S) -> Result<(), Ended> {
        match item {
            Item::Row(row) => {
                self.inside = true;
                self.ticks.rouse();
                self.shown.reading(source.committed_at());
                self.prepare(row, source)?;
                self.push()
            }
            Item::Mark(position) => {
                self.inside = false;
                let mark = self.reached(position);
                self.last_mark = Some(mark.clone());
                self.after = None;
                self.settled(mark, Ledger::mark);
                Ok(())
            }
            Item::Hurry => {
                self.hurry();
                Ok(())
            }
            Item::End => Err(Ended::Complete),
        }
    }

    /// A log that can be resumed only where it was marked before says that again: what came since does not lie before it.
    fn reached(&self, position: P) -> Due<P> {
        let before = self.last_mark.as_ref();
        let (events, event_time) = match before.filter(|mark| mark.position == position) {
            Some(mark) => (mark.events, mark.event_time),
            None => (self.tally.events, self.event_time),
        };
        Due {
            position,
            events,
            event_time,
        }
    }

    /// How many events were read behind the last mark.
    fn beyond(&self) -> u64 {
        let mark = self.last_mark.as_ref();
        mark.map_or(0, |mark| self.tally.events - mark.events)
    }

    /// Hands the sink what waits, as far as it and the bound have room.
    fn push(&mut self) -> Result<(), Ended> {
        while let Some((message, ticket)) = self.held.pop_front().or_else(|| self.admit()) {
            self.unanswered.get_or_insert_with(Instant::now);
            match self.sink.send(message, ticket) {
                Ok(()) => {}
                Err(Unsent::Later(message, ticket)) => {
                    self.held.push_front((message, ticket));
                    break;
                }
                Err(Unsent::Broken(trouble)) => return Err(broken(trouble)),
            }
        }
        Ok(())
    }

    fn admit(&mut self) -> Option<(Message, Ticket)> {
        let (message, seed) = self.waiting.front()?;
        let size = message.size() + seed.as_ref().map_or(0, Seed::size);
        if !self.bound.admits(&self.ledger, size) {
            return None;
        }
        let (message, seed) = self.waiting.pop_front()?;
        let ticket = self.ledger.admit(size);
        self.seeds.keep(ticket.number(), seed);
        self.shown.admitted(ticket.number());
        Some((message, ticket))
    }

    fn has_room(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty() && self.bound.has_room(&self.ledger)
    }

    /// Nothing is on its way, and nothing is left to be remembered.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.ledger.outstanding() == 0 && self.memory.is_clear()
    }

    /// Asks the ledger, and lets memory know what has become due.
    fn settled<T>(&mut self, what: T, ask: impl FnOnce(&mut Ledger<Due<P>>, T) -> Option<Due<P>>) {
        if let Some(due) = ask(&mut self.ledger, what) {
            self.memory.due(due);
        }
        if self.memory.is_urgent() {
            self.ticks.rouse();
        }
    }

    fn written(&mut self, written: Result<(), R::Error>) -> Result<Option<P>, Ended> {
        written.map_err(broken)?;
        let position = self.memory.written();
        self.answered();
        Ok(position)
    }

    fn ticked(&mut self, now: Instant) -> Result<(), Ended> {
        self.show(now);
        match self.unanswered {
            // What was read behind the last mark would come again; a server that is to be stopped is heard by `listen`.
            Some(since) if now > since + UNANSWERED && !self.inside && self.beyond() == 0 => {
                Err(Ended::Unanswered)
            }
            None if !self.inside && !self.memory.is_urgent() => {
                self.ticks.rest();
                self.remember(now)
            }
            _ => self.remember(now),
        }
    }

    /// Somebody waits for the next position to be remembered.
    fn hurry(&mut self) {
        self.memory.hurry();
        self.ticks.rouse();
    }

    /// Begins to write the position that is due, if it is time for one.
    fn remember(&mut self, now: Instant) -> Result<(), Ended> {
        let Some(due) = self.memory.begin(now) else {
            return Ok(());
        };
        let event_time = due.event_time.map(|at| instant::Instant(at).to_string());
        (self.enter)(&due.position, &mut self.record);
        self.shown.published(self.record.snapshot.as_ref());
        self.record.event_time = event_time.or(self.record.event_time.take());
        self.record.format = FORMAT;
        self.record.written_at = clock::now().to_string();
        self.unanswered.get_or_insert(now);
        self.positions.write(&self.record).map_err(broken)
    }

    /// Lets everyone see how it stands, now and then.
    fn show(&mut self, now: Instant) {
        if self.shown.is_due(now) {
            let now = Now {
                tally: *self.tally,
                oldest: self.ledger.oldest(),
                in_flight: (self.ledger.outstanding(), self.ledger.outstanding_bytes()),
                queued: self.sink.queued(),
                unanswered: self.unanswered,
            };
            self.shown.show(&now);
        }
    }

    fn answered(&mut self) {
        let awaited = self.ledger.outstanding() > 0 || self.memory.is_writing();
        self.unanswered = awaited.then(Instant::now);
    }
}

/// Since when a snapshot's rows may be in the log too: only its first view belongs to a place there.
fn again_since(record: &Record) -> Option<i64> {
    record.snapshot.as_ref().filter(|it| it.views > 1)?;
    begun(record)
}

/// When the snapshot began that is under way.
fn begun(record: &Record) -> Option<i64> {
    let begun = record.snapshot.as_ref()?.begun.as_ref()?;
    Some(begun.parse::<instant::Instant>().ok()?.0)
}

/// The next item, or, while there is no room for one, nothing but the loss of the log.
async fn listen<S: Source>(source: &mut S, reading: bool) -> Result<Item<S::Position>, S::Error> {
    if reading {
        source.next().await
    } else {
        Err(source.lost().await)
    }
}
