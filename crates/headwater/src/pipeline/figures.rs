//! What a pipeline shows of itself: counted by the loop, published now and then, read by whoever asks. Nothing decides by it.

use std::fmt;
use std::time::Duration;

use headwater_core::disposition::Skip;
use headwater_core::failure::Kind;
use headwater_core::filter::Rule;
use tokio::sync::watch;
use tokio::time::Instant;

/// The broker owes an answer for so long: nothing is being delivered.
const UNANSWERED: Duration = Duration::from_secs(5);
/// A loop that carries events publishes several times a second; one that has not done so for this long is stuck.
const STALE: Duration = Duration::from_secs(5);

/// What has passed since the process began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub rows: u64,
    pub events: u64,
    pub delivered: u64,
    pub skipped: [u64; Skip::ALL.len()],
    /// By the rules of the user's filter.
    pub filtered: [u64; Rule::MOST + 1],
    pub failed: [u64; Kind::ALL.len()],
    /// Dead letters that the broker has.
    pub dead_letters: [u64; Kind::ALL.len()],
    /// Members of payloads that were dropped because their schema does not have them.
    pub unknown_members: u64,
    pub reconnects: [u64; Cause::ALL.len()],
    /// Events of a snapshot that went on after an interruption, younger than its beginning: the log has them too.
    pub again: u64,
    pub latency: Latency,
}

impl Tally {
    /// The rules that skipped rows, and how many each.
    pub fn filtered(&self) -> impl Iterator<Item = (Rule, u64)> {
        let rules = (0..Rule::MOST).map(Rule::Skip).chain([Rule::Only]);
        let counted = rules.zip(self.filtered);
        counted.filter(|(_, count)| *count > 0)
    }
}

/// Why everything had to be opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The database: its connection broke, it was silent, it restarted, the lock was lost.
    Source,
    /// The broker's client broke, or could not be opened.
    Sink,
    /// The broker did not answer, and the log was given up meanwhile.
    Unanswered,
}

impl Cause {
    pub const ALL: [Cause; 3] = [Cause::Source, Cause::Sink, Cause::Unanswered];

    pub fn name(self) -> &'static str {
        match self {
            Cause::Source => "source",
            Cause::Sink => "sink",
            Cause::Unanswered => "unanswered",
        }
    }
}

/// How long messages took from their transaction's commit to the broker's ack.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latency {
    /// One for each bound, and one for all that took longer; each counts its own only.
    pub counts: [u64; Latency::BOUNDS.len() + 1],
    pub sum_micros: u64,
}

impl Latency {
    /// In microseconds: 1 ms to 1 h.
    pub const BOUNDS: [u64; 16] = [
        1_000,
        2_500,
        5_000,
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        60_000_000,
        600_000_000,
        3_600_000_000,
    ];

    pub fn add(&mut self, micros: u64) {
        let at = Latency::BOUNDS.partition_point(|bound| *bound < micros);
        self.counts[at] += 1;
        self.sum_micros = self.sum_micros.saturating_add(micros);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// What a pipeline is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    Starting,
    ReadingRecord,
    Locking,
    Trying,
    Opening,
    Carrying,
    /// The log is closed; what was read from it is still being delivered.
    Draining,
    /// After trouble, before the next try.
    Pausing(String),
    /// A row cannot be published: nothing is done until somebody mends that.
    Holding(String),
    Stopping,
}

/// How far a snapshot has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub rows: u64,
    /// About how many there were when it began.
    pub expected: Option<u64>,
    /// Rows a second, since this process began with it.
    pub rate: u64,
}

impl Part {
    /// About how many seconds are left.
    pub fn rest(&self) -> Option<u64> {
        let left = self.expected?.saturating_sub(self.rows);
        left.checked_div(self.rate)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rows)?;
        if let Some(expected) = self.expected {
            write!(f, " of about {expected}")?;
        }
        write!(f, " rows, {} rows/s", self.rate)?;
        match self.rest() {
            Some(rest) => write!(f, ", about {rest} s left"),
            None => Ok(()),
        }
    }
}

/// Since when the oldest event that is not delivered has been waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// The source does not tell when a transaction was committed, or nothing has been read yet.
    Unknown,
    Nothing,
    /// In microseconds since 1970.
    Since(i64),
}

/// One look at a pipeline.
#[derive(Debug, Clone)]
pub struct Figures {
    pub doing: Doing,
    pub tally: Tally,
    /// The run's number.
    pub run: Option<u64>,
    /// While rows that were there before are being published.
    pub snapshot: Option<Part>,
    pub in_flight_messages: usize,
    pub in_flight_bytes: usize,
    /// What the broker's client holds.
    pub queued: Option<usize>,
    pub lag: Lag,
    /// Between the confirmed position and the log's end.
    pub lag_bytes: Option<u64>,
    pub confirmed: Option<String>,
    /// The same, counted in bytes.
    pub confirmed_bytes: Option<u64>,
    /// Since when an answer of the broker has been awaited.
    pub unanswered: Option<Instant>,
    /// When the loop last published this.
    pub at: Instant,
}

impl Figures {
    fn new() -> Figures {
        Figures {
            doing: Doing::Starting,
            tally: Tally::default(),
            run: None,
            snapshot: None,
            in_flight_messages: 0,
            in_flight_bytes: 0,
            queued: None,
            lag: Lag::Unknown,
            lag_bytes: None,
            confirmed: None,
            confirmed_bytes: None,
            unanswered: None,
            at: Instant::now(),
        }
    }

    /// Whether it delivers, or would if there were anything to deliver.
    pub fn is_ready(&self) -> bool {
        self.doing == Doing::Carrying && !self.is_unanswered() && self.at.elapsed() < STALE
    }

    /// Whether a person is needed, and it waits for that.
    pub fn is_holding(&self) -> bool {
        matches!(self.doing, Doing::Holding(_))
    }

    fn is_unanswered(&self) -> bool {
        self.unanswered
            .is_some_and(|since| since.elapsed() >= UNANSWERED)
    }

    /// One sentence.
    pub fn waiting_for(&self) -> String {
        let messages = self.in_flight_messages;
        match &self.doing {
            Doing::Starting => "it is starting".into(),
            Doing::ReadingRecord => {
                "it waits for the broker, to read where the pipeline stands".into()
            }
            Doing::Locking => {
                "it waits for the pipeline's lock in the database: another instance holds it, or the \
                 database does not answer"
                    .into()
            }
            Doing::Trying => "it tries the row that stopped the last run".into(),
            Doing::Opening => "it waits for the database, to open its log".into(),
            Doing::Carrying | Doing::Draining if self.is_unanswered() => {
                let seconds = self.unanswered.map_or(0, |since| since.elapsed().as_secs());
                let log = if self.doing == Doing::Draining {
                    ", and the log has been given up meanwhile"
                } else {
                    ""
                };
                format!(
                    "it waits for the broker, which has not answered for {seconds} s: {messages} messages are in \
                     flight{log}"
                )
            }
            Doing::Carrying if self.at.elapsed() >= STALE => {
                format!("it has not moved for {} s", self.at.elapsed().as_secs())
            }
            Doing::Carrying if self.snapshot.is_some() => {
                let part = self.snapshot.map_or_else(String::new, |part| part.to_string());
                format!("it publishes the rows that were there before: {part}")
            }
            Doing::Carrying if messages == 0 => "nothing: it waits for new rows".into(),
            Doing::Carrying => format!("it waits for the acks of {messages} messages"),
            Doing::Draining => format!(
                "the log is closed, and it waits for the acks of {messages} messages before it opens it again"
            ),
            Doing::Pausing(trouble) => format!("it tries again in a moment after trouble: {trouble}"),
            Doing::Holding(why) => format!(
                "it holds, and tries again when the configuration's file or a schema's changes, or on SIGHUP: {why}"
            ),
            Doing::Stopping => {
                format!("it was asked to stop, and waits for the acks of {messages} messages")
            }
        }
    }
}

/// Where a pipeline's figures are shown.
#[derive(Debug, Clone)]
pub struct Board {
    figures: watch::Sender<Figures>,
    replay: bool,
}

impl Default for Board {
    fn default() -> Board {
        Board {
            figures: watch::Sender::new(Figures::new()),
            replay: false,
        }
    }
}

impl Board {
    /// Of a replay, which is told in other words.
    pub fn of_replay() -> Board {
        Board {
            replay: true,
            ..Board::default()
        }
    }

    pub fn is_of_replay(&self) -> bool {
        self.replay
    }

    pub fn watch(&self) -> watch::Receiver<Figures> {
        self.figures.subscribe()
    }

    pub fn show(&self, change: impl FnOnce(&mut Figures)) {
        self.figures.send_modify(|figures| {
            change(figures);
            figures.at = Instant::now();
        });
    }

    pub fn doing(&self, doing: Doing) {
        self.show(|figures| figures.doing = doing);
    }

    /// The log is not read any more: from `now` on events may be waiting in it.
    pub fn parted(&self, now: i64) {
        self.show(|figures| {
            figures.unanswered = None;
            if figures.lag == Lag::Nothing {
                figures.lag = Lag::Since(now);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let mut latency = Latency::default();
        for micros in [0, 1_000, 1_001, 3_600_000_000, 3_600_000_001] {
            latency.add(micros);
        }
        assert_eq!(latency.counts[..2], [2, 1]);
        assert_eq!(latency.counts[15..], [1, 1]);
        assert_eq!(latency.count(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_only_while_it_carries_and_the_broker_answers() {
        let board = Board::default();
        let seen = board.watch();
        assert!(!seen.borrow().is_ready());
        board.doing(Doing::Carrying);
        assert!(seen.borrow().is_ready());
        board.show(|figures| {
            figures.unanswered = Some(Instant::now());
            figures.in_flight_messages = 3;
        });
        assert!(seen.borrow().is_ready(), "an ack may take a moment");
        tokio::time::advance(UNANSWERED).await;
        board.show(|_| {});
        assert!(!seen.borrow().is_ready());
        let why = seen.borrow().waiting_for();
        assert!(
            why.contains("broker") && why.contains("5 s") && why.contains("3 messages"),
            "{why}"
        );
        board.show(|figures| figures.unanswered = None);
        assert!(seen.borrow().is_ready());
        tokio::time::advance(STALE).await;
        assert!(!seen.borrow().is_ready(), "a loop that stands still");
        for doing in [Doing::Locking, Doing::Draining, Doing::Stopping] {
            board.doing(doing);
            assert!(!seen.borrow().is_ready());
        }
    }

    #[test]
    fn a_log_that_is_not_read_lags_from_then_on() {
        let board = Board::default();
        let seen = board.watch();
        board.parted(5);
        assert_eq!(seen.borrow().lag, Lag::Unknown);
        board.show(|figures| figures.lag = Lag::Nothing);
        board.parted(6);
        board.parted(7);
        assert_eq!(seen.borrow().lag, Lag::Since(6));
    }
}
