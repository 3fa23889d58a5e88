//! As whom the sink speaks to Kafka.

use std::sync::Arc;

use headwater_sink::{Error, kafka};

use crate::config::{ConfigError, PasswordLogin, Sasl, SaslMechanism, TokenLogin};

pub(super) enum Login {
    Password(PasswordLogin),
    Token(kafka::Grant),
}

impl Login {
    pub(super) fn new(sasl: &Sasl) -> Result<Login, ConfigError> {
        Ok(match sasl {
            Sasl::Password(login) => Login::Password(login.clone()),
            Sasl::Token(login) => Login::Token(grant(login)?),
        })
    }

    /// For who only asks which user it is.
    pub(super) fn without_secret(&self) -> kafka::Sasl {
        match self {
            Login::Password(login) => with_password(login, String::new()),
            Login::Token(grant) => kafka::Sasl::Token(grant.clone()),
        }
    }
}

/// The settings with the login as it is now.
pub(super) async fn logging_in(
    settings: &kafka::Settings,
    login: Option<&Login>,
) -> Result<kafka::Settings, Error> {
    let mut settings = settings.clone();
    settings.sasl = match login {
        None => None,
        Some(Login::Password(login)) => Some(password(login).await?),
        Some(Login::Token(grant)) => Some(kafka::Sasl::Token(grant.clone())),
    };
    Ok(settings)
}

async fn password(login: &PasswordLogin) -> Result<kafka::Sasl, Error> {
    let (username, password) = (&login.username, login.password.clone());
    // A command may take its time.
    let read = tokio::task::spawn_blocking(move || password.read("sink.sasl.password"));
    let read = read.await.map_err(|error| {
        Error::transient(format!("reading the password for Kafka broke off: {error}"))
    })?;
    let password = read.map_err(|why| {
        Error::fatal(
            format!("the password of Kafka's user {username} cannot be had: {why}"),
            "mend that, then start again",
        )
    })?;
    let password = password.map_or_else(String::new, |secret| secret.expose().to_owned());
    Ok(with_password(login, password))
}

fn with_password(login: &PasswordLogin, password: String) -> kafka::Sasl {
    kafka::Sasl::Password {
        mechanism: match login.mechanism {
            SaslMechanism::Plain => kafka::Mechanism::Plain,
            SaslMechanism::ScramSha256 => kafka::Mechanism::ScramSha256,
            SaslMechanism::ScramSha512 => kafka::Mechanism::ScramSha512,
        },
        username: login.username.clone(),
        password,
    }
}

/// An address that cannot be asked, or not safely, is refused with its line.
fn grant(login: &TokenLogin) -> Result<kafka::Grant, ConfigError> {
    let endpoint = kafka::Endpoint::parse(login.endpoint.value());
    let secret = login.secret.clone();
    let read = move || match secret.read("sink.sasl.client_secret") {
        Ok(secret) => Ok(secret.map_or_else(String::new, |secret| secret.expose().to_owned())),
        Err(why) => Err(why.to_string()),
    };
    Ok(kafka::Grant {
        endpoint: endpoint.map_err(|why| login.endpoint.problem(why))?,
        ca: login.ca.clone(),
        client_id: login.client_id.clone(),
        secret: Arc::new(read),
        scope: login.scope.clone(),
        extensions: login.extensions.clone(),
    })
}
