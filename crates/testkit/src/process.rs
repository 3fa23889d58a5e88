//! One child process that is never left behind: its owner ends it when dropped, the keeper when the owner could not.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::keeper;

/// What is to be run, and as whom.
pub(crate) struct Launch {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(String, String)>,
    pub folder: PathBuf,
    /// User and group, when other than ours.
    pub user: Option<(u32, u32)>,
    pub stdout: File,
    pub stderr: File,
}

pub(crate) struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Walk: a shell starts and waits for a line; the keeper is told its number; the line is written; the shell becomes
    /// the program. If we die before the line, the shell reads the end of the pipe and ends.
    pub(crate) fn start(launch: Launch) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"read -r _ || exit 1; exec "$@" </dev/null"#, "gate"])
            .arg(&launch.program)
            .args(&launch.args)
            .envs(launch.env)
            .current_dir(&launch.folder)
            .stdin(Stdio::piped())
            .stdout(launch.stdout)
            .stderr(launch.stderr)
            .process_group(0);
        if let Some((user, group)) = launch.user {
            command.uid(user).gid(group);
        }
        let mut child = command.spawn().expect("sh starts");
        keeper::started(child.id());
        let mut gate = child.stdin.take().unwrap();
        // A program that cannot be run ends by itself, and the caller sees it ended.
        let _ = gate.write_all(b"\n");
        Self { child, ended: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.exited().is_none() {
            let _ = kill(as_pid(self.child.id()), signal);
        }
    }

    /// How it ended, if it has.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
            if self.ended.is_some() {
                keeper::ended(self.child.id());
            }
        }
        self.ended
    }

    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            let status = self.exited();
            if status.is_some() || Instant::now() >= end {
                return status;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGKILL to it and to all that it started within its process group.
    pub(crate) fn kill9(&mut self) {
        if self.exited().is_none() {
            let _ = killpg(as_pid(self.child.id()), Signal::SIGKILL);
            self.wait(Duration::from_secs(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

pub(crate) fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a process number"))
}

/// The direct children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    stat_field(pid, 3)?.parse().ok()
}

/// The `n`th field of /proc/PID/stat, counted from 0 as in proc(5) less one.
pub(crate) fn stat_field(pid: u32, n: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may hold spaces.
    let rest = stat.rsplit_once(") ")?.1;
    rest.split(' ').nth(n.checked_sub(2)?).map(str::to_owned)
}

pub(crate) fn append_to(path: &Path) -> File {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
