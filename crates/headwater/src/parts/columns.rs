//! Do the routes and filters name columns that the table has? Asked before anything else is done, so that a mistyped name is
//! told with its line and not as the failure of a row.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::event::Roles;
use headwater_core::row::Table;
use headwater_core::template::{NoColumn, Place, Template};
use headwater_source::{Error, mysql, postgres, sqlite};

use super::{Database, outbox};
use crate::config::{Config, ConfigError, KeyFormat, Located};

/// A database that does not answer is told of by whoever needs it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The table's columns as they are today.
pub async fn definition(database: &Database) -> Result<Arc<Table>, Error> {
    match database {
        Database::Postgres(settings) => postgres::definition(settings).await,
        Database::MySql(settings) => mysql::definition(settings).await,
        Database::Sqlite(settings) => sqlite::setup::definition(settings).await,
    }
}

/// Of columns an error only if the database told them, and one is missing.
pub async fn fit(config: &Config, database: &Database) -> Result<(), ConfigError> {
    // What is wrong with them whatever the table is like.
    super::routes(config)?;
    let asked = tokio::time::timeout(PATIENCE, definition(database)).await;
    let Ok(Ok(table)) = asked else {
        return Ok(());
    };
    // What an outbox must have is told by whoever reads it.
    let Ok(roles) = outbox().bind(&table) else {
        return Ok(());
    };
    let columns = Columns { table, roles };
    let filter = config.filter();
    for (column, _) in filter.skip.iter().chain(&filter.only).flatten() {
        columns.hold(column)?;
    }
    for route in config.routes() {
        for (column, _) in route.conditions.iter().flatten() {
            columns.hold(column)?;
        }
        columns.fill(&route.topic)?;
        if route.key_format == KeyFormat::Text {
            columns.fill(&route.key)?;
        }
        for template in route.partition.iter().chain(&route.timestamp) {
            columns.fill(template)?;
        }
        for (_, template) in &route.headers {
            columns.fill(template)?;
        }
        if let Some(column) = &route.headers_from {
            columns.hold(column)?;
        }
    }
    Ok(())
}

struct Columns {
    table: Arc<Table>,
    roles: Roles,
}

impl Columns {
    fn fill(&self, template: &Located<String>) -> Result<(), ConfigError> {
        let parsed = Template::parse(template.value());
        let mut parsed = parsed.map_err(|bad| template.problem(bad))?;
        let bound = parsed.bind(&self.table, &self.roles);
        bound.map_err(|missing: NoColumn| template.problem(missing))
    }

    fn hold(&self, column: &Located<String>) -> Result<(), ConfigError> {
        let parsed = Place::parse(column.value());
        let mut parsed = parsed.map_err(|bad| column.problem(bad))?;
        let bound = parsed.bind(&self.table, &self.roles);
        bound.map_err(|missing| column.problem(missing))
    }
}
