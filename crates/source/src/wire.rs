//! Bytes to and from a server, whatever carries them.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::tls::{self, Config, Words};
use crate::{Error, Server};

/// How long a server that is not heard of is believed to be there.
const UNHEARD: Duration = Duration::from_secs(20);
const PROBE_EVERY: Duration = Duration::from_secs(5);

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Bytes to and from a server; TLS is spoken already if it has to be.
pub(crate) type Wire = Box<dyn Duplex>;

pub(crate) async fn tcp(server: &Server) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect((server.host.as_str(), server.port)).await?;
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(&tcp);
    let keepalive = TcpKeepalive::new()
        .with_time(PROBE_EVERY)
        .with_interval(PROBE_EVERY)
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNHEARD))?;
    Ok(tcp)
}

/// Speaks TLS from here on; the server has agreed to it.
pub(crate) async fn secure(
    tcp: TcpStream,
    config: Config,
    server: &Server,
    words: Words,
) -> Result<Wire, Error> {
    let name = tls::name(server)?;
    match TlsConnector::from(config).connect(name, tcp).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(e) => Err(match tls_error(&e) {
            Some(cause) => tls::verdict(cause, server, words),
            None => Error::transient(format!("{server} ended the connection: {e}")),
        }),
    }
}

/// TLS's own error, if that is what an error of the connection is about.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
