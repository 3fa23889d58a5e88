//! What most tests here begin with: a fresh database, a pipeline of its own and its topic; and how its runs are watched.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use headwater_testkit::{
    Committed, Consumed, Database, Headwater, Kafka, Mysql, MysqlDatabase, Outbox, Pipeline,
    Postgres, Run, Verdict, Written, check, unique,
};
use tokio::time::sleep;
use uuid::Uuid;

/// How long anything may take that is not itself under test.
pub const LIMIT: Duration = Duration::from_mins(1);

/// The longest that a stop may take: the program's own patience, and some for a busy machine.
pub const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A promise to MySQL and MariaDB, as one test for each: `$promise` is given a [`Scene`] on a server that all tests share
/// or on one of its own, with the Kafka that all share or one of its own.
macro_rules! on_every_binlog {
    ($promise:ident: $hint:literal, $server:ident server, $kafka:ident kafka) => {
        mod $promise {
            use headwater_testkit::{Kafka, Mysql, Server};

            #[tokio::test]
            async fn on_mysql_9_7() {
                let (mysql, kafka) = (
                    $crate::scene::mysql!($server, Server::MySql97),
                    $crate::scene::kafka!($kafka),
                );
                super::$promise($crate::scene::Scene::binlog(mysql, kafka, $hint).await).await;
            }

            #[tokio::test]
            async fn on_mariadb_10_11() {
                let (mysql, kafka) = (
                    $crate::scene::mysql!($server, Server::MariaDb1011),
                    $crate::scene::kafka!($kafka),
                );
                super::$promise($crate::scene::Scene::binlog(mysql, kafka, $hint).await).await;
            }

            #[tokio::test]
            async fn on_mariadb_11_8() {
                let (mysql, kafka) = (
                    $crate::scene::mysql!($server, Server::MariaDb118),
                    $crate::scene::kafka!($kafka),
                );
                super::$promise($crate::scene::Scene::binlog(mysql, kafka, $hint).await).await;
            }
        }
    };
}

/// Promises that are looked at on PostgreSQL 17, to the others too.
macro_rules! on_other_versions {
    ($($promise:ident: $hint:literal),+) => {
        mod on_postgresql_15 {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise($crate::scene::Scene::shared(15, $hint).await).await;
            })+
        }

        mod on_postgresql_18 {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise($crate::scene::Scene::shared(18, $hint).await).await;
            })+
        }
    };
}

macro_rules! mysql {
    (shared, $server:expr) => {
        Mysql::shared($server)
    };
    (own, $server:expr) => {
        &Mysql::start($server, &[])
    };
}

macro_rules! kafka {
    (shared) => {
        Kafka::shared()
    };
    (own) => {
        &Kafka::start(1)
    };
}

pub(crate) use {kafka, mysql, on_every_binlog, on_other_versions};

pub struct Scene<'a, D: Outbox = Database<'a>> {
    pub database: D,
    pub kafka: &'a Kafka,
    pub pipeline: Pipeline,
    pub headwater: Headwater,
    /// Of the rows that the test writes.
    pub namespace: String,
    topics: Vec<String>,
}

impl Scene<'static> {
    /// On the servers that all tests share; nothing is initialised yet.
    pub async fn shared(version: u32, hint: &str) -> Self {
        Self::on(Postgres::shared(version), Kafka::shared(), hint).await
    }

    /// The same, initialised.
    pub async fn ready(version: u32, hint: &str) -> Self {
        let scene = Self::shared(version, hint).await;
        scene.init();
        scene
    }
}

impl<'a> Scene<'a> {
    pub async fn on(postgres: &'a Postgres, kafka: &'a Kafka, hint: &str) -> Self {
        Self::with(postgres.database(hint).await, kafka, hint).await
    }
}

impl<'a> Scene<'a, MysqlDatabase<'a>> {
    pub async fn binlog(mysql: &'a Mysql, kafka: &'a Kafka, hint: &str) -> Self {
        Self::with(mysql.database(hint).await, kafka, hint).await
    }
}

impl<'a, D: Outbox> Scene<'a, D> {
    async fn with(database: D, kafka: &'a Kafka, hint: &str) -> Self {
        let mut pipeline = Pipeline::new(&unique(hint), &database.url(), &kafka.brokers());
        pipeline.source = database.source_lines();
        let headwater = headwater(&pipeline);
        let mut scene = Self {
            database,
            kafka,
            pipeline,
            headwater,
            namespace: String::new(),
            topics: Vec::new(),
        };
        scene.namespace = scene.another_namespace(hint).await;
        scene
    }

    /// For a second load: each has its own keys only within a namespace.
    pub async fn another_namespace(&mut self, hint: &str) -> String {
        let namespace = unique(hint);
        let topic = format!("ekbatan.{namespace}");
        // Several partitions, so that an order that holds only by accident is found out.
        self.kafka.create_topic(&topic, 3, 1, &[]).await;
        self.topics.push(topic);
        namespace
    }

    pub fn topic(&self) -> &str {
        &self.topics[0]
    }

    /// Writes the pipeline's configuration anew, after it was changed.
    pub fn configure(&self) {
        self.headwater.configure(&self.pipeline.toml());
    }

    /// A configuration without `source.snapshot`, until [`Self::configure`] writes it anew.
    pub fn say_nothing_of_existing_rows(&self) {
        let toml = self.pipeline.toml();
        let silent = toml.replace("snapshot = \"never\"\n", "");
        assert_ne!(silent, toml);
        self.headwater.configure(&silent);
    }

    /// Each message becomes a request of its own: of a backlog many messages wait for their acks at any moment, and a
    /// position's record can overtake them.
    pub fn send_one_by_one(&mut self) {
        let property = r#"properties = { "batch.num.messages" = "1" }"#;
        self.pipeline.sink.push_str(property);
        self.configure();
    }

    /// Commits 2,000 events: in one transaction in odd rounds, else in one each.
    pub async fn commit_backlog(&self, namespace: &str, round: u32) {
        self.database.commit_backlog(namespace, round).await;
    }

    /// The events that the table holds, for a namespace whose writers were never interrupted.
    pub async fn committed_in(&self, namespace: &str) -> Written {
        Written {
            committed: self.database.events(namespace).await,
            ..Written::default()
        }
    }

    #[track_caller]
    pub fn init(&self) {
        let output = self.headwater.run(&["init"]);
        assert_eq!(output.code, 0, "init: {}", output.stderr);
    }

    pub fn spawn(&self, args: &[&str]) -> Running {
        Running(self.headwater.spawn(args))
    }

    /// `run`, carrying events.
    pub async fn start(&self) -> Running {
        let mut run = self.spawn(&["run"]);
        run.wait_until_it_carries().await;
        run
    }

    /// Everything that arrived, as soon as nothing is lost or the limit is over.
    pub async fn judge(&self, written: &Written) -> Verdict {
        self.judge_within(written, LIMIT).await
    }

    pub async fn judge_within(&self, written: &Written, limit: Duration) -> Verdict {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        let consumed = self
            .kafka
            .consume_until_complete(&topics, written, limit)
            .await;
        check(written, &consumed)
    }

    /// Stops the run when all has arrived, so that nothing can come after the judgement.
    pub async fn stop_and_judge(&self, mut run: Running, written: &Written) -> Verdict {
        self.judge(written).await;
        run.ask_to_stop().await;
        self.judge_within(written, Duration::ZERO).await
    }

    pub async fn consume(&self) -> Vec<Consumed> {
        self.kafka.consume_all(&[self.topic()]).await
    }

    /// Commits events, one transaction each, under keys of their own.
    pub async fn commit_events(&self, count: i64) -> Written {
        let key = unique("burst");
        let events: Vec<Event> = (1..=count)
            .map(|seq| Event::new(&self.namespace, &key, seq))
            .collect();
        let inserts: Vec<String> = events.iter().map(|event| self.insert(event)).collect();
        self.database.execute_each(&inserts).await;
        Written {
            committed: events.iter().map(Event::committed).collect(),
            ..Written::default()
        }
    }

    /// The event as a statement, into this database's outbox.
    pub fn insert(&self, event: &Event) -> String {
        event.insert_into(self.database.table(), &[])
    }

    /// With other values than usual: column and SQL expression.
    pub fn insert_with(&self, event: &Event, changed: &[(&str, &str)]) -> String {
        event.insert_into(self.database.table(), changed)
    }
}

pub fn headwater(pipeline: &Pipeline) -> Headwater {
    Headwater::new(env!("CARGO_BIN_EXE_headwater"), &pipeline.toml())
}

/// One row as SQL, for tests that care about single rows.
#[derive(Clone)]
pub struct Event {
    pub id: Uuid,
    pub namespace: String,
    pub key: String,
    pub seq: i64,
}

impl Event {
    pub fn new(namespace: &str, key: &str, seq: i64) -> Self {
        Self {
            id: Uuid::new_v4(),
            namespace: namespace.to_owned(),
            key: key.to_owned(),
            seq,
        }
    }

    /// The one that was committed so, in this namespace.
    pub fn of(namespace: &str, committed: &Committed) -> Self {
        Self {
            id: committed.id,
            namespace: namespace.to_owned(),
            key: committed.key.clone(),
            seq: committed.seq,
        }
    }

    pub fn committed(&self) -> Committed {
        Committed {
            id: self.id,
            key: self.key.clone(),
            seq: self.seq,
        }
    }

    /// Into the outbox.
    pub fn insert(&self) -> String {
        self.insert_with(&[])
    }

    /// With other values than usual: column and SQL expression.
    pub fn insert_with(&self, changed: &[(&str, &str)]) -> String {
        self.insert_into("eventlog.events", changed)
    }

    /// Into an outbox that lacks these columns.
    pub fn insert_without(&self, columns: &[&str]) -> String {
        self.insert_into_without("eventlog.events", columns)
    }

    pub fn insert_into_without(&self, table: &str, columns: &[&str]) -> String {
        let mut all = self.columns();
        all.retain(|(column, _)| !columns.contains(column));
        insert(table, all)
    }

    pub fn insert_into(&self, table: &str, changed: &[(&str, &str)]) -> String {
        let mut columns: Vec<(&str, String)> = self.columns();
        for (name, expression) in changed {
            columns.retain(|(column, _)| column != name);
            columns.push((name, (*expression).to_owned()));
        }
        insert(table, columns)
    }

    /// Each column and its usual SQL expression.
    fn columns(&self) -> Vec<(&'static str, String)> {
        let Self {
            id,
            namespace,
            key,
            seq,
        } = self;
        vec![
            ("id", format!("'{id}'")),
            ("namespace", format!("'{namespace}'")),
            ("action_id", format!("'{}'", Uuid::new_v4())),
            ("action_name", "'TestAction'".to_owned()),
            ("action_params", "'{}'".to_owned()),
            ("started_date", "now()".to_owned()),
            ("completion_date", "now()".to_owned()),
            ("model_id", format!("'{key}'")),
            ("model_type", "'Wallet'".to_owned()),
            ("event_type", "'WalletChangedEvent'".to_owned()),
            ("payload", format!(r#"'{{"seq": {seq}}}'"#)),
            ("event_date", "now()".to_owned()),
            ("delivered", "false".to_owned()),
        ]
    }

    /// The row without an event that an action without events leaves.
    pub fn insert_sentinel(&self) -> String {
        self.insert_sentinel_into("eventlog.events")
    }

    pub fn insert_sentinel_into(&self, table: &str) -> String {
        let null = |column| (column, "NULL");
        let nulls = ["model_id", "model_type", "event_type", "payload"].map(null);
        self.insert_into(table, &nulls)
    }
}

fn insert(table: &str, columns: Vec<(&str, String)>) -> String {
    let (names, values): (Vec<&str>, Vec<String>) = columns.into_iter().unzip();
    format!(
        "INSERT INTO {table} ({}) VALUES ({});",
        names.join(", "),
        values.join(", ")
    )
}

/// A run whose last words are told if the test fails while it is there.
pub struct Running(Run);

impl Running {
    pub fn of(run: Run) -> Self {
        Self(run)
    }

    pub async fn wait_until_it_carries(&mut self) {
        let carries = self.0.wait_for_log("carrying events", LIMIT).await;
        assert!(carries, "it never came to carry events");
    }

    /// The exit code; the writers of the test go on meanwhile.
    pub async fn ended_within(&mut self, limit: Duration) -> i32 {
        let end = Instant::now() + limit;
        while self.0.is_running() {
            assert!(Instant::now() < end, "it still runs after {limit:?}");
            sleep(Duration::from_millis(10)).await;
        }
        self.0.wait(Duration::ZERO).unwrap()
    }

    /// SIGTERM, and the end as it should be.
    pub async fn ask_to_stop(&mut self) {
        self.0.term();
        assert_eq!(self.ended_within(STOP_LIMIT).await, 0, "{}", self.tail());
    }

    /// The end of the log, without the colours of a terminal.
    pub fn tail(&self) -> String {
        const SHOWN: usize = 40;
        let log = self.0.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }
}

impl Deref for Running {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Run {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run's last words:\n{}", self.tail());
        }
    }
}
