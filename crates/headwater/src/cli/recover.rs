//! `headwater recover`: after a lost log, publishes what is missing, from the table, and lets the log go on anew.

mod only;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_core::instant::Instant;
use headwater_core::positions::{Positions as _, Record, Recovery, Snapshot};
use headwater_core::source::{Origin, Source};
use headwater_core::trouble::Trouble;
use headwater_core::window::Window;
use headwater_source::mysql::MySql;
use headwater_source::postgres::{self, Postgres};
use headwater_source::sqlite::Sqlite;
use only::Only;
use tokio::time::timeout;

use super::adopt::alone;
use super::audit::{account, encoders, published, unsent};
use super::init::{begin, first_record, write};
use super::progress::OfMessages;
use super::{Exit, progress};
use crate::compare::{Bands as _, Count, Found, Published, Unmade, Unsent, beginning};
use crate::config::Config;
use crate::parts::{self, Database, Outlet};
use crate::pipeline::{
    Board, Done, Extent, Letters, LogLost, Pipeline, Stop, Tally, Unfit, supervise,
};

/// Events of one transaction are older than its commit, and the last one that is remembered was not the last one committed before it.
const MARGIN: i64 = 15 * 60 * 1_000_000;
/// A log that is lost says so soon.
const LOOK: Duration = Duration::from_secs(15);
/// Unless it has to read much before it knows.
const DOUBT: Duration = Duration::from_mins(10);

pub async fn recover(config: &Config, from: Option<Instant>, dry_run: bool) -> Result<(), Exit> {
    let database = parts::database(config)?;
    match &database {
        Database::Postgres(settings) => {
            let origin = Postgres::new(settings.clone());
            Box::pin(with(config, &database, origin, (from, dry_run))).await
        }
        Database::MySql(settings) => {
            let origin = MySql::new(settings.clone());
            Box::pin(with(config, &database, origin, (from, dry_run))).await
        }
        Database::Sqlite(settings) => {
            let origin = Sqlite::new(settings.clone());
            Box::pin(with(config, &database, origin, (from, dry_run))).await
        }
    }
}

async fn with<O: Origin>(
    config: &Config,
    database: &Database,
    mut origin: O,
    (from, dry_run): (Option<Instant>, bool),
) -> Result<(), Exit> {
    let count = Count::default();
    let mut topics = published(config, &count).await?;
    alone(config, &mut origin).await?;
    let record = remembered(config).await?;
    if record.is_none() {
        no_slot(config, database).await?;
    }
    let standing = match &record {
        Some(record) => standing(&mut origin, record).await?,
        None => Standing::Lost,
    };
    let under_way = record.as_ref().filter(|it| it.is_recovering());
    let mut wider = false;
    let window = match (under_way, &standing) {
        (Some(record), _) => {
            let (window, anew) = going_on(config, record, from);
            wider = anew;
            Some(window)
        }
        (None, Standing::Sound) if from.is_none() => {
            eprintln!(
                "the log of pipeline {} can be read from its position: nothing is to be recovered, and headwater run goes on (if it \
                 stops further on, at a damaged place: headwater recover --from TIME)",
                config.name()
            );
            return Ok(());
        }
        (None, Standing::Refused(error)) if from.is_none() => {
            return Err(Exit::Person(error.clone()));
        }
        (None, standing) => Some(Window {
            from: since(
                config,
                record.as_ref(),
                from,
                matches!(standing, Standing::Lost),
            )?,
            ..Window::default()
        }),
    };
    let window = window.unwrap_or_default();
    let told = OfMessages::begin(&count);
    if dry_run {
        return look(config, &mut topics, window).await;
    }
    // Whether the topics can be read is known before anything is changed.
    topics.band(beginning(window.from), false).await?;
    drop((topics, told));
    let record = match under_way {
        // Lost once more, or wanted since an earlier time, it begins anew: what was published meanwhile is on the topics.
        Some(record) if !wider && !matches!(standing, Standing::Lost) => record.clone(),
        _ => anew(config, database, record, window.from).await?,
    };
    carry(config, origin, &record).await
}

/// What a recovery that is under way looks at, and whether it begins anew: it goes further back if it is asked to.
fn going_on(config: &Config, record: &Record, from: Option<Instant>) -> (Window, bool) {
    let begun = record.snapshot.as_ref().map(Snapshot::window);
    let begun = begun.unwrap_or_default();
    let wider = matches!((from, begun.from), (Some(from), Some(since)) if from < since);
    let anew = if wider {
        "; to look further back, it begins anew"
    } else {
        ""
    };
    eprintln!(
        "a recovery of pipeline {}, of events {}, is under way{anew}",
        config.name(),
        told(begun.from)
    );
    if wider {
        let window = Window {
            from,
            ..Window::default()
        };
        return (window, true);
    }
    (begun, false)
}

/// What would be published.
async fn look(config: &Config, topics: &mut Published, window: Window) -> Result<(), Exit> {
    let mut stop = super::stop_on_signals()?;
    let since = told(window.from);
    let topics = (topics, &letters(config, &mut stop).await?);
    let (account, ended) = account(config, topics, window, &mut stop).await?;
    ended?;
    println!(
        "events {since}: {} in the table, {} of them on the topics; recover would publish {}",
        account.rows,
        account.there,
        account.missing + account.not_comparable
    );
    if let Some(at) = &account.stopped_at {
        println!("stopped: only what has a date before {at} was looked at");
    }
    tell_doubts(&account.doubts);
    if account.unpublishable == 0 {
        return Ok(());
    }
    let named = account.named.iter();
    for named in named.filter(|it| it.what == "unpublishable") {
        println!("{named}");
    }
    Err(Exit::Person(format!(
        "{} of these events cannot be published, and recover would end before the first of them: mend what keeps them, or let a [filter] pass \
         over them",
        account.unpublishable
    )))
}

async fn remembered(config: &Config) -> Result<Option<Record>, Exit> {
    let (_sink, mut positions) = Outlet::new(config)?.connect().await?;
    let record = positions.read().await?;
    Ok(record.filter(Record::has_position))
}

/// A slot without a record is somebody's, and may hold all that is wanted.
async fn no_slot(config: &Config, database: &Database) -> Result<(), Exit> {
    let Database::Postgres(settings) = database else {
        return Ok(());
    };
    match postgres::slot_position(settings).await? {
        None => Ok(()),
        Some((position, _)) => Err(Exit::Person(format!(
            "pipeline {} has no position record, and its slot {} stands at {position}: headwater adopt goes on from there",
            config.name(),
            settings.slot
        ))),
    }
}

/// What the log makes of the position.
enum Standing {
    Sound,
    Lost,
    /// Something else is wrong, and a person is needed for it.
    Refused(String),
}

/// What may pass by itself is no reason to give a log up.
async fn standing<O: Origin>(origin: &mut O, record: &Record) -> Result<Standing, Exit> {
    let opened = match record.snapshot {
        Some(_) => {
            let mut record = record.clone();
            origin.snapshot(&mut record).await.map(drop)
        }
        None => match origin.open(record).await {
            Ok(mut source) => {
                let looked = look_at(&mut source).await;
                source.close().await;
                match looked {
                    Some(looked) => looked,
                    None => return Ok(Standing::Refused(unsure(record))),
                }
            }
            Err(error) => Err(error),
        },
    };
    Ok(match opened {
        Ok(()) => Standing::Sound,
        Err(error) if error.is_lost() => {
            let error = LogLost::behind::<<O::Source as Source>::Position>(record, Box::new(error));
            eprintln!("found: {error}");
            Standing::Lost
        }
        Err(error) if error.is_fatal() => Standing::Refused(error.to_string()),
        Err(error) => return Err(error.into()),
    })
}

/// What the log itself says; none if it could not tell in time. That a binlog was reset is seen by what it has in the place of the last
/// transaction, which may be a long one, or come behind many others.
async fn look_at<S: Source>(source: &mut S) -> Option<Result<(), S::Error>> {
    if let Ok(Err(error)) = timeout(LOOK, source.next()).await {
        return Some(Err(error));
    }
    if source.is_doubtful() {
        eprintln!("reading the log from before its position, to see whether it is the same one");
    }
    let reading = async {
        while source.is_doubtful() {
            source.next().await?;
        }
        Ok(())
    };
    timeout(DOUBT, reading).await.ok()
}

fn unsure(record: &Record) -> String {
    format!(
        "whether the log of pipeline {} is still the one that its position belongs to is not known: the last transaction before the position \
         has not come again within {} minutes. headwater run waits for it; headwater recover --from TIME gives the log up",
        record.name,
        DOUBT.as_secs() / 60
    )
}

/// Since when events may be missing; none: of all dates. A log that is given up though it is not lost may hold events that nobody has
/// read: then it is never later than by itself.
fn since(
    config: &Config,
    record: Option<&Record>,
    from: Option<Instant>,
    is_lost: bool,
) -> Result<Option<Instant>, Exit> {
    // A snapshot that was not finished: rows of any date may be missing.
    if record.is_some_and(|it| it.snapshot.is_some()) && from.is_none() {
        return Ok(None);
    }
    let by_itself = record
        .and_then(last)
        .map(|Instant(last)| Instant(last.saturating_sub(MARGIN)));
    match (from, by_itself) {
        (Some(from), Some(by_itself)) if is_lost && by_itself < from => {
            eprintln!(
                "by itself it would look at events since {by_itself}: those between that and {from} are not looked at"
            );
            Ok(Some(from))
        }
        (Some(from), Some(by_itself)) => Ok(Some(from.min(by_itself))),
        (None, Some(by_itself)) => Ok(Some(by_itself)),
        (Some(from), None) => Ok(Some(from)),
        (None, None) => Err(Exit::Configuration(format!(
            "of which date the last event of pipeline {} was is not remembered: name with --from since when events may be missing",
            config.name()
        ))),
    }
}

/// The date of the last event that is remembered. One that is ahead of its time tells nothing of those that came after it.
fn last(record: &Record) -> Option<Instant> {
    let event_time = record.event_time.as_ref()?.parse::<Instant>().ok()?;
    let written = record.written_at.parse::<Instant>().ok();
    Some(written.map_or(event_time, |written| written.min(event_time)))
}

fn told(since: Option<Instant>) -> String {
    since.map_or("of all dates".into(), |it| format!("since {it}"))
}

/// A new beginning in the log. Killed before the record is written, the old one still counts, and all of this is done again.
async fn anew(
    config: &Config,
    database: &Database,
    record: Option<Record>,
    since: Option<Instant>,
) -> Result<Record, Exit> {
    if let Database::Postgres(settings) = database {
        postgres::drop_slot(settings).await?;
    }
    let outlet = Outlet::new(config)?;
    let (_sink, mut positions) = outlet.connect().await?;
    outlet.init(&positions).await?;
    let (beginning, made) = begin(config, database, None).await?;
    for line in made {
        eprintln!("{line}");
    }
    let run = record.as_ref().map_or(0, |record| record.run + 1);
    let recovery = Recovery {
        since: since.map(|it| it.to_string()),
    };
    let record = Record {
        event_time: record.and_then(|it| it.event_time),
        snapshot: Some(Snapshot {
            recovery: Some(recovery),
            ..Snapshot::default()
        }),
        ..first_record(config, run, beginning)
    };
    write(&mut positions, &record).await?;
    Ok(record)
}

/// What stands as a dead letter is not published: it has its own way back.
async fn letters(config: &Config, stop: &mut Stop) -> Result<Unsent, Exit> {
    let stopped = || Exit::Person("it was stopped before anything was looked at".into());
    stop.or(unsent(config)).await.ok_or_else(stopped)?
}

/// Publishes what is missing, as a snapshot is published.
async fn carry<O: Origin>(config: &Config, origin: O, record: &Record) -> Result<(), Exit> {
    let mut stop = super::stop_on_signals()?;
    let unsent = Arc::new(letters(config, &mut stop).await?);
    let doubt = unsent.doubt();
    let since = record.snapshot.as_ref().and_then(|it| it.window().from);
    let (found, unfit) = (Arc::new(Mutex::new(Found::default())), Unfit::default());
    let count = Count::default();
    let mut pipeline = Pipeline {
        name: config.name().to_owned(),
        origin,
        destination: Only {
            outlet: Outlet::new(config)?,
            routes: parts::topics(config)?,
            encoders: encoders(config),
            since,
            timeless: parts::are_timeless(config),
            unfit: unfit.clone(),
            unsent: Arc::clone(&unsent),
            found: Arc::clone(&found),
            count: Arc::clone(&count),
        },
        preparer: parts::preparer(config)?.comparing(&unfit),
        letters: Letters {
            open: Some(Arc::new(Unmade {
                unsent,
                found: Arc::clone(&found),
            })),
            ..Letters::default()
        },
        bound: parts::bound(config),
        extent: Extent::Recovery,
        tally: Tally::default(),
        board: Board::default(),
    };
    let goes_on = record.snapshot.as_ref().is_some_and(|it| it.rows > 0);
    let told = progress::of_snapshot("recovery", pipeline.board.watch(), Some(count));
    let ended = supervise(&mut pipeline, &mut stop).await;
    told.abort();
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let done = ended.map_err(|trouble| Exit::trouble(&*trouble))?;
    if goes_on {
        println!("it was begun before: these are the events that were left");
    }
    tell(config, (since, &found), done);
    tell_doubts(&found.doubts);
    tell_doubts(doubt.as_slice());
    Ok(())
}

fn tell(config: &Config, (since, found): (Option<Instant>, &Found), done: Done) {
    println!("pipeline {}, events {}", config.name(), told(since));
    println!("{:>12} looked at", found.looked_at);
    println!("{:>12} already on the topics", found.there);
    if found.dead_lettered > 0 {
        println!(
            "{:>12} stand as dead letters: headwater dead-letters replay brings them",
            found.dead_lettered
        );
    }
    println!("{:>12} published now", found.sent);
    if found.perhaps_again > 0 {
        println!(
            "{:>12} of these may have been on the topics before",
            found.perhaps_again
        );
    }
    match done {
        Done::Asked => println!("stopped before the end: headwater recover goes on with it"),
        Done::Complete => println!("headwater run goes on in the log from where this began"),
    }
    if let Some(since) = since {
        println!(
            "not known: events that were committed late, with a date before {since}, were not looked at (--from goes further back)"
        );
    }
    println!(
        "not known: what was deleted from the table before it was published cannot be found in it"
    );
}

fn tell_doubts(doubts: &[String]) {
    for doubt in doubts {
        println!("not known: {doubt}");
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::source::Item;
    use headwater_sink::Error;
    use tokio::time::{Instant as Moment, sleep};

    use super::*;

    /// A log that has something to say after so long, and knows then which log it is.
    struct Scripted {
        after: Duration,
        says: Option<&'static str>,
        is_doubtful: bool,
    }

    impl Source for Scripted {
        type Position = u64;
        type Error = Error;

        fn identity(&self) -> serde_json::Value {
            serde_json::Value::Null
        }

        async fn next(&mut self) -> Result<Item<u64>, Error> {
            let begun = Moment::now();
            sleep(self.after).await;
            self.after -= begun.elapsed();
            self.is_doubtful = false;
            match self.says {
                Some(says) => Err(Error::fatal(says, "")),
                None => Ok(Item::Mark(7)),
            }
        }

        fn is_doubtful(&self) -> bool {
            self.is_doubtful
        }

        async fn confirm(&mut self, _: u64) -> Result<(), Error> {
            Ok(())
        }

        async fn close(self) {}
    }

    async fn looked(after: Duration, says: Option<&'static str>, is_doubtful: bool) -> String {
        let mut source = Scripted {
            after,
            says,
            is_doubtful,
        };
        match look_at(&mut source).await {
            None => "not sure".into(),
            Some(Ok(())) => "sound".into(),
            Some(Err(error)) => error.to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_is_sound_only_once_it_cannot_be_another_one() {
        let (soon, late, never) = (LOOK / 2, LOOK * 8, DOUBT * 2);
        assert_eq!(looked(soon, None, true).await, "sound");
        assert!(looked(soon, Some("reset"), true).await.contains("reset"));
        assert_eq!(looked(late, None, true).await, "sound");
        assert!(looked(late, Some("reset"), true).await.contains("reset"));
        assert_eq!(looked(never, Some("reset"), true).await, "not sure");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_log_that_was_looked_at_already_is_sound() {
        assert_eq!(looked(DOUBT * 2, None, false).await, "sound");
    }
}
