//! Columns are found by their names, in the definition that the table had when the row was written.

use std::time::Duration;

use headwater_testkit::{Load, Written};
use serde_json::Value;
use tokio::time::sleep;

use super::{BY_LEAVES, with_publication};
use crate::scene::{Event, LIMIT, Scene};

#[tokio::test]
async fn columns_are_added_dropped_and_moved_while_events_flow() {
    // GIVEN a pipeline at work under load
    let scene = Scene::ready(17, "columns").await;
    let run = scene.start().await;
    let load = Load {
        rate: Some(300),
        ..Load::new(&scene.namespace, 3)
    };
    let load = load.start(&scene.database.url());

    // WHEN the table is altered again and again
    let alterations = [
        "ADD COLUMN note text NOT NULL DEFAULT 'n'",
        "ADD COLUMN place point DEFAULT '(1,2)'",
        "ADD COLUMN prices money[] DEFAULT '{1.50,NULL}'",
        "DROP COLUMN note",
        "ALTER COLUMN action_name TYPE text",
        "DROP COLUMN model_type, ADD COLUMN model_type VARCHAR(255)",
        "DROP COLUMN delivered, ADD COLUMN delivered BOOLEAN NOT NULL DEFAULT false",
        // The table's file is written anew, which is no insert of all its rows.
        "ALTER COLUMN started_date TYPE timestamptz USING started_date AT TIME ZONE 'UTC'",
        "ADD COLUMN total interval GENERATED ALWAYS AS ('1 day') STORED",
        "ALTER COLUMN payload TYPE json",
        "DROP COLUMN place, DROP COLUMN prices",
    ];
    for alteration in alterations {
        load.wait_for(load.events() + 20, LIMIT).await;
        let sql = format!("ALTER TABLE eventlog.events {alteration}");
        scene.database.execute(&sql).await;
    }
    sleep(Duration::from_millis(300)).await;

    // THEN nothing is lost, doubled, reordered or foreign
    let written = load.stop().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn a_column_whose_type_has_no_binary_form_does_not_matter() {
    // GIVEN a pipeline at work
    let scene = Scene::ready(17, "columns").await;
    let run = scene.start().await;
    let mut written = scene.commit_events(1).await;

    // WHEN a column is added whose elements the server can only print as text
    let sql = "ALTER TABLE eventlog.events ADD COLUMN grants aclitem[] DEFAULT '{=r/postgres}'";
    scene.database.execute(sql).await;
    written.add(scene.commit_events(2).await);

    // THEN events arrive as before; another way to read them may need a new connection, and that some come again
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

#[tokio::test]
async fn rows_are_read_by_the_columns_they_had_when_they_were_written() {
    // GIVEN a pipeline that is not at work
    let scene = Scene::ready(17, "columns").await;

    // WHEN events are written between alterations, also within one transaction, and types are dropped again
    let events: Vec<Event> = (1..=8)
        .map(|seq| Event::new(&scene.namespace, "k", seq))
        .collect();
    let insert = |n: usize| events[n - 1].insert();
    let alter = |what: &str| format!("ALTER TABLE eventlog.events {what}");
    let steps = [
        insert(1),
        "CREATE TYPE eventlog.pair AS (a int, b text)".to_owned(),
        alter("ADD COLUMN extra eventlog.pair DEFAULT ROW(1, 'x')"),
        insert(2),
        format!(
            "BEGIN; {} {}; {} COMMIT",
            insert(3),
            alter("DROP COLUMN extra"),
            insert(4)
        ),
        "DROP TYPE eventlog.pair".to_owned(),
        "CREATE TYPE eventlog.model AS ENUM ('Wallet', 'Account')".to_owned(),
        "CREATE DOMAIN eventlog.name AS varchar(100) CHECK (VALUE <> '')".to_owned(),
        alter("ALTER COLUMN model_type TYPE eventlog.model USING model_type::eventlog.model"),
        alter("ALTER COLUMN action_name TYPE eventlog.name"),
        insert(5),
        alter("DROP COLUMN payload, ADD COLUMN payload JSONB"),
        insert(6),
        alter("ALTER COLUMN payload TYPE text"),
        insert(7),
        alter("ALTER COLUMN id TYPE varchar(36)"),
        insert(8),
    ];
    for step in &steps {
        scene.database.execute(step).await;
    }
    let run = scene.start().await;

    // THEN they all arrive, and are all alike
    let written = Written {
        committed: events.iter().map(Event::committed).collect(),
        ..Written::default()
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    for message in scene.consume().await {
        let value: Value = serde_json::from_slice(&message.value.unwrap()).unwrap();
        assert_eq!(value["model_type"], "Wallet", "{value}");
        assert_eq!(value["action_name"], "TestAction", "{value}");
        assert_eq!(
            value["payload"].as_object().map(serde_json::Map::len),
            Some(1),
            "{value}"
        );
    }
}

#[tokio::test]
async fn a_table_that_lost_a_role_column_stops_the_run_naming_it() {
    for column in [
        "id",
        "namespace",
        "action_params",
        "started_date",
        "event_type",
        "payload",
        "delivered",
    ] {
        stops_without(column).await;
    }
}

async fn stops_without(column: &str) {
    // GIVEN a pipeline at work
    let mut scene = Scene::shared(17, "columns").await;
    with_publication(&mut scene, BY_LEAVES).await;
    scene.init();
    let mut run = scene.start().await;
    let before = scene.commit_events(1).await;

    // WHEN a column that a message needs is dropped, and a row is written
    let drop = format!("ALTER TABLE eventlog.events DROP COLUMN {column}");
    scene.database.execute(&drop).await;
    let without = Event::new(&scene.namespace, "k", 1).insert_without(&[column]);
    scene.database.execute(&without).await;

    // THEN the run ends with code 3 and names it, and so does the next
    let says = format!("has no column {column}");
    assert_eq!(run.ended_within(LIMIT).await, 3, "{column}");
    assert!(run.log().contains(&says), "{column}");
    let mut next = scene.spawn(&["run"]);
    assert_eq!(next.ended_within(LIMIT).await, 3, "{column}");
    assert!(next.log().contains(&says), "{column}");
    scene.judge(&before).await.assert_at_least_once();
}

#[tokio::test]
async fn a_table_without_the_models_columns_is_published_with_nulls() {
    // GIVEN a table that never had models
    let scene = Scene::shared(17, "columns").await;
    let drop = "ALTER TABLE eventlog.events DROP COLUMN model_id, DROP COLUMN model_type";
    scene.database.execute(drop).await;
    scene.init();
    let mut run = scene.start().await;
    // WHEN a row is written
    let event = Event::new(&scene.namespace, "k", 1);
    let insert = event.insert_without(&["model_id", "model_type"]);
    scene.database.execute(&insert).await;
    // THEN it arrives without a model, under its action's key
    assert!(scene.kafka.wait_for_messages(scene.topic(), 1, LIMIT).await);
    run.ask_to_stop().await;
    let message = scene.consume().await.remove(0);
    let value: Value = serde_json::from_slice(&message.value.unwrap()).unwrap();
    assert_eq!(value["id"], event.id.to_string());
    assert_eq!(
        (&value["model_id"], &value["model_type"]),
        (&Value::Null, &Value::Null)
    );
    let key = String::from_utf8(message.key.unwrap()).unwrap();
    assert_eq!(value["action_id"], key);
}
