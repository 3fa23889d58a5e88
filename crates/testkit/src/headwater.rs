//! The built program, run as an operator would run it: a folder with a configuration, a process, its output.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::keeper::{LogFolder, folder};
use crate::process::{Launch, Process, append_to, stat_field};

/// How long [`Headwater::run`] lets a command work.
const RUN_LIMIT: Duration = Duration::from_mins(1);

/// A program and its configuration, in a folder of its own; may be started any number of times.
pub struct Headwater {
    binary: PathBuf,
    folder: PathBuf,
    env: Vec<(String, String)>,
}

/// What a command that ended by itself said.
#[derive(Debug)]
pub struct Output {
    /// 128 and the signal's number if a signal ended it, as shells have it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Headwater {
    /// `binary` is `env!("CARGO_BIN_EXE_headwater")` of the test; `config` becomes its `headwater.toml`.
    pub fn new(binary: impl AsRef<Path>, config: &str) -> Self {
        let headwater = Self {
            binary: binary.as_ref().to_owned(),
            folder: folder("run"),
            env: Vec::new(),
        };
        headwater.configure(config);
        headwater
    }

    /// Sets a variable for every later start.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces the configuration; a running one does not see it.
    pub fn configure(&self, config: &str) {
        fs::write(self.folder().join("headwater.toml"), config).unwrap();
    }

    /// The working folder, where the program finds `headwater.toml` by itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts it and returns at once.
    pub fn spawn(&self, args: &[&str]) -> Run {
        let log = LogFolder::of_this_test(&format!("headwater-{}", args.first().unwrap_or(&"")));
        let process = Process::start(Launch {
            program: self.binary.clone(),
            args: args.iter().map(OsString::from).collect(),
            env: self.env.clone(),
            folder: self.folder.clone(),
            user: None,
            stdout: append_to(&log.path().join("stdout")),
            stderr: append_to(&log.path().join("stderr")),
        });
        Run { process, log }
    }

    /// Runs a command to its end; panics if it does not come within a minute.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut run = self.spawn(args);
        let code = run.wait(RUN_LIMIT).unwrap_or_else(|| {
            panic!(
                "headwater {args:?} still runs after {RUN_LIMIT:?}:\n{}",
                run.log()
            )
        });
        Output {
            code,
            stdout: run.stdout(),
            stderr: run.log(),
        }
    }
}

impl Drop for Headwater {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// One started process; killed when dropped.
pub struct Run {
    process: Process,
    log: LogFolder,
}

impl Run {
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// SIGTERM.
    pub fn term(&mut self) {
        self.process.signal(Signal::SIGTERM);
    }

    /// SIGINT, as Ctrl-C.
    pub fn interrupt(&mut self) {
        self.process.signal(Signal::SIGINT);
    }

    /// SIGSTOP: it stands still until [`Self::cont`].
    pub fn stop(&mut self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// SIGCONT.
    pub fn cont(&mut self) {
        self.process.signal(Signal::SIGCONT);
    }

    pub fn is_running(&mut self) -> bool {
        self.process.exited().is_none()
    }

    /// The exit code, or `None` if it still runs after `limit`. Blocks the thread.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        self.process.wait(limit).map(exit_code)
    }

    /// SIGTERM, the exit code and how long it took; panics if it still runs after `limit`.
    pub fn term_and_wait(&mut self, limit: Duration) -> (i32, Duration) {
        let begun = Instant::now();
        self.term();
        let code = self.wait(limit).unwrap_or_else(|| {
            panic!(
                "headwater still runs {limit:?} after SIGTERM:\n{}",
                self.log()
            )
        });
        (code, begun.elapsed())
    }

    /// What it wrote to standard error so far: its log.
    pub fn log(&self) -> String {
        self.read("stderr")
    }

    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// Waits until the log holds `needle`; false when it did not come, or the process ended without it.
    pub async fn wait_for_log(&mut self, needle: &str, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            // Asked before reading, so that a last line is not missed.
            let last = !self.is_running() || Instant::now() >= end;
            if self.log().contains(needle) {
                return true;
            }
            if last {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Memory in use now, in kB.
    pub fn rss_kb(&self) -> u64 {
        self.status_kb("VmRSS:")
    }

    /// The most memory it ever used, in kB.
    pub fn peak_rss_kb(&self) -> u64 {
        self.status_kb("VmHWM:")
    }

    /// Processor time of all its threads so far.
    pub fn cpu_time(&self) -> Duration {
        // Fields 14 and 15 of proc(5), in ticks of 10 ms on every Linux.
        let ticks = |n| {
            let text = stat_field(self.pid(), n).expect("it runs");
            text.parse::<u64>().unwrap()
        };
        Duration::from_millis((ticks(13) + ticks(14)) * 10)
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.log.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn status_kb(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix(field))
            .expect("a running process tells its memory");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
