//! Routes and filters out of a configuration. What cannot be understood is told with the line of its key.

use headwater_core::filter::Filter;
use headwater_core::pattern::{self, Pattern};
use headwater_core::route::{IdForm, Route};
use headwater_core::template::{Place, Template};
use headwater_source::mysql::Flavor;
use uuid::Uuid;

use crate::config::{self, Condition, Config, ConfigError, Database, KeyFormat, Located};

/// In the order in which they were written.
pub fn routes(config: &Config) -> Result<Vec<Route>, ConfigError> {
    config.routes().iter().map(|it| route(config, it)).collect()
}

pub fn filter(config: &Config) -> Result<Filter, ConfigError> {
    let filter = config.filter();
    Ok(Filter::new(
        conditions(&filter.skip)?,
        conditions(&filter.only)?,
    ))
}

fn route(config: &Config, it: &config::Route) -> Result<Route, ConfigError> {
    let (topic, key) = (it.topic.value(), it.key.value());
    Route::parse(topic, "").map_err(|bad| it.topic.problem(bad))?;
    let mut route = Route::parse(topic, key).map_err(|bad| it.key.problem(bad))?;
    let all = it.conditions.iter().flatten();
    route = route.taking(condition(all)?);
    route = match it.key_format {
        KeyFormat::Text => route,
        KeyFormat::Json => route.keyed_by_id(IdForm::Json),
        KeyFormat::Struct => route.keyed_by_id(IdForm::Struct),
        KeyFormat::JsonWithSchema => route.keyed_by_id(IdForm::JsonWithSchema {
            uuid: has_uuids(&config.source().database),
        }),
    };
    if let Some(partition) = &it.partition {
        route = route.with_partition(template(partition)?);
    }
    if let Some(timestamp) = &it.timestamp {
        route = route.with_timestamp(template(timestamp)?);
    }
    for (name, value) in &it.headers {
        route = route.with_header(name, template(value)?);
    }
    if let Some(column) = &it.headers_from {
        let column = place(column)?;
        route = route.with_headers_from(column);
    }
    if it.is_debezium {
        let run = Template::literal(&Uuid::new_v4().to_string());
        route = route
            .with_header(config::Route::RUN_ID, run)
            .without_trace();
    }
    Ok(route)
}

/// Whether Debezium gives the id a schema of its own: it does where the database has a type for it.
fn has_uuids(database: &Database) -> bool {
    match database {
        Database::Postgres(_) => true,
        Database::MySql(mysql) => mysql.flavor == Flavor::MariaDb,
        Database::Sqlite(_) => false,
    }
}

fn conditions(all: &[Condition]) -> Result<Vec<pattern::Condition>, ConfigError> {
    all.iter().map(condition).collect()
}

fn condition<'c>(
    columns: impl IntoIterator<Item = &'c (Located<String>, Vec<String>)>,
) -> Result<pattern::Condition, ConfigError> {
    let columns = columns.into_iter().map(|(column, texts)| {
        let patterns = texts.iter().map(|text| Pattern::parse(text));
        Ok((place(column)?, patterns.collect()))
    });
    let columns = columns.collect::<Result<_, ConfigError>>()?;
    Ok(pattern::Condition::new(columns))
}

fn place(written: &Located<String>) -> Result<Place, ConfigError> {
    Place::parse(written.value()).map_err(|why| written.problem(why))
}

fn template(written: &Located<String>) -> Result<Template, ConfigError> {
    Template::parse(written.value()).map_err(|bad| written.problem(bad))
}
