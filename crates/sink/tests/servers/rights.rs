//! Logins and rights: a refusal is found at once, and told with what to do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use headwater_core::positions::Positions;
use headwater_core::sink::Sink;
use headwater_core::trouble::Trouble;
use headwater_sink::Level;
use headwater_sink::kafka::{Kafka, Settings, check};
use headwater_testkit::{Kafka as Cluster, KafkaOptions};

use super::talk::{carry, message, refused, settings, with};

const SOON: Duration = Duration::from_secs(10);

pub fn login(cluster: &Cluster, password: &str) -> Settings {
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
        error.is_fatal() && error.to_string().contains("sasl.password"),
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
    let mend = findings[0].mend.as_deref().unwrap();
    assert!(mend.contains("sasl.password"), "{findings:?}");
}

/// User `u` may do nothing; on the listener without a login everything is allowed.
pub fn with_rights() -> Cluster {
    Cluster::start_with(&KafkaOptions {
        sasl: true,
        settings: vec![
            (
                "authorizer.class.name".into(),
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer".into(),
            ),
            ("super.users".into(), "User:ANONYMOUS".into()),
        ],
        ..KafkaOptions::default()
    })
}

#[tokio::test]
async fn missing_rights_are_named() {
    let cluster = with_rights();
    cluster.create_topic("closed", 1, 1, &[]).await;
    let mut kafka = Kafka::open(login(&cluster, "p")).unwrap();
    let why = refused(&mut kafka, "closed").await;
    assert!(why.contains("kafka-acls.sh"), "{why}");

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

    let findings = check(login(&cluster, "p"), None, SOON).await;
    let levels: Vec<Level> = findings.iter().map(|f| f.level).collect();
    assert_eq!(levels, [Level::Ok, Level::Problem], "{findings:?}");
    let mend = findings[1].mend.as_deref().unwrap();
    assert!(mend.contains("--operation Write"), "{findings:?}");
}

#[tokio::test]
async fn settings_that_may_not_be_seen_are_a_warning() {
    let cluster = with_rights();
    // Writing includes seeing the topic, but not its settings: nothing is claimed about them.
    cluster
        .create_topic("positions", 1, 1, &[("cleanup.policy", "compact")])
        .await;
    grant(cluster.port(0), WRITE, "positions");
    let findings = check(login(&cluster, "p"), Some("positions"), SOON).await;
    let levels: Vec<Level> = findings.iter().map(|f| f.level).collect();
    assert_eq!(levels, [Level::Ok, Level::Warning], "{findings:?}");
    let mend = findings[1].mend.as_deref().unwrap();
    let command = "--operation DescribeConfigs --topic 'positions'";
    assert!(mend.contains(command), "{findings:?}");
    let kafka = Kafka::open(login(&cluster, "p")).unwrap();
    kafka
        .positions("positions", 1, "shop")
        .verify()
        .await
        .unwrap();

    grant(cluster.port(0), DESCRIBE_CONFIGS, "positions");
    let findings = check(login(&cluster, "p"), Some("positions"), SOON).await;
    assert!(
        findings.iter().all(|f| f.level == Level::Ok),
        "{findings:?}"
    );
}

/// Operations as the protocol numbers them.
pub const READ: u8 = 3;
pub const WRITE: u8 = 4;
pub const CREATE: u8 = 5;
pub const DESCRIBE: u8 = 8;
pub const DESCRIBE_CONFIGS: u8 = 10;

/// Lets user `u` do it with the topic.
pub fn grant(port: u16, operation: u8, topic: &str) {
    grant_to("User:u", port, operation, topic);
}

/// A `CreateAcls` request by hand, which the client crate does not have.
pub fn grant_to(principal: &str, port: u16, operation: u8, topic: &str) {
    const CREATE_ACLS: u8 = 30;
    const TOPIC: u8 = 2;
    const LITERAL: u8 = 3;
    const ALLOW: u8 = 3;
    let text = |text: &str| {
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        [&length, text.as_bytes()].concat()
    };
    let head = [0, CREATE_ACLS, 0, 1, 0, 0, 0, 7];
    let rule = [&[TOPIC][..], &text(topic), &[LITERAL], &text(principal)].concat();
    let rule = [rule, text("*"), vec![operation, ALLOW]].concat();
    let request = [&head[..], &text("test"), &[0, 0, 0, 1], &rule].concat();
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    let mut broker = TcpStream::connect(("127.0.0.1", port)).unwrap();
    broker.write_all(&[&length, &request[..]].concat()).unwrap();
    // Length, correlation, throttle time, count, error code.
    let mut answer = [0; 18];
    broker.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], head[4..8]);
    assert_eq!(answer[16..18], [0, 0], "the broker refused: {answer:?}");
    // It answers before its authoriser has heard of it.
    std::thread::sleep(Duration::from_millis(300));
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
