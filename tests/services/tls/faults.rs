//! What can be wrong with TLS or a login: `check` and `run` say the same within 15 seconds, and `run` does not wait for what never comes.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use headwater_testkit::{CERTIFIED, PASSWORD, SecurePostgres, Shown, USER};

use super::{SHARED, ca, scene};
use crate::scene::{Running, Scene};

const SOON: Duration = Duration::from_secs(15);

/// `check` finds it, `init` and `run` end because of it.
pub async fn refuses(scene: &Scene<'_>, says: &[&str]) {
    for command in [["check"], ["init"], ["run"]] {
        if command == ["run"] {
            remember(scene);
        }
        let begun = Instant::now();
        let mut run = Running::of(scene.headwater.spawn(&command));
        let code = run.ended_within(SOON).await;
        let told = format!("{}{}", run.stdout(), run.log());
        assert_eq!(code, 3, "{command:?}: {told}");
        for says in says {
            assert!(
                told.contains(says),
                "{command:?} does not say {says:?}: {told}"
            );
        }
        assert!(!told.contains(PASSWORD), "{told}");
        assert!(begun.elapsed() < SOON, "{command:?}: {:?}", begun.elapsed());
    }
}

/// A run wants a position record before anything else: it is made over another way.
fn remember(scene: &Scene<'_>) {
    let (url, source) = (&scene.pipeline.source_url, &scene.pipeline.source);
    let good = scene.pipeline.toml();
    let good = good.replace(url, &scene.database.url()).replace(source, "");
    scene.headwater.configure(&good);
    scene.init();
    scene.configure();
}

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_refused() {
    let secure = SecurePostgres::start(17);
    let known = ca("verify-full", &secure.papers.ca());

    // WHEN the server's authority is another one than the one that is named, THEN that is told
    let stranger = ca("verify-full", &secure.papers.stranger());
    let there = scene(&secure, "stranger", (USER, "localhost"), &stranger).await;
    refuses(
        &there,
        &[
            "is not signed by a known authority",
            "the right authority in source.tls.ca",
        ],
    )
    .await;
    let stranger = ca("verify-ca", &secure.papers.stranger());
    let there = scene(&secure, "stranger_ca", (USER, "127.0.0.1"), &stranger).await;
    refuses(
        &there,
        &[
            "is not signed by a known authority",
            "the right authority in source.tls.ca",
        ],
    )
    .await;

    // WHEN the certificate is for another name, THEN both names are told
    secure.show(Shown::Misnamed);
    let there = scene(&secure, "misnamed", (USER, "localhost"), &known).await;
    refuses(
        &there,
        &[
            "is for another name",
            "elsewhere.test",
            "source.tls.mode = \"verify-ca\"",
        ],
    )
    .await;
    let there = scene(&secure, "misplaced", (USER, "127.0.0.1"), &known).await;
    refuses(
        &there,
        &[
            "is for another name",
            "elsewhere.test",
            "source.tls.mode = \"verify-ca\"",
        ],
    )
    .await;

    // WHEN it has expired, THEN that is told, also where names are not checked
    secure.show(Shown::Expired);
    let there = scene(&secure, "expired", (USER, "localhost"), &known).await;
    refuses(&there, &["has expired", "renew it on the server"]).await;
    let only_ca = ca("verify-ca", &secure.papers.ca());
    let there = scene(&secure, "expired_ca", (USER, "localhost"), &only_ca).await;
    refuses(&there, &["has expired", "renew it on the server"]).await;
}

#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let mut scene = Scene::shared(17, "no_tls").await;
    scene.pipeline.source = "tls = { mode = 'require' }".to_owned();
    scene.configure();
    refuses(
        &scene,
        &["does not speak TLS", "turn it on there (ssl = on"],
    )
    .await;
}

#[tokio::test]
async fn a_server_that_wants_tls_is_not_reached_without() {
    let scene = scene(
        &SHARED,
        "plain",
        ("only_tls", "127.0.0.1"),
        "mode = 'disable'",
    )
    .await;
    refuses(
        &scene,
        &["no encryption", "the server wants TLS (source.tls.mode)"],
    )
    .await;
}

#[tokio::test]
async fn a_certificate_of_ones_own_that_misses_or_is_unknown_is_told() {
    let tls = ca("verify-full", &SHARED.papers.ca());
    let there = scene(&SHARED, "no_paper", (CERTIFIED, "localhost"), &tls).await;
    refuses(
        &there,
        &[
            "requires a valid client certificate",
            "source.tls.cert and source.tls.key",
        ],
    )
    .await;

    let (cert, key) = SHARED.papers.stranger_client();
    let (cert, key) = (cert.display(), key.display());
    let tls = format!("{tls}, cert = '{cert}', key = '{key}'");
    let there = scene(&SHARED, "strange_paper", (CERTIFIED, "localhost"), &tls).await;
    refuses(
        &there,
        &[
            "refuses Headwater's own certificate",
            "UnknownCA",
            "ssl_ca_file",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_wrong_password_is_told_over_tls_too() {
    let tls = ca("verify-full", &SHARED.papers.ca());
    for user in ["only_tls", "hashed", "bare"] {
        let mut scene = scene(&SHARED, "password", (user, "localhost"), &tls).await;
        scene.pipeline.source_url = scene.pipeline.source_url.replace(PASSWORD, "wrong");
        scene.configure();
        refuses(&scene, &["the server refused the password of role"]).await;
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    // GIVEN somebody who takes connections and never answers
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for tls in ["mode = 'disable'", "mode = 'require'"] {
        let mut scene = Scene::shared(17, "silent").await;
        scene.pipeline.source_url = scene.database.url_through(port);
        scene.pipeline.source = format!("tls = {{ {tls} }}");
        scene.configure();

        // WHEN it is looked at, THEN it is told in time that nobody answers
        let mut run = Running::of(scene.headwater.spawn(&["check"]));
        assert_eq!(run.ended_within(SOON).await, 3, "{}", run.tail());
        let says = format!("no answer from 127.0.0.1:{port} within 10 s");
        assert!(run.stdout().contains(&says), "{}", run.stdout());
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_told_with_its_key() {
    // GIVEN a configuration that names files for TLS
    let scene = scene(&SHARED, "files", (USER, "localhost"), "mode = 'require'").await;
    let folder = scene.headwater.folder().to_owned();
    let (cert, key) = SHARED.papers.client();
    let (_, other) = SHARED.papers.stranger_client();
    fs::copy(cert, folder.join("cert.pem")).unwrap();
    fs::copy(key, folder.join("key.pem")).unwrap();
    fs::copy(other, folder.join("other.pem")).unwrap();
    fs::write(folder.join("text.pem"), "no PEM at all\n").unwrap();
    for (tls, says) in [
        ("ca = 'none.pem'", "source.tls.ca: none.pem cannot be read"),
        (
            "ca = 'text.pem'",
            "source.tls.ca: text.pem holds no certificate",
        ),
        (
            "ca = 'key.pem'",
            "source.tls.ca: key.pem holds no certificate",
        ),
        (
            "cert = 'none.pem', key = 'key.pem'",
            "source.tls.cert: none.pem cannot be read",
        ),
        (
            "cert = 'cert.pem', key = 'cert.pem'",
            "source.tls.key: cert.pem holds no private key",
        ),
        (
            "cert = 'cert.pem', key = 'other.pem'",
            "source.tls.key: other.pem is not the key of cert.pem",
        ),
        (
            "cert = 'cert.pem'",
            "source.tls.cert: is a certificate without its key",
        ),
    ] {
        let mut pipeline = scene.pipeline.toml();
        pipeline = pipeline.replace("mode = 'require'", &format!("mode = 'verify-full', {tls}"));
        scene.headwater.configure(&pipeline);

        // WHEN one cannot be used, THEN every command says which, and nothing is tried
        for command in ["check", "run", "init"] {
            let output = scene.headwater.run(&[command]);
            assert_eq!(
                output.code, 2,
                "{command} {tls}: {}{}",
                output.stdout, output.stderr
            );
            assert!(
                output.stderr.contains(says),
                "{command} {tls}: {}",
                output.stderr
            );
            assert!(
                output.stderr.contains("headwater.toml:"),
                "{}",
                output.stderr
            );
        }
    }
}
