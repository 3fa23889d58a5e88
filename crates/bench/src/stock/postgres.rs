//! A full table on PostgreSQL.

use std::process::Command;
use std::time::Duration;

use headwater_testkit::{Database, Postgres};
use tokio::time::sleep;

use super::{Store, Words, select};
use crate::backlog::Shape;
use crate::backlog::postgres::{fill, version};

impl Store for Postgres {
    type Stock<'a> = Stock<'a>;

    fn words(&self) -> Words {
        Words {
            title: "Snapshot",
            own: "`psql -c \"COPY (SELECT … ORDER BY event_date, id) TO STDOUT\"`",
        }
    }

    async fn version(&self) -> String {
        version(self)
    }

    async fn stock(&self, rows: u32) -> Stock<'_> {
        let database = self.database("bench").await;
        fill(&database, Shape::full(rows)).await;
        // Nobody else does, and the planner would guess.
        database.execute("VACUUM ANALYZE eventlog.events").await;
        database.execute("CHECKPOINT").await;
        Stock { database }
    }
}

pub struct Stock<'a> {
    database: Database<'a>,
}

impl<'a> super::Stock for Stock<'a> {
    type Database = Database<'a>;

    fn database(&self) -> &Database<'a> {
        &self.database
    }

    fn source(&self) -> String {
        format!("url = \"{}\"", self.database.url())
    }

    fn own(&self) -> Command {
        let postgres = self.database.postgres();
        let copy = format!("COPY ({}) TO STDOUT", select("eventlog.events"));
        let mut command = Command::new(postgres.program("psql"));
        command
            .args(["--no-psqlrc", "--quiet", "--host=127.0.0.1"])
            .arg(format!("--port={}", postgres.port()))
            .arg("--username=postgres")
            .arg(format!("--dbname={}", self.database.name()))
            .arg(format!("--command={copy}"));
        command
    }

    async fn end(&self, name: &str) {
        // A slot is released a moment after its reader ended.
        while !self.database.walsenders().await.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        let drop = format!(
            "SELECT pg_drop_replication_slot('headwater_{name}'); DROP PUBLICATION \"headwater_{name}\""
        );
        self.database.execute(&drop).await;
    }
}
