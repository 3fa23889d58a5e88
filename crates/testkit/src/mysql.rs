//! A throwaway MySQL or MariaDB out of a fetched private root, with the outbox table in fresh databases.
//!
//! The first of each kind in a process is made by the server's own programs, and stays as a template: the others begin with
//! a copy of it, which takes a tenth of the time. What tells servers apart (UUID, server id, binlog) is each one's own.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use nix::sys::signal::Signal;

use crate::keeper::{LogFolder, folder};
use crate::place;
use crate::port::free_port;
use crate::postgres::block_on;
use crate::process::{Launch, Process, append_to};

mod binlog;
mod database;
mod replica;
mod secure;

pub use database::MysqlDatabase;
pub use secure::SecureMysql;

/// May do everything, from everywhere, without a password.
const OWNER: &str = "owner";
const START_LIMIT: Duration = Duration::from_mins(2);

/// Which server: all of them have a binlog, and each its own ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    MySql97,
    MariaDb1011,
    MariaDb118,
}

impl Server {
    pub const ALL: [Server; 3] = [Server::MySql97, Server::MariaDb1011, Server::MariaDb118];

    pub fn is_mariadb(self) -> bool {
        self != Server::MySql97
    }

    /// What the url of one begins with.
    pub fn scheme(self) -> &'static str {
        if self.is_mariadb() {
            "mariadb"
        } else {
            "mysql"
        }
    }

    fn fetched(self) -> &'static str {
        match self {
            Server::MySql97 => "mysql",
            Server::MariaDb1011 => "mariadb1011",
            Server::MariaDb118 => "mariadb118",
        }
    }

    fn template(self) -> &'static Path {
        static MYSQL: LazyLock<PathBuf> = LazyLock::new(|| make_template(Server::MySql97));
        static M1011: LazyLock<PathBuf> = LazyLock::new(|| make_template(Server::MariaDb1011));
        static M118: LazyLock<PathBuf> = LazyLock::new(|| make_template(Server::MariaDb118));
        match self {
            Server::MySql97 => &MYSQL,
            Server::MariaDb1011 => &M1011,
            Server::MariaDb118 => &M118,
        }
    }
}

pub struct Mysql {
    server: Server,
    port: u16,
    folder: PathBuf,
    log: LogFolder,
    process: Mutex<Option<Process>>,
}

impl Mysql {
    /// A server of the test's own. `settings` are lines of my.cnf; they come after the usual ones, and win.
    pub fn start(server: Server, settings: &[(&str, &str)]) -> Self {
        let log = LogFolder::of_this_test(server.fetched());
        Self::start_logging(server, settings, log)
    }

    /// One server of each kind for all tests of the process. Whoever stops it, stops it for all.
    pub fn shared(server: Server) -> &'static Self {
        static MYSQL: LazyLock<Mysql> = LazyLock::new(|| start_shared(Server::MySql97));
        static M1011: LazyLock<Mysql> = LazyLock::new(|| start_shared(Server::MariaDb1011));
        static M118: LazyLock<Mysql> = LazyLock::new(|| start_shared(Server::MariaDb118));
        match server {
            Server::MySql97 => &MYSQL,
            Server::MariaDb1011 => &M1011,
            Server::MariaDb118 => &M118,
        }
    }

    fn start_logging(server: Server, settings: &[(&str, &str)], log: LogFolder) -> Self {
        let template = server.template();
        let mysql = Self {
            server,
            port: free_port(),
            folder: folder("my"),
            log,
            process: Mutex::new(None),
        };
        owned_by_the_server(&mysql.folder);
        let copied = as_the_server(Command::new("cp"))
            .args(["-r", "--reflink=auto"])
            .arg(template.join("data"))
            .arg(mysql.data())
            .output()
            .unwrap();
        assert!(copied.status.success(), "cp: {copied:?}");
        mysql.configure(settings);
        mysql.start_again();
        mysql
    }

    pub fn server(&self) -> Server {
        self.server
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    /// Of the server's process, which runs.
    pub fn pid(&self) -> u32 {
        let process = self.process();
        process.as_ref().expect("it runs").pid()
    }

    /// One of the server's own programs, such as `mysqlbinlog`.
    pub fn program(&self, name: &str) -> PathBuf {
        programs(self.server).join("usr/bin").join(name)
    }

    /// As one who may do everything, without a password.
    pub fn owner_url(&self, database: &str) -> String {
        let scheme = self.server.scheme();
        format!("{scheme}://{OWNER}@127.0.0.1:{}/{database}", self.port)
    }

    /// As the owner, in no database.
    pub async fn connect(&self) -> Conn {
        connect(self.port, None)
            .await
            .unwrap_or_else(|e| panic!("{:?} on port {}: {e}", self.server, self.port))
    }

    /// Runs statements as the owner, in one session.
    pub async fn execute(&self, sql: &str) {
        let mut conn = self.connect().await;
        run(&mut conn, sql).await;
    }

    /// The first column of the first row as text; `None` without a row or when it is null.
    pub async fn ask(&self, sql: &str) -> Option<String> {
        ask(&mut self.connect().await, sql).await
    }

    /// One of the server's counters.
    pub async fn status(&self, name: &str) -> u64 {
        let mut conn = self.connect().await;
        let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let row: Option<(String, String)> = conn.query_first(sql).await.unwrap();
        let (_, value) = row.unwrap_or_else(|| panic!("no {name}"));
        value.parse().unwrap()
    }

    /// A fresh database that holds Ekbatan's outbox table, and a user that may read it and the log, and nothing else.
    pub async fn database(&self, hint: &str) -> MysqlDatabase<'_> {
        MysqlDatabase::make(self, hint).await
    }

    /// What the server logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The server's own shutdown, and how long it took.
    pub fn stop(&self) -> Duration {
        let begun = Instant::now();
        if let Some(process) = self.process().as_mut() {
            process.signal(Signal::SIGTERM);
            let ended = process.wait(START_LIMIT);
            assert!(ended.is_some(), "it does not stop:\n{}", self.log());
        }
        begun.elapsed()
    }

    /// SIGKILL.
    pub fn kill9(&self) {
        if let Some(mut process) = self.process().take() {
            process.kill9();
        }
    }

    /// Starts it on the same port and data, after [`Self::stop`] or [`Self::kill9`].
    pub fn start_again(&self) {
        let mut process = self.process();
        let mut new = Process::start(Launch {
            program: programs(self.server)
                .join("usr/sbin")
                .join(daemon(self.server)),
            args: vec![OsString::from(format!(
                "--defaults-file={}",
                self.conf().display()
            ))],
            env: vec![("LC_ALL".to_owned(), "C".to_owned())],
            folder: self.folder.clone(),
            user: place::database_user(),
            stdout: append_to(&self.log_file()),
            stderr: append_to(&self.log_file()),
        });
        let up = self.wait_until_ready(&mut new);
        *process = Some(new);
        drop(process);
        assert!(up, "{:?} does not start:\n{}", self.server, self.log());
    }

    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn conf(&self) -> PathBuf {
        self.folder.join("my.cnf")
    }

    fn log_file(&self) -> PathBuf {
        self.log.path().join("log")
    }

    fn configure(&self, settings: &[(&str, &str)]) {
        fs::write(self.folder.join("init.sql"), INIT).unwrap();
        let mut conf = places(self.server, &self.folder);
        write!(
            conf,
            "port={port}\nserver_id={port}\ninit_file={}\n",
            self.folder.join("init.sql").display(),
            port = self.port,
        )
        .unwrap();
        conf.push_str(SETTINGS);
        conf.push_str(if self.server.is_mariadb() {
            MARIADB_SETTINGS
        } else {
            MYSQL_SETTINGS
        });
        for (name, value) in settings {
            writeln!(conf, "{name}={value}").unwrap();
        }
        fs::write(self.conf(), conf).unwrap();
    }

    /// Ready is who answers a question: a port may listen, and the owner not be there yet.
    fn wait_until_ready(&self, process: &mut Process) -> bool {
        let end = Instant::now() + START_LIMIT;
        while Instant::now() < end && process.exited().is_none() {
            let answers = block_on(async {
                let mut conn = connect(self.port, None).await.ok()?;
                conn.query_drop("SELECT 1").await.ok()
            });
            if answers.is_some() {
                return true;
            }
            thread::sleep(Duration::from_millis(50));
        }
        false
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        // Nothing of it is wanted any more: no shutdown, just the end.
        self.kill9();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Many tests share a server, its disk is not to be trusted with anything, and a row of 20 MB is among the tests.
const SETTINGS: &str = "bind_address=127.0.0.1
log_bin=binlog
binlog_format=ROW
binlog_row_metadata=FULL
character_set_server=utf8mb4
max_connections=300
max_allowed_packet=64M
innodb_buffer_pool_size=64M
innodb_flush_log_at_trx_commit=2
innodb_doublewrite=OFF
sync_binlog=0
";

const MYSQL_SETTINGS: &str = "mysqlx=OFF
gtid_mode=ON
enforce_gtid_consistency=ON
innodb_redo_log_capacity=64M
secure_file_priv=NULL
";

const MARIADB_SETTINGS: &str = "collation_server=utf8mb4_general_ci
gtid_strict_mode=ON
log_slave_updates=ON
innodb_log_file_size=64M
";

/// Each start makes the owner, in no binlog: a replica makes its own.
const INIT: &str = "SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'owner'@'%';
GRANT ALL ON *.* TO 'owner'@'%' WITH GRANT OPTION;
";

fn programs(server: Server) -> PathBuf {
    place::server(server.fetched())
}

fn daemon(server: Server) -> &'static str {
    if server.is_mariadb() {
        "mariadbd"
    } else {
        "mysqld"
    }
}

/// The lines of my.cnf that say where everything is.
fn places(server: Server, folder: &Path) -> String {
    let root = programs(server);
    let (root, folder) = (root.display(), folder.display());
    format!(
        "[{}]
basedir={root}/usr
plugin_dir={root}/usr/lib/mysql/plugin
lc_messages_dir={root}/usr/share/mysql
character_sets_dir={root}/usr/share/mysql/charsets
datadir={folder}/data
tmpdir={folder}
socket={folder}/s
pid_file={folder}/pid
",
        daemon(server)
    )
}

fn make_template(server: Server) -> PathBuf {
    let folder = folder("mytemplate");
    owned_by_the_server(&folder);
    let conf = folder.join("my.cnf");
    let mut text = places(server, &folder);
    text.push_str("innodb_buffer_pool_size=64M\n");
    text.push_str(if server.is_mariadb() {
        "innodb_log_file_size=64M\n"
    } else {
        "skip_log_bin\ninnodb_redo_log_capacity=64M\n"
    });
    fs::write(&conf, text).unwrap();
    let root = programs(server);
    let given = format!("--defaults-file={}", conf.display());
    let mut command = if server.is_mariadb() {
        let mut command = Command::new(root.join("usr/bin/mariadb-install-db"));
        command
            .arg(given)
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg(format!("--basedir={}", root.join("usr").display()))
            .arg(format!("--datadir={}", folder.join("data").display()));
        command
    } else {
        let mut command = Command::new(root.join("usr/sbin/mysqld"));
        command.arg(given).arg("--initialize-insecure");
        command
    };
    command.current_dir(&folder);
    let output = as_the_server(command).output().unwrap();
    assert!(output.status.success(), "{server:?}: {output:?}");
    // A copy with another's UUID would be taken for the other.
    let _ = fs::remove_file(folder.join("data/auto.cnf"));
    folder
}

fn as_the_server(mut command: Command) -> Command {
    if let Some((user, group)) = place::database_user() {
        command.uid(user).gid(group);
    }
    command
}

fn owned_by_the_server(path: &Path) {
    if let Some((user, group)) = place::database_user() {
        chown(path, Some(user), Some(group)).unwrap();
    }
}

fn start_shared(server: Server) -> Mysql {
    let log = LogFolder::shared(server.fetched());
    Mysql::start_logging(server, &[], log)
}

async fn connect(port: u16, database: Option<&str>) -> Result<Conn, mysql_async::Error> {
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .user(Some(OWNER))
        .db_name(database)
        // The binlog and other sessions must see what was done here: no socket of the same machine, no pool.
        .prefer_socket(false);
    Conn::new(options).await
}

/// Statements one after the other. None of ours holds a semicolon before a line's end that does not end it.
async fn run(conn: &mut Conn, sql: &str) {
    conn.query_drop(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
}

async fn ask(conn: &mut Conn, sql: &str) -> Option<String> {
    let row: Option<mysql_async::Row> = conn
        .query_first(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let value = row.and_then(|mut row| row.take::<mysql_async::Value, _>(0))?;
    match value {
        mysql_async::Value::NULL => None,
        value => Some(mysql_async::from_value(value)),
    }
}
