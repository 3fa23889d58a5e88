//! What the loop shows of its run, and what it must keep for that: when the messages under way were committed.

use std::collections::VecDeque;
use std::time::Duration;

use headwater_core::positions::{Record, Snapshot};
use headwater_core::source::Source;
use serde::Deserialize as _;
use tokio::time::Instant;
use tracing::info;

use super::figures::{Board, Doing, Figures, Lag, Latency, Part, Tally};
use crate::clock;

/// Figures are published at most this often.
const EVERY: Duration = Duration::from_millis(200);
/// How far a snapshot has come is logged this often.
const TELL_EVERY: Duration = Duration::from_secs(10);

pub struct Shown<'a> {
    board: &'a Board,
    at: Option<Instant>,
    doing: Doing,
    /// When the transaction that is being read was committed.
    committed: Option<i64>,
    ages: Ages,
    /// In bytes: the last position that was confirmed, and the log's end.
    confirmed: Option<u64>,
    end: Option<u64>,
    snapshot: Option<Pacing>,
}

/// What the loop has at this moment.
pub struct Now {
    pub tally: Tally,
    /// The oldest message that is not settled, or the next one.
    pub oldest: u64,
    /// Messages and bytes.
    pub in_flight: (usize, usize),
    pub queued: Option<usize>,
    pub unanswered: Option<Instant>,
}

impl<'a> Shown<'a> {
    pub fn new(board: &'a Board, run: u64) -> Shown<'a> {
        board.show(|figures| {
            figures.run = Some(run);
            figures.unanswered = None;
        });
        Shown {
            board,
            at: None,
            doing: Doing::Carrying,
            committed: None,
            ages: Ages::default(),
            confirmed: None,
            end: None,
            snapshot: None,
        }
    }

    /// How far a snapshot has been remembered; none: this is none, or it is over.
    pub fn published(&mut self, snapshot: Option<&Snapshot>) {
        let part = snapshot.map(|snapshot| {
            let pacing = self
                .snapshot
                .get_or_insert_with(|| Pacing::begin(snapshot.rows));
            pacing.part(snapshot)
        });
        self.board.show(|figures| figures.snapshot = part);
        let Some(pacing) = &mut self.snapshot else {
            return;
        };
        if let Some(part) = part.filter(|_| pacing.is_to_be_told()) {
            if self.board.is_of_replay() {
                info!(progress = %part, "publishing rows again");
            } else {
                info!(progress = %part, "publishing the rows that were there before");
            }
        }
    }

    /// All of them are published, so many of which the log has too.
    pub fn complete(&mut self, snapshot: Option<&Snapshot>, again: u64) {
        self.published(None);
        let rows = snapshot.map_or(0, |snapshot| snapshot.rows);
        if self.board.is_of_replay() {
            info!(rows, "the rows are published again");
        } else {
            info!(rows, again, "the rows that were there before are published");
        }
    }

    /// The run begins where the record stands.
    pub fn begun<S: Source>(&mut self, record: &Record) {
        if let Ok(position) = S::Position::deserialize(&record.position) {
            self.confirmed::<S>(&position);
        }
    }

    pub fn confirmed<S: Source>(&mut self, position: &S::Position) {
        self.confirmed = S::place(position);
        self.board.show(|figures| {
            figures.confirmed = Some(position.to_string());
            figures.confirmed_bytes = self.confirmed;
        });
    }

    /// What the loop is at from now on.
    pub fn doing(&mut self, doing: Doing) {
        self.doing = doing;
    }

    /// A row of a transaction that was committed then is being read.
    pub fn reading(&mut self, committed: Option<i64>) {
        self.committed = committed;
    }

    /// Where the log ends.
    pub fn heard(&mut self, end: Option<u64>) {
        self.end = end;
    }

    /// A message of the row that was read last goes out.
    pub fn admitted(&mut self, number: u64) {
        self.ages.admitted(number, self.committed);
    }

    /// It was acked; all messages before `oldest` were.
    pub fn delivered(&mut self, number: u64, oldest: u64, latency: &mut Latency) {
        if let Some(age) = self.ages.delivered(number, oldest, clock::micros()) {
            latency.add(age);
        }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| now >= at + EVERY)
    }

    pub fn show(&mut self, now: &Now) {
        self.at = Some(Instant::now());
        let in_flight = now.in_flight.0 > 0;
        let lag = self.ages.lag(now.oldest, in_flight, clock::micros());
        let lag_bytes = match (self.end, self.confirmed) {
            (Some(end), Some(confirmed)) => Some(end.saturating_sub(confirmed)),
            _ => None,
        };
        self.board.show(|figures| {
            // Nothing is in flight, but the log is not read: events may be waiting in it since it was closed.
            let lag = match (&self.doing, lag, figures.lag) {
                (Doing::Draining, Lag::Nothing, Lag::Since(since)) => Lag::Since(since),
                _ => lag,
            };
            *figures = Figures {
                doing: self.doing.clone(),
                tally: now.tally,
                in_flight_messages: now.in_flight.0,
                in_flight_bytes: now.in_flight.1,
                queued: now.queued,
                unanswered: now.unanswered,
                lag,
                lag_bytes: lag_bytes.or(figures.lag_bytes),
                confirmed: figures.confirmed.take(),
                ..*figures
            };
        });
    }
}

/// How fast a snapshot goes, and when that was last told.
struct Pacing {
    begun: Instant,
    /// Rows that were published before.
    before: u64,
    told: Instant,
}

impl Pacing {
    fn begin(before: u64) -> Pacing {
        let now = Instant::now();
        Pacing {
            begun: now,
            before,
            told: now,
        }
    }

    fn part(&self, snapshot: &Snapshot) -> Part {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Part {
            rows: snapshot.rows,
            expected: snapshot.expected,
            rate: (snapshot.rows - self.before) * 1000 / millis.max(1),
        }
    }

    fn is_to_be_told(&mut self) -> bool {
        let due = self.told.elapsed() >= TELL_EVERY;
        if due {
            self.told = Instant::now();
        }
        due
    }
}

/// When the messages under way were committed. One entry a transaction, so the ledger's bound is its bound.
#[derive(Debug, Default)]
struct Ages {
    /// The number of a transaction's first message, and when it was committed. The first entry holds the oldest message that
    /// is not settled.
    commits: VecDeque<(u64, Option<i64>)>,
    /// Of the messages that were delivered since the figures were last shown.
    oldest: Option<u64>,
}

impl Ages {
    fn admitted(&mut self, number: u64, committed: Option<i64>) {
        if self.commits.back().is_none_or(|(_, at)| *at != committed) {
            self.commits.push_back((number, committed));
        }
    }

    /// How old the message is, in microseconds.
    fn delivered(&mut self, number: u64, oldest: u64, now: i64) -> Option<u64> {
        let after = self.commits.partition_point(|(first, _)| *first <= number);
        let committed = self.commits.get(after.checked_sub(1)?)?.1;
        self.forget(oldest);
        // Two machines' clocks: a message cannot be younger than nothing.
        let age = u64::try_from(now.saturating_sub(committed?)).unwrap_or(0);
        self.oldest = self.oldest.max(Some(age));
        Some(age)
    }

    fn forget(&mut self, oldest: u64) {
        while self.commits.get(1).is_some_and(|(next, _)| *next <= oldest) {
            self.commits.pop_front();
        }
    }

    /// While messages come and go between two looks, the oldest of them is told: nothing in flight just now is no proof of
    /// having caught up.
    fn lag(&mut self, oldest: u64, in_flight: bool, now: i64) -> Lag {
        self.forget(oldest);
        let delivered = self.oldest.take();
        if in_flight {
            return match self.commits.front() {
                Some((_, Some(committed))) => Lag::Since(*committed),
                _ => Lag::Unknown,
            };
        }
        match delivered.and_then(|age| i64::try_from(age).ok()) {
            Some(age) => Lag::Since(now.saturating_sub(age)),
            None => Lag::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_log_lags_though_nothing_is_in_flight() {
        let board = Board::default();
        let mut shown = Shown::new(&board, 1);
        let idle = || Now {
            tally: Tally::default(),
            oldest: 0,
            in_flight: (0, 0),
            queued: None,
            unanswered: None,
        };
        shown.show(&idle());
        assert_eq!(board.watch().borrow().lag, Lag::Nothing);
        board.parted(200);
        shown.doing(Doing::Draining);
        shown.show(&idle());
        assert_eq!(board.watch().borrow().lag, Lag::Since(200));
        shown.doing(Doing::Carrying);
        shown.show(&idle());
        assert_eq!(board.watch().borrow().lag, Lag::Nothing);
    }

    #[test]
    fn a_message_is_as_old_as_its_transaction() {
        let mut ages = Ages::default();
        for (number, committed) in [(0, 100), (1, 100), (2, 200), (3, 300)] {
            ages.admitted(number, Some(committed));
        }
        assert_eq!(ages.commits.len(), 3);
        assert_eq!(ages.lag(0, true, 1000), Lag::Since(100));
        assert_eq!(ages.delivered(2, 0, 1000), Some(800), "before its elders");
        assert_eq!(ages.delivered(0, 1, 1000), Some(900));
        assert_eq!(ages.lag(1, true, 1000), Lag::Since(100));
        assert_eq!(ages.delivered(1, 3, 1000), Some(900));
        assert_eq!(ages.lag(3, true, 1000), Lag::Since(300));
        assert_eq!(ages.delivered(3, 4, 250), Some(0), "a clock that is behind");
        assert_eq!(ages.commits.len(), 1, "what is settled is forgotten");
    }

    #[test]
    fn what_came_and_went_between_two_looks_was_late_too() {
        let mut ages = Ages::default();
        ages.admitted(0, Some(100));
        ages.delivered(0, 1, 700);
        assert_eq!(ages.lag(1, false, 1000), Lag::Since(400));
        assert_eq!(ages.lag(1, false, 1000), Lag::Nothing);
        ages.admitted(1, Some(900));
        assert_eq!(
            ages.lag(1, true, 1000),
            Lag::Since(900),
            "the first is done with"
        );
    }

    #[test]
    fn a_source_that_does_not_tell_leaves_the_lag_unknown() {
        let mut ages = Ages::default();
        ages.admitted(0, None);
        assert_eq!(ages.lag(0, true, 1000), Lag::Unknown);
        assert_eq!(ages.delivered(0, 1, 1000), None);
        assert_eq!(ages.lag(1, false, 1000), Lag::Nothing);
    }
}
