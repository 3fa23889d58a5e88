//! A configuration in full, as TOML: presets written out, defaults filled in.
//!
//! Never: a secret; and of a value with `${NAME}` no more than was written.

use std::fmt::Write as _;

use super::check::{Condition, Config, KeyFormat, Route, SinkKind, TopicRule};
use super::problem::Located;
use super::reference::{self, Kind};

const HIDDEN: &str = "\"***\"";

/// A value of this key as TOML.
pub(super) fn value(path: &str, text: &str) -> String {
    let kind = reference::find(path).map_or(Kind::Text, |key| key.kind);
    let leaf = path.rsplit('.').next().unwrap_or_default();
    match (kind, leaf) {
        // A property may be a password, and a command may hold one.
        (
            _,
            "password"
            | "client_secret"
            | "password_command"
            | "client_secret_command"
            | "properties",
        ) => HIDDEN.to_owned(),
        (_, "url" | "token_endpoint") => quoted(&without_password(text)),
        (Kind::Integer | Kind::Bool, _) => text.to_owned(),
        _ => quoted(text),
    }
}

/// JSON's strings are TOML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn without_password(url: &str) -> String {
    let (head, query) = match url.split_once('?') {
        Some((head, query)) => (head, Some(query)),
        None => (url, None),
    };
    let mut shown = match head.rsplit_once('@') {
        Some((user, host)) => match user.split_once("://") {
            Some((scheme, user)) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                let hidden = if password.is_empty() { "" } else { ":***" };
                format!("{scheme}://{user}{hidden}@{host}")
            }
            None => "***".to_owned(),
        },
        None => head.to_owned(),
    };
    for (number, part) in query.into_iter().flat_map(|it| it.split('&')).enumerate() {
        shown.push(if number == 0 { '?' } else { '&' });
        match part.split_once('=') {
            Some((name, _)) if name.contains("password") => {
                shown.push_str(name);
                shown.push_str("=***");
            }
            _ => shown.push_str(part),
        }
    }
    shown
}

/// The whole configuration.
pub fn toml(config: &Config) -> String {
    let mut page = String::new();
    let mut section = "";
    for key in reference::all() {
        let (of, _) = key.path.split_once('.').unwrap_or(("", key.path));
        if of != section {
            section = of;
            match section {
                "route" => routes(&mut page, config),
                "filter" => filter(&mut page, config),
                _ => line(&mut page, &format!("\n[{section}]")),
            }
        }
        if matches!(section, "route" | "filter") {
            continue;
        }
        for (path, value) in told(config, key.path) {
            let name = path
                .strip_prefix(section)
                .unwrap_or(path)
                .trim_start_matches('.');
            let name = match key.kind {
                Kind::Map => member(name, key.path, section),
                _ => name.to_owned(),
            };
            line(&mut page, &format!("{name} = {value}"));
        }
    }
    if let SinkKind::Kafka(kafka) = &config.sink().kind {
        kafka.topics.iter().for_each(|rule| topics(&mut page, rule));
    }
    page
}

/// What was told of a key, or of the members of a map.
fn told<'c>(config: &'c Config, path: &'c str) -> impl Iterator<Item = (&'c str, &'c str)> {
    let beginning = format!("{path}.");
    let all = config.told().iter();
    all.filter(move |(key, _)| *key == path || key.starts_with(&beginning))
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

/// `properties."security.protocol"`: the member's own name may have dots.
fn member(name: &str, path: &str, section: &str) -> String {
    let map = path
        .strip_prefix(section)
        .unwrap_or(path)
        .trim_start_matches('.');
    match name.strip_prefix(map).and_then(|it| it.strip_prefix('.')) {
        Some(member) => format!("{map}.{}", quoted(member)),
        None => name.to_owned(),
    }
}

fn routes(page: &mut String, config: &Config) {
    for route in config.routes() {
        line(page, "\n[[route]]");
        one(page, route);
    }
}

fn one(page: &mut String, route: &Route) {
    let columns: Vec<String> = route.conditions.iter().map(columns).collect();
    if !columns.is_empty() {
        line(page, &format!("where = {{ {} }}", columns.join(", ")));
    }
    line(page, &format!("topic = {}", quoted(route.topic.value())));
    match route.key_format {
        KeyFormat::Text => line(page, &format!("key = {}", quoted(route.key.value()))),
        format => line(page, &format!("key_format = {}", quoted(format.name()))),
    }
    let mut optional = |name: &str, value: &Option<Located<String>>| {
        if let Some(value) = value {
            line(page, &format!("{name} = {}", quoted(value.value())));
        }
    };
    optional("partition", &route.partition);
    optional("timestamp", &route.timestamp);
    optional("headers_from", &route.headers_from);
    for (name, value) in &route.headers {
        let (name, value) = (quoted(name), quoted(value.value()));
        line(page, &format!("headers.{name} = {value}"));
    }
    if route.is_debezium {
        line(
            page,
            &format!(
                "# and the header {}, another uuid at each start",
                Route::RUN_ID
            ),
        );
    }
}

fn filter(page: &mut String, config: &Config) {
    let filter = config.filter();
    if filter.skip.is_empty() && filter.only.is_empty() {
        return;
    }
    line(page, "\n[filter]");
    for (name, conditions) in [("skip", &filter.skip), ("only", &filter.only)] {
        let conditions: Vec<String> = conditions.iter().map(columns).collect();
        if !conditions.is_empty() {
            let conditions = conditions.join(" }, { ");
            line(page, &format!("{name} = [{{ {conditions} }}]"));
        }
    }
}

fn columns(condition: &Condition) -> String {
    let column = |(place, texts): &(Located<String>, Vec<String>)| {
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        format!("{} = [{}]", quoted(place.value()), texts.join(", "))
    };
    condition
        .iter()
        .map(column)
        .collect::<Vec<String>>()
        .join(", ")
}

fn topics(page: &mut String, rule: &TopicRule) {
    line(page, &format!("\n[sink.topics.{}]", quoted(&rule.pattern)));
    for (name, number) in [
        ("partitions", rule.partitions),
        ("replication", rule.replication),
    ] {
        if let Some(number) = number {
            line(page, &format!("{name} = {number}"));
        }
    }
    for (name, value) in &rule.settings {
        line(
            page,
            &format!("settings.{} = {}", quoted(name), quoted(value)),
        );
    }
}

fn line(page: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{line}");
}
