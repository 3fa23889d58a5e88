//! `headwater check`: looks at everything that `run` will need, and changes nothing.

use headwater_core::finding::{Finding, Level};
use headwater_source::{postgres, sqlite};
use serde::Serialize;

use super::{Exit, Format};
use crate::config::Config;
use crate::parts::{self, Database, Outlet};

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
    findings.extend(match parts::database(config) {
        Database::Postgres(settings) => postgres::check(&settings, &parts::outbox()).await,
        Database::Sqlite(settings) => sqlite::setup::check(&settings, &parts::outbox()).await,
    });
    findings.extend(outlet.check().await);
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
