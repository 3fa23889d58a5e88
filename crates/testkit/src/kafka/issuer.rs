//! A small authorization server: a token endpoint by HTTPS, which gives signed tokens to those who know the secret.
//!
//! Its key is the one that the brokers of [`Listener::Token`](super::Listener::Token) verify with.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::certificate::Certificates;
use crate::port::free_port;

/// What the brokers expect of a token, but for its key.
pub(super) const AUDIENCE: &str = "kafka";
pub(super) const ISSUER: &str = "https://issuer.test";

const KEY: &str = "issuer.pk8";
const PATIENCE: Duration = Duration::from_secs(10);

/// What the endpoint does with a request.
#[derive(Debug, Clone)]
pub struct Manner {
    pub client_id: String,
    pub secret: String,
    /// Whom a token names: ACLs call it `User:subject`.
    pub subject: String,
    pub audience: String,
    pub lifetime: Duration,
    /// Whether the answer says how long the token lives, or only the token itself.
    pub tells_lifetime: bool,
    /// Instead of all that: a status line's end, further headers, and a body.
    pub answer: Option<(&'static str, &'static str, &'static str)>,
}

pub struct Issuer {
    port: u16,
    /// Of the endpoint's own certificate.
    tls: Arc<ServerConfig>,
    state: Arc<State>,
    listening: Mutex<Option<Arc<AtomicBool>>>,
}

struct State {
    key: EcdsaKeyPair,
    manner: Mutex<Manner>,
    requests: Mutex<Vec<String>>,
    issued: Mutex<Vec<String>>,
}

/// Writes the key, and the set of public keys that brokers read.
pub(super) fn make_key(folder: &Path, jwks: &Path) {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    fs::write(folder.join(KEY), made.as_ref()).unwrap();
    let key = read_key(folder);
    // Uncompressed: a byte that says so, then both coordinates.
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
    let set = json!({"keys": [
        {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1", "x": x, "y": y}
    ]});
    fs::write(jwks, set.to_string()).unwrap();
}

fn read_key(folder: &Path) -> EcdsaKeyPair {
    let bytes = fs::read(folder.join(KEY)).unwrap();
    let random = SystemRandom::new();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes, &random).unwrap()
}

impl Issuer {
    /// Listens at once.
    pub fn start(certificates: &Certificates) -> Self {
        let issuer = Self::away(certificates);
        issuer.come();
        issuer
    }

    /// Does not listen yet.
    pub fn away(certificates: &Certificates) -> Self {
        let manner = Manner {
            client_id: "headwater".into(),
            secret: "p".into(),
            subject: "u".into(),
            audience: AUDIENCE.into(),
            lifetime: Duration::from_hours(1),
            tells_lifetime: true,
            answer: None,
        };
        Self {
            port: free_port(),
            tls: Arc::new(tls(&certificates.keystore("server"))),
            state: Arc::new(State {
                key: read_key(certificates.folder()),
                manner: Mutex::new(manner),
                requests: Mutex::default(),
                issued: Mutex::default(),
            }),
            listening: Mutex::default(),
        }
    }

    pub fn come(&self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        let listens = Arc::new(AtomicBool::new(true));
        *lock(&self.listening) = Some(Arc::clone(&listens));
        let (tls, state) = (Arc::clone(&self.tls), Arc::clone(&self.state));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if !listens.load(Ordering::SeqCst) {
                    return;
                }
                let (tls, state) = (Arc::clone(&tls), Arc::clone(&state));
                // A client that does not trust us leaves in the middle: that is its right.
                thread::spawn(move || stream.and_then(|stream| serve(stream, tls, &state)));
            }
        });
    }

    pub fn go(&self) {
        if let Some(listens) = lock(&self.listening).take() {
            listens.store(false, Ordering::SeqCst);
            // Wakes the one who accepts, who lets the port go then.
            let _ = TcpStream::connect(("127.0.0.1", self.port));
            while TcpListener::bind(("127.0.0.1", self.port)).is_err() {
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    pub fn endpoint(&self) -> String {
        format!("https://localhost:{}/token", self.port)
    }

    pub fn behave(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut lock(&self.state.manner));
    }

    /// The tokens that it gave.
    pub fn issued(&self) -> Vec<String> {
        lock(&self.state.issued).clone()
    }

    /// The bodies of the requests that it got.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.state.requests).clone()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.go();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tls(keystore: &Path) -> ServerConfig {
    let chain = CertificateDer::pem_file_iter(keystore).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(keystore).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

fn serve(stream: TcpStream, tls: Arc<ServerConfig>, state: &State) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let connection = ServerConnection::new(tls).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let (head, body) = request(&mut stream)?;
    lock(&state.requests).push(body.clone());
    let (status, headers, answer) = state.answer(&head, &body);
    let length = answer.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{answer}"
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// Its head in small letters, but for the values' own; and its body.
fn request(stream: &mut impl Read) -> std::io::Result<(String, String)> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&text).into_owned();
    let length = header(&head, "content-length").and_then(|it| it.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}

fn header(head: &str, wanted: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let found = name.eq_ignore_ascii_case(wanted);
        found.then(|| value.trim().to_owned())
    })
}

impl State {
    fn answer(&self, head: &str, body: &str) -> (String, String, String) {
        let manner = lock(&self.manner).clone();
        if let Some((status, headers, answer)) = manner.answer {
            return (status.into(), headers.into(), answer.into());
        }
        let refuse = |status: &str, error: &str| {
            let answer = json!({"error": error, "error_description": "no"});
            (status.to_owned(), String::new(), answer.to_string())
        };
        let pair = format!("{}:{}", manner.client_id, manner.secret);
        let wanted = format!("Basic {}", STANDARD.encode(pair));
        if header(head, "authorization").as_deref() != Some(&wanted) {
            return refuse("401 Unauthorized", "invalid_client");
        }
        if !head.starts_with("POST /token ") || !body.contains("grant_type=client_credentials") {
            return refuse("400 Bad Request", "unsupported_grant_type");
        }
        let token = self.sign(&manner);
        lock(&self.issued).push(token.clone());
        let mut answer = json!({"access_token": token, "token_type": "Bearer"});
        if manner.tells_lifetime {
            answer["expires_in"] = manner.lifetime.as_secs().into();
        }
        let json = "Content-Type: application/json\r\n".to_owned();
        ("200 OK".to_owned(), json, answer.to_string())
    }

    fn sign(&self, manner: &Manner) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let claims = json!({
            "iss": ISSUER,
            "sub": manner.subject,
            "aud": manner.audience,
            "iat": now.as_secs(),
            // Not before its life is over: whole seconds are written.
            "exp": (now + manner.lifetime).as_secs() + 1,
            "jti": uuid::Uuid::new_v4().to_string(),
        });
        let head = json!({"alg": "ES256", "typ": "JWT", "kid": "1"});
        let [head, claims] = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{head}.{claims}");
        let random = SystemRandom::new();
        let signature = self.key.sign(&random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
