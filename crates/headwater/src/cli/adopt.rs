//! `headwater adopt`: begins where the log itself stands, or where a person says, after that person decided so.

use std::time::Duration;

use headwater_core::positions::{Positions, Record};
use headwater_core::source::Origin;
use headwater_source::mysql::{self, MySql};
use headwater_source::postgres::{self, Postgres};
use headwater_source::sqlite::{self, Sqlite};

use super::Exit;
use super::init::{Beginning, first_record, write};
use crate::config::Config;
use crate::parts::{self, Database, Outlet};

/// A running instance answers for its pipeline; its position is not changed under it.
const PATIENCE: Duration = Duration::from_secs(5);

pub async fn adopt(config: &Config, at: Option<&str>) -> Result<(), Exit> {
    match parts::database(config)? {
        Database::Postgres(_) | Database::Sqlite(_) if at.is_some() => Err(Exit::Configuration(
            "--at is for MySQL and MariaDB: a slot has a position of its own, and SQLite no log"
                .into(),
        )),
        Database::Postgres(settings) => {
            let mut origin = Postgres::new(settings.clone());
            alone(config, &mut origin).await?;
            let Some((position, identity)) = postgres::slot_position(&settings).await? else {
                return Err(Exit::Person(format!(
                    "there is no slot {} to adopt: headwater init makes one, and begins at the present",
                    settings.slot
                )));
            };
            let beginning = Beginning {
                at: format!("{position}, where the slot {} stands", settings.slot),
                position: serde_json::to_value(position).unwrap_or_default(),
                source: serde_json::to_value(&identity).unwrap_or_default(),
            };
            begin_at(config, beginning).await
        }
        Database::MySql(settings) => {
            let mut origin = MySql::new(settings.clone());
            alone(config, &mut origin).await?;
            let (position, identity, notices) = match at {
                Some(at) => {
                    let (position, identity) = mysql::named(&settings, at).await?;
                    (position, identity, Vec::new())
                }
                None => mysql::present(&settings).await?,
            };
            for notice in notices {
                eprintln!("{notice}");
            }
            let beginning = Beginning {
                at: match at {
                    Some(_) => position.to_string(),
                    None => format!("{position}, the present end of the server's log"),
                },
                position: serde_json::to_value(position).unwrap_or_default(),
                source: serde_json::to_value(&identity).unwrap_or_default(),
            };
            begin_at(config, beginning).await
        }
        Database::Sqlite(settings) => {
            let mut origin = Sqlite::new(settings.clone());
            alone(config, &mut origin).await?;
            let (position, identity) = sqlite::setup::start(&settings).await?;
            let beginning = Beginning {
                at: format!("{position}, the present end of the table"),
                position: serde_json::to_value(position).unwrap_or_default(),
                source: identity.to_json(),
            };
            begin_at(config, beginning).await
        }
    }
}

pub async fn alone<O: Origin>(config: &Config, origin: &mut O) -> Result<(), Exit> {
    match tokio::time::timeout(PATIENCE, origin.lock()).await {
        Ok(locked) => Ok(locked?),
        Err(_) => Err(Exit::Person(format!(
            "an instance of pipeline {} is at work: stop it first",
            config.name()
        ))),
    }
}

async fn begin_at(config: &Config, beginning: Beginning) -> Result<(), Exit> {
    let outlet = Outlet::new(config)?;
    let (_sink, mut positions) = outlet.connect().await?;
    outlet.init(&positions).await?;
    let before = positions.read().await?;
    let run = before.as_ref().map_or(0, |record| record.run + 1);
    let (name, at) = (config.name(), beginning.at.clone());
    // What was published last stays true, and a recovery begins there.
    let event_time = before.as_ref().and_then(|it| it.event_time.clone());
    let record = Record {
        event_time,
        ..first_record(config, run, beginning)
    };
    write(&mut positions, &record).await?;
    if before.as_ref().is_some_and(|it| it.snapshot.is_some()) {
        eprintln!(
            "a snapshot or recovery of it was under way: what that has not published yet is passed over"
        );
    }
    match before {
        Some(record) => eprintln!(
            "pipeline {name} stood at {}; it now begins at {at}. Events between the two are passed over, or, if it goes back, \
             published once more",
            record.position
        ),
        None => eprintln!("pipeline {name} begins at {at}"),
    }
    Ok(())
}
