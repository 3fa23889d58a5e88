//! A writer's connection to MySQL or MariaDB. It holds a lock of its own name, which ends with it: so its end can be seen
//! from another.

use std::fmt::Write as _;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder};
use uuid::Uuid;

use super::row::{COLUMNS, Row};
use super::{Committed, Written};

pub(super) struct Mysql {
    conn: Conn,
    pub(super) name: String,
    closed: bool,
}

impl Mysql {
    pub(super) async fn open(url: &str) -> Result<Self, Error> {
        let name = crate::unique("writer");
        // The client knows one scheme for both.
        let url = url.replacen("mariadb://", "mysql://", 1);
        let options = OptsBuilder::from_opts(Opts::from_url(&url)?).prefer_socket(false);
        let mut conn = Conn::new(options).await?;
        conn.query_drop(format!("DO GET_LOCK('{name}', 10)"))
            .await?;
        let closed = false;
        Ok(Self { conn, name, closed })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// BEGIN, COMMIT and the like.
    pub(super) async fn say(&mut self, sql: &str) -> Result<(), Error> {
        let said = self.conn.query_drop(sql).await;
        self.noticed(said)
    }

    /// One statement for all rows, in their order.
    pub(super) async fn insert(&mut self, namespace: &str, rows: &[Row]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        self.say(&insert(namespace, rows)).await
    }

    /// A statement for each of them, as a mapper of objects writes.
    pub(super) async fn insert_otherwise(
        &mut self,
        namespace: &str,
        rows: &[Row],
    ) -> Result<(), Error> {
        for row in rows {
            self.insert(namespace, std::slice::from_ref(row)).await?;
        }
        Ok(())
    }

    /// Whether the connection of this name is still known to the server. A session that ends gives its locks back last.
    pub(super) async fn is_alive(&mut self, name: &str) -> Result<bool, Error> {
        let free = format!("SELECT IS_FREE_LOCK('{name}')");
        let free: Result<Option<i64>, Error> = self.conn.query_first(free).await;
        Ok(self.noticed(free)? == Some(0))
    }

    pub(super) async fn has_any_of(&mut self, rows: &[Row]) -> Result<bool, Error> {
        let there = format!("SELECT 1 FROM events WHERE id IN ({}) LIMIT 1", ids(rows));
        let found: Result<Option<i64>, Error> = self.conn.query_first(there).await;
        Ok(self.noticed(found)?.is_some())
    }

    pub(super) async fn mark_delivered(&mut self, rows: &[Row]) -> Result<(), Error> {
        let ids = ids(rows);
        self.say(&format!(
            "UPDATE events SET delivered = TRUE WHERE id IN ({ids})"
        ))
        .await
    }

    /// The client does not say by itself whether its connection still lives: only a server's answer tells that it does.
    fn noticed<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result
            && !matches!(error, Error::Server(answer) if !is_the_end(answer.code))
        {
            self.closed = true;
        }
        result
    }
}

/// A shutdown under way, and a session that was killed.
fn is_the_end(code: u16) -> bool {
    [1053, 1077, 1079, 1152, 1184, 1317, 1927, 3169, 4031].contains(&code)
}

/// Classes 22, 23 and 42 of SQLSTATE are ours: values, keys and syntax.
pub(super) fn is_mistake(error: &Error) -> bool {
    let Error::Server(answer) = error else {
        return false;
    };
    ["22", "23", "42"]
        .iter()
        .any(|class| answer.state.starts_with(class))
}

/// An id that no row has, where there are no rows.
fn ids(rows: &[Row]) -> String {
    let all: Vec<String> = rows.iter().map(|r| format!("'{}'", r.id)).collect();
    if all.is_empty() {
        format!("'{}'", Uuid::nil())
    } else {
        all.join(", ")
    }
}

fn insert(namespace: &str, rows: &[Row]) -> String {
    let mut sql = format!("INSERT INTO events ({COLUMNS}) VALUES ");
    for (n, row) in rows.iter().enumerate() {
        // Nothing in a row needs escapes: the payloads hold no backslash and no quote but the double one.
        let or_null =
            |value: Option<&str>| value.map_or("NULL".to_owned(), |text| format!("'{text}'"));
        let kind = |name: &str| or_null(row.event.is_some().then_some(name));
        write!(
            sql,
            "{comma}('{id}', '{namespace}', '{action}', 'InsertAction', '{{}}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), \
                {key}, {model}, {event}, {payload}, UTC_TIMESTAMP(6), FALSE)",
            comma = if n == 0 { "" } else { ", " },
            id = row.id,
            action = Uuid::new_v4(),
            key = or_null(row.key()),
            model = kind("Wallet"),
            event = kind("WalletChangedEvent"),
            payload = or_null(row.payload.as_deref()),
        )
        .expect("a string takes it");
    }
    sql
}

/// Commits `count` events of about `payload_bytes` each in one transaction, spread over up to a thousand keys.
pub async fn mysql_bulk_rows(
    conn: &mut Conn,
    namespace: &str,
    count: u32,
    payload_bytes: usize,
) -> Written {
    let prefix = crate::unique("bulk");
    let depth = if conn
        .query_first::<String, _>("SELECT VERSION()")
        .await
        .unwrap()
        .unwrap()
        .contains("MariaDB")
    {
        "max_recursive_iterations"
    } else {
        "cte_max_recursion_depth"
    };
    let numbers =
        "WITH RECURSIVE numbers AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < ";
    let bulk = format!(
        "SET SESSION {depth} = {count} + 1;
         INSERT INTO events ({COLUMNS}) {numbers}{count})
         SELECT UUID(), '{namespace}', UUID(), 'BulkAction', '{{}}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), k, 'Wallet',
            'WalletChangedEvent', JSON_OBJECT('modelId', k, 'modelName', 'Wallet', 'key', k, 'seq', s, 'padding',
                REPEAT(LPAD(HEX(n * 2654435761), 32, 'x'), {repeats})), UTC_TIMESTAMP(6), FALSE
         FROM (SELECT n, n DIV 1000 AS s, CONCAT('{prefix}-k', n MOD 1000) AS k FROM numbers) AS r ORDER BY n",
        repeats = payload_bytes / 32,
    );
    conn.query_drop(&bulk)
        .await
        .expect("bulk rows are inserted");
    let found = "SELECT CAST(id AS CHAR), model_id, CAST(JSON_EXTRACT(payload, '$.seq') AS SIGNED) FROM events
        WHERE namespace = ? AND model_id LIKE ?";
    let rows: Vec<(String, String, i64)> = conn
        .exec(found, (namespace, format!("{prefix}-k%")))
        .await
        .expect("bulk rows are there");
    let event = |(id, key, seq): (String, String, i64)| Committed {
        id: Uuid::parse_str(&id).expect("a uuid"),
        key,
        seq,
    };
    Written {
        committed: rows.into_iter().map(event).collect(),
        ..Written::default()
    }
}
