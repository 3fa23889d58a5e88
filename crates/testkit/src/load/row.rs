//! One outbox row as the writers make it, and the ways to put rows into the table.

use bytes::Bytes;
use futures_util::SinkExt;
use serde_json::json;
use tokio_postgres::{Error, Transaction};
use uuid::Uuid;

use super::Committed;

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub id: Uuid,
    /// None: a sentinel, which says that an action happened and had no event.
    pub event: Option<(String, i64)>,
    pub payload: Option<String>,
}

impl Row {
    pub(super) fn event(id: Uuid, key: &str, seq: i64, padding: usize) -> Self {
        let payload = json!({
            "modelId": key, "modelName": "Wallet", "key": key, "seq": seq, "padding": "x".repeat(padding),
        });
        Self {
            id,
            event: Some((key.to_owned(), seq)),
            payload: Some(payload.to_string()),
        }
    }

    pub(super) fn sentinel(id: Uuid) -> Self {
        Self {
            id,
            event: None,
            payload: None,
        }
    }

    pub(super) fn committed(&self) -> Option<Committed> {
        let (key, seq) = self.event.clone()?;
        Some(Committed {
            id: self.id,
            key,
            seq,
        })
    }

    fn key(&self) -> Option<&str> {
        self.event.as_ref().map(|(key, _)| key.as_str())
    }
}

/// One statement for all rows, in their order.
pub(super) async fn insert(
    transaction: &Transaction<'_>,
    namespace: &str,
    rows: &[Row],
) -> Result<(), Error> {
    let ids: Vec<String> = rows.iter().map(|r| r.id.to_string()).collect();
    let keys: Vec<Option<&str>> = rows.iter().map(Row::key).collect();
    let payloads: Vec<Option<&str>> = rows.iter().map(|r| r.payload.as_deref()).collect();
    transaction
        .execute(INSERT, &[&namespace, &ids, &keys, &payloads])
        .await?;
    Ok(())
}

/// The same by COPY, which puts all rows on one place of the log.
pub(super) async fn copy(
    transaction: &Transaction<'_>,
    namespace: &str,
    rows: &[Row],
) -> Result<(), Error> {
    let sink = transaction.copy_in(COPY).await?;
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

/// COPY takes `now` for a timestamp, as every input of one does.
const NOW: &str = "now";

const COPY: &str = "COPY eventlog.events (id, namespace, action_id, action_name, action_params, started_date, \
    completion_date, model_id, model_type, event_type, payload, event_date, delivered) FROM STDIN";

const INSERT: &str = "INSERT INTO eventlog.events (id, namespace, action_id, action_name, action_params, started_date, \
    completion_date, model_id, model_type, event_type, payload, event_date, delivered) \
    SELECT r.id::uuid, $1, gen_random_uuid(), 'InsertAction', '{}', now(), now(), r.key, \
        CASE WHEN r.key IS NOT NULL THEN 'Wallet' END, CASE WHEN r.key IS NOT NULL THEN 'WalletChangedEvent' END, \
        r.payload::jsonb, now(), false \
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS r(id, key, payload, n) ORDER BY r.n";

/// $2 the keys' common beginning, $3 how many, $4 how often 32 characters of padding.
pub(super) const BULK: &str = "INSERT INTO eventlog.events (id, namespace, action_id, action_name, action_params, \
    started_date, completion_date, model_id, model_type, event_type, payload, event_date, delivered) \
    SELECT gen_random_uuid(), $1, gen_random_uuid(), 'BulkAction', '{}', now(), now(), r.key, 'Wallet', \
        'WalletChangedEvent', jsonb_build_object('modelId', r.key, 'modelName', 'Wallet', 'key', r.key, 'seq', r.seq, \
        'padding', repeat(md5(r.n::text), $4::int)), now(), false \
    FROM (SELECT n, n / 1000 AS seq, $2 || '-k' || n % 1000 AS key FROM generate_series(1, $3::bigint) AS n) AS r \
    ORDER BY r.n RETURNING id::text, model_id, (payload->>'seq')::bigint";
