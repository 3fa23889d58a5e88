//! Kafka as production has it: TLS, a login, and a user who may do no more than the documents say.

use std::fs;
use std::time::Duration;

use headwater_testkit::{Issuer, Kafka, KafkaOptions, Listener, Postgres};

use crate::scene::Scene;

/// A person has been told by then.
const SOON: Duration = Duration::from_secs(15);

fn secured() -> Kafka {
    let authoriser = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    Kafka::start_with(&KafkaOptions {
        tls: true,
        settings: vec![
            ("authorizer.class.name".into(), authoriser.into()),
            ("allow.everyone.if.no.acl.found".into(), "false".into()),
            ("super.users".into(), "User:ANONYMOUS;User:u".into()),
        ],
        ..KafkaOptions::default()
    })
}

/// Logs in as `user` with the password in a file, which holds `password`.
fn log_in(scene: &mut Scene<'_>, user: &str, password: &str) {
    let ca = scene.kafka.certificates().ca();
    scene.pipeline.brokers = scene.kafka.listener(Listener::Login);
    scene.pipeline.sink = format!(
        "tls = {{ mode = \"verify-full\", ca = \"{}\" }}
sasl = {{ mechanism = \"SCRAM-SHA-256\", username = \"{user}\", password_file = \"password\" }}",
        ca.display()
    );
    scene.configure();
    fs::write(scene.headwater.folder().join("password"), password).unwrap();
}

/// Every command that needs Kafka ends with 3 and these words, and without the canary.
async fn each_command_asks_for_a_person(scene: &Scene<'_>, words: &[&str]) {
    for command in ["run", "init", "adopt", "check"] {
        let mut run = scene.spawn(&[command]);
        let code = run.ended_within(SOON).await;
        assert_eq!(code, 3, "{command}: {}", run.tail());
        let said = run.log() + &run.stdout();
        for word in words {
            assert!(said.contains(word), "{command}, no \"{word}\": {said}");
        }
        assert!(!said.contains("c4nary"), "{command}: {said}");
    }
}

#[tokio::test]
async fn a_secured_kafka_is_delivered_to_and_its_refusals_are_told() {
    // GIVEN a pipeline that logs in over TLS
    let kafka = secured();
    let mut scene = Scene::on(Postgres::shared(17), &kafka, "secured").await;
    log_in(&mut scene, "u", "p\n");
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;

    // WHEN its password is wrong, THEN a person is asked for, soon
    log_in(&mut scene, "u", "c4nary");
    let words = ["refused the login", "sink.sasl.password"];
    each_command_asks_for_a_person(&scene, &words).await;

    // WHEN a user has no rights, THEN the command that grants them is told
    log_in(&mut scene, "guest", "p");
    let words = ["kafka-acls.sh", "--allow-principal 'User:guest'"];
    each_command_asks_for_a_person(&scene, &words).await;

    // WHEN the authority is another one, THEN nothing is sent to the broker
    log_in(&mut scene, "u", "p");
    let (ours, other) = (kafka.certificates().ca(), kafka.certificates().stranger());
    let (ours, other) = (ours.display().to_string(), other.display().to_string());
    scene.pipeline.sink = scene.pipeline.sink.replace(&ours, &other);
    scene.configure();
    let words = ["cannot be verified", "openssl s_client", other.as_str()];
    each_command_asks_for_a_person(&scene, &words).await;

    // WHEN all is right again, THEN it goes on where it was
    log_in(&mut scene, "u", "p");
    let run = scene.start().await;
    written.add(scene.commit_events(10).await);
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
}

/// Logs in by tokens, with the secret in a file, which holds `secret`; librdkafka tells all it does.
fn log_in_by_tokens(scene: &mut Scene<'_>, issuer: &Issuer, secret: &str) {
    let ca = scene.kafka.certificates().ca();
    let ca = ca.display();
    scene.pipeline.brokers = scene.kafka.listener(Listener::Token);
    scene.pipeline.sink = format!(
        "tls = {{ ca = \"{ca}\" }}
sasl = {{ mechanism = \"OAUTHBEARER\", token_endpoint = \"{endpoint}\", token_ca = \"{ca}\", client_id = \"headwater\", client_secret_file = \"secret\" }}
properties.debug = \"all\"",
        endpoint = issuer.endpoint()
    );
    scene.configure();
    fs::write(scene.headwater.folder().join("secret"), secret).unwrap();
}

#[tokio::test]
async fn a_login_by_tokens_delivers_once_and_shows_neither_secret_nor_token() {
    // GIVEN a pipeline that logs in by tokens of a few seconds, from its first command on
    let kafka = secured();
    let issuer = Issuer::start(kafka.certificates());
    issuer.behave(|manner| {
        manner.secret = "c4nary-right".into();
        manner.lifetime = Duration::from_secs(8);
    });
    let mut scene = Scene::on(Postgres::shared(17), &kafka, "tokens").await;
    log_in_by_tokens(&mut scene, &issuer, "c4nary-right\n");
    scene.init();

    // WHEN it runs past several of them
    let run = scene.start().await;
    let begun = issuer.issued().len();
    let mut written = scene.commit_events(10).await;
    while issuer.issued().len() < begun + 3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        written.add(scene.commit_events(5).await);
    }

    // THEN every event is there once, and nobody can read in its log how it logged in
    let verdict = scene.judge(&written).await;
    verdict.assert_exactly_once();
    let said = run.log() + &run.stdout();
    assert!(said.contains("OAUTHBEARER"), "librdkafka tells of it");
    assert!(!said.contains("c4nary"));
    for token in issuer.issued() {
        assert!(!said.contains(&token));
    }
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();

    // WHEN its secret is wrong, THEN a person is asked for, soon
    log_in_by_tokens(&mut scene, &issuer, "c4nary-wrong");
    let words = ["invalid_client", "sink.sasl.client_secret"];
    each_command_asks_for_a_person(&scene, &words).await;

    // WHEN its tokens are for others, THEN the brokers' refusal is told
    log_in_by_tokens(&mut scene, &issuer, "c4nary-right");
    issuer.behave(|manner| manner.audience = "others".into());
    let words = ["refused the login", "audience"];
    each_command_asks_for_a_person(&scene, &words).await;

    // WHEN the endpoint cannot be asked safely, THEN the configuration is refused with its line
    let plain = issuer
        .endpoint()
        .replace("https://localhost", "http://idp.test");
    scene.pipeline.sink = scene.pipeline.sink.replace(&issuer.endpoint(), &plain);
    scene.configure();
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(SOON).await, 2, "{}", run.tail());
    let said = run.log() + &run.stdout();
    assert!(
        said.contains("sink.sasl.token_endpoint: would send the secret in plain text"),
        "{said}"
    );
}
