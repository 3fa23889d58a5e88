//! Kafka's own command-line tools, as a person would call them to mend what Headwater cannot.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::{Sasl, Settings};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tools {
    pub brokers: String,
    /// Whom the brokers take us for; of a login by tokens, the first one says it.
    user: OnceLock<String>,
    by_token: bool,
    /// The listener wants a login or TLS of the tools too.
    secured: bool,
    /// The file of `sink.tls.ca`.
    ca: Option<PathBuf>,
}

impl Tools {
    pub(super) fn of(settings: &Settings) -> Tools {
        let protocol = settings.protocol();
        let (named, by_token) = match &settings.sasl {
            Some(Sasl::Password { username, .. }) => (Some(username.as_str()), false),
            Some(Sasl::Token(_)) => (None, true),
            None => (settings.property("sasl.username"), false),
        };
        let named = named.or_else(|| nobody(settings, &protocol));
        Tools {
            brokers: settings.brokers.clone(),
            user: named.map_or_else(OnceLock::new, |named| OnceLock::from(named.to_owned())),
            by_token,
            secured: protocol != "plaintext",
            ca: settings.tls.as_ref().and_then(|tls| tls.ca.clone()),
        }
    }

    /// Whether we log in by tokens.
    pub(super) fn by_token(&self) -> bool {
        self.by_token
    }

    /// What the first token says of whose it is.
    pub(super) fn name_user(&self, user: &str) {
        self.user.get_or_init(|| user.to_owned());
    }

    /// What to do about a login that the brokers refused.
    pub(super) fn mend_login(&self) -> &'static str {
        if self.by_token {
            "let the brokers take the tokens of sink.sasl.token_endpoint: issuer, audience and keys must be those that they expect \
             (their sasl.oauthbearer.* settings), and sink.sasl.scope and sink.sasl.extensions what they ask for"
        } else {
            "correct sink.sasl.mechanism, sink.sasl.username or sink.sasl.password, or let sink.brokers name a listener that takes them"
        }
    }

    /// Whom rights are granted to.
    pub(super) fn principal(&self) -> String {
        let user = self.user.get().map_or("NAME", String::as_str);
        format!("User:{user}")
    }

    pub(super) fn create_topic(&self, topic: &str) -> String {
        self.call("kafka-topics.sh", &format!("--create --topic '{topic}'"))
    }

    pub(super) fn grant(&self, operation: &str, topic: &str) -> String {
        self.grant_on(operation, &format!("--topic '{topic}'"))
    }

    pub(super) fn grant_on(&self, operation: &str, resource: &str) -> String {
        let principal = self.principal();
        self.call(
            "kafka-acls.sh",
            &format!("--add --allow-principal '{principal}' --operation {operation} {resource}"),
        )
    }

    pub(super) fn configure(&self, topic: &str, setting: &str) -> String {
        self.call(
            "kafka-configs.sh",
            &format!("--alter --topic '{topic}' --add-config {setting}"),
        )
    }

    /// The broker that librdkafka's `text` is about: "ssl://host:port/id: reason".
    pub(super) fn broker<'a>(&'a self, text: &'a str) -> &'a str {
        let named = text
            .split_once("://")
            .and_then(|(_, rest)| rest.split_once('/'));
        let first = self.brokers.split(',').next().unwrap_or_default();
        named.map_or(first.trim(), |(address, _)| address)
    }

    /// Shows and verifies what the broker presents.
    pub(super) fn show_certificate(&self, address: &str) -> String {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_matches(['[', ']']);
        let name = if host.parse::<IpAddr>().is_ok() {
            "-verify_ip"
        } else {
            "-verify_hostname"
        };
        let ca = self.ca.as_ref();
        let ca = ca.map_or_else(String::new, |ca| format!(" -CAfile '{}'", ca.display()));
        format!("openssl s_client -connect {address} {name} {host}{ca} </dev/null")
    }

    fn call(&self, tool: &str, arguments: &str) -> String {
        let brokers = &self.brokers;
        let config = if self.secured {
            " --command-config admin.properties"
        } else {
            ""
        };
        format!("{tool} --bootstrap-server {brokers}{config} {arguments}")
    }

    #[cfg(test)]
    pub(super) fn for_tests() -> Tools {
        Tools {
            brokers: "b:1".into(),
            user: OnceLock::from("shop".to_owned()),
            by_token: false,
            secured: false,
            ca: None,
        }
    }
}

/// Whom the brokers take somebody for who shows neither a name nor a certificate nor a token.
fn nobody(settings: &Settings, protocol: &str) -> Option<&'static str> {
    let certificate = settings.tls.as_ref().map(|tls| tls.identity.is_some());
    matches!(
        (protocol, certificate),
        ("plaintext", _) | ("ssl", Some(false))
    )
    .then_some("ANONYMOUS")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::security::{Identity, Tls, Verify};
    use super::*;

    #[test]
    fn the_certificate_is_that_of_the_broker_that_the_trouble_is_about() {
        let tools = Tools {
            ca: Some("ca.pem".into()),
            ..Tools::for_tests()
        };
        assert_eq!(
            tools.show_certificate(tools.broker("ssl://10.0.0.7:9093/2: SSL handshake failed")),
            "openssl s_client -connect 10.0.0.7:9093 -verify_ip 10.0.0.7 -CAfile 'ca.pem' </dev/null"
        );
        assert_eq!(
            tools.show_certificate(tools.broker("no address")),
            "openssl s_client -connect b:1 -verify_hostname b -CAfile 'ca.pem' </dev/null"
        );
    }

    #[test]
    fn the_user_is_whom_the_brokers_take_us_for() {
        let settings = |tls: Option<Tls>, properties: &[(&str, &str)]| Settings {
            brokers: "b:1".into(),
            client_id: "headwater-shop".into(),
            compression: "none".into(),
            linger: Duration::ZERO,
            max_messages: 1,
            max_bytes: 1,
            create_topics: false,
            topics: Vec::new(),
            passing: super::super::Passing::default(),
            tls,
            sasl: None,
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let tls = |identity| {
            Some(Tls {
                verify: Verify::Name,
                ca: None,
                identity,
            })
        };
        let own = Identity {
            cert: "client.pem".into(),
            key: "client.key".into(),
        };
        for (settings, principal) in [
            (settings(None, &[]), "User:ANONYMOUS"),
            (settings(tls(None), &[]), "User:ANONYMOUS"),
            (settings(tls(Some(own)), &[]), "User:NAME"),
            (settings(None, &[("security.protocol", "SSL")]), "User:NAME"),
            (settings(None, &[("sasl.username", "shop")]), "User:shop"),
        ] {
            assert_eq!(Tools::of(&settings).principal(), principal);
        }
    }

    #[test]
    fn a_secured_listener_asks_the_tools_for_their_own_settings() {
        let plain = Tools::for_tests();
        assert_eq!(
            plain.grant("Write", "t"),
            "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal 'User:shop' --operation Write --topic 't'"
        );
        let secured = Tools {
            secured: true,
            ..plain
        };
        assert_eq!(
            secured.create_topic("t"),
            "kafka-topics.sh --bootstrap-server b:1 --command-config admin.properties --create --topic 't'"
        );
    }
}
