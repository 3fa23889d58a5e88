//! How connections are protected: one configuration of TLS for whoever connects, and what its refusals ask for.
//!
//! Rule: `verify-full` checks authority, dates and name; `verify-ca` leaves out the name; `require` only encrypts.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use crate::{Error, Server};

/// What a database's own advice about TLS says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// How a renewed certificate comes into use.
    pub reload: &'static str,
    /// The server's setting that names the authorities of its clients.
    pub authorities: &'static str,
    /// Its settings for what it speaks.
    pub versions: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    Disable,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Headwater's own certificate and its key, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct OwnFiles<'a> {
    pub cert: &'a Path,
    pub key: &'a Path,
}

/// What is wrong with a file, or with the machine's authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsFlaw {
    Ca(String),
    Cert(String),
    Key(String),
    Roots(String),
}

impl fmt::Display for TlsFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (TlsFlaw::Ca(what) | TlsFlaw::Cert(what) | TlsFlaw::Key(what) | TlsFlaw::Roots(what)) =
            self;
        f.write_str(what)
    }
}

/// What a handshake is begun with.
pub(crate) type Config = Arc<ClientConfig>;

/// How connections by TCP are protected, ready for use.
#[derive(Clone)]
pub struct Tls(Option<Config>);

impl Tls {
    pub fn disabled() -> Tls {
        Tls(None)
    }

    /// Reads the files. Without `ca`, whoever the system trusts is an authority.
    pub fn load(
        mode: TlsMode,
        ca: Option<&Path>,
        own: Option<OwnFiles<'_>>,
    ) -> Result<Tls, TlsFlaw> {
        let provider = Arc::new(ring::default_provider());
        let verifier = match mode {
            TlsMode::Disable => return Ok(Tls::disabled()),
            TlsMode::Require => Verifier::Nobody,
            TlsMode::VerifyCa => Verifier::Authority(roots(ca)?),
            TlsMode::VerifyFull => Verifier::Name(roots(ca)?),
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| TlsFlaw::Roots(e.to_string()))?;
        let builder = match verifier {
            Verifier::Name(roots) => builder.with_root_certificates(roots),
            Verifier::Nobody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Nameless {
                    roots: None,
                    provider,
                })),
            Verifier::Authority(roots) => {
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Nameless {
                        roots: Some(roots),
                        provider,
                    }))
            }
        };
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => builder
                .with_client_auth_cert(
                    certificates(own.cert).map_err(TlsFlaw::Cert)?,
                    key(own.key)?,
                )
                .map_err(|e| {
                    let (cert, key) = (own.cert.display(), own.key.display());
                    TlsFlaw::Key(format!(
                        "{key} is not the key of {cert}, or is of a kind that cannot be used: {e}"
                    ))
                })?,
        };
        Ok(Tls(Some(Arc::new(config))))
    }

    pub(crate) fn config(&self) -> Option<&Config> {
        self.0.as_ref()
    }
}

enum Verifier {
    Nobody,
    Authority(RootCertStore),
    Name(RootCertStore),
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, TlsFlaw> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let what = "this machine has no certificate authorities of its own; install them (the package is often \
                        called ca-certificates) or name a file in source.tls.ca";
            return Err(TlsFlaw::Roots(what.to_owned()));
        }
        return Ok(roots);
    };
    for certificate in certificates(path).map_err(TlsFlaw::Ca)? {
        roots.add(certificate).map_err(|e| {
            let path = path.display();
            TlsFlaw::Ca(format!("{path} has a certificate that cannot be used: {e}"))
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|e| unread(path, &e, "certificate"))?;
    if found.is_empty() {
        return Err(unread(path, &pem::Error::NoItemsFound, "certificate"));
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFlaw> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|e| TlsFlaw::Key(unread(path, &e, "private key that is not encrypted")))
}

fn unread(path: &Path, error: &pem::Error, wanted: &str) -> String {
    let path = path.display();
    match error {
        pem::Error::Io(e) => format!("{path} cannot be read: {e}"),
        pem::Error::NoItemsFound => format!("{path} holds no {wanted}; one in PEM is wanted"),
        other => format!("{path} is no PEM file: {other:?}"),
    }
}

/// Checks everything but the name; without roots, nothing but that the server has the key of the certificate that it shows.
#[derive(Debug)]
struct Nameless {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Nameless {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// The name that the server's certificate must be for.
pub(crate) fn name(server: &Server) -> Result<ServerName<'static>, Error> {
    let host = server.host.strip_suffix('.').unwrap_or(&server.host);
    ServerName::try_from(host.to_owned()).map_err(|_| {
        Error::fatal(
            format!("{host} is no name that a certificate can be for"),
            "name the server in source.url by its DNS name or IP address",
        )
    })
}

/// What a TLS error asks for. A certificate does not mend itself while we wait.
pub(crate) fn verdict(error: &rustls::Error, server: &Server, words: Words) -> Error {
    match error {
        rustls::Error::InvalidCertificate(flaw) => of_certificate(flaw, server, words),
        rustls::Error::AlertReceived(alert) => of_alert(*alert, server, words),
        rustls::Error::PeerIncompatible(why) => no_agreement(server, words, &format!("{why:?}")),
        other => Error::transient(format!("TLS with {server} broke: {other}")),
    }
}

fn of_certificate(flaw: &CertificateError, server: &Server, words: Words) -> Error {
    match flaw {
        CertificateError::UnknownIssuer => Error::fatal(
            format!("the certificate of {server} is not signed by a known authority"),
            "name the file with the right authority in source.tls.ca",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let presented = match flaw {
                CertificateError::NotValidForNameContext { presented, .. } => presented.join(", "),
                _ => String::new(),
            };
            Error::fatal(
                format!("the certificate of {server} is for another name: it is for [{presented}]"),
                "name the server in source.url as its certificate does (as a subject alternative name), or leave names \
                 unchecked with source.tls.mode = \"verify-ca\"",
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Error::fatal(
            format!("the certificate of {server} has expired"),
            format!(
                "renew it on the server and reload its configuration ({}), or set this machine's clock",
                words.reload
            ),
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Error::fatal(
                format!("the certificate of {server} is not valid yet"),
                "set this machine's clock, or give the server a certificate that is valid now",
            )
        }
        other => Error::fatal(
            format!("the certificate of {server} cannot be accepted: {other}"),
            "give the server a certificate of its own, signed by an authority that source.tls.ca names",
        ),
    }
}

fn of_alert(alert: AlertDescription, server: &Server, words: Words) -> Error {
    match alert {
        AlertDescription::CertificateRequired
        | AlertDescription::NoCertificate
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => Error::fatal(
            format!("{server} refuses Headwater's own certificate, or misses one: {alert:?}"),
            format!(
                "give one that is valid now and signed by an authority of the server's {}, in source.tls.cert and \
                 source.tls.key",
                words.authorities
            ),
        ),
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => {
            no_agreement(server, words, &format!("{alert:?}"))
        }
        other => Error::transient(format!("{server} ended TLS: {other:?}")),
    }
}

fn no_agreement(server: &Server, words: Words, why: &str) -> Error {
    Error::fatal(
        format!("{server} and Headwater have no way of TLS in common: {why}"),
        format!("let the server speak TLS 1.2 or 1.3 ({})", words.versions),
    )
}
