//! What `[[route]]` and `[filter]` mean: where events go, and which are not published. Presets are written out here.

use headwater_core::filter::Rule;
use headwater_core::route::Unrouted;
use headwater_source::mysql::Flavor;

use super::source::{Database, Source};
use crate::config::problem::{Located, Place};
use crate::config::written::{Columns, Written};

/// Where an event goes: templates, as written.
#[derive(Clone, Debug)]
pub struct Route {
    /// All must hold: its own, and that of its preset.
    pub conditions: Vec<Condition>,
    pub topic: Located<String>,
    /// Empty: no key.
    pub key: Located<String>,
    pub key_format: KeyFormat,
    pub partition: Option<Located<String>>,
    pub timestamp: Option<Located<String>>,
    pub headers: Vec<(String, Located<String>)>,
    pub headers_from: Option<Located<String>>,
    /// The headers are Debezium's: one more tells the run, and no trace is carried on.
    pub is_debezium: bool,
}

/// Columns or paths into JSON, each with its patterns.
pub type Condition = Vec<(Located<String>, Vec<String>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    Text,
    Json,
    JsonWithSchema,
    Struct,
}

impl KeyFormat {
    const WORDS: [(&str, KeyFormat); 4] = [
        ("text", KeyFormat::Text),
        ("debezium-json", KeyFormat::Json),
        ("debezium-json-schema", KeyFormat::JsonWithSchema),
        ("debezium-string", KeyFormat::Struct),
    ];

    pub fn name(self) -> &'static str {
        let mut words = KeyFormat::WORDS.into_iter();
        words
            .find(|(_, format)| *format == self)
            .map_or("", |(word, _)| word)
    }
}

/// What decides about events before any route.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub skip: Vec<Condition>,
    pub only: Vec<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preset {
    Ekbatan,
    EkbatanRouted,
    Debezium,
}

const HEADER: &str = "__debezium.context";

pub(super) fn routes(
    written: &mut Written,
    name: Option<&str>,
    source: Option<&Source>,
) -> Vec<Route> {
    let mut tables = written.tables("route");
    if tables.is_empty() {
        let place = Place::Default;
        tables.push((String::new(), place, written.part()));
    }
    let mut routes = Vec::new();
    for (_, _, mut table) in tables {
        routes.extend(of_table(&mut table, name, source).unwrap_or_default());
        written.absorb(table);
    }
    routes
}

fn of_table(
    written: &mut Written,
    name: Option<&str>,
    source: Option<&Source>,
) -> Option<Vec<Route>> {
    let preset = match written.given("route.preset") {
        None => None,
        Some(_) => Some(written.word(
            "route.preset",
            &[
                ("ekbatan", Preset::Ekbatan),
                ("ekbatan-routed", Preset::EkbatanRouted),
                ("debezium", Preset::Debezium),
            ],
        )?),
    };
    if preset == Some(Preset::EkbatanRouted) {
        let what = "contradicts route.preset = \"ekbatan-routed\", which has several topics; remove one of the two";
        written.contradict(&["route.topic"], what);
    }
    let mut routes = match preset {
        None | Some(Preset::Ekbatan) => vec![plain(written)?],
        Some(Preset::EkbatanRouted) => routed(written)?,
        Some(Preset::Debezium) => vec![debezium(written, name, source)?],
    };
    let conditions = conditions(written, "route.where");
    let headers = written.members("route.headers");
    let partition = optional(written, "route.partition");
    let timestamp = optional(written, "route.timestamp");
    let headers_from = optional(written, "route.headers_from");
    for route in &mut routes {
        let own = |column: &str| {
            conditions
                .iter()
                .flatten()
                .any(|(own, _)| own.value() == column)
        };
        let of_preset = |condition: &Condition| !condition.iter().any(|(it, _)| own(it.value()));
        route.conditions.retain(of_preset);
        route.conditions.extend(conditions.iter().cloned());
        route.partition.clone_from(&partition);
        route.timestamp.clone_from(&timestamp);
        route.headers_from.clone_from(&headers_from);
        let is_own = |name: &str| headers.iter().any(|(own, _)| own == name);
        route.headers.retain(|(name, _)| !is_own(name));
        route.headers.extend(headers.iter().cloned());
    }
    Some(routes)
}

fn optional(written: &mut Written, path: &'static str) -> Option<Located<String>> {
    written.given(path)?;
    written.text(path)
}

fn plain(written: &mut Written) -> Option<Route> {
    let key_format = key_format(written);
    Some(Route {
        conditions: Vec::new(),
        topic: written.text("route.topic")?,
        key: written.text_or_empty("route.key")?,
        key_format: key_format?,
        partition: None,
        timestamp: None,
        headers: Vec::new(),
        headers_from: None,
        is_debezium: false,
    })
}

/// All events to one topic, and those of a model or of a type of event to topics of their own besides.
fn routed(written: &mut Written) -> Option<Vec<Route>> {
    let route = plain(written)?;
    let to = |beginning: &str, end: &str, column: Option<&str>| {
        let mut route = route.clone();
        let template = format!("ekbatan.{{namespace}}{beginning}{end}");
        route.topic = Located::new("route.topic", Place::Default, template);
        let wanted = column.map(|column| {
            let key = format!("route.where.{column}");
            let place = Located::new(key, Place::Default, column.to_owned());
            vec![(place, vec!["*".to_owned()])]
        });
        route.conditions.extend(wanted);
        route
    };
    Some(vec![
        to("", "", None),
        to(".model.", "{model_type}", Some("model_type")),
        to(".event.", "{event_type}", None),
    ])
}

fn debezium(written: &mut Written, name: Option<&str>, source: Option<&Source>) -> Option<Route> {
    let prefix = match written.given("route.topic_prefix") {
        Some(_) => written.text("route.topic_prefix")?,
        None => Located::new("route.topic_prefix", Place::Default, name?.to_owned()),
    };
    let braces = prefix.value().contains(['{', '}']);
    written.rule(
        &prefix,
        !braces,
        "is no template; a text without braces is wanted",
    );
    let source = source?;
    let has_topic = written.given("route.topic").is_some();
    let has_key = written.given("route.key").is_some();
    let has_format = written.given("route.key_format").is_some();
    let mut route = plain(written)?;
    if !has_topic {
        let topic = format!("{}.{}", prefix.value(), source.table);
        route.topic = Located::new("route.topic", Place::Default, topic);
    }
    if !has_key && !has_format {
        route.key_format = KeyFormat::Json;
    }
    let connector = match &source.database {
        Database::Postgres(_) => "postgresql",
        Database::MySql(mysql) if mysql.flavor == Flavor::MariaDb => "mariadb",
        Database::MySql(_) => "mysql",
        Database::Sqlite(_) => "sqlite",
    };
    // In the order in which Debezium adds them; the run's own is the last.
    for (header, value) in [
        ("connectorLogicalName", prefix.value().as_str()),
        ("taskId", "0"),
        ("connectorName", connector),
    ] {
        let name = format!("{HEADER}.{header}");
        let key = format!("route.headers.{name}");
        let value = Located::new(key, Place::Default, value.to_owned());
        route.headers.push((name, value));
    }
    route.is_debezium = true;
    Some(route)
}

impl Route {
    /// Its value is another one each time the program starts.
    pub const RUN_ID: &str = "__debezium.context.runId";
}

fn key_format(written: &mut Written) -> Option<KeyFormat> {
    written.word("route.key_format", &KeyFormat::WORDS)
}

pub(super) fn unrouted(written: &mut Written) -> Option<Unrouted> {
    let words = [("fail", Unrouted::Fail), ("skip", Unrouted::Skip)];
    written.word("unrouted", &words)
}

pub(super) fn filter(written: &mut Written) -> Filter {
    let place = written.given("filter.skip");
    let skip = conditions(written, "filter.skip");
    if let Some(place) = place.filter(|_| skip.len() > Rule::MOST) {
        let what = format!(
            "has more than {} conditions; one can have several columns, and a column several texts",
            Rule::MOST
        );
        written.refuse(&place, "filter.skip", what);
    }
    let place = written.given("filter.only");
    let only = conditions(written, "filter.only");
    if let Some(place) = place.filter(|_| only.is_empty()) {
        let what =
            "has no condition, so no event could be published; conditions are wanted, or remove it";
        written.refuse(&place, "filter.only", what);
    }
    Filter { skip, only }
}

fn conditions(written: &mut Written, path: &'static str) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (place, columns) in written.conditions(path) {
        if columns.is_empty() && path != "route.where" {
            let what =
                "has an empty condition, which would hold for every event; columns are wanted";
            written.refuse(&place, path, what);
        }
        if !columns.is_empty() {
            conditions.push(texts(columns));
        }
    }
    conditions
}

fn texts(columns: Columns) -> Condition {
    let columns = columns.into_iter();
    columns
        .map(|(column, items)| {
            let texts = items.into_iter().map(|item| item.into_value().text);
            (column, texts.collect())
        })
        .collect()
}
