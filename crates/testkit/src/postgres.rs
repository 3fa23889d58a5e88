//! A throwaway PostgreSQL out of a fetched private root, with the outbox table in fresh databases.
//!
//! Each cluster is made by its own `initdb` (one second), not copied: copies would share a system identifier, and tests
//! need clusters that differ in it.

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

use nix::sys::signal::{Signal, kill};
use tokio_postgres::{Client, NoTls};

use crate::keeper::{LogFolder, folder};
use crate::place;
use crate::port::free_port;
use crate::process::{Launch, Process, append_to, as_pid, children};

mod certificate;
mod database;
mod secure;
mod standby;

pub use certificate::{Papers, Shown};
pub use database::Database;
pub use secure::{CERTIFIED, SecurePostgres};

/// The role that Headwater connects as; its password is really asked for.
pub const USER: &str = "headwater";
pub const PASSWORD: &str = "hw-Pa55";

const START_LIMIT: Duration = Duration::from_mins(1);

pub struct Postgres {
    version: u32,
    port: u16,
    bin: PathBuf,
    folder: PathBuf,
    log: LogFolder,
    process: Mutex<Option<Process>>,
}

impl Postgres {
    /// A cluster of the test's own. `settings` are lines of postgresql.conf.
    pub fn start(version: u32, settings: &[(&str, &str)]) -> Self {
        let log = LogFolder::of_this_test(&format!("postgres{version}"));
        Self::start_logging(version, settings, log)
    }

    /// One cluster per version for all tests of the process. Whoever stops it, stops it for all.
    pub fn shared(version: u32) -> &'static Self {
        static V15: LazyLock<Postgres> = LazyLock::new(|| start_shared(15));
        static V17: LazyLock<Postgres> = LazyLock::new(|| start_shared(17));
        static V18: LazyLock<Postgres> = LazyLock::new(|| start_shared(18));
        match version {
            15 => &V15,
            17 => &V17,
            18 => &V18,
            other => panic!("no PostgreSQL {other} is fetched: 15, 17 or 18"),
        }
    }

    fn start_logging(version: u32, settings: &[(&str, &str)], log: LogFolder) -> Self {
        let postgres = Self {
            version,
            port: free_port(),
            bin: programs(version),
            folder: folder("pg"),
            log,
            process: Mutex::new(None),
        };
        postgres.make_cluster(settings);
        postgres.start_again();
        block_on(postgres.make_role());
        postgres
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// One of the server's own programs, such as `pg_recvlogical`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    pub fn url(&self, database: &str, user: &str) -> String {
        url(self.port, database, user)
    }

    /// As the superuser. The connection lives in a task of the calling runtime.
    pub async fn connect(&self, database: &str) -> Client {
        connect(&self.url(database, "postgres"))
            .await
            .unwrap_or_else(|e| panic!("PostgreSQL on port {}: {e}", self.port))
    }

    /// A fresh database that holds Ekbatan's outbox table; role [`USER`] owns it, so that it may make a publication.
    pub async fn database(&self, hint: &str) -> Database<'_> {
        Database::make(self, hint).await
    }

    /// What the server logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// `pg_ctl stop -m fast`, and how long it took.
    pub fn stop_fast(&self) -> Duration {
        let begun = Instant::now();
        let output = self
            .tool("pg_ctl")
            .args(["stop", "-m", "fast", "-w", "-t", "120", "-D"])
            .arg(self.data())
            .output()
            .unwrap();
        let took = begun.elapsed();
        assert!(output.status.success(), "pg_ctl stop: {output:?}");
        if let Some(process) = self.process().as_mut() {
            process.wait(Duration::from_secs(10));
        }
        took
    }

    /// SIGKILL to the postmaster and to every process it has.
    pub fn kill9(&self) {
        if let Some(mut process) = self.process().take() {
            let backends = children(process.pid());
            process.kill9();
            for pid in backends {
                let _ = kill(as_pid(pid), Signal::SIGKILL);
            }
        }
    }

    /// Starts it on the same port and data, after [`Self::stop_fast`] or [`Self::kill9`].
    pub fn start_again(&self) {
        let end = Instant::now() + START_LIMIT;
        let mut process = self.process();
        // Killed backends hold the shared memory for a moment longer, and a server that finds it held gives up.
        loop {
            let mut new = self.launch();
            let up = self.wait_until_ready(&mut new, end);
            *process = Some(new);
            if up {
                return;
            }
            assert!(
                Instant::now() < end,
                "PostgreSQL {} does not start:\n{}",
                self.version,
                self.log()
            );
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Fast stop and start.
    pub fn restart(&self) {
        self.stop_fast();
        self.start_again();
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.log.path().join("log")
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.env("LC_ALL", "C").current_dir(&self.folder);
        if let Some((user, group)) = place::database_user() {
            command.uid(user).gid(group);
        }
        command
    }

    fn make_cluster(&self, settings: &[(&str, &str)]) {
        if let Some((user, group)) = place::database_user() {
            chown(&self.folder, Some(user), Some(group)).unwrap();
        }
        let output = self
            .tool("initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8"])
            .args(["--no-locale", "--no-sync", "-D"])
            .arg(self.data())
            .output()
            .unwrap();
        assert!(output.status.success(), "initdb: {output:?}");
        let mut conf = format!(
            "port={}\nlisten_addresses='127.0.0.1'\nunix_socket_directories='{}'\n",
            self.port,
            self.folder.display()
        );
        conf.push_str(SETTINGS);
        for (name, value) in settings {
            writeln!(conf, "{name}='{}'", value.replace('\'', "''")).unwrap();
        }
        append(&self.data().join("postgresql.conf"), &conf);
        fs::write(self.data().join("pg_hba.conf"), ACCESS).unwrap();
    }

    async fn make_role(&self) {
        let client = self.connect("postgres").await;
        client
            .batch_execute(&format!(
                "CREATE ROLE {USER} LOGIN REPLICATION PASSWORD '{PASSWORD}'"
            ))
            .await
            .unwrap();
    }

    fn launch(&self) -> Process {
        Process::start(Launch {
            program: self.bin.join("postgres"),
            args: vec![OsString::from("-D"), self.data().into()],
            env: vec![("LC_ALL".to_owned(), "C".to_owned())],
            folder: self.folder.clone(),
            user: place::database_user(),
            stdout: append_to(&self.log_file()),
            stderr: append_to(&self.log_file()),
        })
    }

    /// As `pg_ctl` does: the eighth line of postmaster.pid says when the server takes connections.
    fn wait_until_ready(&self, process: &mut Process, end: Instant) -> bool {
        let pid = process.pid().to_string();
        while Instant::now() < end && process.exited().is_none() {
            let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            if lines.first() == Some(&pid.as_str()) && lines.get(7) == Some(&"ready") {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(process) = self.process().as_mut() {
            // Immediate shutdown: the postmaster ends its own children and gives back the shared memory.
            process.signal(Signal::SIGQUIT);
            process.wait(Duration::from_secs(5));
        }
        self.process().take();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The disk is not to be trusted with anything here; JIT's library is not fetched; many tests share a cluster.
const SETTINGS: &str = "wal_level=logical
max_wal_senders=60
max_replication_slots=60
max_connections=200
fsync=off
jit=off
timezone='UTC'
log_timezone='UTC'
log_line_prefix='%m [%p] %d '
dynamic_shared_memory_type=mmap
";

/// The superuser needs no password; everyone else does, so that a wrong one is really refused.
const ACCESS: &str = "local all all trust
host all postgres 127.0.0.1/32 trust
host replication postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
";

/// Debian's place for them, or the one of the packages that are used elsewhere.
fn programs(version: u32) -> PathBuf {
    let root = place::server(&format!("pg{version}"));
    let debian = root.join(format!("usr/lib/postgresql/{version}/bin"));
    if debian.is_dir() {
        debian
    } else {
        root.join("bin")
    }
}

fn start_shared(version: u32) -> Postgres {
    let log = LogFolder::shared(&format!("postgres{version}"));
    Postgres::start_logging(version, &[], log)
}

fn url(port: u16, database: &str, user: &str) -> String {
    format!("postgres://{user}:{PASSWORD}@127.0.0.1:{port}/{database}")
}

pub(crate) async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn append(path: &Path, text: &str) {
    let mut all = fs::read_to_string(path).unwrap();
    all.push_str(text);
    fs::write(path, all).unwrap();
}

/// Runs a future to its end in a thread of its own: callers may be inside a runtime, in a `Drop` or in neither.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(future)
        });
        worker.join().unwrap()
    })
}
