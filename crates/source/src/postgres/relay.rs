//! TLS for a client that can only be given an address: a socket of this process, which one connection is carried through.
//!
//! The replication client's own TLS checks the name where it must not, refuses IP addresses, and knows no system roots. A folder that only
//! we may enter keeps others out, as a port of the loopback would not: who came first there would be logged in by our certificate.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{AsyncWriteExt, BufReader, copy, copy_buf, split};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use tracing::debug;

use super::session::CONNECT_TIMEOUT;
use crate::Error;
use crate::wire::Wire;

/// As much as TLS gives at once, several times.
const BUFFER: usize = 64 * 1024;

/// The socket's name is made of it; no port is used.
pub(super) const PORT: u16 = 5432;

/// Waits for one connection to the folder's socket and carries it; ends with either side, or if nobody comes.
pub(super) fn begin(wire: Wire) -> Result<PathBuf, Error> {
    let (folder, listener) = listen().map_err(|e| {
        Error::fatal(
            format!("no socket can be made: {e}"),
            "TLS needs a folder in which Headwater may make a socket for itself, with a path of at most 60 bytes: name \
             one in the environment variable TMPDIR",
        )
    })?;
    let path = folder.path().to_owned();
    tokio::spawn(async move {
        if let Ok(Ok((client, _))) = timeout(CONNECT_TIMEOUT, listener.accept()).await {
            // Nobody else finds the way in.
            drop((listener, folder));
            carry(wire, client).await;
        }
    });
    Ok(path)
}

fn listen() -> std::io::Result<(TempDir, UnixListener)> {
    // For its owner only, from the moment it is there.
    let folder = tempfile::Builder::new()
        .prefix("headwater-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    let listener = UnixListener::bind(socket(folder.path()))?;
    Ok((folder, listener))
}

fn socket(folder: &Path) -> PathBuf {
    folder.join(format!(".s.PGSQL.{PORT}"))
}

/// Whoever closes ends both: neither protocol has anything to say to one side after the other is gone.
async fn carry(wire: Wire, client: UnixStream) {
    let (from_server, mut to_server) = split(wire);
    let (mut from_client, mut to_client) = client.into_split();
    let up = async {
        copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let mut from_server = BufReader::with_capacity(BUFFER, from_server);
    let down = async {
        copy_buf(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    let ended = tokio::select! {
        ended = up => ended,
        ended = down => ended,
    };
    if let Err(why) = ended {
        debug!(%why, "the protected replication connection ended");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test]
    async fn one_connection_is_carried_and_nobody_else_finds_the_way_in() {
        let (wire, mut server) = duplex(16);
        let folder = begin(Box::new(wire)).unwrap();
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let mut client = UnixStream::connect(socket(&folder)).await.unwrap();
        client.write_all(b"up").await.unwrap();
        server.write_all(b"down").await.unwrap();
        let (mut up, mut down) = ([0; 2], [0; 4]);
        server.read_exact(&mut up).await.unwrap();
        client.read_exact(&mut down).await.unwrap();
        assert_eq!((&up, &down), (b"up", b"down"));
        assert!(!folder.exists());
        drop(client);
        assert_eq!(server.read(&mut down).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_comes_and_nothing_is_left() {
        let (wire, mut server) = duplex(16);
        let folder = begin(Box::new(wire)).unwrap();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        assert!(!folder.exists());
    }
}
