//! What a configuration can say: every key once, with its type, default, meaning, and whether it is built.
//!
//! Out: the nearest known key, the names of environment variables, the defaults, and docs/configuration.md.

mod keys;
#[cfg(test)]
mod page;

use headwater_core::nearest::{distance, nearest};
use keys::KEYS;

/// The smallest useful file that this version accepts.
pub(super) const SMALLEST: &str = r#"name = "shop"

[source]
url = "postgres://headwater@localhost:5432/shop"

[encode]
format = "avro"                      # or "protobuf"; "json" needs no schemas
schemas = ["schemas/*.avsc"]

[sink]
brokers = "localhost:9092"
"#;

/// Two underscores: a Kubernetes service named headwater sets `HEADWATER_PORT` and the like, which must not matter.
pub(super) const PREFIX: &str = "HEADWATER__";

pub(super) struct Key {
    /// The sections and the key, joined by dots; `route` is written `[[route]]`.
    pub path: &'static str,
    pub kind: Kind,
    pub fallback: Fallback,
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "told by docs/configuration.md, which a test makes of it"
        )
    )]
    pub meaning: &'static str,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Path,
    Integer,
    Bool,
    Duration,
    Size,
    /// One of a few words; `later` are known, not built yet.
    Word {
        built: &'static [&'static str],
        later: &'static [&'static str],
    },
    List,
    /// A table whose keys are the user's own.
    Map,
    /// Columns, each with the texts that may stand there.
    Condition,
    /// Several of them.
    Conditions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    Required,
    /// The value itself.
    Value(&'static str),
    /// No value of its own, or one that depends on other keys: in words, for people.
    Said(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Built,
    /// Known, refused; with what to do until then.
    NotYet(&'static str),
}

impl Kind {
    /// What a person should write.
    pub(super) fn wanted(self) -> String {
        match self {
            Self::Text => "a string is wanted".to_owned(),
            Self::Path => "a path as a string is wanted".to_owned(),
            Self::Integer => "a whole number is wanted".to_owned(),
            Self::Bool => "true or false is wanted".to_owned(),
            Self::Duration => {
                r#"a number with its unit is wanted, such as "200ms", "30s" or "5m""#.to_owned()
            }
            Self::Size => {
                r#"a number of bytes is wanted, alone or with a unit, such as "16MiB" or "1MB""#
                    .to_owned()
            }
            Self::Word { built, .. } => match built {
                [only] => format!(r#""{only}" is wanted"#),
                _ => format!("wanted is one of {}", built.join(", ")),
            },
            Self::List => "a list of strings is wanted".to_owned(),
            Self::Map => "a table is wanted".to_owned(),
            Self::Condition => {
                r#"a table of columns and texts is wanted, such as { model_type = ["Wallet"] }"#.to_owned()
            }
            Self::Conditions => {
                r#"a list of tables of columns and texts is wanted, such as [{ event_type = ["Audit*"] }]"#
                    .to_owned()
            }
        }
    }

    /// No variable's name or value could say it.
    pub(super) fn is_of_the_file_alone(self) -> bool {
        matches!(self, Self::Condition | Self::Conditions)
    }
}

impl Key {
    /// The environment variable that gives this key; of a map, the beginning of its variables' names.
    pub(super) fn variable(&self) -> String {
        let name = self.path.replace('.', "__").to_ascii_uppercase();
        match self.kind {
            Kind::Map => format!("{PREFIX}{name}__"),
            _ => format!("{PREFIX}{name}"),
        }
    }

    pub(super) fn not_built(&self) -> Option<String> {
        match self.state {
            State::Built => None,
            State::NotYet("") => Some("is known but not built yet; remove it".to_owned()),
            State::NotYet(advice) => Some(format!("is known but not built yet; {advice}")),
        }
    }
}

/// In the order in which people read them.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
}

pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

pub(super) fn is_section(path: &str) -> bool {
    sections().any(|section| section == path)
}

/// Every table that holds keys, with repetitions.
fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|key| {
        key.path
            .match_indices('.')
            .map(|(dot, _)| key.path.split_at(dot).0)
    })
}

/// The known key or section that an unknown one was probably meant to be: in the same section unless a key of another
/// one is clearly nearer.
pub(super) fn nearest_key(path: &str) -> &'static str {
    const ELSEWHERE: usize = 2;
    let (parent, leaf) = path.rsplit_once('.').unwrap_or(("", path));
    KEYS.iter()
        .map(|key| key.path)
        .chain(sections())
        .min_by_key(|known| {
            let (known_parent, known_leaf) = known.rsplit_once('.').unwrap_or(("", known));
            let away = if parent == known_parent { 0 } else { ELSEWHERE };
            distance(leaf, known_leaf) + away
        })
        .unwrap_or_default()
}

/// The key that a variable gives, and of a map's variable the member's name.
///
/// A member's name is lower case with dots: librdkafka's settings are, and a variable's name cannot be.
pub(super) fn find_variable(variable: &str) -> Option<(&'static Key, Option<String>)> {
    KEYS.iter().find_map(|key| match key.kind {
        Kind::Map => {
            let member = variable.strip_prefix(&key.variable())?;
            let member = member.to_ascii_lowercase().replace('_', ".");
            (!member.is_empty()).then_some((key, Some(member)))
        }
        _ => (variable == key.variable()).then_some((key, None)),
    })
}

pub(super) fn nearest_variable(variable: &str) -> String {
    let known: Vec<String> = KEYS.iter().map(variable_shown).collect();
    nearest(
        &variable.to_ascii_uppercase(),
        known.iter().map(String::as_str),
    )
    .unwrap_or_default()
    .to_owned()
}

fn variable_shown(key: &Key) -> String {
    match key.kind {
        Kind::Map => key.variable() + "<NAME>",
        _ => key.variable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_defined_once() {
        let mut paths: Vec<_> = KEYS.iter().map(|key| key.path).collect();
        paths.sort_unstable();
        let count = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), count);
        for key in KEYS {
            assert!(!is_section(key.path), "{} is a section too", key.path);
        }
    }

    #[test]
    fn an_unknown_key_is_told_the_nearest_one() {
        for (typed, nearest) in [
            ("nmae", "name"),
            ("sinks", "sink"),
            ("routes", "route"),
            ("sink.broker", "sink.brokers"),
            ("brokers", "sink.brokers"),
            ("sink.max_inflight", "sink.max_in_flight"),
            ("sink.max_in_flight.message", "sink.max_in_flight.messages"),
            ("source.urls", "source.url"),
            ("source.tls.mod", "source.tls.mode"),
            ("source.pasword_file", "source.password_file"),
            ("url", "source.url"),
        ] {
            assert_eq!(nearest_key(typed), nearest, "{typed}");
        }
    }

    #[test]
    fn a_variable_names_its_key() {
        for (variable, path, member) in [
            ("HEADWATER__NAME", "name", None),
            ("HEADWATER__SOURCE__TLS__MODE", "source.tls.mode", None),
            (
                "HEADWATER__SINK__MAX_IN_FLIGHT__BYTES",
                "sink.max_in_flight.bytes",
                None,
            ),
            (
                "HEADWATER__SINK__PROPERTIES__SECURITY_PROTOCOL",
                "sink.properties",
                Some("security.protocol"),
            ),
        ] {
            let (key, found) = find_variable(variable).unwrap();
            assert_eq!((key.path, found.as_deref()), (path, member));
        }
        for unknown in [
            "HEADWATER__",
            "HEADWATER__SINK",
            "HEADWATER__SINK__PROPERTIES",
            "HEADWATER__SINK__PROPERTIES__",
            "HEADWATER__sink__brokers",
            "HEADWATER__SINK_BROKERS",
        ] {
            assert!(find_variable(unknown).is_none(), "{unknown}");
        }
    }
}
