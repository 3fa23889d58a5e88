//! Why one row cannot be published. A value that a policy decides on, never an error that ends a run by itself.

use std::fmt;

/// The kinds that a policy can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No schema for its event type.
    UnknownType,
    /// A column or the payload does not hold what the message needs.
    BadPayload,
    /// No topic, key, partition or time can be made of it.
    Unroutable,
    /// Larger than the broker takes.
    TooLarge,
    /// The broker will never take it, for another reason.
    Refused,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::UnknownType,
        Kind::BadPayload,
        Kind::Unroutable,
        Kind::TooLarge,
        Kind::Refused,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::UnknownType => "unknown_type",
            Kind::BadPayload => "bad_payload",
            Kind::Unroutable => "unroutable",
            Kind::TooLarge => "too_large",
            Kind::Refused => "refused",
        }
    }

    /// What it means, in a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Kind::UnknownType => "there is no schema for the event's type",
            Kind::BadPayload => "a column or the payload does not hold what the message needs",
            Kind::Unroutable => "no address can be made of the row",
            Kind::TooLarge => "the message is larger than the broker takes",
            Kind::Refused => "the broker will never take the message",
        }
    }

    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Of which kinds of failures dead letters are made; all others stop the pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy([bool; Kind::ALL.len()]);

impl Policy {
    pub fn of(kinds: impl IntoIterator<Item = Kind>) -> Policy {
        let mut policy = Policy::default();
        for kind in kinds {
            policy.0[kind as usize] = true;
        }
        policy
    }

    /// Whether a dead letter is made of a failure of this kind.
    pub fn makes_letters(self, kind: Kind) -> bool {
        self.0[kind as usize]
    }

    /// The kinds of which dead letters are made.
    pub fn kinds(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |kind| self.makes_letters(*kind))
    }

    /// Whether the broker can refuse a message of which a dead letter is made then.
    pub fn needs_rows(self) -> bool {
        [Kind::Unroutable, Kind::TooLarge, Kind::Refused]
            .into_iter()
            .any(|kind| self.makes_letters(kind))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    /// One sentence that names the column or path, and never holds a whole payload.
    pub detail: String,
}

impl Failure {
    pub fn new(kind: Kind, detail: impl Into<String>) -> Failure {
        Failure {
            kind,
            detail: detail.into(),
        }
    }

    pub fn bad_payload(detail: impl Into<String>) -> Failure {
        Failure::new(Kind::BadPayload, detail)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.detail)
    }
}
