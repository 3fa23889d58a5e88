//! What `[admin]` means: where the admin pages are, and what they ask for.

use std::path::PathBuf;

use crate::config::problem::Located;
use crate::config::secret::Secret;
use crate::config::written::Written;

#[derive(Clone, Debug)]
pub struct Admin {
    /// None: there are no admin pages.
    pub listen: Option<Located<Listen>>,
    pub token: Option<Token>,
}

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// A name or an IP address, without brackets.
    pub host: String,
    pub port: u16,
}

/// The file that holds what callers must show.
#[derive(Clone, Debug)]
pub struct Token(PathBuf);

impl Token {
    /// Reads the file anew, so that a token can be replaced. Waits for the disk.
    pub fn read(&self) -> Result<Secret, String> {
        let Token(file) = self;
        let text = std::fs::read_to_string(file).map_err(|error| {
            format!(
                "admin.token_file: {} cannot be read: {error}; make it readable for Headwater or name another file",
                file.display()
            )
        })?;
        let token = text.strip_suffix('\n').unwrap_or(&text);
        let token = token.strip_suffix('\r').unwrap_or(token);
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "admin.token_file: {} holds no token; one line of ASCII characters without spaces is wanted",
                file.display()
            ));
        }
        Ok(Secret::new(token))
    }
}

pub(super) fn check(written: &mut Written) -> Option<Admin> {
    let listen = written.text("admin.listen")?;
    if listen.value() == "off" {
        let what = "means nothing with admin.listen = \"off\"; remove it, or give an address";
        written.contradict(&["admin.token_file"], what);
        return Some(Admin {
            listen: None,
            token: None,
        });
    }
    let address = address(listen.value());
    let what =
        "is no address to listen at; host:port is wanted, such as \"127.0.0.1:9464\", or \"off\"";
    written.rule(&listen, address.is_some(), what);
    let listen = Located::new(listen.key().to_owned(), listen.place().clone(), address?);
    let token = match written.given("admin.token_file") {
        Some(_) => Some(Token(written.path("admin.token_file")?)),
        None => None,
    };
    Some(Admin {
        listen: Some(listen),
        token,
    })
}

/// `host:port` or `[v6]:port`.
fn address(text: &str) -> Option<Listen> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    (!host.is_empty() && host.chars().all(plain)).then(|| Listen {
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        let host = |text| address(text).map(|listen| listen.host);
        assert_eq!(host("127.0.0.1:9464").as_deref(), Some("127.0.0.1"));
        assert_eq!(host("[::1]:9464").as_deref(), Some("::1"));
        assert_eq!(host("headwater:1").as_deref(), Some("headwater"));
        for wrong in [
            "",
            "9464",
            ":9464",
            "::1:9464",
            "localhost",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "http://localhost:1",
            "[::1:9464",
        ] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
