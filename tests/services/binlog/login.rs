//! The server is reached by TLS and by every way of logging in, and what is wrong is told at once.

use std::path::{Path, PathBuf};

use headwater_testkit::{Kafka, PASSWORD, SecureMysql, Server, Shown};

use super::BinlogScene;
use crate::scene::{LIMIT, Scene, on_every_binlog};

#[tokio::test]
async fn tls_and_logins_are_as_configured_on_mysql_9_7() {
    let ways = ["caching_sha2_password", "sha256_password"];
    tls_and_logins(Server::MySql97, &ways).await;
}

#[tokio::test]
async fn tls_and_logins_are_as_configured_on_mariadb_10_11() {
    tls_and_logins(Server::MariaDb1011, &["mysql_native_password"]).await;
}

#[tokio::test]
async fn tls_and_logins_are_as_configured_on_mariadb_11_8() {
    tls_and_logins(Server::MariaDb118, &["mysql_native_password"]).await;
}

async fn tls_and_logins(server: Server, ways: &[&str]) {
    // GIVEN a server that speaks TLS
    let secure = SecureMysql::start(server);
    let mut scene = Scene::binlog(&secure.mysql, Kafka::shared(), "secure").await;
    scene.init();

    // WHEN it is reached as it should be, THEN events are carried, whatever the way of logging in
    let (ca, stranger) = (secure.papers.ca(), secure.papers.stranger());
    for way in ways {
        // Without TLS the password is hidden by the server's key, or is not sent at all.
        identify(&scene, way, "NONE").await;
        reach(&mut scene, "127.0.0.1", &tls("disable", None));
        carries(&scene).await;
        identify(&scene, way, "SSL").await;
        reach(&mut scene, "localhost", &tls("verify-full", Some(&ca)));
        carries(&scene).await;
    }
    for (host, tls) in [
        ("127.0.0.1", tls("verify-full", Some(&ca))),
        ("127.0.0.1", tls("verify-ca", Some(&ca))),
        ("127.0.0.1", tls("require", None)),
    ] {
        reach(&mut scene, host, &tls);
        carries(&scene).await;
    }

    // WHEN the account wants TLS and gets none, or another authority is trusted, THEN that is told at once
    reach(&mut scene, "127.0.0.1", &tls("disable", None));
    refused(&scene, "source.tls.mode").await;
    reach(
        &mut scene,
        "127.0.0.1",
        &tls("verify-full", Some(&stranger)),
    );
    refused(&scene, "source.tls.ca").await;

    // AND when the certificate is for another name, but only if that is looked at
    secure.show(Shown::Misnamed);
    reach(&mut scene, "127.0.0.1", &tls("verify-full", Some(&ca)));
    refused(&scene, "127.0.0.1").await;
    reach(&mut scene, "127.0.0.1", &tls("verify-ca", Some(&ca)));
    carries(&scene).await;

    // AND when it has expired
    secure.show(Shown::Expired);
    refused(&scene, "expired").await;
    secure.show(Shown::Right);

    // AND when the account wants a certificate of ours, and gets none or a stranger's
    identify(&scene, ways[0], "X509").await;
    let (own, strange) = (secure.papers.client(), secure.papers.stranger_client());
    reach(&mut scene, "localhost", &tls_with(&ca, &own));
    carries(&scene).await;
    reach(&mut scene, "localhost", &tls("verify-full", Some(&ca)));
    refused(&scene, "Access denied").await;
    reach(&mut scene, "localhost", &tls_with(&ca, &strange));
    refused(&scene, "certificate").await;
    identify(&scene, ways[0], "SSL").await;
    reach(&mut scene, "localhost", &tls("verify-full", Some(&ca)));

    // AND when the password is wrong, without telling it
    scene.pipeline.source_url = scene.pipeline.source_url.replace(PASSWORD, "wr0ng-Pa55");
    scene.configure();
    let said = refused(&scene, "HEADWATER__SOURCE__PASSWORD").await;
    assert!(!said.contains("wr0ng-Pa55"), "{said}");
}

/// How our user proves itself from now on, and what its connection must have.
async fn identify(scene: &BinlogScene<'_>, way: &str, requires: &str) {
    let user = scene.database.name();
    let by = if scene.database.mysql().server().is_mariadb() {
        format!("VIA {way} USING PASSWORD('{PASSWORD}')")
    } else {
        format!("WITH {way} BY '{PASSWORD}'")
    };
    let sql = format!("ALTER USER '{user}'@'%' IDENTIFIED {by} REQUIRE {requires}");
    scene.database.execute(&sql).await;
}

on_every_binlog!(the_server_is_reached_by_its_socket: "socket", shared server, shared kafka);

async fn the_server_is_reached_by_its_socket(mut scene: BinlogScene<'_>) {
    // GIVEN a pipeline that knows the server's socket alone
    let mysql = scene.database.mysql();
    let (scheme, name) = (mysql.server().scheme(), scene.database.name());
    let socket = mysql.socket();
    scene.pipeline.source_url =
        format!("{scheme}://{name}:{PASSWORD}@/?socket={}", socket.display());
    scene.configure();

    // WHEN it is used, THEN events are carried
    scene.init();
    carries(&scene).await;

    // WHEN there is no such socket, THEN its name is told
    scene.pipeline.source_url += "-not";
    scene.configure();
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 3, "{}", check.stdout);
    let missing = format!("{}-not", socket.display());
    assert!(check.stdout.contains(&missing), "{}", check.stdout);
}

fn tls_with(ca: &Path, (cert, key): &(PathBuf, PathBuf)) -> String {
    let (ca, cert, key) = (ca.display(), cert.display(), key.display());
    format!("tls = {{ mode = 'verify-full', ca = '{ca}', cert = '{cert}', key = '{key}' }}\n")
}

fn tls(mode: &str, ca: Option<&Path>) -> String {
    let ca = ca.map_or(String::new(), |ca| format!(", ca = '{}'", ca.display()));
    format!("tls = {{ mode = '{mode}'{ca} }}\n")
}

fn reach(scene: &mut BinlogScene<'_>, host: &str, tls: &str) {
    use headwater_testkit::Outbox;
    let (scheme, name) = (
        scene.database.mysql().server().scheme(),
        scene.database.name(),
    );
    let port = scene.database.mysql().port();
    scene.pipeline.source_url = format!("{scheme}://{name}:{PASSWORD}@{host}:{port}/{name}");
    scene.pipeline.source = scene.database.source_lines() + tls;
    scene.configure();
}

async fn carries(scene: &BinlogScene<'_>) {
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
    let mut run = scene.start().await;
    let before = scene.kafka.message_count(scene.topic()).await;
    scene.commit_events(5).await;
    let arrived = scene
        .kafka
        .wait_for_messages(scene.topic(), before + 5, LIMIT);
    assert!(arrived.await, "{}", run.tail());
    run.ask_to_stop().await;
}

async fn refused(scene: &BinlogScene<'_>, says: &str) -> String {
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{says}: {}", run.tail());
    let said = run.log() + &run.stdout();
    assert!(said.contains(says), "no {says}: {said}");
    said
}
