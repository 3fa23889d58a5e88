//! The log: what is written, how, and where to.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat, LogLevel};

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Writes our own crates' log to standard error. The libraries' own lines stay out: what they report comes back to us as
/// errors, and is logged once, where it is handled.
pub fn start(log: Log) {
    let level = match log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let ours = ["headwater", "headwater_source", "headwater_sink"];
    let filter = ours.map(|name| format!("{name}={level}")).join(",");
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("off,{filter}")))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(crate::config::colour(std::io::stderr().is_terminal()));
    FORMAT.get_or_init(|| log.format);
    match log.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

/// Whether every line on standard error is to be JSON, the last one included.
pub fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}
