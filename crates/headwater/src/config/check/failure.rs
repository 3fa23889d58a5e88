//! `[failure]`: what becomes of rows that cannot be published.

use headwater_core::failure::{Kind, Policy};
use headwater_core::pattern::Pattern;
use headwater_core::route::legal;

use super::route::Route;
use super::sink::{PositionStore, SinkKind, TopicRule};
use crate::config::written::Written;

#[derive(Clone, Debug)]
pub struct Failure {
    pub policy: Policy,
    pub when_stopped: WhenStopped,
    /// Of dead letters.
    pub topic: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenStopped {
    Exit,
    Hold,
}

/// What else has topics.
pub(super) struct Others<'a> {
    pub routes: &'a [Route],
    pub sink: Option<&'a SinkKind>,
    pub position: Option<&'a PositionStore>,
}

const BY_KIND: [(&str, Kind); Kind::ALL.len()] = [
    ("failure.by_kind.unknown_type", Kind::UnknownType),
    ("failure.by_kind.bad_payload", Kind::BadPayload),
    ("failure.by_kind.unroutable", Kind::Unroutable),
    ("failure.by_kind.too_large", Kind::TooLarge),
    ("failure.by_kind.refused", Kind::Refused),
];

pub(super) fn check(
    written: &mut Written,
    name: Option<&str>,
    others: &Others<'_>,
) -> Option<Failure> {
    let words = [("stop", false), ("dead-letter", true)];
    let general = written.word("failure.policy", &words)?;
    let mut kinds = Vec::new();
    for (key, kind) in BY_KIND {
        let own = match written.given(key) {
            Some(_) => written.word(key, &words)?,
            None => general,
        };
        kinds.extend(own.then_some(kind));
    }
    let when = [("exit", WhenStopped::Exit), ("hold", WhenStopped::Hold)];
    let is_used = !kinds.is_empty() || written.given("failure.topic").is_some();
    Some(Failure {
        policy: Policy::of(kinds),
        when_stopped: written.word("failure.when_stopped", &when)?,
        topic: topic(written, name, is_used.then_some(others))?,
    })
}

/// Where no letters are made, it may be like others.
fn topic(written: &mut Written, name: Option<&str>, others: Option<&Others<'_>>) -> Option<String> {
    let template = written.text("failure.topic")?;
    let topic = template.value().replace("{name}", name.unwrap_or("name"));
    let what = "is no topic's name; letters, digits, '.', '_' and '-' are wanted, and {name} for the pipeline's";
    let is_legal = written.rule(&template, legal(&topic).is_ok(), what);
    let what = "is the topic of a route, whose readers do not expect letters, or of the positions; a topic of its own is wanted";
    let is_taken = others.is_some_and(|others| others.have(&topic));
    let is_alone = written.rule(&template, !is_taken, what);
    let what = "would be compacted, by [sink.topics], so that letters of one key take each other away; give it an entry of its own there, with cleanup.policy = \"delete\"";
    let is_compacted = others.is_some_and(|others| others.compact(&topic));
    let is_kept = written.rule(&template, !is_compacted, what);
    (is_legal && is_alone && is_kept).then_some(topic)
}

impl Others<'_> {
    /// As far as that can be seen without a row.
    fn have(&self, topic: &str) -> bool {
        let mut routes = self.routes.iter();
        let is_position =
            matches!(self.position, Some(PositionStore::Topic { name, .. }) if name == topic);
        is_position || routes.any(|route| route.topic.value() == topic)
    }

    fn compact(&self, topic: &str) -> bool {
        let Some(SinkKind::Kafka(kafka)) = self.sink else {
            return false;
        };
        let pattern = |rule: &TopicRule| Pattern::parse(&rule.pattern);
        let fitting = kafka.topics.iter();
        let fitting = fitting.filter(|rule| pattern(rule).matches(topic));
        let rule = fitting.max_by_key(|rule| pattern(rule).precision());
        rule.is_some_and(|rule| {
            let mut settings = rule.settings.iter();
            settings.any(|(name, value)| name == "cleanup.policy" && value.contains("compact"))
        })
    }
}
