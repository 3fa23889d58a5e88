//! Hands a bearer token to a client of librdkafka: the one call that rdkafka has no safe word for.
//!
//! rdkafka gives tokens only to clients whose main queue it polls, which the admin client's is not, and no extensions to any.
//!
//! Rule: all `unsafe` of the house is here, and it is one call.
//! Never: shows a token. librdkafka's own words for a token that it does not take hold it, so that they are dropped.

use std::ffi::{CString, NulError, c_char};

use rdkafka::ClientContext;
use rdkafka::bindings::{rd_kafka_oauthbearer_set_token, rd_kafka_resp_err_t};
use rdkafka::client::Client;

/// The year 2100, in milliseconds: librdkafka is not to ask for the next token, its keeper knows when that is due.
const NEVER_ENDS: i64 = 4_102_444_800_000;

/// How a client proves who it is.
pub struct Bearer<'a> {
    pub token: &'a str,
    /// Only shown, in librdkafka's messages.
    pub principal: &'a str,
    /// What the brokers are told beside the token (RFC 7628, section 3.1).
    pub extensions: &'a [(String, String)],
}

/// The token, or what goes with it, is not what SASL OAUTHBEARER can carry; or the client does not log in that way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotTaken;

/// Replaces what the client had. Connections that wait for a token go on; those that are there use it when they have to prove
/// again who they are.
pub fn hand_over<C: ClientContext>(
    client: &Client<C>,
    bearer: &Bearer<'_>,
) -> Result<(), NotTaken> {
    let token = text(bearer.token)?;
    let principal = text(bearer.principal)?;
    let pairs = bearer.extensions.iter();
    let pairs = pairs.flat_map(|(name, value)| [name, value]);
    let pairs: Result<Vec<CString>, NotTaken> = pairs.map(|part| text(part)).collect();
    let pairs = pairs?;
    let mut pointers: Vec<*const c_char> = pairs.iter().map(|part| part.as_ptr()).collect();
    let mut dropped: [c_char; 512] = [0; 512];
    // SAFETY: `client` is borrowed, so that its handle lives; librdkafka locks it, and lets any thread call this. It copies
    // the strings, which are terminated, and as many pointers as it is told; and it writes within the buffer's length.
    let code = unsafe {
        rd_kafka_oauthbearer_set_token(
            client.native_ptr(),
            token.as_ptr(),
            NEVER_ENDS,
            principal.as_ptr(),
            pointers.as_mut_ptr(),
            pointers.len(),
            dropped.as_mut_ptr(),
            dropped.len(),
        )
    };
    match code {
        rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        _ => Err(NotTaken),
    }
}

fn text(part: &str) -> Result<CString, NotTaken> {
    CString::new(part).map_err(|_: NulError| NotTaken)
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use rdkafka::admin::AdminClient;
    use rdkafka::client::DefaultClientContext;

    use super::*;

    fn client(mechanism: &str) -> AdminClient<DefaultClientContext> {
        ClientConfig::new()
            .set("bootstrap.servers", "127.0.0.1:1")
            .set("security.protocol", "sasl_plaintext")
            .set("sasl.mechanism", mechanism)
            .set("sasl.username", "u")
            .set("sasl.password", "p")
            .create()
            .unwrap()
    }

    fn give(mechanism: &str, token: &str, extensions: &[(&str, &str)]) -> Result<(), NotTaken> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let extensions: Vec<(String, String)> = extensions.iter().map(owned).collect();
        let bearer = Bearer {
            token,
            principal: "shop",
            extensions: &extensions,
        };
        hand_over(client(mechanism).inner(), &bearer)
    }

    #[test]
    fn an_admin_client_takes_a_token_and_what_goes_with_it() {
        assert_eq!(give("OAUTHBEARER", "a.b.c", &[]), Ok(()));
        let both = [("logicalCluster", "lkc-1"), ("identityPoolId", "pool-2")];
        assert_eq!(give("OAUTHBEARER", "a.b.c", &both), Ok(()));
    }

    #[test]
    fn what_sasl_cannot_carry_is_not_taken() {
        assert_eq!(give("OAUTHBEARER", "a\0b", &[]), Err(NotTaken));
        assert_eq!(give("OAUTHBEARER", "a\u{1}b", &[]), Err(NotTaken));
        assert_eq!(give("OAUTHBEARER", "t", &[("auth", "x")]), Err(NotTaken));
        assert_eq!(give("OAUTHBEARER", "t", &[("a-b", "x")]), Err(NotTaken));
    }

    #[test]
    fn a_client_that_logs_in_otherwise_takes_none() {
        assert_eq!(give("PLAIN", "a.b.c", &[]), Err(NotTaken));
    }
}
