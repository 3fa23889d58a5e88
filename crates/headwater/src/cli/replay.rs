//! `headwater replay`: publishes a part of the table again, beside a running pipeline.

mod dry_run;

use std::io::IsTerminal as _;
use std::path::Path;

use headwater_core::instant::Instant;
use headwater_core::positions::{Record, Snapshot};
use headwater_core::route;
use headwater_core::window::Window;
use headwater_source::NoPart;
use serde_json::Value;
use tracing::info;
use uuid::Uuid;

use super::init::{Beginning, first_record, write};
use super::{Exit, progress};
use crate::clock;
use crate::config::Config;
use crate::parts::{self, Outlet};
use crate::pipeline::{
    Board, Destination as _, Done, Extent, Letters, Pipeline, Stop, Tally, supervise,
};
use crate::replay::{Again, Asked};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Events of this date or later, such as 2026-06-11 or 2026-06-11T10:22:47Z
    #[arg(long, value_name = "TIME", required_unless_present = "resume")]
    from: Option<Instant>,
    /// Events before this date
    #[arg(long, value_name = "TIME", required_unless_present = "resume")]
    to: Option<Instant>,
    /// Only events with this value in this column, as the database writes it; of several, all must fit
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = column_and_value)]
    equal: Vec<(String, String)>,
    /// Publish to this topic instead of those that the configuration says
    #[arg(long, value_parser = topic)]
    topic: Option<String>,
    /// Say how many events there are and where they would go; publish nothing
    #[arg(long)]
    dry_run: bool,
    /// So many events a second at most [default: as fast as it goes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Go on with a replay that was interrupted
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to", "equal", "topic"])]
    resume: Option<String>,
}

fn column_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, value)) if !column.is_empty() => Ok((column.into(), value.into())),
        _ => Err("COLUMN=VALUE is wanted, such as model_type=Wallet".into()),
    }
}

fn topic(name: &str) -> Result<String, String> {
    route::legal(name).map(|()| name.to_owned())
}

/// A replay, new or to be gone on with.
struct Replay {
    id: String,
    asked: Asked,
    record: Record,
    /// The command that goes on with it.
    resume: String,
}

pub async fn replay(config: &Config, args: &Args, file: Option<&Path>) -> Result<(), Exit> {
    let mut stop = super::stop_on_signals()?;
    parts::columns::fit(config, &parts::database(config)?).await?;
    let found = match &args.resume {
        Some(id) => stop.or(remembered(config, id, file)).await,
        None => stop.or(begun(config, args, file)).await,
    };
    let Some(mut replay) = found.transpose()? else {
        return Ok(());
    };
    let Some(at) = replay.record.snapshot.clone() else {
        say(&format!("replay {} is complete already", replay.id));
        return Ok(());
    };
    if args.dry_run {
        return dry_run::dry_run(config, &replay.asked, at.after, &mut stop).await;
    }
    if args.rate.is_some() {
        replay.asked.rate = args.rate;
        replay.record.source = replay.asked.to_source();
    }
    carry(config, replay, &mut stop).await
}

/// What is asked for, looked at before anything is remembered of it.
async fn begun(config: &Config, args: &Args, file: Option<&Path>) -> Result<Replay, Exit> {
    let (Some(from), Some(to)) = (args.from, args.to) else {
        unreachable!("clap has asked for both")
    };
    let Some(mut asked) = Asked::new(from, to, args.equal.clone()) else {
        return Err(Exit::Configuration(format!(
            "--from {from} is not before --to {to}, so that no event lies between them; wanted is a part of the table such as \
             --from 2026-06-11 --to 2026-06-12T12:00:00Z"
        )));
    };
    asked.topic.clone_from(&args.topic);
    asked.rate = args.rate;
    known_columns(config, from, &args.equal).await?;
    asked.database = Some(parts::which(&parts::database(config)?).await?);
    let id = new_id();
    let beginning = Beginning {
        at: String::new(),
        // Not none, which would be a pipeline that never began.
        position: Value::from("replay"),
        source: asked.to_source(),
    };
    let record = Record {
        name: Outlet::new(config)?.for_replay(&id).name().to_owned(),
        snapshot: Some(Snapshot::default()),
        ..first_record(config, 0, beginning)
    };
    Ok(Replay {
        resume: resume(&id, file),
        id,
        asked,
        record,
    })
}

/// A window of no moment is enough to hear whether the table has these columns.
async fn known_columns(
    config: &Config,
    from: Instant,
    equal: &[(String, String)],
) -> Result<(), Exit> {
    if equal.is_empty() {
        return Ok(());
    }
    let window = Window {
        from: Some(from),
        to: Some(from),
        after: None,
        equal: equal.to_vec(),
        ..Window::default()
    };
    match parts::part(&parts::database(config)?, &window).await {
        Ok(_) => Ok(()),
        Err(NoPart::Source(error)) => Err(error.into()),
        Err(wrong @ NoPart::NoColumn { .. }) => {
            Err(Exit::Configuration(format!("--where: {wrong}")))
        }
    }
}

/// When it began, for people, and what makes it another than all that began then.
pub(super) fn new_id() -> String {
    let now = clock::now().to_string();
    let digits: String = now.chars().filter(char::is_ascii_digit).take(14).collect();
    let (date, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    let own = Uuid::new_v4().simple().to_string();
    format!("{date}-{time}-{}", own.get(..8).unwrap_or_default())
}

async fn remembered(config: &Config, id: &str, file: Option<&Path>) -> Result<Replay, Exit> {
    let legal = id
        .bytes()
        .all(|it| it.is_ascii_alphanumeric() || it == b'-');
    let record = if legal {
        Outlet::new(config)?.for_replay(id).look().await?
    } else {
        None
    };
    let Some((record, asked)) = record.and_then(|it| Asked::of(&it).map(|asked| (it, asked)))
    else {
        return Err(unknown(config, id).await?);
    };
    of_this_database(config, id, &asked).await?;
    Ok(Replay {
        id: id.to_owned(),
        asked,
        record,
        resume: resume(id, file),
    })
}

/// Rows of another database are other rows, and the last one that was published may have no place among them.
async fn of_this_database(config: &Config, id: &str, asked: &Asked) -> Result<(), Exit> {
    let Some(then) = &asked.database else {
        return Ok(());
    };
    let now = parts::which(&parts::database(config)?).await?;
    if *then == now {
        return Ok(());
    }
    Err(Exit::Person(format!(
        "replay {id} is of {then}, and source.url leads to {now}: go on with it there, or begin a new one with --from and --to"
    )))
}

async fn unknown(config: &Config, id: &str) -> Result<Exit, Exit> {
    let replays = Outlet::new(config)?.replays().await?;
    let open = replays
        .iter()
        .filter(|(_, record)| record.snapshot.is_some());
    let open = open.filter_map(|(id, record)| Some(format!("{id} ({})", Asked::of(record)?)));
    let open: Vec<String> = open.collect();
    Ok(Exit::Configuration(format!(
        "pipeline {} has no replay {id}; {}",
        config.name(),
        match open.as_slice() {
            [] => "none is left to be gone on with".into(),
            open => format!("these can be gone on with: {}", open.join("; ")),
        }
    )))
}

/// As a shell takes it.
fn resume(id: &str, file: Option<&Path>) -> String {
    let config = file.map_or_else(String::new, |file| {
        let file = file.display().to_string();
        let plain = |it: char| it.is_ascii_alphanumeric() || "._-/".contains(it);
        if file.chars().all(plain) {
            format!(" --config {file}")
        } else {
            format!(" --config '{}'", file.replace('\'', r"'\''"))
        }
    });
    format!("headwater{config} replay --resume {id}")
}

async fn carry(config: &Config, replay: Replay, stop: &mut Stop) -> Result<(), Exit> {
    let Replay {
        id,
        asked,
        record,
        resume,
    } = replay;
    let mut outlet = Outlet::new(config)?.for_replay(&id);
    let preparer = parts::replayer(config, &id, asked.topic.as_deref())?;
    match stop.or(remember(&mut outlet, &record)).await {
        Some(done) => done?,
        None => return Ok(()),
    }
    say(&format!(
        "replay {id}: publishing again {asked}. After an interruption: {resume}"
    ));
    let mut pipeline = Pipeline {
        name: outlet.name().to_owned(),
        origin: Again {
            database: parts::database(config)?,
            asked,
        },
        destination: outlet,
        preparer,
        letters: Letters::default(),
        bound: parts::bound(config),
        extent: Extent::Snapshot,
        tally: Tally::default(),
        board: Board::of_replay(),
    };
    let figures = pipeline.board.watch();
    let told = progress::of_snapshot("replay", figures.clone(), None);
    let ended = Box::pin(supervise(&mut pipeline, stop)).await;
    told.abort();
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let stood = figures.borrow().confirmed.clone();
    let stood = stood.unwrap_or_else(|| Snapshot::default().to_string());
    match ended {
        Ok(Done::Complete) => say(&format!("replay {id} is complete: {stood}")),
        Ok(Done::Asked) => say(&format!(
            "replay {id} was stopped after {stood}. To go on: {resume}"
        )),
        Err(trouble) => {
            return Err(Exit::Person(format!(
                "{trouble}. Replay {id} stands after {stood}. To go on, once that is mended: {resume}"
            )));
        }
    }
    Ok(())
}

/// What is asked for is safe before the first message goes out.
async fn remember(outlet: &mut Outlet, record: &Record) -> Result<(), Exit> {
    let opened = outlet.open().await;
    let (_sink, mut positions) = opened.map_err(|trouble| Exit::trouble(&*trouble))?;
    write(&mut positions, record).await
}

/// To standard error: the messages themselves may go to standard output.
pub(super) fn say(text: &str) {
    if crate::telemetry::is_json() {
        info!("{text}");
    } else {
        eprintln!("{text}");
    }
}
