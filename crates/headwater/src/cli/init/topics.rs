//! The topics that the rows in the table lead to: told, and made, before the first message goes there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::route::Topics;
use headwater_core::window::Window;
use headwater_encode::{Encoder, Json, JsonStyle};
use headwater_source::{Error, NoPart};
use tokio::time::{Instant, timeout_at};

use crate::cli::Exit;
use crate::config::Config;
use crate::parts::{self, Database};

/// For so long the table's rows are looked at.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Found {
    pub topics: BTreeSet<Arc<str>>,
    rows: u64,
    /// All that there were.
    all: bool,
}

impl Found {
    /// How the topics were found, in words.
    pub fn told(&self) -> String {
        let topics = match self.topics.len() {
            1 => "1 topic".to_owned(),
            topics => format!("{topics} topics"),
        };
        let rows = match (self.rows, self.all) {
            (0, true) => "there are no rows in the table that would tell".to_owned(),
            (rows, true) => format!("all {rows} rows were looked at"),
            (rows, false) => format!(
                "only {rows} rows were looked at in {} s, and others may lead elsewhere",
                PATIENCE.as_secs()
            ),
        };
        format!("routes lead to {topics} ({rows})")
    }
}

/// A route to one topic alone is known without any row.
pub async fn find(config: &Config, database: &Database) -> Result<Found, Exit> {
    let mut found = Found {
        topics: BTreeSet::new(),
        rows: 0,
        all: true,
    };
    let mut all_known = true;
    for topics in parts::topics(config)? {
        match topics {
            Topics::Only(topic) => {
                found.topics.insert(topic.into());
            }
            Topics::Beginning(_) => all_known = false,
        }
    }
    if all_known {
        return Ok(found);
    }
    let deadline = Instant::now() + PATIENCE;
    match timeout_at(deadline, read(config, database, &mut found)).await {
        Ok(read) => read.map_err(|error| Exit::trouble(&error))?,
        Err(_) => found.all = false,
    }
    Ok(found)
}

async fn read(config: &Config, database: &Database, found: &mut Found) -> Result<(), Error> {
    // What the messages are made of does not matter here.
    let encoder = Encoder::Json(Json::new(JsonStyle::Embedded));
    let preparer = parts::preparer_with(config, encoder);
    let mut preparer = preparer.map_err(|error| Error::fatal(error.to_string(), "correct it"))?;
    let part = parts::part(database, &Window::default()).await;
    let mut part = part.map_err(plain)?;
    while let Some((row, _)) = part.next().await? {
        found.rows += 1;
        let topics = preparer.topics(&row);
        let mend = "name the right table in source.table, or mend it";
        found
            .topics
            .extend(topics.map_err(|misfit| Error::fatal(misfit.to_string(), mend))?);
    }
    Ok(())
}

fn plain(no: NoPart) -> Error {
    match no {
        NoPart::Source(error) => error,
        no @ NoPart::NoColumn { .. } => Error::fatal(no.to_string(), "name another column"),
    }
}
