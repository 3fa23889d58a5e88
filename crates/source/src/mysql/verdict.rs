//! What the server's error codes ask for: one table from a code to another try, or a person and what to do.

use std::io;

use super::packet::Reader;
use super::{Flavor, Settings, rights};
use crate::tls::{self, Words};
use crate::{Error, wire};

/// What the server said instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: u16,
    pub text: String,
}

impl Refusal {
    /// An error packet. Before the login it has no SQL state.
    pub(super) fn read(packet: &[u8]) -> Refusal {
        let mut reader = Reader(packet);
        let code = reader.bytes(1).and_then(|_| reader.number(2));
        if reader.0.first() == Some(&b'#') {
            reader.bytes(6);
        }
        Refusal {
            code: code.and_then(|code| code.try_into().ok()).unwrap_or(0),
            text: String::from_utf8_lossy(reader.0).into_owned(),
        }
    }
}

/// A statement's or a login's.
pub(super) fn of(refusal: &Refusal, settings: &Settings) -> Error {
    match advice(refusal.code, settings) {
        Some(advice) => Error::fatal(refusal.text.clone(), advice),
        None => Error::transient(format!("{} (error {})", refusal.text, refusal.code)),
    }
}

/// The connection's own: it may tell after the handshake that it is refused.
pub(super) fn of_io(error: &io::Error, settings: &Settings) -> Error {
    if let (Some(cause), Some(server)) = (wire::tls_error(error), settings.servers.first()) {
        return tls::verdict(cause, server, tls_words(settings.flavor));
    }
    let place = settings.place();
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Error::transient(format!("{place} ended the connection"));
    }
    Error::transient(format!("the connection to {place} broke: {error}"))
}

pub(super) fn of_plugin(plugin: &str, settings: &Settings) -> Error {
    let user = &settings.user;
    if plugin == "mysql_clear_password" {
        return Error::fatal(
            format!(
                "the server asks for the password of user {user} in clear text, and the connection is not encrypted"
            ),
            "encrypt it with source.tls.mode",
        );
    }
    let ways = match settings.flavor {
        Flavor::MySql => "caching_sha2_password",
        Flavor::MariaDb => "ed25519 or mysql_native_password",
    };
    Error::fatal(
        format!("the server wants user {user} to prove itself by {plugin}, which Headwater cannot"),
        format!("give the user another way: ALTER USER '{user}'@'%' IDENTIFIED WITH {ways} ...;"),
    )
}

pub(super) fn tls_words(flavor: Flavor) -> Words {
    Words {
        reload: match flavor {
            Flavor::MySql => "ALTER INSTANCE RELOAD TLS;",
            Flavor::MariaDb => "FLUSH SSL;",
        },
        authorities: "ssl_ca",
        versions: "tls_version, ssl_cipher",
    }
}

pub(super) const PASSWORD: &str = "give the right one in source.password_file, source.password_command or \
     HEADWATER__SOURCE__PASSWORD";

/// `None`: trying again may help.
fn advice(code: u16, settings: &Settings) -> Option<String> {
    let Settings {
        user,
        schema,
        table,
        flavor,
        ..
    } = settings;
    let grants = || rights::of_a_user(settings).join(" ");
    Some(match code {
        // Access denied, by the password or by the host.
        1045 | 1698 => format!(
            "user {user} must exist, be let in from this machine, and have this password: {PASSWORD}; the user's rights: {}{}",
            grants(),
            if settings.tls.config().is_none() {
                " (an account that says REQUIRE SSL wants source.tls.mode)"
            } else {
                ""
            }
        ),
        1130 => format!("let user {user} in from this machine: {}", rights::user(settings)),
        1129 => match flavor {
            Flavor::MySql => "the server blocks this machine after too many broken connections: TRUNCATE TABLE \
                              performance_schema.host_cache;"
                .to_owned(),
            Flavor::MariaDb => {
                "the server blocks this machine after too many broken connections: FLUSH HOSTS;".to_owned()
            }
        },
        1820 | 1862 => format!(
            "the password of user {user} has expired: ALTER USER '{user}'@'%' PASSWORD EXPIRE NEVER; or set a new one"
        ),
        3118 | 4151 => format!("the account is locked: ALTER USER '{user}'@'%' ACCOUNT UNLOCK;"),
        3159 => "the server wants TLS: set source.tls.mode to \"verify-full\", \"verify-ca\" or \"require\"".to_owned(),
        1524 | 1251 => format!(
            "the server cannot log user {user} in the way that the account says: ALTER USER '{user}'@'%' IDENTIFIED WITH \
             caching_sha2_password BY '...';"
        ),
        // A database, a table, a column, a privilege, a routine.
        1044 | 1142 | 1143 | 1227 | 1370 => format!("give user {user} what it needs: {}", grants()),
        1049 => format!("database {schema} is not on this server: name the right table in source.table (database.table), or the right server in source.url"),
        1146 => format!("table {schema}.{table} is not on this server: create it, or name the right one in source.table"),
        1381 => LOG_BIN.to_owned(),
        _ => return None,
    })
}

pub(super) const LOG_BIN: &str = "the binary log is off: set log_bin = binlog and a server_id in my.cnf, then restart the server";

/// How to go on after events were lost from the log.
pub(super) const LOST: &str = "what was committed between the remembered position and what the server still has is not in its \
     log: `headwater recover` publishes from the table what is missing, and `headwater adopt` goes on from the server's present \
     position without that";

/// What made the server end a replication: error 1236 comes with one of many texts.
enum Ended {
    Clash,
    Lost,
    Advice(&'static str),
}

/// Only a reading by GTIDs hears of it.
const BY_GTIDS: &str = "AUTO_POSITION";
const MODE: &str = "gtid_mode was changed before everything had been read, and the server sends only what its new mode allows: SET \
     GLOBAL gtid_mode = ON_PERMISSIVE; let Headwater catch up, then change it";

/// Whether another reading may succeed: `gtid_mode` was lowered under one by GTIDs, and the next one goes by files and offsets.
pub(super) fn is_of_the_mode(refusal: &Refusal) -> bool {
    refusal.code == 1236 && refusal.text.contains(BY_GTIDS)
}

const TEXTS: &[(&str, Ended)] = &[
    ("same server_uuid/server_id", Ended::Clash),
    ("purged", Ended::Lost),
    ("Could not find first log file", Ended::Lost),
    ("Could not find GTID state", Ended::Lost),
    ("which is not in the master's binlog", Ended::Lost),
    ("is missing the GTID", Ended::Lost),
    ("Could not open log file", Ended::Lost),
    ("impossible position", Ended::Lost),
    ("position > file size", Ended::Lost),
    ("more GTIDs than the", Ended::Lost),
    ("Binary log is not open", Ended::Advice(LOG_BIN)),
    (
        "max_allowed_packet",
        Ended::Advice(
            "an event is larger than the server sends: SET GLOBAL max_allowed_packet = 1073741824; and SET GLOBAL \
             slave_max_allowed_packet = 1073741824; if they are that large already, no event begins there, as after a RESET where \
             positions are files and offsets: `headwater recover --from TIME` publishes from the table what is missing, `headwater \
             adopt` goes on without that",
        ),
    ),
    (BY_GTIDS, Ended::Advice(MODE)),
    ("GTID_MODE", Ended::Advice(MODE)),
    (
        "server_id was not set",
        Ended::Advice("SET GLOBAL server_id = 1; (and in my.cnf), a number of the server's own"),
    ),
];

/// What the server said where an event was to come. Whether it is a clash, too: then whose is still to be found out.
pub(super) fn of_stream(refusal: &Refusal, settings: &Settings, place: &str) -> (Error, bool) {
    // MariaDB has a number of its own for it.
    if refusal.code == 4052 {
        return (clash(settings), true);
    }
    if refusal.code != 1236 {
        return (of(refusal, settings), false);
    }
    let what = format!(
        "the server ended the replication at {place}: {}",
        refusal.text
    );
    let known = TEXTS.iter().find(|(text, _)| refusal.text.contains(text));
    match known.map(|(_, ended)| ended) {
        Some(Ended::Clash) => (clash(settings), true),
        Some(Ended::Lost) => (Error::lost(what, LOST), false),
        Some(Ended::Advice(advice)) => (Error::fatal(what, *advice), false),
        // The log itself cannot be read any further: nobody jumps over that.
        None => (
            Error::lost(
                what,
                "the server cannot read its own log there, and nothing past it was published: mysqlbinlog on that file shows \
                 more; if the log is damaged, `headwater recover --from TIME` publishes from the table what is missing, and \
                 `headwater adopt` goes on without that",
            ),
            false,
        ),
    }
}

pub(super) fn clash(settings: &Settings) -> Error {
    let id = settings.server_id;
    Error::fatal(
        format!(
            "another replica came to the server with our server_id {id}, and the server ended our replication"
        ),
        "give this pipeline a number of its own in source.server_id; SHOW REPLICAS; (MariaDB: SHOW SLAVE HOSTS;) shows those \
         that are taken",
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    fn refusal(code: u16, text: &str) -> Refusal {
        Refusal {
            code,
            text: text.into(),
        }
    }

    #[test]
    fn a_refusal_is_read_before_and_after_the_login() {
        let after = b"\xFF\x15\x04#28000Access denied";
        assert_eq!(Refusal::read(after), refusal(1045, "Access denied"));
        let before = b"\xFF\x10\x04Too many connections";
        assert_eq!(Refusal::read(before), refusal(1040, "Too many connections"));
        for some in 0..after.len() {
            let _cut = Refusal::read(&after[..some]);
        }
    }

    #[test]
    fn a_person_is_asked_for_what_only_a_person_can_mend() {
        for (code, says) in [
            (1045, "HEADWATER__SOURCE__PASSWORD"),
            (1130, "CREATE USER"),
            (1129, "host_cache"),
            (1820, "has expired"),
            (3118, "ACCOUNT UNLOCK"),
            (3159, "source.tls.mode"),
            (1142, "GRANT SELECT ON `eventlog`.`events`"),
            (1227, "GRANT REPLICATION SLAVE"),
            (1049, "database eventlog"),
            (1146, "eventlog.events"),
            (1381, "log_bin"),
        ] {
            let error = of(&refusal(code, "said"), &settings());
            let (Error::Fatal { what, advice } | Error::Lost { what, advice }) = error else {
                panic!("{code} is not fatal");
            };
            assert_eq!(what, "said");
            assert!(advice.contains(says), "{code}: {advice}");
        }
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        // Too many connections, shutdown, network, lock, interrupted, deadlock, read-only.
        for code in [1040, 1203, 1053, 1159, 1205, 1317, 1213, 1290, 4031] {
            let error = of(&refusal(code, "said"), &settings());
            assert!(matches!(error, Error::Transient(_)), "{code}");
        }
    }

    #[test]
    fn the_end_of_a_replication_is_judged_by_its_text() {
        for (text, says) in [
            (
                "A replica with the same server_uuid/server_id as this replica has connected to the source; the first event \
                 'binlog.000001' at 4",
                "source.server_id",
            ),
            (
                "A slave with the same server_uuid/server_id as this slave has connected to the master",
                "source.server_id",
            ),
            (
                "Cannot replicate because the source purged required binary logs.",
                "headwater adopt",
            ),
            (
                "Could not find first log file name in binary log index file",
                "headwater adopt",
            ),
            (
                "Error: connecting slave requested to start from GTID 0-1-5, which is not in the master's binlog",
                "headwater adopt",
            ),
            (
                "Client requested source to start replication from position > file size",
                "headwater adopt",
            ),
            ("Binary log is not open", "log_bin"),
            (
                "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source",
                "SET GLOBAL max_allowed_packet",
            ),
            (
                "Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file binlog.000003, position 197.",
                "gtid_mode = ON_PERMISSIVE",
            ),
            (
                "Cannot replicate GTID-transaction when @@GLOBAL.GTID_MODE = OFF, at file binlog.000003, position 197.",
                "gtid_mode = ON_PERMISSIVE",
            ),
            ("bogus data in log event", "mysqlbinlog"),
        ] {
            let (error, _) = of_stream(&refusal(1236, text), &settings(), "binlog.000001:4");
            let (Error::Fatal { advice, .. } | Error::Lost { advice, .. }) = error else {
                panic!("{text} is not fatal");
            };
            assert!(advice.contains(says), "{text}: {advice}");
        }
        for (text, ended) in TEXTS {
            let (error, _) = of_stream(&refusal(1236, text), &settings(), "");
            let lost = matches!(ended, Ended::Lost);
            assert_eq!(matches!(error, Error::Lost { .. }), lost, "{text}");
            // What is no lost log to `headwater recover` is not sent there without a date.
            assert!(lost || !error.to_string().contains("headwater recover`"));
        }
        let (error, clash) = of_stream(&refusal(4052, "already connected"), &settings(), "");
        assert!(matches!(error, Error::Fatal { .. }) && clash);
        let (error, _) = of_stream(
            &refusal(1053, "Server shutdown in progress"),
            &settings(),
            "",
        );
        assert!(matches!(error, Error::Transient(_)));
    }
}
