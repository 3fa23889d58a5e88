//! One writer: a connection, its own keys, one transaction after another, and the truth about each COMMIT.
//!
//! Walk of an interrupted COMMIT: the connection is lost while the server commits. We connect again, wait until the old
//! backend is gone (else it could still commit, even after our next transaction), and then look whether the rows are there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;
use uuid::Builder;

use super::client::{Connection, Trouble};
use super::row::Row;
use super::{Load, Written};

/// How long a server may be away before a test has gone wrong.
const AWAY_LIMIT: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Writer {
    load: Load,
    number: u32,
    url: String,
    stop: Arc<AtomicBool>,
    events: Arc<AtomicU64>,
    random: StdRng,
    /// The last `seq` of each key.
    seqs: Vec<i64>,
    written: Written,
}

/// What one transaction is going to do.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Insert,
    /// By COPY on PostgreSQL, a statement for each row elsewhere.
    Otherwise,
    /// Some rows behind a savepoint, which is rolled back.
    Savepoint,
    Rollback,
}

enum Outcome {
    Committed,
    RolledBack,
    Unknown,
}

/// The rows of one transaction by what becomes of them when it commits.
struct Plan {
    kept: Vec<Row>,
    undone: Vec<Row>,
}

impl Writer {
    pub(super) fn new(
        load: &Load,
        number: u32,
        url: &str,
        stop: &Arc<AtomicBool>,
        events: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            random: StdRng::seed_from_u64(load.seed.wrapping_add(u64::from(number))),
            seqs: vec![0; load.keys_per_writer as usize],
            load: load.clone(),
            number,
            url: url.to_owned(),
            stop: Arc::clone(stop),
            events: Arc::clone(events),
            written: Written::default(),
        }
    }

    pub(super) async fn work(mut self) -> Written {
        let mut connection = self.connect().await;
        let pause = self
            .load
            .rate
            .map(|rate| Duration::from_secs(u64::from(self.load.writers)) / rate);
        let begun = Instant::now();
        let mut done = 0;
        while self
            .load
            .transactions
            .is_none_or(|all| u64::from(done) < all)
            && !self.stop.load(Ordering::Relaxed)
        {
            connection = self.one_transaction(connection).await;
            done += 1;
            if let Some(pause) = pause {
                sleep((pause * done).saturating_sub(begun.elapsed())).await;
            }
        }
        self.written
    }

    async fn one_transaction(&mut self, mut connection: Connection) -> Connection {
        let kind = self.choose();
        let plan = self.plan(kind);
        let tried = attempt(&mut connection, &self.load.namespace, kind, &plan).await;
        let committed = match tried {
            Outcome::Committed => true,
            Outcome::RolledBack => false,
            Outcome::Unknown => {
                let (new, found) = self.look_up(connection.name(), &plan).await;
                connection = new;
                found
            }
        };
        if connection.is_closed() {
            connection = self.connect().await;
        }
        if committed && self.load.mixed && self.random.random_bool(0.2) {
            // What a delivering application would do later; it fails only with its connection, and then does not matter.
            let _ = connection.mark_delivered(&plan.kept).await;
        }
        self.remember(plan, committed);
        connection
    }

    fn choose(&mut self) -> Kind {
        if !self.load.mixed {
            return Kind::Insert;
        }
        match self.random.random_range(0..10) {
            0 => Kind::Rollback,
            1 => Kind::Savepoint,
            2 => Kind::Otherwise,
            _ => Kind::Insert,
        }
    }

    fn plan(&mut self, kind: Kind) -> Plan {
        let mut plan = Plan {
            kept: self.rows(),
            undone: Vec::new(),
        };
        match kind {
            Kind::Savepoint => plan.undone = self.rows(),
            Kind::Rollback => std::mem::swap(&mut plan.kept, &mut plan.undone),
            Kind::Insert | Kind::Otherwise => {}
        }
        plan
    }

    fn rows(&mut self) -> Vec<Row> {
        let count = self.random.random_range(1..=self.load.rows);
        (0..count).map(|_| self.row()).collect()
    }

    fn row(&mut self) -> Row {
        // Version 4: MariaDB takes UUIDs of unknown variants for mistakes.
        let id = Builder::from_random_bytes(self.random.random()).into_uuid();
        if self.load.mixed && self.random.random_bool(0.1) {
            return Row::sentinel(id);
        }
        let key = self.random.random_range(0..self.seqs.len());
        self.seqs[key] += 1;
        let name = format!("w{}-k{key}", self.number);
        Row::event(id, &name, self.seqs[key], self.load.padding)
    }

    fn remember(&mut self, plan: Plan, committed: bool) {
        let (kept, mut undone) = (plan.kept, plan.undone);
        if committed {
            for row in kept {
                match row.committed() {
                    Some(event) => {
                        self.written.committed.push(event);
                        self.events.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {
                        self.written.sentinels.insert(row.id);
                    }
                }
            }
        } else {
            undone.extend(kept);
        }
        self.written.rolled_back.extend(undone.iter().map(|r| r.id));
    }

    /// The answer counts only if the connection lived long enough to give it.
    async fn look_up(&self, lost: &str, plan: &Plan) -> (Connection, bool) {
        loop {
            let mut connection = self.connect().await;
            if let Ok(found) = was_committed(&mut connection, lost, plan).await {
                return (connection, found);
            }
        }
    }

    /// Waits for a server that is away.
    async fn connect(&self) -> Connection {
        let end = Instant::now() + AWAY_LIMIT;
        loop {
            match Connection::open(&self.url).await {
                Ok(connection) => return connection,
                Err(error) => assert!(Instant::now() < end, "the server stays away: {error}"),
            }
            sleep(PAUSE).await;
        }
    }
}

/// Errors before COMMIT leave no doubt: a transaction whose connection ended was rolled back.
async fn attempt(connection: &mut Connection, namespace: &str, kind: Kind, plan: &Plan) -> Outcome {
    if let Err(error) = write(connection, namespace, kind, plan).await {
        assert!(
            !error.is_mistake,
            "a writer's statement is wrong: {error:?}"
        );
        let _ = connection.say("ROLLBACK").await;
        return Outcome::RolledBack;
    }
    if kind == Kind::Rollback {
        let _ = connection.say("ROLLBACK").await;
        return Outcome::RolledBack;
    }
    match connection.say("COMMIT").await {
        Ok(()) => Outcome::Committed,
        Err(_) => Outcome::Unknown,
    }
}

/// All of a transaction but its end.
async fn write(
    connection: &mut Connection,
    namespace: &str,
    kind: Kind,
    plan: &Plan,
) -> Result<(), Trouble> {
    connection.say("BEGIN").await?;
    match kind {
        Kind::Otherwise => connection.insert_otherwise(namespace, &plan.kept).await,
        Kind::Insert => connection.insert(namespace, &plan.kept).await,
        Kind::Rollback => connection.insert(namespace, &plan.undone).await,
        Kind::Savepoint => {
            let (before, after) = plan.kept.split_at(plan.kept.len() / 2);
            connection.insert(namespace, before).await?;
            connection.say("SAVEPOINT inner_part").await?;
            connection.insert(namespace, &plan.undone).await?;
            connection.say("ROLLBACK TO SAVEPOINT inner_part").await?;
            connection.insert(namespace, after).await
        }
    }
}

async fn was_committed(
    connection: &mut Connection,
    lost: &str,
    plan: &Plan,
) -> Result<bool, Trouble> {
    let end = Instant::now() + AWAY_LIMIT;
    while connection.is_alive(lost).await? {
        assert!(Instant::now() < end, "a lost connection's session stays");
        sleep(PAUSE).await;
    }
    connection.has_any_of(&plan.kept).await
}
