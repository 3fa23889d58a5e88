//! From a connection to a session: the greeting, TLS, and the proof that we know the password.
//!
//! Rule: without TLS no password leaves this machine in clear text.
//!
//! The manual's "Connection Phase" and "Authentication Methods" tell the packets; MariaDB's differ in what they call `client_ed25519`.

use std::io;

use bytes::Bytes;
use mysql_common::{crypto, scramble};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::packet::{Packets, Reader, put_text};
use super::verdict::{self, Refusal};
use super::{Flavor, Settings};
use crate::wire::{self, tcp};
use crate::{Error, Server};

/// What the two sides can do.
mod can {
    pub const LONG_PASSWORD: u32 = 0x1;
    pub const LONG_FLAG: u32 = 0x4;
    pub const PROTOCOL_41: u32 = 0x200;
    pub const TLS: u32 = 0x800;
    pub const TRANSACTIONS: u32 = 0x2000;
    pub const SECURE_CONNECTION: u32 = 0x8000;
    pub const PLUGIN_AUTH: u32 = 0x8_0000;
    pub const ATTRIBUTES: u32 = 0x10_0000;
    pub const COUNTED_AUTH: u32 = 0x20_0000;
}

const WANTED: u32 = can::LONG_PASSWORD
    | can::LONG_FLAG
    | can::PROTOCOL_41
    | can::TRANSACTIONS
    | can::SECURE_CONNECTION
    | can::PLUGIN_AUTH
    | can::COUNTED_AUTH;

/// `utf8mb4_general_ci`, which every server has.
const CHARSET: u8 = 45;

const OK: u8 = 0;
const MORE: u8 = 1;
const SWITCH: u8 = 0xFE;
const REFUSED: u8 = 0xFF;

const NATIVE: &str = "mysql_native_password";
const SHA2: &str = "caching_sha2_password";
/// Gone from use, but a server asks it of users that do not exist, so that nobody learns who does.
const SHA256: &str = "sha256_password";
const ED25519: &str = "client_ed25519";
const CLEAR: &str = "mysql_clear_password";

/// A connection that is logged in.
pub(super) struct Login {
    pub packets: Packets,
    pub flavor: Flavor,
    /// As the server says it: `9.7.1`, `11.8.3-MariaDB-...`.
    pub version: String,
    /// The session's number in the server's lists.
    pub id: u64,
}

pub(super) async fn open(
    settings: &Settings,
    server: &Server,
    application: &str,
) -> Result<Login, Error> {
    let broke = |e: io::Error| verdict::of_io(&e, settings);
    let unreachable = |e: io::Error| Error::transient(format!("cannot connect to {server}: {e}"));
    if server.is_socket() {
        let mut socket = UnixStream::connect(&server.host)
            .await
            .map_err(unreachable)?;
        let greeting = greeting(&mut socket, settings).await?;
        let packets = Packets::new(Box::new(socket), 1);
        return prove(settings, packets, greeting, Way::Socket, application).await;
    }
    let mut tcp = tcp(server).await.map_err(unreachable)?;
    let greeting = greeting(&mut tcp, settings).await?;
    let Some(config) = settings.tls.config() else {
        let packets = Packets::new(Box::new(tcp), 1);
        return prove(settings, packets, greeting, Way::Plain, application).await;
    };
    if greeting.capabilities & can::TLS == 0 {
        return Err(Error::fatal(
            format!("{server} does not speak TLS"),
            "turn it on there (ssl_cert and ssl_key in my.cnf), or accept that rows travel in plain text: source.tls.mode = \
             \"disable\"",
        ));
    }
    ask_for_tls(&mut tcp, greeting.common())
        .await
        .map_err(broke)?;
    let words = verdict::tls_words(settings.flavor);
    let wire = wire::secure(tcp, config.clone(), server, words).await?;
    let packets = Packets::new(wire, 2);
    prove(settings, packets, greeting, Way::Tls, application).await
}

/// How the password would travel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Tls,
    Socket,
}

impl Way {
    fn is_private(self) -> bool {
        self != Way::Plain
    }
}

/// The server's first words.
#[derive(Debug)]
struct Greeting {
    version: String,
    id: u64,
    nonce: Vec<u8>,
    capabilities: u32,
    plugin: String,
}

/// Exactly the greeting is read, and no byte more: what came after it unprotected would be taken as protected.
async fn greeting(
    wire: &mut (impl AsyncRead + Unpin),
    settings: &Settings,
) -> Result<Greeting, Error> {
    let read = async {
        let mut header = [0; 4];
        wire.read_exact(&mut header).await?;
        let [a, b, c, _] = header;
        let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let mut packet = vec![0; length.min(1 << 16)];
        wire.read_exact(&mut packet).await?;
        io::Result::Ok(packet)
    };
    let packet = read.await.map_err(|e| verdict::of_io(&e, settings))?;
    if packet.first() == Some(&REFUSED) {
        return Err(verdict::of(&Refusal::read(&packet), settings));
    }
    Greeting::read(&packet).ok_or_else(|| {
        Error::fatal(
            format!("{} does not speak MySQL's protocol", settings.place()),
            "name the right host and port in source.url",
        )
    })
}

impl Greeting {
    fn read(packet: &[u8]) -> Option<Greeting> {
        let mut reader = Reader(packet);
        if reader.number(1)? != 10 {
            return None;
        }
        let version = String::from_utf8_lossy(reader.until_zero()).into_owned();
        // MariaDB before 11 tells old replicas so that it is newer than MySQL 5.5.
        let version = version
            .strip_prefix("5.5.5-")
            .map(str::to_owned)
            .unwrap_or(version);
        let id = reader.number(4)?;
        let mut nonce = reader.bytes(8)?.to_vec();
        reader.number(1)?;
        let low = reader.number(2)?;
        reader.bytes(3)?;
        let high = reader.number(2)?;
        let length = usize::try_from(reader.number(1)?).ok()?;
        reader.bytes(10)?;
        let rest = reader.bytes(length.saturating_sub(8).max(13))?;
        nonce.extend_from_slice(rest.strip_suffix(&[0]).unwrap_or(rest));
        let plugin = String::from_utf8_lossy(reader.until_zero()).into_owned();
        Some(Greeting {
            version,
            id,
            nonce,
            capabilities: u32::try_from(high << 16 | low).ok()?,
            plugin,
        })
    }

    /// What both sides can do.
    fn common(&self) -> u32 {
        (WANTED | can::ATTRIBUTES) & self.capabilities | can::PROTOCOL_41
    }
}

async fn ask_for_tls(tcp: &mut TcpStream, common: u32) -> io::Result<()> {
    let mut packet = vec![32, 0, 0, 1];
    packet.extend_from_slice(&opening(common | can::TLS));
    tcp.write_all(&packet).await
}

/// What an answer to the greeting begins with, with or without TLS.
fn opening(capabilities: u32) -> [u8; 32] {
    let mut bytes = [0; 32];
    let largest = 1_u32 << 30;
    let fields = capabilities
        .to_le_bytes()
        .into_iter()
        .chain(largest.to_le_bytes())
        .chain([CHARSET]);
    for (byte, value) in bytes.iter_mut().zip(fields) {
        *byte = value;
    }
    bytes
}

fn answer(
    greeting: &Greeting,
    settings: &Settings,
    way: Way,
    application: &str,
    (plugin, proof): (&str, &[u8]),
) -> Vec<u8> {
    let tls = if way == Way::Tls { can::TLS } else { 0 };
    let common = greeting.common() | tls;
    let mut payload = opening(common).to_vec();
    payload.extend_from_slice(settings.user.as_bytes());
    payload.push(0);
    if common & can::COUNTED_AUTH == 0 {
        payload.push(proof.len().to_le_bytes()[0]);
        payload.extend_from_slice(proof);
    } else {
        put_text(&mut payload, proof);
    }
    payload.extend_from_slice(plugin.as_bytes());
    payload.push(0);
    if common & can::ATTRIBUTES != 0 {
        let mut attributes = Vec::new();
        for text in ["program_name", application, "_client_name", "headwater"] {
            put_text(&mut attributes, text.as_bytes());
        }
        put_text(&mut payload, &attributes);
    }
    payload
}

async fn prove(
    settings: &Settings,
    packets: Packets,
    greeting: Greeting,
    way: Way,
    application: &str,
) -> Result<Login, Error> {
    let password = settings.password()?.unwrap_or_default();
    let flavor = if greeting.version.contains("MariaDB") {
        Flavor::MariaDb
    } else {
        Flavor::MySql
    };
    let known = [NATIVE, SHA2].contains(&greeting.plugin.as_str());
    let plugin = if known { &greeting.plugin } else { NATIVE };
    let mut proof = Proof {
        packets,
        settings,
        password,
        way,
        nonce: greeting.nonce.clone(),
        plugin: plugin.to_owned(),
    };
    let first = proof.first().unwrap_or_default();
    let hello = answer(&greeting, settings, way, application, (plugin, &first));
    proof.send(&hello).await?;
    proof.finish().await?;
    Ok(Login {
        packets: proof.packets,
        flavor,
        version: greeting.version,
        id: greeting.id,
    })
}

/// The exchange in which we prove that we know the password.
struct Proof<'s> {
    packets: Packets,
    settings: &'s Settings,
    password: String,
    way: Way,
    nonce: Vec<u8>,
    plugin: String,
}

impl Proof<'_> {
    /// What the plugin wants to see first; `None` if it is not one of ours.
    fn first(&self) -> Option<Vec<u8>> {
        let password = self.password.as_bytes();
        match self.plugin.as_str() {
            _ if password.is_empty() => Some(Vec::new()),
            NATIVE => scramble::scramble_native(&self.nonce, password).map(Vec::from),
            SHA2 => scramble::scramble_sha256(&self.nonce, password).map(Vec::from),
            ED25519 => Some(scramble::create_response_for_ed25519(password, &self.nonce).to_vec()),
            CLEAR | SHA256 if self.way.is_private() => Some(self.clear()),
            SHA256 => Some(vec![1]),
            // The server asks the socket who we are.
            "auth_socket" | "unix_socket" => Some(Vec::new()),
            _ => None,
        }
    }

    fn clear(&self) -> Vec<u8> {
        let mut clear = self.password.clone().into_bytes();
        clear.push(0);
        clear
    }

    async fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        let sent = self.packets.send(payload).await;
        sent.map_err(|e| verdict::of_io(&e, self.settings))
    }

    async fn next(&mut self) -> Result<Bytes, Error> {
        let packet = self.packets.next().await;
        let packet = packet.map_err(|e| verdict::of_io(&e, self.settings))?;
        if packet.first() == Some(&REFUSED) {
            return Err(verdict::of(&Refusal::read(&packet), self.settings));
        }
        Ok(packet)
    }

    async fn finish(&mut self) -> Result<(), Error> {
        loop {
            let packet = self.next().await?;
            match packet.split_first() {
                Some((&OK, _)) => return Ok(()),
                Some((&SWITCH, data)) => {
                    let mut reader = Reader(data);
                    self.plugin = String::from_utf8_lossy(reader.until_zero()).into_owned();
                    let nonce = reader.0;
                    self.nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce).to_vec();
                    let Some(proof) = self.first() else {
                        return Err(verdict::of_plugin(&self.plugin, self.settings));
                    };
                    self.send(&proof).await?;
                }
                // The server remembers the password from an earlier login.
                Some((&MORE, [3])) if self.plugin == SHA2 => {}
                Some((&MORE, [4])) if self.plugin == SHA2 => self.tell().await?,
                Some((&MORE, key)) if self.plugin == SHA256 => self.veil(key).await?,
                _ => {
                    return Err(Error::transient(format!(
                        "{} answered the login strangely",
                        self.settings.place()
                    )));
                }
            }
        }
    }

    /// The password itself, protected by TLS or by the server's key.
    async fn tell(&mut self) -> Result<(), Error> {
        if self.way.is_private() {
            let clear = self.clear();
            return self.send(&clear).await;
        }
        self.send(&[2]).await?;
        let packet = self.next().await?;
        match packet.split_first() {
            Some((&MORE, key)) => self.veil(key).await,
            _ => Err(verdict::of_plugin(SHA2, self.settings)),
        }
    }

    /// The password encrypted with the server's key.
    async fn veil(&mut self, key: &[u8]) -> Result<(), Error> {
        let (key, nonce) = (key.to_vec(), self.nonce.clone().into_iter().cycle());
        let veiled: Vec<u8> = self.clear().iter().zip(nonce).map(|(a, b)| a ^ b).collect();
        // Whoever stands on the way can send any key, and one that is none makes the encryption panic.
        let encrypted = tokio::task::spawn_blocking(move || crypto::encrypt(&veiled, &key)).await;
        let Ok(encrypted) = encrypted else {
            return Err(Error::transient(format!(
                "{} sent a key that is none",
                self.settings.place()
            )));
        };
        self.send(&encrypted).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    fn captured() -> Vec<u8> {
        let mut packet = vec![10];
        packet.extend_from_slice(b"9.7.1\0");
        packet.extend_from_slice(&[9, 0, 0, 0]);
        packet.extend_from_slice(b"12345678\0");
        packet.extend_from_slice(&[0xFF, 0xFF, 255, 2, 0, 0xFF, 0xDF, 21]);
        packet.extend_from_slice(&[0; 10]);
        packet.extend_from_slice(b"901234567890\0caching_sha2_password\0");
        packet
    }

    #[test]
    fn a_greeting_is_read_and_never_past_its_end() {
        let packet = captured();
        let greeting = Greeting::read(&packet).expect("a greeting");
        assert_eq!(greeting.version, "9.7.1");
        assert_eq!(greeting.id, 9);
        assert_eq!(greeting.nonce, b"12345678901234567890");
        assert_eq!(greeting.plugin, SHA2);
        assert_ne!(greeting.capabilities & can::TLS, 0);
        for some in 0..packet.len() {
            let _cut = Greeting::read(&packet[..some]);
        }
        assert!(Greeting::read(b"SSH-2.0-OpenSSH").is_none());
    }

    #[test]
    fn a_password_travels_in_clear_text_only_where_nobody_listens() {
        let settings = settings();
        let (ours, _theirs) = tokio::io::duplex(1);
        let mut proof = Proof {
            packets: Packets::new(Box::new(ours), 0),
            settings: &settings,
            password: "secret".into(),
            way: Way::Plain,
            nonce: vec![1; 20],
            plugin: CLEAR.into(),
        };
        assert_eq!(proof.first(), None);
        for way in [Way::Tls, Way::Socket] {
            proof.way = way;
            assert_eq!(proof.first(), Some(b"secret\0".to_vec()));
        }
        for plugin in [NATIVE, SHA2, ED25519] {
            proof.plugin = plugin.into();
            let first = proof.first().expect("a proof");
            assert!(!first.windows(6).any(|part| part == b"secret"));
        }
        proof.plugin = "dialog".into();
        assert_eq!(proof.first(), None);
    }
}
