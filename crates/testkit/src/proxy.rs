//! A TCP proxy that can fall silent: the network between two programs, with its cable in our hand.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy)]
struct Cable {
    forwarding: bool,
    /// Connections made before the last cut are closed.
    cuts: u32,
}

/// Works in a thread of its own, under any runtime of the test or none.
pub struct Proxy {
    port: u16,
    target: Arc<AtomicU16>,
    cable: watch::Sender<Cable>,
}

impl Proxy {
    pub fn start(target_port: u16) -> Self {
        let target = Arc::new(AtomicU16::new(target_port));
        let (cable, seen) = watch::channel(Cable {
            forwarding: true,
            cuts: 0,
        });
        let (port_known, port) = mpsc::channel();
        let to = Arc::clone(&target);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                port_known
                    .send(listener.local_addr().unwrap().port())
                    .unwrap();
                accept(listener, to, seen).await;
            });
        });
        Self {
            port: port.recv().unwrap(),
            target,
            cable,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Nothing goes through any more; open connections stay open, new ones are accepted, and all of them are silent.
    pub fn stop_forwarding(&self) {
        self.cable.send_modify(|c| c.forwarding = false);
    }

    /// What was held back goes on, in order.
    pub fn forward_again(&self) {
        self.cable.send_modify(|c| c.forwarding = true);
    }

    /// Closes every connection there is now.
    pub fn cut(&self) {
        self.cable.send_modify(|c| c.cuts += 1);
    }

    /// Later connections lead to another server behind the same address.
    pub fn lead_to(&self, port: u16) {
        self.target.store(port, Ordering::SeqCst);
    }
}

/// Ends, and with it every connection, when the [`Proxy`] is dropped.
async fn accept(listener: TcpListener, target: Arc<AtomicU16>, mut cable: watch::Receiver<Cable>) {
    loop {
        tokio::select! {
            changed = cable.changed() => if changed.is_err() { return },
            Ok((client, _)) = listener.accept() => {
                tokio::spawn(carry(client, Arc::clone(&target), cable.clone()));
            }
        }
    }
}

async fn carry(client: TcpStream, target: Arc<AtomicU16>, mut cable: watch::Receiver<Cable>) {
    let cuts = cable.borrow().cuts;
    if !may_pass(&mut cable, cuts).await {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", target.load(Ordering::SeqCst))).await else {
        return;
    };
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    tokio::join!(
        pump(client_read, server_write, cable.clone(), cuts),
        pump(server_read, client_write, cable, cuts),
    );
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cable: watch::Receiver<Cable>,
    cuts: u32,
) {
    let mut buffer = vec![0; 64 * 1024];
    while may_pass(&mut cable, cuts).await {
        tokio::select! {
            // A change of the cable comes before the bytes that arrived after it.
            biased;
            changed = cable.changed() => if changed.is_err() { return },
            read = from.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    if !may_pass(&mut cable, cuts).await || to.write_all(&buffer[..n]).await.is_err() {
                        return;
                    }
                }
            },
        }
    }
}

/// Waits while the cable is silent; false once this connection was cut or the proxy is gone.
async fn may_pass(cable: &mut watch::Receiver<Cable>, cuts: u32) -> bool {
    match cable.wait_for(|c| c.forwarding || c.cuts != cuts).await {
        Ok(now) => now.cuts == cuts,
        Err(_) => false,
    }
}
