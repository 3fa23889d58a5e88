//! Whoever holds stays up, says why, and goes on by itself once the row can be published.

use std::process::Command;
use std::time::{Duration, Instant};

use headwater_testkit::{Outbox as _, free_port, get};
use serde_json::Value;
use tokio::time::sleep;

use super::{NO_NUMBER, NO_TYPE, ends_with, failing, letters, numbered, published, put_schema};
use crate::scene::{Event, LIMIT, Running, Scene};

pub const HOLD: &str = "when_stopped = \"hold\"";

/// A pipeline that holds before the second of three rows.
async fn holding(odd: (&str, &str)) -> (Scene<'static>, Running, u16, Event) {
    let mut scene = Scene::shared(17, "hold").await;
    let port = free_port();
    scene.pipeline.admin = format!("listen = \"127.0.0.1:{port}\"");
    failing(&mut scene, HOLD);
    scene.init();
    let run = scene.start().await;
    let all = numbered(&scene.namespace, 1..=3);
    let statements: Vec<String> = all
        .iter()
        .map(|event| match event.seq {
            2 => scene.insert_with(event, &[odd]),
            _ => scene.insert(event),
        })
        .collect();
    scene.database.execute_each(&statements).await;
    let why = ready(port, 503, "it holds").await;
    let id = all[1].id.to_string();
    assert!(why.contains(&id), "{why}");
    let status = get(port, "/status").unwrap().text;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        (&status["ready"], &status["holding"]),
        (&false.into(), &true.into())
    );
    let waiting_for = status["waiting_for"].as_str().unwrap();
    assert!(
        why.contains(waiting_for) && waiting_for.contains(&id),
        "{status}"
    );
    let row = all[1].clone();
    (scene, run, port, row)
}

/// What `/ready` says, once it answers so.
pub async fn ready(port: u16, code: u16, says: &str) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        let page = get(port, "/ready").filter(|page| page.code == code);
        if let Some(page) = page.filter(|page| page.text.contains(says)) {
            return page.text;
        }
        assert!(Instant::now() < end, "/ready never says {code} {says}");
        sleep(Duration::from_millis(100)).await;
    }
}

pub fn hang_up(run: &Running) {
    let pid = run.pid().to_string();
    let sent = Command::new("kill").args(["-HUP", &pid]).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn it_goes_on_when_the_schema_is_mended() {
    // GIVEN a pipeline that holds before a row
    let (scene, mut run, port, _) = holding(NO_NUMBER).await;
    assert_eq!(scene.consume().await.len(), 1);
    let page = get(port, "/metrics").unwrap();
    assert_eq!(page.metric("headwater_holding"), Some(1.0));
    // nothing is held open meanwhile: its slot is free
    let slot = scene.pipeline.slot();
    let active =
        format!("SELECT active::text FROM pg_replication_slots WHERE slot_name = '{slot}'");
    assert_eq!(scene.database.ask(&active).await.as_deref(), Some("false"));
    // WHEN a schema is written that cannot be used, THEN it still holds
    std::fs::write(scene.headwater.folder().join(super::SCHEMA), "{").unwrap();
    assert!(run.wait_for_log("still holding", LIMIT).await);
    // WHEN one is written that the row fits, THEN all goes on without anybody's doing
    put_schema(&scene, "string");
    assert!(run.wait_for_log("tried again", LIMIT).await);
    // The rows with numbers do not fit it: the next one is held before.
    published(&scene, 2).await;
    put_schema(&scene, "long");
    published(&scene, 3).await;
    ready(port, 200, "ready").await;
    run.ask_to_stop().await;
    assert_eq!(scene.consume().await.len(), 3);
}

#[tokio::test]
async fn it_goes_on_when_the_configuration_makes_a_letter_of_the_row() {
    let (mut scene, mut run, port, row) = holding(NO_TYPE).await;
    scene.pipeline.more.push_str("\npolicy = \"dead-letter\"\n");
    scene.configure();
    published(&scene, 2).await;
    let letters = letters(&scene, 1).await;
    assert_eq!(
        super::header(&letters[0], "headwater-event-id"),
        row.id.to_string()
    );
    ready(port, 200, "ready").await;
    run.ask_to_stop().await;
}

#[tokio::test]
async fn a_hangup_tries_the_row_again_and_a_stop_ends_with_code_3() {
    let (scene, mut run, port, _) = holding(NO_TYPE).await;
    hang_up(&run);
    assert!(run.wait_for_log("is tried again", LIMIT).await);
    assert!(
        run.wait_for_log("trying the row that stopped the last run first", LIMIT)
            .await
    );
    ready(port, 503, "it holds").await;
    assert_eq!(scene.consume().await.len(), 1, "nothing was passed over");
    ends_with(&mut run, 3).await;
}
