//! Statements on other tables, where rows are expected.
//!
//! While `binlog_format` is ROW no such statement is in the log, but for sessions that set another format (or are older than the
//! setting). One may reach the outbox by a trigger, a view or a function, and what it writes there is not in the log: it is
//! lost. That cannot be seen here, and stopping at each would stop every server where a tool writes its own tables by
//! statements (`pt-table-checksum` does). So each kind is told, loudly and once.
#![deny(clippy::indexing_slicing)]

use tracing::warn;

use super::Rows;

/// So many are told apart.
const KINDS: usize = 100;

impl Rows {
    pub(super) fn elsewhere(&mut self, what: String) {
        if self.elsewhere.len() >= KINDS || self.elsewhere.contains(&what) {
            return;
        }
        let (file, offset) = self.place();
        warn!(
            statement = what,
            file,
            offset,
            "the binlog has a statement here, not the rows that it changed: if a trigger, a view or a function leads from it to \
             the outbox, the events that it wrote are lost to this pipeline; let no session set binlog_format to anything but \
             ROW, and connect those again that are older than the setting"
        );
        self.elsewhere.insert(what);
    }
}
