//! Columns that no role has reach the message, from the log and from the table alike, whatever else the table holds.

use headwater_testkit::{MysqlDatabase, Outbox};

use super::{carrying, messages, text, topic};
use crate::scene::{Event, Scene, on_every_binlog};

fn insert(scene: &Scene<'_, impl Outbox>, key: &str) -> String {
    let event = Event::new(&scene.namespace, key, 1);
    let with = [
        ("tenant", "'ten-\u{e4}'"),
        ("shard", "42"),
        ("extra", r#"'{"a": {"b": "c"}}'"#),
    ];
    scene.insert_with(&event, &with)
}

async fn extra_columns(mut scene: Scene<'_, impl Outbox>, add: &[&str]) {
    // GIVEN a table with columns of its own, also of odd types, and a row that is there already
    let table = scene.database.table().to_owned();
    let alter = |column: &&str| format!("ALTER TABLE {table} ADD COLUMN {column}");
    let alter: Vec<String> = add.iter().map(alter).collect();
    scene.database.execute_each(&alter).await;
    let existing = insert(&scene, "table");
    scene.database.execute(&existing).await;

    // WHEN a snapshot reads it, and the log brings another
    let to = topic();
    scene.pipeline.snapshot = "initial".into();
    let routes = format!(
        "[[route]]\ntopic = \"{to}\"\nkey = \"{{model_id}}/{{tenant}}/{{shard}}/{{extra.a.b}}\"\n"
    );
    let mut run = carrying(&mut scene, &routes).await;
    messages(&scene, &to, 1).await;
    let new = insert(&scene, "log");
    scene.database.execute(&new).await;

    // THEN both have the columns' values
    let all = messages(&scene, &to, 2).await;
    run.ask_to_stop().await;
    let mut keys: Vec<String> = all.iter().map(|it| text(it.key.as_deref())).collect();
    keys.sort();
    assert_eq!(keys, ["log/ten-\u{e4}/42/c", "table/ten-\u{e4}/42/c"]);
    // AND people see them too
    let peek = scene.headwater.run(&["peek"]);
    assert!(
        peek.stdout.contains("table/ten-\u{e4}/42/c"),
        "{}",
        peek.stdout
    );
}

#[tokio::test]
async fn columns_of_no_role_reach_the_message_on_postgresql() {
    let add = [
        "tenant varchar(20)",
        "shard bigint",
        "extra jsonb",
        "odd point DEFAULT '(1,2)'",
        "odder int4range[] DEFAULT '{\"[1,2)\"}'",
        "money money DEFAULT 1.5",
    ];
    extra_columns(Scene::shared(17, "extra").await, &add).await;
}

on_every_binlog!(columns_of_no_role_reach_the_message: "extra", shared server, shared kafka);

async fn columns_of_no_role_reach_the_message(scene: Scene<'_, MysqlDatabase<'_>>) {
    let add = [
        "tenant varchar(20) CHARACTER SET utf8mb4",
        "shard bigint",
        "extra json",
        "odd point",
        "odder bit(7) DEFAULT b'1010101'",
        "oddest year DEFAULT 2026",
        "dec_value decimal(10,3) DEFAULT 1.5",
        "kind enum('a','b') DEFAULT 'b'",
    ];
    extra_columns(scene, &add).await;
}
