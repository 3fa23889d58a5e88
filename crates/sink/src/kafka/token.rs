//! What a token endpoint answered: a token, whom it names, and how long it lives.
//!
//! Never: shows a token.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Of a token that does not say it: soon enough for any that are in use.
const UNTOLD: Duration = Duration::from_mins(5);
/// However long it says it lives, it is asked for anew each day.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub text: String,
    /// Whom the brokers take the bearer for, unless they look at another claim.
    pub principal: String,
    pub lifetime: Duration,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("principal", &self.principal)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

impl Token {
    /// Out of an answer's body (RFC 6749, section 5.1), or what is wrong with that.
    pub(super) fn read(body: &[u8], client_id: &str) -> Result<Token, &'static str> {
        let answer: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| "it is no JSON object")?;
        let kind = answer.get("token_type").and_then(Value::as_str);
        if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err("its token_type is not Bearer");
        }
        let text = answer.get("access_token").and_then(Value::as_str);
        let text = text.ok_or("it has no access_token")?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("its access_token is not what a header can carry");
        }
        let claims = claims(text).unwrap_or_default();
        let said = answer.get("expires_in").and_then(seconds);
        // By the issuer's own clock: ours may be wrong.
        let by_claims = || seconds(claims.get("exp")?)?.checked_sub(seconds(claims.get("iat")?)?);
        let lifetime = said.or_else(by_claims).map(Duration::from_secs);
        if lifetime.is_some_and(|lifetime| lifetime.is_zero()) {
            return Err("its token has ended already");
        }
        let subject = claims.get("sub").and_then(Value::as_str);
        let subject = subject.filter(|it| !it.is_empty() && !it.contains(char::is_control));
        Ok(Token {
            text: text.to_owned(),
            principal: subject.unwrap_or(client_id).to_owned(),
            lifetime: lifetime.unwrap_or(UNTOLD).min(LONGEST),
        })
    }
}

/// Some servers write their numbers as text, some with a fraction.
fn seconds(value: &Value) -> Option<u64> {
    let whole = |text: &str| text.split('.').next()?.parse().ok();
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(&number.to_string())),
        Value::String(text) => whole(text.trim()),
        _ => None,
    }
}

/// Of a JWT; other tokens mean something to their issuer alone. The brokers verify it, we only read.
fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jwt(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn read(answer: &Value) -> Result<Token, &'static str> {
        Token::read(answer.to_string().as_bytes(), "shop")
    }

    #[test]
    fn the_lifetime_is_what_the_answer_says_else_the_token() {
        let dated = jwt(&json!({"iat": 1000, "exp": 1060.5}));
        for (answer, lifetime) in [
            (json!({"access_token": dated, "expires_in": 300}), 300),
            (json!({"access_token": dated, "expires_in": "299"}), 299),
            (json!({"access_token": dated}), 60),
            (json!({"access_token": "opaque"}), 300),
            (json!({"access_token": "opaque", "expires_in": null}), 300),
            (json!({"access_token": "opaque", "expires_in": 1e9}), 86_400),
        ] {
            let token = read(&answer).unwrap();
            assert_eq!(token.lifetime.as_secs(), lifetime, "{answer}");
        }
    }

    #[test]
    fn the_principal_is_the_subject_of_a_jwt_else_the_client() {
        for (token, principal) in [
            (jwt(&json!({"sub": "svc-7"})), "svc-7"),
            (jwt(&json!({"sub": ""})), "shop"),
            (jwt(&json!({"sub": "a\u{0}b"})), "shop"),
            (jwt(&json!({"azp": "x"})), "shop"),
            ("opaque".into(), "shop"),
            ("a.b.c.d.e".into(), "shop"),
        ] {
            let answer = json!({"access_token": token, "token_type": "bearer"});
            assert_eq!(read(&answer).unwrap().principal, principal, "{token}");
        }
    }

    #[test]
    fn what_is_no_usable_token_is_refused() {
        for (body, word) in [
            ("<html>", "no JSON object"),
            ("[]", "no JSON object"),
            ("{}", "no access_token"),
            (r#"{"access_token": 7}"#, "no access_token"),
            (r#"{"access_token": "a b"}"#, "header"),
            (r#"{"access_token": ""}"#, "header"),
            (r#"{"access_token": "a", "token_type": "DPoP"}"#, "Bearer"),
            (r#"{"access_token": "a", "expires_in": 0}"#, "ended"),
        ] {
            let why = Token::read(body.as_bytes(), "shop").unwrap_err();
            assert!(why.contains(word), "{body}: {why}");
        }
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        let token = read(&json!({"access_token": "c4nary"})).unwrap();
        assert!(!format!("{token:?}").contains("c4nary"));
    }
}
