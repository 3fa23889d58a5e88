//! A backlog in PostgreSQL's log, and slots that stand before it.

use std::time::Duration;

use headwater_testkit::{Database, Headwater, Postgres};
use tokio::time::sleep;

use super::{Dialect, Host, Own, Shape, Words, insert};
use crate::Programs;
use crate::meter::Meter;
use crate::page::said_by;
use crate::pipeline::{Pipeline, command};
use crate::recvlogical;
use crate::yardstick::Took;

/// The slot from which all others are copied.
const FIRST: &str = "bench_first";

/// No checkpoint and no vacuum while something is measured.
pub fn server() -> Postgres {
    Postgres::start(
        17,
        &[
            ("autovacuum", "off"),
            ("checkpoint_timeout", "1h"),
            ("max_wal_size", "32GB"),
            ("shared_buffers", "512MB"),
            ("synchronous_commit", "off"),
        ],
    )
}

pub fn version(postgres: &Postgres) -> String {
    let program = postgres.program("postgres").display().to_string();
    said_by(&program, &["--version"])
}

impl Host for Postgres {
    type Backlog<'a> = Backlog<'a>;

    fn words(&self) -> Words {
        Words {
            title: "Drain",
            own: &[Own {
                name: "`pg_recvlogical`",
                options: &[
                    "--option=publication_names=bench_filter",
                    "--option=binary=false",
                ],
            }],
            sender: "walsender",
            row_bytes: 800,
            remark: "",
        }
    }

    async fn version(&self) -> String {
        version(self)
    }

    async fn backlog(&self, _: &Programs, shape: Shape) -> Backlog<'_> {
        Backlog::write(self, shape).await
    }
}

pub struct Backlog<'a> {
    pub database: Database<'a>,
    events: u32,
    /// Where it ends, as PostgreSQL writes it.
    pub end: String,
}

impl<'a> Backlog<'a> {
    pub async fn write(postgres: &'a Postgres, shape: Shape) -> Backlog<'a> {
        let database = postgres.database("bench").await;
        database.execute(PUBLICATIONS).await;
        let slot = format!("SELECT pg_create_logical_replication_slot('{FIRST}', 'pgoutput')");
        database.execute(&slot).await;
        fill(&database, shape).await;
        let events = database.ask("SELECT count(event_type) FROM eventlog.events");
        let events = events.await.unwrap().parse().unwrap();
        database.execute("CHECKPOINT").await;
        let end = database.ask("SELECT pg_current_wal_lsn()").await.unwrap();
        Backlog {
            database,
            events,
            end,
        }
    }

    /// A slot of one's own, before the first row.
    pub async fn slot(&self, name: &str) {
        let copy = format!("SELECT pg_copy_logical_replication_slot('{FIRST}', '{name}')");
        self.database.execute(&copy).await;
    }

    /// A slot is released a moment after its reader ended.
    pub async fn drop_slot(&self, name: &str) {
        while !self.database.walsenders().await.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        let drop = format!("SELECT pg_drop_replication_slot('{name}')");
        self.database.execute(&drop).await;
    }
}

/// Writes the rows.
pub async fn fill(database: &Database<'_>, shape: Shape) {
    let transactions = shape.rows / shape.rows_a_transaction;
    // An anonymous block in no transaction of ours, so that it may commit by itself.
    let load = format!(
        "DO $$ BEGIN FOR t IN 0..{last} LOOP {insert}; COMMIT; END LOOP; END $$",
        last = transactions - 1,
        insert = insert(&dialect(shape), shape)
    );
    database.execute(&load).await;
}

impl super::Backlog for Backlog<'_> {
    fn events(&self) -> u32 {
        self.events
    }

    /// Slots are named like the pipelines.
    fn source(&self, name: &str) -> String {
        let url = self.database.url();
        format!("url = \"{url}\"\nslot = \"{name}\"\npublication = \"bench_filter\"")
    }

    async fn begin(&self, pipeline: &Pipeline<'_>, headwater: &Headwater) {
        self.slot(pipeline.name).await;
        command(headwater, "adopt");
    }

    async fn sender(&self) -> Meter {
        loop {
            if let Some(pid) = self.database.walsenders().await.first() {
                return Meter::begin(u32::try_from(*pid).unwrap());
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn end(&self, name: &str) {
        self.drop_slot(name).await;
    }

    async fn by_own(&self, options: &[&str]) -> Took {
        recvlogical::drain(self, options).await
    }
}

/// The one that `headwater init` makes is `bench_filter`; the others ask for more, or by name.
const PUBLICATIONS: &str = "
CREATE PUBLICATION bench_all FOR TABLE eventlog.events WITH (publish = 'insert', publish_via_partition_root = true);
CREATE PUBLICATION bench_filter FOR TABLE eventlog.events WHERE (event_type IS NOT NULL)
    WITH (publish = 'insert', publish_via_partition_root = true);
CREATE PUBLICATION bench_list FOR TABLE eventlog.events (id, namespace, action_id, action_name, action_params, started_date,
    completion_date, model_id, model_type, event_type, payload, event_date, delivered)
    WITH (publish = 'insert', publish_via_partition_root = true);
CREATE PUBLICATION bench_both FOR TABLE eventlog.events (id, namespace, action_id, action_name, action_params, started_date,
    completion_date, model_id, model_type, event_type, payload, event_date, delivered) WHERE (event_type IS NOT NULL)
    WITH (publish = 'insert', publish_via_partition_root = true);";

fn dialect(shape: Shape) -> Dialect<'static> {
    let each = shape.rows_a_transaction;
    Dialect {
        table: "eventlog.events",
        uuid: "gen_random_uuid()",
        json: "::jsonb",
        later: |date| format!("timestamp '{date}' + n * interval '1 ms'"),
        numbers: format!("generate_series(t::bigint * {each} + 1, (t::bigint + 1) * {each}) AS n"),
    }
}
