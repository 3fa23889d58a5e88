//! What a configuration means: a `Config` exists only if everything in it is valid and fits together.

mod admin;
mod encode;
mod failure;
mod password;
mod route;
mod sasl;
mod security;
mod sink;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use headwater_core::route::Unrouted;

use super::problem::{ConfigError, Problem};
use super::written::Written;

pub use admin::{Admin, Listen, Token};
pub use encode::Encode;
pub use failure::{Failure, WhenStopped};
pub use route::{Condition, Filter, KeyFormat, Route};
pub use sasl::{PasswordLogin, Sasl, SaslMechanism, TokenLogin};
pub use security::{KafkaTls, KafkaTlsMode};
pub use sink::{Compression, Kafka, PositionStore, Property, Sink, SinkKind, TopicRule};
pub use source::{Database, MySql, Postgres, Snapshot, Source, Tls};

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    file: Arc<Path>,
    name: String,
    source: Source,
    encode: Encode,
    filter: Filter,
    routes: Vec<Route>,
    unrouted: Unrouted,
    failure: Failure,
    sink: Sink,
    position: PositionStore,
    admin: Admin,
    log: Log,
    told: BTreeMap<String, String>,
}

impl Config {
    pub(super) fn new(mut written: Written) -> Result<Self, ConfigError> {
        let file = written.file();
        let name = name(&mut written);
        let source = source::check(&mut written, name.as_deref());
        settled(&mut written);
        let encode = encode::check(&mut written);
        let filter = route::filter(&mut written);
        let routes = route::routes(&mut written, name.as_deref(), source.as_ref());
        let unrouted = route::unrouted(&mut written);
        let sink = sink::check(&mut written);
        let position = sink::position(&mut written, sink.as_ref().map(|sink| &sink.kind));
        let others = failure::Others {
            routes: &routes,
            sink: sink.as_ref().map(|sink| &sink.kind),
            position: position.as_ref(),
        };
        let failure = failure::check(&mut written, name.as_deref(), &others);
        let admin = admin::check(&mut written);
        let log = log(&mut written);
        let told = written.told();
        written.finish()?;
        let whole = (|| {
            Some(Self {
                file,
                name: name?,
                source: source?,
                encode: encode?,
                filter,
                routes,
                unrouted: unrouted?,
                failure: failure?,
                sink: sink?,
                position: position?,
                admin: admin?,
                log: log?,
                told,
            })
        })();
        whole.ok_or_else(|| {
            // A part is missing only after a problem was told, and then `finish` has returned.
            Problem::without_place("refused for a reason nobody told").into()
        })
    }

    /// The file that was read, for people.
    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    pub fn encode(&self) -> &Encode {
        &self.encode
    }

    /// At least one.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    pub fn unrouted(&self) -> Unrouted {
        self.unrouted
    }

    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    pub fn position(&self) -> &PositionStore {
        &self.position
    }

    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// All that it says, as TOML by key; without routes, filters and topics, which have been worked out.
    pub(super) fn told(&self) -> &BTreeMap<String, String> {
        &self.told
    }

    pub fn log(&self) -> Log {
        self.log
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    pub level: LogLevel,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

fn name(written: &mut Written) -> Option<String> {
    let name = written.text("name")?;
    let holds = name.value().len() <= 40 && is_plain(name.value());
    written
        .rule(
            &name,
            holds,
            "is no pipeline's name; 1 to 40 of a-z, 0-9 and _ are wanted",
        )
        .then(|| name.into_value())
}

fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.chars().all(plain)
}

/// The keys that can say one thing only so far: what they say is checked, and there is nothing to hand on.
fn settled(written: &mut Written) {
    written.word("outbox.layout", &[("ekbatan", ())]);
    written.word("sink.delivery", &[("at-least-once", ())]);
}

fn log(written: &mut Written) -> Option<Log> {
    let level = written.word(
        "log.level",
        &[
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ],
    );
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let format = written.word("log.format", &formats);
    Some(Log {
        level: level?,
        format: format?,
    })
}
