//! The latest rows of the table, tried: what would become of each, counted by event type. Nothing is published.
//!
//! Never: a payload. A failure names the path, and no more of a value than a failure may.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater_core::disposition::Skip;
use headwater_core::event::{Outbox, Role};
use headwater_core::failure::Failure;
use headwater_core::filter::Rule;
use headwater_core::finding::{Finding, Level};
use headwater_core::row::{Row, Value};
use headwater_core::trouble::Error;
use headwater_source::{mysql, postgres, sqlite};

use crate::parts::{self, Database};
use crate::pipeline::{Outcome, Preparer};

const ROWS: u32 = 1_000;

/// Nobody waits longer for a look at old rows.
const LIMIT: Duration = Duration::from_secs(20);

/// So many notices are shown.
const NOTICES: usize = 20;

/// How much of an event type's name is shown.
const SHOWN: usize = 100;

pub async fn look(database: &Database, preparer: Preparer) -> Vec<Finding> {
    let mut latest = Latest::new(parts::outbox(), preparer);
    let each = |row: &Row| latest.one(row);
    let reading = async {
        match database {
            Database::Postgres(settings) => postgres::each_latest(settings, ROWS, each).await,
            Database::MySql(settings) => mysql::each_latest(settings, ROWS, each).await,
            Database::Sqlite(settings) => {
                sqlite::setup::each_latest(settings, ROWS as usize, each).await
            }
        }
    };
    let read = tokio::time::timeout(LIMIT, reading).await;
    let read = read.unwrap_or_else(|_| {
        let what = format!("reading them took longer than {} s", LIMIT.as_secs());
        Err(Error::transient(what))
    });
    latest.findings(read.err())
}

/// What was seen so far.
struct Latest {
    outbox: Outbox,
    preparer: Preparer,
    skipped: u32,
    unrouted: u32,
    /// By the index of each rule that skipped any.
    filtered: BTreeMap<usize, (Rule, u32)>,
    types: BTreeMap<String, Type>,
    /// The table lacks a column, which was told already.
    unfit: bool,
}

/// The rows of one event type.
#[derive(Default)]
struct Type {
    tried: u32,
    failed: u32,
    /// The newest row that fails, and why.
    example: Option<(String, Failure)>,
}

impl Latest {
    fn new(outbox: Outbox, preparer: Preparer) -> Latest {
        Latest {
            outbox,
            preparer,
            skipped: 0,
            unrouted: 0,
            filtered: BTreeMap::new(),
            types: BTreeMap::new(),
            unfit: false,
        }
    }

    fn one(&mut self, row: &Row) {
        let mut messages = Vec::new();
        let outcome = match self.preparer.prepare(row, &mut messages) {
            Err(_) => return self.unfit = true,
            Ok(Outcome::Skip(skip)) => {
                self.unrouted += u32::from(skip == Skip::Unrouted);
                return self.skipped += 1;
            }
            Ok(Outcome::Filtered(rule)) => {
                self.filtered.entry(rule.index()).or_insert((rule, 0)).1 += 1;
                return self.skipped += 1;
            }
            Ok(outcome) => outcome,
        };
        let of_type = self.types.entry(name(row, &self.outbox)).or_default();
        of_type.tried += 1;
        if let Outcome::Fail { id, failure } = outcome {
            of_type.failed += 1;
            of_type.example.get_or_insert((id, failure));
        }
    }

    fn findings(mut self, broken_off: Option<Error>) -> Vec<Finding> {
        if self.unfit {
            return Vec::new();
        }
        let mut findings = Vec::new();
        let (tried, failed) = self.types.values().fold((0, 0), |(tried, failed), it| {
            (tried + it.tried, failed + it.failed)
        });
        let rows = tried + self.skipped;
        if rows > 0 || broken_off.is_none() {
            findings.push(Finding::ok(summary(
                rows,
                tried - failed,
                failed,
                self.skipped,
            )));
        }
        findings.extend(self.shares(rows));
        findings.extend(broken_off.map(|error| not_tried(error, rows)));
        findings.extend(self.types.iter().filter_map(|(name, it)| it.finding(name)));
        findings.extend(notices(self.preparer.notices()));
        findings
    }
}

impl Latest {
    /// What each rule of the filter, and the lack of a route, would skip of the rows that were tried.
    fn shares(&self, rows: u32) -> Vec<Finding> {
        let of_rule = |rule: Rule| {
            let count = self
                .filtered
                .get(&rule.index())
                .map_or(0, |(_, count)| *count);
            let share = share(count, rows);
            Finding::ok(format!(
                "filter {rule} would skip {count} of them ({share})"
            ))
        };
        let mut shares: Vec<Finding> = self.preparer.rules().map(of_rule).collect();
        if self.unrouted > 0 {
            let share = share(self.unrouted, rows);
            let what = format!(
                "no route takes {} of them ({share}), which unrouted = \"skip\" passes over",
                self.unrouted
            );
            shares.push(Finding::ok(what));
        }
        shares
    }
}

fn share(count: u32, of: u32) -> String {
    let tenths = u64::from(count) * 1000 / u64::from(of.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

impl Type {
    fn finding(&self, name: &str) -> Option<Finding> {
        let (id, failure) = self.example.as_ref()?;
        let Type { tried, failed, .. } = self;
        Some(Finding::problem(
            format!(
                "{failed} of the {tried} latest rows of {name} could not be published, such as the one with id {id}: {failure}"
            ),
            "mend what it complains of, or correct what the application writes: a run stops at such a row, unless [failure] makes a dead letter of it",
        ))
    }
}

fn summary(rows: u32, good: u32, failed: u32, skipped: u32) -> String {
    if rows == 0 {
        return "the table holds no rows to try".to_owned();
    }
    format!(
        "the latest rows were tried ({rows}): {good} can be published, {failed} cannot, {skipped} would be skipped"
    )
}

/// No reason to refuse a run, which does not ask for this.
fn not_tried(error: Error, rows: u32) -> Finding {
    let Finding { what, mend, .. } = error.into();
    let what = match rows {
        0 => format!("the latest rows were not tried: {what}"),
        _ => format!("only {rows} of the latest rows were tried: {what}"),
    };
    Finding {
        level: Level::Warning,
        what,
        mend,
    }
}

fn notices(notices: Vec<String>) -> Vec<Finding> {
    let mend = "change the schema if it should say what the payloads hold";
    let more = notices.len().saturating_sub(NOTICES);
    let shown = notices.into_iter().take(NOTICES);
    let mut findings: Vec<Finding> = shown.map(|notice| Finding::warning(notice, mend)).collect();
    if more > 0 {
        let what = format!("{more} more like these were noticed");
        findings.push(Finding::warning(what, mend));
    }
    findings
}

/// The row's event type, and the namespace that it is in.
fn name(row: &Row, outbox: &Outbox) -> String {
    let Ok(roles) = outbox.bind(&row.table) else {
        return String::new();
    };
    let text = |role: Role| match roles.cell(row, role) {
        Value::Text(text) => text.chars().take(SHOWN).collect(),
        other => format!("({})", other.kind()),
    };
    format!("{} in {}", text(Role::EventType), text(Role::Namespace))
}
