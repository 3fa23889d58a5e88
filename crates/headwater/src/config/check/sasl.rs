//! What `sink.sasl` means: a login by password, or by tokens of an endpoint.

use std::path::PathBuf;

use super::password;
use super::security::given;
use crate::config::problem::Located;
use crate::config::secret::Password;
use crate::config::written::Written;

#[derive(Clone, Debug)]
pub enum Sasl {
    Password(PasswordLogin),
    Token(Box<TokenLogin>),
}

#[derive(Clone, Debug)]
pub struct PasswordLogin {
    pub mechanism: SaslMechanism,
    pub username: String,
    pub password: Password,
}

#[derive(Clone, Debug)]
pub struct TokenLogin {
    /// Not yet looked at: the sink knows which addresses it can ask.
    pub endpoint: Located<String>,
    pub ca: Option<PathBuf>,
    pub client_id: String,
    pub secret: Password,
    pub scope: Option<String>,
    pub extensions: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslMechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

const OF_PASSWORDS: [&str; 4] = [
    "sink.sasl.username",
    "sink.sasl.password",
    "sink.sasl.password_file",
    "sink.sasl.password_command",
];

const OF_TOKENS: [&str; 8] = [
    "sink.sasl.token_endpoint",
    "sink.sasl.token_ca",
    "sink.sasl.client_id",
    "sink.sasl.client_secret",
    "sink.sasl.client_secret_file",
    "sink.sasl.client_secret_command",
    "sink.sasl.scope",
    "sink.sasl.extensions",
];

/// Absent: nobody is asked who it is.
pub(super) fn sasl(written: &mut Written) -> Option<Sasl> {
    given(written, "sink.sasl")?;
    if written.given("sink.sasl.mechanism").is_none() {
        let wanted = "wanted is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER";
        written.missing("sink.sasl.mechanism", wanted);
        // What else there is tells which of the two was meant.
        if written.given("sink.sasl.token_endpoint").is_some() {
            return token(written);
        }
    }
    let mechanism = written.word(
        "sink.sasl.mechanism",
        &[
            ("PLAIN", Some(SaslMechanism::Plain)),
            ("SCRAM-SHA-256", Some(SaslMechanism::ScramSha256)),
            ("SCRAM-SHA-512", Some(SaslMechanism::ScramSha512)),
            ("OAUTHBEARER", None),
        ],
    );
    match mechanism {
        Some(None) => {
            let what = "means nothing with sink.sasl.mechanism = \"OAUTHBEARER\"; remove it, or choose another mechanism";
            written.contradict(&OF_PASSWORDS, what);
            token(written)
        }
        password => {
            let what = "means nothing unless sink.sasl.mechanism is \"OAUTHBEARER\"; remove it, or choose that";
            written.contradict(&OF_TOKENS, what);
            by_password(written, password.flatten())
        }
    }
}

fn by_password(written: &mut Written, mechanism: Option<SaslMechanism>) -> Option<Sasl> {
    require(written, "sink.sasl.username");
    let username = written.text("sink.sasl.username");
    let password = password::check(written, &password::SASL, None);
    if matches!(password, Password::None) {
        let wanted = "it, sink.sasl.password_file or sink.sasl.password_command is wanted";
        written.missing("sink.sasl.password", wanted);
    }
    Some(Sasl::Password(PasswordLogin {
        mechanism: mechanism?,
        username: username?.into_value(),
        password,
    }))
}

fn token(written: &mut Written) -> Option<Sasl> {
    require(written, "sink.sasl.token_endpoint");
    let endpoint = written.text("sink.sasl.token_endpoint");
    let ca = written.path("sink.sasl.token_ca");
    require(written, "sink.sasl.client_id");
    let client_id = written.text("sink.sasl.client_id");
    let secret = password::check(written, &password::CLIENT, None);
    if matches!(secret, Password::None) {
        let wanted =
            "it, sink.sasl.client_secret_file or sink.sasl.client_secret_command is wanted";
        written.missing("sink.sasl.client_secret", wanted);
    }
    let scope = written.text("sink.sasl.scope").map(Located::into_value);
    let extensions = extensions(written);
    Some(Sasl::Token(Box::new(TokenLogin {
        endpoint: endpoint?,
        ca,
        client_id: client_id?.into_value(),
        secret,
        scope,
        extensions,
    })))
}

/// What RFC 7628 lets go beside a token (section 3.1).
fn extensions(written: &mut Written) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, value) in written.members("sink.sasl.extensions") {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphabetic());
        let holds = plain && !name.is_empty() && name != "auth";
        let what = "has a name that no extension can have; letters only are wanted, not \"auth\"";
        written.rule(&value, holds, what);
        let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        let holds = value.value().bytes().all(printable);
        written.rule(
            &value,
            holds,
            "has what no extension can hold; printable ASCII is wanted",
        );
        all.push((name, value.into_value()));
    }
    all
}

fn require(written: &mut Written, key: &'static str) {
    if written.given(key).is_none() {
        written.missing(key, "a string is wanted");
    }
}
