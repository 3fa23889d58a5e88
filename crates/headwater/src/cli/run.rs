//! `headwater run`: carries events until told to stop.

use std::time::Duration;

use headwater_core::disposition::Skip;
use headwater_core::source::Origin;
use headwater_core::trouble::Trouble;
use headwater_source::{mysql::MySql, postgres::Postgres, sqlite::Sqlite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{Exit, progress};
use crate::admin;
use crate::config::{self, Config, ConfigError, Snapshot, WhenStopped};
use crate::parts::{self, Database, Outlet, Watched};
use crate::pipeline::{
    Board, Doing, Done, Extent, Failed, Pipeline, Preparer, Stop, Tally, supervise,
};

/// How often whoever holds looks whether a file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub async fn run(config: &Config, init: bool) -> Result<(), Exit> {
    // First of all: what cannot be encoded need not be opened.
    let mut watched = Watched::of(config);
    let mut made = Made::of(config)?;
    let board = Board::default();
    admin::open(config.admin(), config.name(), board.watch()).await?;
    let mut stop = super::stop_on_signals()?;
    match stop.or(parts::columns::fit(config, &made.database)).await {
        Some(fit) => fit?,
        None => return Ok(()),
    }
    let mut wake = Wake::new(config)?;
    if init {
        match stop.or(super::init::if_it_never_ran(config)).await {
            Some(done) => done?,
            None => return Ok(()),
        }
    }
    let mut config = config.clone();
    let mut tally = Tally::default();
    loop {
        let ended = carry_any(&config, made, (&board, &mut tally), &mut stop).await;
        let trouble = match ended {
            Ok(()) => break,
            Err(trouble) => trouble,
        };
        let holds = config.failure().when_stopped == WhenStopped::Hold && is_of_a_row(&*trouble);
        if !holds {
            tell(&tally);
            return Err(Exit::trouble(&*trouble));
        }
        warn!(%trouble, "holding: all is tried again once the configuration or a schema changes, or on SIGHUP");
        board.doing(Doing::Holding(trouble.to_string()));
        let Some(anew) = wake.again(&config, watched, &mut stop).await else {
            // The row is still there.
            tell(&tally);
            return Err(Exit::trouble(&*trouble));
        };
        (config, made, watched) = anew;
        board.doing(Doing::Starting);
    }
    tell(&tally);
    Ok(())
}

fn is_of_a_row(trouble: &dyn Trouble) -> bool {
    let error: &dyn std::error::Error = trouble;
    error.is::<Failed>()
}

/// What a configuration leads to.
struct Made {
    preparer: Preparer,
    outlet: Outlet,
    database: Database,
}

impl Made {
    fn of(config: &Config) -> Result<Made, ConfigError> {
        Ok(Made {
            preparer: parts::preparer(config)?,
            outlet: Outlet::new(config)?,
            database: parts::database(config)?,
        })
    }
}

/// What ends a hold.
struct Wake {
    /// Only where holding is asked for: elsewhere SIGHUP ends the process, as everywhere.
    hangup: Option<Signal>,
}

impl Wake {
    fn new(config: &Config) -> Result<Wake, Exit> {
        let deaf = |error| Exit::Unexpected(format!("signals cannot be heard: {error}"));
        let holds = config.failure().when_stopped == WhenStopped::Hold;
        let hangup = holds.then(|| signal(SignalKind::hangup()));
        Ok(Wake {
            hangup: hangup.transpose().map_err(deaf)?,
        })
    }

    /// Everything made anew, once it is to be and can be; none: it was asked to stop.
    async fn again(
        &mut self,
        config: &Config,
        mut seen: Watched,
        stop: &mut Stop,
    ) -> Option<(Config, Made, Watched)> {
        loop {
            stop.or(self.change(config, &seen)).await?;
            let now = Watched::of(config);
            let anew = config::again(config).and_then(|config| {
                let watched = Watched::of(&config);
                let made = Made::of(&config)?;
                Ok((watched, config, made))
            });
            let anew = match anew {
                Ok((watched, config, made)) => stop
                    .or(parts::columns::fit(&config, &made.database))
                    .await?
                    .map(|()| (watched, config, made)),
                Err(error) => Err(error),
            };
            match anew {
                Ok((watched, config, made)) => {
                    info!("the row that cannot be published is tried again");
                    return Some((config, made, watched));
                }
                Err(error) => warn!(%error, "still holding: what there is now cannot be used"),
            }
            seen = now;
        }
    }

    async fn change(&mut self, config: &Config, seen: &Watched) {
        loop {
            let hangup = async {
                match &mut self.hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = hangup => return,
                () = sleep(LOOK_EVERY) => {
                    if Watched::of(config) != *seen {
                        return;
                    }
                }
            }
        }
    }
}

async fn carry_any(
    config: &Config,
    made: Made,
    shown: (&Board, &mut Tally),
    stop: &mut Stop,
) -> Result<(), Box<dyn Trouble>> {
    let Made {
        preparer,
        outlet,
        database,
    } = made;
    let to = (preparer, outlet);
    match database {
        Database::Postgres(settings) => {
            Box::pin(carry(config, Postgres::new(settings), to, shown, stop)).await
        }
        Database::MySql(settings) => {
            Box::pin(carry(config, MySql::new(settings), to, shown, stop)).await
        }
        Database::Sqlite(settings) => {
            Box::pin(carry(config, Sqlite::new(settings), to, shown, stop)).await
        }
    }
}

async fn carry<O: Origin>(
    config: &Config,
    origin: O,
    (preparer, destination): (Preparer, Outlet),
    (board, tally): (&Board, &mut Tally),
    stop: &mut Stop,
) -> Result<(), Box<dyn Trouble>> {
    let mut pipeline = Pipeline {
        name: config.name().to_owned(),
        origin,
        destination,
        preparer,
        letters: parts::letters(config),
        bound: parts::bound(config),
        extent: match config.source().snapshot {
            Some(Snapshot::Only) => Extent::Snapshot,
            _ => Extent::All,
        },
        tally: *tally,
        board: board.clone(),
    };
    let told = progress::of_snapshot("snapshot", pipeline.board.watch(), None);
    let ended = supervise(&mut pipeline, stop).await;
    told.abort();
    if let Ok(Done::Complete) = &ended {
        info!("the snapshot is complete, and source.snapshot = \"only\" asks for no more");
    }
    *tally = pipeline.tally;
    ended.map(drop)
}

fn tell(tally: &Tally) {
    let skipped = |skip: Skip| tally.skipped[skip as usize];
    info!(
        rows = tally.rows,
        delivered = tally.delivered,
        sentinels = skipped(Skip::Sentinel),
        updates = skipped(Skip::Update),
        deletes = skipped(Skip::Delete),
        truncates = skipped(Skip::Truncate),
        filtered = skipped(Skip::Filtered),
        unrouted = skipped(Skip::Unrouted),
        dead_letters = tally.dead_letters.iter().sum::<u64>(),
        unknown_members = tally.unknown_members,
        "ended"
    );
}
