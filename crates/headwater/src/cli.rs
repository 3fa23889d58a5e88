//! The commands, as the operator meets them. They print; nobody else does.

mod adopt;
mod audit;
mod check;
mod dead_letters;
mod demo;
mod init;
mod peek;
mod progress;
mod recover;
mod replay;
mod run;
mod status;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use headwater_core::instant::Instant;
use headwater_core::trouble::Trouble;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{self, Config, ConfigError};
use crate::pipeline::Stop;

/// Puts the rows that applications insert into their outbox table onto Kafka: every one of them, in commit order.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, max_term_width = 100)]
struct Cli {
    /// The configuration [default: headwater.toml, then /etc/headwater/headwater.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the whole path with nothing installed: an outbox in a temporary SQLite file, an application that writes to it,
    /// the real pipeline, and a count at the end
    Demo(demo::Args),
    /// Look at everything that `run` will need, and say what mends it; changes nothing
    Check {
        /// Print the configuration in full instead: presets written out, defaults filled in, secrets as ***
        #[arg(long)]
        show_config: bool,
        /// How to print the findings
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Make what `run` needs: publication, slot, positions topic, first position record, the topics that rows lead to; what is there stays as it is
    Init {
        /// Print what would be done, SQL included, and which rights suffice for it; do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Carry events until told to stop (SIGTERM, SIGINT)
    Run {
        /// Do `init` first if this pipeline never ran (for containers)
        #[arg(long)]
        init: bool,
    },
    /// Print the latest rows of the table as they would be published; changes nothing
    Peek {
        /// How many rows
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: u32,
        /// Go on with new rows, through a temporary slot, until interrupted
        #[arg(long)]
        follow: bool,
    },
    /// Show how the running Headwater of this configuration stands, from its admin address; changes nothing
    Status {
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Publish a part of the table again, beside a running pipeline, each message with the header `headwater-replay`
    Replay(replay::Args),
    /// What could not be published: list it, look at it, publish it after all
    #[command(subcommand)]
    DeadLetters(dead_letters::Command),
    /// Begin at the position that the slot itself has (MySQL, MariaDB: at the end of the log), after a person decided so
    Adopt {
        /// Begin behind this position instead (MySQL, MariaDB): GTIDs, or `FILE:OFFSET`
        #[arg(long, value_name = "POSITION")]
        at: Option<String>,
    },
    /// After a lost log: publish what is missing, from the table, and let the log go on anew
    Recover {
        /// Events of this date or later [default: 15 minutes before the last event that is remembered]; the log is given up even if
        /// it can be read
        #[arg(long, value_name = "TIME")]
        from: Option<Instant>,
        /// Say what would be published; publish and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare the table with the topics: what is missing, dead-lettered, doubled, foreign; changes nothing
    Audit {
        /// Events of this date or later [default: all]
        #[arg(long, value_name = "TIME")]
        from: Option<Instant>,
        /// Events before this date [default: a minute ago]
        #[arg(long, value_name = "TIME")]
        to: Option<Instant>,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// How a command ends when it does not end well.
#[derive(Debug)]
pub enum Exit {
    Unexpected(String),
    Configuration(String),
    /// A person is needed; the text says what for.
    Person(String),
}

impl Exit {
    fn code(&self) -> u8 {
        match self {
            Exit::Unexpected(_) => 1,
            Exit::Configuration(_) => 2,
            Exit::Person(_) => 3,
        }
    }

    /// An error that a command met: fatal ones need a person, others were not expected to stay.
    fn trouble(trouble: &dyn Trouble) -> Exit {
        if trouble.is_fatal() {
            Exit::Person(trouble.to_string())
        } else {
            Exit::Unexpected(trouble.to_string())
        }
    }
}

impl<T: Trouble> From<T> for Exit {
    fn from(trouble: T) -> Exit {
        Exit::trouble(&trouble)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Unexpected(text) | Exit::Configuration(text) | Exit::Person(text) => {
                f.write_str(text)
            }
        }
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match command(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            if crate::telemetry::is_json() {
                tracing::error!("{exit}");
            } else {
                eprintln!("headwater: {exit}");
            }
            ExitCode::from(exit.code())
        }
    }
}

fn command(cli: Cli) -> Result<(), Exit> {
    // One thread carries everything: the broker's and SQLite's own threads do the rest.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Exit::Unexpected(format!("the runtime could not be started: {e}")))?;
    let done = match cli.command {
        Command::Demo(args) => runtime.block_on(demo::demo(&args)),
        Command::Check {
            show_config: true, ..
        } => load(cli.config.as_deref()).map(|config| check::show(&config)),
        Command::Check { format, .. } => {
            runtime.block_on(check::check(&load(cli.config.as_deref())?, format))
        }
        Command::Init { dry_run } => {
            runtime.block_on(init::init(&load(cli.config.as_deref())?, dry_run))
        }
        Command::Run { init } => runtime.block_on(run::run(&load(cli.config.as_deref())?, init)),
        Command::Peek { limit, follow } => {
            runtime.block_on(peek::peek(&load(cli.config.as_deref())?, limit, follow))
        }
        Command::Status { format } => {
            runtime.block_on(status::status(&load(cli.config.as_deref())?, format))
        }
        Command::Replay(args) => {
            let file = cli.config.as_deref();
            runtime.block_on(replay::replay(&load(file)?, &args, file))
        }
        Command::DeadLetters(command) => {
            let config = load(cli.config.as_deref())?;
            runtime.block_on(dead_letters::dead_letters(&config, &command))
        }
        Command::Adopt { at } => {
            runtime.block_on(adopt::adopt(&load(cli.config.as_deref())?, at.as_deref()))
        }
        Command::Recover { from, dry_run } => runtime.block_on(recover::recover(
            &load(cli.config.as_deref())?,
            from,
            dry_run,
        )),
        Command::Audit { from, to, format } => {
            let config = load(cli.config.as_deref())?;
            runtime.block_on(audit::audit(&config, (from, to), format))
        }
    };
    // A thread that waits for a broker that is away must not keep the process.
    runtime.shutdown_background();
    done
}

fn load(file: Option<&Path>) -> Result<Config, Exit> {
    let config = config::load(file)?;
    crate::telemetry::start(config.log());
    Ok(config)
}

impl From<ConfigError> for Exit {
    fn from(error: ConfigError) -> Exit {
        Exit::Configuration(error.to_string())
    }
}

/// A wish to stop that SIGTERM and SIGINT tell.
fn stop_on_signals() -> Result<Stop, Exit> {
    let deaf = |e| Exit::Unexpected(format!("signals cannot be heard: {e}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(deaf)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(deaf)?;
    let (ask, stop) = Stop::channel();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to stop");
        ask.stop();
        // Whoever dropped this could never be asked: the channel stays open.
        std::future::pending::<()>().await;
    });
    Ok(stop)
}
