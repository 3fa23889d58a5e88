//! `headwater adopt`: begins at the position that the slot itself has.

use std::time::Duration;

use headwater_core::positions::Positions;
use headwater_core::source::Origin;
use headwater_source::postgres::{self, Postgres};

use super::Exit;
use super::init::{Beginning, first_record, write};
use crate::config::Config;
use crate::parts::{self, Database, Outlet};

/// A running instance answers for its pipeline; its position is not changed under it.
const PATIENCE: Duration = Duration::from_secs(5);

pub async fn adopt(config: &Config) -> Result<(), Exit> {
    let Database::Postgres(settings) = parts::database(config) else {
        return Err(Exit::Configuration(
            "only a PostgreSQL slot has a position of its own that can be adopted".into(),
        ));
    };
    let mut origin = Postgres::new(settings.clone());
    let Ok(locked) = tokio::time::timeout(PATIENCE, origin.lock()).await else {
        return Err(Exit::Person(format!(
            "an instance of pipeline {} is at work: stop it first",
            config.name()
        )));
    };
    locked?;
    let Some((position, identity)) = postgres::slot_position(&settings).await? else {
        return Err(Exit::Person(format!(
            "there is no slot {} to adopt: headwater init makes one, and begins at the present",
            settings.slot
        )));
    };
    let outlet = Outlet::new(config)?;
    let (_sink, mut positions) = outlet.connect()?;
    outlet.init(&positions).await?;
    let before = positions.read().await?;
    let run = before.as_ref().map_or(0, |record| record.run + 1);
    let beginning = Beginning {
        at: position.to_string(),
        position: serde_json::to_value(position).unwrap_or_default(),
        source: serde_json::to_value(&identity).unwrap_or_default(),
    };
    write(&mut positions, &first_record(config, run, beginning)).await?;
    match before {
        Some(record) => eprintln!(
            "pipeline {} stood at {}; it now begins at {position}, where the slot {} stands. Events between the two are not \
             published by it",
            config.name(),
            record.position,
            settings.slot
        ),
        None => eprintln!(
            "pipeline {} begins at {position}, where the slot {} stands",
            config.name(),
            settings.slot
        ),
    }
    Ok(())
}
