//! What `[source]` means: which database, and how it is reached.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use headwater_source::TlsMode;
use headwater_source::mysql::Flavor;

use super::{is_plain, password};
use crate::config::problem::{Located, Place};
use crate::config::secret::Password;
use crate::config::url::{self, Address, Host, Listening, MySqlAddress, PostgresAddress};
use crate::config::written::Written;

/// The server is asked to ping every few seconds; less silence than two pings and some network is no silence.
const LEAST_SILENCE: Duration = Duration::from_secs(12);

#[derive(Clone, Debug)]
pub struct Source {
    pub database: Database,
    pub table: TableName,
    /// Absent: allowed while the table holds no events.
    pub snapshot: Option<Snapshot>,
}

#[derive(Clone, Debug)]
pub enum Database {
    Postgres(Box<Postgres>),
    MySql(Box<MySql>),
    Sqlite(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Postgres {
    /// At least one.
    pub servers: Vec<Listening>,
    pub tls: Tls,
    pub user: String,
    pub password: Password,
    pub database: String,
    pub slot: String,
    pub publication: String,
    pub silence_timeout: Duration,
}

impl fmt::Display for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            servers,
            user,
            database,
            ..
        } = self;
        let password = match self.password {
            Password::Literal(_) => ":***",
            _ => "",
        };
        if let [Listening { host, port }] = servers.as_slice()
            && let Host::Socket(_) = host
        {
            return write!(
                f,
                "postgres://{user}{password}@:{port}/{database}?host={host}"
            );
        }
        write!(f, "postgres://{user}{password}@")?;
        for (place, server) in servers.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{server}")?;
        }
        write!(f, "/{database}")
    }
}

#[derive(Clone, Debug)]
pub struct MySql {
    pub flavor: Flavor,
    /// At least one.
    pub servers: Vec<Listening>,
    pub tls: Tls,
    pub user: String,
    pub password: Password,
    pub server_id: u32,
    pub silence_timeout: Duration,
}

/// How connections are protected; the files are read by whoever connects.
#[derive(Clone, Debug)]
pub struct Tls {
    pub mode: Located<TlsMode>,
    pub ca: Option<Located<PathBuf>>,
    /// Headwater's own certificate, and its key.
    pub own: Option<(Located<PathBuf>, Located<PathBuf>)>,
}

/// As the database spells it; the schema (MySQL's database) is absent on SQLite only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    pub schema: Option<String>,
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}

/// What happens to rows that are already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// They are published first, once.
    Initial,
    /// They are published, and nothing else.
    Only,
    Never,
}

pub(super) fn check(written: &mut Written, name: Option<&str>) -> Option<Source> {
    let words = [
        ("initial", Snapshot::Initial),
        ("never", Snapshot::Never),
        ("only", Snapshot::Only),
    ];
    let snapshot = written.word("source.snapshot", &words);
    let url = written.text("source.url")?;
    let (database, table) = match url::parse(url.value()) {
        Ok(Address::Postgres(address)) => {
            let table = postgres_table(written);
            let database = postgres(written, &url, address, name);
            (database.map(|it| Database::Postgres(Box::new(it))), table)
        }
        Ok(Address::MySql(address)) => {
            let table = mysql_table(written, &url, address.database.as_deref());
            let database = mysql(written, &url, address, name);
            (database.map(|it| Database::MySql(Box::new(it))), table)
        }
        Ok(Address::Sqlite(path)) => {
            let path = written.folder().join(path);
            (Some(Database::Sqlite(path)), sqlite(written))
        }
        Err(what) => {
            written.refuse(url.place(), url.key(), what);
            return None;
        }
    };
    Some(Source {
        database: database?,
        table: table?,
        snapshot,
    })
}

fn postgres(
    written: &mut Written,
    url: &Located<String>,
    address: PostgresAddress,
    name: Option<&str>,
) -> Option<Postgres> {
    let tls = tls(written, &address.servers);
    let in_url = address.password.map(|it| (url.place().clone(), it));
    let password = password::check(written, &password::SOURCE, in_url);
    let slot = slot(written, name);
    let publication = publication(written, name);
    let silence = silence(written);
    written.contradict(
        &["source.server_id"],
        "means nothing with PostgreSQL, which source.url names; remove it",
    );
    Some(Postgres {
        servers: address.servers,
        tls: tls?,
        user: address.user,
        password,
        database: address.database,
        slot: slot?,
        publication: publication?,
        silence_timeout: silence?,
    })
}

fn silence(written: &mut Written) -> Option<Duration> {
    let found = written.duration("source.silence_timeout")?;
    let what = "is too short; at least \"12s\" is wanted, because the server is asked to ping \
                every few seconds";
    let holds = *found.value() >= LEAST_SILENCE;
    written
        .rule(&found, holds, what)
        .then(|| found.into_value())
}

fn mysql(
    written: &mut Written,
    url: &Located<String>,
    address: MySqlAddress,
    name: Option<&str>,
) -> Option<MySql> {
    let tls = tls(written, &address.servers);
    let in_url = address.password.map(|it| (url.place().clone(), it));
    let password = password::check(written, &password::SOURCE, in_url);
    let server_id = match written.given("source.server_id") {
        Some(_) => written.integer("source.server_id", 1..=u32::MAX),
        None => name.map(server_id),
    };
    let silence = silence(written);
    written.contradict(
        &["source.slot", "source.publication"],
        "means nothing with MySQL and MariaDB, which have none; remove it",
    );
    Some(MySql {
        flavor: address.flavor,
        servers: address.servers,
        tls: tls?,
        user: address.user,
        password,
        server_id: server_id?,
        silence_timeout: silence?,
    })
}

/// A number that no other replica of the server is likely to have: the name's FNV-1a hash, in the second quarter of what is possible.
fn server_id(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    1 << 30 | hash >> 2
}

const TLS_MODES: [(&str, TlsMode); 4] = [
    ("disable", TlsMode::Disable),
    ("require", TlsMode::Require),
    ("verify-ca", TlsMode::VerifyCa),
    ("verify-full", TlsMode::VerifyFull),
];

fn tls(written: &mut Written, servers: &[Listening]) -> Option<Tls> {
    let here = servers.iter().all(|server| server.host.is_local());
    let default = if here {
        TlsMode::Disable
    } else {
        TlsMode::VerifyFull
    };
    let said = written.given("source.tls.mode");
    let mode = match &said {
        Some(_) => written.word("source.tls.mode", &TLS_MODES)?,
        None => default,
    };
    let socket = |server: &Listening| matches!(server.host, Host::Socket(_));
    if let Some(place) = &said
        && mode != TlsMode::Disable
        && servers.iter().all(socket)
    {
        let what = "means nothing for a Unix socket, which source.url names; remove it";
        written.refuse(place, "source.tls.mode", what);
    }
    files_that_count(written, mode);
    let ca = written.located_path("source.tls.ca");
    let cert = written.located_path("source.tls.cert");
    let key = written.located_path("source.tls.key");
    let own = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (Some(cert), None) => {
            let what = "is a certificate without its key; source.tls.key is wanted too";
            written.rule(&cert, false, what);
            None
        }
        (None, Some(key)) => {
            let what = "is a key without its certificate; source.tls.cert is wanted too";
            written.rule(&key, false, what);
            None
        }
        (None, None) => None,
    };
    let place = said.unwrap_or(Place::Default);
    let mode = Located::new("source.tls.mode", place, mode);
    Some(Tls { mode, ca, own })
}

/// A file that nobody looks at would make believe that it protects.
fn files_that_count(written: &mut Written, mode: TlsMode) {
    match mode {
        TlsMode::Disable => written.contradict(
            &["source.tls.ca", "source.tls.cert", "source.tls.key"],
            "means nothing without TLS; set source.tls.mode (which is \"disable\" for this machine unless it is \
             given), or remove it",
        ),
        TlsMode::Require => written.contradict(
            &["source.tls.ca"],
            "is not looked at with source.tls.mode = \"require\", which accepts any certificate; \"verify-ca\" or \
             \"verify-full\" is wanted, or remove it",
        ),
        TlsMode::VerifyCa | TlsMode::VerifyFull => {}
    }
}

fn slot(written: &mut Written, name: Option<&str>) -> Option<String> {
    let default = name.map(|name| format!("headwater_{name}"));
    let slot = written.text_or("source.slot", default)?;
    let holds = slot.value().len() <= 63 && is_plain(slot.value());
    let what = "is no slot's name; 1 to 63 of a-z, 0-9 and _ are wanted";
    written.rule(&slot, holds, what).then(|| slot.into_value())
}

fn publication(written: &mut Written, name: Option<&str>) -> Option<String> {
    let default = name.map(|name| format!("headwater_{name}"));
    let publication = written.text_or("source.publication", default)?;
    let holds = publication.value().len() <= 63;
    let what = "is too long for PostgreSQL; at most 63 bytes are wanted";
    written
        .rule(&publication, holds, what)
        .then(|| publication.into_value())
}

fn postgres_table(written: &mut Written) -> Option<TableName> {
    let table = written.text_or("source.table", Some("eventlog.events".to_owned()))?;
    let parts = table.value().split_once('.').filter(|(schema, name)| {
        !schema.is_empty()
            && !name.is_empty()
            && !name.contains('.')
            && !table.value().contains('"')
    });
    let what =
        "is no table's name; schema.table is wanted, as the database spells it, without quotes";
    written.rule(&table, parts.is_some(), what);
    let (schema, name) = parts?;
    Some(TableName {
        schema: Some(schema.to_owned()),
        name: name.to_owned(),
    })
}

/// The table's name has the database; one in the url can only say the same.
fn mysql_table(
    written: &mut Written,
    url: &Located<String>,
    database: Option<&str>,
) -> Option<TableName> {
    let table = written.text_or("source.table", Some("eventlog.events".to_owned()))?;
    let parts = table.value().split_once('.').filter(|(schema, name)| {
        !schema.is_empty()
            && !name.is_empty()
            && !name.contains('.')
            && !table.value().contains(['"', '`'])
    });
    let what =
        "is no table's name; database.table is wanted, as the server spells it, without quotes";
    written.rule(&table, parts.is_some(), what);
    let (schema, name) = parts?;
    let what = "names another database than source.table (database.table); the url needs none";
    written.rule(url, database.is_none_or(|it| it == schema), what);
    Some(TableName {
        schema: Some(schema.to_owned()),
        name: name.to_owned(),
    })
}

fn sqlite(written: &mut Written) -> Option<TableName> {
    written.contradict(
        &[
            "source.password",
            "source.password_file",
            "source.password_command",
            "source.tls.mode",
            "source.tls.ca",
            "source.tls.cert",
            "source.tls.key",
            "source.slot",
            "source.publication",
            "source.server_id",
            "source.silence_timeout",
        ],
        "means nothing with SQLite, which source.url names; remove it",
    );
    let table = written.text_or("source.table", Some("events".to_owned()))?;
    let holds = !table.value().contains(['.', '"']);
    let what = "is no table's name; the name alone is wanted, as SQLite spells it, without quotes";
    written.rule(&table, holds, what).then(|| TableName {
        schema: None,
        name: table.into_value(),
    })
}
