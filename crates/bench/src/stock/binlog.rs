//! A full table on MySQL or MariaDB.

use std::process::Command;

use headwater_testkit::{Mysql, MysqlDatabase, PASSWORD};

use super::{Store, Words, select};
use crate::backlog::Shape;
use crate::backlog::binlog::{fill, source, version};

impl Store for Mysql {
    type Stock<'a> = Stock<'a>;

    fn words(&self) -> Words {
        if self.server().is_mariadb() {
            Words {
                title: "Snapshot, MariaDB",
                own: "`mariadb --quick -e \"SELECT … ORDER BY event_date, id\"`",
            }
        } else {
            Words {
                title: "Snapshot, MySQL",
                own: "`mysql --quick -e \"SELECT … ORDER BY event_date, id\"`",
            }
        }
    }

    async fn version(&self) -> String {
        version(self).await
    }

    async fn stock(&self, rows: u32) -> Stock<'_> {
        let database = self.database("bench").await;
        fill(&database, Shape::full(rows)).await;
        database.execute("ANALYZE TABLE events").await;
        Stock { database }
    }
}

pub struct Stock<'a> {
    database: MysqlDatabase<'a>,
}

impl<'a> super::Stock for Stock<'a> {
    type Database = MysqlDatabase<'a>;

    fn database(&self) -> &MysqlDatabase<'a> {
        &self.database
    }

    fn source(&self) -> String {
        source(&self.database)
    }

    fn own(&self) -> Command {
        let mysql = self.database.mysql();
        let (program, plain): (_, &[_]) = if mysql.server().is_mariadb() {
            ("mariadb", &["--skip-ssl"])
        } else {
            // Without TLS the server's key is needed for the password.
            ("mysql", &["--ssl-mode=DISABLED", "--get-server-public-key"])
        };
        let mut command = Command::new(mysql.program(program));
        command
            .env("MYSQL_PWD", PASSWORD)
            .args(["--no-defaults", "--quick", "--batch", "--host=127.0.0.1"])
            .args(plain)
            .arg(format!("--port={}", mysql.port()))
            .arg(format!("--user={}", self.database.name()))
            .arg(format!("--execute={}", select(self.database.table())));
        command
    }

    /// The server keeps no account of its readers.
    async fn end(&self, _: &str) {}
}
