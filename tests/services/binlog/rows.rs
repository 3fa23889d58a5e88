//! Rows that only these databases can hold.

use headwater_testkit::{Kafka, Mysql, Server, Written};
use uuid::{Builder, Uuid};

use super::BinlogScene;
use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

#[tokio::test]
async fn uuids_that_end_in_zero_bytes_arrive_whole_on_mariadb_10_11() {
    uuids_arrive_whole(Server::MariaDb1011).await;
}

#[tokio::test]
async fn uuids_that_end_in_zero_bytes_arrive_whole_on_mariadb_11_8() {
    uuids_arrive_whole(Server::MariaDb118).await;
}

async fn uuids_arrive_whole(server: Server) {
    // GIVEN a pipeline at work
    let scene = Scene::binlog(Mysql::shared(server), Kafka::shared(), "uuids").await;
    scene.init();
    let run = scene.start().await;

    // WHEN 1,000 random ids are written, and some that end in 1 to 15 zero bytes, as ids and as ids of actions
    let mut ids: Vec<Uuid> = (0..1000).map(|_| Uuid::new_v4()).collect();
    for zeros in 1..16 {
        let mut bytes = *Builder::from_random_bytes(rand_bytes())
            .into_uuid()
            .as_bytes();
        bytes[16 - zeros..].fill(0);
        ids.push(Uuid::from_bytes(bytes));
    }
    let events: Vec<Event> = (1..)
        .zip(&ids)
        .map(|(seq, id)| Event {
            id: *id,
            ..Event::new(&scene.namespace, "k", seq)
        })
        .collect();
    let inserts: Vec<String> = events
        .iter()
        .map(|event| scene.insert_with(event, &[("action_id", &format!("'{}'", event.id))]))
        .collect();
    scene.database.execute(&inserts.concat()).await;

    // THEN each arrives as it was written
    let written = Written {
        committed: events.iter().map(Event::committed).collect(),
        ..Written::default()
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    for message in scene.consume().await {
        let value: serde_json::Value = serde_json::from_slice(&message.value.unwrap()).unwrap();
        assert_eq!(value["id"], value["action_id"]);
    }
}

fn rand_bytes() -> [u8; 16] {
    *Uuid::new_v4().as_bytes()
}

on_every_binlog!(odd_values_are_published_or_refused_by_rule: "odd", shared server, shared kafka);

async fn odd_values_are_published_or_refused_by_rule(scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work, and an outbox with columns of other types than usual
    let alter = "ALTER TABLE events MODIFY action_name VARCHAR(255) CHARACTER SET latin1, MODIFY started_date DATETIME(3),
        MODIFY completion_date DATETIME NOT NULL, MODIFY model_type TEXT CHARACTER SET utf16,
        MODIFY event_date DATETIME(6) NULL";
    scene.database.execute(alter).await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN what is odd is allowed, THEN it is published as it is
    let event = Event::new(&scene.namespace, "k", 1);
    let odd = [
        ("delivered", "7"),
        ("action_name", "'Grüße'"),
        ("model_type", "'🍀'"),
        ("started_date", "'1969-12-31 23:59:59.999'"),
        ("completion_date", "'1000-01-01 00:00:00'"),
        ("event_date", "'9999-12-31 23:59:59.999999'"),
    ];
    let insert = scene.insert_with(&event, &odd);
    scene.database.execute(&insert).await;
    let written = Written {
        committed: vec![event.committed()],
        ..Written::default()
    };
    scene.judge(&written).await.assert_exactly_once();
    let message = scene.consume().await.remove(0);
    let value: serde_json::Value = serde_json::from_slice(&message.value.unwrap()).unwrap();
    for (name, expected) in [
        ("action_name", "Grüße"),
        ("model_type", "🍀"),
        ("started_date", "1969-12-31T23:59:59.999000Z"),
        ("completion_date", "1000-01-01T00:00:00.000000Z"),
        ("event_date", "9999-12-31T23:59:59.999999Z"),
    ] {
        assert_eq!(value[name], expected, "{name}");
    }
    assert_eq!(value["delivered"], true);

    // WHEN a date is none, THEN the run stops at that row, and says which it is
    let zero = Event::new(&scene.namespace, "k", 2);
    let insert = scene.insert_with(&zero, &[("event_date", "'0000-00-00 00:00:00'")]);
    let sql = format!("SET SESSION sql_mode = ''; {insert}");
    scene.database.execute(&sql).await;
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    let log = run.log();
    assert!(log.contains("event_date"), "{}", run.tail());
    assert!(log.contains(&zero.id.to_string()), "{}", run.tail());
}
