//! Which database, which table, and through what.

use std::time::Duration;

use super::{ident, verdict};
use crate::{Error, Password, Server, Tls};

/// Which database, which table, and through what.
#[derive(Clone)]
pub struct Settings {
    /// The pipeline's.
    pub name: String,
    /// At least one. Of several, each new session takes the first that is a primary; what then belongs together uses
    /// the session's own settings, which name that one only.
    pub servers: Vec<Server>,
    pub tls: Tls,
    pub user: String,
    pub password: Password,
    pub database: String,
    pub schema: String,
    pub table: String,
    pub slot: String,
    pub publication: String,
    /// Nothing heard for so long, not even a keepalive: the connection is given up.
    pub silence_timeout: Duration,
}

impl Settings {
    /// With this server only.
    pub(super) fn at(&self, server: &Server) -> Settings {
        Settings {
            servers: vec![server.clone()],
            ..self.clone()
        }
    }

    /// For a sentence.
    pub(super) fn place(&self) -> String {
        let servers: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        servers.join(", ")
    }

    /// For a sentence, after the place: whether the connection is encrypted.
    pub(super) fn protection(&self) -> &'static str {
        let by_tcp = self.servers.iter().any(|server| !server.is_socket());
        if by_tcp && self.tls.config().is_some() {
            " by TLS"
        } else {
            ""
        }
    }

    pub(super) fn password(&self) -> Result<Option<String>, Error> {
        (self.password)().map_err(|why| {
            let what = format!("the password of role {} cannot be had: {why}", self.user);
            Error::fatal(what, verdict::PASSWORD)
        })
    }

    /// The table's name in a sentence or a piece of advice; quoted only where it must be.
    pub(super) fn qualified(&self) -> String {
        let part = |name: &str| {
            let plain = name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if plain { name.to_owned() } else { ident(name) }
        };
        format!("{}.{}", part(&self.schema), part(&self.table))
    }
}
