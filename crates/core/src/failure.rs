//! Why one row cannot be published. A value that a policy decides on, never an error that ends a run by itself.

use std::fmt;

/// The kinds that a policy can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No schema for its event type.
    UnknownType,
    /// A column or the payload does not hold what the message needs.
    BadPayload,
    /// No topic or key can be made of it.
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
