//! `headwater run`: carries events until told to stop.

use std::io::IsTerminal as _;
use std::time::Duration;

use headwater_core::disposition::Skip;
use headwater_core::source::Origin;
use headwater_source::{mysql::MySql, postgres::Postgres, sqlite::Sqlite};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::info;

use super::Exit;
use crate::admin;
use crate::config::{Config, Snapshot};
use crate::parts::{self, Database, Outlet};
use crate::pipeline::{Board, Done, Extent, Figures, Pipeline, Preparer, Stop, Tally, supervise};

const PROGRESS_EVERY: Duration = Duration::from_millis(200);

pub async fn run(config: &Config, init: bool) -> Result<(), Exit> {
    // First of all: what cannot be encoded need not be opened.
    let preparer = parts::preparer(config)?;
    let outlet = Outlet::new(config)?;
    let database = parts::database(config)?;
    let board = Board::default();
    admin::open(config.admin(), config.name(), board.watch()).await?;
    let mut stop = super::stop_on_signals()?;
    if init {
        match stop.or(super::init::if_it_never_ran(config)).await {
            Some(done) => done?,
            None => return Ok(()),
        }
    }
    match database {
        Database::Postgres(settings) => {
            Box::pin(carry(
                config,
                Postgres::new(settings),
                preparer,
                (outlet, board),
                stop,
            ))
            .await
        }
        Database::MySql(settings) => {
            let origin = MySql::new(settings);
            Box::pin(carry(config, origin, preparer, (outlet, board), stop)).await
        }
        Database::Sqlite(settings) => {
            let origin = Sqlite::new(settings);
            Box::pin(carry(config, origin, preparer, (outlet, board), stop)).await
        }
    }
}

async fn carry<O: Origin>(
    config: &Config,
    origin: O,
    preparer: Preparer,
    (destination, board): (Outlet, Board),
    mut stop: Stop,
) -> Result<(), Exit> {
    let mut pipeline = Pipeline {
        name: config.name().to_owned(),
        origin,
        destination,
        preparer,
        bound: parts::bound(config),
        extent: match config.source().snapshot {
            Some(Snapshot::Only) => Extent::Snapshot,
            _ => Extent::All,
        },
        tally: Tally::default(),
        board,
    };
    let told = progress("snapshot", pipeline.board.watch());
    let ended = supervise(&mut pipeline, &mut stop).await;
    told.abort();
    if let Ok(Done::Complete) = &ended {
        info!("the snapshot is complete, and source.snapshot = \"only\" asks for no more");
    }
    tell(&pipeline.tally);
    ended.map(drop).map_err(|trouble| Exit::trouble(&*trouble))
}

/// How far a snapshot has come, or a replay, in one line of the terminal, if there is one.
pub(super) fn progress(what: &'static str, mut board: watch::Receiver<Figures>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let mut shown = false;
        while board.changed().await.is_ok() {
            let part = board.borrow_and_update().snapshot;
            match part {
                // To the line's beginning, and what was there before is cleared.
                Some(part) => eprint!("\r\x1b[2K{what}: {part}"),
                None if shown => eprintln!(),
                None => {}
            }
            shown = part.is_some();
            sleep(PROGRESS_EVERY).await;
        }
    })
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
        unknown_members = tally.unknown_members,
        "ended"
    );
}
