//! Where a configuration's messages and positions go.

mod login;
mod replay;
mod settings;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use headwater_core::ledger::Ticket;
use headwater_core::message::Message;
use headwater_core::positions::{Positions, Record};
use headwater_core::rights::Rights;
use headwater_core::route::Topics;
use headwater_core::sink::{Report, Sink, Unsent};
use headwater_core::trouble::Trouble;
#[cfg(feature = "bench")]
use headwater_sink::Count as Stdout;
#[cfg(not(feature = "bench"))]
use headwater_sink::Stdout;
use headwater_sink::kafka::{self, Made};
use headwater_sink::{Error, FilePositions, Finding, Form, Kafka, KafkaPositions};

use login::{Login, logging_in};
use settings::settings;

use crate::config::{self, Config, ConfigError, PositionStore, SinkKind};
use crate::pipeline::Destination;

/// How long `check` waits for the broker.
const LOOK: Duration = Duration::from_secs(10);

/// A sink of either kind.
pub enum AnySink {
    Kafka(Box<Kafka>),
    Stdout(Stdout),
}

impl AnySink {
    /// The sink, if it has topics and is to make those that are missing.
    pub fn makes_topics(&self) -> Option<&Kafka> {
        match self {
            AnySink::Kafka(kafka) if kafka.makes_topics() => Some(kafka),
            AnySink::Kafka(_) | AnySink::Stdout(_) => None,
        }
    }
}

impl Sink for AnySink {
    type Error = Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        match self {
            AnySink::Kafka(kafka) => kafka.send(message, ticket),
            AnySink::Stdout(stdout) => stdout.send(message, ticket),
        }
    }

    fn queued(&self) -> Option<usize> {
        match self {
            AnySink::Kafka(kafka) => kafka.queued(),
            AnySink::Stdout(stdout) => stdout.queued(),
        }
    }

    async fn next_report(&mut self) -> Result<Report, Error> {
        match self {
            AnySink::Kafka(kafka) => kafka.next_report().await,
            AnySink::Stdout(stdout) => stdout.next_report().await,
        }
    }
}

/// A memory of either kind.
pub enum AnyPositions {
    Topic(KafkaPositions),
    File(FilePositions),
}

impl Positions for AnyPositions {
    type Error = Error;

    async fn read(&mut self) -> Result<Option<Record>, Error> {
        match self {
            AnyPositions::Topic(topic) => topic.read().await,
            AnyPositions::File(file) => file.read().await,
        }
    }

    fn write(&mut self, record: &Record) -> Result<(), Error> {
        match self {
            AnyPositions::Topic(topic) => topic.write(record),
            AnyPositions::File(file) => file.write(record),
        }
    }

    async fn written(&mut self) -> Result<(), Error> {
        match self {
            AnyPositions::Topic(topic) => topic.written().await,
            AnyPositions::File(file) => file.written().await,
        }
    }
}

pub struct Outlet {
    name: String,
    sink: Kind,
    positions: PositionStore,
    /// The topic of dead letters.
    dead_letters: String,
}

enum Kind {
    /// The login is completed whenever the sink is opened: the password's file or command may say another one by then.
    Kafka(Box<kafka::Settings>, Option<Login>),
    Stdout,
}

impl Outlet {
    pub fn new(config: &Config) -> Result<Outlet, ConfigError> {
        Ok(Outlet {
            name: config.name().to_owned(),
            sink: match &config.sink().kind {
                SinkKind::Kafka(kafka) => {
                    let login = kafka.sasl.as_ref().map(Login::new).transpose()?;
                    Kind::Kafka(Box::new(settings(config, kafka)?), login)
                }
                SinkKind::Stdout => Kind::Stdout,
            },
            positions: config.position().clone(),
            dead_letters: super::dead_letter_topic(config).to_owned(),
        })
    }

    /// Opens the sink alone.
    pub async fn sink(&self) -> Result<AnySink, Error> {
        Ok(match &self.sink {
            Kind::Kafka(settings, sasl) => {
                let settings = logging_in(settings, sasl.as_ref()).await?;
                AnySink::Kafka(Box::new(Kafka::open(settings)?))
            }
            Kind::Stdout => AnySink::Stdout(Stdout::open(form())?),
        })
    }

    /// Opens the sink and the memory, whether or not they are fit for a run.
    pub async fn connect(&self) -> Result<(AnySink, AnyPositions), Error> {
        let sink = self.sink().await?;
        let positions = match (&self.positions, &sink) {
            (PositionStore::Topic { name, replication }, AnySink::Kafka(kafka)) => {
                AnyPositions::Topic(kafka.positions(name, *replication, &self.name))
            }
            (PositionStore::File(file), _) => self.file(file)?,
            (PositionStore::Topic { .. }, AnySink::Stdout(_)) => {
                unreachable!("a configuration without brokers names a file")
            }
        };
        Ok((sink, positions))
    }

    fn file(&self, file: &PathBuf) -> Result<AnyPositions, Error> {
        Ok(AnyPositions::File(FilePositions::open(file, &self.name)?))
    }

    /// Makes the place for positions, and says so if it had to.
    pub async fn init(&self, positions: &AnyPositions) -> Result<Option<String>, Error> {
        match (positions, &self.positions) {
            (AnyPositions::Topic(topic), PositionStore::Topic { name, .. }) => {
                Ok(match topic.init().await? {
                    Made::Created => Some(format!("positions topic {name}: created")),
                    Made::AlreadyThere => None,
                })
            }
            _ => Ok(None),
        }
    }

    /// Whether topics that are missing are made.
    pub fn makes_topics(&self) -> bool {
        matches!(&self.sink, Kind::Kafka(settings, _) if settings.create_topics)
    }

    /// What `init` would make, in words.
    pub fn plan(&self) -> String {
        match &self.positions {
            PositionStore::Topic { name, replication } => format!(
                "positions topic {name}, unless it is there: one partition, replication {replication}, compacted; \
                 and in it the first record of pipeline {}",
                self.name
            ),
            PositionStore::File(file) => format!("the first record, in {}", file.display()),
        }
    }

    /// What Kafka's administrator has to grant, if there is one; the password is not read.
    pub fn rights(&self, topics: &[Topics]) -> Option<Rights> {
        let Kind::Kafka(settings, sasl) = &self.sink else {
            return None;
        };
        let mut settings = settings.clone();
        settings.sasl = sasl.as_ref().map(Login::without_secret);
        Some(kafka::rights(&settings, topics, self.positions_topic()))
    }

    fn positions_topic(&self) -> Option<&str> {
        match &self.positions {
            PositionStore::Topic { name, .. } => Some(name),
            PositionStore::File(_) => None,
        }
    }

    /// The position record as it is, with nothing changed or locked; waits no longer than `check` does.
    pub async fn look(&self) -> Result<Option<Record>, Error> {
        if let PositionStore::File(file) = &self.positions {
            return headwater_sink::file::look(file, &self.name);
        }
        let (_sink, mut positions) = self.connect().await?;
        match tokio::time::timeout(LOOK, positions.read()).await {
            Ok(read) => read,
            Err(_) => Err(Error::transient(format!(
                "the positions topic could not be read within {LOOK:?}"
            ))),
        }
    }

    /// The topics that messages go to, to be read back; none of a sink that keeps nothing.
    pub async fn back(&self, routes: &[Topics]) -> Result<Option<kafka::Back>, Error> {
        let Kind::Kafka(settings, sasl) = &self.sink else {
            return Ok(None);
        };
        let settings = logging_in(settings, sasl.as_ref()).await?;
        let mut without = vec![self.dead_letters.as_str()];
        without.extend(self.positions_topic());
        let back = kafka::Back::find(settings, routes, &without).await?;
        Ok(Some(back))
    }

    /// One topic, to be read back; none if it is not there, or of a sink that keeps nothing.
    pub async fn back_of(&self, topic: &str) -> Result<Option<kafka::Back>, Error> {
        let Kind::Kafka(settings, sasl) = &self.sink else {
            return Ok(None);
        };
        let settings = logging_in(settings, sasl.as_ref()).await?;
        kafka::Back::of(settings, topic).await
    }

    /// Whether what was sent can be read back.
    pub fn is_kept(&self) -> bool {
        matches!(self.sink, Kind::Kafka(..))
    }

    pub async fn check(&self) -> Vec<Finding> {
        let Kind::Kafka(settings, sasl) = &self.sink else {
            return Vec::new();
        };
        match logging_in(settings, sasl.as_ref()).await {
            Ok(settings) => kafka::check(settings, self.positions_topic(), LOOK).await,
            Err(error) => vec![error.into()],
        }
    }
}

impl Destination for Outlet {
    type Sink = AnySink;
    type Positions = AnyPositions;

    async fn open(&mut self) -> Result<(AnySink, AnyPositions), Box<dyn Trouble>> {
        let (sink, positions) = self.connect().await.map_err(boxed)?;
        if let AnyPositions::Topic(topic) = &positions {
            topic.verify().await.map_err(boxed)?;
        }
        Ok((sink, positions))
    }
}

fn boxed(error: Error) -> Box<dyn Trouble> {
    Box::new(error)
}

/// For people on a terminal, for programs elsewhere.
pub fn form() -> Form {
    if std::io::stdout().is_terminal() {
        Form::Readable {
            colour: config::colour(true),
        }
    } else {
        Form::Lines
    }
}
