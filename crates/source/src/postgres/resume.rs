//! Whether a log may be resumed at a remembered position: every reason to refuse.
//!
//! Rule: when in doubt, refuse and say what may be missing. Pure: the facts were asked before.

use super::Settings;
use super::facts::{Facts, PublicationFacts, Server, SlotFacts, TableFacts};
use super::position::{Identity, Lsn};
use super::stream::System;
use super::timeline::{Fate, History};
use crate::Error;

const OLDEST: i32 = 140_000;

/// What is needed of the table, the publication and the slot, whatever the position and whoever reads the slot.
pub(super) fn fit(facts: &Facts, settings: &Settings) -> Result<(), Error> {
    fit_table(facts.table.as_ref(), settings)?;
    fit_publication(facts.publication.as_ref(), settings)?;
    fit_slot(slot(facts, settings)?, settings)
}

pub(super) fn slot<'f>(facts: &'f Facts, settings: &Settings) -> Result<&'f SlotFacts, Error> {
    facts.slot.as_ref().ok_or_else(|| slot_missing(settings))
}

pub(super) fn fit_server(server: &Server) -> Result<(), Error> {
    if server.version < OLDEST {
        return Err(Error::fatal(
            format!(
                "the server is PostgreSQL {}, and Headwater needs 14 or newer",
                server.version / 10_000
            ),
            "upgrade the server",
        ));
    }
    // Not fatal: in a failover the address may lead to a standby that is about to be promoted.
    if server.is_standby {
        return Err(Error::transient(
            "the server is a standby (in recovery): a slot can only be read from the primary",
        ));
    }
    if server.wal_level != "logical" {
        return Err(Error::fatal(
            format!("wal_level is {}, and must be logical", server.wal_level),
            "ALTER SYSTEM SET wal_level = 'logical'; then restart the server (a managed service has a setting of its own \
             for logical replication)",
        ));
    }
    Ok(())
}

pub(super) fn fit_table<'f>(
    table: Option<&'f TableFacts>,
    settings: &Settings,
) -> Result<&'f TableFacts, Error> {
    let name = settings.qualified();
    let Some(table) = table else {
        return Err(Error::fatal(
            format!("table {name} is not in database {}", settings.database),
            "create it, or name the right one in source.table",
        ));
    };
    if !matches!(table.kind.as_str(), "r" | "p") {
        return Err(Error::fatal(
            format!("{name} is no table"),
            "name the table itself, not a view of it, in source.table",
        ));
    }
    if table.persistence != "p" {
        return Err(Error::fatal(
            format!("table {name} is unlogged or temporary: its rows never reach the log"),
            format!("ALTER TABLE {name} SET LOGGED;"),
        ));
    }
    Ok(table)
}

pub(super) fn fit_publication<'f>(
    publication: Option<&'f PublicationFacts>,
    settings: &Settings,
) -> Result<&'f PublicationFacts, Error> {
    let name = &settings.publication;
    let table = settings.qualified();
    let Some(publication) = publication else {
        return Err(Error::fatal(
            format!("publication {name} does not exist"),
            "run `headwater init`; if the slot is older than the publication, drop the slot first, or name the right \
             publication in source.publication",
        ));
    };
    if !publication.has_table {
        return Err(Error::fatal(
            format!("publication {name} does not publish table {table}"),
            format!("ALTER PUBLICATION \"{name}\" ADD TABLE {table};"),
        ));
    }
    if !publication.insert {
        return Err(Error::fatal(
            format!("publication {name} does not publish inserts"),
            format!("ALTER PUBLICATION \"{name}\" SET (publish = 'insert');"),
        ));
    }
    // The server then turns the UPDATE that makes a row fit the filter into an INSERT (its manual, "Row Filters"): a row
    // that is no new event would be published.
    if publication.update && !publication.filters.is_empty() {
        return Err(Error::fatal(
            format!(
                "publication {name} has a row filter on {table} and publishes updates: some updates would come as inserts"
            ),
            format!("ALTER PUBLICATION \"{name}\" SET (publish = 'insert');"),
        ));
    }
    Ok(publication)
}

fn slot_missing(settings: &Settings) -> Error {
    Error::lost(
        format!(
            "slot {} does not exist any more: events since the last position may be missing from any new slot",
            settings.slot
        ),
        "`headwater recover` makes it anew and publishes, from the table, what is missing; to go on without that: `headwater \
         init`, then `headwater adopt`",
    )
}

/// A slot that is of the kind that a pipeline of this database has.
pub(super) fn of_this_database(slot: &SlotFacts, settings: &Settings) -> Result<(), Error> {
    let name = &settings.slot;
    let other = "name another slot in source.slot, or drop this one if nobody needs it: SELECT \
                 pg_drop_replication_slot(...)";
    if slot.kind != "logical" {
        return Err(Error::fatal(
            format!("slot {name} is a physical slot"),
            other,
        ));
    }
    if slot.plugin.as_deref() != Some("pgoutput") {
        let plugin = slot.plugin.as_deref().unwrap_or("no plugin");
        return Err(Error::fatal(
            format!("slot {name} was made for {plugin}, and must be for pgoutput"),
            other,
        ));
    }
    let database = slot.database.as_deref().unwrap_or_default();
    if database != settings.database {
        return Err(Error::fatal(
            format!(
                "slot {name} belongs to database {database}, not to {}",
                settings.database
            ),
            other,
        ));
    }
    if slot.temporary {
        return Err(Error::fatal(
            format!("slot {name} is a temporary slot"),
            other,
        ));
    }
    Ok(())
}

/// A slot that can serve this pipeline at all.
pub(super) fn fit_slot(slot: &SlotFacts, settings: &Settings) -> Result<(), Error> {
    of_this_database(slot, settings)?;
    let name = &settings.slot;
    if let Some(why) = invalid(slot) {
        return Err(Error::lost(
            format!(
                "slot {name} was invalidated by the server ({why}): events since the last position are missing from it"
            ),
            format!(
                "`headwater recover` makes it anew and publishes, from the table, what is missing; to go on without that: SELECT \
                 pg_drop_replication_slot('{name}'); `headwater init`, then `headwater adopt`"
            ),
        ));
    }
    Ok(())
}

/// Why the slot can never be read again.
fn invalid(slot: &SlotFacts) -> Option<String> {
    let lost = slot.wal_status.as_deref() == Some("lost");
    slot.invalidated
        .clone()
        .or_else(|| lost.then(|| "its log was removed".to_owned()))
}

/// Nobody else reads the slot.
pub(super) fn free(slot: &SlotFacts, settings: &Settings) -> Result<(), Error> {
    let Some(pid) = slot.active_pid else {
        return Ok(());
    };
    let ours = super::session::application(settings);
    match slot.active_application.as_deref() {
        // We hold the pipeline's lock, so this is what an earlier run left behind; the server will notice.
        Some(application) if application == ours => Err(Error::transient(format!(
            "slot {} is still held by an earlier run (process {pid} of the server)",
            settings.slot
        ))),
        application => Err(Error::fatal(
            format!(
                "slot {} is being read by {} (process {pid} of the server)",
                settings.slot,
                application.map_or_else(
                    || "another role's session".to_owned(),
                    |application| format!("\"{application}\"")
                )
            ),
            format!(
                "two readers would take events from each other: stop it, or give this pipeline another slot in source.slot; \
                 SELECT * FROM pg_stat_activity WHERE pid = {pid}; shows it"
            ),
        )),
    }
}

/// Table and publication are those that the position was taken with. Under the same name there can be others, and what was
/// committed while the name had none, or another one, was never published.
pub(super) fn same_objects(
    then: &Identity,
    facts: &Facts,
    settings: &Settings,
) -> Result<(), Error> {
    let publication = facts
        .publication
        .as_ref()
        .map(|publication| publication.oid);
    let table = facts.table.as_ref().map(|table| table.oid);
    let replaced = |then: Option<u32>, now: Option<u32>| then.is_some() && then != now;
    if replaced(then.table, table) {
        return Err(Error::lost(
            format!(
                "table {} was replaced (renamed or dropped, and made again) since the pipeline began with it: events \
                 committed in between may not be in the log",
                settings.qualified()
            ),
            "`headwater recover` publishes what the new table has and the topics do not; to go on without that: `headwater \
             adopt`",
        ));
    }
    if replaced(then.publication, publication) {
        let (name, slot) = (&settings.publication, &settings.slot);
        let before_18 = if facts.server.version < 180_000 {
            format!(
                " (before PostgreSQL 18 the slot may not get past that: SELECT pg_drop_replication_slot('{slot}'); and \
                 `headwater init` first)"
            )
        } else {
            String::new()
        };
        return Err(Error::lost(
            format!(
                "publication {name} was replaced (dropped and made again) since the pipeline began with it: events \
                 committed in between are not in the log"
            ),
            format!(
                "`headwater recover` makes the slot anew and publishes, from the table, what is missing; to go on without that: \
                 `headwater adopt`{before_18}"
            ),
        ));
    }
    Ok(())
}

/// Where reading begins. A slot that is behind the record: we were killed before we could tell the server, or the server's disk went
/// back in time and its log has since outgrown the record. These cannot be told apart, and in the second case what lies
/// between the two positions is new: read it, again or for the first time. Only a slot that stands where this process has
/// `told` it to stand has surely not gone back.
pub(super) fn start(slot: Option<&SlotFacts>, position: Lsn, told: Lsn) -> Lsn {
    match slot.and_then(|slot| slot.confirmed) {
        Some(confirmed) if told == Lsn(0) || confirmed < told => confirmed.min(position),
        _ => position,
    }
}

/// The slot has not been moved past the position: what is before it is gone from the slot for good.
pub(super) fn not_moved(
    slot: Option<&SlotFacts>,
    position: Lsn,
    settings: &Settings,
) -> Result<(), Error> {
    match slot.and_then(|slot| slot.confirmed) {
        Some(confirmed) if confirmed > position => Err(Error::lost(
            format!(
                "slot {} stands at {confirmed}, past the remembered position {position}: it was moved by someone else, and \
                 events between the two may be missing",
                settings.slot
            ),
            "find out who did so; `headwater recover` makes it anew and publishes, from the table, what is missing; `headwater \
             adopt` goes on from the slot's own position and leaves out what is between",
        )),
        _ => Ok(()),
    }
}

/// The server's log is the one that the position was taken from.
pub(super) fn same_log(
    identity: &Identity,
    position: Lsn,
    system: &System,
    settings: &Settings,
) -> Result<(), Error> {
    let differs = |what: &str, then: &str, now: &str| {
        Error::lost(
            format!(
                "the remembered position {position} belongs to {what} {then}, and this is {now}"
            ),
            "check source.url and source.slot; if the change is meant, `headwater recover` publishes what this table has and the \
             topics do not, and goes on with a slot made anew; `headwater adopt` takes the position of the slot that is there, and \
             events between the two positions may be missing",
        )
    };
    if identity.system != system.identifier {
        let what = "the server with system identifier";
        return Err(differs(what, &identity.system, &system.identifier));
    }
    if identity.database != settings.database {
        let (then, now) = (&identity.database, &settings.database);
        return Err(differs("database", then, now));
    }
    if identity.slot != settings.slot {
        return Err(differs("slot", &identity.slot, &settings.slot));
    }
    // The server sends nothing that is not safe on its disk, so it can only be behind us if its disk went back in time.
    if system.flushed < position {
        return Err(Error::lost(
            format!(
                "the server's log ends at {}, before the remembered position {position}: it was restored from a backup, or \
                 lost what it had written",
                system.flushed
            ),
            ADOPT_ELSEWHERE,
        ));
    }
    Ok(())
}

const ADOPT_ELSEWHERE: &str = "what this server holds and what was published may differ, on both sides of the remembered \
     position: `headwater audit` tells how, `headwater recover` publishes what the table has and the topics do not, and `headwater \
     adopt` goes on from the slot's own position without that";

/// The position lies on the way to the server's timeline `now`, which is another than the record's.
pub(super) fn on_the_way(
    identity: &Identity,
    position: Lsn,
    now: u32,
    history: &History,
) -> Result<(), Error> {
    let then = identity.timeline;
    match history.fate(then) {
        Fate::Ended(end) if position <= end => Ok(()),
        Fate::Ended(end) => Err(Error::lost(
            format!(
                "the server is on timeline {now}, which left timeline {then} at {end}, before the remembered position \
                 {position}: what was committed there after {end} is not in this server"
            ),
            ADOPT_ELSEWHERE,
        )),
        Fate::NoAncestor => Err(Error::lost(
            format!(
                "the server is on timeline {now}, which does not come from timeline {then} of the remembered position \
                 {position}"
            ),
            ADOPT_ELSEWHERE,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::tests::{publication, settings, slot, sound, table};
    use super::*;

    fn refused(result: Result<(), Error>, says: &str) {
        match result {
            Err(error @ (Error::Fatal { .. } | Error::Lost { .. })) => {
                assert!(error.to_string().contains(says), "{error}");
            }
            other => panic!("not refused ({says}): {other:?}"),
        }
    }

    fn identity() -> Identity {
        Identity {
            system: "123".into(),
            timeline: 1,
            database: "shop".into(),
            slot: "headwater_shop".into(),
            publication: Some(8),
            table: Some(7),
        }
    }

    /// What a run asks before it begins.
    fn fit_and_free(facts: &Facts) -> Result<(), Error> {
        fit(facts, &settings())?;
        free(super::slot(facts, &settings())?, &settings())
    }

    fn system() -> System {
        System {
            identifier: "123".into(),
            timeline: 1,
            flushed: Lsn(500),
        }
    }

    #[test]
    fn a_sound_database_is_resumed() {
        assert_eq!(fit_server(&sound().server), Ok(()));
        assert_eq!(fit(&sound(), &settings()), Ok(()));
        assert_eq!(
            not_moved(sound().slot.as_ref(), Lsn(100), &settings()),
            Ok(())
        );
        assert_eq!(
            same_log(&identity(), Lsn(500), &system(), &settings()),
            Ok(())
        );
    }

    #[test]
    fn a_table_or_publication_that_cannot_serve_is_refused() {
        for (change, says) in [
            (
                (|f| f.table = None) as fn(&mut Facts),
                "table eventlog.events is not in",
            ),
            (|f| table(f).kind = "v".into(), "is no table"),
            (|f| table(f).persistence = "u".into(), "SET LOGGED"),
            (
                |f| f.publication = None,
                "publication headwater_shop does not exist",
            ),
            (
                |f| publication(f).has_table = false,
                "ADD TABLE eventlog.events",
            ),
            (
                |f| publication(f).insert = false,
                "does not publish inserts",
            ),
            (
                |f| publication(f).update = true,
                "updates would come as inserts",
            ),
        ] {
            let mut facts = sound();
            change(&mut facts);
            refused(fit(&facts, &settings()), says);
        }
    }

    #[test]
    fn updates_without_a_row_filter_are_harmless() {
        let mut facts = sound();
        publication(&mut facts).update = true;
        publication(&mut facts).filters.clear();
        assert_eq!(fit(&facts, &settings()), Ok(()));
    }

    #[test]
    fn a_slot_that_cannot_serve_is_refused() {
        for (change, says) in [
            ((|f| f.slot = None) as fn(&mut Facts), "headwater adopt"),
            (|f| slot(f).kind = "physical".into(), "physical"),
            (
                |f| slot(f).plugin = Some("wal2json".into()),
                "must be for pgoutput",
            ),
            (
                |f| slot(f).database = Some("other".into()),
                "belongs to database other",
            ),
            (|f| slot(f).temporary = true, "temporary"),
            (
                |f| slot(f).wal_status = Some("lost".into()),
                "its log was removed",
            ),
            (
                |f| slot(f).invalidated = Some("idle_timeout".into()),
                "idle_timeout",
            ),
        ] {
            let mut facts = sound();
            change(&mut facts);
            refused(fit(&facts, &settings()), says);
        }
    }

    #[test]
    fn a_slot_held_by_a_stranger_is_refused_and_one_held_by_us_is_waited_for() {
        let mut facts = sound();
        slot(&mut facts).active_pid = Some(42);
        refused(fit_and_free(&facts), "another role's session (process 42");
        slot(&mut facts).active_application = Some("Debezium".into());
        refused(fit_and_free(&facts), "\"Debezium\" (process 42");
        slot(&mut facts).active_application = Some("headwater shop".into());
        assert!(matches!(fit_and_free(&facts), Err(Error::Transient(_))));
        assert_eq!(fit(&facts, &settings()), Ok(()));
    }

    #[test]
    fn a_replaced_publication_or_table_is_refused() {
        let with = |change: fn(&mut Facts)| {
            let mut facts = sound();
            change(&mut facts);
            same_objects(&identity(), &facts, &settings())
        };
        assert_eq!(with(|_| {}), Ok(()));
        let replaced = "publication headwater_shop was replaced (dropped and made again)";
        refused(with(|f| publication(f).oid = 9), replaced);
        refused(with(|f| publication(f).oid = 9), "`headwater init` first");
        refused(with(|f| f.publication = None), replaced);
        let replaced = "table eventlog.events was replaced";
        refused(with(|f| table(f).oid = 9), replaced);
        refused(with(|f| f.table = None), replaced);
    }

    #[test]
    fn a_record_that_knows_no_publication_and_no_table_accepts_any() {
        let then = Identity {
            publication: None,
            table: None,
            ..identity()
        };
        assert_eq!(same_objects(&then, &sound(), &settings()), Ok(()));
    }

    #[test]
    fn a_slot_behind_the_record_is_read_from_where_it_stands() {
        let at = |position, told| start(sound().slot.as_ref(), Lsn(position), Lsn(told));
        assert_eq!(at(120, 0), Lsn(100), "after a start of ours");
        assert_eq!(at(100, 0), Lsn(100));
        assert_eq!(at(120, 110), Lsn(100), "it fell back");
        assert_eq!(at(120, 100), Lsn(120), "it stands where we left it");
        assert_eq!(start(None, Lsn(120), Lsn(0)), Lsn(120));
    }

    #[test]
    fn a_standby_is_waited_for() {
        let mut facts = sound();
        facts.server.is_standby = true;
        assert!(matches!(
            fit_server(&facts.server),
            Err(Error::Transient(_))
        ));
    }

    #[test]
    fn a_slot_past_the_position_is_refused() {
        let says = "stands at 0/64, past the remembered position 0/63";
        refused(not_moved(sound().slot.as_ref(), Lsn(99), &settings()), says);
    }

    #[test]
    fn another_log_is_refused() {
        let check = |change: fn(&mut Identity, &mut System), says: &str| {
            let (mut identity, mut system) = (identity(), system());
            change(&mut identity, &mut system);
            refused(same_log(&identity, Lsn(500), &system, &settings()), says);
        };
        check(
            |_, system| system.identifier = "456".into(),
            "system identifier 123, and this is 456",
        );
        check(
            |identity, _| identity.database = "other".into(),
            "belongs to database other",
        );
        check(
            |identity, _| identity.slot = "other".into(),
            "belongs to slot other",
        );
        check(
            |_, system| system.flushed = Lsn(499),
            "the server's log ends at 0/1F3",
        );
    }

    #[test]
    fn a_position_past_the_fork_is_refused() {
        let history = History::parse("1\t0/64\twhy\n2\t0/C8\twhy\n");
        let at = |timeline, position| {
            let identity = Identity {
                timeline,
                ..identity()
            };
            on_the_way(&identity, Lsn(position), 3, &history)
        };
        assert_eq!(at(1, 100), Ok(()));
        refused(at(1, 101), "left timeline 1 at 0/64");
        assert_eq!(at(2, 200), Ok(()));
        refused(at(2, 201), "left timeline 2 at 0/C8");
        refused(at(4, 10), "does not come from timeline 4");
    }
}
