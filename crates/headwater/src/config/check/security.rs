//! What `sink.tls` means, and that `sink.properties` does not say what it or `sink.sasl` says.

use std::path::PathBuf;

use super::sink::Property;
use crate::config::problem::{Located, Place};
use crate::config::written::Written;

#[derive(Clone, Debug)]
pub struct KafkaTls {
    pub mode: KafkaTlsMode,
    pub ca: Option<PathBuf>,
    /// Certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaTlsMode {
    Require,
    VerifyCa,
    VerifyFull,
}

/// What `sink.tls` and `sink.sasl` give librdkafka.
const BY_TLS: [&str; 10] = [
    "security.protocol",
    "enable.ssl.certificate.verification",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.keystore.location",
];
const BY_SASL: [&str; 5] = [
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
];

/// Absent: plain text.
pub(super) fn tls(written: &mut Written) -> Option<KafkaTls> {
    given(written, "sink.tls")?;
    let said = written.given("sink.tls.mode").is_some();
    let mode = written.word(
        "sink.tls.mode",
        &[
            ("disable", None),
            ("require", Some(KafkaTlsMode::Require)),
            ("verify-ca", Some(KafkaTlsMode::VerifyCa)),
            ("verify-full", Some(KafkaTlsMode::VerifyFull)),
        ],
    );
    let mode = if said {
        mode?
    } else {
        Some(KafkaTlsMode::VerifyFull)
    };
    let Some(mode) = mode else {
        let what = "means nothing with sink.tls.mode = \"disable\"; remove it, or the mode";
        written.contradict(&["sink.tls.ca", "sink.tls.cert", "sink.tls.key"], what);
        return None;
    };
    if mode == KafkaTlsMode::Require {
        let what = "means nothing with sink.tls.mode = \"require\", which verifies nothing; \
                    \"verify-ca\" or \"verify-full\" is wanted";
        written.contradict(&["sink.tls.ca"], what);
    }
    let ca = written.path("sink.tls.ca");
    let identity = identity(written);
    Some(KafkaTls { mode, ca, identity })
}

fn identity(written: &mut Written) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (
        written.located_path("sink.tls.cert"),
        written.located_path("sink.tls.key"),
    );
    match (cert, key) {
        (Some(cert), Some(key)) => Some((cert.into_value(), key.into_value())),
        (Some(cert), None) => {
            written.rule(&cert, false, "is of no use without sink.tls.key");
            None
        }
        (None, Some(key)) => {
            written.rule(&key, false, "is of no use without sink.tls.cert");
            None
        }
        (None, None) => None,
    }
}

/// An empty table says something too: somebody expects protection.
pub(super) fn given(written: &Written, section: &str) -> Option<Place> {
    let begins = || written.section_begins(section);
    written.given(section).or_else(begins)
}

fn by_sasl(property: &str) -> bool {
    BY_SASL.contains(&property) || property.contains("sasl.oauthbearer.")
}

/// Refuses properties that say what `sink.tls` or `sink.sasl` says. Called before these are taken.
pub(super) fn contradictions(written: &mut Written, properties: &[Located<Property>]) {
    let (tls, sasl) = (given(written, "sink.tls"), given(written, "sink.sasl"));
    for property in properties {
        let name = property.value().name.as_str();
        let (key, place) = match (&tls, &sasl) {
            (Some(place), _) if BY_TLS.contains(&name) => ("sink.tls", place),
            (_, Some(place)) if by_sasl(name) => ("sink.sasl", place),
            (None, Some(place)) if name.starts_with("ssl.") => {
                let what = format!(
                    "means nothing beside sink.sasl ({place}) without sink.tls; set that, or remove it"
                );
                written.rule(property, false, &what);
                continue;
            }
            _ => continue,
        };
        let what = format!("says what {key} ({place}) says; one of the two is wanted");
        written.rule(property, false, &what);
    }
}
