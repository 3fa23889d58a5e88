//! One fresh database with the outbox table, and what a test asks about it.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::{Mysql, ask, connect, run};
use crate::load::{Committed, Written, mysql_bulk_rows};
use crate::postgres::{PASSWORD, block_on};
use crate::unique;
use crate::witness::Witness;

/// The tables as users are told to make them, in a database of the test's own instead of `eventlog`.
const MYSQL: &str = include_str!("../../../../schemas/outbox/mysql.sql");
const MARIADB: &str = include_str!("../../../../schemas/outbox/mariadb.sql");

/// A database, which here is what PostgreSQL calls a schema. Dropped at the end of the test, with its user.
pub struct MysqlDatabase<'a> {
    mysql: &'a Mysql,
    /// Of the database, and of the user that Headwater connects as.
    name: String,
    table: String,
}

impl<'a> MysqlDatabase<'a> {
    pub(super) async fn make(mysql: &'a Mysql, hint: &str) -> Self {
        let name = unique(hint);
        let mariadb = mysql.server().is_mariadb();
        let outbox = if mariadb { MARIADB } else { MYSQL };
        let watch = if mariadb {
            "BINLOG MONITOR"
        } else {
            "REPLICATION CLIENT"
        };
        let mut conn = mysql.connect().await;
        run(&mut conn, &outbox.replace("eventlog", &name)).await;
        let user = format!(
            "CREATE USER '{name}'@'%' IDENTIFIED BY '{PASSWORD}';
             GRANT REPLICATION SLAVE, {watch} ON *.* TO '{name}'@'%';
             GRANT SELECT ON {name}.events TO '{name}'@'%'"
        );
        run(&mut conn, &user).await;
        Self {
            mysql,
            table: format!("{name}.events"),
            name,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The outbox, with its database.
    pub fn table(&self) -> &str {
        &self.table
    }

    pub fn mysql(&self) -> &'a Mysql {
        self.mysql
    }

    /// The same database on a server that took over.
    #[must_use]
    pub fn on<'b>(&self, mysql: &'b Mysql) -> MysqlDatabase<'b> {
        MysqlDatabase {
            mysql,
            name: self.name.clone(),
            table: self.table.clone(),
        }
    }

    /// With the least rights, the way Headwater connects.
    pub fn url(&self) -> String {
        self.url_through(self.mysql.port())
    }

    /// The same through another port: a [`crate::Proxy`]'s.
    pub fn url_through(&self, port: u16) -> String {
        let (scheme, name) = (self.mysql.server().scheme(), &self.name);
        format!("{scheme}://{name}:{PASSWORD}@127.0.0.1:{port}/{name}")
    }

    /// The way the application connects, which writes.
    pub fn owner_url(&self) -> String {
        self.mysql.owner_url(&self.name)
    }

    /// As the owner, in this database.
    pub async fn connect(&self) -> Conn {
        connect(self.mysql.port(), Some(&self.name))
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Runs statements as the owner, in one session.
    pub async fn execute(&self, sql: &str) {
        let mut conn = self.connect().await;
        run(&mut conn, sql).await;
        // Said, not just hung up: what a session prepared is another's only after its end.
        let _ = conn.disconnect().await;
    }

    /// Begins a transaction with these statements; it stays open until it is ended, or dropped.
    pub async fn begin(&self, sql: &str) -> OpenTransaction {
        let mut conn = self.connect().await;
        run(&mut conn, &format!("BEGIN; {sql}")).await;
        OpenTransaction(conn)
    }

    pub async fn ask(&self, sql: &str) -> Option<String> {
        ask(&mut self.connect().await, sql).await
    }

    /// The events that the table holds.
    pub async fn events(&self, namespace: &str) -> Vec<Committed> {
        let sql = "SELECT CAST(id AS CHAR), model_id, CAST(JSON_EXTRACT(payload, '$.seq') AS SIGNED) FROM events
            WHERE namespace = ? AND event_type IS NOT NULL";
        let mut conn = self.connect().await;
        let rows: Vec<(String, String, i64)> = conn.exec(sql, (namespace,)).await.unwrap();
        let event = |(id, key, seq): (String, String, i64)| Committed {
            id: id.parse().unwrap(),
            key,
            seq,
        };
        rows.into_iter().map(event).collect()
    }

    pub async fn bulk_rows(&self, namespace: &str, count: u32, payload_bytes: usize) -> Written {
        let mut conn = self.connect().await;
        mysql_bulk_rows(&mut conn, namespace, count, payload_bytes).await
    }

    /// Sessions of Headwater's user that read the log now.
    pub async fn readers(&self) -> usize {
        self.ask(&self.readers_query())
            .await
            .unwrap()
            .parse()
            .unwrap()
    }

    pub(crate) fn witness(&self) -> Witness {
        let (port, sql) = (self.mysql.port(), self.readers_query());
        Witness::start(
            async move || connect(port, None).await.unwrap(),
            async move |conn| ask(conn, &sql).await.unwrap().parse().unwrap(),
        )
    }

    fn readers_query(&self) -> String {
        format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{}' AND command LIKE 'Binlog Dump%'",
            self.name
        )
    }

    /// Ends them.
    pub async fn end_readers(&self) {
        let sql = format!(
            "SELECT id FROM information_schema.processlist WHERE user = '{}' AND command LIKE 'Binlog Dump%'",
            self.name
        );
        let mut conn = self.connect().await;
        let ids: Vec<u64> = conn.query(sql).await.unwrap();
        for id in ids {
            // One that ended by itself meanwhile is as good.
            let _ = conn.query_drop(format!("KILL {id}")).await;
        }
    }
}

/// In a session of its own.
pub struct OpenTransaction(Conn);

impl OpenTransaction {
    pub async fn commit(mut self) {
        run(&mut self.0, "COMMIT").await;
    }
}

impl Drop for MysqlDatabase<'_> {
    fn drop(&mut self) {
        block_on(async {
            let limit = Duration::from_secs(10);
            // The test may have stopped the server, and then there is nothing to tidy.
            let _ = tokio::time::timeout(limit, remove(self.mysql.port(), &self.name)).await;
        });
    }
}

async fn remove(port: u16, name: &str) -> Result<(), mysql_async::Error> {
    let mut conn = connect(port, None).await?;
    conn.query_drop(format!("DROP USER '{name}'@'%'; DROP DATABASE {name}"))
        .await
}
