//! The table is altered while its rows are published: they arrive all the same, and so do those after them.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, Outbox, Postgres, Proxy};
use tokio::time::sleep;

use super::{COMPLETE, GOING_ON, PATIENCE, with_snapshot};
use crate::scene::{LIMIT, Scene, on_every_binlog, on_other_versions};

#[tokio::test]
async fn columns_come_and_go_meanwhile_on_postgresql() {
    columns_come_and_go(Scene::shared(17, "altered").await).await;
}

on_every_binlog!(columns_come_and_go: "altered", shared server, shared kafka);

on_other_versions!(columns_come_and_go: "altered", columns_come_and_go_between: "between");

async fn columns_come_and_go(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a snapshot under way, of a table with a column that is no event's
    scene.send_one_by_one();
    let scene = with_snapshot(scene, "initial");
    let table = scene.database.table().to_owned();
    let spare = format!("ALTER TABLE {table} ADD COLUMN spare INT DEFAULT 7");
    scene.database.execute(&spare).await;
    let mut written = scene.database.bulk_rows(&scene.namespace, 4_000, 100).await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN that column is dropped and another added, as soon as the server lets it be
    let alter = format!("ALTER TABLE {table} DROP COLUMN spare, ADD COLUMN more VARCHAR(20)");
    let (complete, ()) = tokio::join!(
        run.wait_for_log(COMPLETE, PATIENCE),
        scene.database.execute(&alter)
    );
    assert!(complete, "{}", run.tail());

    // THEN all rows came once, and those after it come too
    written.add(scene.commit_events(10).await);
    scene.stop_and_judge(run, &written).await.assert_each_once();
}

#[tokio::test]
async fn columns_come_and_go_between_two_views_on_postgresql() {
    columns_come_and_go_between(Scene::shared(17, "between").await).await;
}

on_every_binlog!(columns_come_and_go_between: "between", shared server, shared kafka);

async fn columns_come_and_go_between(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a snapshot that was killed in the middle, and rows that only the log will have
    scene.send_one_by_one();
    let scene = with_snapshot(scene, "initial");
    let table = scene.database.table().to_owned();
    let spare = format!("ALTER TABLE {table} ADD COLUMN spare INT DEFAULT 7");
    scene.database.execute(&spare).await;
    let mut written = scene.database.bulk_rows(&scene.namespace, 4_000, 100).await;
    scene.init();
    let mut run = scene.start().await;
    sleep(Duration::from_millis(300)).await;
    run.kill9();
    written.add(scene.commit_events(10).await);

    // WHEN the columns change before it goes on
    let alter = format!("ALTER TABLE {table} DROP COLUMN spare, ADD COLUMN more VARCHAR(20)");
    scene.database.execute(&alter).await;
    let mut run = scene.start().await;

    // THEN it goes on behind what was published, with the columns of today
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    assert!(run.log().contains(GOING_ON), "{}", run.tail());
    written.add(scene.commit_events(10).await);
    scene.stop_and_judge(run, &written).await.assert_each();
}

/// PostgreSQL shows an empty table to a snapshot that is older than the file that the table is in.
#[tokio::test]
async fn a_table_that_is_rewritten_where_the_snapshot_begins_is_not_taken_for_empty() {
    // GIVEN a table with rows, and a transaction for which the beginning of a snapshot waits
    let postgres = Postgres::start(17, &[]);
    let network = Proxy::start(postgres.port());
    let mut scene = Scene::on(&postgres, Kafka::shared(), "rewritten").await;
    scene.pipeline.source_url = scene.database.url_through(network.port());
    let scene = with_snapshot(scene, "initial");
    let written = scene.database.bulk_rows(&scene.namespace, 100, 100).await;
    scene.init();
    let open = scene.database.connect().await;
    open.batch_execute("BEGIN; SELECT pg_current_xact_id()")
        .await
        .unwrap();
    let mut run = scene.spawn(&["run"]);
    let temporary =
        "SELECT confirmed_flush_lsn IS NOT NULL FROM pg_replication_slots WHERE temporary";
    until(&scene, temporary, "f").await;

    // WHEN it begins, but hears of it only after the table was rewritten
    network.stop_forwarding();
    open.batch_execute("COMMIT").await.unwrap();
    until(&scene, temporary, "t").await;
    let rewrite = "ALTER TABLE eventlog.events ADD COLUMN at timestamptz DEFAULT clock_timestamp()";
    scene.database.execute(rewrite).await;
    network.forward_again();

    // THEN it begins once more, and finds them
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    assert!(run.log().contains("was rewritten"), "{}", run.tail());
    scene.stop_and_judge(run, &written).await.assert_each_once();
}

async fn until(scene: &Scene<'_>, sql: &str, says: &str) {
    let end = Instant::now() + LIMIT;
    let as_text = format!("SELECT ({sql})::text");
    loop {
        let found = scene.database.ask(&as_text).await;
        if found
            .as_deref()
            .is_some_and(|found| found.starts_with(says))
        {
            return;
        }
        assert!(Instant::now() < end, "{sql}: {found:?}");
        sleep(Duration::from_millis(20)).await;
    }
}
