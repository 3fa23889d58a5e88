//! Where a server listens, and who proves to it that we may come in.

use std::fmt;
use std::sync::Arc;

/// Gives the password, if there is one, or says why it cannot. Asked at each connection, so that it may change.
pub type Password = Arc<dyn Fn() -> Result<Option<String>, String> + Send + Sync>;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// A name, an address, or what leads to a socket (it begins with `/`): PostgreSQL's folder, MySQL's file.
    pub host: String,
    pub port: u16,
}

impl Server {
    pub(crate) fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { host, port } = self;
        // A name or a path has no colon.
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}
