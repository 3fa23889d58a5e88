//! The admin pages: health, readiness, metrics and status of this process, by HTTP.
//!
//! In: a pipeline's figures. Rule: reads them and changes nothing; a task of its own, so that a slow caller holds up nobody.
//! Never: a secret or a payload.

mod status;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tracing::{debug, info, warn};

use crate::clock;
use crate::config::{Admin, ConfigError, Listen, Token};
use crate::metrics;
use crate::pipeline::Figures;

/// So many callers at a time; more wait.
const CALLERS: usize = 32;
/// A caller that says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_HEADERS: usize = 16 * 1024;

type Answer = Response<Full<Bytes>>;

/// What answers a request.
struct Pages {
    pipeline: String,
    /// As `admin.listen` has it.
    host: String,
    token: Option<Token>,
    figures: watch::Receiver<Figures>,
}

/// Listens, and answers until the process ends. An address that was asked for and cannot be had is a problem of the
/// configuration.
pub async fn open(
    admin: &Admin,
    pipeline: &str,
    figures: watch::Receiver<Figures>,
) -> Result<(), ConfigError> {
    let Some(located) = &admin.listen else {
        return Ok(());
    };
    if let Some(token) = &admin.token {
        token.read().map_err(|why| located.problem(why))?;
    }
    let Listen { host, port } = located.value();
    let listener = match TcpListener::bind((host.as_str(), *port)).await {
        Ok(listener) => listener,
        // Nobody asked for this address: a second pipeline or a standby on this machine carries events all the same.
        Err(error) if located.is_default() => {
            let why = not_had(&error, host, *port);
            warn!(
                why,
                "there are no admin pages: give an address in admin.listen"
            );
            return Ok(());
        }
        Err(error) => return Err(located.problem(not_had(&error, host, *port))),
    };
    tell(&listener, admin);
    let pages = Pages {
        pipeline: pipeline.to_owned(),
        host: host.to_ascii_lowercase(),
        token: admin.token.clone(),
        figures,
    };
    tokio::spawn(accept(listener, Arc::new(pages)));
    Ok(())
}

fn not_had(error: &std::io::Error, host: &str, port: u16) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "{host}:{port} is taken, perhaps by another pipeline on this machine; give each pipeline a port of its own, \
             or say \"off\""
        ),
        _ => format!(
            "{host}:{port} cannot be listened at: {error}; an address of this machine is wanted, or \"off\""
        ),
    }
}

fn tell(listener: &TcpListener, admin: &Admin) {
    let Ok(address) = listener.local_addr() else {
        return;
    };
    info!(%address, "health, metrics and status are here");
    if !address.ip().is_loopback() && admin.token.is_none() {
        warn!(
            %address,
            "whoever can reach this address can read metrics and status: admin.token_file would ask for a token"
        );
    }
}

async fn accept(listener: TcpListener, pages: Arc<Pages>) {
    let callers = Arc::new(Semaphore::new(CALLERS));
    loop {
        let Ok(place) = Arc::clone(&callers).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let pages = Arc::clone(&pages);
                tokio::spawn(async move {
                    serve(stream, pages).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, say: it may pass.
                debug!(%error, "a caller could not be let in");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, pages: Arc<Pages>) {
    let answer = service_fn(move |request| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.answer(&request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        debug!(%error, "a caller was let go");
    }
}

impl Pages {
    async fn answer(&self, request: &Request<Incoming>) -> Answer {
        if !self.is_for_us(request.headers().get(HOST)) {
            let why = "the Host header names neither an IP address, nor localhost, nor the name in admin.listen\n";
            return plain(StatusCode::FORBIDDEN, why);
        }
        let path = request.uri().path();
        if !matches!(path, "/health" | "/ready" | "/metrics" | "/status") {
            let what = "there are /health, /ready, /metrics and /status\n";
            return plain(StatusCode::NOT_FOUND, what);
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut answer = plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "nothing can be changed here\n",
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            answer.headers_mut().insert(ALLOW, allowed);
            return answer;
        }
        match path {
            "/health" => plain(StatusCode::OK, "alive\n"),
            "/ready" => self.ready(),
            _ => match self.refused(request.headers().get(AUTHORIZATION)).await {
                Some(refusal) => refusal,
                None if path == "/metrics" => self.metrics(),
                None => self.status(),
            },
        }
    }

    /// A page of another site may lead its own name to this address (DNS rebinding); its browser then says that name.
    fn is_for_us(&self, host: Option<&HeaderValue>) -> bool {
        let Some(host) = host.and_then(|host| host.to_str().ok()) else {
            return false;
        };
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.split_once(':').map_or(host, |(name, _)| name),
        };
        let name = name.to_ascii_lowercase();
        name == "localhost" || name == self.host || name.parse::<IpAddr>().is_ok()
    }

    fn ready(&self) -> Answer {
        let figures = self.figures.borrow();
        if figures.is_ready() {
            return plain(StatusCode::OK, "ready\n");
        }
        let why = format!("not ready: {}\n", figures.waiting_for());
        plain(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    fn metrics(&self) -> Answer {
        let text = metrics::text(&self.pipeline, &self.figures.borrow(), clock::micros());
        answer(StatusCode::OK, metrics::CONTENT_TYPE, text)
    }

    fn status(&self) -> Answer {
        let status = status::json(&self.pipeline, &self.figures.borrow(), clock::micros());
        answer(StatusCode::OK, "application/json", format!("{status:#}\n"))
    }

    /// The answer to a caller without the token, if one is wanted.
    async fn refused(&self, shown: Option<&HeaderValue>) -> Option<Answer> {
        let token = self.token.clone()?;
        let wanted = tokio::task::spawn_blocking(move || token.read()).await;
        let wanted = match wanted {
            Ok(Ok(wanted)) => wanted,
            Ok(Err(why)) => {
                warn!(why, "nobody can be let in");
                return Some(plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the token cannot be read\n",
                ));
            }
            Err(_) => return Some(plain(StatusCode::INTERNAL_SERVER_ERROR, "ending\n")),
        };
        let shown = shown.map_or(&b""[..], HeaderValue::as_bytes);
        let shown = shown.strip_prefix(b"Bearer ").unwrap_or_default();
        if is_same(shown, wanted.expose().as_bytes()) {
            return None;
        }
        let why = "the token of admin.token_file is wanted: Authorization: Bearer ...\n";
        let mut answer = plain(StatusCode::UNAUTHORIZED, why);
        let bearer = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        Some(answer)
    }
}

/// Takes as long for a token that is nearly right as for one that is not at all.
fn is_same(shown: &[u8], wanted: &[u8]) -> bool {
    let differing = shown
        .iter()
        .zip(wanted)
        .fold(0, |all, (a, b)| all | (a ^ b));
    shown.len() == wanted.len() && differing == 0
}

fn plain(code: StatusCode, text: impl Into<String>) -> Answer {
    answer(code, "text/plain; charset=utf-8", text.into())
}

fn answer(code: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = code;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Board;

    #[test]
    fn only_a_name_of_ours_is_answered() {
        let pages = Pages {
            pipeline: "shop".into(),
            host: "headwater.internal".into(),
            token: None,
            figures: Board::default().watch(),
        };
        let is_for_us = |host| pages.is_for_us(Some(&HeaderValue::from_static(host)));
        for ours in [
            "localhost",
            "LocalHost:9464",
            "127.0.0.1:9464",
            "10.1.2.3",
            "[::1]:9464",
            "headwater.internal:80",
        ] {
            assert!(is_for_us(ours), "{ours}");
        }
        for foreign in [
            "",
            "evil.example",
            "localhost.evil.example:9464",
            "internal",
        ] {
            assert!(!is_for_us(foreign), "{foreign}");
        }
        assert!(!pages.is_for_us(None));
    }

    #[test]
    fn a_token_is_the_same_only_as_a_whole() {
        assert!(is_same(b"abc", b"abc"));
        for wrong in [&b""[..], b"ab", b"abcd", b"abd"] {
            assert!(!is_same(wrong, b"abc"));
        }
    }
}
