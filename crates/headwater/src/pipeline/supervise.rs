//! Starts a run, and starts the next one after transient trouble, with growing pauses.

use std::fmt;
use std::time::Duration;

use headwater_core::positions::{FORMAT, Positions, Record};
use headwater_core::sink::Sink;
use headwater_core::source::{Origin, Source};
use headwater_core::trouble::{Severity, Trouble};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::bound::Bound;
use super::ended::{Ended, LogLost, broken, lost};
use super::figures::{Board, Cause, Doing, Tally};
use super::letters::Letters;
use super::prepare::Preparer;
use super::run::Run;
use super::stop::Stop;
use super::trial;
use crate::clock;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A run that lasted this long was a good one: the pauses begin anew after it.
const GOOD_RUN: Duration = Duration::from_secs(10);

/// Where messages and positions go; opened again when the sink broke.
pub trait Destination {
    type Sink: Sink;
    type Positions: Positions;

    fn open(
        &mut self,
    ) -> impl Future<Output = Result<(Self::Sink, Self::Positions), Box<dyn Trouble>>>;
}

/// What a pipeline is made of.
pub struct Pipeline<O, D> {
    pub name: String,
    pub origin: O,
    pub destination: D,
    pub preparer: Preparer,
    pub letters: Letters,
    pub bound: Bound,
    pub extent: Extent,
    pub tally: Tally,
    pub board: Board,
}

/// How much is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The rows that were there before, if that was asked for, and then the log.
    All,
    /// Nothing but the rows that were there before.
    Snapshot,
    /// What a lost log did not bring, and then the end.
    Recovery,
}

impl<O, D> Pipeline<O, D> {
    /// Everything is to be opened again.
    fn again(&mut self, cause: Cause) {
        self.tally.reconnects[cause as usize] += 1;
        let tally = self.tally;
        self.board.show(|figures| {
            figures.tally = tally;
            figures.in_flight_messages = 0;
            figures.in_flight_bytes = 0;
            figures.queued = None;
            figures.unanswered = None;
        });
    }
}

/// How carrying events ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It was asked to stop.
    Asked,
    /// All that was wanted is published.
    Complete,
}

/// There is no position to begin at.
#[derive(Debug)]
pub struct NoRecord(pub String);

impl fmt::Display for NoRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pipeline {} has no position record, so where to begin is not known, and Headwater never starts over by itself. \
             If it never ran: headwater init. If the positions were lost: headwater adopt takes the log's own position, and \
             headwater recover --from TIME publishes what the table has and the topics do not",
            self.0
        )
    }
}

impl std::error::Error for NoRecord {}

impl Trouble for NoRecord {
    fn severity(&self) -> Severity {
        Severity::Fatal
    }
}

/// A recovery was broken off.
#[derive(Debug)]
pub struct NotRecovered(pub String);

impl fmt::Display for NotRecovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the recovery of pipeline {} was broken off, and events may still be missing: headwater recover goes on with it",
            self.0
        )
    }
}

impl std::error::Error for NotRecovered {}

impl Trouble for NotRecovered {
    fn severity(&self) -> Severity {
        Severity::Fatal
    }
}

/// Carries events until asked to stop, or until a person is needed.
pub async fn supervise<O: Origin, D: Destination>(
    pipeline: &mut Pipeline<O, D>,
    stop: &mut Stop,
) -> Result<Done, Box<dyn Trouble>> {
    let mut destination = None;
    let mut pause = FIRST_PAUSE;
    let mut last_trouble = String::new();
    loop {
        let began = Instant::now();
        let ended = attempt(pipeline, &mut destination, stop).await;
        if began.elapsed() >= GOOD_RUN {
            pause = FIRST_PAUSE;
        }
        let trouble = match ended {
            Ended::Asked => return Ok(Done::Asked),
            Ended::Complete if pipeline.extent != Extent::All => return Ok(Done::Complete),
            Ended::Complete => continue,
            Ended::Overdue { again } => {
                warn!(
                    again,
                    "the stop took too long: these messages will come again"
                );
                return Ok(Done::Asked);
            }
            Ended::Unanswered => {
                pipeline.again(Cause::Unanswered);
                continue;
            }
            Ended::Failed(failed) | Ended::Refused(failed) => return Err(Box::new(failed)),
            Ended::Source(trouble) | Ended::Sink(trouble) if trouble.is_fatal() => {
                return Err(trouble);
            }
            Ended::Source(trouble) => {
                pipeline.again(Cause::Source);
                trouble
            }
            Ended::Sink(trouble) => {
                destination = None;
                pipeline.again(Cause::Sink);
                trouble
            }
        };
        pipeline.board.doing(Doing::Pausing(trouble.to_string()));
        tell(&trouble.to_string(), &mut last_trouble);
        if stop.or(tokio::time::sleep(pause)).await.is_none() {
            return Ok(Done::Asked);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The same trouble again and again is told once.
fn tell(trouble: &str, last: &mut String) {
    if trouble == last {
        debug!(trouble, "still the same trouble: trying again");
    } else {
        warn!(trouble, "the run ended: trying again");
        trouble.clone_into(last);
    }
}

/// One run, from the lock to the last ack.
async fn attempt<O: Origin, D: Destination>(
    pipeline: &mut Pipeline<O, D>,
    destination: &mut Option<(D::Sink, D::Positions)>,
    stop: &mut Stop,
) -> Ended {
    let opened = match stop.or(open(pipeline, destination)).await {
        None => return Ended::Asked,
        Some(Err(ended)) => return ended,
        Some(Ok(opened)) => opened,
    };
    let Some(destination) = destination.as_mut() else {
        unreachable!("opened a line ago")
    };
    match opened {
        Opened::Snapshot(source, record) => {
            carry(pipeline, destination, source, record, stop).await
        }
        Opened::Log(source, record) => carry(pipeline, destination, source, record, stop).await,
    }
}

/// Carries what a source has, until something ends it and all that can be settled is.
async fn carry<S: Source, O: Origin, D: Destination>(
    pipeline: &mut Pipeline<O, D>,
    (sink, positions): &mut (D::Sink, D::Positions),
    mut source: S,
    record: Record,
    stop: &mut Stop,
) -> Ended {
    info!(
        name = %pipeline.name,
        run = record.run,
        position = %record.position,
        snapshot = record.snapshot.as_ref().map(ToString::to_string),
        "carrying events"
    );
    let mut run = Run::new(
        (record, S::enter),
        pipeline.bound,
        (&mut pipeline.preparer, &pipeline.letters),
        (sink, positions),
        (&mut pipeline.tally, &pipeline.board),
    );
    pipeline.board.doing(Doing::Carrying);
    let ended = run.carry(&mut source, stop).await;
    pipeline.board.parted(clock::micros());
    match &ended {
        Ended::Asked => source.close().await,
        Ended::Overdue { .. } | Ended::Sink(_) | Ended::Refused(_) => drop(source),
        Ended::Failed(_) | Ended::Complete => {
            if let Err(worse) = run.finish(source, stop).await {
                return worse;
            }
        }
        Ended::Unanswered | Ended::Source(_) => {
            if matches!(ended, Ended::Unanswered) {
                warn!("the broker does not answer: the log is given up until it does");
            }
            // Its connection first: a server that is to be stopped would wait for it.
            drop(source);
            if let Err(worse) = run.drain(stop).await {
                return worse;
            }
        }
    }
    match ended {
        Ended::Complete => match run.complete().await {
            Ok(()) => Ended::Complete,
            Err(worse) => worse,
        },
        Ended::Failed(failed) => {
            trial::remember(run.positions, &mut run.record, &failed).await;
            Ended::Failed(failed)
        }
        Ended::Source(trouble) => lost_behind::<O::Source>(&run.record, trouble),
        ended => ended,
    }
}

/// What was opened, and the record that it goes on from.
enum Opened<O: Origin> {
    Snapshot(O::Snapshot, Record),
    Log(O::Source, Record),
}

/// The lock, the record, the next run number, and the log, in this order: whoever holds the lock is alone, and whoever
/// was before us has written its last record or can be told by its number.
async fn open<O: Origin, D: Destination>(
    pipeline: &mut Pipeline<O, D>,
    destination: &mut Option<(D::Sink, D::Positions)>,
) -> Result<Opened<O>, Ended> {
    pipeline.board.doing(Doing::ReadingRecord);
    if destination.is_none() {
        *destination = Some(pipeline.destination.open().await.map_err(Ended::Sink)?);
    }
    let Some((_, positions)) = destination.as_mut() else {
        unreachable!("opened a line ago")
    };
    pipeline.board.doing(Doing::Locking);
    pipeline.origin.lock().await.map_err(lost)?;
    pipeline.board.doing(Doing::ReadingRecord);
    let read = positions.read().await.map_err(broken)?;
    // A record without a position is left by an init that was killed: that pipeline never began.
    let Some(record) = read.filter(Record::has_position) else {
        return Err(lost(NoRecord(pipeline.name.clone())));
    };
    match &record.snapshot {
        Some(_) if record.is_recovering() && pipeline.extent != Extent::Recovery => {
            return Err(lost(NotRecovered(pipeline.name.clone())));
        }
        Some(_) => return view(pipeline, positions, record).await,
        None if pipeline.extent != Extent::All => return Err(Ended::Complete),
        None => {}
    }
    log(pipeline, positions, record).await
}

/// The rows that were there before come first. Each of them is remembered by itself, so that nothing comes again before one that
/// stopped the last run, and it is not tried beforehand.
async fn view<O: Origin, D>(
    pipeline: &mut Pipeline<O, D>,
    positions: &mut impl Positions,
    mut record: Record,
) -> Result<Opened<O>, Ended> {
    pipeline.board.doing(Doing::Opening);
    let viewed = pipeline.origin.snapshot(&mut record).await;
    let source = viewed.map_err(|trouble| lost_behind::<O::Source>(&record, Box::new(trouble)))?;
    record.blocked = None;
    begin(positions, &mut record).await?;
    Ok(Opened::Snapshot(source, record))
}

async fn log<O: Origin, D>(
    pipeline: &mut Pipeline<O, D>,
    positions: &mut impl Positions,
    mut record: Record,
) -> Result<Opened<O>, Ended> {
    if let Some(blocked) = record.blocked.clone() {
        // The number first: a trial can last, and whoever takes the lock over meanwhile takes the next one.
        begin(positions, &mut record).await?;
        pipeline.board.doing(Doing::Trying);
        let judge = (&mut pipeline.preparer, pipeline.letters.policy);
        let tried = trial::hold(&mut pipeline.origin, judge, &record, &blocked).await;
        if let Err(Ended::Failed(failed)) = &tried {
            trial::remember(positions, &mut record, failed).await;
        }
        tried?;
        // Forgotten with the next number, before the log is opened: that may need several tries, a trial each would not end.
        record.blocked = None;
        begin(positions, &mut record).await?;
    }
    pipeline.board.doing(Doing::Opening);
    let opened = pipeline.origin.open(&record).await;
    let source = opened.map_err(|trouble| lost_behind::<O::Source>(&record, Box::new(trouble)))?;
    record.source = source.identity();
    begin(positions, &mut record).await?;
    Ok(Opened::Log(source, record))
}

fn lost_behind<S: Source>(record: &Record, trouble: Box<dyn Trouble>) -> Ended {
    Ended::Source(LogLost::behind::<S::Position>(record, trouble))
}

/// Takes the next run number.
async fn begin<R: Positions>(positions: &mut R, record: &mut Record) -> Result<(), Ended> {
    record.run += 1;
    record.format = FORMAT;
    record.written_at = clock::now().to_string();
    record.headwater = env!("CARGO_PKG_VERSION").into();
    positions.write(record).map_err(broken)?;
    positions.written().await.map_err(broken)
}
