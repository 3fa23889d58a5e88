//! TLS and logins on a real broker with a real authoriser: what is let in, and how a refusal is told.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use headwater_core::positions::Positions;
use headwater_core::sink::Sink;
use headwater_core::trouble::Trouble;
use headwater_sink::Level;
use headwater_sink::kafka::{Identity, Kafka, Mechanism, Sasl, Settings, Tls, Verify, check};
use headwater_testkit::{Kafka as Cluster, KafkaOptions, Listener, unique};
use tokio::time::timeout;

use super::rights::{CREATE, DESCRIBE, DESCRIBE_CONFIGS, READ, WRITE, grant_to};
use super::talk::{carry, message, refused, settings};

/// However busy the machine: a person has been told by then.
pub const SOON: Duration = Duration::from_secs(15);

/// Who does not say who it is may do anything, `u` too; all others nothing that they were not granted.
pub static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
    let authoriser = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    Cluster::start_with(&KafkaOptions {
        tls: true,
        settings: vec![
            ("authorizer.class.name".into(), authoriser.into()),
            ("allow.everyone.if.no.acl.found".into(), "false".into()),
            ("super.users".into(), "User:ANONYMOUS;User:u".into()),
        ],
        ..KafkaOptions::default()
    })
});

fn tls(verify: Verify, ca: PathBuf) -> Tls {
    Tls {
        verify,
        ca: Some(ca),
        identity: None,
    }
}

pub fn verified() -> Tls {
    tls(Verify::Name, CLUSTER.certificates().ca())
}

pub fn on(listener: Listener, tls: Tls) -> Settings {
    Settings {
        tls: Some(tls),
        ..settings(&CLUSTER.listener(listener))
    }
}

fn login(mechanism: Mechanism, username: &str, password: &str) -> Settings {
    Settings {
        sasl: Some(Sasl::Password {
            mechanism,
            username: username.into(),
            password: password.into(),
        }),
        ..on(Listener::Login, verified())
    }
}

fn identified((cert, key): (PathBuf, PathBuf)) -> Settings {
    let identity = Some(Identity { cert, key });
    on(
        Listener::Mutual,
        Tls {
            identity,
            ..verified()
        },
    )
}

pub async fn delivers(settings: Settings) {
    let topic = unique("secured");
    let mut kafka = Kafka::open(settings.clone()).unwrap();
    let heard = carry(&mut kafka, vec![message(&topic, None, "1")]).await;
    assert_eq!(heard.unwrap().delivered, 1);
    let mut positions = kafka.positions(&unique("positions"), 1, "shop");
    positions.init().await.unwrap();
    assert_eq!(positions.read().await.unwrap(), None);
    let findings = check(settings, None, SOON).await;
    assert!(
        findings.iter().all(|f| f.level == Level::Ok),
        "{findings:?}"
    );
}

/// Whoever waits for Kafka is told soon, and `check` says the same.
pub async fn is_refused(settings: Settings, words: &[&str]) {
    let mut kafka = Kafka::open(settings.clone()).unwrap();
    let error = timeout(SOON, kafka.next_report()).await;
    let error = error.expect("told within 15 s").unwrap_err();
    let text = error.to_string();
    assert!(error.is_fatal(), "{text}");
    for word in words {
        assert!(text.contains(word), "no \"{word}\": {text}");
    }
    let kafka = Kafka::open(settings.clone()).unwrap();
    let mut positions = kafka.positions("positions", 1, "shop");
    let read = timeout(SOON, positions.read()).await;
    assert!(read.expect("told within 15 s").unwrap_err().is_fatal());

    let findings = check(settings, Some("positions"), SOON).await;
    assert_eq!((findings.len(), findings[0].level), (1, Level::Problem));
    let said = format!(
        "{}: {}",
        findings[0].what,
        findings[0].mend.as_ref().unwrap()
    );
    for word in words {
        assert!(said.contains(word), "no \"{word}\": {said}");
    }
}

#[tokio::test]
async fn each_mechanism_delivers_over_tls() {
    for mechanism in [
        Mechanism::Plain,
        Mechanism::ScramSha256,
        Mechanism::ScramSha512,
    ] {
        delivers(login(mechanism, "u", "p")).await;
    }
}

#[tokio::test]
async fn tls_alone_delivers_by_name_and_by_address() {
    let by_address = on(Listener::Tls, verified());
    let by_name = Settings {
        brokers: by_address.brokers.replace("127.0.0.1", "localhost"),
        ..by_address.clone()
    };
    for settings in [by_address, by_name] {
        delivers(settings).await;
    }
}

#[tokio::test]
async fn a_client_certificate_with_the_documented_rights_is_enough() {
    let settings = identified(CLUSTER.certificates().client());
    let (topic, positions) = (unique("mutual"), unique("positions"));
    let grant = |operation, topic: &str| {
        grant_to("User:CN=headwater", CLUSTER.port(0), operation, topic);
    };
    for operation in [CREATE, WRITE] {
        grant(operation, &topic);
    }
    for operation in [CREATE, READ, WRITE, DESCRIBE_CONFIGS] {
        grant(operation, &positions);
    }
    let mut kafka = Kafka::open(settings.clone()).unwrap();
    let heard = carry(&mut kafka, vec![message(&topic, None, "1")]).await;
    assert_eq!(heard.unwrap().delivered, 1);
    let mut memory = kafka.positions(&positions, 1, "shop");
    memory.init().await.unwrap();
    assert_eq!(memory.read().await.unwrap(), None);
    let findings = check(settings, Some(&positions), SOON).await;
    assert!(
        findings.iter().all(|f| f.level == Level::Ok),
        "{findings:?}"
    );
}

#[tokio::test]
async fn without_a_client_certificate_that_the_broker_knows_nobody_is_let_in() {
    let words = ["certificate than ours", "sink.tls.cert"];
    is_refused(on(Listener::Mutual, verified()), &words).await;
    is_refused(identified(CLUSTER.certificates().unknown_client()), &words).await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let stranger = CLUSTER.certificates().stranger();
    for verify in [Verify::Authority, Verify::Name] {
        let settings = on(Listener::Tls, tls(verify, stranger.clone()));
        is_refused(settings, &["certificate", "sink.tls.ca"]).await;
    }
    // A login is not sent to one who did not prove to be the broker.
    let settings = Settings {
        tls: Some(tls(Verify::Name, stranger.clone())),
        ..login(Mechanism::Plain, "u", "p")
    };
    is_refused(settings, &["certificate", "sink.tls.ca"]).await;
    delivers(on(Listener::Tls, tls(Verify::Nothing, stranger))).await;
}

#[tokio::test]
async fn the_systems_authorities_do_not_know_the_brokers() {
    let unnamed = Tls {
        ca: None,
        ..verified()
    };
    is_refused(on(Listener::Tls, unnamed), &["certificate", "sink.tls.ca"]).await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_unless_names_do_not_matter() {
    let settings = on(Listener::Misnamed, verified());
    is_refused(settings, &["certificate", "name in sink.brokers"]).await;
    let ca = CLUSTER.certificates().ca();
    delivers(on(Listener::Misnamed, tls(Verify::Authority, ca))).await;
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let settings = on(Listener::Expired, verified());
    is_refused(settings, &["certificate", "expired"]).await;
}

#[tokio::test]
async fn a_wrong_password_is_refused_over_tls_by_each_mechanism() {
    for mechanism in [
        Mechanism::Plain,
        Mechanism::ScramSha256,
        Mechanism::ScramSha512,
    ] {
        let settings = login(mechanism, "u", "hunter2");
        is_refused(settings, &["refused the login", "sink.sasl"]).await;
    }
}

#[tokio::test]
async fn a_missing_right_is_told_with_the_command_that_grants_it() {
    let settings = login(Mechanism::ScramSha512, "guest", "p");
    let (topic, positions) = (unique("closed"), unique("closed"));
    CLUSTER.create_topic(&topic, 1, 1, &[]).await;
    let compacted = [("cleanup.policy", "compact")];
    CLUSTER.create_topic(&positions, 1, 1, &compacted).await;
    let command = |operation: &str, topic: &str| {
        let brokers = &settings.brokers;
        format!(
            "kafka-acls.sh --bootstrap-server {brokers} --command-config admin.properties --add --allow-principal 'User:guest' --operation {operation} --topic '{topic}'"
        )
    };
    // Of an empty topic the end is all that is asked for.
    CLUSTER
        .produce(&positions, Some(b"other"), Some(b"1"))
        .await;
    // Somewhere it may write: without any right the broker refuses the producer as such.
    let open = unique("open");
    grant_to("User:guest", CLUSTER.port(0), WRITE, &open);

    let say = async |kafka: &mut Kafka, topic: &str| {
        let told = timeout(SOON, refused(kafka, topic)).await;
        told.expect("told within 15 s")
    };
    for right in [None, Some(DESCRIBE)] {
        if let Some(right) = right {
            grant_to("User:guest", CLUSTER.port(0), right, &topic);
        }
        let said = say(&mut Kafka::open(settings.clone()).unwrap(), &topic).await;
        assert!(said.contains(&command("Write", &topic)), "{said}");
    }
    // The one that it may write to does not exist, and it may not create it.
    let said = say(&mut Kafka::open(settings.clone()).unwrap(), &open).await;
    assert!(said.contains(&command("Create", &open)), "{said}");

    let read = async |right: &str| {
        let kafka = Kafka::open(settings.clone()).unwrap();
        let mut memory = kafka.positions(&positions, 1, "shop");
        let read = timeout(SOON, memory.read()).await;
        let error = read.expect("told within 15 s").unwrap_err();
        assert!(error.is_fatal(), "{error}");
        let said = error.to_string();
        assert!(said.contains(&command(right, &positions)), "{said}");
    };
    read("Describe").await;
    let findings = check(settings.clone(), Some(&positions), SOON).await;
    let mend = findings.last().unwrap().mend.clone().unwrap();
    assert!(mend.contains(&command("Describe", &positions)), "{mend}");
    grant_to("User:guest", CLUSTER.port(0), DESCRIBE, &positions);
    read("Read").await;
    grant_to("User:guest", CLUSTER.port(0), READ, &positions);
    let kafka = Kafka::open(settings.clone()).unwrap();
    let mut memory = kafka.positions(&positions, 1, "shop");
    assert_eq!(memory.read().await.unwrap(), None);
}
