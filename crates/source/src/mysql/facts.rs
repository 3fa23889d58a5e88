//! What the server says about itself, its log, our user and the table: asked once, judged elsewhere.
//!
//! Rule: reads only; works for every user that may connect: what a version does not know, or a user may not see, comes out as
//! absent.

use std::collections::HashMap;

use super::answer::{Cells, text};
use super::gtid::{GtidList, GtidSet};
use super::session::Session;
use super::verdict::Refusal;
use super::{Flavor, Layout, LayoutColumn, ident, literal, lock};
use crate::Error;

#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub server: Server,
    pub log: Log,
    pub table: Option<TableFacts>,
}

#[derive(Debug, Clone)]
pub(super) struct Server {
    pub flavor: Flavor,
    /// As it says it itself.
    pub version: String,
    /// MySQL: its uuid. MariaDB: domain and number.
    pub identity: String,
    /// Its own `server_id`.
    pub number: u32,
    variables: HashMap<String, String>,
    /// Which session holds the pipeline's lock.
    pub holder: Option<u64>,
}

/// The binlog as it is now.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    /// From the oldest to the one that is written now. `None`: our user may not ask.
    pub files: Option<Vec<File>>,
    /// MySQL: everything that was committed, and what of it is no more in the log.
    pub executed: GtidSet,
    pub purged: GtidSet,
    /// MariaDB: the same, by the last of each domain.
    pub list: GtidList,
    pub purged_list: GtidList,
    /// `binlog_do_db` and `binlog_ignore_db`: the only databases that are in it, or those that are not.
    pub only: Vec<String>,
    pub without: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub name: String,
    pub size: u64,
}

#[derive(Debug, Clone)]
pub(super) struct TableFacts {
    /// As the log names them: letter by letter.
    pub schema: String,
    pub name: String,
    /// `BASE TABLE`, `VIEW`.
    pub kind: String,
    pub engine: String,
    pub layout: Layout,
    pub may_select: bool,
}

impl Server {
    /// A setting of the whole server; in upper case, as they are compared.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.setting(name)
            .is_some_and(|found| found.eq_ignore_ascii_case(value))
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.is(name, "ON") || self.is(name, "1")
    }

    pub(super) fn amount(&self, name: &str) -> Option<f64> {
        self.setting(name)?.parse().ok()
    }

    /// Whether each transaction has a GTID by which it can be asked for.
    pub(super) fn names_transactions(&self) -> bool {
        self.flavor == Flavor::MariaDb || self.is("gtid_mode", "ON")
    }

    /// Whether what it replicates is in its own log.
    pub(super) fn passes_on(&self) -> bool {
        self.is_on("log_replica_updates") || self.is_on("log_slave_updates")
    }

    /// Whether it lets nobody write but its own replication.
    pub(super) fn is_read_only(&self) -> bool {
        self.setting("read_only")
            .is_some_and(|it| it != "OFF" && it != "0")
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.into(), value.into());
    }

    #[cfg(test)]
    pub(super) fn unset(&mut self, name: &str) {
        self.variables.remove(name);
    }

    #[cfg(test)]
    pub(super) fn sound(flavor: Flavor) -> Server {
        let mut server = Server {
            flavor,
            version: match flavor {
                Flavor::MySql => "9.7.1".into(),
                Flavor::MariaDb => "11.8.3-MariaDB".into(),
            },
            identity: "4f8a3cd2-0000-11f0-8000-000000000001".into(),
            number: 1,
            variables: HashMap::new(),
            holder: None,
        };
        for (name, value) in [
            ("log_bin", "ON"),
            ("binlog_format", "ROW"),
            ("binlog_row_image", "FULL"),
            ("binlog_row_metadata", "FULL"),
            ("gtid_mode", "ON"),
            ("read_only", "OFF"),
            ("log_slave_updates", "ON"),
            ("binlog_expire_logs_seconds", "2592000"),
        ] {
            server.set(name, value);
        }
        server
    }
}

#[cfg(test)]
impl TableFacts {
    pub(super) fn sound() -> TableFacts {
        let columns = headwater_core::event::Role::ALL.map(|role| LayoutColumn {
            name: role.name().into(),
            kind: "varchar(255)".into(),
            charset: Some("utf8mb4".into()),
        });
        TableFacts {
            schema: "eventlog".into(),
            name: "events".into(),
            kind: "BASE TABLE".into(),
            engine: "InnoDB".into(),
            layout: Layout {
                columns: columns.to_vec(),
            },
            may_select: true,
        }
    }
}

impl Facts {
    pub(super) async fn read(session: &mut Session) -> Result<Facts, Error> {
        let server = server(session).await?;
        let log = log(session, &server).await?;
        let table = table(session, &server).await?;
        Ok(Facts { server, log, table })
    }
}

const VARIABLES: [&str; 24] = [
    "binlog_expire_logs_auto_purge",
    "binlog_expire_logs_seconds",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "encrypt_binlog",
    "expire_logs_days",
    "gtid_domain_id",
    "gtid_mode",
    "gtid_strict_mode",
    "log_bin",
    "log_bin_basename",
    "log_replica_updates",
    "log_slave_updates",
    "lower_case_table_names",
    "max_allowed_packet",
    "read_only",
    "server_id",
    "server_uuid",
    "slave_max_allowed_packet",
    "super_read_only",
    "system_time_zone",
    "time_zone",
    "version",
];

pub(super) async fn server(session: &mut Session) -> Result<Server, Error> {
    let names = VARIABLES.map(literal).join(", ");
    let ask = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})");
    let answer = session.rows(&ask).await?;
    let pair = |row| Some((text(row, 0)?.to_lowercase(), text(row, 1)?));
    let variables: HashMap<String, String> = answer.rows.iter().filter_map(pair).collect();
    let get = |name: &str| variables.get(name).cloned().unwrap_or_default();
    let identity = match session.flavor() {
        Flavor::MySql => get("server_uuid"),
        Flavor::MariaDb => format!("{}-{}", get("gtid_domain_id"), get("server_id")),
    };
    Ok(Server {
        flavor: session.flavor(),
        version: session.version().to_owned(),
        identity,
        number: get("server_id").parse().unwrap_or_default(),
        variables,
        holder: lock::holder(session).await?,
    })
}

async fn log(session: &mut Session, server: &Server) -> Result<Log, Error> {
    if !server.is_on("log_bin") {
        return Ok(Log::default());
    }
    let files = files(session).await?;
    let (only, without) = match files {
        Some(_) => databases(session).await?,
        None => Default::default(),
    };
    let log = Log {
        files,
        only,
        without,
        ..Log::default()
    };
    match server.flavor {
        Flavor::MySql => {
            let ask = "SELECT @@global.gtid_executed, @@global.gtid_purged";
            let answer = session.rows(ask).await?;
            let set = |place| {
                let row = answer.rows.first();
                let text = row.and_then(|row| text(row, place)).unwrap_or_default();
                text.parse::<GtidSet>()
                    .map_err(|e| Error::transient(format!("the server answered strangely: {e}")))
            };
            Ok(Log {
                executed: set(0)?,
                purged: set(1)?,
                ..log
            })
        }
        Flavor::MariaDb => {
            let list = list(session, "SELECT @@global.gtid_binlog_pos").await?;
            let oldest = log.files.as_ref().and_then(|files| files.first());
            let purged_list = match oldest {
                Some(File { name, .. }) => {
                    let ask = format!("SELECT BINLOG_GTID_POS({}, 4)", literal(name));
                    list_or_nothing(session, &ask).await?
                }
                None => GtidList::default(),
            };
            Ok(Log {
                list,
                purged_list,
                ..log
            })
        }
    }
}

async fn list(session: &mut Session, ask: &str) -> Result<GtidList, Error> {
    let list = session.rows(ask).await?.first().unwrap_or_default();
    list.parse()
        .map_err(|e| Error::transient(format!("the server answered strangely: {e}")))
}

/// A log that was removed since its name was told has no beginning any more.
async fn list_or_nothing(session: &mut Session, ask: &str) -> Result<GtidList, Error> {
    match session.ask(ask).await? {
        Ok(answer) => {
            let list = answer.first().unwrap_or_default();
            list.parse()
                .map_err(|e| Error::transient(format!("the server answered strangely: {e}")))
        }
        Err(_) => Ok(GtidList::default()),
    }
}

/// The files of the log; `None` if our user may not ask.
pub(super) async fn files(session: &mut Session) -> Result<Option<Vec<File>>, Error> {
    let answer = match session.ask("SHOW BINARY LOGS").await? {
        Ok(answer) => answer,
        Err(Refusal {
            code: 1227 | 1045 | 1142,
            ..
        }) => return Ok(None),
        Err(refusal) => return Err(super::verdict::of(&refusal, session.settings())),
    };
    let file = |row| {
        Some(File {
            name: text(row, 0)?,
            size: text(row, 1)?.parse().ok()?,
        })
    };
    Ok(Some(answer.rows.iter().filter_map(file).collect()))
}

async fn table(session: &mut Session, server: &Server) -> Result<Option<TableFacts>, Error> {
    let settings = session.settings().clone();
    let (schema, table) = (literal(&settings.schema), literal(&settings.table));
    // A table that we have no right to at all is not shown either.
    let ask = format!(
        "SELECT table_type AS kind, engine AS engine, table_schema AS db, table_name AS name FROM information_schema.tables \
         WHERE table_schema = {schema} AND table_name = {table}"
    );
    let answer = session.rows(&ask).await?;
    let Some(row) = answer.rows.first() else {
        return Ok(None);
    };
    let try_it = format!(
        "SELECT 1 FROM {}.{} LIMIT 0",
        ident(&settings.schema),
        ident(&settings.table)
    );
    let may_select = session.ask(&try_it).await?.is_ok();
    let logged = |column| {
        let stored = answer.text(row, column).unwrap_or_default();
        // 2: the table keeps its letters, and the log has small ones.
        if server.is("lower_case_table_names", "2") {
            stored.to_lowercase()
        } else {
            stored
        }
    };
    Ok(Some(TableFacts {
        schema: logged("db"),
        name: logged("name"),
        kind: answer.text(row, "kind").unwrap_or_default(),
        engine: answer.text(row, "engine").unwrap_or_default(),
        layout: layout(session).await?,
        may_select,
    }))
}

/// The server's clock, which wrote the events' dates more likely than ours.
pub(super) async fn now(session: &mut Session) -> Result<String, Error> {
    let ask = "SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')";
    let now = session.rows(ask).await?.first();
    now.ok_or_else(|| Error::transient("the server does not tell the time"))
}

/// The table's columns as they are today.
pub(super) async fn layout(session: &mut Session) -> Result<Layout, Error> {
    let settings = session.settings();
    let ask = format!(
        "SELECT column_name AS name, column_type AS kind, character_set_name AS charset FROM information_schema.columns \
         WHERE table_schema = {} AND table_name = {} ORDER BY ordinal_position",
        literal(&settings.schema),
        literal(&settings.table)
    );
    let answer = session.rows(&ask).await?;
    let columns = answer.rows.iter().map(|row| LayoutColumn {
        name: text(row, 0).unwrap_or_default(),
        kind: text(row, 1).unwrap_or_default(),
        charset: text(row, 2),
    });
    Ok(Layout {
        columns: columns.collect(),
    })
}

/// Where the log ends now: file and offset.
pub(super) async fn end(session: &mut Session) -> Result<(String, u64), Error> {
    let status = status(session).await?;
    let place = status.and_then(|row| {
        let offset = text(&row, 1)?.parse().ok()?;
        Some((text(&row, 0)?, offset))
    });
    place.ok_or_else(|| Error::fatal("the server writes no log", super::verdict::LOG_BIN))
}

/// The only databases whose changes are in the log, and those whose are not. Only the server's options say so.
async fn databases(session: &mut Session) -> Result<(Vec<String>, Vec<String>), Error> {
    let status = status(session).await?.unwrap_or_default();
    let names = |place| {
        let names = text(&status, place).unwrap_or_default();
        let names = names.split(',').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    Ok((names(2), names(3)))
}

async fn status(session: &mut Session) -> Result<Option<Cells>, Error> {
    let statements: &[&str] = match session.flavor() {
        Flavor::MySql => &["SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"],
        Flavor::MariaDb => &["SHOW MASTER STATUS"],
    };
    for ask in statements {
        return match session.ask(ask).await? {
            Ok(answer) => Ok(answer.rows.into_iter().next()),
            // Servers before 8.2 do not know it, those from 8.4 on know only it.
            Err(Refusal { code: 1064, .. }) => continue,
            Err(refusal) => Err(super::verdict::of(&refusal, session.settings())),
        };
    }
    Err(Error::transient(
        "the server does not say where its log ends",
    ))
}
