//! Certificates made for one server: a right one, and each kind of wrong one; and those of its clients.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// What a server shows.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// For localhost and 127.0.0.1.
    Right,
    /// For another host.
    Misnamed,
    Expired,
}

/// Files, PEM, in a folder of their server's.
pub struct Papers {
    folder: PathBuf,
}

impl Papers {
    /// `user` is whom the client's certificate is for.
    pub(crate) fn make(folder: PathBuf, user: &str) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let papers = Self { folder };
        let ours = authority("headwater tests");
        let stranger = authority("a stranger");
        papers.write("ca.pem", &ours.pem());
        papers.write("stranger.pem", &stranger.pem());
        let here = ["localhost", "127.0.0.1"];
        let server = ExtendedKeyUsagePurpose::ServerAuth;
        papers.pair("right", named("here", &here), &server, &ours);
        let elsewhere = named("elsewhere", &["elsewhere.test"]);
        papers.pair("misnamed", elsewhere, &server, &ours);
        let mut expired = named("here", &here);
        expired.not_before = date_time_ymd(2020, 1, 1);
        expired.not_after = date_time_ymd(2020, 2, 1);
        papers.pair("expired", expired, &server, &ours);
        let client = ExtendedKeyUsagePurpose::ClientAuth;
        papers.pair("client", named(user, &[]), &client, &ours);
        papers.pair("stranger-client", named(user, &[]), &client, &stranger);
        papers
    }

    /// The authority that signed the server's certificates.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Another one.
    pub fn stranger(&self) -> PathBuf {
        self.path("stranger.pem")
    }

    /// Certificate and key of a client that the server's authority signed.
    pub fn client(&self) -> (PathBuf, PathBuf) {
        (self.path("client.pem"), self.path("client.key"))
    }

    /// The same, signed by the stranger.
    pub fn stranger_client(&self) -> (PathBuf, PathBuf) {
        (
            self.path("stranger-client.pem"),
            self.path("stranger-client.key"),
        )
    }

    /// Certificate and key of the server.
    pub(crate) fn server(&self, shown: Shown) -> (PathBuf, PathBuf) {
        let name = match shown {
            Shown::Right => "right",
            Shown::Misnamed => "misnamed",
            Shown::Expired => "expired",
        };
        let file = |end| self.path(&format!("{name}.{end}"));
        (file("pem"), file("key"))
    }

    fn pair(
        &self,
        name: &str,
        mut params: CertificateParams,
        usage: &ExtendedKeyUsagePurpose,
        authority: &Authority,
    ) {
        params.extended_key_usages = vec![usage.clone()];
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
