//! A connection to one server, by TCP, TLS or socket, opened within a time limit.
//!
//! Rule: without TLS no password leaves this machine in clear text.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::Settings;
use crate::tls::{Config, Words};
use crate::wire::{self, Wire, tcp};
use crate::{Error, Server};

pub(super) const WORDS: Words = Words {
    reload: "SELECT pg_reload_conf();",
    authorities: "ssl_ca_file",
    versions: "ssl_min_protocol_version, ssl_max_protocol_version, ssl_ciphers",
};

/// The length 8 and the number 80877103: may we speak TLS?
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// To the server that the settings have chosen.
pub(super) async fn open(settings: &Settings, server: &Server) -> Result<Wire, Error> {
    let unreachable = |e: io::Error| Error::transient(format!("cannot connect to {server}: {e}"));
    if server.is_socket() {
        let path = Path::new(&server.host).join(format!(".s.PGSQL.{}", server.port));
        let socket = UnixStream::connect(path).await.map_err(unreachable)?;
        return Ok(Box::new(socket));
    }
    let tcp = tcp(server).await.map_err(unreachable)?;
    match settings.tls.config() {
        None => Ok(Box::new(Plain::new(tcp))),
        Some(config) => secure(tcp, config.clone(), server).await,
    }
}

async fn secure(mut tcp: TcpStream, config: Config, server: &Server) -> Result<Wire, Error> {
    let broke = |e: io::Error| Error::transient(format!("{server} ended the connection: {e}"));
    tcp.write_all(&SSL_REQUEST).await.map_err(broke)?;
    // One byte and no more: what came after it unprotected would be taken as protected.
    let mut answer = [0];
    tcp.read_exact(&mut answer).await.map_err(broke)?;
    if answer != *b"S" {
        return Err(Error::fatal(
            format!("{server} does not speak TLS"),
            "turn it on there (ssl = on, ssl_cert_file, ssl_key_file in postgresql.conf), or accept that password and rows \
             travel in plain text: source.tls.mode = \"disable\"",
        ));
    }
    wire::secure(tcp, config, server, WORDS).await
}

/// The server wants the password as it is, and anybody on the way could read it.
#[derive(Debug, thiserror::Error)]
#[error("the server asks for the password in clear text")]
pub(super) struct ClearText;

/// TCP without TLS, which ends where the server's first message asks for the password itself.
struct Plain {
    tcp: TcpStream,
    /// The beginning of what the server said; `None` once that has been judged.
    heard: Option<Vec<u8>>,
}

impl Plain {
    fn new(tcp: TcpStream) -> Plain {
        Plain {
            tcp,
            heard: Some(Vec::new()),
        }
    }

    fn judge(&mut self, new: &[u8]) -> io::Result<()> {
        let Some(heard) = &mut self.heard else {
            return Ok(());
        };
        heard.extend_from_slice(new);
        match asks_for_clear_text(heard) {
            None => Ok(()),
            Some(true) => Err(io::Error::other(ClearText)),
            Some(false) => {
                self.heard = None;
                Ok(())
            }
        }
    }
}

/// Whether the first message is an `AuthenticationCleartextPassword`: `R`, its length, and the number 3. `None`: too short to say.
fn asks_for_clear_text(heard: &[u8]) -> Option<bool> {
    match heard {
        [] => None,
        [b'R', rest @ ..] if rest.len() < 8 => None,
        [b'R', _, _, _, _, code @ ..] => Some(code.starts_with(&[0, 0, 0, 3])),
        _ => Some(false),
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(context, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.judge(new))
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wish_for_the_password_itself_is_clear_text() {
        let clear = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];
        let md5 = [b'R', 0, 0, 0, 12, 0, 0, 0, 5, 1, 2, 3, 4];
        let trusted = [b'R', 0, 0, 0, 8, 0, 0, 0, 0, b'S'];
        assert_eq!(asks_for_clear_text(&clear), Some(true));
        assert_eq!(asks_for_clear_text(&md5), Some(false));
        assert_eq!(asks_for_clear_text(&trusted), Some(false));
        assert_eq!(asks_for_clear_text(b"E"), Some(false));
        for some in 0..clear.len() {
            assert_eq!(asks_for_clear_text(&clear[..some]), None, "{some}");
        }
    }
}
