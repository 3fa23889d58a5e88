//! `headwater check`: looks at everything that `run` will need, and changes nothing.

mod latest;

use headwater_core::finding::{Finding, Level};
use headwater_core::positions::Record;
use headwater_core::rights::Rights;
use headwater_encode::SchemaError;
use headwater_source::{mysql, postgres, sqlite};
use serde::Serialize;

use super::{Exit, Format};
use crate::config::{self, Config, ConfigError};
use crate::parts::{self, Broken, Database, NoEncoder, Outlet};
use crate::pipeline::{NoRecord, NotRecovered, Preparer};

/// So many schemas are named.
const NAMES: usize = 5;

/// One line of the answer.
#[derive(Serialize)]
struct Line<'f> {
    level: &'static str,
    what: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<&'f str>,
    /// Statements and commands that give what is needed.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    rights: &'f [String],
}

pub async fn check(config: &Config, format: Format) -> Result<(), Exit> {
    let outlet = Outlet::new(config)?;
    let database = parts::database(config)?;
    let rights = parts::rights(config, &database, &outlet)?;
    parts::columns::fit(config, &database).await?;
    let understood = format!("{} is understood", config.file().display());
    let mut findings = vec![Finding::ok(understood)];
    let (schemas, preparer) = schemas(config)?;
    findings.extend(schemas);
    let broken = preparer.is_none();
    let seen = outlet.check().await;
    let reachable = seen.iter().all(|finding| finding.level != Level::Problem);
    let record = if reachable {
        record(config, &outlet).await
    } else {
        Ok(None)
    };
    let at = record.as_ref().ok().and_then(Option::as_ref);
    findings.extend(source(&database, at, preparer).await);
    findings.extend(seen);
    findings.extend(record.err());
    tell(&findings, &rights, format);
    let problems = findings.iter().filter(|f| f.level == Level::Problem);
    match problems.count() {
        0 => Ok(()),
        problems if broken => Err(Exit::Configuration(counted(problems))),
        problems => Err(Exit::Person(counted(problems))),
    }
}

/// The configuration as it is understood; nobody is asked anything.
pub fn show(config: &Config) {
    print!("{}", config::toml(config));
}

/// What the schemas are; and, if all of them can be used, what a row is tried with.
fn schemas(config: &Config) -> Result<(Vec<Finding>, Option<Preparer>), ConfigError> {
    match parts::encoder(config) {
        Ok(encoder) => {
            let names = encoder.schemas();
            let finding = (!names.is_empty()).then(|| Finding::ok(named(&names)));
            let preparer = parts::preparer_with(config, encoder)?;
            Ok((finding.into_iter().collect(), Some(preparer)))
        }
        Err(NoEncoder::Broken(Broken { named, errors })) => {
            let problem = |error: &SchemaError| {
                let mend = if named.is_envelope(error) {
                    "correct the file, or remove encode.envelope: an envelope is built in"
                } else {
                    "correct the file, or leave it out of encode.schemas"
                };
                Finding::problem(named.told(error), mend)
            };
            Ok((errors.iter().map(problem).collect(), None))
        }
        Err(NoEncoder::Config(error)) => Err(error),
    }
}

/// How many schemas, and the first of their names.
fn named(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>();
    let shown = shown.join(", ");
    match names.len() {
        1 => format!("1 schema: {shown}"),
        all if all <= NAMES => format!("{all} schemas: {shown}"),
        all => format!("{all} schemas: {shown} and {} more", all - NAMES),
    }
}

/// What the database has, and what its rows would become.
async fn source(
    database: &Database,
    record: Option<&Record>,
    preparer: Option<Preparer>,
) -> Vec<Finding> {
    let outbox = parts::outbox();
    let mut findings = match database {
        Database::Postgres(settings) => postgres::check(settings, &outbox, record).await,
        Database::MySql(settings) => mysql::check(settings, &outbox, record).await,
        Database::Sqlite(settings) => sqlite::setup::check(settings, &outbox, record).await,
    };
    // Of a database that cannot be reached nothing but that is found.
    let reached = findings.iter().any(|it| it.level != Level::Problem);
    if let Some(preparer) = preparer.filter(|_| reached) {
        findings.extend(latest::look(database, preparer).await);
    }
    findings
}

fn counted(problems: usize) -> String {
    match problems {
        1 => "1 problem".into(),
        problems => format!("{problems} problems"),
    }
}

/// The position record, or what is wrong with it.
async fn record(config: &Config, outlet: &Outlet) -> Result<Option<Record>, Finding> {
    let read = outlet.look().await.map_err(Finding::from)?;
    let Some(record) = read.filter(Record::has_position) else {
        let missing = NoRecord(config.name().to_owned());
        return Err(Finding::problem(missing.to_string(), "headwater init"));
    };
    if record.is_recovering() {
        let broken_off = NotRecovered(config.name().to_owned());
        return Err(Finding::problem(
            broken_off.to_string(),
            "headwater recover",
        ));
    }
    Ok(Some(record))
}

fn tell(findings: &[Finding], rights: &[Rights], format: Format) {
    // What was found to lack is a finding of its own. These are to be told before anybody can log in at all.
    let suffice = |it: &Rights| format!("no more rights than these are needed, for {}", it.whose);
    let told: Vec<String> = rights.iter().map(suffice).collect();
    let told = told.iter().zip(rights).map(|(what, rights)| Line {
        level: "ok",
        what,
        mend: None,
        rights: &rights.grants,
    });
    let lines: Vec<Line<'_>> = findings.iter().map(line).chain(told).collect();
    match format {
        Format::Text => print(&lines),
        Format::Json => {
            let json = serde_json::to_string_pretty(&lines);
            println!("{}", json.unwrap_or_default());
        }
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
        rights: &[],
    }
}

fn print(lines: &[Line<'_>]) {
    // A row's own text is in some of them, and a terminal must not be told what to do by it.
    let shown = |text: &str| text.replace(char::is_control, "\u{fffd}");
    for line in lines {
        println!("{:8} {}", line.level, shown(line.what));
        if let Some(mend) = line.mend {
            println!("{:8} mend: {}", "", shown(mend));
        }
        for right in line.rights {
            println!("{:8} {}", "", shown(right));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_named_as_long_as_they_are_few() {
        assert_eq!(named(&["a.avro.B"]), "1 schema: a.avro.B");
        assert_eq!(named(&["a", "b"]), "2 schemas: a, b");
        let many = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(named(&many), "7 schemas: a, b, c, d, e and 2 more");
    }
}
