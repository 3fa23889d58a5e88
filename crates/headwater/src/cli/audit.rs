//! `headwater audit`: compares the table with the topics, and changes nothing.

use std::sync::Arc;

use headwater_core::instant::Instant;
use headwater_core::trouble::Trouble as _;
use headwater_core::window::Window;
use headwater_source::NoPart;

use super::progress::{OfMessages, OfRows};
use super::{Exit, Format};
use crate::clock;
use crate::compare::{Account, Count, Encoders, Order, Published, Unsent, compare};
use crate::config::Config;
use crate::dead_letters::letters;
use crate::parts::{self, Outlet};
use crate::pipeline::{Stop, Unfit};

/// What is younger may still be on its way.
const ON_ITS_WAY: i64 = 60 * 1_000_000;

pub async fn audit(
    config: &Config,
    (from, to): (Option<Instant>, Option<Instant>),
    format: Format,
) -> Result<(), Exit> {
    let to = to.unwrap_or(Instant(clock::micros() - ON_ITS_WAY));
    if from.is_some_and(|from| from >= to) {
        return Err(Exit::Configuration(format!(
            "--from must be before --to, and {} is not before {to}",
            from.unwrap_or(to)
        )));
    }
    let window = Window {
        from,
        to: Some(to),
        ..Window::default()
    };
    let mut stop = super::stop_on_signals()?;
    let count = Count::default();
    let told = OfMessages::begin(&count);
    let opening = async { Ok((published(config, &count).await?, unsent(config).await?)) };
    let opened: Option<Result<_, Exit>> = stop.or(opening).await;
    let Some(opened) = opened else {
        return Err(Exit::Person(
            "it was stopped before anything was compared".into(),
        ));
    };
    let (mut published, unsent) = opened?;
    let topics = (&mut published, &unsent);
    let (account, ended) = account(config, topics, window.clone(), &mut stop).await?;
    drop(told);
    if ended.is_err() && account.rows == 0 {
        return ended;
    }
    match format {
        Format::Text => print(config, &window, &account),
        Format::Json => {
            let json = serde_json::to_string_pretty(&account);
            println!("{}", json.unwrap_or_default());
        }
    }
    if let Some(at) = &account.stopped_at {
        eprintln!(
            "stopped: what has a date before {at} was compared; headwater audit --from {at} --to {to} goes on"
        );
    }
    ended.and_then(|()| verdict(&account))
}

/// Well only if every event of the window is known to be there, or to stand as an open letter.
fn verdict(account: &Account) -> Result<(), Exit> {
    let missing = account.missing;
    Err(Exit::Person(match account {
        _ if missing > 0 => format!(
            "{missing} of the table's events are not on the topics; headwater replay publishes a part of the table again, and \
             headwater recover what is missing after the log was lost"
        ),
        Account { unpublishable, .. } if *unpublishable > 0 => {
            format!(
                "{unpublishable} of the table's events cannot be published; headwater check says more"
            )
        }
        Account { not_comparable, .. } if *not_comparable > 0 => format!(
            "{not_comparable} of the table's events are not on the topics, which may not have kept them: name with --from since when they do"
        ),
        Account {
            stopped_at: Some(_),
            ..
        } => "it was stopped before the end".into(),
        _ => return Ok(()),
    }))
}

/// The topics of a configuration, to be read back.
pub async fn published(config: &Config, count: &Count) -> Result<Published, Exit> {
    let outlet = Outlet::new(config)?;
    let Some(back) = outlet.back(&parts::topics(config)?).await? else {
        return Err(Exit::Configuration(
            "sink.kind is \"stdout\", and what was printed cannot be read back: this is for Kafka"
                .into(),
        ));
    };
    let published = Published::open(back, encoders(config), Arc::clone(count)).await?;
    Ok(published.timeless(parts::are_timeless(config)))
}

pub fn encoders(config: &Config) -> Encoders {
    let config = config.clone();
    Arc::new(move || parts::encoder(&config).ok())
}

/// A window of the table beside the topics, and what ended that before its end, if anything did.
pub async fn account(
    config: &Config,
    (published, unsent): (&mut Published, &Unsent),
    window: Window,
    stop: &mut Stop,
) -> Result<(Account, Result<(), Exit>), Exit> {
    let mut progress = OfRows::begin("compared");
    let unfit = Unfit::default();
    let order = Order {
        database: &parts::database(config)?,
        preparer: (parts::preparer(config)?.comparing(&unfit), unfit),
        published,
        unsent,
        window,
        progress: &mut |rows| progress.show(rows),
    };
    let (account, ended) = compare(order, stop).await;
    progress.end();
    let ended = ended.map_err(|no| match no {
        NoPart::Source(error) => Exit::from(error),
        NoPart::NoColumn { .. } => Exit::Configuration(no.to_string()),
    });
    Ok((account, ended))
}

/// The letters that are open. Whoever may not read them may still compare the rest.
pub async fn unsent(config: &Config) -> Result<Unsent, Exit> {
    let topic = parts::dead_letter_topic(config);
    let letters = match Outlet::new(config)?.back_of(topic).await {
        Ok(Some(back)) => letters(&back, config.name(), &[]).await,
        Ok(None) => return Ok(Unsent::default()),
        Err(error) => Err(error),
    };
    match letters {
        Ok(letters) => Ok(Unsent::of(letters.open())),
        Err(error) if error.is_fatal() => Ok(Unsent::unknown(&error.to_string())),
        Err(error) => Err(error.into()),
    }
}

fn print(config: &Config, window: &Window, account: &Account) {
    let from = window
        .from
        .map_or("the beginning".into(), |it| it.to_string());
    let to = window.to.map_or("now".into(), |it| it.to_string());
    println!("pipeline {}, events from {from} to {to}", config.name());
    for (count, what) in [
        (account.rows, "events in the table"),
        (account.there, "on the topics"),
        (account.missing, "missing"),
        (
            account.dead_lettered,
            "dead-lettered: not there, and open on the topic of dead letters",
        ),
        (
            account.not_comparable,
            "not comparable: not there, and the topic does not keep what is of their date",
        ),
        (account.doubled, "doubled"),
        (account.replayed, "replayed"),
        (
            account.foreign,
            "foreign: on the topics, and not in the table (pruned, or written by somebody else)",
        ),
        (account.unpublishable, "cannot be published"),
        (
            account.unreadable,
            "messages that are no events in this format",
        ),
    ] {
        println!("{count:>12} {what}");
    }
    for named in &account.named {
        println!("{named}");
    }
    for doubt in &account.doubts {
        println!("not known: {doubt}");
    }
}
