//! Sessions for SQL, and the settings that every session is pinned to.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, Config, NoTls, Row};

use super::{Settings, verdict};
use crate::Error;

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
        let config = config(settings, application, options)?;
        // The client's own limit is for the TCP connection only, not for a server that accepts and then says nothing.
        let (client, connection) = match timeout(CONNECT_TIMEOUT, config.connect(NoTls)).await {
            Ok(connected) => connected.map_err(|e| verdict::of_sql(&e, settings))?,
            Err(_) => return Err(no_answer(settings, CONNECT_TIMEOUT)),
        };
        // Its error comes back from the query that was under way; an idle session's end is noticed by the next one.
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok(Session {
            client,
            connection,
            settings: settings.clone(),
        })
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
    let (host, port, seconds) = (&settings.host, settings.port, limit.as_secs());
    Error::transient(format!("no answer from {host}:{port} within {seconds} s"))
}

fn config(settings: &Settings, application: &str, more: &[(&str, &str)]) -> Result<Config, Error> {
    let mut config = Config::new();
    config
        .host(&settings.host)
        .port(settings.port)
        .user(&settings.user)
        .dbname(&settings.database)
        .ssl_mode(SslMode::Disable)
        .application_name(application)
        .options(options(more))
        .connect_timeout(CONNECT_TIMEOUT)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(20));
    if let Some(password) = settings.password()? {
        config.password(password);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_is_pinned_and_a_later_setting_wins() {
        let options = options(&[("idle_session_timeout", "30s")]);
        assert!(options.starts_with("-c DateStyle=ISO -c TimeZone=UTC "));
        let zero = options.find("idle_session_timeout=0").expect("pinned");
        let later = options.find("idle_session_timeout=30s").expect("added");
        assert!(zero < later && options.ends_with("30s"));
    }
}
