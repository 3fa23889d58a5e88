//! PostgreSQL is reached by TLS as the configuration says, and what is wrong with it is told at once.

mod faults;

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use headwater_testkit::{CERTIFIED, Kafka, Load, PASSWORD, SecurePostgres, Shown, USER};

use tokio::time::sleep;

use crate::scene::{LIMIT, Scene};

/// One server for all tests that want its right certificate.
static SHARED: LazyLock<SecurePostgres> = LazyLock::new(|| SecurePostgres::start(17));

/// A scene that connects by TLS, as this role to this host.
async fn scene<'a>(
    secure: &'a SecurePostgres,
    hint: &str,
    (user, host): (&str, &str),
    tls: &str,
) -> Scene<'a> {
    let mut scene = Scene::on(&secure.postgres, Kafka::shared(), hint).await;
    let (port, database) = (secure.postgres.port(), scene.database.name());
    scene.pipeline.source_url = format!("postgres://{user}:{PASSWORD}@{host}:{port}/{database}");
    scene.pipeline.source = format!("tls = {{ {tls} }}");
    scene.configure();
    scene
}

fn ca(mode: &str, path: &Path) -> String {
    format!("mode = '{mode}', ca = '{}'", path.display())
}

/// Both clients are used by a run: sessions for SQL and the replication.
async fn carries(scene: Scene<'_>, encrypted: bool) {
    scene.init();
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
    assert_eq!(
        check.stdout.contains(" by TLS,"),
        encrypted,
        "{}",
        check.stdout
    );
    let run = scene.start().await;
    let sql = format!(
        "SELECT string_agg(DISTINCT concat_ws(' ', backend_type, ssl), ', ') FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name LIKE 'headwater {}%'",
        scene.pipeline.name
    );
    let seen = scene.database.ask(&sql).await.expect("it is connected");
    let flag = if encrypted { "t" } else { "f" };
    assert_eq!(seen, format!("client backend {flag}, walsender {flag}"));
    let written = scene.commit_events(20).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn events_are_carried_with_the_servers_name_checked() {
    let tls = ca("verify-full", &SHARED.papers.ca());
    carries(
        scene(&SHARED, "by_name", ("only_tls", "localhost"), &tls).await,
        true,
    )
    .await;
}

#[tokio::test]
async fn events_are_carried_with_the_servers_ip_address_checked() {
    let tls = ca("verify-full", &SHARED.papers.ca());
    carries(
        scene(&SHARED, "by_address", ("only_tls", "127.0.0.1"), &tls).await,
        true,
    )
    .await;
}

#[tokio::test]
async fn events_are_carried_by_a_role_that_shows_a_certificate() {
    let (cert, key) = SHARED.papers.client();
    let tls = format!(
        "{}, cert = '{}', key = '{}'",
        ca("verify-full", &SHARED.papers.ca()),
        cert.display(),
        key.display()
    );
    carries(
        scene(&SHARED, "certified", (CERTIFIED, "localhost"), &tls).await,
        true,
    )
    .await;
}

#[tokio::test]
async fn an_authority_is_enough_where_names_are_not_to_be_checked() {
    // GIVEN a server whose certificate is for another name
    let secure = SecurePostgres::start(17);
    secure.show(Shown::Misnamed);
    let tls = ca("verify-ca", &secure.papers.ca());

    // WHEN only its authority is checked, THEN both clients accept it
    carries(
        scene(&secure, "authority", (USER, "localhost"), &tls).await,
        true,
    )
    .await;

    // WHEN nothing is checked, THEN an expired one does as well
    secure.show(Shown::Expired);
    carries(
        scene(&secure, "anybody", (USER, "127.0.0.1"), "mode = 'require'").await,
        true,
    )
    .await;
}

#[tokio::test]
async fn a_protected_stream_that_is_cut_again_and_again_loses_nothing() {
    // GIVEN a pipeline at work under load, by TLS
    let tls = ca("verify-full", &SHARED.papers.ca());
    let scene = scene(&SHARED, "cut", ("only_tls", "127.0.0.1"), &tls).await;
    scene.init();
    let mut run = scene.start().await;
    let load = Load {
        rate: Some(200),
        ..Load::new(&scene.namespace, headwater_testkit::seed(51))
    };
    let writing = load.start(&scene.database.url());

    // WHEN the server ends its stream again and again
    for time in 1..=3 {
        writing.wait_for(writing.events() + 200, LIMIT).await;
        assert_eq!(scene.database.terminate_walsenders().await, 1);
        let end = Instant::now() + LIMIT;
        while run.log().matches("carrying events").count() <= time {
            assert!(
                run.is_running() && Instant::now() < end,
                "it does not carry on"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
    writing.wait_for(writing.events() + 200, LIMIT).await;

    // THEN nothing is lost, reordered or foreign, and what was confirmed at the end has arrived
    let written = writing.stop().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
    let arrived = scene.consume().await.len();
    let mut again = scene.start().await;
    sleep(Duration::from_secs(1)).await;
    again.ask_to_stop().await;
    assert_eq!(scene.consume().await.len(), arrived);
}

#[tokio::test]
async fn the_systems_authorities_count_where_none_is_named() {
    let mut scene = scene(
        &SHARED,
        "system",
        (USER, "localhost"),
        "mode = 'verify-full'",
    )
    .await;
    let ca = SHARED.papers.ca().display().to_string();
    scene.headwater = crate::scene::headwater(&scene.pipeline).env("SSL_CERT_FILE", &ca);
    carries(scene, true).await;
}

#[tokio::test]
async fn an_md5_password_works_with_and_without_tls() {
    let tls = ca("verify-full", &SHARED.papers.ca());
    carries(
        scene(&SHARED, "md5_tls", ("hashed", "localhost"), &tls).await,
        true,
    )
    .await;
    carries(
        scene(&SHARED, "md5", ("hashed", "127.0.0.1"), "mode = 'disable'").await,
        false,
    )
    .await;
}

#[tokio::test]
async fn a_password_in_clear_text_is_given_over_tls_only() {
    // GIVEN a role that the server asks for its password as it is
    let tls = ca("verify-full", &SHARED.papers.ca());
    carries(
        scene(&SHARED, "clear_tls", ("bare", "localhost"), &tls).await,
        true,
    )
    .await;

    // WHEN the connection is not encrypted, THEN it is not told
    let scene = scene(&SHARED, "clear", ("bare", "127.0.0.1"), "mode = 'disable'").await;
    faults::refuses(
        &scene,
        &["in clear text", "encrypt it with source.tls.mode"],
    )
    .await;
}
