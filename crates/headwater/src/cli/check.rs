//! `headwater check`: looks at everything that `run` will need, and changes nothing.

use headwater_core::finding::{Finding, Level};
use headwater_core::positions::Record;
use headwater_source::{postgres, sqlite};
use serde::Serialize;

use super::{Exit, Format};
use crate::config::Config;
use crate::parts::{self, Database, Outlet};
use crate::pipeline::NoRecord;

/// One line of the answer.
#[derive(Serialize)]
struct Line<'f> {
    level: &'static str,
    what: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<&'f str>,
}

pub async fn check(config: &Config, format: Format) -> Result<(), Exit> {
    parts::preparer(config)?;
    let outlet = Outlet::new(config)?;
    let understood = format!("{} is understood", config.file().display());
    let mut findings = vec![Finding::ok(understood)];
    let seen = outlet.check().await;
    let reachable = seen.iter().all(|finding| finding.level != Level::Problem);
    let record = if reachable {
        record(config, &outlet).await
    } else {
        Ok(None)
    };
    let at = record.as_ref().ok().and_then(Option::as_ref);
    let outbox = parts::outbox();
    findings.extend(match parts::database(config) {
        Database::Postgres(settings) => postgres::check(&settings, &outbox, at).await,
        Database::Sqlite(settings) => sqlite::setup::check(&settings, &outbox, at).await,
    });
    findings.extend(seen);
    findings.extend(record.err());
    let lines: Vec<Line<'_>> = findings.iter().map(line).collect();
    match format {
        Format::Text => print(&lines),
        Format::Json => {
            println!(
                "{}",
                serde_json::to_string_pretty(&lines).unwrap_or_default()
            );
        }
    }
    match findings
        .iter()
        .filter(|f| f.level == Level::Problem)
        .count()
    {
        0 => Ok(()),
        1 => Err(Exit::Person("1 problem".into())),
        problems => Err(Exit::Person(format!("{problems} problems"))),
    }
}

/// The position record, or what is wrong with it.
async fn record(config: &Config, outlet: &Outlet) -> Result<Option<Record>, Finding> {
    let read = outlet.look().await.map_err(Finding::from)?;
    let Some(record) = read.filter(Record::has_position) else {
        let missing = NoRecord(config.name().to_owned());
        return Err(Finding::problem(missing.to_string(), "headwater init"));
    };
    Ok(Some(record))
}

fn line(finding: &Finding) -> Line<'_> {
    Line {
        level: match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        },
        what: &finding.what,
        mend: finding.mend.as_deref(),
    }
}

fn print(lines: &[Line<'_>]) {
    for line in lines {
        println!("{:8} {}", line.level, line.what);
        if let Some(mend) = line.mend {
            println!("{:8} mend: {mend}", "");
        }
    }
}
