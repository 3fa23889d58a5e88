//! `headwater dead-letters`: what could not be published, and a second try.

mod list;
mod replay;
mod show;

use headwater_core::failure::Kind;
use headwater_sink::kafka::Back;

use super::{Exit, Format};
use crate::config::Config;
use crate::dead_letters::{Letters, Stand, letters};
use crate::parts::{self, Outlet};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the dead letters that are open; changes nothing
    List {
        /// How to print them; as JSON, a line each
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Show all that one dead letter says; changes nothing
    Show {
        /// Of the letter, or of its event if that has no other
        id: String,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Publish again what dead letters stand for, with the schemas and routes of today, and mark them as replayed; an event comes later
    /// than others of its key that were committed after it
    Replay(Replay),
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["id", "kind", "all"]))]
pub struct Replay {
    /// The letter of this id, or all of the event of this id; may be given several times
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Those of this kind
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<Kind>,
    /// All that are open
    #[arg(long)]
    all: bool,
    /// Say what would be published; publish and mark nothing
    #[arg(long)]
    dry_run: bool,
}

fn kind(name: &str) -> Result<Kind, String> {
    let known = Kind::ALL.map(Kind::name).join(", ");
    Kind::named(name).ok_or_else(|| format!("the kinds are {known}"))
}

pub async fn dead_letters(config: &Config, command: &Command) -> Result<(), Exit> {
    match command {
        Command::List { format } => list::list(config, *format).await,
        Command::Show { id, format } => show::show(config, id, *format).await,
        Command::Replay(args) => replay::replay(config, args).await,
    }
}

/// The topic to be read; none if it is not there, as it is made with its first letter.
async fn topic(config: &Config) -> Result<(&str, Option<Back>), Exit> {
    let outlet = Outlet::new(config)?;
    if !outlet.is_kept() {
        return Err(Exit::Configuration(
            "sink.kind is \"stdout\", and what was printed cannot be read back: this is for Kafka"
                .into(),
        ));
    }
    let topic = parts::dead_letter_topic(config);
    let back = outlet.back_of(topic).await?;
    Ok((topic, back))
}

/// What stands on it; nothing if it is not there.
async fn found(config: &Config, back: Option<&Back>, asked: &[String]) -> Result<Letters, Exit> {
    Ok(match back {
        Some(back) => letters(back, config.name(), asked).await?,
        None => Letters::of(config.name(), asked),
    })
}

/// No letter, open or not, has this id.
fn unknown(id: &str, topic: &str) -> Exit {
    Exit::Configuration(format!(
        "topic {topic} has no dead letter {id} of this pipeline; headwater dead-letters list tells those that are open"
    ))
}

fn closed(stand: &Stand) -> Option<String> {
    let at = stand.replayed.as_ref()?;
    Some(format!("was replayed already, {at}"))
}
