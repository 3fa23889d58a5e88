//! A writer's connection, whichever database it leads to: the few things that a writer does with one.

use super::mysql::{self, Mysql};
use super::postgres::{self, Postgres};
use super::row::Row;

pub(super) enum Connection {
    Postgres(Postgres),
    Mysql(Box<Mysql>),
}

/// Why a statement did not work.
#[derive(Debug)]
pub(super) struct Trouble {
    text: String,
    /// The statement is wrong; else the server is away, which may be what is tested.
    pub is_mistake: bool,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self {
            text: format!("{error:?}"),
            is_mistake: postgres::is_mistake(&error),
        }
    }
}

impl From<mysql_async::Error> for Trouble {
    fn from(error: mysql_async::Error) -> Self {
        Self {
            text: error.to_string(),
            is_mistake: mysql::is_mistake(&error),
        }
    }
}

/// The same call on either.
macro_rules! either {
    ($self:expr, $call:ident($($given:expr),*)) => {
        match $self {
            Connection::Postgres(it) => Ok(it.$call($($given),*).await?),
            Connection::Mysql(it) => Ok(it.$call($($given),*).await?),
        }
    };
}

impl Connection {
    /// By the url's scheme.
    pub(super) async fn open(url: &str) -> Result<Self, Trouble> {
        if url.starts_with("postgres") {
            Ok(Self::Postgres(Postgres::open(url).await?))
        } else {
            Ok(Self::Mysql(Box::new(Mysql::open(url).await?)))
        }
    }

    /// By which its end can be seen from another.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Postgres(it) => &it.name,
            Self::Mysql(it) => &it.name,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Postgres(it) => it.is_closed(),
            Self::Mysql(it) => it.is_closed(),
        }
    }

    pub(super) async fn say(&mut self, sql: &str) -> Result<(), Trouble> {
        either!(self, say(sql))
    }

    pub(super) async fn insert(&mut self, namespace: &str, rows: &[Row]) -> Result<(), Trouble> {
        either!(self, insert(namespace, rows))
    }

    /// By another of the ways that the database has.
    pub(super) async fn insert_otherwise(
        &mut self,
        namespace: &str,
        rows: &[Row],
    ) -> Result<(), Trouble> {
        either!(self, insert_otherwise(namespace, rows))
    }

    pub(super) async fn is_alive(&mut self, name: &str) -> Result<bool, Trouble> {
        either!(self, is_alive(name))
    }

    pub(super) async fn has_any_of(&mut self, rows: &[Row]) -> Result<bool, Trouble> {
        either!(self, has_any_of(rows))
    }

    pub(super) async fn mark_delivered(&mut self, rows: &[Row]) -> Result<(), Trouble> {
        either!(self, mark_delivered(rows))
    }
}
