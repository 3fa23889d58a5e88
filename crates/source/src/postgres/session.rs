//! Sessions for SQL, and the settings that every session is pinned to.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use headwater_core::trouble::Trouble;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, Config, NoTls, Row};
use tracing::debug;

use super::{Settings, verdict, wire};
use crate::{Error, Server};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that has been asked and says nothing for this long is gone.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The role or the database may have other settings, which would change what text output looks like or cut sessions off.
const PINNED: [(&str, &str); 11] = [
    ("DateStyle", "ISO"),
    ("TimeZone", "UTC"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
    ("standard_conforming_strings", "on"),
    ("search_path", "pg_catalog"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("default_transaction_read_only", "off"),
];

/// The startup packet's `options`. Later ones win.
pub(super) fn options(more: &[(&str, &str)]) -> String {
    let mut options = String::new();
    for (name, value) in PINNED.iter().chain(more) {
        options.push_str("-c ");
        options.push_str(name);
        options.push('=');
        options.push_str(value);
        options.push(' ');
    }
    options.truncate(options.trim_end().len());
    options
}

/// What the server's lists of sessions call us.
pub(super) fn application(settings: &Settings) -> String {
    format!("headwater {}", settings.name)
}

/// A session for SQL. Dropping it says goodbye to the server.
pub(super) struct Session {
    client: Client,
    connection: JoinHandle<()>,
    settings: Settings,
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Session {
    pub(super) async fn open(settings: &Settings) -> Result<Session, Error> {
        let options = [("statement_timeout", "15s")];
        Session::open_as(settings, &application(settings), &options).await
    }

    pub(super) async fn open_as(
        settings: &Settings,
        application: &str,
        options: &[(&str, &str)],
    ) -> Result<Session, Error> {
        if let [server] = settings.servers.as_slice() {
            return Session::open_at(settings.clone(), server, application, options).await;
        }
        let mut refused = Vec::new();
        for server in &settings.servers {
            let at = settings.at(server);
            let opened = Session::open_at(at, server, application, options).await;
            let session = match opened {
                Ok(session) => session.if_primary().await,
                Err(error) => Err(error),
            };
            match session {
                Ok(session) => return Ok(session),
                Err(error) => {
                    debug!(%server, %error, "not the server to use");
                    refused.push(error);
                }
            }
        }
        Err(none_of(settings, &refused))
    }

    async fn open_at(
        settings: Settings,
        server: &Server,
        application: &str,
        options: &[(&str, &str)],
    ) -> Result<Session, Error> {
        let config = config(&settings, application, options)?;
        let connecting = async {
            let wire = wire::open(&settings, server).await?;
            let connected = config.connect_raw(wire, NoTls).await;
            connected.map_err(|e| verdict::of_sql(&e, &settings))
        };
        let (client, connection) = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected?,
            Err(_) => return Err(no_answer(&settings, CONNECT_TIMEOUT)),
        };
        // Its error comes back from the query that was under way; an idle session's end is noticed by the next one.
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok(Session {
            client,
            connection,
            settings,
        })
    }

    /// With the one server that this session is with.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What libpq calls `target_session_attrs=read-write`.
    async fn if_primary(self) -> Result<Session, Error> {
        let row = self.row("SELECT pg_is_in_recovery()", &[]).await?;
        match row.map(|row| cell(&row, 0)).transpose()? {
            Some(false) => Ok(self),
            _ => Err(Error::transient(format!(
                "{} is a standby (in recovery)",
                self.settings.place()
            ))),
        }
    }

    pub(super) async fn rows(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        match timeout(ANSWER_TIMEOUT, self.client.query(sql, parameters)).await {
            Ok(rows) => rows.map_err(|e| verdict::of_sql(&e, &self.settings)),
            Err(_) => Err(no_answer(&self.settings, ANSWER_TIMEOUT)),
        }
    }

    /// The first row of the answer, if there is one.
    pub(super) async fn row(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, parameters).await?.into_iter().next())
    }

    /// Ends it without goodbye, in the middle of an answer.
    pub(super) fn break_off(&self) {
        self.connection.abort();
    }

    /// Resolves when the session has ended.
    pub(super) async fn ended(&mut self) {
        let _joined = (&mut self.connection).await;
    }
}

/// A value of an answer.
pub(super) fn cell<'r, T, I>(row: &'r Row, place: I) -> Result<T, Error>
where
    T: FromSql<'r>,
    I: RowIndex + fmt::Display,
{
    row.try_get(place)
        .map_err(|e| Error::transient(format!("the catalog answered strangely: {e}")))
}

pub(super) fn no_answer(settings: &Settings, limit: Duration) -> Error {
    let (place, seconds) = (settings.place(), limit.as_secs());
    Error::transient(format!("no answer from {place} within {seconds} s"))
}

/// Waiting is useless only if it is for all of them.
fn none_of(settings: &Settings, refused: &[Error]) -> Error {
    let reasons: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let what = format!("none of {} can be used", settings.place());
    let reasons = reasons.join("; ");
    if refused.iter().all(Trouble::is_fatal) {
        return Error::fatal(what, reasons);
    }
    Error::transient(format!("{what}: {reasons}"))
}

fn config(settings: &Settings, application: &str, more: &[(&str, &str)]) -> Result<Config, Error> {
    let mut config = Config::new();
    config
        .user(&settings.user)
        .dbname(&settings.database)
        // TLS is spoken below, by the wire.
        .ssl_mode(SslMode::Disable)
        .application_name(application)
        .options(options(more));
    if let Some(password) = settings.password()? {
        config.password(password);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::super::setup::tests::settings;
    use super::*;

    #[test]
    fn several_servers_are_given_up_only_if_waiting_is_useless_for_each() {
        let mut settings = settings();
        settings.servers = ["a", "b"]
            .map(|host| Server {
                host: host.into(),
                port: 1,
            })
            .into();
        let (away, wrong) = (Error::transient("away"), Error::fatal("wrong", "mend it"));
        let error = none_of(&settings, &[away, wrong.clone()]);
        let told = "none of a:1, b:1 can be used: away; wrong: mend it";
        assert_eq!(error, Error::transient(told));
        let error = none_of(&settings, &[wrong.clone(), wrong]);
        assert!(error.is_fatal(), "{error}");
    }

    #[test]
    fn every_session_is_pinned_and_a_later_setting_wins() {
        let options = options(&[("idle_session_timeout", "30s")]);
        assert!(options.starts_with("-c DateStyle=ISO -c TimeZone=UTC "));
        let zero = options.find("idle_session_timeout=0").expect("pinned");
        let later = options.find("idle_session_timeout=30s").expect("added");
        assert!(zero < later && options.ends_with("30s"));
    }
}
