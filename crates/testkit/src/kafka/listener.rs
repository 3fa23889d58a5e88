//! The listeners of a broker that speak TLS, one for each thing that can go well or wrong.

use super::certificate::Certificates;
use super::issuer::{AUDIENCE, ISSUER};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// Asks nobody who it is.
    Tls,
    /// Wants a certificate of the client; the one it knows is `User:CN=headwater`.
    Mutual,
    /// Wants a password: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, users `u` and `guest`, password `p`.
    Login,
    /// Wants a token of an [`Issuer`](super::Issuer), and a new one before it ends.
    Token,
    /// Its certificate is for another name.
    Misnamed,
    /// Its certificate has expired.
    Expired,
}

impl Listener {
    pub(super) const ALL: [Listener; 6] = [
        Listener::Tls,
        Listener::Mutual,
        Listener::Login,
        Listener::Token,
        Listener::Misnamed,
        Listener::Expired,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Listener::Tls => "TLS",
            Listener::Mutual => "MUTUAL",
            Listener::Login => "LOGIN",
            Listener::Token => "TOKEN",
            Listener::Misnamed => "MISNAMED",
            Listener::Expired => "EXPIRED",
        }
    }
}

/// For `StorageTool format`.
pub(super) const SCRAM_USERS: [&str; 8] = [
    "--add-scram",
    "SCRAM-SHA-256=[name=u,password=p]",
    "--add-scram",
    "SCRAM-SHA-512=[name=u,password=p]",
    "--add-scram",
    "SCRAM-SHA-256=[name=guest,password=p]",
    "--add-scram",
    "SCRAM-SHA-512=[name=guest,password=p]",
];

/// Where brokers find the keys of tokens; Kafka 4 also wants it in a property of its process.
pub(super) fn jwks(certificates: &Certificates) -> String {
    format!("file://{}", certificates.jwks().display())
}

/// The lines of server.properties for all of them.
pub(super) fn configuration(certificates: &Certificates) -> String {
    format!(
        r#"ssl.keystore.type=PEM
ssl.keystore.location={server}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.mutual.ssl.client.auth=required
listener.name.misnamed.ssl.keystore.type=PEM
listener.name.misnamed.ssl.keystore.location={misnamed}
listener.name.expired.ssl.keystore.type=PEM
listener.name.expired.ssl.keystore.location={expired}
listener.name.login.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_u="p" user_guest="p";
listener.name.login.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.login.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.token.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.token.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.token.oauthbearer.connections.max.reauth.ms=3600000
sasl.oauthbearer.jwks.endpoint.url={jwks}
sasl.oauthbearer.expected.audience={AUDIENCE}
sasl.oauthbearer.expected.issuer={ISSUER}
sasl.oauthbearer.clock.skew.seconds=0
"#,
        jwks = jwks(certificates),
        server = certificates.keystore("server").display(),
        ca = certificates.ca().display(),
        misnamed = certificates.keystore("misnamed").display(),
        expired = certificates.keystore("expired").display(),
    )
}
