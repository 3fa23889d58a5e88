//! Certificates and keys of a day, made for one cluster: good ones, and each kind of bad one.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::issuer;
use crate::keeper::folder;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Files, PEM.
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub(super) fn new() -> Self {
        let made = Self {
            folder: folder("certificates"),
        };
        let ours = authority("headwater tests");
        let stranger = authority("a stranger");
        made.write("ca.pem", &ours.pem());
        made.write("stranger.pem", &stranger.pem());

        let here = ["localhost", "127.0.0.1", "::1"];
        made.make_server("server", named("localhost", &here), &ours);
        made.make_server("misnamed", named("elsewhere", &["elsewhere.test"]), &ours);
        let mut expired = named("localhost", &here);
        expired.not_before = date_time_ymd(2020, 1, 1);
        expired.not_after = date_time_ymd(2020, 2, 1);
        made.make_server("expired", expired, &ours);

        made.make_client("client", &ours);
        made.make_client("unknown-client", &stranger);
        issuer::make_key(&made.folder, &made.jwks());
        made
    }

    /// Of the authority that signed the brokers' certificates.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Of an authority that signed nothing that the brokers have.
    pub fn stranger(&self) -> PathBuf {
        self.path("stranger.pem")
    }

    /// Certificate and key of the user `CN=headwater`.
    pub fn client(&self) -> (PathBuf, PathBuf) {
        (self.path("client.pem"), self.path("client.key"))
    }

    /// The same, of an authority that the brokers do not know.
    pub fn unknown_client(&self) -> (PathBuf, PathBuf) {
        (
            self.path("unknown-client.pem"),
            self.path("unknown-client.key"),
        )
    }

    /// The public keys that tokens are verified with.
    pub(super) fn jwks(&self) -> PathBuf {
        self.path("jwks.json")
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Key and certificate in one file, as a broker takes them.
    pub(super) fn keystore(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.keystore.pem"))
    }

    fn make_server(&self, name: &str, mut params: CertificateParams, authority: &Authority) {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, authority).unwrap();
        let both = format!("{}{}", key.serialize_pem(), cert.pem());
        self.write(&format!("{name}.keystore.pem"), &both);
    }

    fn make_client(&self, name: &str, authority: &Authority) {
        let mut params = named("headwater", &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, authority).unwrap();
        self.write(&format!("{name}.pem"), &cert.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.folder, name)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn named(name: &str, alternatives: &[&str]) -> CertificateParams {
    let alternatives: Vec<String> = alternatives.iter().map(|it| (*it).to_owned()).collect();
    let mut params = CertificateParams::new(alternatives).unwrap();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority(name: &str) -> Authority {
    let mut params = named(name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}
