//! A PostgreSQL that speaks TLS, with a role for each way of logging in.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use super::certificate::{Papers, Shown};
use super::{ACCESS, PASSWORD, Postgres, USER, append, block_on};
use crate::place;

/// The role that logs in by its certificate alone.
pub const CERTIFIED: &str = "certified";

/// Before the usual lines: each role has its own way in.
const SECURE_ACCESS: &str = "hostssl all certified 127.0.0.1/32 cert
hostssl all only_tls 127.0.0.1/32 scram-sha-256
host all hashed 127.0.0.1/32 md5
host all bare 127.0.0.1/32 password
host all certified,only_tls,hashed,bare 127.0.0.1/32 reject
";

/// A server with TLS, and its certificates.
pub struct SecurePostgres {
    pub postgres: Postgres,
    pub papers: Papers,
}

impl SecurePostgres {
    pub fn start(version: u32) -> Self {
        let postgres = Postgres::start(version, &[]);
        let papers = Papers::make(postgres.folder.join("papers"), CERTIFIED);
        let access = format!("{SECURE_ACCESS}{ACCESS}");
        fs::write(postgres.data().join("pg_hba.conf"), access).unwrap();
        let ca = papers.ca();
        fs::copy(ca, postgres.data().join("ca.pem")).unwrap();
        append(
            &postgres.data().join("postgresql.conf"),
            "ssl=on\nssl_cert_file='server.pem'\nssl_key_file='server.key'\nssl_ca_file='ca.pem'\n",
        );
        let secure = Self { postgres, papers };
        secure.put(Shown::Right);
        secure.postgres.restart();
        block_on(secure.make_roles());
        secure
    }

    /// From now on new connections see this certificate.
    pub fn show(&self, shown: Shown) {
        self.put(shown);
        self.postgres.reload();
    }

    fn put(&self, shown: Shown) {
        let (cert, key) = self.papers.server(shown);
        for (from, name) in [(cert, "server.pem"), (key, "server.key")] {
            let to = self.postgres.data().join(name);
            fs::copy(from, &to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
            if let Some((user, group)) = place::database_user() {
                chown(&to, Some(user), Some(group)).unwrap();
            }
        }
    }

    async fn make_roles(&self) {
        let client = self.postgres.connect("postgres").await;
        for role in [CERTIFIED, "only_tls", "bare", "hashed"] {
            // A role's password is stored in the way in which it is asked for.
            let way = if role == "hashed" {
                "md5"
            } else {
                "scram-sha-256"
            };
            let sql = format!(
                "SET password_encryption = '{way}';
                 CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{PASSWORD}' IN ROLE {USER}"
            );
            client.batch_execute(&sql).await.unwrap();
        }
    }
}

impl Postgres {
    /// Reads its configuration again.
    pub fn reload(&self) {
        let output = self
            .tool("pg_ctl")
            .args(["reload", "-D"])
            .arg(self.data())
            .output()
            .unwrap();
        assert!(output.status.success(), "pg_ctl reload: {output:?}");
    }
}
