//! The keeper: a small shell beside the test process that ends its servers when it is gone, however it went.
//!
//! Rule: a process is told to the keeper before it runs (see `process.rs`), so there is no moment at which a SIGKILL of
//! the test process would leave one behind.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{env, fs, thread};

static KEEPER: LazyLock<Keeper> = LazyLock::new(Keeper::start);
static COUNT: AtomicU32 = AtomicU32::new(0);

struct Keeper {
    shell: Mutex<Child>,
    data: PathBuf,
    logs: PathBuf,
}

impl Keeper {
    fn start() -> Self {
        let pid = std::process::id();
        // Short, because a socket's path is limited to 107 bytes.
        let data = env::temp_dir().join(format!("hw{pid}"));
        let logs = log_root().join(format!("{}-{pid}", binary_name()));
        // What an earlier process of the same number left would be taken for our own.
        let _ = fs::remove_dir_all(&data);
        let _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&logs).unwrap();
        // PostgreSQL runs as another user than root and must be able to enter.
        fs::set_permissions(&data, fs::Permissions::from_mode(0o711)).unwrap();
        let shell = Command::new("sh")
            .args(["-c", include_str!("keeper.sh"), "keeper"])
            .args([&data, &logs])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C is for the tests, not for the one who cleans up after them.
            .process_group(0)
            .spawn()
            .expect("sh starts");
        keep_logs_on_panic();
        Self {
            shell: Mutex::new(shell),
            data,
            logs,
        }
    }

    fn tell(&self, line: &str) -> std::io::Result<()> {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = shell.stdin.as_mut().unwrap();
        pipe.write_all(format!("{line}\n").as_bytes())
    }
}

fn keep_logs_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        // A second panic in here would end the process at once.
        let _ = KEEPER.tell("failed");
        eprintln!("logs of servers and runs: {}", KEEPER.logs.display());
    }));
}

fn tell(line: &str) {
    let told = KEEPER.tell(line);
    told.expect("the keeper listens as long as this process lives");
}

/// `target/test-logs`, wherever cargo's target folder is.
fn log_root() -> PathBuf {
    let exe = env::current_exe().unwrap();
    let target = exe
        .ancestors()
        .find(|a| a.join("CACHEDIR.TAG").exists())
        .map_or_else(env::temp_dir, Path::to_path_buf);
    target.join("test-logs")
}

fn binary_name() -> String {
    let exe = env::current_exe().unwrap();
    exe.file_stem().unwrap().to_string_lossy().into_owned()
}

pub(crate) fn started(pid: u32) {
    tell(&format!("started {pid}"));
}

pub(crate) fn ended(pid: u32) {
    tell(&format!("ended {pid}"));
}

/// A new empty folder that goes away with the test process at the latest.
pub(crate) fn folder(hint: &str) -> PathBuf {
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = KEEPER.data.join(format!("{hint}{n}"));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).unwrap();
    folder
}

/// The folder for a log; kept after the process's end if a test failed or was cut off.
pub(crate) struct LogFolder {
    path: PathBuf,
    of_one_test: bool,
}

impl LogFolder {
    /// Filed under the name of the test that runs in this thread.
    pub(crate) fn of_this_test(name: &str) -> Self {
        tell("opened");
        let test = thread::current().name().unwrap_or("unnamed").to_owned();
        Self::make(&test.replace("::", "-"), name, true)
    }

    /// For a server that several tests use.
    pub(crate) fn shared(name: &str) -> Self {
        Self::make("shared", name, false)
    }

    fn make(owner: &str, name: &str, of_one_test: bool) -> Self {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = KEEPER.logs.join(owner).join(format!("{name}-{n}"));
        fs::create_dir_all(&path).unwrap();
        Self { path, of_one_test }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        if self.of_one_test && !thread::panicking() {
            tell("closed");
        }
    }
}
