//! `headwater peek`: prints rows as they would be published, and changes nothing.

use headwater_core::ledger::Ledger;
use headwater_core::message::Message;
use headwater_core::row::Row;
use headwater_core::sink::{Report, Sink, Unsent};
use headwater_core::source::{Item, Source};
use headwater_sink::Stdout;
use headwater_source::{mysql, postgres, sqlite};

use super::Exit;
use crate::config::Config;
use crate::parts::{self, Database};
use crate::pipeline::{Outcome, Preparer, Stop};

pub async fn peek(config: &Config, limit: u32, follow: bool) -> Result<(), Exit> {
    let mut stop = super::stop_on_signals()?;
    let mut page = Page {
        preparer: parts::preparer(config)?,
        stdout: Stdout::open(parts::form())?,
        ledger: Ledger::new(0),
    };
    let database = parts::database(config)?;
    parts::columns::fit(config, &database).await?;
    let latest = match &database {
        Database::Postgres(settings) => postgres::latest(settings, limit).await?,
        Database::MySql(settings) => mysql::latest(settings, limit).await?,
        Database::Sqlite(settings) => {
            sqlite::setup::latest(settings, usize::try_from(limit).unwrap_or(usize::MAX)).await?
        }
    };
    for row in &latest {
        page.show(row).await?;
    }
    match database {
        _ if !follow => Ok(()),
        Database::Postgres(settings) => {
            let source = postgres::follow(&settings).await?;
            page.follow(source, &mut stop).await
        }
        Database::MySql(settings) => {
            let source = mysql::follow(&settings).await?;
            page.follow(source, &mut stop).await
        }
        Database::Sqlite(_) => Err(Exit::Configuration(
            "--follow needs a log that is sent, and SQLite has none: headwater run with a stdout sink shows new rows".into(),
        )),
    }
}

/// Rows on standard output, in the form in which the stdout sink publishes them.
struct Page {
    preparer: Preparer,
    stdout: Stdout,
    ledger: Ledger<()>,
}

impl Page {
    async fn follow<S: Source>(&mut self, mut source: S, stop: &mut Stop) -> Result<(), Exit> {
        while let Some(item) = stop.or(source.next()).await {
            if let Item::Row(row) = item? {
                self.show(&row).await?;
            }
        }
        source.close().await;
        Ok(())
    }

    async fn show(&mut self, row: &Row) -> Result<(), Exit> {
        let mut messages = Vec::new();
        match self.preparer.prepare(row, &mut messages) {
            Ok(Outcome::Publish { .. }) => {}
            Ok(Outcome::Skip(skip)) => eprintln!("(skipped: {})", skip.name()),
            Ok(Outcome::Filtered(rule)) => eprintln!("(skipped: filter {rule})"),
            Ok(Outcome::Fail { id, failure }) => {
                eprintln!("(the row with id {id} cannot be published: {failure})");
            }
            Err(missing) => return Err(Exit::Person(missing.to_string())),
        }
        for notice in self.preparer.notices() {
            eprintln!("({notice})");
        }
        for message in messages {
            self.print(message).await?;
        }
        Ok(())
    }

    /// One at a time: a person reads them.
    async fn print(&mut self, message: Message) -> Result<(), Exit> {
        let ticket = self.ledger.admit(message.size());
        match self.stdout.send(message, ticket) {
            Ok(()) => {}
            Err(Unsent::Broken(error)) => return Err(error.into()),
            Err(Unsent::Later(..)) => unreachable!("nothing else is on its way"),
        }
        while !matches!(self.stdout.next_report().await?, Report::Delivered(_)) {}
        Ok(())
    }
}
