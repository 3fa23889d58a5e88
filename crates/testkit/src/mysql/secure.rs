//! A MySQL or MariaDB that speaks TLS, and shows the certificate that a test wants.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::{Mysql, Server, owned_by_the_server};
use crate::keeper::folder;
use crate::postgres::{CERTIFIED, Papers, Shown, block_on};

/// A server with TLS, and its certificates.
pub struct SecureMysql {
    pub mysql: Mysql,
    pub papers: Papers,
}

impl SecureMysql {
    pub fn start(server: Server) -> Self {
        let files = folder("papers");
        owned_by_the_server(&files);
        let papers = Papers::make(files.clone(), CERTIFIED);
        put(&papers, Shown::Right);
        let path = |name: &str| files.join(name).display().to_string();
        let settings = [
            ("ssl_ca", path("ca.pem")),
            ("ssl_cert", path("shown.pem")),
            ("ssl_key", path("shown.key")),
        ];
        let settings: Vec<(&str, &str)> = settings.iter().map(|(n, v)| (*n, v.as_str())).collect();
        Self {
            mysql: Mysql::start(server, &settings),
            papers,
        }
    }

    /// From now on new connections see this certificate.
    pub fn show(&self, shown: Shown) {
        put(&self.papers, shown);
        if matches!(shown, Shown::Expired) {
            // MySQL takes no expired certificate while it runs, but starts with one.
            self.mysql.restart();
            return;
        }
        let again = if self.mysql.server().is_mariadb() {
            "FLUSH SSL"
        } else {
            "ALTER INSTANCE RELOAD TLS"
        };
        block_on(self.mysql.execute(again));
    }
}

/// Beside the others, under the names that the server was told.
fn put(papers: &Papers, shown: Shown) {
    let (cert, key) = papers.server(shown);
    for (from, name) in [(cert, "shown.pem"), (key, "shown.key")] {
        let to = from.with_file_name(name);
        fs::copy(&from, &to).unwrap();
        fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
        owned_by_the_server(&to);
    }
}
