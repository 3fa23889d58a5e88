//! One fresh database with the outbox table, and what a test asks about its log.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use super::{Postgres, USER, block_on, connect, url};
use crate::load::Committed;
use crate::unique;

/// Ekbatan's table, owned by whoever runs this.
const OUTBOX: &str = "CREATE SCHEMA eventlog;
CREATE TABLE eventlog.events (
    id UUID PRIMARY KEY, namespace VARCHAR(255) NOT NULL, action_id UUID NOT NULL, action_name VARCHAR(255) NOT NULL,
    action_params JSONB NOT NULL, started_date TIMESTAMP NOT NULL, completion_date TIMESTAMP NOT NULL,
    model_id VARCHAR(255), model_type VARCHAR(255), event_type VARCHAR(255), payload JSONB,
    event_date TIMESTAMP NOT NULL, delivered BOOLEAN NOT NULL);
CREATE INDEX idx_events_action_id ON eventlog.events(action_id);";

/// Dropped with its slots at the end of the test, so that a shared cluster does not keep the log for it.
pub struct Database<'a> {
    postgres: &'a Postgres,
    name: String,
}

impl<'a> Database<'a> {
    pub(super) async fn make(postgres: &'a Postgres, hint: &str) -> Self {
        let name = unique(hint);
        let root = postgres.connect("postgres").await;
        root.batch_execute(&format!("CREATE DATABASE {name} OWNER {USER}"))
            .await
            .unwrap();
        let database = Self { postgres, name };
        let owner = connect(&database.url()).await.unwrap();
        owner.batch_execute(OUTBOX).await.unwrap();
        database
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn postgres(&self) -> &'a Postgres {
        self.postgres
    }

    /// The same database on a server that took over.
    #[must_use]
    pub fn on<'b>(&self, postgres: &'b Postgres) -> Database<'b> {
        Database {
            postgres,
            name: self.name.clone(),
        }
    }

    /// As [`USER`], the way Headwater connects.
    pub fn url(&self) -> String {
        self.postgres.url(&self.name, USER)
    }

    /// The same through another port: a [`crate::Proxy`]'s.
    pub fn url_through(&self, port: u16) -> String {
        url(port, &self.name, USER)
    }

    /// As the superuser.
    pub async fn connect(&self) -> Client {
        self.postgres.connect(&self.name).await
    }

    /// Runs statements as the superuser.
    pub async fn execute(&self, sql: &str) {
        let client = self.connect().await;
        client
            .batch_execute(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    /// The first column of the first row as text; `None` without a row or when it is null.
    pub async fn ask(&self, sql: &str) -> Option<String> {
        let client = self.connect().await;
        let messages = client
            .simple_query(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    /// The events of a namespace that the table holds.
    pub async fn events(&self, namespace: &str) -> Vec<Committed> {
        let client = self.connect().await;
        let sql = "SELECT id::text, model_id, (payload->>'seq')::bigint FROM eventlog.events
            WHERE namespace = $1 AND event_type IS NOT NULL";
        let rows = client.query(sql, &[&namespace]).await.unwrap();
        let event = |row: &tokio_postgres::Row| Committed {
            id: row.get::<_, String>(0).parse().unwrap(),
            key: row.get(1),
            seq: row.get(2),
        };
        rows.iter().map(event).collect()
    }

    /// Where the server's log ends now.
    pub async fn wal_lsn(&self) -> u64 {
        let text = self.ask("SELECT pg_current_wal_lsn() - '0/0'").await;
        text.unwrap().parse().unwrap()
    }

    /// What the slot was told; `None` when there is no such slot.
    pub async fn confirmed_lsn(&self, slot: &str) -> Option<u64> {
        let sql = format!(
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{slot}'"
        );
        self.ask(&sql).await.map(|text| text.parse().unwrap())
    }

    /// Waits until the slot was told at least `lsn`.
    pub async fn wait_confirmed(&self, slot: &str, lsn: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            if self.confirmed_lsn(slot).await.is_some_and(|c| c >= lsn) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Drops every slot and publication of this database.
    pub(crate) async fn remove_pipelines(&self) {
        let client = self.connect().await;
        drop_slots(&client, &self.name).await;
        let publications =
            "SELECT string_agg(format('DROP PUBLICATION %I', pubname), ';') FROM pg_publication";
        if let Some(drop) = self.ask(publications).await {
            self.execute(&drop).await;
        }
    }

    /// Backends that stream this database's log.
    pub async fn walsenders(&self) -> Vec<i32> {
        let client = self.connect().await;
        let rows = client.query(WALSENDERS, &[&self.name]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Ends them, and says how many there were.
    pub async fn terminate_walsenders(&self) -> usize {
        let client = self.connect().await;
        let rows = client
            .query(
                &format!("SELECT pg_terminate_backend(pid) FROM ({WALSENDERS}) AS w"),
                &[&self.name],
            )
            .await
            .unwrap();
        rows.len()
    }
}

const WALSENDERS: &str =
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender' AND datname = $1";

impl Drop for Database<'_> {
    fn drop(&mut self) {
        block_on(async {
            let limit = Duration::from_secs(10);
            // The test may have stopped the server, and then there is nothing to tidy.
            let _ = tokio::time::timeout(limit, remove(self.postgres, &self.name)).await;
        });
    }
}

async fn remove(postgres: &Postgres, name: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) =
        tokio_postgres::connect(&postgres.url("postgres", "postgres"), NoTls).await?;
    tokio::spawn(connection);
    client
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1",
            &[&name],
        )
        .await?;
    drop_slots(&client, name).await;
    client
        .batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
        .await
}

/// A slot is released a moment after its walsender was ended.
async fn drop_slots(client: &Client, database: &str) {
    let drop =
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1";
    for _ in 0..50 {
        if client.execute(drop, &[&database]).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
