//! A table or publication that is replaced: the log says nothing about it, so the program has to look.

use std::time::Duration;

use crate::scene::{Event, Scene};

use super::{adopts, goes_on, refuses};

/// The program looks every few seconds.
const NOTICED: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_publication_that_is_made_anew_under_a_run_ends_it() {
    // On version 18 a missing publication is no error to the server: it goes on without the table.
    let made = "CREATE PUBLICATION {} FOR TABLE eventlog.events WITH (publish = 'insert')";
    is_noticed(18, &["DROP PUBLICATION {}", made]).await;
}

#[tokio::test]
async fn a_table_that_is_swapped_under_a_run_ends_it() {
    let swap = "BEGIN; ALTER TABLE eventlog.events RENAME TO events_old; \
        CREATE TABLE eventlog.events (LIKE eventlog.events_old INCLUDING ALL); COMMIT";
    is_noticed(17, &[swap]).await;
}

async fn is_noticed(version: u32, change: &[&str]) {
    // GIVEN a pipeline at work
    let scene = Scene::ready(version, "replaced").await;
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN what it reads is replaced, and an event is committed that no log has for it
    for sql in change {
        let sql = sql.replace("{}", &scene.pipeline.slot());
        scene.database.execute(&sql).await;
        // Of another topic: whether it is seen depends on the moment.
        let unseen = Event::new(&scene.pipeline.name, "unseen", 1);
        scene.database.execute(&unseen.insert()).await;
    }

    // THEN a person is asked for, now and at the next start, also when the new table is published
    assert_eq!(run.ended_within(NOTICED).await, 3, "{}", run.tail());
    let publish = "ALTER PUBLICATION {} SET TABLE eventlog.events";
    let publish = publish.replace("{}", &scene.pipeline.slot());
    scene.database.execute(&publish).await;
    refuses(&scene, "run", &["headwater adopt"]);

    // AND after the person's word it goes on
    adopts(&scene);
    goes_on(&scene, &mut written).await;
}
