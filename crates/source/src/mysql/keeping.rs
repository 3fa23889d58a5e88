//! How long the server keeps its log, and whether that may be too short. Pure.

use super::Flavor;
use super::facts::{Log, Server};
use super::position::Position;

const DAY: f64 = 86_400.0;
/// What is advised: a month.
const LONG: f64 = 30.0 * DAY;

/// Seconds; `None` for ever.
pub(super) fn time(server: &Server) -> Option<f64> {
    if server.is("binlog_expire_logs_auto_purge", "OFF") {
        return None;
    }
    let seconds = server
        .amount("binlog_expire_logs_seconds")
        .filter(|it| *it > 0.0);
    let days = server.amount("expire_logs_days").filter(|it| *it > 0.0);
    seconds.or(days.map(|days| days * DAY))
}

/// For a sentence.
pub(super) fn told(seconds: f64) -> String {
    if seconds >= 2.0 * DAY {
        format!("{:.0} days", seconds / DAY)
    } else if seconds >= 7200.0 {
        format!("{:.0} hours", seconds / 3600.0)
    } else {
        format!("{seconds:.0} s")
    }
}

/// The statement that lets the server keep its log for at least a month, and twice as long as it does.
pub(super) fn longer(server: &Server) -> String {
    let now = time(server).unwrap_or_default();
    // MariaDB has had it in seconds since 10.6.
    let in_days =
        server.flavor == Flavor::MariaDb && server.setting("binlog_expire_logs_seconds").is_none();
    let seconds = (2.0 * now).max(LONG);
    if in_days {
        let days = seconds / DAY;
        return format!("SET GLOBAL expire_logs_days = {days:.0}; (and in my.cnf)");
    }
    format!("SET GLOBAL binlog_expire_logs_seconds = {seconds:.0}; (and in my.cnf)")
}

/// What is to be said of a position that is so many seconds old and nobody reads from yet, and what mends it.
///
/// A server removes whole files, and never the one that it writes; how long ago the last of a file was written it does not tell, but that was
/// no longer ago than the position.
pub(super) fn danger(
    position: &Position,
    age: f64,
    server: &Server,
    log: &Log,
) -> Option<(String, String)> {
    let keep = time(server)?;
    let newest = log.files.as_ref().and_then(|files| files.last());
    let is_written = newest.is_some_and(|newest| newest.name == *position.file);
    if is_written || age <= keep / 2.0 {
        return None;
    }
    Some((
        format!(
            "the log is to be read from {}, which was written {} ago, and the server keeps it for {}: what it removes before it was read is \
             lost",
            position.file,
            told(age),
            told(keep)
        ),
        longer(server),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::facts::File;
    use super::super::gtid::Gtids;
    use super::*;

    fn log(files: &[&str]) -> Log {
        let file = |name: &&str| File {
            name: (*name).to_owned(),
            size: 100,
        };
        Log {
            files: Some(files.iter().map(file).collect()),
            ..Log::default()
        }
    }

    #[test]
    fn half_of_the_time_is_reason_enough_unless_the_file_is_still_written() {
        let mut server = Server::sound(Flavor::MySql);
        server.set("binlog_expire_logs_seconds", "100");
        let position = Position::new(Gtids::None, "binlog.000002", 4);
        let two = log(&["binlog.000001", "binlog.000002"]);
        let three = log(&["binlog.000002", "binlog.000003"]);
        let found = |age, log| danger(&position, age, &server, log).map(|(_, mend)| mend);
        assert_eq!(found(90.0, &two), None);
        assert_eq!(found(49.0, &three), None);
        let mend = "SET GLOBAL binlog_expire_logs_seconds = 2592000; (and in my.cnf)";
        assert_eq!(found(51.0, &three).as_deref(), Some(mend));
    }

    #[test]
    fn a_log_that_is_kept_for_ever_is_in_no_danger() {
        let mut server = Server::sound(Flavor::MySql);
        server.set("binlog_expire_logs_auto_purge", "OFF");
        let position = Position::new(Gtids::None, "binlog.000002", 4);
        let log = log(&["binlog.000003"]);
        assert_eq!(danger(&position, 1e9, &server, &log), None);
    }

    #[test]
    fn a_server_that_counts_in_days_is_told_days() {
        let mut server = Server::sound(Flavor::MariaDb);
        server.unset("binlog_expire_logs_seconds");
        server.set("expire_logs_days", "20.0");
        assert_eq!(time(&server), Some(20.0 * DAY));
        assert_eq!(
            longer(&server),
            "SET GLOBAL expire_logs_days = 40; (and in my.cnf)"
        );
    }
}
