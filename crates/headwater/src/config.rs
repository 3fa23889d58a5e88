//! The configuration: what was written, in a file and in the environment, and what it means.
//!
//! Out: a valid `Config`, or every problem with its file, line, key and nearest valid key.
//! Rule: only this room reads the environment.

mod check;
mod environment;
mod file;
mod problem;
mod quantity;
mod reference;
mod schema;
mod secret;
mod show;
mod url;
mod written;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use check::{
    Admin, Compression, Condition, Config, Database, Encode, Kafka, KafkaTls, KafkaTlsMode,
    KeyFormat, Listen, Log, LogFormat, LogLevel, MySql, PasswordLogin, PositionStore, Postgres,
    Property, Route, Sasl, SaslMechanism, SinkKind, Snapshot, Tls, Token, TokenLogin, TopicRule,
    WhenStopped,
};
pub use problem::{ConfigError, Located};
pub use schema::SchemaFiles;
pub use secret::Password;
pub use show::toml;
pub use url::{Host, Listening};

use problem::{Place, Problem};
use written::Written;

/// Where a configuration is looked for when none was named.
const DEFAULT_FILES: [&str; 2] = ["headwater.toml", "/etc/headwater/headwater.toml"];

/// What stands for the file where there is none.
const NO_FILE: &str = "(environment)";

/// Reads the named file, or else the first of the default ones, and the process's environment.
pub fn load(path: Option<&Path>) -> Result<Config, ConfigError> {
    let variables = environment::variables()?;
    let file = match path {
        Some(path) => path.to_owned(),
        None => match find(&DEFAULT_FILES) {
            Ok(file) => file,
            // In a container the environment may say everything.
            Err(_) if environment::says_anything(&variables) => {
                return parse("", Path::new(NO_FILE), variables.into_iter());
            }
            Err(error) => return Err(error),
        },
    };
    let text = read(&file)?;
    parse(&text, &file, variables.into_iter())
}

/// The same configuration as it is written now.
pub fn again(config: &Config) -> Result<Config, ConfigError> {
    let file = config.file();
    load((file != Path::new(NO_FILE)).then_some(file))
}

/// Reads a text as if it stood in `file`; relative paths are relative to that file's folder.
pub fn parse(
    text: &str,
    file: &Path,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let mut written = Written::new(file, environment.collect());
    file::read(text, &mut written)?;
    environment::overlay(&mut written);
    Config::new(written)
}

/// Whether to write in colour: on a terminal, unless the user asked for none (the `NO_COLOR` convention).
pub fn colour(on_a_terminal: bool) -> bool {
    on_a_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn find(files: &[&str]) -> Result<PathBuf, ConfigError> {
    // A file that may not be looked at is there: reading it tells why.
    let is_there = |file: &&&str| Path::new(file).try_exists().unwrap_or(true);
    match files.iter().find(is_there) {
        Some(file) => Ok(PathBuf::from(file)),
        None => Err(Problem::without_place(format!(
            "there is no configuration: neither {} exists; name one with --config FILE, or begin \
             with this as headwater.toml:\n\n{}",
            files.join(" nor "),
            reference::SMALLEST
        ))
        .into()),
    }
}

fn read(file: &Path) -> Result<String, ConfigError> {
    let bytes = std::fs::read(file).map_err(|error| {
        let what = format!(
            "{}: cannot be read: {error}; a readable TOML file is wanted",
            file.display()
        );
        ConfigError::from(Problem::without_place(what))
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let place = Place::File {
            file: file.into(),
            line: file::line(error.as_bytes(), good),
        };
        Problem::without_key(place, "is not UTF-8; a text file is wanted").into()
    })
}
