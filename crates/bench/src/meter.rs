//! What a process uses, as the kernel counts it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(10);

/// Looks at a process until it ends or nobody wants to know any more: when it has ended nothing can be asked of it.
pub struct Meter {
    enough: Arc<AtomicBool>,
    looking: JoinHandle<Used>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// Of all its threads.
    pub cpu: Duration,
    pub peak_kb: u32,
}

impl Meter {
    /// Counts from the process's start.
    pub fn begin(pid: u32) -> Meter {
        Meter::begin_after(pid, Duration::ZERO)
    }

    /// Counts from now on.
    pub fn begin_now(pid: u32) -> Meter {
        let before = look(pid).unwrap_or_default();
        Meter::begin_after(pid, before.cpu)
    }

    fn begin_after(pid: u32, before: Duration) -> Meter {
        let enough = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&enough);
        let looking = thread::spawn(move || {
            let mut used = Used::default();
            while let Some(now) = look(pid) {
                used = now;
                if told.load(Ordering::Relaxed) {
                    break;
                }
                thread::sleep(LOOK);
            }
            used.cpu = used.cpu.saturating_sub(before);
            used
        });
        Meter { enough, looking }
    }

    pub fn end(self) -> Used {
        self.enough.store(true, Ordering::Relaxed);
        self.looking.join().unwrap()
    }
}

/// `None` once it has ended.
pub fn look(pid: u32) -> Option<Used> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may hold spaces; after it, fields 14 and 15 of proc(5) are in ticks of
    // 10 ms on every Linux.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // A zombie has no memory any more.
    let peak_kb = memory(pid, "VmHWM:")?;
    Some(Used {
        cpu: Duration::from_millis(ticks * 10),
        peak_kb,
    })
}

/// One of the lines of /proc/PID/status that are in kB.
pub fn memory(pid: u32, line: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let found = status.lines().find_map(|l| l.strip_prefix(line))?;
    found.trim().trim_end_matches(" kB").parse().ok()
}
