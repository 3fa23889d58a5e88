//! A look at everything that a run needs of the database. Changes nothing.

mod access;

use headwater_core::event::{Outbox, Role};
use headwater_core::finding::{Finding, Level};
use headwater_core::positions::Record;
use headwater_core::row::Table;

use super::super::facts::{Facts, Log, Server, TableFacts};
use super::super::gtid::Gtids;
use super::super::keeping::{self, told};
use super::super::position::{Identity, Position};
use super::super::resume::{self, version};
use super::super::session::Session;
use super::super::{Flavor, Settings, indexes, rights};
use crate::Error;
use crate::keys::{self, Mend};

/// The newest versions that Headwater was tried with.
const NEWEST_MYSQL: (u32, u32) = (9, 7);
const NEWEST_MARIADB: (u32, u32) = (11, 8);

/// A log that goes sooner than a long weekend is over is a risk.
const SHORT: f64 = 3.0 * 86_400.0;

/// Looks at the server, its log, our rights and the table, and whether they can serve the remembered position.
pub async fn check(settings: &Settings, outbox: &Outbox, record: Option<&Record>) -> Vec<Finding> {
    let mut findings = Findings::default();
    if let Err(error) = findings.look(settings, outbox, record).await {
        findings.error(error);
    }
    findings.0
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

    async fn look(
        &mut self,
        settings: &Settings,
        outbox: &Outbox,
        record: Option<&Record>,
    ) -> Result<(), Error> {
        let mut session = Session::open(settings).await?;
        let facts = Facts::read(&mut session).await?;
        let settings = &session.settings().clone();
        let now = session.rows("SELECT UNIX_TIMESTAMP()").await?.first();
        let now = now.and_then(|now| now.parse().ok()).unwrap_or(0);
        self.server(&facts, settings);
        let remembered = record.map(super::super::remembered).transpose();
        match remembered {
            Err(error) => self.error(error),
            Ok(remembered) => {
                let layout = remembered.as_ref().and_then(|(it, _)| it.layout.as_ref());
                let position = remembered.as_ref().map(|(_, position)| position);
                self.form(&facts.server, position, layout.is_some());
                if let Some((then, position)) = &remembered {
                    self.position(then, position, &facts, settings);
                    self.lag(position, &facts, now);
                }
            }
        }
        self.keeping(&facts.server);
        self.rights(&mut session, settings).await;
        if record.is_none_or(|record| record.snapshot.is_some()) {
            self.locking(&mut session, &facts, settings).await?;
        }
        self.number(&mut session, settings).await?;
        self.table(&facts, settings, outbox);
        self.keys(&mut session, &facts).await?;
        self.clock(&facts.server);
        session.close().await;
        Ok(())
    }

    fn server(&mut self, facts: &Facts, settings: &Settings) {
        let server = &facts.server;
        if let Err(error) = resume::fit_server(facts, settings) {
            self.error(error);
        } else {
            self.ok(format!(
                "{} {} at {}{}, user {}, binlog_format ROW",
                server.flavor,
                server.version,
                settings.place(),
                settings.protection(),
                settings.user
            ));
        }
        let newest = match server.flavor {
            Flavor::MySql => NEWEST_MYSQL,
            Flavor::MariaDb => NEWEST_MARIADB,
        };
        if version(&server.version) > newest {
            self.warning(
                format!(
                    "Headwater was not tried with {} {} yet",
                    server.flavor, server.version
                ),
                "watch the first run",
            );
        }
        if let Some(id) = server.holder {
            self.ok(format!(
                "an instance of this pipeline is at work (session {id} of the server); another one will stand by"
            ));
        }
        if let Some(image) = server.setting("binlog_row_image")
            && !image.eq_ignore_ascii_case("FULL")
        {
            self.warning(
                format!(
                    "binlog_row_image is {image}: an insert that leaves out a column of the outbox leaves it out of the log too, \
                     and the run stops at such a row"
                ),
                "SET GLOBAL binlog_row_image = 'FULL'; (and in my.cnf), or let every insert name all columns",
            );
        }
    }

    /// What the log says of columns and transactions.
    fn form(&mut self, server: &Server, remembered: Option<&Position>, layout: bool) {
        let full = "SET GLOBAL binlog_row_metadata = 'FULL'; (and in my.cnf)";
        let metadata = server.setting("binlog_row_metadata");
        match metadata {
            Some("FULL") => self.ok("binlog_row_metadata is FULL: the log names the columns"),
            _ if remembered.is_some() && !layout => self.problem(
                "binlog_row_metadata is not FULL, as it was when the pipeline began: the log does not name the columns",
                full,
            ),
            _ => self.warning(
                "binlog_row_metadata is not FULL: the log does not name the columns. `init` remembers them, and any ALTER TABLE of \
                 the outbox stops the run",
                full,
            ),
        }
        match server.flavor {
            Flavor::MySql if server.names_transactions() => {
                match remembered.filter(|position| position.gtids.is_none()) {
                    None => self.ok("gtid_mode is ON: a failover can be followed"),
                    Some(position) => self.warning(
                        format!(
                            "gtid_mode is ON, but the remembered position {position} has no GTIDs, for the pipeline began without: it \
                             means nothing on another server"
                        ),
                        "let everything be read, stop Headwater while nobody writes to the outbox, and take the same place by its \
                         GTIDs with `headwater adopt`: nothing is passed over then",
                    ),
                }
            }
            Flavor::MySql => self.warning(
                format!(
                    "gtid_mode is {}: positions are files and offsets, which mean nothing on another server",
                    server.setting("gtid_mode").unwrap_or("OFF")
                ),
                "SET GLOBAL enforce_gtid_consistency = ON; SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = \
                 ON_PERMISSIVE; SET GLOBAL gtid_mode = ON; (and in my.cnf)",
            ),
            Flavor::MariaDb if server.is_on("gtid_strict_mode") => {
                self.ok("gtid_strict_mode is ON: a failover can be followed");
            }
            Flavor::MariaDb => self.warning(
                "gtid_strict_mode is OFF: a server can write transactions that its primary never had, and a failover would then \
                 be taken for granted",
                "SET GLOBAL gtid_strict_mode = ON; (and in my.cnf)",
            ),
        }
    }

    fn position(
        &mut self,
        then: &Identity,
        position: &Position,
        facts: &Facts,
        settings: &Settings,
    ) {
        match resume::start(then, position, facts, settings) {
            Ok(_) => self.ok(format!("the remembered position {position} can be resumed")),
            Err(error) => self.error(error),
        }
    }

    /// How long the log is kept.
    fn keeping(&mut self, server: &Server) {
        match keeping::time(server) {
            None => self.ok("the server keeps its logs for ever"),
            Some(seconds) if seconds < SHORT => self.warning(
                format!(
                    "the server keeps its logs for {}: a pipeline that is stopped for longer loses events",
                    told(seconds)
                ),
                "SET GLOBAL binlog_expire_logs_seconds = 604800; (and in my.cnf)",
            ),
            Some(seconds) => self.ok(format!("the server keeps its logs for {}", told(seconds))),
        }
    }

    /// How long ago what is not read yet was committed, at most.
    fn lag(&mut self, position: &Position, facts: &Facts, now: i64) {
        let (Some(newest), Some(keep)) = (&position.last, keeping::time(&facts.server)) else {
            return;
        };
        let committed = newest.committed / 1_000_000;
        if is_all_read(position, &facts.log) || committed == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "seconds, for a sentence")]
        let behind = now.saturating_sub(committed) as f64;
        if behind > keep / 2.0 {
            self.warning(
                format!(
                    "what was read last was committed {} ago, and the server keeps its logs for {}",
                    told(behind),
                    told(keep)
                ),
                format!(
                    "let it catch up soon, or: {}",
                    keeping::longer(&facts.server)
                ),
            );
        }
    }

    fn table(&mut self, facts: &Facts, settings: &Settings, outbox: &Outbox) {
        let table = match resume::fit_table(facts.table.as_ref(), settings) {
            Err(error) => return self.error(error),
            Ok(table) => table,
        };
        let name = settings.qualified();
        let columns = table.layout.columns.iter();
        let definition = Table {
            schema: settings.schema.clone(),
            name: settings.table.clone(),
            columns: columns.map(|column| column.name.clone()).collect(),
        };
        match outbox.bind(&definition) {
            Err(missing) => self.problem(
                format!("table {name} has no column {}", missing.columns.join(", ")),
                "add the column, or name the right table in source.table",
            ),
            Ok(_) => self.ok(format!("table {name} has every column of an outbox")),
        }
        self.dates(table, settings);
        if !table.engine.eq_ignore_ascii_case("InnoDB") {
            self.warning(
                format!(
                    "table {name} is in engine {}, which does not roll back: a row of a transaction that failed stays, and is \
                     published",
                    table.engine
                ),
                format!("ALTER TABLE {name} ENGINE = InnoDB;"),
            );
        }
        if !table.may_select {
            let [_, select] = rights::of_a_user(settings);
            self.warning(
                format!(
                    "user {} may not read table {name}: streaming works without, `peek` and `init` do not",
                    settings.user
                ),
                select,
            );
        }
    }

    /// What it costs to read the table in the order of its dates.
    async fn keys(&mut self, session: &mut Session, facts: &Facts) -> Result<(), Error> {
        let settings = session.settings().clone();
        let table = resume::fit_table(facts.table.as_ref(), &settings);
        if !table.is_ok_and(|table| table.may_select) {
            return Ok(());
        }
        let (name, order) = (settings.qualified(), keys::order());
        let keys = indexes::keys(session).await?;
        let mend = Mend {
            unique: Some(format!(
                "ALTER TABLE {name} ADD {} ({});",
                keys.kind_to_add(),
                Role::Id.name()
            )),
            ordered: format!("CREATE INDEX events_in_order ON {name} ({order});"),
        };
        self.0.extend(keys.findings(&name, mend));
        Ok(())
    }

    fn dates(&mut self, table: &TableFacts, settings: &Settings) {
        let roles = [Role::StartedDate, Role::CompletionDate, Role::EventDate];
        for role in roles {
            let column = table
                .layout
                .columns
                .iter()
                .find(|it| it.name == role.name());
            let Some(column) = column else { continue };
            let (name, kind) = (&column.name, &column.kind);
            let dated = ["datetime", "timestamp", "date"];
            if !dated.iter().any(|it| kind.to_lowercase().starts_with(it)) {
                self.problem(
                    format!("column {name} is {kind}, which is no date: no row could be published"),
                    format!(
                        "ALTER TABLE {} MODIFY {name} DATETIME(6) NOT NULL;",
                        settings.qualified()
                    ),
                );
            } else if kind.eq_ignore_ascii_case("datetime")
                || kind.eq_ignore_ascii_case("timestamp")
            {
                self.warning(
                    format!("column {name} is {kind}: the server rounds it to whole seconds"),
                    format!(
                        "ALTER TABLE {} MODIFY {name} DATETIME(6) NOT NULL;",
                        settings.qualified()
                    ),
                );
            }
        }
    }

    /// Dates are written without a zone and taken for UTC.
    fn clock(&mut self, server: &Server) {
        let zone = match server.setting("time_zone") {
            Some("SYSTEM") | None => server.setting("system_time_zone").unwrap_or("unknown"),
            Some(zone) => zone,
        };
        if ["UTC", "+00:00", "GMT", "Etc/UTC", "UCT", "Universal"].contains(&zone) {
            self.ok("the server's clock zone is UTC");
        } else {
            self.warning(
                format!(
                    "the server's clock zone is {zone}: dates are taken for UTC, so what NOW() writes is off by the zone"
                ),
                "SET GLOBAL time_zone = '+00:00'; (and in my.cnf), or let the application write UTC (UTC_TIMESTAMP(6))",
            );
        }
    }
}

/// Whether nothing was committed behind the position.
fn is_all_read(position: &Position, log: &Log) -> bool {
    match &position.gtids {
        Gtids::MySql(set) => set.includes(&log.executed),
        Gtids::MariaDb(list) => *list == log.list,
        Gtids::None => {
            let last = log.files.as_ref().and_then(|files| files.last());
            last.is_some_and(|last| *last.name == *position.file && last.size <= position.offset)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{settings, sound};
    use super::*;

    fn troubles(flavor: Flavor, change: impl FnOnce(&mut Facts)) -> Vec<(Level, String)> {
        let mut facts = sound(flavor);
        facts.server.set("time_zone", "+00:00");
        facts.server.set("gtid_strict_mode", "ON");
        let columns = facts.table.iter_mut().flat_map(|it| &mut it.layout.columns);
        for column in columns.filter(|it| it.name.ends_with("_date")) {
            column.kind = "datetime(6)".into();
        }
        change(&mut facts);
        let mut findings = Findings::default();
        let settings = Settings {
            flavor,
            ..settings()
        };
        findings.server(&facts, &settings);
        findings.form(&facts.server, None, false);
        findings.keeping(&facts.server);
        findings.table(&facts, &settings, &Outbox::ekbatan());
        findings.clock(&facts.server);
        let found = findings.0.into_iter().map(|it| (it.level, it.what));
        found.filter(|(level, _)| *level != Level::Ok).collect()
    }

    fn one(level: Level, what: &str, change: impl FnOnce(&mut Facts)) {
        let troubles = troubles(Flavor::MySql, change);
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        assert_eq!(troubles[0].0, level);
        assert!(troubles[0].1.contains(what), "{}", troubles[0].1);
    }

    fn table(facts: &mut Facts) -> &mut TableFacts {
        facts.table.as_mut().expect("sound")
    }

    #[test]
    fn a_sound_server_has_no_trouble() {
        assert_eq!(troubles(Flavor::MySql, |_| {}), []);
        assert_eq!(troubles(Flavor::MariaDb, |_| {}), []);
    }

    #[test]
    fn what_lacks_is_a_problem() {
        use Level::Problem;
        one(Problem, "log_bin is off", |f| {
            f.server.set("log_bin", "OFF");
        });
        one(Problem, "binlog_format is MIXED", |f| {
            f.server.set("binlog_format", "MIXED");
        });
        one(Problem, "is not on this server", |f| f.table = None);
        one(Problem, "is no table (view)", |f| {
            table(f).kind = "VIEW".into();
        });
        one(Problem, "has no column delivered", |f| {
            table(f)
                .layout
                .columns
                .retain(|column| column.name != "delivered");
        });
        one(Problem, "which is no date", |f| {
            let column = table(f)
                .layout
                .columns
                .iter_mut()
                .find(|it| it.name == "event_date");
            column.expect("there").kind = "varchar(20)".into();
        });
        one(Problem, "does not write what it replicates", |f| {
            f.server.set("read_only", "ON");
            f.server.set("log_slave_updates", "OFF");
        });
        one(Problem, "may not see the files of the log", |f| {
            f.log.files = None;
        });
        one(Problem, "binlog_ignore_db is eventlog", |f| {
            f.log.without = vec!["eventlog".into()];
        });
        one(Problem, "the server's log says eventlog.Events", |f| {
            table(f).name = "Events".into();
        });
    }

    #[test]
    fn what_works_but_could_be_better_is_a_warning() {
        use Level::Warning;
        one(Warning, "was not tried with MySQL 10.0", |f| {
            f.server.version = "10.0.1".into();
        });
        one(Warning, "gtid_mode is OFF", |f| {
            f.server.set("gtid_mode", "OFF");
        });
        one(Warning, "binlog_row_metadata is not FULL", |f| {
            f.server.set("binlog_row_metadata", "MINIMAL");
        });
        one(Warning, "binlog_row_image is MINIMAL", |f| {
            f.server.set("binlog_row_image", "MINIMAL");
        });
        one(Warning, "for 10 hours", |f| {
            f.server.set("binlog_expire_logs_seconds", "36000");
        });
        one(Warning, "clock zone is CET", |f| {
            f.server.set("time_zone", "SYSTEM");
            f.server.set("system_time_zone", "CET");
        });
        one(Warning, "is in engine MyISAM", |f| {
            table(f).engine = "MyISAM".into();
        });
        one(Warning, "may not read table", |f| {
            table(f).may_select = false;
        });
        let troubles = troubles(Flavor::MariaDb, |f| f.server.set("gtid_strict_mode", "OFF"));
        assert!(troubles[0].1.contains("gtid_strict_mode is OFF"));
    }

    fn by_place(offset: u64) -> Position {
        Position::new(Gtids::None, "binlog.000001", offset)
    }

    #[test]
    fn a_position_from_before_gtids_follows_no_failover() {
        let server = sound(Flavor::MySql).server;
        let found = |position: &Position| {
            let mut findings = Findings::default();
            findings.form(&server, Some(position), false);
            findings.0.pop().expect("one about GTIDs")
        };
        let named = Position {
            gtids: Gtids::MySql(
                "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
                    .parse()
                    .expect("a set"),
            ),
            ..by_place(1000)
        };
        assert_eq!(found(&named).level, Level::Ok);
        let nameless = found(&by_place(1000));
        assert_eq!(nameless.level, Level::Warning);
        assert!(
            nameless
                .mend
                .is_some_and(|it| it.contains("headwater adopt"))
        );
    }

    #[test]
    fn without_gtids_all_is_read_at_the_end_of_the_last_file() {
        let log = sound(Flavor::MySql).log;
        assert!(is_all_read(&by_place(1000), &log));
        assert!(!is_all_read(&by_place(999), &log));
        let elsewhere = Position::new(Gtids::None, "binlog.000002", 1000);
        assert!(!is_all_read(&elsewhere, &log));
    }
}
