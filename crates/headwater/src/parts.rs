//! Makes the parts of a pipeline out of its configuration.

pub mod columns;
mod encoder;
mod outlet;
mod replay;
mod route;
mod watched;

use std::sync::Arc;

use headwater_core::event::Outbox;
use headwater_core::rights::Rights;
use headwater_core::route::{Route, Topics};
use headwater_core::window::Window;
use headwater_encode::Encoder;
use headwater_source::{
    NoPart, OwnFiles, Part, Password, Server, Tls, TlsFlaw, mysql, postgres, sqlite,
};

use crate::config::{self, Config, ConfigError};
use crate::pipeline::{Bound, Letters, Preparer};

pub use encoder::{Broken, NoEncoder, encoder};
pub use outlet::{AnyPositions, AnySink, Outlet, form};
pub use replay::{replayer, replayer_of};
pub use route::{filter, routes};
pub use watched::Watched;

/// The database of a configuration, as its source knows it.
pub enum Database {
    Postgres(postgres::Settings),
    MySql(mysql::Settings),
    Sqlite(sqlite::Settings),
}

/// Reads the files that protect the connection.
pub fn database(config: &Config) -> Result<Database, ConfigError> {
    let source = config.source();
    Ok(match &source.database {
        config::Database::Sqlite(path) => Database::Sqlite(sqlite::Settings {
            name: config.name().to_owned(),
            path: path.clone(),
            table: source.table.name.clone(),
        }),
        config::Database::Postgres(postgres) => {
            Database::Postgres(postgres_settings(config, postgres)?)
        }
        config::Database::MySql(mysql) => Database::MySql(mysql_settings(config, mysql)?),
    })
}

/// A part of the table, of today.
pub async fn part(database: &Database, window: &Window) -> Result<Part, NoPart> {
    match database {
        Database::Postgres(settings) => postgres::part(settings, window).await,
        Database::MySql(settings) => mysql::part(settings, window).await,
        Database::Sqlite(settings) => sqlite::part(settings, window).await,
    }
}

/// Which database it is, in words that are the same for the same one.
pub async fn which(database: &Database) -> Result<String, headwater_source::Error> {
    match database {
        Database::Postgres(settings) => postgres::which(settings).await,
        Database::MySql(settings) => mysql::which(settings).await,
        Database::Sqlite(settings) => Ok(sqlite::which(settings)),
    }
}

fn postgres_settings(
    config: &Config,
    postgres: &config::Postgres,
) -> Result<postgres::Settings, ConfigError> {
    let table = &config.source().table;
    Ok(postgres::Settings {
        name: config.name().to_owned(),
        servers: servers(&postgres.servers),
        tls: tls(&postgres.tls)?,
        user: postgres.user.clone(),
        password: password(&postgres.password),
        database: postgres.database.clone(),
        schema: table.schema.clone().unwrap_or_else(|| "public".into()),
        table: table.name.clone(),
        slot: postgres.slot.clone(),
        publication: postgres.publication.clone(),
        silence_timeout: postgres.silence_timeout,
    })
}

fn mysql_settings(config: &Config, mysql: &config::MySql) -> Result<mysql::Settings, ConfigError> {
    let table = &config.source().table;
    Ok(mysql::Settings {
        name: config.name().to_owned(),
        flavor: mysql.flavor,
        servers: servers(&mysql.servers),
        tls: tls(&mysql.tls)?,
        user: mysql.user.clone(),
        password: password(&mysql.password),
        schema: table.schema.clone().unwrap_or_default(),
        table: table.name.clone(),
        server_id: mysql.server_id,
        silence_timeout: mysql.silence_timeout,
    })
}

fn servers(listening: &[config::Listening]) -> Vec<Server> {
    let server = |it: &config::Listening| Server {
        host: match &it.host {
            config::Host::Tcp(name) => name.clone(),
            config::Host::Socket(path) => path.display().to_string(),
        },
        port: it.port,
    };
    listening.iter().map(server).collect()
}

/// Read anew for each connection: the file or the command's answer may have changed since.
fn password(password: &config::Password) -> Password {
    let password = password.clone();
    Arc::new(move || match password.read("source.password") {
        Ok(secret) => Ok(secret.map(|secret| secret.expose().to_owned())),
        Err(error) => Err(error.to_string()),
    })
}

/// A file that cannot be used is told with the line of the key that names it.
fn tls(tls: &config::Tls) -> Result<Tls, ConfigError> {
    let ca = tls.ca.as_ref().map(|ca| ca.value().as_path());
    let own = tls.own.as_ref().map(|(cert, key)| OwnFiles {
        cert: cert.value(),
        key: key.value(),
    });
    Tls::load(*tls.mode.value(), ca, own).map_err(|flaw| {
        let place = match (&flaw, &tls.ca, &tls.own) {
            (TlsFlaw::Ca(_), Some(ca), _) => ca,
            (TlsFlaw::Cert(_), _, Some((cert, _))) => cert,
            (TlsFlaw::Key(_), _, Some((_, key))) => key,
            _ => return tls.mode.problem(flaw),
        };
        place.problem(flaw)
    })
}

/// The topics that events can go to.
pub fn topics(config: &Config) -> Result<Vec<Topics>, ConfigError> {
    let routes = routes(config)?;
    Ok(routes.iter().map(Route::topics).collect())
}

/// Whether the times of messages tell nothing of their events' dates, for a route takes them from elsewhere.
pub fn are_timeless(config: &Config) -> bool {
    let mut times = config
        .routes()
        .iter()
        .filter_map(|it| it.timestamp.as_ref());
    times.any(|time| time.value() != "{event_date}")
}

/// What administrators have to grant, server by server; found without asking any of them.
pub fn rights(
    config: &Config,
    database: &Database,
    outlet: &Outlet,
) -> Result<Vec<Rights>, ConfigError> {
    let mut topics = topics(config)?;
    if config.failure().policy.kinds().next().is_some() {
        topics.push(Topics::Only(config.failure().topic.clone()));
    }
    let source = match database {
        Database::Postgres(settings) => Some(postgres::rights(settings)),
        Database::MySql(settings) => Some(mysql::rights(settings)),
        // Whoever may read the file may do everything that is needed.
        Database::Sqlite(_) => None,
    };
    Ok(source.into_iter().chain(outlet.rights(&topics)).collect())
}

pub fn outbox() -> Outbox {
    Outbox::ekbatan()
}

/// Everything that decides what becomes of a row; reads the schemas.
pub fn preparer(config: &Config) -> Result<Preparer, ConfigError> {
    preparer_with(config, encoder(config)?)
}

/// The same around an encoder that is there already.
pub fn preparer_with(config: &Config, encoder: Encoder) -> Result<Preparer, ConfigError> {
    let preparer = Preparer::new(outbox(), encoder, routes(config)?);
    Ok(preparer.choosing(filter(config)?, config.unrouted()))
}

/// What becomes of rows that cannot be published.
pub fn letters(config: &Config) -> Letters {
    let failure = config.failure();
    Letters {
        policy: failure.policy,
        name: config.name().to_owned(),
        topic: failure.topic.as_str().into(),
        open: None,
    }
}

/// The topic of dead letters.
pub fn dead_letter_topic(config: &Config) -> &str {
    &config.failure().topic
}

pub fn bound(config: &Config) -> Bound {
    let max = config.sink().max_in_flight;
    Bound {
        messages: usize::try_from(max.messages).unwrap_or(usize::MAX),
        bytes: usize::try_from(max.bytes).unwrap_or(usize::MAX),
    }
}
