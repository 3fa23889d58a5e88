//! `headwater status`: one screen about a running Headwater, from its admin address.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Exit, Format};
use crate::config::{Admin, Config, Listen};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_BYTES: usize = 1 << 20;

pub async fn status(config: &Config, format: Format) -> Result<(), Exit> {
    let admin = config.admin();
    let Some(listen) = &admin.listen else {
        let what = "admin.listen is \"off\": there is no address to ask; give one and start Headwater again";
        return Err(Exit::Configuration(what.into()));
    };
    let Listen { host, port } = listen.value();
    let answer = timeout(PATIENCE, ask(admin, host, *port)).await;
    let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
    let status = answer.map_err(|why| {
        Exit::Person(format!(
            "no status from {host}:{port}: {why}. Is `headwater run` with this configuration at work on this machine?"
        ))
    })?;
    match format {
        Format::Json => println!("{status:#}"),
        Format::Text => print!("{}", screen(&status)),
    }
    if status["ready"] == true {
        return Ok(());
    }
    let why = status["waiting_for"].as_str().unwrap_or_default();
    Err(Exit::Person(format!("not delivering: {why}")))
}

async fn ask(admin: &Admin, host: &str, port: u16) -> Result<Value, String> {
    let stream = TcpStream::connect((reachable(host), port)).await;
    let stream = stream.map_err(|e| e.to_string())?;
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let named = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let mut request = Request::get("/status").header(HOST, named);
    if let Some(token) = &admin.token {
        let token = token.read()?;
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
    }
    let request = request.body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.map_err(|e| e.to_string())?);
    let answer = answer.await.map_err(|e| e.to_string())?;
    let code = answer.status();
    let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
    let body = body.map_err(|e| e.to_string())?.to_bytes();
    if code != StatusCode::OK {
        let text = String::from_utf8_lossy(&body);
        return Err(format!("it answers {code}: {}", text.trim_end()));
    }
    serde_json::from_slice(&body).map_err(|_| "it answers, but not as Headwater does".into())
}

/// Who listens at every address of the machine is asked at the first.
fn reachable(host: &str) -> &str {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1",
        Ok(IpAddr::V6(address)) if address.is_unspecified() => "::1",
        _ => host,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

fn counts(value: &Value) -> String {
    let counts = value.as_object().into_iter().flatten();
    let counts: Vec<String> = counts
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if counts.is_empty() {
        return "-".into();
    }
    counts.join(", ")
}

fn screen(status: &Value) -> String {
    let state = if status["ready"] == true {
        "delivering"
    } else {
        "NOT DELIVERING"
    };
    let lines = [
        (
            "pipeline",
            format!(
                "{}, {state} (run {}, Headwater {})",
                text(&status["pipeline"]),
                text(&status["run"]),
                text(&status["version"])
            ),
        ),
        ("waiting for", text(&status["waiting_for"])),
        (
            "rows",
            format!(
                "{} read, {} messages published",
                status["rows"], status["published"]
            ),
        ),
        ("skipped", counts(&status["skipped"])),
        ("filtered", counts(&status["filtered"])),
        ("failed", counts(&status["failed"])),
        ("dead letters", counts(&status["dead_letters"])),
        (
            "in flight",
            format!(
                "{} messages, {} bytes",
                status["in_flight"]["messages"], status["in_flight"]["bytes"]
            ),
        ),
        (
            "lag",
            format!(
                "{} s, {} bytes of the log",
                text(&status["lag"]["seconds"]),
                text(&status["lag"]["bytes"])
            ),
        ),
        ("delivery", delivery(&status["delivery"])),
        ("confirmed", text(&status["confirmed"])),
        ("reconnects", counts(&status["reconnects"])),
    ];
    let mut screen = String::new();
    for (name, value) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(screen, "{name:<12} {value}");
    }
    screen
}

fn delivery(delivery: &Value) -> String {
    let number = |name: &str| delivery[name].as_f64().unwrap_or_default();
    let messages = number("messages");
    if messages == 0.0 {
        return "-".into();
    }
    let mean = number("micros") / messages / 1000.0;
    format!("{mean:.1} ms on average, from commit to ack")
}
