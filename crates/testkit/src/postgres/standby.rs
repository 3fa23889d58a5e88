//! A second PostgreSQL that follows a first one by physical replication, and can take its place.

use std::os::unix::fs::chown;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Postgres, append, programs};
use crate::keeper::{LogFolder, folder};
use crate::place;
use crate::port::free_port;

/// What a primary calls its successor: the session that feeds it, and the slot that keeps log for it.
const STANDBY: &str = "standby";

/// How long a standby may need before a test has gone wrong.
const BEHIND_LIMIT: Duration = Duration::from_mins(1);

impl Postgres {
    /// A second server that follows this one and answers questions, but is no primary.
    #[must_use]
    pub fn standby(&self) -> Postgres {
        let from = format!("host=127.0.0.1 port={} user=postgres", self.port);
        self.follower(&["-d", &from], "")
    }

    /// A standby that is meant to take this server's place: it has a slot of its own here, and is fed through `port`, which is this
    /// server's or a [`crate::Proxy`]'s. With `keeps_slots` (17 and later) it copies the failover slots.
    #[must_use]
    pub fn successor(&self, port: u16, keeps_slots: bool) -> Postgres {
        // The database is for the worker that copies slots: it asks by SQL.
        let from = format!(
            "host=127.0.0.1 port={port} user=postgres dbname=postgres application_name={STANDBY}"
        );
        let settings = if keeps_slots {
            "hot_standby_feedback=on\nsync_replication_slots=on\n"
        } else {
            ""
        };
        self.follower(&["-d", &from, "-C", "-S", STANDBY], settings)
    }

    fn follower(&self, from: &[&str], settings: &str) -> Postgres {
        let follower = Postgres {
            version: self.version,
            port: free_port(),
            bin: programs(self.version),
            folder: folder("pg"),
            log: LogFolder::of_this_test(&format!("standby{}", self.version)),
            process: Mutex::new(None),
        };
        if let Some((user, group)) = place::database_user() {
            chown(&follower.folder, Some(user), Some(group)).unwrap();
        }
        let output = follower
            .tool("pg_basebackup")
            .args(["-R", "--no-sync", "-c", "fast"])
            .args(from)
            .arg("-D")
            .arg(follower.data())
            .output()
            .unwrap();
        assert!(output.status.success(), "pg_basebackup: {output:?}");
        let conf = format!(
            "port={}\nunix_socket_directories='{}'\n{settings}",
            follower.port,
            follower.folder.display()
        );
        append(&follower.data().join("postgresql.conf"), &conf);
        follower.start_again();
        follower
    }

    /// From now on a COMMIT is answered when the successor has it on its disk. The name, and not `*`: with that, any session that
    /// reads the log would do, Headwater's too.
    pub async fn commit_with_the_standby(&self) {
        self.set("synchronous_standby_names", STANDBY).await;
    }

    /// From now on failover slots are sent only what the successor has on its disk.
    pub async fn send_behind_the_standby(&self) {
        self.set("synchronized_standby_slots", STANDBY).await;
    }

    /// Changes a setting of the running server. A standby that was made before does not have it.
    pub async fn set(&self, name: &str, value: &str) {
        let client = self.connect("postgres").await;
        let set = format!("ALTER SYSTEM SET {name} = '{value}'");
        client.batch_execute(&set).await.unwrap();
        self.reload();
        let shown =
            format!("SELECT FROM pg_settings WHERE name = '{name}' AND setting = '{value}'");
        self.until(&shown).await;
    }

    /// Waits until this standby has a copy of the slot that outlives a promotion.
    pub async fn keeps_slot(&self, slot: &str, primary: &Postgres) {
        let client = primary.connect("postgres").await;
        let end = Instant::now() + BEHIND_LIMIT;
        let kept = format!(
            "SELECT FROM pg_replication_slots WHERE slot_name = '{slot}' AND synced AND NOT temporary"
        );
        while !self.says(&kept).await {
            assert!(
                Instant::now() < end,
                "slot {slot} is not copied:\n{}",
                self.log()
            );
            // A copy counts once the slot itself has moved on to a place where the server noted which transactions run;
            // by itself it does so every 15 seconds.
            let note = "SELECT pg_log_standby_snapshot()";
            client.batch_execute(note).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until a question has a row for an answer.
    pub async fn until(&self, sql: &str) {
        let end = Instant::now() + BEHIND_LIMIT;
        while !self.says(sql).await {
            assert!(Instant::now() < end, "never: {sql}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether a question has a row for an answer.
    async fn says(&self, sql: &str) -> bool {
        let client = self.connect("postgres").await;
        !client.query(sql, &[]).await.unwrap().is_empty()
    }

    /// It follows nobody any more, and takes writers.
    pub fn promote(&self) {
        let output = self
            .tool("pg_ctl")
            .args(["promote", "-w", "-t", "60", "-D"])
            .arg(self.data())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "pg_ctl promote: {output:?}\n{}",
            self.log()
        );
    }
}
