//! From an event to its address: the templates of topic and key.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::event::{Event, Role};
use crate::failure::{Failure, Kind};
use crate::instant::Instant;
use crate::message::Address;

/// A template could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTemplate {
    pub template: String,
    pub reason: String,
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template \"{}\": {}", self.template, self.reason)
    }
}

/// Text with places that an event fills: `{column}`; `{a|b}` is the first that is not null; `{a|"text"}` has a last resort.
#[derive(Debug, Clone)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Literal(String),
    /// The columns to look at, in order, and what to write if all are null.
    First(Vec<Role>, Option<String>),
}

impl Template {
    pub fn parse(template: &str) -> Result<Template, BadTemplate> {
        let bad = |reason: String| BadTemplate {
            template: template.to_owned(),
            reason,
        };
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find(['{', '}']) {
            let (literal, place) = rest.split_at(open);
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let place = place
                .strip_prefix('{')
                .ok_or_else(|| bad("a } without its {".into()))?;
            let end = closing(place).ok_or_else(|| bad("a { without its }".into()))?;
            let (inside, after) = place.split_at(end);
            parts.push(first(inside).map_err(bad)?);
            rest = after.strip_prefix('}').unwrap_or_default();
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Template { parts })
    }

    /// What every text that an event makes of it begins with, and whether that is all of it.
    fn beginning(&self) -> (&str, bool) {
        match self.parts.as_slice() {
            [Part::Literal(text)] => (text, true),
            [Part::Literal(text), ..] => (text, false),
            _ => ("", false),
        }
    }

    fn render(&self, event: &Event<'_>, into: &mut String) -> Result<(), Failure> {
        into.clear();
        for part in &self.parts {
            match part {
                Part::Literal(text) => into.push_str(text),
                Part::First(roles, last) => {
                    let written = roles.iter().any(|role| write(*role, event, into));
                    match last {
                        _ if written => {}
                        Some(text) => into.push_str(text),
                        None => return Err(all_null(roles)),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Where the place ends: the first `}` that is not inside quotes.
fn closing(place: &str) -> Option<usize> {
    let mut quoted = false;
    place.char_indices().find_map(|(index, char)| match char {
        '"' => {
            quoted = !quoted;
            None
        }
        '}' if !quoted => Some(index),
        _ => None,
    })
}

fn first(inside: &str) -> Result<Part, String> {
    let (names, last) = match inside.find('"') {
        None => (inside, None),
        Some(quote) => {
            let (names, text) = inside.split_at(quote);
            let text = text
                .strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
                .filter(|text| !text.contains('"'))
                .ok_or(
                    "text in quotes must be the last in its braces, as in {model_id|\"none\"}",
                )?;
            let names = names
                .strip_suffix('|')
                .ok_or("text in quotes needs a column before it, as in {model_id|\"none\"}")?;
            (names, Some(text.to_owned()))
        }
    };
    let roles = names
        .split('|')
        .map(|name| Role::named(name.trim()).ok_or_else(|| unknown(name)))
        .collect::<Result<Vec<Role>, String>>()?;
    Ok(Part::First(roles, last))
}

fn unknown(name: &str) -> String {
    let known = Role::ALL.map(Role::name).join(", ");
    format!("no column \"{}\"; there are {known}", name.trim())
}

/// Writes the column's text; false if it is null.
fn write(role: Role, event: &Event<'_>, into: &mut String) -> bool {
    let text = match role {
        Role::Id => Some(&event.id),
        Role::Namespace => Some(&event.namespace),
        Role::ActionId => Some(&event.action_id),
        Role::ActionName => Some(&event.action_name),
        Role::ActionParams => Some(&event.action_params),
        Role::ModelId => event.model_id.as_ref(),
        Role::ModelType => event.model_type.as_ref(),
        Role::EventType => Some(&event.event_type),
        Role::Payload => Some(&event.payload),
        Role::StartedDate => return write_date(event.started_date, into),
        Role::CompletionDate => return write_date(event.completion_date, into),
        Role::EventDate => return write_date(event.event_date, into),
        Role::Delivered => {
            into.push_str(if event.delivered.is_set() {
                "true"
            } else {
                "false"
            });
            return true;
        }
    };
    if let Some(text) = text {
        into.push_str(text);
    }
    text.is_some()
}

fn write_date(micros: i64, into: &mut String) -> bool {
    fmt::Write::write_fmt(into, format_args!("{}", Instant(micros))).is_ok()
}

fn all_null(roles: &[Role]) -> Failure {
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    let verb = if names.len() == 1 { "is" } else { "are all" };
    Failure::new(
        Kind::Unroutable,
        format!("{} {verb} null, and the route needs it", names.join(", ")),
    )
}

/// The topics that a route can lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topics {
    Only(String),
    /// All that begin so; with nothing: all that there are.
    Beginning(String),
}

/// One way from an event to a topic.
#[derive(Debug)]
pub struct Route {
    topic: Template,
    key: Option<Template>,
    buffer: String,
    /// Events mostly go where the one before them went: its name is shared instead of made again.
    last_topic: Option<Arc<str>>,
    /// Every message has them.
    headers: Vec<(Arc<str>, Bytes)>,
}

impl Route {
    /// An empty key template means messages without a key.
    pub fn parse(topic: &str, key: &str) -> Result<Route, BadTemplate> {
        let key = match key {
            "" => None,
            key => Some(Template::parse(key)?),
        };
        Ok(Route {
            topic: Template::parse(topic)?,
            key,
            buffer: String::new(),
            last_topic: None,
            headers: Vec::new(),
        })
    }

    /// The same, with one more header on every message.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Route {
        let value = Bytes::copy_from_slice(value.as_bytes());
        self.headers.push((name.into(), value));
        self
    }

    pub fn topics(&self) -> Topics {
        match self.topic.beginning() {
            (topic, true) => Topics::Only(topic.to_owned()),
            (beginning, false) => Topics::Beginning(beginning.to_owned()),
        }
    }

    pub fn address(&mut self, event: &Event<'_>) -> Result<Address, Failure> {
        let topic = self.topic(event)?;
        let key = match &self.key {
            None => None,
            Some(template) => {
                template.render(event, &mut self.buffer)?;
                Some(Bytes::copy_from_slice(self.buffer.as_bytes()))
            }
        };
        Ok(Address {
            topic,
            key,
            headers: self.headers.clone(),
        })
    }

    fn topic(&mut self, event: &Event<'_>) -> Result<Arc<str>, Failure> {
        self.topic.render(event, &mut self.buffer)?;
        if let Some(last) = &self.last_topic
            && **last == *self.buffer
        {
            return Ok(Arc::clone(last));
        }
        legal(&self.buffer).map_err(|why| Failure::new(Kind::Unroutable, why))?;
        let topic: Arc<str> = self.buffer.as_str().into();
        self.last_topic = Some(Arc::clone(&topic));
        Ok(topic)
    }
}

/// Kafka's own rule for topic names (its manual: letters, digits, `.`, `_`, `-`; at most 249; not `.` or `..`).
pub fn legal(topic: &str) -> Result<(), String> {
    let why = if topic.is_empty() {
        "is empty"
    } else if topic.len() > 249 {
        "is longer than 249 characters"
    } else if topic == "." || topic == ".." {
        "is reserved"
    } else if !topic
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    {
        "has characters other than letters, digits, '.', '_' and '-'"
    } else {
        return Ok(());
    };
    let shown: String = topic.chars().take(80).collect();
    Err(format!(
        "topic name \"{shown}\" {why}, so Kafka would refuse it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Text;

    fn event<'r>(model_id: Option<&'r str>, namespace: &'r str) -> Event<'r> {
        Event {
            id: Text::Plain("id-1"),
            namespace: Text::Plain(namespace),
            action_id: Text::Plain("action-1"),
            action_name: Text::Plain("Open"),
            action_params: Text::Plain("{}"),
            started_date: 0,
            completion_date: 0,
            model_id: model_id.map(Text::Plain),
            model_type: None,
            event_type: Text::Plain("Opened"),
            payload: Text::Plain("{}"),
            event_date: 0,
            delivered: crate::event::Flag::Bool(false),
        }
    }

    fn address(
        topic: &str,
        key: &str,
        event: &Event<'_>,
    ) -> Result<(String, Option<String>), String> {
        let mut route = Route::parse(topic, key).map_err(|e| e.to_string())?;
        let address = route.address(event).map_err(|f| f.to_string())?;
        let key = address
            .key
            .map(|key| String::from_utf8(key.to_vec()).expect("text"));
        Ok((address.topic.to_string(), key))
    }

    #[test]
    fn the_default_route_keys_by_model_and_else_by_action() {
        let route = |model| {
            address(
                "ekbatan.{namespace}",
                "{model_id|action_id}",
                &event(model, "shop"),
            )
        };
        assert_eq!(
            route(Some("w-1")),
            Ok(("ekbatan.shop".into(), Some("w-1".into())))
        );
        assert_eq!(
            route(None),
            Ok(("ekbatan.shop".into(), Some("action-1".into())))
        );
    }

    #[test]
    fn an_empty_text_is_not_null() {
        assert_eq!(
            address("t", "{model_id|action_id}", &event(Some(""), "shop")),
            Ok(("t".into(), Some(String::new())))
        );
    }

    #[test]
    fn a_last_resort_is_written_when_all_are_null() {
        assert_eq!(
            address("t.{model_type|\"no}ne\"}", "", &event(None, "shop"))
                .map_err(|e| e.contains("no}ne")),
            Err(true)
        );
        assert_eq!(
            address(
                "t.{model_type|model_id|\"none\"}.x",
                "",
                &event(None, "shop")
            ),
            Ok(("t.none.x".into(), None))
        );
    }

    #[test]
    fn null_with_nothing_left_fails_the_row() {
        let says = address("t", "{model_id|model_type}", &event(None, "shop")).expect_err("null");
        assert_eq!(
            says,
            "unroutable: model_id, model_type are all null, and the route needs it"
        );
    }

    #[test]
    fn dates_and_booleans_have_a_text() {
        let (topic, key) =
            address("t{delivered}", "{event_date}", &event(None, "shop")).expect("fine");
        assert_eq!(
            (topic.as_str(), key.as_deref()),
            ("tfalse", Some("1970-01-01T00:00:00.000000Z"))
        );
    }

    #[test]
    fn a_template_that_cannot_be_understood_says_why() {
        for (template, why) in [
            ("a{", "a { without its }"),
            ("a}b", "a } without its {"),
            ("{tenant}", "no column \"tenant\"; there are id, namespace"),
            ("{}", "no column \"\""),
            ("{\"x\"}", "needs a column before it"),
            ("{id|\"x\"|namespace}", "must be the last"),
        ] {
            let says = Template::parse(template).expect_err(template).to_string();
            assert!(says.contains(why), "{says}");
        }
    }

    #[test]
    fn the_topics_of_a_route_are_known_before_any_event() {
        let topics = |template| Route::parse(template, "").expect("fine").topics();
        assert_eq!(topics("events"), Topics::Only("events".into()));
        for (template, beginning) in [
            ("ekbatan.{namespace}", "ekbatan."),
            ("a-{namespace}.b", "a-"),
            ("{namespace}.b", ""),
        ] {
            assert_eq!(topics(template), Topics::Beginning(beginning.into()));
        }
    }

    #[test]
    fn a_topic_name_that_kafka_would_refuse_fails_the_row() {
        for namespace in ["a b", "ä", "a/b", &"x".repeat(300)] {
            let says = address("{namespace}", "", &event(None, namespace)).expect_err("illegal");
            assert!(says.starts_with("unroutable: topic name"), "{says}");
        }
        assert!(address("{namespace}", "", &event(None, "..")).is_err());
        assert!(address("{namespace}", "", &event(None, "a.B_c-9")).is_ok());
    }

    #[test]
    fn a_header_of_the_route_is_on_every_message() {
        let route = Route::parse("t", "").expect("fine");
        let mut route = route.with_header("replay", "7");
        for _ in 0..2 {
            let address = route.address(&event(None, "shop")).expect("fine");
            let wanted: (Arc<str>, Bytes) = ("replay".into(), Bytes::from_static(b"7"));
            assert_eq!(address.headers, [wanted]);
        }
    }

    #[test]
    fn the_topic_of_an_event_is_its_own_even_after_another() {
        let mut route = Route::parse("{namespace}", "").expect("fine");
        for namespace in ["a", "a", "b", "a"] {
            let address = route.address(&event(None, namespace)).expect("fine");
            assert_eq!(&*address.topic, namespace);
        }
    }
}
