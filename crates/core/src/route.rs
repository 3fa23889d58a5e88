//! From a row to its address: which routes take it, and the topic, key and headers that each gives it.

mod key;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use crate::event::Roles;
use crate::failure::{Failure, Kind};
use crate::instant::Instant;
use crate::json;
use crate::message::Address;
use crate::pattern::Condition;
use crate::row::{Row, Table, Value};
use crate::template::{BadTemplate, NoColumn, Place, Template};

pub use key::IdForm;
use key::Key;

/// The topics that a route can lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topics {
    Only(String),
    /// All that begin so; with nothing: all that there are.
    Beginning(String),
}

/// What becomes of an event that no route takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unrouted {
    #[default]
    Fail,
    Skip,
}

/// Kafka's own bound on the name of a topic.
const LONGEST_TOPIC: usize = 249;

/// W3C's headers of a trace: columns of these names become headers.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];

/// One way from a row to a topic.
#[derive(Debug)]
pub struct Route {
    condition: Condition,
    topic: Template,
    key: Key,
    partition: Option<Template>,
    timestamp: Option<Template>,
    headers: Vec<(Arc<str>, Header)>,
    headers_from: Option<Place>,
    carries_trace: bool,
    /// The columns of a trace that the table has and no header of ours stands for.
    trace: Vec<(Arc<str>, Place)>,
    buffer: String,
    /// Rows mostly go where the one before them went: its name is shared instead of made again.
    last_topic: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
enum Header {
    Constant(Bytes),
    Template(Template),
}

impl Route {
    /// An empty key template means messages without a key.
    pub fn parse(topic: &str, key: &str) -> Result<Route, BadTemplate> {
        Ok(Route {
            condition: Condition::default(),
            topic: of_topics(topic)?,
            key: match key {
                "" => Key::None,
                key => Key::Template(Template::parse(key)?),
            },
            partition: None,
            timestamp: None,
            headers: Vec::new(),
            headers_from: None,
            carries_trace: true,
            trace: Vec::new(),
            buffer: String::new(),
            last_topic: None,
        })
    }

    /// The same way to another topic.
    #[must_use]
    pub fn to(mut self, topic: Template) -> Route {
        self.topic = topic;
        self
    }

    /// Takes only the rows for which the condition holds.
    #[must_use]
    pub fn taking(mut self, condition: Condition) -> Route {
        self.condition = condition;
        self
    }

    /// The key is the row's id in a form of Debezium's.
    #[must_use]
    pub fn keyed_by_id(mut self, form: IdForm) -> Route {
        self.key = Key::id(form);
        self
    }

    #[must_use]
    pub fn with_partition(mut self, partition: Template) -> Route {
        self.partition = Some(partition);
        self
    }

    #[must_use]
    pub fn with_timestamp(mut self, timestamp: Template) -> Route {
        self.timestamp = Some(timestamp);
        self
    }

    /// The same, with one more header on every message; it is left out where a place of it is null.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: Template) -> Route {
        let header = match value.constant() {
            Some(text) => Header::Constant(Bytes::copy_from_slice(text.as_bytes())),
            None => Header::Template(value),
        };
        self.headers.push((name.into(), header));
        self
    }

    /// Each member of the JSON object in this column becomes a header.
    #[must_use]
    pub fn with_headers_from(mut self, column: Place) -> Route {
        self.headers_from = Some(column);
        self
    }

    /// The columns of a trace are columns like others.
    #[must_use]
    pub fn without_trace(mut self) -> Route {
        self.carries_trace = false;
        self
    }

    pub fn topics(&self) -> Topics {
        match self.topic.beginning() {
            (topic, true) => Topics::Only(topic.to_owned()),
            (beginning, false) => Topics::Beginning(beginning.to_owned()),
        }
    }

    /// Finds its columns in a definition of the table; to be called before it sees rows of it.
    pub fn bind(&mut self, table: &Table, roles: &Roles) -> Result<(), NoColumn> {
        self.condition.bind(table, roles)?;
        self.topic.bind(table, roles)?;
        self.key.bind(table, roles)?;
        for template in self.partition.iter_mut().chain(&mut self.timestamp) {
            template.bind(table, roles)?;
        }
        for (_, header) in &mut self.headers {
            if let Header::Template(template) = header {
                template.bind(table, roles)?;
            }
        }
        if let Some(place) = &mut self.headers_from {
            place.bind(table, roles)?;
        }
        self.bind_trace(table, roles)
    }

    fn bind_trace(&mut self, table: &Table, roles: &Roles) -> Result<(), NoColumn> {
        self.trace.clear();
        for name in TRACE {
            let is_there = table.columns.iter().any(|column| column == name);
            let is_set = self.headers.iter().any(|(header, _)| &**header == name);
            if self.carries_trace && is_there && !is_set {
                let mut place = Place::column(name);
                place.bind(table, roles)?;
                self.trace.push((name.into(), place));
            }
        }
        Ok(())
    }

    /// Where the row goes; none if this route does not take it.
    pub fn address(&mut self, row: &Row) -> Result<Option<Address>, Failure> {
        if !self.takes(row)? {
            return Ok(None);
        }
        let topic = self.topic(row)?;
        Ok(Some(Address {
            key: self.key.render(row, &topic, &mut self.buffer)?,
            partition: self.partition(row)?,
            timestamp: self.timestamp(row)?,
            headers: self.headers(row)?,
            topic,
        }))
    }

    pub fn takes(&mut self, row: &Row) -> Result<bool, Failure> {
        self.condition.holds(row, &mut self.buffer)
    }

    pub fn topic(&mut self, row: &Row) -> Result<Arc<str>, Failure> {
        let topic: &str = if let Some(topic) = self.topic.constant() {
            topic
        } else {
            self.topic.render(row, &mut self.buffer)?;
            &self.buffer
        };
        if let Some(last) = &self.last_topic
            && **last == *topic
        {
            return Ok(Arc::clone(last));
        }
        legal(topic).map_err(|why| Failure::new(Kind::Unroutable, why))?;
        let topic: Arc<str> = topic.into();
        self.last_topic = Some(Arc::clone(&topic));
        Ok(topic)
    }

    /// What there is of the address of a row that has none: a topic, though Kafka would refuse its name, and a key.
    pub fn beginnings(&mut self, row: &Row) -> (Option<Arc<str>>, Option<Bytes>) {
        let topic = self.topic.render(row, &mut self.buffer).ok();
        let topic: Option<Arc<str>> = topic.map(|()| shown(&self.buffer).into());
        let of_key = topic.as_deref().unwrap_or_default();
        let key = self.key.render(row, of_key, &mut self.buffer);
        (topic, key.ok().flatten())
    }

    fn partition(&mut self, row: &Row) -> Result<Option<i32>, Failure> {
        let Some(template) = &self.partition else {
            return Ok(None);
        };
        template.render(row, &mut self.buffer)?;
        let number = self.buffer.parse::<i32>().ok();
        let number = number.filter(|number| *number >= 0);
        number.map(Some).ok_or_else(|| {
            let partition = shown(&self.buffer);
            let why = format!("partition \"{partition}\" is not a whole number from 0");
            Failure::new(Kind::Unroutable, why)
        })
    }

    /// In milliseconds. A number is one of them; anything else is read as a date.
    fn timestamp(&mut self, row: &Row) -> Result<Option<i64>, Failure> {
        let Some(template) = &self.timestamp else {
            return Ok(None);
        };
        template.render(row, &mut self.buffer)?;
        let text = self.buffer.as_str();
        let millis = text.parse::<i64>().ok().or_else(|| {
            let moment = text.parse::<Instant>().ok()?;
            Some(moment.0.div_euclid(1000))
        });
        // Kafka takes none from before 1970.
        let millis = millis.filter(|millis| *millis >= 0);
        millis.map(Some).ok_or_else(|| {
            let timestamp = shown(text);
            let why = format!("timestamp \"{timestamp}\" is no date since 1970, nor milliseconds");
            Failure::new(Kind::Unroutable, why)
        })
    }

    fn headers(&mut self, row: &Row) -> Result<Vec<(Arc<str>, Bytes)>, Failure> {
        let mut all = Vec::with_capacity(self.headers.len());
        for (name, header) in &self.headers {
            match header {
                // How to leave out a header that would be carried on.
                Header::Constant(value) if value.is_empty() && TRACE.contains(&&**name) => {}
                Header::Constant(value) => all.push((Arc::clone(name), value.clone())),
                Header::Template(template) => {
                    if template.render_unless_null(row, &mut self.buffer)? {
                        let value = Bytes::copy_from_slice(self.buffer.as_bytes());
                        all.push((Arc::clone(name), value));
                    }
                }
            }
        }
        if let Some(column) = &self.headers_from {
            let spread = spread(column, row, &mut self.buffer)?;
            let ours = |name: &str| self.headers.iter().any(|(known, _)| &**known == name);
            all.extend(spread.into_iter().filter(|(name, _)| !ours(name)));
        }
        for (name, place) in &self.trace {
            self.buffer.clear();
            if !all.iter().any(|(known, _)| known == name) && place.write(row, &mut self.buffer)? {
                all.push((
                    Arc::clone(name),
                    Bytes::copy_from_slice(self.buffer.as_bytes()),
                ));
            }
        }
        Ok(all)
    }
}

/// A template in which no row is needed to see that Kafka would refuse the name.
fn of_topics(text: &str) -> Result<Template, BadTemplate> {
    let template = Template::parse(text)?;
    // A place may add anything, but takes no letter away.
    let mut texts = template.texts();
    let judged = match (template.constant(), texts.find(|it| !has_legal_letters(it))) {
        (Some(topic), _) => legal(topic),
        (None, Some(text)) => Err(refused(text, FOREIGN_LETTERS)),
        (None, None) => Ok(()),
    };
    drop(texts);
    judged.map(|()| template).map_err(|reason| BadTemplate {
        template: text.to_owned(),
        reason,
    })
}

/// As much of a bad value as is told: enough of a topic's name to see that it is too long.
fn shown(text: &str) -> String {
    text.chars().take(LONGEST_TOPIC + 1).collect()
}

/// The members of a JSON object as headers: strings as text, null left out, anything else as it stands.
fn spread(
    place: &Place,
    row: &Row,
    buffer: &mut String,
) -> Result<Vec<(Arc<str>, Bytes)>, Failure> {
    let bad = |what: String| {
        Failure::bad_payload(format!(
            "column {place} {what}, and headers_from spreads a JSON object"
        ))
    };
    let text = match place.cell(row) {
        Value::Null => return Ok(Vec::new()),
        Value::Text(text) => text,
        other => return Err(bad(format!("is {}", other.kind()))),
    };
    let no_json = |error| bad(format!("is not JSON ({error})"));
    let object = match json::at(text, place.path()).map_err(no_json)? {
        Some(object) if object.get() != "null" => object,
        _ => return Ok(Vec::new()),
    };
    let members = json::members(object).map_err(no_json)?;
    let members = members.ok_or_else(|| bad("is JSON but no object".into()))?;
    let mut all = Vec::with_capacity(members.len());
    for (name, value) in members {
        buffer.clear();
        let written = json::write(value, buffer);
        if written.map_err(|error| bad(format!("has a bad text ({error})")))? {
            all.push((name.into(), Bytes::copy_from_slice(buffer.as_bytes())));
        }
    }
    Ok(all)
}

/// Kafka's own rule for topic names (its manual: letters, digits, `.`, `_`, `-`; at most 249; not `.` or `..`).
pub fn legal(topic: &str) -> Result<(), String> {
    let why = if topic.is_empty() {
        "is empty"
    } else if topic.len() > LONGEST_TOPIC {
        "is longer than 249 characters"
    } else if topic == "." || topic == ".." {
        "is reserved"
    } else if !has_legal_letters(topic) {
        FOREIGN_LETTERS
    } else {
        return Ok(());
    };
    Err(refused(topic, why))
}

const FOREIGN_LETTERS: &str = "has characters other than letters, digits, '.', '_' and '-'";

fn has_legal_letters(topic: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    topic.bytes().all(is_legal)
}

fn refused(topic: &str, why: &str) -> String {
    let topic = shown(topic);
    format!("topic name \"{topic}\" {why}, so Kafka would refuse it")
}
