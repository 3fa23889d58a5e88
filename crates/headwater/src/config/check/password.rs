//! The ways to give a password, the same wherever one is wanted.

use crate::config::problem::{Located, Place};
use crate::config::secret::{Password, Secret};
use crate::config::written::Written;

/// The keys that give one password.
pub(super) struct Ways {
    pub literal: &'static str,
    pub file: &'static str,
    pub command: &'static str,
    /// What is given, for people.
    what: &'static str,
}

pub(super) const SOURCE: Ways = Ways {
    literal: "source.password",
    file: "source.password_file",
    command: "source.password_command",
    what: "password",
};

pub(super) const SASL: Ways = Ways {
    literal: "sink.sasl.password",
    file: "sink.sasl.password_file",
    command: "sink.sasl.password_command",
    what: "password",
};

pub(super) const CLIENT: Ways = Ways {
    literal: "sink.sasl.client_secret",
    file: "sink.sasl.client_secret_file",
    command: "sink.sasl.client_secret_command",
    what: "secret",
};

impl Ways {
    fn all(&self) -> [&'static str; 3] {
        [self.literal, self.file, self.command]
    }
}

/// At most one way: of two, one would be out of date some day.
pub(super) fn check(
    written: &mut Written,
    ways: &Ways,
    in_url: Option<(Place, Secret)>,
) -> Password {
    let mut given: Vec<(&str, Place)> = Vec::new();
    given.extend(
        in_url
            .iter()
            .map(|(place, _)| ("source.url", place.clone())),
    );
    let keys = ways.all().into_iter();
    given.extend(keys.filter_map(|way| Some((way, written.given(way)?))));
    if let [(first, first_place), others @ ..] = given.as_slice() {
        for (other, place) in others {
            let what = format!(
                "gives a {}, and so does {first} ({first_place}); one way to give it is wanted",
                ways.what
            );
            written.refuse(place, other, what);
        }
    }
    let literal = written.text(ways.literal).map(Located::into_value);
    let file = written.path(ways.file);
    let command = written.text(ways.command);
    let literal = in_url
        .map(|(_, secret)| secret)
        .or(literal.map(Secret::new));
    match (literal, file, command) {
        (Some(secret), _, _) => Password::Literal(secret),
        (None, Some(path), _) => Password::File(path),
        (None, None, Some(line)) => Password::Command {
            line: Secret::new(line.into_value()),
            folder: written.folder().to_owned(),
        },
        (None, None, None) => Password::None,
    }
}
