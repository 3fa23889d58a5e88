//! A writer's connection to PostgreSQL. Known to the server by a name of its own, so that its end can be seen from another.

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

use super::row::{COLUMNS, Row};
use super::{Committed, Written};
use crate::postgres::connect;

pub(super) struct Postgres {
    client: Client,
    pub(super) name: String,
}

impl Postgres {
    pub(super) async fn open(url: &str) -> Result<Self, Error> {
        let name = crate::unique("writer");
        let join = if url.contains('?') { '&' } else { '?' };
        let client = connect(&format!("{url}{join}application_name={name}")).await?;
        Ok(Self { client, name })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// BEGIN, COMMIT and the like.
    pub(super) async fn say(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await
    }

    /// One statement for all rows, in their order.
    pub(super) async fn insert(&self, namespace: &str, rows: &[Row]) -> Result<(), Error> {
        let ids = ids(rows);
        let keys: Vec<Option<&str>> = rows.iter().map(Row::key).collect();
        let payloads: Vec<Option<&str>> = rows.iter().map(|r| r.payload.as_deref()).collect();
        self.client
            .execute(INSERT, &[&namespace, &ids, &keys, &payloads])
            .await?;
        Ok(())
    }

    /// The same by COPY, which puts all rows on one place of the log.
    pub(super) async fn insert_otherwise(
        &self,
        namespace: &str,
        rows: &[Row],
    ) -> Result<(), Error> {
        let copy = format!("COPY eventlog.events ({COLUMNS}) FROM STDIN");
        let sink = self.client.copy_in(&copy).await?;
        let mut sink = std::pin::pin!(sink);
        let mut text = String::new();
        for row in rows {
            // Nothing in a row needs COPY's escapes: the payloads hold no backslash, tab or line end.
            let or_null = |value: Option<&str>| value.unwrap_or(r"\N").to_owned();
            let kind = |name: &str| or_null(row.event.is_some().then_some(name));
            let line = [
                row.id.to_string(),
                namespace.to_owned(),
                Uuid::new_v4().to_string(),
                "CopyAction".to_owned(),
                "{}".to_owned(),
                NOW.to_owned(),
                NOW.to_owned(),
                or_null(row.key()),
                kind("Wallet"),
                kind("WalletChangedEvent"),
                or_null(row.payload.as_deref()),
                NOW.to_owned(),
                "f".to_owned(),
            ];
            text.push_str(&line.join("\t"));
            text.push('\n');
        }
        sink.send(Bytes::from(text)).await?;
        sink.close().await
    }

    /// Whether the connection of this name is still known to the server.
    pub(super) async fn is_alive(&self, name: &str) -> Result<bool, Error> {
        let alive = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1";
        Ok(!self.client.query(alive, &[&name]).await?.is_empty())
    }

    pub(super) async fn has_any_of(&self, rows: &[Row]) -> Result<bool, Error> {
        let there = "SELECT 1 FROM eventlog.events WHERE id = ANY($1::text[]::uuid[]) LIMIT 1";
        Ok(!self.client.query(there, &[&ids(rows)]).await?.is_empty())
    }

    pub(super) async fn mark_delivered(&self, rows: &[Row]) -> Result<(), Error> {
        let sql = "UPDATE eventlog.events SET delivered = true WHERE id = ANY($1::text[]::uuid[])";
        self.client.execute(sql, &[&ids(rows)]).await?;
        Ok(())
    }
}

/// Classes 22, 23 and 42 of SQLSTATE are ours; 57 (shutdown) and 08 (connection) are the fault under test.
pub(super) fn is_mistake(error: &Error) -> bool {
    !error.is_closed()
        && error.code().is_some_and(|code| {
            ["22", "23", "42"]
                .iter()
                .any(|class| code.code().starts_with(class))
        })
}

fn ids(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|r| r.id.to_string()).collect()
}

/// Commits `count` events of about `payload_bytes` each in one transaction, spread over up to a thousand keys.
pub async fn bulk_rows(
    client: &Client,
    namespace: &str,
    count: u32,
    payload_bytes: usize,
) -> Written {
    let prefix = crate::unique("bulk");
    let rows = client
        .query(
            BULK,
            &[
                &namespace,
                &prefix,
                &i64::from(count),
                &i32::try_from(payload_bytes / 32).expect("a payload under 64 GB"),
            ],
        )
        .await
        .expect("bulk rows are inserted");
    let committed = rows
        .iter()
        .map(|row| Committed {
            id: Uuid::parse_str(row.get(0)).expect("a uuid"),
            key: row.get(1),
            seq: row.get(2),
        })
        .collect();
    Written {
        committed,
        ..Written::default()
    }
}

/// COPY takes `now` for a timestamp, as every input of one does.
const NOW: &str = "now";

const INSERT: &str = "INSERT INTO eventlog.events (id, namespace, action_id, action_name, action_params, started_date, \
    completion_date, model_id, model_type, event_type, payload, event_date, delivered) \
    SELECT r.id::uuid, $1, gen_random_uuid(), 'InsertAction', '{}', now(), now(), r.key, \
        CASE WHEN r.key IS NOT NULL THEN 'Wallet' END, CASE WHEN r.key IS NOT NULL THEN 'WalletChangedEvent' END, \
        r.payload::jsonb, now(), false \
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS r(id, key, payload, n) ORDER BY r.n";

/// $2 the keys' common beginning, $3 how many, $4 how often 32 characters of padding.
const BULK: &str = "INSERT INTO eventlog.events (id, namespace, action_id, action_name, action_params, \
    started_date, completion_date, model_id, model_type, event_type, payload, event_date, delivered) \
    SELECT gen_random_uuid(), $1, gen_random_uuid(), 'BulkAction', '{}', now(), now(), r.key, 'Wallet', \
        'WalletChangedEvent', jsonb_build_object('modelId', r.key, 'modelName', 'Wallet', 'key', r.key, 'seq', r.seq, \
        'padding', repeat(md5(r.n::text), $4::int)), now(), false \
    FROM (SELECT n, n / 1000 AS seq, $2 || '-k' || n % 1000 AS key FROM generate_series(1, $3::bigint) AS n) AS r \
    ORDER BY r.n RETURNING id::text, model_id, (payload->>'seq')::bigint";
