//! `[failure]`: what becomes of rows that cannot be published.

use headwater_core::failure::{Kind, Policy};

use crate::config::written::Written;

/// Kafka's own bound on a topic's name.
const LONGEST: usize = 249;

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

const BY_KIND: [(&str, Kind); Kind::ALL.len()] = [
    ("failure.by_kind.unknown_type", Kind::UnknownType),
    ("failure.by_kind.bad_payload", Kind::BadPayload),
    ("failure.by_kind.unroutable", Kind::Unroutable),
    ("failure.by_kind.too_large", Kind::TooLarge),
    ("failure.by_kind.refused", Kind::Refused),
];

pub(super) fn check(written: &mut Written, name: Option<&str>) -> Option<Failure> {
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
    Some(Failure {
        policy: Policy::of(kinds),
        when_stopped: written.word("failure.when_stopped", &when)?,
        topic: topic(written, name)?,
    })
}

fn topic(written: &mut Written, name: Option<&str>) -> Option<String> {
    let template = written.text("failure.topic")?;
    let topic = template.value().replace("{name}", name.unwrap_or("name"));
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let holds = topic.len() <= LONGEST
        && topic.chars().all(is_legal)
        && !matches!(topic.as_str(), "." | "..");
    let what = "is no topic's name; letters, digits, '.', '_' and '-' are wanted, and {name} for the pipeline's";
    written.rule(&template, holds, what).then_some(topic)
}
