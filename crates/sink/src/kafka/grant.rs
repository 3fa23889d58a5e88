//! A login by tokens: where they are asked for, and as whom (OAuth 2.0, client credentials grant).
//!
//! Never: shows the secret, nor the endpoint's query, which may hold one.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::security::is_this_machine;

/// Reads the client's secret as it is now, and may take its time; or says why it cannot be had.
pub type ReadSecret = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

#[derive(Clone)]
pub struct Grant {
    pub endpoint: Endpoint,
    /// The endpoint's certificate authorities, PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    pub client_id: String,
    pub secret: ReadSecret,
    pub scope: Option<String>,
    /// What the brokers are told beside the token.
    pub extensions: Vec<(String, String)>,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("endpoint", &self.endpoint)
            .field("ca", &self.ca)
            .field("client_id", &self.client_id)
            .field("scope", &self.scope)
            .field("extensions", &self.extensions)
            .finish_non_exhaustive()
    }
}

impl Grant {
    /// The value of `Authorization` (RFC 6749, section 2.3.1: both parts are form-encoded first).
    pub(super) fn authorization(&self, secret: &str) -> String {
        let pair = format!("{}:{}", form(&self.client_id), form(secret));
        format!("Basic {}", STANDARD.encode(pair))
    }

    pub(super) fn body(&self) -> String {
        let scope = self.scope.as_deref();
        let scope = scope.map_or_else(String::new, |scope| format!("&scope={}", form(scope)));
        format!("grant_type=client_credentials{scope}")
    }
}

/// What is not unreserved (RFC 3986) is escaped: every reader of forms undoes that.
fn form(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => {
                let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                escaped.push('%');
                escaped.push(digit(byte >> 4).to_ascii_uppercase());
                escaped.push(digit(byte & 15).to_ascii_uppercase());
            }
        }
    }
    escaped
}

/// The address of a token endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) tls: bool,
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query.
    pub(super) target: String,
}

impl Endpoint {
    /// Or what is wrong with it.
    pub fn parse(text: &str) -> Result<Endpoint, &'static str> {
        let (tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            _ => return Err("is no address of a token endpoint; https://host/path is wanted"),
        };
        if text.contains('#') || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a '#' or what no address can hold; https://host/path is wanted");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(
                "must not hold a user; sink.sasl.client_id and sink.sasl.client_secret say who asks",
            );
        }
        let (host, port) = place(authority, if tls { 443 } else { 80 })
            .ok_or("names no host, or no port that there can be; https://host/path is wanted")?;
        if !tls && !is_this_machine(&host) {
            return Err(
                "would send the secret in plain text to another machine; https:// is wanted",
            );
        }
        Ok(Endpoint {
            tls,
            host,
            port,
            target: if target.starts_with('/') {
                target.to_owned()
            } else {
                format!("/{target}")
            },
        })
    }

    /// `host:port`, as a `Host` header and people have it.
    pub(super) fn authority(&self) -> String {
        let Endpoint { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

/// `host`, `host:port`, `[address]`, `[address]:port`.
fn place(authority: &str, usual: u16) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port {
        "" => usual,
        port => port.strip_prefix(':')?.parse().ok().filter(|it| *it > 0)?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(client_id: &str, scope: Option<&str>) -> Grant {
        Grant {
            endpoint: Endpoint::parse("https://idp.test/token?key=c4nary").unwrap(),
            ca: None,
            client_id: client_id.into(),
            secret: Arc::new(|| Ok("c4nary".into())),
            scope: scope.map(str::to_owned),
            extensions: Vec::new(),
        }
    }

    #[test]
    fn an_address_is_taken_apart() {
        for (text, shown, target) in [
            ("https://idp.test/a/b", "https://idp.test:443/a/b", "/a/b"),
            ("HTTPS://idp.test:8443", "https://idp.test:8443/", "/"),
            ("https://idp.test?x=1", "https://idp.test:443/", "/?x=1"),
            (
                "https://[2001:db8::1]/t",
                "https://[2001:db8::1]:443/t",
                "/t",
            ),
            ("http://127.0.0.1:8080/t", "http://127.0.0.1:8080/t", "/t"),
            ("http://localhost/t", "http://localhost:80/t", "/t"),
            ("http://[::1]:81/t", "http://[::1]:81/t", "/t"),
        ] {
            let endpoint = Endpoint::parse(text).expect(text);
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(endpoint.target, target);
        }
    }

    #[test]
    fn what_is_no_safe_address_is_refused() {
        for (text, word) in [
            ("idp.test/token", "no address"),
            ("ftp://idp.test/token", "no address"),
            ("https:///token", "names no host"),
            ("https://idp.test:0/token", "no port"),
            ("https://idp.test:99999/token", "no port"),
            ("https://[::1/token", "names no host"),
            ("https://u:p@idp.test/token", "must not hold a user"),
            ("https://idp.test/token#x", "'#'"),
            ("https://idp.test/to ken", "what no address can hold"),
            ("http://idp.test/token", "plain text"),
            ("http://127.evil.test/token", "plain text"),
        ] {
            let why = Endpoint::parse(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    #[test]
    fn who_asks_is_escaped_before_it_is_joined() {
        let header = grant("sh:op", None).authorization("p+ä ~");
        let pair = STANDARD.decode(header.strip_prefix("Basic ").unwrap());
        assert_eq!(pair.unwrap(), b"sh%3Aop:p%2B%C3%A4%20~");
    }

    #[test]
    fn the_scope_is_asked_for_if_there_is_one() {
        let asked = |scope| grant("shop", scope).body();
        assert_eq!(asked(None), "grant_type=client_credentials");
        assert_eq!(
            asked(Some("api://k/.default")),
            "grant_type=client_credentials&scope=api%3A%2F%2Fk%2F.default"
        );
    }

    #[test]
    fn neither_the_secret_nor_the_query_is_shown() {
        let shown = format!("{:?}", grant("shop", None));
        assert!(
            shown.contains("idp.test") && !shown.contains("c4nary"),
            "{shown}"
        );
    }
}
