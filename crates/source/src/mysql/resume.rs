//! Whether a log may be resumed at a remembered position, and from where it is read then: every reason to refuse.
//!
//! Rule: when in doubt, refuse and say what may be missing. Pure: the facts were asked before.

use super::facts::{Facts, File, Log, Server, TableFacts};
use super::gtid::{GtidList, GtidSet, Gtids};
use super::position::{Identity, Last, Position};
use super::stream::{FIRST, From};
use super::{Flavor, Settings, rights, verdict};
use crate::Error;

const OLDEST_MYSQL: (u32, u32) = (8, 0);
const OLDEST_MARIADB: (u32, u32) = (10, 5);

/// Where reading begins, and what is known of it.
#[derive(Debug)]
pub(super) struct Start {
    pub from: From,
    /// What is handed over comes after this.
    pub position: Position,
    /// The position's last transaction comes first, to be compared with the remembered one: a server that was reset has another
    /// one under the same name.
    pub again: bool,
}

/// Major and minor, as far as they can be told.
pub(super) fn version(version: &str) -> (u32, u32) {
    // MariaDB once told old replicas that it was MySQL 5.5.5.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse().ok());
    (next().unwrap_or(0), next().unwrap_or(0))
}

/// What is needed of the server and its log, whatever the table and the position.
pub(super) fn fit_server(facts: &Facts, settings: &Settings) -> Result<(), Error> {
    let server = &facts.server;
    let oldest = match server.flavor {
        Flavor::MySql => OLDEST_MYSQL,
        Flavor::MariaDb => OLDEST_MARIADB,
    };
    if version(&server.version) < oldest {
        return Err(Error::fatal(
            format!(
                "the server is {} {}, and Headwater needs {}.{} or newer",
                server.flavor, server.version, oldest.0, oldest.1
            ),
            "upgrade the server",
        ));
    }
    if !server.is_on("log_bin") {
        return Err(Error::fatal("log_bin is off", verdict::LOG_BIN));
    }
    if !server.is("binlog_format", "ROW") {
        let format = server.setting("binlog_format").unwrap_or("unknown");
        return Err(Error::fatal(
            format!(
                "binlog_format is {format}, and must be ROW: else an insert is in the log as a statement, not as a row"
            ),
            "SET GLOBAL binlog_format = 'ROW'; (and in my.cnf); sessions that are open keep theirs until they connect again",
        ));
    }
    if server.number == settings.server_id {
        return Err(Error::fatal(
            format!("server_id {} is the server's own", settings.server_id),
            "give this pipeline another number in source.server_id",
        ));
    }
    if server.is_on("encrypt_binlog") {
        return Err(Error::fatal(
            "encrypt_binlog is on",
            "Headwater was not tried with an encrypted log of MariaDB: set encrypt_binlog = OFF in my.cnf and restart the server",
        ));
    }
    if server.is_read_only() && !server.passes_on() {
        return Err(Error::fatal(
            "the server is a replica (read_only) that does not write what it replicates to its own log (log_slave_updates is \
             OFF): no event would ever be read there",
            "name the primary in source.url, or set log_slave_updates = ON in my.cnf and restart the server",
        ));
    }
    files(&facts.log, settings)?;
    is_logged(&facts.log, &settings.schema)
}

/// Whoever may not see them is not told either which databases the log leaves out, or what was purged.
fn files<'f>(log: &'f Log, settings: &Settings) -> Result<&'f [File], Error> {
    log.files.as_deref().ok_or_else(|| {
        Error::fatal(
            format!("user {} may not see the files of the log", settings.user),
            rights::of_a_user(settings).join(" "),
        )
    })
}

/// Where some databases are named, all others are left out, and `binlog_ignore_db` says nothing more.
fn is_logged(log: &Log, schema: &str) -> Result<(), Error> {
    let has_it = |names: &[String]| names.iter().any(|name| name == schema);
    let (setting, names, mend) = if log.only.is_empty() {
        if !has_it(&log.without) {
            return Ok(());
        }
        ("binlog_ignore_db", &log.without, "take it out of")
    } else if has_it(&log.only) {
        return Ok(());
    } else {
        ("binlog_do_db", &log.only, "add it to")
    };
    Err(Error::fatal(
        format!(
            "{setting} is {}: what is written to database {schema} is not in the server's log",
            names.join(",")
        ),
        format!(
            "{mend} {setting} in my.cnf and restart the server; what was written before is not in the log"
        ),
    ))
}

pub(super) fn fit_table<'f>(
    table: Option<&'f TableFacts>,
    settings: &Settings,
) -> Result<&'f TableFacts, Error> {
    let name = settings.qualified();
    let Some(table) = table else {
        return Err(Error::fatal(
            format!(
                "table {name} is not on this server, or user {} has no right to it",
                settings.user
            ),
            format!(
                "create it, name the right one in source.table, or: {}",
                rights::of_a_user(settings).join(" ")
            ),
        ));
    };
    if table.kind != "BASE TABLE" {
        return Err(Error::fatal(
            format!("{name} is no table ({})", table.kind.to_lowercase()),
            "name the table itself, not a view of it, in source.table",
        ));
    }
    // Some servers find a table in whatever letters it is asked for; their logs have one spelling.
    if (&table.schema, &table.name) != (&settings.schema, &settings.table) {
        let (schema, table) = (&table.schema, &table.name);
        return Err(Error::fatal(
            format!("source.table says {name}, and the server's log says {schema}.{table}"),
            format!("spell it as the server does: table = \"{schema}.{table}\""),
        ));
    }
    Ok(table)
}

/// From where to read, if the server can serve the position.
pub(super) fn start(
    then: &Identity,
    position: &Position,
    facts: &Facts,
    settings: &Settings,
) -> Result<Start, Error> {
    let server = &facts.server;
    if then.flavor != server.flavor {
        return Err(Error::lost(
            format!(
                "the remembered position {position} is one of {}, and this is {}",
                then.flavor, server.flavor
            ),
            "check source.url; if the change is meant, `headwater recover` publishes what this table has and the topics do not; \
             `headwater adopt` takes the present position of this server without that",
        ));
    }
    match &position.gtids {
        Gtids::MariaDb(list) => by_list(position, list, facts),
        Gtids::MySql(set) if server.names_transactions() && !set.has_tags() => {
            by_set(position, set, facts)
        }
        gtids => {
            same_server(then, position, server)?;
            if let Gtids::MySql(set) = gtids {
                contained(position, set, facts)?;
            }
            by_place(position, facts, settings)
        }
    }
}

fn by_set(position: &Position, set: &GtidSet, facts: &Facts) -> Result<Start, Error> {
    contained(position, set, facts)?;
    let whole = |set: &GtidSet| facts.log.purged.subtract(set).is_empty();
    let early = match position.early() {
        Some(Gtids::MySql(early)) if whole(&early) => Some(early),
        // It was removed from the log, with nothing after it: there is nothing to compare.
        _ => None,
    };
    Ok(Start {
        again: early.is_some(),
        from: From::After(early.unwrap_or_else(|| set.clone())),
        position: position.clone(),
    })
}

/// The server has everything up to the position, and still has everything after it.
fn contained(position: &Position, set: &GtidSet, facts: &Facts) -> Result<(), Error> {
    let lacking = set.subtract(&facts.log.executed);
    if !lacking.is_empty() {
        return Err(not_contained(position, &lacking.to_string(), &facts.server));
    }
    let lost = facts.log.purged.subtract(set);
    if lost.is_empty() {
        Ok(())
    } else {
        Err(purged(position, &lost.to_string()))
    }
}

fn by_list(position: &Position, read: &GtidList, facts: &Facts) -> Result<Start, Error> {
    let log = &facts.log;
    let beyond = |one: &GtidList, other: &GtidList| {
        let missing = one.iter().filter(|gtid| {
            let there = other.of(gtid.domain);
            there.is_none_or(|there| there.sequence < gtid.sequence)
        });
        let missing: Vec<String> = missing.map(|gtid| gtid.to_string()).collect();
        missing.join(",")
    };
    let lacking = beyond(read, &log.list);
    if !lacking.is_empty() {
        return Err(not_contained(position, &lacking, &facts.server));
    }
    let lost = beyond(&log.purged_list, read);
    if !lost.is_empty() {
        return Err(purged(position, &format!("up to {lost}")));
    }
    let early = match position.early() {
        Some(Gtids::MariaDb(early)) if beyond(&log.purged_list, &early).is_empty() => Some(early),
        _ => None,
    };
    Ok(Start {
        again: early.is_some(),
        from: From::AfterList(early.unwrap_or_else(|| read.clone()).to_string()),
        position: position.clone(),
    })
}

/// File and offset mean nothing on another server.
fn same_server(then: &Identity, position: &Position, server: &Server) -> Result<(), Error> {
    if then.server == server.identity {
        return Ok(());
    }
    Err(Error::lost(
        format!(
            "the remembered position {position} is a place in the log of server {}, and this is {}",
            then.server, server.identity
        ),
        "check source.url; only a position by GTIDs without tags counts on another server (gtid_mode = ON when the pipeline \
         begins); if the change is meant, `headwater recover` publishes what this table has and the topics do not; `headwater \
         adopt` takes the present position of this server without that",
    ))
}

fn by_place(position: &Position, facts: &Facts, settings: &Settings) -> Result<Start, Error> {
    let files = files(&facts.log, settings)?;
    let find = |name: &str| files.iter().position(|file| file.name == name);
    let found = find(&position.file).and_then(|place| Some((place, files.get(place)?)));
    let Some((place, file)) = found else {
        return Err(Error::lost(
            format!(
                "{} is not among the server's logs any more ({}): it was purged, or the server was reset",
                position.file,
                spread(files)
            ),
            verdict::LOST,
        ));
    };
    if position.offset > file.size {
        return Err(Error::lost(
            format!(
                "{} ends at {}, before the remembered position {position}: the server was reset, or lost what it had written",
                file.name, file.size
            ),
            verdict::LOST,
        ));
    }
    let small = |offset: u64| u32::try_from(offset).is_ok();
    let last = position.last.as_ref();
    // The server sends only one kind of transactions, those with GTIDs or those without, unless its mode is one in between.
    let sent = |last: &&Last| match facts.server.setting("gtid_mode") {
        Some("ON") => last.gtid.is_some(),
        Some("OFF") | None => last.gtid.is_none(),
        Some(_) => true,
    };
    let early = last.filter(|last| find(&last.file).is_some() && small(last.offset));
    let early = early.filter(sent);
    let from = match early {
        Some(last) => From::At(last.file.to_string(), last.offset),
        None if small(position.offset) => From::At(file.name.clone(), position.offset),
        // The command has four bytes for it. After a transaction of that size the server begins a new file.
        None => match files.get(place + 1) {
            Some(next) if position.offset == file.size => From::At(next.name.clone(), FIRST),
            _ => {
                return Err(Error::fatal(
                    format!(
                        "the position {position} cannot be asked for: no offset past 4 GiB can"
                    ),
                    "switch GTIDs on (gtid_mode = ON), then `headwater adopt` goes on from the end of the log, and what is between is \
                     not published",
                ));
            }
        },
    };
    // What the log does not tell any more (GTIDs were switched off) is not carried on.
    let gtids = if facts.server.names_transactions() {
        position.gtids.clone()
    } else {
        Gtids::None
    };
    Ok(Start {
        from,
        again: early.is_some(),
        position: Position {
            gtids,
            ..position.clone()
        },
    })
}

fn spread(files: &[File]) -> String {
    match (files.first(), files.last()) {
        (Some(first), Some(last)) => format!("{} to {}", first.name, last.name),
        _ => "there are none".to_owned(),
    }
}

fn not_contained(position: &Position, lacking: &str, server: &Server) -> Error {
    let what = format!(
        "the server ({}) has not executed {lacking}, which the remembered position {position} includes",
        server.identity
    );
    // In a failover the address may lead to a replica that is still catching up.
    if server.is_read_only() {
        return Error::transient(format!(
            "{what}: it is a replica (read_only) that may be catching up"
        ));
    }
    Error::lost(
        format!("{what}: it was reset, restored from a backup, or is another server"),
        "what this server holds and what was published may differ, on both sides of the remembered position: `headwater audit` \
         tells how, `headwater recover` publishes what the table has and the topics do not, and `headwater adopt` goes on from \
         the server's present position without that",
    )
}

fn purged(position: &Position, lost: &str) -> Error {
    Error::lost(
        format!(
            "the server has purged transactions that come after the remembered position {position}: {lost}"
        ),
        verdict::LOST,
    )
}

#[cfg(test)]
mod tests {
    use headwater_core::trouble::Trouble;

    use super::super::gtid::Gtid;
    use super::super::tests::{identity, settings, sound};
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(numbers: &str) -> GtidSet {
        format!("{UUID}:{numbers}").parse().expect("a set")
    }

    fn mysql(numbers: &str) -> Position {
        Position::new(Gtids::MySql(set(numbers)), "binlog.000002", 500)
    }

    fn mariadb(list: &str) -> Position {
        let list = list.parse().expect("a list");
        Position::new(Gtids::MariaDb(list), "binlog.000002", 500)
    }

    fn with_last(mut position: Position, gtid: Option<&str>, before: Option<&str>) -> Position {
        let parse = |text: &str| text.parse::<Gtid>().expect("a gtid");
        position.last = Some(Last {
            gtid: gtid.map(parse),
            committed: 1,
            file: "binlog.000001".into(),
            offset: 300,
            before: before.map(parse),
            server: None,
        });
        position
    }

    fn begin(position: &Position, change: impl FnOnce(&mut Facts)) -> Result<Start, Error> {
        let flavor = match position.gtids {
            Gtids::MariaDb(_) => Flavor::MariaDb,
            _ => Flavor::MySql,
        };
        let mut facts = sound(flavor);
        facts.log.executed = set("1-10");
        facts.log.list = "0-1-10".parse().expect("a list");
        facts.log.files = Some(
            ["binlog.000001", "binlog.000002", "binlog.000003"]
                .map(|name| File {
                    name: name.into(),
                    size: 1000,
                })
                .to_vec(),
        );
        change(&mut facts);
        start(&identity(flavor), position, &facts, &settings())
    }

    fn refused(position: &Position, says: &str, change: impl FnOnce(&mut Facts)) {
        let error = begin(position, change).expect_err(says);
        assert!(error.is_fatal(), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }

    #[test]
    fn a_set_is_resumed_on_whatever_server_has_it() {
        let start = begin(&mysql("1-7"), |_| {}).expect("served");
        assert_eq!(start.from, From::After(set("1-7")));
        assert!(!start.again);
        let start = begin(&mysql("1-7"), |f| f.server.identity = "another".into());
        assert_eq!(start.expect("served").from, From::After(set("1-7")));
        let start = begin(&mysql("1-7"), |f| f.log.purged = set("1-7"));
        assert_eq!(start.expect("served").from, From::After(set("1-7")));
    }

    #[test]
    fn the_last_transaction_is_read_again_while_the_log_has_it() {
        let last = format!("{UUID}:7");
        let position = with_last(mysql("1-7"), Some(&last), None);
        let start = begin(&position, |f| f.log.purged = set("1-6")).expect("served");
        assert_eq!((start.from, start.again), (From::After(set("1-6")), true));
        let start = begin(&position, |f| f.log.purged = set("1-7")).expect("served");
        assert_eq!((start.from, start.again), (From::After(set("1-7")), false));

        let position = with_last(mariadb("0-1-7"), Some("0-1-7"), Some("0-1-6"));
        let start = begin(&position, |_| {}).expect("served");
        let early = From::AfterList("0-1-6".into());
        assert_eq!((start.from, start.again), (early, true));
        let purged = |f: &mut Facts| f.log.purged_list = "0-1-7".parse().expect("a list");
        let start = begin(&position, purged).expect("served");
        let late = From::AfterList("0-1-7".into());
        assert_eq!((start.from, start.again), (late, false));
    }

    #[test]
    fn a_set_that_the_server_cannot_serve_is_refused() {
        refused(
            &mysql("1-12"),
            &format!("has not executed {UUID}:11-12"),
            |_| {},
        );
        refused(&mysql("1-7"), "it was reset", |f| {
            f.log.executed = GtidSet::default();
        });
        refused(
            &mysql("1-7"),
            &format!(
                "purged transactions that come after the remembered position {UUID}:1-7 (binlog.000002:500): {UUID}:8-9"
            ),
            |f| {
                f.log.purged = set("1-9");
            },
        );
        let error = begin(&mysql("1-12"), |f| f.server.set("read_only", "ON")).expect_err("behind");
        assert!(!error.is_fatal(), "a replica may catch up: {error}");
    }

    #[test]
    fn a_list_that_the_server_cannot_serve_is_refused() {
        refused(&mariadb("0-1-12"), "has not executed 0-1-12", |_| {});
        refused(&mariadb("0-1-7,5-1-1"), "has not executed 5-1-1", |_| {});
        refused(&mariadb("0-1-7"), "up to 0-1-8", |f| {
            f.log.purged_list = "0-1-8".parse().expect("a list");
        });
        refused(&mariadb("0-1-7"), "up to 3-1-1", |f| {
            f.log.purged_list = "0-1-2,3-1-1".parse().expect("a list");
        });
    }

    #[test]
    fn a_place_is_resumed_on_its_own_server_only() {
        let position = Position::new(Gtids::None, "binlog.000002", 500);
        let start = begin(&position, |_| {}).expect("served");
        assert_eq!(start.from, From::At("binlog.000002".into(), 500));
        assert!(!start.again);
        let early = with_last(position.clone(), None, None);
        let start = begin(&early, |_| {}).expect("served");
        assert!(
            !start.again,
            "a server with GTIDs does not send what has none"
        );
        let off = |f: &mut Facts| f.server.set("gtid_mode", "OFF");
        let start = begin(&early, off).expect("served");
        assert_eq!(start.from, From::At("binlog.000001".into(), 300));
        assert!(start.again);
        let without_the_first = |f: &mut Facts| {
            f.server.set("gtid_mode", "OFF");
            drop(f.log.files.as_mut().map(|files| files.remove(0)));
        };
        let start = begin(&early, without_the_first).expect("served");
        assert_eq!(
            (start.from, start.again),
            (From::At("binlog.000002".into(), 500), false)
        );
        refused(&position, "a place in the log of server", |f| {
            f.server.identity = "another".into();
        });
        refused(&position, "it was purged, or the server was reset", |f| {
            f.log.files = Some(vec![File {
                name: "binlog.000007".into(),
                size: 4,
            }]);
        });
        refused(&position, "ends at 4, before", |f| {
            f.log.files = Some(vec![File {
                name: "binlog.000002".into(),
                size: 4,
            }]);
        });
        refused(&position, "may not see the files", |f| f.log.files = None);
    }

    #[test]
    fn tags_and_a_server_without_gtids_make_a_place_of_it() {
        let tagged: GtidSet = format!("{UUID}:1-7:blue:1-2").parse().expect("a set");
        let position = Position::new(Gtids::MySql(tagged.clone()), "binlog.000002", 500);
        let start = begin(&position, |f| f.log.executed = tagged.clone()).expect("served");
        assert_eq!(start.from, From::At("binlog.000002".into(), 500));
        assert!(!start.position.gtids.is_none());
        refused(&position, "has not executed", |_| {});
        let start = begin(&mysql("1-7"), |f| f.server.set("gtid_mode", "OFF")).expect("served");
        assert_eq!(start.from, From::At("binlog.000002".into(), 500));
        assert!(start.position.gtids.is_none());
    }

    #[test]
    fn an_offset_past_four_gib_is_the_end_of_its_file_or_refused() {
        let position = Position::new(Gtids::None, "binlog.000002", 1 << 33);
        let large = |size: u64| {
            move |f: &mut Facts| {
                f.log.files = f.log.files.take().map(|mut files| {
                    files[1].size = size;
                    files
                });
            }
        };
        let start = begin(&position, large(1 << 33)).expect("served");
        assert_eq!(start.from, From::At("binlog.000003".into(), FIRST));
        refused(&position, "no offset past 4 GiB", large(1 << 34));
    }

    #[test]
    fn a_server_that_cannot_serve_at_all_is_refused() {
        for (change, says) in [
            (
                (|s| s.set("log_bin", "OFF")) as fn(&mut Server),
                "log_bin is off",
            ),
            (
                |s| s.set("binlog_format", "MIXED"),
                "binlog_format is MIXED",
            ),
            (|s| s.version = "5.7.44".into(), "needs 8.0 or newer"),
            (|s| s.number = 5400, "is the server's own"),
            (|s| s.set("encrypt_binlog", "ON"), "encrypt_binlog is on"),
            (
                |s| {
                    s.set("read_only", "ON");
                    s.set("log_slave_updates", "OFF");
                },
                "does not write what it replicates",
            ),
        ] {
            let mut facts = sound(Flavor::MySql);
            change(&mut facts.server);
            let error = fit_server(&facts, &settings()).expect_err(says);
            assert!(
                error.is_fatal() && error.to_string().contains(says),
                "{error}"
            );
        }
        assert_eq!(fit_server(&sound(Flavor::MariaDb), &settings()), Ok(()));
        assert_eq!(version("5.5.5-10.4.1-MariaDB-log"), (10, 4));
        assert_eq!(version("11.8.3-MariaDB"), (11, 8));
    }

    #[test]
    fn a_database_that_the_log_leaves_out_is_refused() {
        for (only, without, says) in [
            ("", "", None),
            ("shop,eventlog", "", None),
            ("", "shop", None),
            ("eventlog", "eventlog", None),
            ("shop", "", Some("binlog_do_db is shop: ")),
            ("EventLog", "", Some("binlog_do_db is EventLog: ")),
            (
                "",
                "shop,eventlog",
                Some("binlog_ignore_db is shop,eventlog: "),
            ),
        ] {
            let mut facts = sound(Flavor::MySql);
            let names = |text: &str| text.split_terminator(',').map(Into::into).collect();
            (facts.log.only, facts.log.without) = (names(only), names(without));
            let told = fit_server(&facts, &settings()).map_err(|error| error.to_string());
            match says {
                None => assert_eq!(told, Ok(())),
                Some(says) => assert!(told.expect_err(says).contains(says)),
            }
        }
    }

    #[test]
    fn a_table_in_other_letters_is_refused_and_the_right_ones_are_told() {
        let (settings, sound) = (settings(), TableFacts::sound());
        assert!(fit_table(Some(&sound), &settings).is_ok());
        for (schema, table) in [("eventlog", "Events"), ("EVENTLOG", "events")] {
            let settings = Settings {
                schema: schema.into(),
                table: table.into(),
                ..settings.clone()
            };
            let error = fit_table(Some(&sound), &settings).expect_err("another name");
            assert!(error.is_fatal(), "{error}");
            let right = "table = \"eventlog.events\"";
            assert!(error.to_string().contains(right), "{error}");
        }
    }

    #[test]
    fn a_position_of_the_other_flavor_is_refused() {
        let facts = sound(Flavor::MariaDb);
        let error = start(&identity(Flavor::MySql), &mysql("1-7"), &facts, &settings());
        assert!(error.expect_err("refused").is_fatal());
    }
}
