//! Which server, which table, and through what.

use std::time::Duration;

use super::{Flavor, ident, verdict};
use crate::{Error, Password, Server, Tls};

/// Which server, which table, and through what.
#[derive(Clone)]
pub struct Settings {
    /// The pipeline's.
    pub name: String,
    /// Which of the two `source.url` says that it is.
    pub flavor: Flavor,
    /// At least one. Of several, each new session takes the first that can be written to; what then belongs together uses
    /// the session's own settings, which name that one only.
    pub servers: Vec<Server>,
    pub tls: Tls,
    pub user: String,
    pub password: Password,
    /// The database that the table is in.
    pub schema: String,
    pub table: String,
    /// As whom we are known to the server among its replicas.
    pub server_id: u32,
    /// Nothing heard for so long, not even a heartbeat: the connection is given up.
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
        let servers = self.servers.iter().map(|server| {
            if server.is_socket() {
                server.host.clone()
            } else {
                server.to_string()
            }
        });
        servers.collect::<Vec<_>>().join(", ")
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
            let what = format!("the password of user {} cannot be had: {why}", self.user);
            Error::fatal(what, verdict::PASSWORD)
        })
    }

    /// The table's name in a sentence or a piece of advice; quoted only where it must be.
    pub(super) fn qualified(&self) -> String {
        let part = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
                name.to_owned()
            } else {
                ident(name)
            }
        };
        format!("{}.{}", part(&self.schema), part(&self.table))
    }
}
