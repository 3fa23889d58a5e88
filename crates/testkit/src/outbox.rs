//! What a promise to all databases needs of one: a fresh outbox, and its server in our hands.

use std::time::Duration;

use mysql_async::prelude::Queryable;

use crate::load::{Committed, Written, bulk_rows};
use crate::mysql::MysqlDatabase;
use crate::postgres::{Database, connect};
use crate::witness::Witness;

/// An outbox of a test's own.
#[allow(async_fn_in_trait)] // Tests of one thread call it.
pub trait Outbox {
    /// The way Headwater connects.
    fn url(&self) -> String;
    /// The same through another port: a [`crate::Proxy`]'s.
    fn url_through(&self, port: u16) -> String;
    /// The way the application connects, for a [`crate::Load`].
    fn owner_url(&self) -> String;
    /// With its schema, or what is one here.
    fn table(&self) -> &str;
    /// Lines of `[source]` that a pipeline needs to find the table.
    fn source_lines(&self) -> String;
    /// Runs statements, in one session, as one who may.
    async fn execute(&self, sql: &str);
    /// The same, each by itself.
    async fn execute_each(&self, statements: &[String]);
    /// Commits 2,000 events of keys of this round: in one transaction in odd rounds, else in one each, so that there is a
    /// position after each.
    async fn commit_backlog(&self, namespace: &str, round: u32);
    /// Those of a namespace that the table holds.
    async fn events(&self, namespace: &str) -> Vec<Committed>;
    /// Commits `count` events of about `payload_bytes` each in one transaction, spread over up to a thousand keys.
    async fn bulk_rows(&self, namespace: &str, count: u32, payload_bytes: usize) -> Written;
    /// Gives back what stopped pipelines hold of the server: slots, and publications. A binlog keeps no account of its readers.
    async fn remove_pipelines(&self);
    /// Watches how many sessions read the log for Headwater.
    fn witness(&self) -> Witness;

    fn port(&self) -> u16;
    /// As an administrator would, and how long it took.
    fn stop_server(&self) -> Duration;
    fn kill9_server(&self);
    fn start_server_again(&self);
}

/// Walsenders that have begun.
const STREAMING: &str =
    "SELECT count(*) FROM pg_stat_replication r JOIN pg_stat_activity a USING (pid)
    WHERE a.datname = $1 AND r.state IN ('catchup', 'streaming')";

impl Outbox for Database<'_> {
    fn url(&self) -> String {
        Database::url(self)
    }

    fn url_through(&self, port: u16) -> String {
        Database::url_through(self, port)
    }

    fn owner_url(&self) -> String {
        Database::url(self)
    }

    fn table(&self) -> &'static str {
        "eventlog.events"
    }

    fn source_lines(&self) -> String {
        String::new()
    }

    async fn execute(&self, sql: &str) {
        Database::execute(self, sql).await;
    }

    async fn execute_each(&self, statements: &[String]) {
        let client = self.connect().await;
        for sql in statements {
            let done = client.batch_execute(sql).await;
            done.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        }
    }

    async fn commit_backlog(&self, namespace: &str, round: u32) {
        let commit = if round.is_multiple_of(2) {
            "COMMIT;"
        } else {
            ""
        };
        let sql = format!(
            "DO $$ BEGIN FOR n IN 1..2000 LOOP
                INSERT INTO eventlog.events VALUES (gen_random_uuid(), '{namespace}', gen_random_uuid(), 'Backlog', '{{}}',
                    now(), now(), 'r{round}-k' || n % 10, 'Wallet', 'WalletChangedEvent', jsonb_build_object('seq', n),
                    now(), false);
                {commit}
            END LOOP; END $$"
        );
        Database::execute(self, &sql).await;
    }

    async fn events(&self, namespace: &str) -> Vec<Committed> {
        Database::events(self, namespace).await
    }

    async fn bulk_rows(&self, namespace: &str, count: u32, payload_bytes: usize) -> Written {
        let client = self.connect().await;
        bulk_rows(&client, namespace, count, payload_bytes).await
    }

    async fn remove_pipelines(&self) {
        Database::remove_pipelines(self).await;
    }

    fn witness(&self) -> Witness {
        let (url, name) = (
            self.postgres().url(self.name(), "postgres"),
            self.name().to_owned(),
        );
        Witness::start(
            async move || connect(&url).await.unwrap(),
            async move |client| {
                let row = client.query_one(STREAMING, &[&name]).await.unwrap();
                usize::try_from(row.get::<_, i64>(0)).unwrap()
            },
        )
    }

    fn port(&self) -> u16 {
        self.postgres().port()
    }

    fn stop_server(&self) -> Duration {
        self.postgres().stop_fast()
    }

    fn kill9_server(&self) {
        self.postgres().kill9();
    }

    fn start_server_again(&self) {
        self.postgres().start_again();
    }
}

impl Outbox for MysqlDatabase<'_> {
    fn url(&self) -> String {
        MysqlDatabase::url(self)
    }

    fn url_through(&self, port: u16) -> String {
        MysqlDatabase::url_through(self, port)
    }

    fn owner_url(&self) -> String {
        MysqlDatabase::owner_url(self)
    }

    fn table(&self) -> &str {
        MysqlDatabase::table(self)
    }

    fn source_lines(&self) -> String {
        format!("table = \"{}\"\n", self.table())
    }

    async fn execute(&self, sql: &str) {
        MysqlDatabase::execute(self, sql).await;
    }

    async fn execute_each(&self, statements: &[String]) {
        let mut conn = self.connect().await;
        for sql in statements {
            let done = conn.query_drop(sql).await;
            done.unwrap_or_else(|e| panic!("{sql}: {e}"));
        }
    }

    async fn commit_backlog(&self, namespace: &str, round: u32) {
        let insert = |n: u32| {
            format!(
                "INSERT INTO events VALUES (UUID(), '{namespace}', UUID(), 'Backlog', '{{}}', NOW(6), NOW(6),
                    'r{round}-k{}', 'Wallet', 'WalletChangedEvent', JSON_OBJECT('seq', {n}), NOW(6), FALSE)",
                n % 10
            )
        };
        let mut all: Vec<String> = (1..=2000).map(insert).collect();
        if !round.is_multiple_of(2) {
            all.insert(0, "BEGIN".to_owned());
            all.push("COMMIT".to_owned());
        }
        MysqlDatabase::execute(self, &all.join(";")).await;
    }

    async fn events(&self, namespace: &str) -> Vec<Committed> {
        MysqlDatabase::events(self, namespace).await
    }

    async fn bulk_rows(&self, namespace: &str, count: u32, payload_bytes: usize) -> Written {
        MysqlDatabase::bulk_rows(self, namespace, count, payload_bytes).await
    }

    async fn remove_pipelines(&self) {}

    fn witness(&self) -> Witness {
        MysqlDatabase::witness(self)
    }

    fn port(&self) -> u16 {
        self.mysql().port()
    }

    fn stop_server(&self) -> Duration {
        self.mysql().stop()
    }

    fn kill9_server(&self) {
        self.mysql().kill9();
    }

    fn start_server_again(&self) {
        self.mysql().start_again();
    }
}
