//! Whether a standby could take the primary's place: what `check` says of failover slots, which there are since PostgreSQL 17.
//!
//! Rule: where there is no standby, nothing is said.

use headwater_core::finding::Finding;

use super::super::Settings;
use super::super::facts::Facts;
use super::super::session::{Session, cell};
use crate::{Error, Server};

const SINCE: i32 = 170_000;

/// What the primary says.
#[derive(Debug, Clone, Default)]
struct Primary {
    /// Standbys may keep a copy of the pipeline's slot.
    failover: bool,
    /// The slots that standbys follow by.
    physical: Vec<String>,
    /// Those of them that are being read.
    followed: Vec<String>,
    /// `synchronized_standby_slots`: the pipeline's slot is sent only what these have.
    ahead: Vec<String>,
    /// `synchronous_standby_names`: a COMMIT waits for these.
    synchronous: String,
}

/// What another server of the url says.
#[derive(Debug, Clone, Default)]
struct Other {
    place: String,
    is_standby: bool,
    /// Where its copy of the slot stands, if that would outlive a promotion.
    copy: Option<String>,
    /// What a copy needs and this one lacks, as statements.
    lacks: Vec<String>,
}

/// `all` names every server, the session is with the primary of them.
pub(super) async fn findings(session: &Session, all: &Settings, facts: &Facts) -> Vec<Finding> {
    if facts.server.version < SINCE || facts.slot.is_none() {
        return Vec::new();
    }
    let settings = session.settings();
    let primary = match primary(session, settings).await {
        Ok(primary) => primary,
        Err(error) => return vec![error.into()],
    };
    let mut others = Vec::new();
    for server in &all.servers {
        if !settings.servers.contains(server) {
            let place = server.to_string();
            others.push(other(all, server).await.map_err(|why| (place, why)));
        }
    }
    judge(&primary, &others, settings)
}

async fn primary(session: &Session, settings: &Settings) -> Result<Primary, Error> {
    let sql = "SELECT coalesce(bool_or(failover) FILTER (WHERE slot_name = $1::text), false) AS failover,
                      coalesce(array_agg(slot_name::text ORDER BY slot_name) FILTER (WHERE standby), '{}') AS physical,
                      coalesce(array_agg(slot_name::text ORDER BY slot_name) FILTER (WHERE standby AND active), '{}') AS followed,
                      current_setting('synchronized_standby_slots') AS ahead,
                      current_setting('synchronous_standby_names') AS synchronous
                 FROM (SELECT *, slot_type = 'physical' AND NOT temporary AS standby FROM pg_replication_slots) slots";
    let Some(row) = session.row(sql, &[&settings.slot]).await? else {
        return Err(Error::transient("the server said nothing about its slots"));
    };
    let ahead: String = cell(&row, "ahead")?;
    Ok(Primary {
        failover: cell(&row, "failover")?,
        physical: cell(&row, "physical")?,
        followed: cell(&row, "followed")?,
        ahead: listed(&ahead),
        synchronous: cell(&row, "synchronous")?,
    })
}

/// The names of a list, as a setting has them.
fn listed(setting: &str) -> Vec<String> {
    let names = setting.split(',').map(|name| name.trim().trim_matches('"'));
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

async fn other(all: &Settings, server: &Server) -> Result<Other, Error> {
    let session = Session::open(&all.at(server)).await?;
    let sql = "SELECT pg_is_in_recovery() AS is_standby, s.confirmed_flush_lsn::text AS copy,
                      current_setting('sync_replication_slots')::bool AS copies,
                      current_setting('hot_standby_feedback')::bool AS feedback,
                      current_setting('primary_slot_name') <> '' AS has_slot
                 FROM (VALUES (1)) one LEFT JOIN pg_replication_slots s
                   ON s.slot_name = $1::text AND s.synced AND NOT s.temporary AND s.invalidation_reason IS NULL";
    let Some(row) = session.row(sql, &[&all.slot]).await? else {
        return Err(Error::transient("it said nothing about its slots"));
    };
    let mut lacks = Vec::new();
    for (setting, value) in [
        ("has_slot", "primary_slot_name = '...'"),
        ("feedback", "hot_standby_feedback = on"),
        ("copies", "sync_replication_slots = on"),
    ] {
        if !cell::<bool, _>(&row, setting)? {
            lacks.push(format!("ALTER SYSTEM SET {value};"));
        }
    }
    Ok(Other {
        place: server.to_string(),
        is_standby: cell(&row, "is_standby")?,
        copy: cell(&row, "copy")?,
        lacks,
    })
}

fn judge(
    primary: &Primary,
    others: &[Result<Other, (String, Error)>],
    settings: &Settings,
) -> Vec<Finding> {
    if primary.physical.is_empty() && others.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if primary.synchronous.contains('*') {
        findings.push(anybody(&primary.synchronous));
    }
    let Settings { slot, database, .. } = settings;
    if !primary.failover {
        findings.push(Finding::warning(
            format!(
                "slot {slot} is no failover slot: no standby keeps a copy of it, and after a promotion a run is refused"
            ),
            format!(
                "stop Headwater, then: psql \"dbname={database} replication=database\" -c \"ALTER_REPLICATION_SLOT {slot} \
                 (FAILOVER true)\""
            ),
        ));
        return findings;
    }
    findings.push(sent_behind(primary, slot));
    let unread = primary
        .ahead
        .iter()
        .filter(|name| !primary.followed.contains(name));
    findings.extend(unread.map(|name| held_up(name, primary)));
    findings.extend(others.iter().map(|other| match other {
        Ok(other) => copied(other, slot),
        Err((place, why)) => Finding::warning(
            format!("{place} could not be asked whether it keeps a copy of slot {slot}: {why}"),
            "start it and let the role in, or take it out of source.url",
        ),
    }));
    findings
}

/// Who reads the log can be a standby for synchronous replication (the manual, "Subscription"), and this takes every name.
fn anybody(names: &str) -> Finding {
    Finding::warning(
        format!(
            "synchronous_standby_names is {names}: Headwater's own session is a standby to the server, and a COMMIT may wait for it \
             instead of a real one"
        ),
        "name the standbys: ALTER SYSTEM SET synchronous_standby_names = '...'; SELECT pg_reload_conf(); with the \
         application_name of their primary_conninfo",
    )
}

/// Whether what is published is on the standbys already.
fn sent_behind(primary: &Primary, slot: &str) -> Finding {
    if !primary.ahead.is_empty() {
        return Finding::ok(format!(
            "slot {slot} is a failover slot, and is sent only what the standby behind slot {} has",
            primary.ahead.join(", ")
        ));
    }
    let mend = if primary.physical.is_empty() {
        "let each standby follow by a slot (primary_slot_name), and name those slots in synchronized_standby_slots"
            .to_owned()
    } else {
        format!(
            "ALTER SYSTEM SET synchronized_standby_slots = '{}'; SELECT pg_reload_conf(); with the slots of the standbys that \
             may be promoted",
            primary.physical.join(", ")
        )
    };
    Finding::warning(
        "synchronized_standby_slots is empty: events can be published before a standby has them, and after its promotion a run \
         is then refused",
        mend,
    )
}

/// A standby that is waited for and does not follow.
fn held_up(name: &str, primary: &Primary) -> Finding {
    let state = if primary.physical.iter().any(|slot| slot == name) {
        "nobody reads"
    } else {
        "does not exist"
    };
    Finding::warning(
        format!(
            "synchronized_standby_slots names slot {name}, which {state}: Headwater is sent nothing until a standby follows by it"
        ),
        "start that standby, or take the slot out of synchronized_standby_slots and reload",
    )
}

fn copied(other: &Other, slot: &str) -> Finding {
    let place = &other.place;
    if !other.is_standby {
        return Finding::warning(
            format!("{place} takes writers too, and is no standby"),
            "name one primary and its standbys in source.url; a former primary may come back as a standby only",
        );
    }
    if let Some(position) = &other.copy {
        return Finding::ok(format!(
            "standby {place} keeps a copy of slot {slot}, at {position}"
        ));
    }
    let mend = if other.lacks.is_empty() {
        "it comes when Headwater runs and the slot moves on (SELECT pg_log_standby_snapshot(); on the primary makes it sooner); \
         if not, the standby's log says why: primary_conninfo must have a dbname"
            .to_owned()
    } else {
        format!(
            "on the standby: {} SELECT pg_reload_conf();",
            other.lacks.join(" ")
        )
    };
    Finding::warning(
        format!(
            "standby {place} keeps no copy of slot {slot}: after its promotion a run is refused"
        ),
        mend,
    )
}

#[cfg(test)]
mod tests {
    use headwater_core::finding::Level;

    use super::super::tests::settings;
    use super::*;

    /// One standby that follows, is waited for and keeps a copy.
    fn sound() -> (Primary, Other) {
        let names = || vec!["b".to_owned()];
        let primary = Primary {
            failover: true,
            physical: names(),
            followed: names(),
            ahead: names(),
            synchronous: "b".to_owned(),
        };
        let other = Other {
            place: "b:5432".to_owned(),
            is_standby: true,
            copy: Some("0/64".to_owned()),
            lacks: Vec::new(),
        };
        (primary, other)
    }

    /// What is found besides what is fine: the sentence, and what mends it.
    fn troubles(change: impl FnOnce(&mut Primary, &mut Other)) -> Vec<String> {
        let (mut primary, mut other) = sound();
        change(&mut primary, &mut other);
        let found = judge(&primary, &[Ok(other)], &settings());
        let troubles = found.into_iter().filter(|f| f.level != Level::Ok);
        troubles
            .map(|f| format!("{}: {}", f.what, f.mend.unwrap_or_default()))
            .collect()
    }

    fn one(words: &[&str], change: impl FnOnce(&mut Primary, &mut Other)) {
        let troubles = troubles(change);
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        for word in words {
            assert!(troubles[0].contains(word), "{word}: {}", troubles[0]);
        }
    }

    #[test]
    fn a_standby_that_can_take_over_is_fine() {
        assert_eq!(troubles(|_, _| {}), [""; 0]);
        let (primary, other) = sound();
        assert_eq!(judge(&primary, &[Ok(other)], &settings()).len(), 2);
    }

    #[test]
    fn without_a_standby_nothing_is_said() {
        assert_eq!(judge(&Primary::default(), &[], &settings()), []);
    }

    #[test]
    fn what_would_keep_a_standby_from_taking_over_is_told() {
        one(&["no failover slot", "(FAILOVER true)"], |primary, _| {
            primary.failover = false;
        });
        one(
            &["is empty", "synchronized_standby_slots = 'b'"],
            |primary, _| {
                primary.ahead.clear();
            },
        );
        one(&["is empty", "primary_slot_name"], |primary, _| {
            primary.ahead.clear();
            primary.physical.clear();
        });
        one(&["slot b, which nobody reads"], |primary, _| {
            primary.followed.clear();
        });
        one(&["slot c, which does not exist"], |primary, _| {
            primary.ahead.push("c".to_owned());
        });
        one(&["Headwater's own session is a standby"], |primary, _| {
            primary.synchronous = "FIRST 1 (*)".to_owned();
        });
        one(&["b:5432 takes writers"], |_, other| {
            other.is_standby = false;
        });
        one(
            &["b:5432 keeps no copy", "pg_log_standby_snapshot"],
            |_, other| {
                other.copy = None;
            },
        );
        one(
            &["keeps no copy", "SET x = on; SELECT pg_reload_conf()"],
            |_, other| {
                other.copy = None;
                other.lacks.push("ALTER SYSTEM SET x = on;".to_owned());
            },
        );
    }

    #[test]
    fn a_server_that_cannot_be_asked_is_told() {
        let (primary, _) = sound();
        let away = Err(("c:5432".to_owned(), Error::transient("away")));
        let found = judge(&primary, &[away], &settings());
        assert!(found[1].what.starts_with("c:5432 could not be asked"));
        assert_eq!(found[1].level, Level::Warning);
    }

    #[test]
    fn a_list_is_read_as_the_server_writes_it() {
        assert_eq!(listed(""), [""; 0]);
        assert_eq!(listed("a, \"b\""), ["a", "b"]);
    }
}
