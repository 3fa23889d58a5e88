//! A second server that follows a first one, and can take its place.

use std::time::{Duration, Instant};

use super::{Mysql, OWNER};
use crate::postgres::block_on;

/// How long a replica may be behind before a test has gone wrong.
const BEHIND_LIMIT: Duration = Duration::from_mins(1);

impl Mysql {
    /// A replica of this server, by GTIDs; it may not be written to until [`Self::promote`].
    #[must_use]
    pub fn replica(&self, settings: &[(&str, &str)]) -> Mysql {
        let replica = Mysql::start(self.server, settings);
        let port = self.port;
        let follow = if self.server.is_mariadb() {
            format!(
                "SET GLOBAL read_only = ON;
                 CHANGE MASTER TO master_host = '127.0.0.1', master_port = {port}, master_user = '{OWNER}',
                    master_use_gtid = slave_pos, master_connect_retry = 1;
                 START SLAVE"
            )
        } else {
            format!(
                "SET GLOBAL super_read_only = ON;
                 CHANGE REPLICATION SOURCE TO source_host = '127.0.0.1', source_port = {port}, source_user = '{OWNER}',
                    source_auto_position = 1, get_source_public_key = 1, source_connect_retry = 1;
                 START REPLICA"
            )
        };
        block_on(replica.execute(&follow));
        replica
    }

    /// Waits until this replica has all that `primary` has committed by now.
    pub async fn has_all_of(&self, primary: &Mysql) {
        let (mark, wait) = if self.server.is_mariadb() {
            let mark = primary.ask("SELECT @@GLOBAL.gtid_binlog_pos").await;
            (mark, "MASTER_GTID_WAIT")
        } else {
            let mark = primary.ask("SELECT @@GLOBAL.gtid_executed").await;
            (mark, "WAIT_FOR_EXECUTED_GTID_SET")
        };
        let mark = mark.unwrap_or_default().replace('\n', "");
        let end = Instant::now() + BEHIND_LIMIT;
        while Instant::now() < end {
            let sql = format!("SELECT {wait}('{mark}', 1)");
            if self.ask(&sql).await.as_deref() == Some("0") {
                return;
            }
        }
        panic!("the replica stays behind:\n{}", self.log());
    }

    /// From now on it stays behind.
    pub async fn stop_following(&self) {
        let sql = if self.server.is_mariadb() {
            "STOP SLAVE"
        } else {
            "STOP REPLICA"
        };
        self.execute(sql).await;
    }

    /// Follows nobody any more, and may be written to.
    pub async fn promote(&self) {
        let sql = if self.server.is_mariadb() {
            "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF"
        } else {
            "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF"
        };
        self.execute(sql).await;
    }
}
