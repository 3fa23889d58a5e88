//! Asks a token endpoint for a token, by HTTP.
//!
//! Rule: an endpoint that is away is transient; one that refuses, or that cannot prove who it is, needs a person.
//! Never: follows a redirection, which would take the secret elsewhere; shows the secret, also where the answer repeats it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::grant::{Endpoint, Grant};
use super::token::Token;
use crate::Error;

/// For all of it; less than `check` waits, so that it can say why there is no token.
const LIMIT: Duration = Duration::from_secs(8);
/// A broker takes no larger token unless told so (`sasl.server.max.receive.size`).
const LARGEST: usize = 512 * 1024;
/// Of what the endpoint says about its refusal.
const SHOWN: usize = 300;

type Answer = (StatusCode, Bytes);

pub(super) async fn ask(grant: &Grant, secret: &str) -> Result<Token, Error> {
    let endpoint = &grant.endpoint;
    let answer = timeout(LIMIT, exchange(grant, secret)).await;
    let silent = |_| Error::transient(format!("{endpoint} gave no answer within {LIMIT:?}"));
    let (status, body) = answer.map_err(silent)??;
    judge(status, &body, grant, secret)
}

async fn exchange(grant: &Grant, secret: &str) -> Result<Answer, Error> {
    let endpoint = &grant.endpoint;
    let away = |error: std::io::Error| {
        Error::transient(format!("{endpoint} cannot be connected to: {error}"))
    };
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port));
    let stream = stream.await.map_err(away)?;
    if !endpoint.tls {
        return post(stream, grant, secret).await;
    }
    let connector = TlsConnector::from(Arc::new(tls(grant.ca.as_deref())?));
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|_| {
        Error::fatal(
            format!("{} is no name that a certificate can be for", endpoint.host),
            "name the host in sink.sasl.token_endpoint by its DNS name or IP address",
        )
    })?;
    let secured = connector.connect(name, stream).await;
    let secured = secured.map_err(|error| not_proven(&error, endpoint))?;
    post(secured, grant, secret).await
}

async fn post<S>(stream: S, grant: &Grant, secret: &str) -> Result<Answer, Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broke = |error: hyper::Error| {
        let endpoint = &grant.endpoint;
        Error::transient(format!("talking to {endpoint} broke off: {error}"))
    };
    let request = Request::post(&grant.endpoint.target)
        .header(HOST, grant.endpoint.authority())
        .header(AUTHORIZATION, grant.authorization(secret))
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "headwater")
        .body(Full::new(Bytes::from(grant.body())))
        .map_err(|_| {
            Error::fatal(
                format!("{} cannot be asked for", grant.endpoint),
                "correct sink.sasl.token_endpoint",
            )
        })?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broke)?;
    // Ends with this question, also if nobody waits for its answer any more.
    let mut talking = JoinSet::new();
    talking.spawn(connection);
    let response = sender.send_request(request).await.map_err(broke)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST).collect().await;
    let body = body.map_err(|_| {
        let endpoint = &grant.endpoint;
        Error::transient(format!("the answer of {endpoint} broke off or is too long"))
    })?;
    Ok((status, body.to_bytes()))
}

fn tls(ca: Option<&Path>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::transient(format!("TLS cannot be had: {error}")))?;
    let builder = builder.with_root_certificates(roots(ca)?);
    Ok(builder.with_no_client_auth())
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(Error::fatal(
                "this machine has no certificate authorities of its own",
                "install them (the package is often called ca-certificates), or name a file in sink.sasl.token_ca",
            ));
        }
        return Ok(roots);
    };
    let read = CertificateDer::pem_file_iter(ca).and_then(Iterator::collect);
    let found: Vec<CertificateDer<'_>> = read.unwrap_or_default();
    roots.add_parsable_certificates(found);
    if roots.is_empty() {
        return Err(Error::fatal(
            format!(
                "sink.sasl.token_ca: {} cannot be read, or holds no PEM certificate",
                ca.display()
            ),
            "make it readable for Headwater, or name another file",
        ));
    }
    Ok(roots)
}

fn not_proven(error: &std::io::Error, endpoint: &Endpoint) -> Error {
    let inner = error.get_ref().and_then(|it| it.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(flaw)) => {
            let why = match flaw {
                CertificateError::UnknownIssuer => "no known authority signed it".to_owned(),
                other => other.to_string(),
            };
            Error::fatal(
                format!("the certificate of {endpoint} cannot be verified: {why}"),
                "name the file with its authority in sink.sasl.token_ca (without that key it is one of the system's), or \
                 correct sink.sasl.token_endpoint",
            )
        }
        Some(rustls::Error::InvalidMessage(_) | rustls::Error::PeerIncompatible(_)) => {
            Error::fatal(
                format!("{endpoint} does not speak TLS that we know ({error})"),
                "let sink.sasl.token_endpoint name a port that speaks TLS 1.2 or 1.3",
            )
        }
        _ => Error::transient(format!("TLS with {endpoint} broke: {error}")),
    }
}

fn judge(status: StatusCode, body: &[u8], grant: &Grant, secret: &str) -> Result<Token, Error> {
    let (endpoint, code) = (&grant.endpoint, status.as_u16());
    match code {
        200 => Token::read(body, &grant.client_id).map_err(|why| {
            Error::fatal(
                format!("the answer of {endpoint} is no token: {why}"),
                "let sink.sasl.token_endpoint name the token endpoint of your authorization server",
            )
        }),
        300..=399 => Err(Error::fatal(
            format!("{endpoint} redirects ({code}), and the secret is not taken elsewhere"),
            "name the token endpoint itself in sink.sasl.token_endpoint",
        )),
        408 | 429 | 500..=599 => Err(Error::transient(format!(
            "{endpoint} cannot give a token now ({code}{})",
            said(body, secret).1
        ))),
        _ => {
            let (error, said) = said(body, secret);
            Err(Error::fatal(
                format!("{endpoint} refused to give a token ({code}{said})"),
                advice(code, &error, &grant.client_id),
            ))
        }
    }
}

/// The kind of a refusal (RFC 6749, section 5.2), and all that was said about it, for people.
fn said(body: &[u8], secret: &str) -> (String, String) {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let part = |name: &str| {
        let text = answer.get(name).and_then(Value::as_str).unwrap_or_default();
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let text = if secret.is_empty() {
            text
        } else {
            text.replace(secret, "***")
        };
        text.chars().take(SHOWN).collect::<String>()
    };
    let error = part("error");
    let mut all = String::new();
    for part in [error.clone(), part("error_description")] {
        if !part.is_empty() {
            all.push_str(", ");
            all.push_str(&part);
        }
    }
    (error, all)
}

fn advice(code: u16, error: &str, client_id: &str) -> String {
    match (error, code) {
        ("invalid_scope", _) => "correct sink.sasl.scope".to_owned(),
        ("unauthorized_client" | "unsupported_grant_type", _) => format!(
            "let the authorization server allow client {client_id} the client credentials grant"
        ),
        ("invalid_client", _) | (_, 401) => {
            "correct sink.sasl.client_id or sink.sasl.client_secret; the client must be one that may log in with a secret"
                .to_owned()
        }
        _ => "correct sink.sasl.token_endpoint, sink.sasl.client_id, sink.sasl.client_secret or sink.sasl.scope"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::trouble::Trouble as _;

    use super::*;

    fn grant() -> Grant {
        Grant {
            endpoint: Endpoint::parse("https://idp.test/token").unwrap(),
            ca: None,
            client_id: "shop".into(),
            secret: Arc::new(|| Ok(String::new())),
            scope: None,
            extensions: Vec::new(),
        }
    }

    fn judged(code: u16, body: &str) -> Error {
        let status = StatusCode::from_u16(code).unwrap();
        judge(status, body.as_bytes(), &grant(), "c4nary").unwrap_err()
    }

    #[test]
    fn a_refusal_needs_a_person_and_names_the_key() {
        for (code, body, word) in [
            (
                401,
                r#"{"error":"invalid_client"}"#,
                "sink.sasl.client_secret",
            ),
            (
                400,
                r#"{"error":"invalid_client"}"#,
                "sink.sasl.client_secret",
            ),
            (401, "", "sink.sasl.client_secret"),
            (
                400,
                r#"{"error":"invalid_scope"}"#,
                "correct sink.sasl.scope",
            ),
            (
                400,
                r#"{"error":"unauthorized_client"}"#,
                "allow client shop",
            ),
            (404, "<html>", "sink.sasl.token_endpoint"),
            (302, "", "itself in sink.sasl.token_endpoint"),
            (200, "<html>", "sink.sasl.token_endpoint"),
        ] {
            let error = judged(code, body);
            let text = error.to_string();
            assert!(error.is_fatal() && text.contains(word), "{code}: {text}");
        }
    }

    #[test]
    fn an_endpoint_in_trouble_is_waited_for() {
        for code in [408, 429, 500, 503] {
            assert!(!judged(code, "").is_fatal(), "{code}");
        }
    }

    #[test]
    fn what_the_endpoint_says_is_shown_without_the_secret_and_not_at_length() {
        let long = "x".repeat(9000);
        let body = format!(
            r#"{{"error":"invalid_client","error_description":"c4nary\nis wrong {long}"}}"#
        );
        let text = judged(401, &body).to_string();
        assert!(
            text.contains("(401, invalid_client, *** is wrong x"),
            "{text}"
        );
        assert!(text.len() < 700 && !text.contains("c4nary"), "{text}");
    }
}
