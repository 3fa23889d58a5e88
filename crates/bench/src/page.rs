//! docs/performance.md: one section a subcommand, each with the machine and the day of its own run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A section of the page.
pub struct Section {
    title: String,
    body: String,
}

impl Section {
    /// `servers`: the versions of what took part.
    pub fn new(title: &str, servers: &str) -> Section {
        let mut body = String::new();
        writeln!(
            body,
            "\nMeasured {} on {}; {servers}.\n",
            today(),
            machine()
        )
        .unwrap();
        Section {
            title: title.to_owned(),
            body,
        }
    }

    pub fn line(&mut self, text: &str) {
        self.body.push_str(text);
        self.body.push('\n');
    }

    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        self.line(&format!("| {} |", header.join(" | ")));
        self.line(&format!("|{}", "---|".repeat(header.len())));
        for row in rows {
            self.line(&format!("| {} |", row.join(" | ")));
        }
        self.line("");
    }

    pub fn text(&self) -> String {
        format!("## {}\n{}", self.title, self.body)
    }
}

/// Puts the section in the place of the one with its title, or at the end.
pub fn put(page: &Path, section: &Section) {
    let old = fs::read_to_string(page).unwrap();
    let heading = format!("## {}\n", section.title);
    let text = section.text();
    let text = text.trim_end_matches('\n');
    let new = match old.split_once(&heading) {
        Some((before, rest)) => {
            let after = rest.find("\n## ").map_or("", |at| &rest[at + 1..]);
            let gap = if after.is_empty() { "" } else { "\n" };
            format!("{before}{text}\n{gap}{after}")
        }
        None => format!("{old}\n{text}\n"),
    };
    fs::write(page, new).unwrap();
}

fn today() -> String {
    said_by("date", &["-u", "+%Y-%m-%d"])
}

fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap();
    let cores = cpuinfo
        .lines()
        .filter(|l| l.starts_with("processor"))
        .count();
    let model = cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(": "))
        .map_or("an unnamed processor", |(_, name)| name);
    let rust = said_by("rustc", &["--version"]);
    let rust = rust.split(' ').nth(1).unwrap_or("?").to_owned();
    format!("{cores} cores of a virtual machine ({model}), Linux, Rust {rust}")
}

pub fn said_by(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
