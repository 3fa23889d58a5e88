//! The server is reached by TLS and by every way of logging in, and what is wrong is told at once.

use std::path::Path;

use headwater_testkit::{Kafka, PASSWORD, SecureMysql, Server, Shown};

use super::BinlogScene;
use crate::scene::{LIMIT, Scene};

#[tokio::test]
async fn tls_and_logins_are_as_configured_on_mysql_9_7() {
    let ways = ["caching_sha2_password"];
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
    let user = scene.database.name().to_owned();
    for way in ways {
        let sql = if server.is_mariadb() {
            format!(
                "ALTER USER '{user}'@'%' IDENTIFIED VIA {way} USING PASSWORD('{PASSWORD}') REQUIRE SSL"
            )
        } else {
            format!("ALTER USER '{user}'@'%' IDENTIFIED WITH {way} BY '{PASSWORD}' REQUIRE SSL")
        };
        scene.database.execute(&sql).await;
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

    // AND when the password is wrong, without telling it
    scene.pipeline.source_url = scene.pipeline.source_url.replace(PASSWORD, "wr0ng-Pa55");
    scene.configure();
    let said = refused(&scene, "HEADWATER__SOURCE__PASSWORD").await;
    assert!(!said.contains("wr0ng-Pa55"), "{said}");
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
