//! What the server says about itself, our role, the table, the publication and the slot: asked once, judged elsewhere.
//!
//! Rule: reads only; works for every role that may connect, and for versions 14 to 18: what a version does not know
//! comes out as absent.

use serde_json::Value;
use tokio_postgres::types::ToSql;

use super::position::Lsn;
use super::session::{Session, cell};
use super::{Settings, ident};
use crate::Error;
use crate::keys::Keys;

#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub server: Server,
    pub table: Option<TableFacts>,
    pub publication: Option<PublicationFacts>,
    pub slot: Option<SlotFacts>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    /// As in `server_version_num`: 170012.
    pub version: i32,
    pub wal_level: String,
    pub is_standby: bool,
    pub max_slots: i64,
    pub slots: i64,
    pub max_senders: i64,
    pub senders: i64,
    /// -1: no limit.
    pub max_slot_wal_keep_mb: i64,
    /// Where its log ends; a standby does not say.
    pub end: Option<Lsn>,
    /// Who holds the pipeline's lock.
    pub holder: Option<i32>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct TableFacts {
    pub oid: u32,
    /// `r` a table, `p` a partitioned one; others cannot be an outbox.
    pub kind: String,
    /// `p` for those whose changes are logged.
    pub persistence: String,
    pub columns: Vec<String>,
    /// How it and its partitions are partitioned: `RANGE (event_date)`.
    pub partition_keys: Vec<String>,
    pub may_select: bool,
}

impl TableFacts {
    pub(super) fn is_partitioned(&self) -> bool {
        self.kind == "p"
    }
}

#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the server's own flags"
)]
pub(super) struct PublicationFacts {
    pub oid: u32,
    pub insert: bool,
    pub update: bool,
    pub via_root: bool,
    pub has_table: bool,
    /// Its conditions on the outbox's rows.
    pub filters: Vec<String>,
    /// The columns of the outbox that it leaves out.
    pub hidden_columns: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct SlotFacts {
    pub plugin: Option<String>,
    pub kind: String,
    pub database: Option<String>,
    pub temporary: bool,
    pub active_pid: Option<i32>,
    /// What the session that holds it calls itself, as far as our role may know.
    pub active_application: Option<String>,
    pub confirmed: Option<Lsn>,
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    pub invalidated: Option<String>,
    pub retained_bytes: Option<i64>,
    /// How much may still be written before it is in danger, where that is limited.
    pub safe_bytes: Option<i64>,
}

impl Facts {
    pub(super) async fn read(session: &Session, settings: &Settings) -> Result<Facts, Error> {
        let ask = Ask { session, settings };
        let server = ask.server().await?;
        let table = ask.table().await?;
        let publication = ask.publication(table.as_ref()).await?;
        Ok(Facts {
            server,
            table,
            publication,
            slot: ask.slot().await?,
        })
    }
}

/// The slot alone, as it is now.
pub(super) async fn slot(
    session: &Session,
    settings: &Settings,
) -> Result<Option<SlotFacts>, Error> {
    Ask { session, settings }.slot().await
}

/// The table's keys, and those of its partitions together. Its size is asked for under a lock, which somebody may hold for long.
pub(super) async fn keys(session: &Session, settings: &Settings) -> Result<Keys, Error> {
    Ask { session, settings }.keys().await
}

/// About how many rows the table has; none if nobody has counted them yet.
pub(super) async fn estimate(session: &Session, settings: &Settings) -> Result<Option<u64>, Error> {
    Ask { session, settings }.estimate().await
}

/// The table, or its partitions: what holds rows.
const PARTS: &str = "SELECT c.oid, c.reltuples FROM pg_class c WHERE c.relkind <> 'p' AND (c.oid = $1::text::regclass
                        OR c.oid IN (SELECT relid FROM pg_partition_tree($1::text::regclass)))";

struct Ask<'a> {
    session: &'a Session,
    settings: &'a Settings,
}

type Parameter<'a> = &'a (dyn ToSql + Sync);

impl Ask<'_> {
    async fn server(&self) -> Result<Server, Error> {
        let sql = format!(
            "WITH lock(key) AS (SELECT {})
             SELECT current_setting('server_version_num')::int4 AS version,
                    current_setting('wal_level') AS wal_level,
                    pg_is_in_recovery() AS is_standby,
                    current_setting('max_replication_slots')::int8 AS max_slots,
                    (SELECT count(*) FROM pg_replication_slots) AS slots,
                    current_setting('max_wal_senders')::int8 AS max_senders,
                    (SELECT count(*) FROM pg_stat_replication) AS senders,
                    (SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS keep,
                    CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn()::text END AS log_end,
                    (SELECT l.pid FROM pg_locks l, lock
                      WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
                        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        AND l.classid::int8 = ((key >> 32) & 4294967295)
                        AND l.objid::int8 = (key & 4294967295) LIMIT 1) AS holder",
            super::lock::KEY
        );
        let Some(row) = self.session.row(&sql, &[&self.settings.name]).await? else {
            return Err(Error::transient("the server said nothing about itself"));
        };
        let end: Option<String> = cell(&row, "log_end")?;
        Ok(Server {
            version: cell(&row, "version")?,
            wal_level: cell(&row, "wal_level")?,
            is_standby: cell(&row, "is_standby")?,
            max_slots: cell(&row, "max_slots")?,
            slots: cell(&row, "slots")?,
            max_senders: cell(&row, "max_senders")?,
            senders: cell(&row, "senders")?,
            max_slot_wal_keep_mb: cell(&row, "keep")?,
            end: end.and_then(|end| end.parse().ok()),
            holder: cell(&row, "holder")?,
        })
    }

    async fn table(&self) -> Result<Option<TableFacts>, Error> {
        let sql = "SELECT c.oid, c.relkind::text AS kind, c.relpersistence::text AS persistence,
                          has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') AS may_select,
                          ARRAY(SELECT a.attname::text FROM pg_attribute a
                                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                                 ORDER BY a.attnum) AS columns,
                          ARRAY(SELECT pg_get_partkeydef(t.relid) FROM pg_partition_tree(c.oid::regclass) t
                                  JOIN pg_partitioned_table p ON p.partrelid = t.relid::oid) AS keys
                     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = $1::text AND c.relname = $2::text";
        let named: [Parameter<'_>; 2] = [&self.settings.schema, &self.settings.table];
        let Some(row) = self.session.row(sql, &named).await? else {
            return Ok(None);
        };
        Ok(Some(TableFacts {
            oid: cell(&row, "oid")?,
            kind: cell(&row, "kind")?,
            persistence: cell(&row, "persistence")?,
            columns: cell(&row, "columns")?,
            partition_keys: cell(&row, "keys")?,
            may_select: cell(&row, "may_select")?,
        }))
    }

    async fn publication(
        &self,
        table: Option<&TableFacts>,
    ) -> Result<Option<PublicationFacts>, Error> {
        let table_oid = table.map_or(0, |table| table.oid);
        // `pg_publication_tables` names the root of a partitioned table, or its leaves. It has row filters and column
        // lists since version 15.
        let sql = "WITH parts AS (
               SELECT to_jsonb(t) AS part FROM pg_publication_tables t
                 JOIN pg_class c ON c.relname = t.tablename
                 JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
                WHERE t.pubname = $1::text
                  AND c.oid IN (SELECT $2::oid UNION ALL SELECT relid::oid FROM pg_partition_tree($2::oid::regclass)))
             SELECT p.oid, p.pubinsert, p.pubupdate, p.pubviaroot,
                    EXISTS (SELECT FROM parts)
                      OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = $2::oid)
                      AS has_table,
                    ARRAY(SELECT DISTINCT part ->> 'rowfilter' FROM parts WHERE part ->> 'rowfilter' IS NOT NULL)
                      AS filters,
                    ARRAY(SELECT a.attname::text FROM pg_attribute a
                           WHERE a.attrelid = $2::oid AND a.attnum > 0 AND NOT a.attisdropped
                             AND EXISTS (SELECT FROM parts WHERE jsonb_typeof(part -> 'attnames') = 'array'
                                            AND NOT part -> 'attnames' ? a.attname::text)) AS hidden
               FROM pg_publication p WHERE p.pubname = $1::text";
        let named: [Parameter<'_>; 2] = [&self.settings.publication, &table_oid];
        let Some(row) = self.session.row(sql, &named).await? else {
            return Ok(None);
        };
        Ok(Some(PublicationFacts {
            oid: cell(&row, "oid")?,
            insert: cell(&row, "pubinsert")?,
            update: cell(&row, "pubupdate")?,
            via_root: cell(&row, "pubviaroot")?,
            has_table: cell(&row, "has_table")?,
            filters: cell(&row, "filters")?,
            hidden_columns: cell(&row, "hidden")?,
        }))
    }

    /// The table's name, as the server reads it.
    fn table_name(&self) -> String {
        let Settings { schema, table, .. } = self.settings;
        format!("{}.{}", ident(schema), ident(table))
    }

    async fn keys(&self) -> Result<Keys, Error> {
        // An index is read in both directions. One that leaves out the rows that are no events serves as well.
        let sql = format!(
            "WITH parts AS ({PARTS}), keys AS (
               SELECT i.indisprimary AS is_primary, i.indisunique AND i.indpred IS NULL AS is_unique, i.indoption AS directions,
                      i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = '(event_type IS NOT NULL)' AS is_whole,
                      ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(number, place)
                              LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
                             WHERE place <= i.indnkeyatts ORDER BY place) AS columns
                 FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
                WHERE i.indrelid = $1::text::regclass AND i.indisvalid AND m.amname = 'btree')
             SELECT (SELECT coalesce(sum(pg_table_size(oid)), 0)::int8 FROM parts) AS bytes,
                    EXISTS (SELECT FROM keys WHERE is_primary) AS is_primary,
                    EXISTS (SELECT FROM keys WHERE is_unique AND 'id' = ANY (columns) AND columns <@ ARRAY['id', 'event_date'])
                      AS is_unique,
                    EXISTS (SELECT FROM keys WHERE is_whole AND columns[1:2] = ARRAY['event_date', 'id']
                               AND directions[0] = directions[1] AND directions[0] IN (0, 3)) AS is_ordered"
        );
        let Some(row) = self.session.row(&sql, &[&self.table_name()]).await? else {
            return Err(Error::transient("the catalog has no answer"));
        };
        let bytes: i64 = cell(&row, "bytes")?;
        Ok(Keys {
            bytes: bytes.unsigned_abs(),
            primary: cell(&row, "is_primary")?,
            unique: cell(&row, "is_unique")?,
            ordered: cell(&row, "is_ordered")?,
        })
    }

    async fn estimate(&self) -> Result<Option<u64>, Error> {
        let sql = format!("SELECT sum(greatest(reltuples, 0))::int8 FROM ({PARTS}) parts");
        let Some(row) = self.session.row(&sql, &[&self.table_name()]).await? else {
            return Ok(None);
        };
        let rows: Option<i64> = cell(&row, 0)?;
        Ok(rows.map(i64::unsigned_abs).filter(|rows| *rows > 0))
    }

    async fn slot(&self) -> Result<Option<SlotFacts>, Error> {
        // As JSON, because each version has other columns.
        let sql = "SELECT to_jsonb(s)::text AS slot, a.application_name,
                          CASE WHEN pg_is_in_recovery() THEN NULL
                               ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::int8 END AS retained
                     FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid
                    WHERE s.slot_name = $1::text";
        let Some(row) = self.session.row(sql, &[&self.settings.slot]).await? else {
            return Ok(None);
        };
        let json: String = cell(&row, "slot")?;
        let slot: Value = serde_json::from_str(&json).map_err(|e| {
            Error::transient(format!("pg_replication_slots could not be read: {e}"))
        })?;
        let text = |column: &str| slot.get(column).and_then(Value::as_str).map(str::to_owned);
        let conflicting = slot.get("conflicting").and_then(Value::as_bool) == Some(true);
        let pid = slot.get("active_pid").and_then(Value::as_i64);
        Ok(Some(SlotFacts {
            plugin: text("plugin"),
            kind: text("slot_type").unwrap_or_default(),
            database: text("database"),
            temporary: slot.get("temporary").and_then(Value::as_bool) == Some(true),
            active_pid: pid.and_then(|pid| pid.try_into().ok()),
            active_application: cell(&row, "application_name")?,
            confirmed: text("confirmed_flush_lsn").and_then(|lsn| lsn.parse().ok()),
            wal_status: text("wal_status"),
            invalidated: text("invalidation_reason")
                .or_else(|| conflicting.then(|| "conflict with recovery".to_owned())),
            retained_bytes: cell(&row, "retained")?,
            safe_bytes: slot.get("safe_wal_size").and_then(Value::as_i64),
        }))
    }
}
