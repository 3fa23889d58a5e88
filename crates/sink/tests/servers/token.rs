//! Logins by tokens, on a real broker that verifies them: they are had, renewed, and refused.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headwater_core::sink::Sink;
use headwater_core::trouble::Trouble;
use headwater_sink::Level;
use headwater_sink::kafka::{Endpoint, Grant, Kafka, Sasl, Settings, check};
use headwater_testkit::{Issuer, Listener, unique};
use tokio::time::{sleep, timeout};

use super::security::{CLUSTER, SOON, delivers, is_refused, on, verified};
use super::talk::{carry, listen, logged, message, refused, said};

fn issuer() -> Issuer {
    Issuer::start(CLUSTER.certificates())
}

fn grant(issuer: &Issuer, secret: &'static str) -> Grant {
    Grant {
        endpoint: Endpoint::parse(&issuer.endpoint()).unwrap(),
        ca: Some(CLUSTER.certificates().ca()),
        client_id: "headwater".into(),
        secret: Arc::new(|| Ok(secret.into())),
        scope: None,
        extensions: Vec::new(),
    }
}

fn by(grant: Grant) -> Settings {
    Settings {
        sasl: Some(Sasl::Token(grant)),
        ..on(Listener::Token, verified())
    }
}

fn login(issuer: &Issuer) -> Settings {
    by(grant(issuer, "p"))
}

/// Long enough for a login on a busy machine.
const SHORT: Duration = Duration::from_secs(8);

/// One message, then one after the other until it is `enough`; each is delivered.
async fn keep_delivering(kafka: &mut Kafka, enough: impl Fn() -> bool) {
    let topic = unique("kept");
    loop {
        let heard = carry(kafka, vec![message(&topic, None, "1")]).await;
        assert_eq!(heard.unwrap().delivered, 1);
        if enough() {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_token_delivers_and_lets_topics_be_made_and_looked_at() {
    let issuer = issuer();
    let settings = by(Grant {
        scope: Some("kafka write".into()),
        extensions: vec![("logicalCluster".into(), "lkc-1".into())],
        ..grant(&issuer, "p")
    });
    delivers(settings.clone()).await;
    let asked = "grant_type=client_credentials&scope=kafka%20write";
    assert!(issuer.requests().iter().all(|it| it == asked));

    let positions = unique("positions");
    let kafka = Kafka::open(settings.clone()).unwrap();
    let memory = kafka.positions(&positions, 1, "shop");
    memory.init().await.unwrap();
    let findings = check(settings, Some(&positions), SOON).await;
    let compacted = format!("the positions topic \"{positions}\" is compacted");
    assert!(
        findings.iter().all(|f| f.level == Level::Ok)
            && findings.iter().any(|f| f.what == compacted),
        "{findings:?}"
    );
}

#[tokio::test]
async fn a_token_is_renewed_and_delivery_goes_on_past_its_end() {
    let issuer = issuer();
    issuer.behave(|manner| manner.lifetime = SHORT);
    let mut kafka = Kafka::open(login(&issuer)).unwrap();
    let begun = Instant::now();
    let enough = || begun.elapsed() > 2 * SHORT && issuer.issued().len() >= 3;
    keep_delivering(&mut kafka, enough).await;
}

#[tokio::test]
async fn a_secret_that_changes_is_read_again_for_the_next_token() {
    let issuer = issuer();
    issuer.behave(|manner| {
        manner.lifetime = SHORT;
        manner.tells_lifetime = false;
    });
    let secret = Arc::new(Mutex::new("p"));
    let read = Arc::clone(&secret);
    let mut kafka = Kafka::open(by(Grant {
        secret: Arc::new(move || Ok((*read.lock().unwrap()).to_owned())),
        ..grant(&issuer, "")
    }))
    .unwrap();
    keep_delivering(&mut kafka, || true).await;
    *secret.lock().unwrap() = "other";
    issuer.behave(|manner| manner.secret = "other".into());
    let before = issuer.issued().len();
    keep_delivering(&mut kafka, || issuer.issued().len() > before).await;
}

#[tokio::test]
async fn an_endpoint_that_is_away_at_the_start_is_waited_for() {
    listen();
    let issuer = Issuer::away(CLUSTER.certificates());
    let mut kafka = Kafka::open(login(&issuer)).unwrap();
    let coming = async {
        sleep(Duration::from_secs(4)).await;
        issuer.come();
    };
    let topic = unique("late");
    let delivering = carry(&mut kafka, vec![message(&topic, None, "1")]);
    let (heard, ()) = tokio::join!(delivering, coming);
    assert_eq!(heard.unwrap().delivered, 1);
    assert_eq!(said("waiting for a new token", &issuer.endpoint()), 1);
    assert_eq!(said("there is a new token", &issuer.endpoint()), 1);
}

#[tokio::test]
async fn without_a_living_token_delivery_waits_and_goes_on_with_the_next_one() {
    listen();
    let issuer = issuer();
    issuer.behave(|manner| manner.lifetime = SHORT);
    let mut kafka = Kafka::open(login(&issuer)).unwrap();
    keep_delivering(&mut kafka, || true).await;
    issuer.go();
    sleep(SHORT + Duration::from_secs(3)).await;
    let topic = unique("late");
    let mut delivering = Box::pin(carry(&mut kafka, vec![message(&topic, None, "1")]));
    // Longer than a refused login may be refused.
    let early = timeout(Duration::from_secs(35), &mut delivering).await;
    assert!(early.is_err(), "the broker wants living tokens: {early:?}");
    issuer.come();
    assert_eq!(delivering.await.unwrap().delivered, 1);
    assert_eq!(said("waiting for a new token", &issuer.endpoint()), 1);
}

#[tokio::test]
async fn a_refusal_of_the_endpoint_is_believed_when_the_token_ends() {
    let issuer = issuer();
    issuer.behave(|manner| manner.lifetime = Duration::from_secs(30));
    let mut kafka = Kafka::open(login(&issuer)).unwrap();
    keep_delivering(&mut kafka, || true).await;
    issuer.behave(|manner| manner.secret = "other".into());
    // The token has six seconds left then.
    let refused = || issuer.requests().len() > issuer.issued().len();
    keep_delivering(&mut kafka, refused).await;
    let error = timeout(SOON, kafka.next_report()).await;
    let error = error.expect("told within 15 s").unwrap_err();
    assert!(error.is_fatal(), "{error}");
    assert!(error.to_string().contains("invalid_client"), "{error}");
}

#[tokio::test]
async fn an_endpoint_that_refuses_needs_a_person() {
    let issuer = issuer();
    let words = ["401, invalid_client", "sink.sasl.client_secret"];
    is_refused(by(grant(&issuer, "hunter2")), &words).await;
    for (answer, words) in [
        (
            ("302 Found", "Location: https://localhost/\r\n", ""),
            ["redirects (302)", "itself in sink.sasl.token_endpoint"],
        ),
        (
            ("200 OK", "", "<html>"),
            ["is no token", "sink.sasl.token_endpoint"],
        ),
    ] {
        issuer.behave(|manner| manner.answer = Some(answer));
        is_refused(login(&issuer), &words).await;
    }
    let settings = by(Grant {
        secret: Arc::new(|| Err("no such file".into())),
        ..grant(&issuer, "")
    });
    is_refused(settings, &["client headwater", "no such file"]).await;
}

#[tokio::test]
async fn a_secret_is_not_sent_to_one_who_does_not_prove_to_be_the_endpoint() {
    let issuer = issuer();
    let cas: [Option<PathBuf>; 2] = [Some(CLUSTER.certificates().stranger()), None];
    for ca in cas {
        let settings = by(Grant {
            ca,
            ..grant(&issuer, "p")
        });
        let words = ["cannot be verified", "sink.sasl.token_ca"];
        is_refused(settings, &words).await;
    }
    let missing = Some(PathBuf::from("missing.pem"));
    let settings = by(Grant {
        ca: missing,
        ..grant(&issuer, "p")
    });
    is_refused(settings, &["sink.sasl.token_ca: missing.pem"]).await;
    assert_eq!(issuer.requests().len(), 0);
}

#[tokio::test]
async fn a_token_that_is_for_others_is_refused_by_the_broker() {
    let issuer = issuer();
    issuer.behave(|manner| manner.audience = "others".into());
    let words = ["refused the login", "audience"];
    is_refused(login(&issuer), &words).await;
}

#[tokio::test]
async fn a_missing_right_names_the_subject_of_the_token() {
    let issuer = issuer();
    issuer.behave(|manner| manner.subject = "svc-7".into());
    let mut kafka = Kafka::open(login(&issuer)).unwrap();
    let closed = unique("closed");
    let told = timeout(SOON, refused(&mut kafka, &closed)).await;
    let why = told.expect("told within 15 s");
    assert!(why.contains("--allow-principal 'User:svc-7'"), "{why}");
}

#[tokio::test]
async fn check_says_that_there_is_no_token() {
    let issuer = Issuer::away(CLUSTER.certificates());
    let findings = check(login(&issuer), None, Duration::from_secs(3)).await;
    let (what, mend) = (&findings[0].what, findings[0].mend.as_ref().unwrap());
    assert!(
        what.contains("no token for Kafka within 3s (no token: https://localhost:"),
        "{what}"
    );
    assert!(mend.contains("sink.sasl.token_endpoint"), "{mend}");
}

#[tokio::test]
async fn neither_the_secret_nor_a_token_is_logged_or_shown() {
    listen();
    let issuer = issuer();
    issuer.behave(|manner| {
        manner.secret = "c4nary".into();
        manner.lifetime = SHORT;
    });
    let settings = by(grant(&issuer, "c4nary"));
    let shown = format!("{settings:?}");
    let mut kafka = Kafka::open(settings).unwrap();
    keep_delivering(&mut kafka, || issuer.issued().len() >= 2).await;
    issuer.behave(|manner| {
        manner.answer = Some((
            "400 Bad Request",
            "",
            r#"{"error":"invalid_client","error_description":"c4nary is wrong"}"#,
        ));
    });
    let error = timeout(SOON, kafka.next_report()).await;
    let error = error.expect("told within 15 s").unwrap_err().to_string();
    assert!(error.contains("*** is wrong"), "{error}");
    let all = format!("{shown}\n{error}\n{}", logged());
    assert!(!all.contains("c4nary"), "{all}");
    for token in issuer.issued() {
        assert!(!all.contains(&token), "{all}");
    }
}
