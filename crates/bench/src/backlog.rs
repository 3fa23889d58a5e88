//! A database with a backlog of events, and slots that stand before it.

use headwater_testkit::{Database, Postgres};

/// The slot from which all others are copied.
const FIRST: &str = "bench_first";

pub const NAMESPACE: &str = "shop";

/// A server that is busy with nothing else: no checkpoint and no vacuum while something is measured.
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

#[derive(Clone, Copy)]
pub struct Shape {
    pub rows: u32,
    pub rows_a_transaction: u32,
    /// Of a hundred rows, so many are none that become messages.
    pub sentinels: u32,
}

pub struct Backlog<'a> {
    pub database: Database<'a>,
    /// How many of its rows are events.
    pub events: u32,
    /// Where it ends, as PostgreSQL writes it.
    pub end: String,
    slots: std::cell::Cell<u32>,
}

impl<'a> Backlog<'a> {
    pub async fn write(postgres: &'a Postgres, shape: Shape) -> Backlog<'a> {
        let database = postgres.database("bench").await;
        database.execute(PUBLICATIONS).await;
        let slot = format!("SELECT pg_create_logical_replication_slot('{FIRST}', 'pgoutput')");
        database.execute(&slot).await;
        let transactions = shape.rows / shape.rows_a_transaction;
        // An anonymous block in no transaction of ours, so that it may commit by itself.
        let load = format!(
            "DO $$ BEGIN FOR t IN 0..{last} LOOP {insert}; COMMIT; END LOOP; END $$",
            last = transactions - 1,
            insert = insert(shape)
        );
        database.execute(&load).await;
        let events = database.ask("SELECT count(event_type) FROM eventlog.events");
        let events = events.await.unwrap().parse().unwrap();
        database.execute("CHECKPOINT").await;
        let end = database.ask("SELECT pg_current_wal_lsn()").await.unwrap();
        Backlog {
            database,
            events,
            end,
            slots: std::cell::Cell::new(0),
        }
    }

    /// A slot of one's own, before the first row.
    pub async fn slot(&self) -> String {
        let number = self.slots.get() + 1;
        self.slots.set(number);
        let name = format!("bench_{number}");
        let copy = format!("SELECT pg_copy_logical_replication_slot('{FIRST}', '{name}')");
        self.database.execute(&copy).await;
        name
    }

    /// A slot is released a moment after its reader ended.
    pub async fn drop_slot(&self, name: &str) {
        while !self.database.walsenders().await.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let drop = format!("SELECT pg_drop_replication_slot('{name}')");
        self.database.execute(&drop).await;
    }

    /// The process that serves the one reader there is.
    pub async fn walsender(&self) -> u32 {
        loop {
            if let Some(pid) = self.database.walsenders().await.first() {
                return u32::try_from(*pid).unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
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

/// About 800 bytes a row as it is sent. `t` is the transaction's number.
fn insert(shape: Shape) -> String {
    let each = shape.rows_a_transaction;
    format!(
        r#"INSERT INTO eventlog.events
        SELECT gen_random_uuid(), '{NAMESPACE}', gen_random_uuid(), 'PlaceOrderAction', '{{"cart": "c-4410", "coupon": null}}',
            timestamp '2026-06-12 03:22:47.000123' + n * interval '1 ms', timestamp '2026-06-12 03:22:47.450789' + n * interval '1 ms',
            CASE WHEN event THEN 'order-' || n % 10000 END, CASE WHEN event THEN 'Order' END,
            CASE WHEN event THEN 'OrderPlaced' END,
            CASE WHEN event THEN format('{{"gift": false, "lines": [{{"sku": "TEA-0451", "name": "Assam, second flush", "count": 3, "price": 1249}},
                {{"sku": "CUP-0007", "name": "Cup with saucer", "count": 12, "price": 899}}], "state": "PLACED", "total": 145.35,
                "modelId": "order-%s", "buyer": {{"id": %s, "name": "Ada Lovelace", "city": "Ockham"}}, "coupon": null,
                "modelName": "Order", "placedAt": "2026-06-12T03:22:47.450789Z", "reference": "2026-06-12/%s"}}',
                n % 10000, n, n)::jsonb END,
            timestamp '2026-06-12 03:22:47.450789' + n * interval '1 ms', false
        FROM (SELECT n, n % 100 >= {sentinels} AS event FROM generate_series(t::bigint * {each} + 1, (t::bigint + 1) * {each}) AS n) AS r"#,
        sentinels = shape.sentinels,
    )
}
