//! The database's url: its parts, and what is wrong with it.
//!
//! Never: a piece of the url in an error. A password with an unescaped `/`, `?` or `@` lands in any of the parts.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use headwater_source::mysql::Flavor;

use super::secret::Secret;

/// What to set for a password that does not fit into a url.
const ESCAPE: &str = "(a password with / ? # @ : or % in it is written percent-encoded, or given as source.password)";

/// A database as its url names it.
#[derive(Debug)]
pub(super) enum Address {
    Postgres(PostgresAddress),
    MySql(MySqlAddress),
    /// As written: whoever knows the configuration's folder makes a path of it.
    Sqlite(String),
}

#[derive(Debug)]
pub(super) struct PostgresAddress {
    /// At least one; of several, the one that is the primary is meant.
    pub servers: Vec<Listening>,
    pub user: String,
    pub password: Option<Secret>,
    pub database: String,
}

#[derive(Debug)]
pub(super) struct MySqlAddress {
    pub flavor: Flavor,
    /// At least one; of several, the one that can be written to is meant.
    pub servers: Vec<Listening>,
    pub user: String,
    pub password: Option<Secret>,
    /// Needed by nobody: the table's name has it.
    pub database: Option<String>,
}

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    pub host: Host,
    pub port: u16,
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or an IP address, without brackets.
    Tcp(String),
    /// What leads to the server's Unix socket: PostgreSQL's folder, MySQL's file.
    Socket(PathBuf),
}

impl Host {
    fn new(text: String) -> Self {
        if text.starts_with('/') {
            Self::Socket(PathBuf::from(text))
        } else {
            Self::Tcp(text)
        }
    }

    /// Whether plain text to this host stays on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Tcp(name) => match IpAddr::from_str(name) {
                Ok(address) => address.is_loopback(),
                Err(_) => name.eq_ignore_ascii_case("localhost"),
            },
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(folder) => write!(f, "{}", folder.display()),
            Self::Tcp(name) if name.contains(':') => write!(f, "[{name}]"),
            Self::Tcp(name) => f.write_str(name),
        }
    }
}

/// Reads a url; an error says what is wrong and what is wanted, without a piece of it.
pub(super) fn parse(url: &str) -> Result<Address, String> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(unknown_scheme());
    };
    match scheme {
        "postgres" | "postgresql" => {
            let rest = rest.strip_prefix("//").ok_or(
                "has no // after its scheme; postgres://user@host:5432/database is wanted",
            )?;
            Parts::split(rest, parameter)?
                .postgres()
                .map(Address::Postgres)
        }
        "mysql" => mysql(rest, Flavor::MySql).map(Address::MySql),
        "mariadb" => mysql(rest, Flavor::MariaDb).map(Address::MySql),
        "sqlite" => sqlite(rest).map(Address::Sqlite),
        _ => Err(unknown_scheme()),
    }
}

fn unknown_scheme() -> String {
    "begins with no known scheme; postgres://user@host:5432/database, mysql://user@host:3306, mariadb://user@host:3306 \
     or sqlite:path is wanted"
        .to_owned()
}

fn mysql(rest: &str, flavor: Flavor) -> Result<MySqlAddress, String> {
    let rest = rest
        .strip_prefix("//")
        .ok_or("has no // after its scheme; mysql://user@host:3306 is wanted")?;
    let parts = Parts::split(rest, mysql_parameter)?;
    let servers = parts.listening(3306, "mysql://user@host:3306 is wanted, or ?socket=/file")?;
    Ok(MySqlAddress {
        flavor,
        servers,
        user: parts
            .user
            .ok_or("names no user; mysql://user@host:3306 is wanted")?,
        password: parts.password.map(Secret::new),
        database: parts.database,
    })
}

fn sqlite(rest: &str) -> Result<String, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path == ":memory:" {
        return Err("names no file; sqlite:path is wanted".to_owned());
    }
    Ok(path.to_owned())
}

/// The parts as they were found, each at most once.
#[derive(Default)]
struct Parts {
    hosts: Option<Vec<String>>,
    ports: Option<Vec<String>>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
}

/// Takes a parameter's name and value.
type Take = fn(&mut Parts, &str, &str) -> Result<(), String>;

impl Parts {
    fn split(rest: &str, take: Take) -> Result<Self, String> {
        let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = front.split_once('/').unwrap_or((front, ""));
        if database.contains(['/', '@']) {
            return Err(format!("has a / or @ after the database's name {ESCAPE}"));
        }
        let mut parts = Self::default();
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                put(&mut parts.user, "user", user)?;
                put(&mut parts.password, "password", password)?;
                host
            }
            None => authority,
        };
        parts.servers(host)?;
        put(&mut parts.database, "database", database)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            take(&mut parts, name, value)?;
        }
        Ok(parts)
    }

    /// `a:5432,b:5433`
    fn servers(&mut self, text: &str) -> Result<(), String> {
        let mut hosts = Vec::new();
        let mut ports = Vec::new();
        for server in text.split(',') {
            let (host, port) = split_port(server)?;
            hosts.push(host);
            ports.push(port);
        }
        put_list(&mut self.hosts, "host", &hosts)?;
        put_list(&mut self.ports, "port", &ports)
    }

    fn listening(&self, default: u16, wanted: &str) -> Result<Vec<Listening>, String> {
        let hosts = self
            .hosts
            .as_ref()
            .ok_or_else(|| format!("names no host; {wanted}"))?;
        let ports = self.ports.as_deref().unwrap_or_default();
        if ports.len() > 1 && ports.len() != hosts.len() {
            return Err(
                "names more ports than hosts, or fewer; one for each is wanted, or one for all"
                    .to_owned(),
            );
        }
        let mut servers = Vec::new();
        for (place, host) in hosts.iter().enumerate() {
            if host.is_empty() {
                return Err(format!(
                    "has a comma without a host beside it; a:{default},b:{default} is how several are named"
                ));
            }
            let of_all = ports.first().filter(|_| ports.len() == 1);
            let port = of_all.or(ports.get(place)).map_or("", String::as_str);
            let port = match port {
                "" => default,
                port => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                    format!("has a port that is no number from 1 to 65535 {ESCAPE}")
                })?,
            };
            let host = Host::new(host.clone());
            servers.push(Listening { host, port });
        }
        Ok(servers)
    }

    fn postgres(self) -> Result<PostgresAddress, String> {
        let wanted = "postgres://user@host:5432/database is wanted";
        Ok(PostgresAddress {
            servers: self.listening(5432, &format!("{wanted}, or ?host=/folder/of/the/socket"))?,
            user: self
                .user
                .ok_or_else(|| format!("names no user; {wanted}"))?,
            password: self.password.map(Secret::new),
            database: self
                .database
                .ok_or_else(|| format!("names no database; {wanted}"))?,
        })
    }
}

fn parameter(parts: &mut Parts, name: &str, value: &str) -> Result<(), String> {
    let list: Vec<&str> = value.split(',').collect();
    match name {
        "host" => put_list(&mut parts.hosts, "host", &list),
        "port" => put_list(&mut parts.ports, "port", &list),
        // What is done with several hosts anyway, said as other programs want it said.
        "target_session_attrs" if value == "read-write" => Ok(()),
        "target_session_attrs" => Err(
            "has a target_session_attrs other than read-write; events come from the primary only"
                .to_owned(),
        ),
        "user" => put(&mut parts.user, "user", value),
        "password" => put(&mut parts.password, "password", value),
        "dbname" => put(&mut parts.database, "database", value),
        "sslmode" | "sslrootcert" | "sslcert" | "sslkey" => Err(not_in_the_url(name)),
        _ => Err(format!(
            "has a parameter that is none of host, port, user, password, dbname, target_session_attrs; \
             remove it {ESCAPE}"
        )),
    }
}

fn mysql_parameter(parts: &mut Parts, name: &str, value: &str) -> Result<(), String> {
    match name {
        "socket" if value.starts_with('/') || value.starts_with("%2") => {
            put_list(&mut parts.hosts, "host", &[value])
        }
        "socket" => {
            Err("has a socket that is no absolute path; ?socket=/file is wanted".to_owned())
        }
        "user" => put(&mut parts.user, "user", value),
        "password" => put(&mut parts.password, "password", value),
        "ssl-mode" | "sslMode" | "ssl-ca" | "ssl-cert" | "ssl-key" => Err(not_in_the_url(name)),
        _ => Err(format!(
            "has a parameter that is none of socket, user, password; remove it {ESCAPE}"
        )),
    }
}

fn not_in_the_url(name: &str) -> String {
    format!("has the parameter {name}, which is not taken from the url; set source.tls instead")
}

/// An IPv6 address stands in brackets because of its colons.
fn split_port(text: &str) -> Result<(&str, &str), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest
            .split_once(']')
            .ok_or("has a [ without its ]; [::1]:5432 is how an IPv6 address is written")?;
        return Ok((host, rest.strip_prefix(':').unwrap_or(rest)));
    }
    Ok(text.split_once(':').unwrap_or((text, "")))
}

fn put(part: &mut Option<String>, name: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    if part.is_some() {
        return Err(format!("gives its {name} twice; once is wanted"));
    }
    *part = Some(decoded(text, name)?);
    Ok(())
}

/// The same for a list; one of nothing but empty texts is none.
fn put_list(part: &mut Option<Vec<String>>, name: &str, texts: &[&str]) -> Result<(), String> {
    let nothing = texts.iter().all(|text| text.is_empty());
    if nothing && (texts.len() == 1 || name == "port") {
        return Ok(());
    }
    if part.is_some() {
        return Err(format!("gives its {name} twice; once is wanted"));
    }
    let texts = texts.iter().map(|text| decoded(text, name));
    *part = Some(texts.collect::<Result<_, _>>()?);
    Ok(())
}

fn decoded(text: &str, name: &str) -> Result<String, String> {
    decode(text).ok_or_else(|| {
        format!("has a % that does not begin a percent-encoded UTF-8 character in its {name}; %25 is a % itself")
    })
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            rest = tail;
            bytes.push(hex(digits[0])? * 16 + hex(digits[1])?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postgres(url: &str) -> PostgresAddress {
        match parse(url) {
            Ok(Address::Postgres(address)) => address,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn a_postgres_url_gives_its_parts() {
        for (url, host, port, user, password, database) in [
            (
                "postgres://u@localhost/d",
                "localhost",
                5432,
                "u",
                None,
                "d",
            ),
            ("postgresql://u:p@h:6432/d", "h", 6432, "u", Some("p"), "d"),
            ("postgres://u:@h/d", "h", 5432, "u", None, "d"),
            ("postgres://u@[::1]/d", "[::1]", 5432, "u", None, "d"),
            ("postgres://u@[::1]:7/d", "[::1]", 7, "u", None, "d"),
            (
                "postgres://u@/d?host=/run/pg",
                "/run/pg",
                5432,
                "u",
                None,
                "d",
            ),
            (
                "postgres:///d?host=/run/pg&user=u&port=7",
                "/run/pg",
                7,
                "u",
                None,
                "d",
            ),
            (
                "postgres://u@%2Frun%2Fpg/d",
                "/run/pg",
                5432,
                "u",
                None,
                "d",
            ),
            (
                "postgres://h?user=u&password=p&dbname=d",
                "h",
                5432,
                "u",
                Some("p"),
                "d",
            ),
            (
                "postgres://a%40b:p%2F%3a%25@h/d%20e",
                "h",
                5432,
                "a@b",
                Some("p/:%"),
                "d e",
            ),
            ("postgres://u:a@b:c@h/d", "h", 5432, "u", Some("a@b:c"), "d"),
        ] {
            let address = postgres(url);
            let [server] = address.servers.as_slice() else {
                panic!("{url}: {address:?}");
            };
            assert_eq!(server.host.to_string(), host, "{url}");
            assert_eq!(server.port, port, "{url}");
            assert_eq!(address.user, user, "{url}");
            let found = address.password.as_ref().map(Secret::expose);
            assert_eq!(found, password, "{url}");
            assert_eq!(address.database, database, "{url}");
        }
    }

    #[test]
    fn a_postgres_url_may_name_several_servers() {
        for (url, wanted) in [
            ("postgres://u@a:1,b:2/d", "a:1 b:2"),
            ("postgres://u@a,b:2/d", "a:5432 b:2"),
            ("postgres://u@a,b/d?port=7", "a:7 b:7"),
            ("postgres://u@a,b/d?port=7,8", "a:7 b:8"),
            ("postgres://u@/d?host=a,/run/pg&port=7,8", "a:7 /run/pg:8"),
            (
                "postgres://u@[::1]:1,[::2]/d?target_session_attrs=read-write",
                "[::1]:1 [::2]:5432",
            ),
        ] {
            let servers = postgres(url).servers;
            let found: Vec<String> = servers.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), wanted, "{url}");
        }
    }

    #[test]
    fn a_mysql_url_gives_its_parts() {
        for (url, flavor, servers, user, password, database) in [
            ("mysql://u@h", Flavor::MySql, "h:3306", "u", None, None),
            (
                "mariadb://u:p%40@h:3307/",
                Flavor::MariaDb,
                "h:3307",
                "u",
                Some("p@"),
                None,
            ),
            (
                "mysql://u@a,b:7/shop",
                Flavor::MySql,
                "a:3306 b:7",
                "u",
                None,
                Some("shop"),
            ),
            (
                "mysql://u@[::1]:7",
                Flavor::MySql,
                "[::1]:7",
                "u",
                None,
                None,
            ),
            (
                "mysql://u@/?socket=/run/my.sock",
                Flavor::MySql,
                "/run/my.sock:3306",
                "u",
                None,
                None,
            ),
            (
                "mariadb://?user=u&password=p&socket=/s",
                Flavor::MariaDb,
                "/s:3306",
                "u",
                Some("p"),
                None,
            ),
        ] {
            let address = match parse(url) {
                Ok(Address::MySql(address)) => address,
                other => panic!("{url}: {other:?}"),
            };
            let found: Vec<String> = address.servers.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), servers, "{url}");
            assert_eq!(address.flavor, flavor, "{url}");
            assert_eq!(address.user, user, "{url}");
            assert_eq!(
                address.password.as_ref().map(Secret::expose),
                password,
                "{url}"
            );
            assert_eq!(address.database.as_deref(), database, "{url}");
        }
    }

    #[test]
    fn a_sqlite_url_gives_its_path() {
        for (url, wanted) in [
            ("sqlite:outbox.db", "outbox.db"),
            ("sqlite:/var/outbox.db", "/var/outbox.db"),
            ("sqlite://outbox.db", "outbox.db"),
            ("sqlite:///var/outbox.db", "/var/outbox.db"),
        ] {
            match parse(url) {
                Ok(Address::Sqlite(path)) => assert_eq!(path, wanted, "{url}"),
                other => panic!("{url}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_bad_url_is_told_what_it_lacks() {
        for (url, wanted) in [
            ("", "no known scheme"),
            ("shop", "no known scheme"),
            ("oracle://u@h/d", "no known scheme"),
            ("mysql:u@h", "has no // after its scheme"),
            ("mysql://h", "names no user"),
            ("mariadb://u@/d", "names no host"),
            ("mysql://u@h:x", "a port that is no number"),
            (
                "mysql://u@h?socket=run",
                "a socket that is no absolute path",
            ),
            ("mysql://u@h?socket=/run/s", "gives its host twice"),
            ("mysql://u@h?ssl-mode=REQUIRED", "set source.tls instead"),
            ("mysql://u@h?charset=utf8", "none of socket, user, password"),
            ("postgres:u@h/d", "has no // after its scheme"),
            ("postgres://h/d", "names no user"),
            ("postgres://u@/d", "names no host"),
            ("postgres://u@h", "names no database"),
            ("postgres://u@h:x/d", "a port that is no number"),
            ("postgres://u@h:0/d", "a port that is no number"),
            ("postgres://u@h:65536/d", "a port that is no number"),
            ("postgres://u@[::1/d", "a [ without its ]"),
            ("postgres://u@a,/d", "a comma without a host"),
            ("postgres://u@a,b,c/d?port=1,2", "more ports than hosts"),
            (
                "postgres://u@a,b/d?target_session_attrs=any",
                "from the primary only",
            ),
            ("postgres://u@h/d?host=/x", "gives its host twice"),
            ("postgres://u:p@h/d?password=q", "gives its password twice"),
            ("postgres://u@h/d?sslmode=require", "set source.tls instead"),
            ("postgres://u@h/d?foo=1", "a parameter that is none of"),
            ("postgres://u:%zz@h/d", "a % that does not begin"),
            ("postgres://u:%4@h/d", "a % that does not begin"),
            ("postgres://u:%ff@h/d", "a % that does not begin"),
            ("postgres://u@h/a/b", "a / or @ after the database's name"),
            ("sqlite:", "names no file"),
            ("sqlite::memory:", "names no file"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(wanted), "{url}: {error}");
        }
    }

    #[test]
    fn no_piece_of_a_badly_escaped_password_is_in_the_error() {
        for secret in [
            "hun/ter2",
            "hun?ter2",
            "hun/t@er2",
            "hun%ter2",
            "hun?t=er2",
            "hun?host=/ter2",
            "12/ter2",
        ] {
            for scheme in ["postgres", "mysql"] {
                let error = parse(&format!("{scheme}://user:{secret}@db/shop")).unwrap_err();
                assert!(!error.contains("hun") && !error.contains("ter2"), "{error}");
            }
        }
        let error = parse("hunter2").unwrap_err() + &parse("hunter2:x").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn only_loopback_and_sockets_are_local() {
        for (host, local) in [
            ("localhost", true),
            ("LOCALHOST", true),
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("::1", true),
            ("/run/postgresql", true),
            ("db.example.com", false),
            ("localhost.example.com", false),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(Host::new(host.to_owned()).is_local(), local, "{host}");
        }
    }
}
