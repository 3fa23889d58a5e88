//! A look at everything that a run needs of the database. Changes nothing.

use headwater_core::event::{Outbox, Role};
use headwater_core::finding::{Finding, Level};
use headwater_core::positions::Record;
use headwater_core::row::Table;

use super::super::facts::{self, Facts, PublicationFacts, Server, SlotFacts, TableFacts};
use super::super::position::Lsn;
use super::super::session::Session;
use super::super::strain::Strain;
use super::super::stream::{Gate, System};
use super::super::{Settings, resume, rights};
use super::standby;
use crate::Error;
use crate::keys::{self, Keys, Mend};

/// The newest major version that Headwater was tried with.
const NEWEST: i32 = 18;

/// Looks at the server, the table, the publication and the slot, and whether they can serve the remembered position.
pub async fn check(settings: &Settings, outbox: &Outbox, record: Option<&Record>) -> Vec<Finding> {
    let mut findings = Findings::default();
    match Session::open(settings).await {
        Err(error) => findings.error(error),
        Ok(session) => match Facts::read(&session, settings).await {
            Err(error) => findings.error(error),
            Ok(facts) => {
                let (all, settings) = (settings, session.settings());
                findings.server(&facts, settings);
                findings.replication(settings, &facts, record).await;
                findings.table(&facts, settings, outbox);
                findings.keys(&facts, &session).await;
                findings.publication(&facts, settings, outbox);
                findings.slot(&facts, settings);
                let standbys = standby::findings(&session, all, &facts).await;
                findings.0.extend(standbys);
            }
        },
    }
    findings.0
}

/// The same questions that a run asks before it begins.
async fn remembered(
    record: &Record,
    gate: &mut Gate,
    system: &System,
    facts: &Facts,
    settings: &Settings,
) -> Result<Lsn, Error> {
    let (then, position) = super::super::remembered(record)?;
    super::super::same_log(&then, position, gate, system, settings).await?;
    // Those that are missing are told elsewhere.
    if facts.table.is_some() && facts.publication.is_some() {
        resume::same_objects(&then, facts, settings)?;
    }
    resume::not_moved(facts.slot.as_ref(), position, settings)?;
    Ok(position)
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, what: impl Into<String>) {
        self.add(Level::Ok, what, None);
    }

    fn warning(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.add(Level::Warning, what, Some(mend.into()));
    }

    fn problem(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.add(Level::Problem, what, Some(mend.into()));
    }

    fn error(&mut self, error: Error) {
        self.0.push(error.into());
    }

    fn add(&mut self, level: Level, what: impl Into<String>, mend: Option<String>) {
        let what = what.into();
        self.0.push(Finding { level, what, mend });
    }

    fn server(&mut self, facts: &Facts, settings: &Settings) {
        let server = &facts.server;
        let major = server.version / 10_000;
        if let Err(error) = super::primary(facts) {
            return self.error(error);
        }
        self.ok(format!(
            "PostgreSQL {major}.{} at {}{}, database {}, role {}, wal_level logical",
            server.version % 10_000,
            settings.place(),
            settings.protection(),
            settings.database,
            settings.user
        ));
        if major > NEWEST {
            self.warning(
                format!("Headwater was not tried with PostgreSQL {major} yet"),
                "watch the first run",
            );
        }
        if let Some(pid) = server.holder {
            self.ok(format!(
                "an instance of this pipeline is at work (process {pid} of the server); another one will stand by"
            ));
        }
        let reading = facts.slot.as_ref().and_then(|slot| slot.active_pid);
        if reading.is_none() && server.senders >= server.max_senders {
            self.problem(
                format!(
                    "all {} replication connections (max_wal_senders) are in use",
                    server.max_senders
                ),
                "ALTER SYSTEM SET max_wal_senders = 20; then restart the server",
            );
        }
    }

    /// Trying is better than reading the role's attributes: managed services have rules of their own.
    async fn replication(&mut self, settings: &Settings, facts: &Facts, record: Option<&Record>) {
        let identified = async {
            let mut gate = Gate::open(settings, &settings.slot, Lsn(0)).await?;
            let system = gate.identify().await?;
            Ok::<_, Error>((gate, system))
        };
        let (mut gate, system) = match identified.await {
            Err(error) => return self.error(error),
            Ok(identified) => identified,
        };
        self.ok(format!(
            "role {} may replicate; system identifier {}, timeline {}",
            settings.user, system.identifier, system.timeline
        ));
        if let Some(record) = record {
            match remembered(record, &mut gate, &system, facts, settings).await {
                Ok(position) => {
                    self.ok(format!("the remembered position {position} can be resumed"));
                }
                Err(error) => self.error(error),
            }
        }
    }

    fn table(&mut self, facts: &Facts, settings: &Settings, outbox: &Outbox) {
        let table = match resume::fit_table(facts.table.as_ref(), settings) {
            Err(error) => return self.error(error),
            Ok(table) => table,
        };
        let name = settings.qualified();
        match outbox.bind(&definition(settings, table.columns.clone())) {
            Err(missing) => self.problem(
                format!("table {name} has no column {}", missing.columns.join(", ")),
                "add the column, or name the right table in source.table",
            ),
            Ok(_) => self.ok(format!("table {name} has every column of an outbox")),
        }
        let delivered = Role::Delivered.name();
        if table.partition_keys.iter().any(|key| names(key, delivered)) {
            self.warning(
                format!(
                    "table {name} is partitioned by {delivered}: an UPDATE of it moves the row to another partition, which is \
                     an INSERT in the log, and the event is published again"
                ),
                "partition by event_date instead, or let nobody update that column",
            );
        }
        if !table.may_select {
            let user = &settings.user;
            self.warning(
                format!("role {user} may not read table {name}: streaming works without, `peek` and `init` do not"),
                rights::of_a_role(settings).join(" "),
            );
        }
    }

    /// What it costs to read the table in the order of its dates.
    async fn keys(&mut self, facts: &Facts, session: &Session) {
        let settings = session.settings();
        let Ok(table) = resume::fit_table(facts.table.as_ref(), settings) else {
            return;
        };
        let roles = [Role::EventDate, Role::Id].map(Role::name);
        let has = |role: &&str| table.columns.iter().any(|column| column == role);
        if !roles.iter().all(has) {
            return;
        }
        match facts::keys(session, settings).await {
            Ok(keys) => {
                let found = keys.findings(&settings.qualified(), mend(keys, table, settings));
                self.0.extend(found);
            }
            Err(error) => self.error(error),
        }
    }

    fn publication(&mut self, facts: &Facts, settings: &Settings, outbox: &Outbox) {
        let publication = match resume::fit_publication(facts.publication.as_ref(), settings) {
            Err(error) => return self.error(error),
            Ok(publication) => publication,
        };
        let name = &settings.publication;
        self.ok(format!(
            "publication {name} publishes inserts into {}",
            settings.qualified()
        ));
        if let Some(table) = &facts.table {
            self.published_part(publication, table, settings, outbox);
        }
    }

    /// What a publication made by someone else may leave out.
    fn published_part(
        &mut self,
        publication: &PublicationFacts,
        table: &TableFacts,
        settings: &Settings,
        outbox: &Outbox,
    ) {
        let name = &settings.publication;
        let shown = table.columns.iter();
        let shown = shown.filter(|column| !publication.hidden_columns.contains(column));
        let shown = definition(settings, shown.cloned().collect());
        if let (Ok(_), Err(hidden)) = (
            outbox.bind(&definition(settings, table.columns.clone())),
            outbox.bind(&shown),
        ) {
            self.problem(
                format!(
                    "publication {name} leaves out column {}",
                    hidden.columns.join(", ")
                ),
                format!(
                    "ALTER PUBLICATION \"{name}\" SET TABLE {};",
                    settings.qualified()
                ),
            );
        }
        for filter in &publication.filters {
            self.ok(format!(
                "publication {name} publishes only rows where {filter}"
            ));
        }
        if table.is_partitioned() && !publication.via_root {
            self.warning(
                format!(
                    "publication {name} publishes partitions under their own names: rows of one that is detached before \
                     they were read stop the run"
                ),
                format!("ALTER PUBLICATION \"{name}\" SET (publish_via_partition_root = true);"),
            );
        }
    }

    fn slot(&mut self, facts: &Facts, settings: &Settings) {
        let name = &settings.slot;
        let server = &facts.server;
        let Some(slot) = &facts.slot else {
            self.problem(
                format!("slot {name} does not exist"),
                "run `headwater init`",
            );
            if server.slots >= server.max_slots {
                self.problem(
                    format!(
                        "all {} slots (max_replication_slots) are in use",
                        server.max_slots
                    ),
                    "ALTER SYSTEM SET max_replication_slots = 20; then restart the server",
                );
            }
            return;
        };
        match resume::fit_slot(slot, settings).and_then(|()| resume::free(slot, settings)) {
            Err(Error::Transient(what)) => self.ok(what),
            Err(fatal) => return self.error(fatal),
            Ok(()) => {}
        }
        self.retained(slot, server, settings);
    }

    fn retained(&mut self, slot: &SlotFacts, server: &Server, settings: &Settings) {
        let name = &settings.slot;
        let confirmed = slot
            .confirmed
            .map_or_else(String::new, |lsn| format!(" at {lsn}"));
        let bytes = slot.retained_bytes.unwrap_or_default();
        let mib = bytes / (1024 * 1024);
        self.ok(format!(
            "slot {name} stands{confirmed}; the server keeps {mib} MiB of log for it"
        ));
        let strain = Strain::of(slot, server);
        if let Some((what, mend)) = strain.told(slot, server, settings) {
            self.warning(what, mend);
        }
    }
}

/// The statements that give the table its keys.
fn mend(keys: Keys, table: &TableFacts, settings: &Settings) -> Mend {
    let (name, order) = (settings.qualified(), keys::order());
    // Partitions are not indexed one by one while others write.
    let concurrently = if table.is_partitioned() {
        ""
    } else {
        " CONCURRENTLY"
    };
    Mend {
        unique: key_columns(table)
            .map(|columns| format!("ALTER TABLE {name} ADD {} ({columns});", keys.kind_to_add())),
        ordered: format!("CREATE INDEX{concurrently} ON {name} ({order});"),
    }
}

/// A key of a partitioned table has the columns by which it is partitioned: if these are others, or none, it says nothing of dates and ids.
fn key_columns(table: &TableFacts) -> Option<String> {
    let mut columns = vec![Role::Id.name()];
    for key in &table.partition_keys {
        let (_, named) = key.split_once('(')?;
        for name in named.strip_suffix(')')?.split(',').map(str::trim) {
            let of_the_order = [Role::Id, Role::EventDate].map(Role::name);
            let name = of_the_order.into_iter().find(|it| *it == name)?;
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
    }
    Some(columns.join(", "))
}

/// Whether a partition key, as the server writes it, has this column.
fn names(key: &str, column: &str) -> bool {
    key.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == column)
}

fn definition(settings: &Settings, columns: Vec<String>) -> Table {
    Table {
        schema: settings.schema.clone(),
        name: settings.table.clone(),
        columns,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::Server;
    use super::super::tests::{publication, settings, slot, sound, table};
    use super::*;

    fn found(facts: &Facts) -> Vec<(Level, String)> {
        let mut findings = Findings::default();
        let (settings, outbox) = (settings(), Outbox::ekbatan());
        findings.server(facts, &settings);
        findings.table(facts, &settings, &outbox);
        findings.publication(facts, &settings, &outbox);
        findings.slot(facts, &settings);
        let findings = findings.0.into_iter();
        findings.map(|f| (f.level, f.what)).collect()
    }

    /// What is found besides what is fine.
    fn troubles(change: impl FnOnce(&mut Facts)) -> Vec<(Level, String)> {
        let mut facts = sound();
        change(&mut facts);
        let mut found = found(&facts);
        found.retain(|(level, _)| *level != Level::Ok);
        found
    }

    fn one(level: Level, what: &str, change: impl FnOnce(&mut Facts)) {
        let troubles = troubles(change);
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        assert_eq!(troubles[0].0, level);
        assert!(troubles[0].1.contains(what), "{}", troubles[0].1);
    }

    #[test]
    fn a_sound_database_has_no_trouble() {
        assert_eq!(troubles(|_| {}), []);
    }

    #[test]
    fn what_lacks_is_a_problem() {
        use Level::Problem;
        one(Problem, "publication headwater_shop does not exist", |f| {
            f.publication = None;
        });
        one(Problem, "slot headwater_shop does not exist", |f| {
            f.slot = None;
        });
        one(Problem, "is a standby", |f| f.server.is_standby = true);
        one(Problem, "wal_level is replica", |f| {
            f.server.wal_level = "replica".into();
        });
        one(Problem, "has no column delivered", |f| {
            table(f).columns.retain(|column| column != "delivered");
        });
        one(Problem, "leaves out column payload", |f| {
            publication(f).hidden_columns = vec!["payload".into(), "extra".into()];
        });
        one(Problem, "all 10 replication connections", |f| {
            f.server.senders = 10;
        });
    }

    #[test]
    fn a_full_server_has_no_room_for_a_new_slot() {
        let troubles = troubles(|f| {
            f.slot = None;
            f.server.slots = f.server.max_slots;
        });
        assert_eq!(troubles.len(), 2);
        assert!(troubles[1].1.contains("all 10 slots"));
    }

    #[test]
    fn what_works_but_could_be_better_is_a_warning() {
        use Level::Warning;
        one(Warning, "not tried with PostgreSQL 19", |f| {
            f.server.version = 190_001;
        });
        one(Warning, "may not read table", |f| {
            table(f).may_select = false;
        });
        one(Warning, "under their own names", |f| {
            table(f).kind = "p".into();
            publication(f).via_root = false;
        });
        one(Warning, "is partitioned by delivered", |f| {
            let keys = ["RANGE (event_date)", "LIST (lower(model_type), delivered)"];
            table(f).partition_keys = keys.map(str::to_owned).to_vec();
        });
        one(Warning, "about to remove log", |f| {
            slot(f).wal_status = Some("unreserved".into());
        });
        one(Warning, "holds back 600 MiB", |f| {
            f.server.max_slot_wal_keep_mb = 1000;
            slot(f).retained_bytes = Some(600 * 1024 * 1024);
        });
        one(Warning, "nothing limits it", |f| {
            slot(f).wal_status = Some("extended".into());
        });
    }

    #[test]
    fn a_key_of_a_partitioned_table_has_the_columns_that_it_is_partitioned_by_or_says_nothing() {
        let key = |partition_keys: &[&str]| {
            let mut facts = sound();
            let keys = partition_keys.iter();
            table(&mut facts).partition_keys = keys.map(|it| (*it).to_owned()).collect();
            key_columns(table(&mut facts))
        };
        assert_eq!(key(&[]).as_deref(), Some("id"));
        assert_eq!(
            key(&["RANGE (event_date)"]).as_deref(),
            Some("id, event_date")
        );
        let twice = ["RANGE (event_date)", "LIST (id)"];
        assert_eq!(key(&twice).as_deref(), Some("id, event_date"));
        assert_eq!(key(&["RANGE (event_date, id)", "LIST (namespace)"]), None);
        assert_eq!(key(&["LIST (lower((namespace)::text))"]), None);
    }

    #[test]
    fn a_running_instance_is_fine() {
        assert_eq!(
            troubles(|f| {
                f.server = Server {
                    holder: Some(42),
                    senders: 10,
                    ..f.server.clone()
                };
                slot(f).active_pid = Some(43);
                slot(f).active_application = Some("headwater shop".into());
            }),
            []
        );
    }
}
