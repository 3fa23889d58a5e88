//! What a pipeline needs in the database: making it (`init`), showing how (`dry_run`), and where it stands.
//!
//! Rule: what exists is left as it is; a second `init` changes nothing.

mod begin;
mod check;
mod standby;

use std::time::Duration;

use headwater_core::event::Role;

use super::facts::{self, Facts};
use super::position::{Identity, Lsn};
use super::session::Session;
use super::stream::Gate;
use super::{Settings, ident, resume, session};
use crate::Error;

pub(super) use begin::beginning;
pub use begin::{Begun, drop_slot, init};
pub use check::check;

/// Making a slot waits until every transaction that is open now has ended.
pub(super) const SLOT_LIMIT: Duration = Duration::from_mins(1);

/// The SQL of what `init` would make.
pub async fn dry_run(settings: &Settings) -> Result<Vec<String>, Error> {
    let session = Session::open(settings).await?;
    let facts = Facts::read(&session, settings).await?;
    let steps = plan(settings, &facts)?;
    Ok(steps.into_iter().map(|step| step.sql).collect())
}

/// Where the slot stands, and which log that is; `None` if there is no slot.
pub async fn slot_position(settings: &Settings) -> Result<Option<(Lsn, Identity)>, Error> {
    let session = Session::open(settings).await?;
    let settings = session.settings();
    let facts = Facts::read(&session, settings).await?;
    primary(&facts)?;
    match facts.slot {
        None => Ok(None),
        Some(_) => position_of(&session, settings, &facts).await.map(Some),
    }
}

/// How many events the table holds already, counted up to `limit`.
pub async fn count_events(settings: &Settings, limit: u64) -> Result<u64, Error> {
    let session = Session::open(settings).await?;
    count(&session, settings, limit).await
}

pub(super) async fn count(
    session: &Session,
    settings: &Settings,
    limit: u64,
) -> Result<u64, Error> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM {}.{} WHERE {} IS NOT NULL LIMIT $1) events",
        ident(&settings.schema),
        ident(&settings.table),
        ident(Role::EventType.name())
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let count: i64 = match session.row(&sql, &[&limit]).await? {
        Some(row) => session::cell(&row, 0)?,
        None => 0,
    };
    Ok(count.unsigned_abs())
}

/// One statement of `init`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    makes: String,
    sql: String,
}

/// A person asked for this, now: a server that cannot do it is not worth another try.
fn primary(facts: &Facts) -> Result<(), Error> {
    if facts.server.is_standby {
        return Err(Error::fatal(
            "the server is a standby (in recovery)",
            "name the primary in source.url",
        ));
    }
    resume::fit_server(&facts.server)
}

fn plan(settings: &Settings, facts: &Facts) -> Result<Vec<Step>, Error> {
    primary(facts)?;
    resume::fit_table(facts.table.as_ref(), settings)?;
    let mut steps = Vec::new();
    match (&facts.publication, &facts.slot) {
        (Some(publication), _) => {
            resume::fit_publication(Some(publication), settings)?;
        }
        // A slot reads the past with the catalog of the past, in which there was no such publication.
        (None, Some(_)) => return Err(publication_lost(settings)),
        (None, None) => steps.push(make_publication(settings, facts)),
    }
    match &facts.slot {
        Some(slot) => resume::fit_slot(slot, settings)?,
        None => steps.push(make_slot(settings, facts)),
    }
    Ok(steps)
}

fn publication_lost(settings: &Settings) -> Error {
    let Settings {
        slot, publication, ..
    } = settings;
    Error::fatal(
        format!(
            "slot {slot} exists, but publication {publication} does not, and a slot cannot use one that is younger than itself"
        ),
        format!(
            "name the publication that the slot is used with in source.publication; or, if nobody needs the slot: \
             SELECT pg_drop_replication_slot('{slot}'); and run `headwater init` again"
        ),
    )
}

fn make_publication(settings: &Settings, facts: &Facts) -> Step {
    let filter = if facts.server.version >= 150_000 {
        // Sentinels stay on the server.
        format!(" WHERE ({} IS NOT NULL)", ident(Role::EventType.name()))
    } else {
        String::new()
    };
    Step {
        makes: format!("publication {}", settings.publication),
        sql: format!(
            "CREATE PUBLICATION {} FOR TABLE {}.{}{filter} WITH (publish = 'insert', publish_via_partition_root = true)",
            ident(&settings.publication),
            ident(&settings.schema),
            ident(&settings.table)
        ),
    }
}

fn make_slot(settings: &Settings, facts: &Facts) -> Step {
    // Not temporary, without two-phase commit; standbys keep a copy of it where the server can do that.
    let more = if facts.server.version >= 170_000 {
        "false, false, true"
    } else {
        "false, false"
    };
    Step {
        makes: format!("slot {}", settings.slot),
        sql: format!(
            "SELECT pg_create_logical_replication_slot('{}', 'pgoutput', {more})",
            settings.slot.replace('\'', "''")
        ),
    }
}

/// It waited for others in vain.
pub(super) fn still_open(what: &str) -> Error {
    Error::fatal(
        format!("{what} could not be made: transactions that began earlier are still open"),
        "end them, or try again later: SELECT pid, usename, application_name, xact_start FROM pg_stat_activity WHERE \
         backend_xid IS NOT NULL ORDER BY xact_start;",
    )
}

async fn position_of(
    session: &Session,
    settings: &Settings,
    facts: &Facts,
) -> Result<(Lsn, Identity), Error> {
    let slot = facts::slot(session, settings).await?;
    let Some(slot) = slot else {
        return Err(Error::fatal(
            format!("slot {} does not exist", settings.slot),
            "run `headwater init`, or name the right slot in source.slot",
        ));
    };
    resume::fit_slot(&slot, settings)?;
    let Some(position) = slot.confirmed else {
        return Err(Error::transient(format!(
            "slot {} is still being made",
            settings.slot
        )));
    };
    let mut gate = Gate::open(settings, &settings.slot, position).await?;
    let system = gate.identify().await?;
    let identity = Identity {
        system: system.identifier,
        timeline: system.timeline,
        database: settings.database.clone(),
        slot: settings.slot.clone(),
        publication: facts
            .publication
            .as_ref()
            .map(|publication| publication.oid),
        table: facts.table.as_ref().map(|table| table.oid),
    };
    Ok((position, identity))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::super::facts::{self, PublicationFacts, SlotFacts, TableFacts};
    use super::*;
    use crate::{Server, Tls};

    pub fn settings() -> Settings {
        Settings {
            name: "shop".into(),
            servers: vec![Server {
                host: "localhost".into(),
                port: 5432,
            }],
            tls: Tls::disabled(),
            user: "cdc".into(),
            password: Arc::new(|| Ok(None)),
            database: "shop".into(),
            schema: "eventlog".into(),
            table: "events".into(),
            slot: "headwater_shop".into(),
            publication: "headwater_shop".into(),
            silence_timeout: Duration::from_secs(30),
        }
    }

    /// A server with everything that `init` makes.
    pub fn sound() -> Facts {
        Facts {
            server: facts::Server {
                version: 170_012,
                wal_level: "logical".into(),
                is_standby: false,
                max_slots: 10,
                slots: 1,
                max_senders: 10,
                senders: 0,
                max_slot_wal_keep_mb: -1,
                end: None,
                holder: None,
            },
            table: Some(TableFacts {
                oid: 7,
                kind: "r".into(),
                persistence: "p".into(),
                columns: Role::ALL.map(|role| role.name().to_owned()).to_vec(),
                partition_keys: Vec::new(),
                may_select: true,
            }),
            publication: Some(PublicationFacts {
                oid: 8,
                insert: true,
                via_root: true,
                has_table: true,
                filters: vec!["(event_type IS NOT NULL)".into()],
                ..PublicationFacts::default()
            }),
            slot: Some(SlotFacts {
                plugin: Some("pgoutput".into()),
                kind: "logical".into(),
                database: Some("shop".into()),
                confirmed: Some(Lsn(100)),
                wal_status: Some("reserved".into()),
                ..SlotFacts::default()
            }),
        }
    }

    pub fn table(facts: &mut Facts) -> &mut TableFacts {
        facts.table.as_mut().expect("sound")
    }

    pub fn publication(facts: &mut Facts) -> &mut PublicationFacts {
        facts.publication.as_mut().expect("sound")
    }

    pub fn slot(facts: &mut Facts) -> &mut SlotFacts {
        facts.slot.as_mut().expect("sound")
    }

    fn sql(change: impl FnOnce(&mut Facts)) -> Result<Vec<String>, Error> {
        let mut facts = sound();
        change(&mut facts);
        let steps = plan(&settings(), &facts)?;
        Ok(steps.into_iter().map(|step| step.sql).collect())
    }

    #[test]
    fn nothing_is_made_twice() {
        assert_eq!(sql(|_| {}), Ok(vec![]));
    }

    #[test]
    fn the_publication_is_made_before_the_slot() {
        let nothing = |version| {
            move |facts: &mut Facts| {
                facts.server.version = version;
                facts.publication = None;
                facts.slot = None;
            }
        };
        let publication = |filter: &str| {
            format!(
                "CREATE PUBLICATION \"headwater_shop\" FOR TABLE \"eventlog\".\"events\"{filter} WITH (publish = 'insert', \
                 publish_via_partition_root = true)"
            )
        };
        let filter = " WHERE (\"event_type\" IS NOT NULL)";
        let slot = |more: &str| {
            format!(
                "SELECT pg_create_logical_replication_slot('headwater_shop', 'pgoutput', false, false{more})"
            )
        };
        let made = |filter, more| Ok(vec![publication(filter), slot(more)]);
        assert_eq!(sql(nothing(140_010)), made("", ""));
        assert_eq!(sql(nothing(150_000)), made(filter, ""));
        assert_eq!(sql(nothing(170_000)), made(filter, ", true"));
        assert_eq!(sql(|facts| facts.slot = None), Ok(vec![slot(", true")]));
    }

    #[test]
    fn what_is_there_but_cannot_be_used_is_refused() {
        for (change, says) in [
            (
                (|f| f.publication = None) as fn(&mut Facts),
                "cannot use one that is younger than itself",
            ),
            (|f| f.server.is_standby = true, "is a standby"),
            (|f| f.server.version = 130_000, "needs 14 or newer"),
            (|f| f.table = None, "is not in database shop"),
            (
                |f| slot(f).plugin = Some("wal2json".into()),
                "made for wal2json",
            ),
            (
                |f| slot(f).database = Some("other".into()),
                "belongs to database other",
            ),
        ] {
            let error = sql(change).expect_err(says);
            assert!(matches!(error, Error::Fatal { .. }), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
