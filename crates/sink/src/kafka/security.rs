//! How connections to the brokers are protected, and how Headwater proves who it is.
//!
//! Never: shows a password.

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::grant::Grant;
use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub verify: Verify,
    /// Certificate authorities, PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    pub identity: Option<Identity>,
}

/// What a broker's certificate has to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    Nothing,
    /// That one of our authorities signed it.
    Authority,
    /// That, and that it is for the name we connect to.
    Name,
}

/// Our own certificate, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone)]
pub enum Sasl {
    Password {
        mechanism: Mechanism,
        username: String,
        password: String,
    },
    /// OAUTHBEARER.
    Token(Grant),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sasl::Password {
                mechanism,
                username,
                ..
            } => f
                .debug_struct("Password")
                .field("mechanism", mechanism)
                .field("username", username)
                .finish_non_exhaustive(),
            Sasl::Token(grant) => grant.fmt(f),
        }
    }
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// What librdkafka is told.
pub(super) fn properties(tls: Option<&Tls>, sasl: Option<&Sasl>) -> Vec<(&'static str, String)> {
    let protocol = match (tls, sasl) {
        (None, None) => return Vec::new(),
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    let mut all = vec![("security.protocol", protocol.to_owned())];
    if let Some(tls) = tls {
        all.extend(tls.properties());
    }
    match sasl {
        Some(Sasl::Password {
            mechanism,
            username,
            password,
        }) => all.extend([
            ("sasl.mechanism", mechanism.name().to_owned()),
            ("sasl.username", username.clone()),
            ("sasl.password", password.clone()),
        ]),
        Some(Sasl::Token(_)) => all.push(("sasl.mechanism", "OAUTHBEARER".to_owned())),
        None => {}
    }
    all
}

/// Nobody else can read what goes there.
pub(super) fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl Tls {
    fn properties(&self) -> Vec<(&'static str, String)> {
        let (verified, name) = match self.verify {
            Verify::Nothing => ("false", "none"),
            Verify::Authority => ("true", "none"),
            Verify::Name => ("true", "https"),
        };
        // A vendored OpenSSL would look for the system's authorities where it was built; librdkafka knows the usual places.
        let probe = Path::new("probe");
        let ca = self.ca.as_deref().unwrap_or(probe);
        let mut all = vec![
            ("enable.ssl.certificate.verification", verified.to_owned()),
            ("ssl.endpoint.identification.algorithm", name.to_owned()),
            ("ssl.ca.location", ca.display().to_string()),
        ];
        if let Some(Identity { cert, key }) = &self.identity {
            all.extend([
                ("ssl.certificate.location", cert.display().to_string()),
                ("ssl.key.location", key.display().to_string()),
            ]);
        }
        all
    }

    /// That the files are there and hold what they should: librdkafka names neither the file nor our key for it.
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(ca) = &self.ca {
            pem("sink.tls.ca", ca, "CERTIFICATE")?;
        }
        if let Some(Identity { cert, key }) = &self.identity {
            pem("sink.tls.cert", cert, "CERTIFICATE")?;
            pem("sink.tls.key", key, "PRIVATE KEY")?;
        }
        Ok(())
    }
}

fn pem(setting: &str, file: &Path, label: &str) -> Result<(), Error> {
    let shown = file.display();
    let bytes = fs::read(file).map_err(|error| {
        Error::fatal(
            format!("{setting}: {shown} cannot be read: {error}"),
            "make it readable for Headwater, or name another file",
        )
    })?;
    // Behind "BEGIN" there may be more before the label: ENCRYPTED, RSA, EC, TRUSTED.
    let begins = |line: &str| {
        let inner = line.trim().strip_prefix("-----BEGIN ");
        let inner = inner.and_then(|rest| rest.strip_suffix("-----"));
        inner.is_some_and(|found| found.ends_with(label))
    };
    if String::from_utf8_lossy(&bytes).lines().any(begins) {
        return Ok(());
    }
    Err(Error::fatal(
        format!("{setting}: {shown} holds no PEM {}", label.to_lowercase()),
        format!("name a file with a line \"-----BEGIN {label}-----\""),
    ))
}

#[cfg(test)]
mod tests {
    use headwater_core::trouble::Trouble as _;
    use tempfile::TempDir;

    use super::*;

    fn tls(verify: Verify) -> Tls {
        Tls {
            verify,
            ca: None,
            identity: None,
        }
    }

    fn sasl() -> Sasl {
        Sasl::Password {
            mechanism: Mechanism::ScramSha256,
            username: "u".into(),
            password: "hunter2".into(),
        }
    }

    fn value(all: &[(&str, String)], name: &str) -> Option<String> {
        let mut found = all.iter().filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| value.clone())
    }

    #[test]
    fn the_protocol_follows_from_what_is_given() {
        let (tls, sasl) = (tls(Verify::Name), sasl());
        for (tls, sasl, protocol) in [
            (None, None, None),
            (Some(&tls), None, Some("ssl")),
            (None, Some(&sasl), Some("sasl_plaintext")),
            (Some(&tls), Some(&sasl), Some("sasl_ssl")),
        ] {
            let all = properties(tls, sasl);
            assert_eq!(value(&all, "security.protocol").as_deref(), protocol);
        }
    }

    #[test]
    fn each_mode_verifies_what_it_says() {
        for (verify, verified, name) in [
            (Verify::Nothing, "false", "none"),
            (Verify::Authority, "true", "none"),
            (Verify::Name, "true", "https"),
        ] {
            let all = properties(Some(&tls(verify)), None);
            let verification = value(&all, "enable.ssl.certificate.verification");
            assert_eq!(verification.as_deref(), Some(verified));
            let identification = value(&all, "ssl.endpoint.identification.algorithm");
            assert_eq!(identification.as_deref(), Some(name));
            assert_eq!(value(&all, "ssl.ca.location").as_deref(), Some("probe"));
        }
    }

    #[test]
    fn a_password_is_not_shown_by_debug() {
        let shown = format!("{:?}", sasl());
        assert!(
            shown.contains("ScramSha256") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn a_file_that_does_not_hold_what_it_should_is_named_with_its_key() {
        let folder = TempDir::new().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let cert = file("cert.pem", "# ours\n-----BEGIN CERTIFICATE-----\n");
        let key = file("key.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\r\n");
        let with = |ca: &Path, cert: &Path, key: &Path| {
            let (cert, key) = (cert.to_owned(), key.to_owned());
            Tls {
                ca: Some(ca.to_owned()),
                identity: Some(Identity { cert, key }),
                ..tls(Verify::Name)
            }
        };
        with(&cert, &cert, &key).check().unwrap();
        let missing = folder.path().join("missing.pem");
        for (tls, words) in [
            (
                with(&missing, &cert, &key),
                ["sink.tls.ca", "missing.pem cannot be read"],
            ),
            (
                with(&key, &cert, &key),
                ["sink.tls.ca", "key.pem holds no PEM certificate"],
            ),
            (
                with(&cert, &key, &key),
                ["sink.tls.cert", "key.pem holds no PEM certificate"],
            ),
            (
                with(&cert, &cert, &cert),
                ["sink.tls.key", "cert.pem holds no PEM private key"],
            ),
        ] {
            let error = tls.check().unwrap_err();
            let text = error.to_string();
            assert!(
                error.is_fatal() && words.iter().all(|word| text.contains(word)),
                "{text}"
            );
        }
    }
}
