//! Many writers at once: whatever they commit arrives once, in each key's commit order, and nothing else does.

use headwater_testkit::{Load, bulk_rows};

#[path = "scene.rs"]
pub mod scene;

use scene::Scene;

#[tokio::test]
async fn every_commit_arrives_once_and_in_order_on_postgres_15() {
    every_commit_arrives_once_and_in_order(15).await;
}

#[tokio::test]
async fn every_commit_arrives_once_and_in_order_on_postgres_17() {
    every_commit_arrives_once_and_in_order(17).await;
}

#[tokio::test]
async fn every_commit_arrives_once_and_in_order_on_postgres_18() {
    every_commit_arrives_once_and_in_order(18).await;
}

async fn every_commit_arrives_once_and_in_order(version: u32) {
    // GIVEN a pipeline at work, and a server that decodes all but the smallest transactions through files
    let mut scene = Scene::shared(version, "writers").await;
    let little_memory = format!(
        "ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'",
        scene.database.name()
    );
    scene.database.execute(&little_memory).await;
    scene.init();
    let run = scene.start().await;

    // WHEN writers mix multi-row transactions, COPY, savepoints and rollbacks, small ones and large ones
    let seed = u64::from(version) * 1000;
    let small = Load {
        writers: 6,
        transactions: Some(100),
        ..Load::new(&scene.namespace, seed)
    };
    let large = Load {
        writers: 2,
        transactions: Some(10),
        rows: 800,
        ..Load::new(&scene.another_namespace("large").await, seed + 500)
    };
    let url = scene.database.url();
    let (small, large) = (small.start(&url), large.start(&url));
    let client = scene.database.connect().await;
    let mut written = bulk_rows(&client, &scene.namespace, 3000, 100).await;
    written.add(small.finish().await);
    written.add(large.finish().await);
    assert!(!written.rolled_back.is_empty() && !written.sentinels.is_empty());

    // THEN nothing is lost, doubled, reordered or foreign
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}
