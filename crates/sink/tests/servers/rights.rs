//! Logins and rights: a refusal is found at once, and told with what to do.

use std::time::Duration;

use headwater_core::positions::Positions;
use headwater_core::sink::Sink;
use headwater_core::trouble::Trouble;
use headwater_sink::Level;
use headwater_sink::kafka::{Kafka, Settings, check};
use headwater_testkit::{Kafka as Cluster, KafkaOptions};

use super::talk::{carry, message, settings, with};

const SOON: Duration = Duration::from_secs(10);

fn login(cluster: &Cluster, password: &str) -> Settings {
    let properties = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "u"),
        ("sasl.password", password),
    ];
    with(settings(&cluster.sasl_brokers()), &properties)
}

#[tokio::test]
async fn a_wrong_password_is_fatal_before_anything_was_sent() {
    let cluster = Cluster::start_with(&KafkaOptions {
        sasl: true,
        ..KafkaOptions::default()
    });
    let mut kafka = Kafka::open(login(&cluster, "p")).unwrap();
    carry(&mut kafka, vec![message("right", None, "1")])
        .await
        .unwrap();

    let mut kafka = Kafka::open(login(&cluster, "hunter2")).unwrap();
    let error = tokio::time::timeout(SOON, kafka.next_report())
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("sink.sasl"),
        "{error}"
    );
    assert!(!error.to_string().contains("hunter2"), "{error}");

    let kafka = Kafka::open(login(&cluster, "wrong")).unwrap();
    let mut positions = kafka.positions("positions", 1, "shop");
    let error = tokio::time::timeout(SOON, positions.read())
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("login"),
        "{error}"
    );

    let findings = check(login(&cluster, "wrong"), Some("positions"), SOON).await;
    assert_eq!((findings.len(), findings[0].level), (1, Level::Problem));
    assert!(
        findings[0].mend.as_deref().unwrap().contains("sink.sasl"),
        "{findings:?}"
    );
}

#[tokio::test]
async fn missing_rights_are_named() {
    let cluster = Cluster::start_with(&KafkaOptions {
        sasl: true,
        settings: vec![
            (
                "authorizer.class.name".into(),
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer".into(),
            ),
            ("super.users".into(), "User:ANONYMOUS".into()),
        ],
        ..KafkaOptions::default()
    });
    cluster.create_topic("closed", 1, 1, &[]).await;
    let mut kafka = Kafka::open(login(&cluster, "p")).unwrap();
    let error = carry(&mut kafka, vec![message("closed", None, "1")])
        .await
        .unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("kafka-acls.sh"),
        "{error}"
    );

    let kafka = Kafka::open(login(&cluster, "p")).unwrap();
    let error = kafka
        .positions("positions", 1, "shop")
        .verify()
        .await
        .unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("kafka-acls.sh"),
        "{error}"
    );
}

#[tokio::test]
async fn a_plain_listener_spoken_to_with_tls_is_not_waited_for_silently() {
    let cluster = Cluster::shared();
    let tls = with(
        settings(&cluster.brokers()),
        &[("security.protocol", "ssl")],
    );
    let findings = check(tls, Some("positions"), Duration::from_secs(5)).await;
    assert_eq!((findings.len(), findings[0].level), (1, Level::Problem));
    assert!(findings[0].what.contains("SSL"), "{findings:?}");
}
