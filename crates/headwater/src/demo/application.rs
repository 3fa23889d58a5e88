//! A small wallet application that writes to its outbox as Ekbatan does: several events in one transaction, sentinels,
//! transactions that are rolled back, and `delivered` set later on the same rows.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, params};

use crate::clock;

const NAMESPACE: &str = "demo.wallet";

/// What the application did.
#[derive(Debug, Default)]
pub struct Written {
    /// When each event's transaction was committed.
    pub events: HashMap<String, Instant>,
    pub transactions: u64,
    pub sentinels: u64,
    pub rolled_back: u64,
    pub marked_delivered: u64,
}

pub struct Application {
    database: Connection,
    pause: Duration,
    written: Written,
    actions: u64,
}

impl Application {
    /// Makes the file with its outbox table.
    pub fn create(path: &Path, rate: f64) -> rusqlite::Result<Application> {
        let database = Connection::open(path)?;
        database.busy_timeout(Duration::from_secs(10))?;
        database.pragma_update(None, "journal_mode", "wal")?;
        database.execute_batch(include_str!("../../../../schemas/outbox/sqlite.sql"))?;
        Ok(Application {
            database,
            pause: Duration::from_secs_f64(1.0 / rate),
            written: Written::default(),
            actions: 0,
        })
    }

    /// Works until it has committed `events` events, or is told to stop.
    pub fn work(mut self, events: usize, stop: &AtomicBool) -> rusqlite::Result<Written> {
        while self.written.events.len() < events && !stop.load(Ordering::Relaxed) {
            let left = events - self.written.events.len();
            let committed = self.act(left)?;
            let rests = u32::try_from(committed.max(1)).unwrap_or(1);
            std::thread::sleep(self.pause * rests);
        }
        Ok(self.written)
    }

    /// One action: most open a wallet and move money, some do nothing worth telling, some fail halfway.
    fn act(&mut self, left: usize) -> rusqlite::Result<usize> {
        self.actions += 1;
        let action = Action::new(self.actions);
        let transaction = self.database.transaction()?;
        let kinds: &[&str] = match self.actions % 5 {
            0 => &[],
            1 => &[
                "WalletOpenedEvent",
                "WalletMoneyDepositedEvent",
                "WalletLimitSetEvent",
            ],
            _ => &["WalletMoneyDepositedEvent"],
        };
        let mut ids = Vec::new();
        for kind in kinds.iter().take(left) {
            ids.push(action.event(&transaction, kind)?);
        }
        if kinds.is_empty() {
            action.sentinel(&transaction)?;
        }
        if self.actions % 7 == 4 {
            self.written.rolled_back += ids.len() as u64;
            transaction.rollback()?;
            return Ok(0);
        }
        transaction.commit()?;
        let now = Instant::now();
        self.written.transactions += 1;
        self.written.sentinels += u64::from(kinds.is_empty());
        self.written.marked_delivered += self.fan_out()?;
        let committed = ids.len();
        self.written
            .events
            .extend(ids.into_iter().map(|id| (id, now)));
        Ok(committed)
    }

    /// What Ekbatan's in-process handlers do to the rows that they have seen.
    fn fan_out(&mut self) -> rusqlite::Result<u64> {
        if !self.actions.is_multiple_of(3) {
            return Ok(0);
        }
        let sql = "UPDATE events SET delivered = 1 WHERE delivered = 0 AND event_type IS NOT NULL";
        Ok(self.database.execute(sql, [])? as u64)
    }
}

/// The ids of all events that the table holds: what must have been published.
pub fn events_in(path: &Path) -> rusqlite::Result<Vec<String>> {
    let database = Connection::open(path)?;
    let mut ids = database.prepare("SELECT id FROM events WHERE event_type IS NOT NULL")?;
    let ids = ids.query_map([], |row| row.get(0))?;
    ids.collect()
}

struct Action {
    id: String,
    number: u64,
    wallet: String,
    at: String,
}

impl Action {
    fn new(number: u64) -> Action {
        Action {
            id: uuid::Uuid::new_v4().to_string(),
            number,
            wallet: format!("w-{}", number / 5 % 4 + 1),
            at: clock::now().to_string().replace('T', " ").replace('Z', ""),
        }
    }

    fn event(&self, transaction: &Transaction<'_>, kind: &str) -> rusqlite::Result<String> {
        let payload = serde_json::json!({
            "modelId": self.wallet,
            "modelName": "Wallet",
            "amount": self.number * 5,
            "currency": "EUR",
        });
        self.insert(transaction, Some((kind, payload.to_string())))
    }

    fn sentinel(&self, transaction: &Transaction<'_>) -> rusqlite::Result<String> {
        self.insert(transaction, None)
    }

    fn insert(
        &self,
        transaction: &Transaction<'_>,
        event: Option<(&str, String)>,
    ) -> rusqlite::Result<String> {
        let id = uuid::Uuid::new_v4().to_string();
        let model = event.as_ref().map(|_| (self.wallet.as_str(), "Wallet"));
        let (kind, payload) = event.unzip();
        transaction.execute(
            "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
             model_id, model_type, event_type, payload, event_date, delivered) \
             VALUES (?, ?, ?, 'WalletAction', ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            params![
                id,
                NAMESPACE,
                self.id,
                serde_json::json!({ "number": self.number }).to_string(),
                self.at,
                self.at,
                model.map(|(wallet, _)| wallet),
                model.map(|(_, kind)| kind),
                kind,
                payload,
                self.at,
            ],
        )?;
        Ok(id)
    }
}
