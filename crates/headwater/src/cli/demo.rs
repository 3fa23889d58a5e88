//! `headwater demo`: the whole path with nothing installed.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headwater_core::disposition::Skip;
use headwater_core::trouble::Trouble;
use headwater_source::sqlite::Sqlite;

use super::Exit;
use crate::config::{self, Config};
use crate::demo::{self, Application, Delivered, Witness, Written};
use crate::parts::{self, AnyPositions, AnySink, Database, Outlet};
use crate::pipeline::{Ask, Board, Destination, Extent, Letters, Pipeline, Stop, Tally, supervise};

/// How long the demo waits for the last events to arrive before it calls them lost.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// End after so many events
    #[arg(long, default_value_t = 20, value_name = "N")]
    events: usize,
    /// Events a second
    #[arg(long, default_value_t = 20.0, value_name = "N", value_parser = rate)]
    rate: f64,
    /// Send to Kafka instead of standard output
    #[arg(long, value_name = "BROKERS")]
    kafka: Option<String>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.1..=1e6).contains(&rate) => Ok(rate),
        _ => Err("a number from 0.1 to 1000000 is wanted".into()),
    }
}

pub async fn demo(args: &Args) -> Result<(), Exit> {
    let folder = tempfile::tempdir()
        .map_err(|e| Exit::Unexpected(format!("no temporary folder could be made: {e}")))?;
    let file = folder.path().join("headwater.toml");
    let config = config::parse(&toml(args), &file, std::iter::empty())?;
    crate::telemetry::start(config.log());
    let database = folder.path().join("shop.db");
    let application = Application::create(&database, args.rate).map_err(sqlite)?;
    eprintln!(
        "An application writes {} events into the outbox table of {}.\n\
         Headwater publishes them to {}.\n",
        args.events,
        database.display(),
        args.kafka.as_deref().unwrap_or("standard output")
    );
    super::init::init(&config, false).await?;
    let delivered = Delivered::default();
    let (written, tally) = carry(&config, application, args.events, &delivered).await?;
    summary(&database, &written, &tally, &delivered.all())
}

/// The demo's configuration is the text that a user would write.
fn toml(args: &Args) -> String {
    let sink = match &args.kafka {
        Some(brokers) => format!("brokers = {brokers:?}"),
        None => "kind = \"stdout\"".into(),
    };
    format!(
        "name = \"demo\"\n\
         [source]\nurl = \"sqlite:shop.db\"\nsnapshot = \"never\"\n\
         [encode]\nformat = \"json\"\n\
         [sink]\n{sink}\n\
         [position]\nfile = \"position.json\"\n\
         [log]\nlevel = \"warn\"\n"
    )
}

async fn carry(
    config: &Config,
    application: Application,
    events: usize,
    delivered: &Delivered,
) -> Result<(Written, Tally), Exit> {
    let signals = super::stop_on_signals()?;
    let (ask, stop) = Stop::channel();
    let quit = Arc::new(AtomicBool::new(false));
    let work = tokio::task::spawn_blocking({
        let quit = Arc::clone(&quit);
        move || application.work(events, &quit)
    });
    let watch = tokio::spawn(watch(work, quit, signals, delivered.clone(), ask));
    let tally = pipeline(config, delivered, stop).await?;
    let written = watch.await.map_err(|e| ended_badly(&e))??;
    Ok((written, tally))
}

/// A signal ends the application; the pipeline is asked to end once all that was committed has arrived.
async fn watch(
    work: tokio::task::JoinHandle<rusqlite::Result<Written>>,
    quit: Arc<AtomicBool>,
    mut signals: Stop,
    delivered: Delivered,
    ask: Ask,
) -> Result<Written, Exit> {
    let mut work = std::pin::pin!(work);
    let work = tokio::select! {
        work = &mut work => work,
        () = signals.asked() => {
            quit.store(true, Ordering::Relaxed);
            work.await
        }
    };
    let written = match work {
        Ok(written) => written.map_err(sqlite),
        Err(error) => Err(ended_badly(&error)),
    };
    let committed = written.as_ref().map_or(0, |written| written.events.len());
    let deadline = Instant::now() + PATIENCE;
    while delivered.count() < committed && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ask.stop();
    written
}

fn ended_badly(error: &tokio::task::JoinError) -> Exit {
    Exit::Unexpected(format!("the application ended badly: {error}"))
}

async fn pipeline(config: &Config, delivered: &Delivered, mut stop: Stop) -> Result<Tally, Exit> {
    let Database::Sqlite(settings) = parts::database(config)? else {
        unreachable!("the demo's own configuration names a SQLite file")
    };
    let mut pipeline = Pipeline {
        name: config.name().to_owned(),
        origin: Sqlite::new(settings),
        destination: Witnessed {
            outlet: Outlet::new(config)?,
            delivered: delivered.clone(),
        },
        preparer: parts::preparer(config)?,
        letters: Letters::default(),
        bound: parts::bound(config),
        extent: Extent::All,
        tally: Tally::default(),
        board: Board::default(),
    };
    supervise(&mut pipeline, &mut stop)
        .await
        .map_err(|trouble| Exit::trouble(&*trouble))?;
    Ok(pipeline.tally)
}

/// A destination whose sink has a witness beside it.
struct Witnessed {
    outlet: Outlet,
    delivered: Delivered,
}

impl Destination for Witnessed {
    type Sink = Witness<AnySink>;
    type Positions = AnyPositions;

    async fn open(&mut self) -> Result<(Self::Sink, Self::Positions), Box<dyn Trouble>> {
        let (sink, positions) = self.outlet.open().await?;
        Ok((Witness::new(sink, self.delivered.clone()), positions))
    }
}

fn summary(
    database: &Path,
    written: &Written,
    tally: &Tally,
    delivered: &[(String, Instant)],
) -> Result<(), Exit> {
    let arrived: HashSet<&str> = delivered.iter().map(|(id, _)| id.as_str()).collect();
    let in_table = demo::events_in(database).map_err(sqlite)?;
    let lost = in_table
        .iter()
        .filter(|id| !arrived.contains(id.as_str()))
        .count();
    let foreign = arrived.len() + lost - in_table.len();
    eprintln!(
        "\ncommitted   {} events in {} transactions",
        in_table.len(),
        written.transactions
    );
    eprintln!("published   {} messages", delivered.len());
    eprintln!(
        "skipped     {} sentinels (actions without events)",
        tally.skipped[Skip::Sentinel as usize]
    );
    eprintln!(
        "never seen  {} rows that were rolled back, {} updates of `delivered`",
        written.rolled_back, written.marked_delivered
    );
    eprintln!("lost        {lost} (compared with the table)");
    eprintln!("doubled     {}", delivered.len() - arrived.len());
    if let Some((median, worst)) = latency(written, delivered) {
        eprintln!("latency     {median:.1?} median, {worst:.1?} at most, from commit to delivery");
    }
    if lost + foreign > 0 {
        return Err(Exit::Unexpected(format!(
            "{lost} events were lost and {foreign} never committed ones were published: this is a defect"
        )));
    }
    Ok(())
}

fn latency(written: &Written, delivered: &[(String, Instant)]) -> Option<(Duration, Duration)> {
    let committed: &HashMap<String, Instant> = &written.events;
    let mut took: Vec<Duration> = delivered
        .iter()
        .filter_map(|(id, at)| Some(at.saturating_duration_since(*committed.get(id)?)))
        .collect();
    took.sort_unstable();
    Some((*took.get(took.len() / 2)?, *took.last()?))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn sqlite(error: rusqlite::Error) -> Exit {
    Exit::Unexpected(format!("the demo's SQLite file: {error}"))
}
