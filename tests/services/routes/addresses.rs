//! Keys, partitions, times and headers, as a reader of the topic gets them.

use headwater_testkit::Outbox;
use serde_json::Value;

use super::{carrying, messages, text, topic};
use crate::scene::{Event, LIMIT, Scene};

const DATE: &str = "'2026-06-12 03:22:47.000123'";

#[tokio::test]
async fn the_preset_debezium_is_debeziums_message_byte_for_byte() {
    // GIVEN the preset, beside JSON as Debezium's users read it
    let mut scene = Scene::shared(17, "debezium").await;
    scene.pipeline.encode = "format = \"json\"\njson_style = \"debezium\"".into();
    let prefix = topic();
    let routes = format!("[[route]]\npreset = \"debezium\"\ntopic_prefix = \"{prefix}\"\n");
    let mut run = carrying(&mut scene, &routes).await;

    // WHEN an event is committed
    let event = Event::new(&scene.namespace, "w-1", 7);
    let action = "01010101-0101-0101-0101-010101010101";
    let quoted = format!("'{action}'");
    let with = [
        ("action_id", quoted.as_str()),
        ("started_date", DATE),
        ("completion_date", DATE),
        ("event_date", DATE),
    ];
    scene
        .database
        .execute(&scene.insert_with(&event, &with))
        .await;

    // THEN topic, key, headers and value are Debezium's
    let topic = format!("{prefix}.eventlog.events");
    let message = messages(&scene, &topic, 1).await.remove(0);
    run.ask_to_stop().await;
    let id = event.id;
    assert_eq!(text(message.key.as_deref()), format!(r#"{{"id":"{id}"}}"#));
    let mut headers = message
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), text(value.as_deref())));
    for (name, value) in [
        ("connectorLogicalName", prefix.as_str()),
        ("taskId", "0"),
        ("connectorName", "postgresql"),
    ] {
        let name = format!("__debezium.context.{name}");
        assert_eq!(headers.next(), Some((name.as_str(), value.to_owned())));
    }
    let (name, run_id) = headers.next().unwrap();
    assert_eq!((name, run_id.len()), ("__debezium.context.runId", 36));
    assert_eq!(headers.next(), None);
    let namespace = &scene.namespace;
    assert_eq!(
        text(message.value.as_deref()),
        format!(
            r#"{{"id":"{id}","namespace":"{namespace}","action_id":"{action}","action_name":"TestAction","action_params":"{{}}","started_date":1781234567000123,"completion_date":1781234567000123,"model_id":"w-1","model_type":"Wallet","event_type":"WalletChangedEvent","payload":"{{\"seq\": 7}}","event_date":1781234567000123,"delivered":false}}"#
        )
    );
}

#[tokio::test]
async fn keys_go_where_javas_own_producer_puts_them() {
    // GIVEN two topics with the same number of partitions
    let mut scene = Scene::shared(17, "java").await;
    let (ours, theirs) = (topic(), topic());
    for topic in [&ours, &theirs] {
        scene.kafka.create_topic(topic, 7, 1, &[]).await;
    }
    let routes = format!("[[route]]\ntopic = \"{ours}\"\nkey = \"{{model_id}}\"\n");
    let mut run = carrying(&mut scene, &routes).await;

    // WHEN the same keys are written by Headwater and by Kafka's console producer
    let keys: Vec<String> = (0..100)
        .map(|n| format!("key-{n}-{}", "x".repeat(n % 9)))
        .collect();
    let rows = keys
        .iter()
        .map(|key| scene.insert(&Event::new(&scene.namespace, key, 1)));
    let rows: Vec<String> = rows.collect();
    scene.database.execute_each(&rows).await;
    let lines: Vec<String> = keys.iter().map(|key| format!("{key}:v")).collect();
    scene.kafka.administer(&format!(
        "printf '{}\\n' | kafka-console-producer.sh --bootstrap-server {} --topic {theirs} --property parse.key=true --property key.separator=:",
        lines.join("\\n"),
        scene.kafka.brokers(),
    ));

    // THEN each key lies in the same partition of both
    let mut partitions = [Vec::new(), Vec::new()];
    for (topic, found) in [&ours, &theirs].into_iter().zip(&mut partitions) {
        for message in messages(&scene, topic, keys.len()).await {
            found.push((text(message.key.as_deref()), message.partition));
        }
        found.sort();
    }
    run.ask_to_stop().await;
    assert_eq!(partitions[0], partitions[1]);
    let used: std::collections::HashSet<i32> = partitions[0].iter().map(|(_, p)| *p).collect();
    assert_eq!(used.len(), 7, "not all partitions were used");
}

#[tokio::test]
async fn a_partition_a_time_and_headers_come_from_columns() {
    // GIVEN a table with more columns, and a route that uses them
    let mut scene = Scene::shared(17, "columns").await;
    let add = "ALTER TABLE eventlog.events ADD COLUMN shard int, ADD COLUMN headers jsonb, ADD COLUMN traceparent text, ADD COLUMN tracestate text";
    scene.database.execute(add).await;
    let to = topic();
    scene.kafka.create_topic(&to, 3, 1, &[]).await;
    let routes = format!(
        r#"[[route]]
topic = "{to}"
key = "{{payload.customer.id}}"
partition = "{{shard}}"
timestamp = "{{event_date}}"
headers = {{ type = "{{event_type}}", tier = "{{payload.tier}}", constant = "1" }}
headers_from = "headers"
"#
    );
    let mut run = carrying(&mut scene, &routes).await;

    // WHEN an event is committed
    let event = Event::new(&scene.namespace, "k", 1);
    let with = [
        ("event_date", DATE),
        ("shard", "2"),
        ("payload", r#"'{"customer": {"id": "c-9"}, "tier": null}'"#),
        ("headers", r#"'{"a": "b", "n": 1.50, "none": null}'"#),
        ("traceparent", "'00-ab-cd-01'"),
        ("tracestate", "'vendor=1'"),
    ];
    scene
        .database
        .execute(&scene.insert_with(&event, &with))
        .await;

    // THEN a reader gets all of it
    let message = messages(&scene, &to, 1).await.remove(0);
    assert_eq!(
        (message.partition, message.timestamp),
        (2, Some(1_781_234_567_000))
    );
    assert_eq!(text(message.key.as_deref()), "c-9");
    let headers = message.headers.iter();
    let headers: Vec<String> = headers
        .map(|(name, value)| format!("{name}={}", text(value.as_deref())))
        .collect();
    assert_eq!(
        headers,
        [
            "constant=1",
            "type=WalletChangedEvent",
            "a=b",
            "n=1.50",
            "traceparent=00-ab-cd-01",
            "tracestate=vendor=1"
        ]
    );

    // AND a partition that the topic does not have fails the row
    let with = [("shard", "3"), with[2]];
    let event = Event::new(&scene.namespace, "k", 2);
    scene
        .database
        .execute(&scene.insert_with(&event, &with))
        .await;
    assert_eq!(run.ended_within(LIMIT).await, 3);
    let says = run.tail();
    assert!(
        says.contains("unroutable: ") && says.contains("has no partition 3"),
        "{says}"
    );
}

#[tokio::test]
async fn what_cannot_be_routed_stops_the_run_naming_the_column() {
    for (route, told) in [
        ("topic = \"t-{payload.none}\"", "payload.none is null"),
        ("topic = \"t-{payload}\"", "has characters other than"),
        (
            "topic = \"t\"\npartition = \"{event_type}\"",
            "is not a whole number from 0",
        ),
        (
            "topic = \"t\"\ntimestamp = \"{event_type}\"",
            "is no date since 1970",
        ),
    ] {
        let mut scene = Scene::shared(17, "unroutable").await;
        let mut run = carrying(&mut scene, &format!("[[route]]\n{route}\n")).await;
        scene.commit_events(1).await;
        assert_eq!(run.ended_within(LIMIT).await, 3);
        let says = run.tail();
        assert!(
            says.contains("unroutable: ") && says.contains(told),
            "{says}"
        );
    }
}

#[tokio::test]
async fn what_no_row_could_mend_is_told_before_anything_begins() {
    for (route, told) in [
        (
            "topic = \"t\"\nkey = \"{tenent}\"",
            "route.key: no column \"tenent\" in table eventlog.events; there are id, namespace",
        ),
        (
            "topic = \"t {namespace}\"",
            "topic name \"t \" has characters other than letters",
        ),
        (
            "topic = \"t\"\nkey = \"{event_date.year}\"",
            "column event_date holds no JSON",
        ),
    ] {
        let mut scene = Scene::shared(17, "unknown").await;
        scene.pipeline.more = format!("[[route]]\n{route}\n");
        scene.configure();
        for command in ["run", "check", "init", "peek"] {
            let output = scene.headwater.run(&[command]);
            assert_eq!(output.code, 2, "{command}: {}", output.stderr);
            assert!(output.stderr.contains(told), "{command}: {}", output.stderr);
        }
    }
}

#[tokio::test]
async fn init_makes_the_topics_that_present_rows_lead_to_as_they_are_to_be() {
    // GIVEN rows, and a pattern for the topics of the preset
    let mut scene = Scene::shared(17, "topics").await;
    scene.commit_events(3).await;
    let namespace = scene.namespace.clone();
    scene.pipeline.more = format!(
        "[[route]]\npreset = \"ekbatan-routed\"\n[sink.topics.\"ekbatan.{namespace}.*\"]\npartitions = 5\nsettings = {{ \"retention.ms\" = \"777000\" }}\n"
    );
    scene.configure();

    // WHEN init is asked what it would do, and does it
    let plan = scene.headwater.run(&["init", "--dry-run"]);
    let done = scene.headwater.run(&["init"]);

    // THEN it names the topics, and makes those that are missing
    assert_eq!(
        (plan.code, done.code),
        (0, 0),
        "{}{}",
        plan.stderr,
        done.stderr
    );
    for end in ["model.Wallet", "event.WalletChangedEvent"] {
        let topic = format!("ekbatan.{namespace}.{end}");
        assert!(plan.stdout.contains(&topic), "{}", plan.stdout);
        assert!(
            done.stderr.contains(&format!("topic {topic}: created")),
            "{}",
            done.stderr
        );
        assert_eq!(scene.kafka.partitions(&topic).await, 5);
        let config = scene.kafka.topic_config(&topic).await;
        assert_eq!(config["retention.ms"], "777000");
    }
    let again = scene.headwater.run(&["init"]);
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
}

#[tokio::test]
async fn the_preset_ekbatan_routed_sends_each_event_to_its_model_and_its_type() {
    let mut scene = Scene::shared(17, "routed").await;
    let mut run = carrying(&mut scene, "[[route]]\npreset = \"ekbatan-routed\"\n").await;
    let event = Event::new(&scene.namespace, "w", 1);
    let without_model = Event::new(&scene.namespace, "w", 2);
    let nulls = [("model_type", "NULL"), ("model_id", "NULL")];
    let rows = [
        scene.insert(&event),
        scene.insert_with(&without_model, &nulls),
    ];
    scene.database.execute_each(&rows).await;
    let raw = format!("ekbatan.{}", scene.namespace);
    let mut values = Vec::new();
    for (topic, count) in [
        (raw.clone(), 2),
        (format!("{raw}.model.Wallet"), 1),
        (format!("{raw}.event.WalletChangedEvent"), 2),
    ] {
        let messages = messages(&scene, &topic, count).await;
        let of_event = messages.iter().filter(|it| it.key.as_deref() == Some(b"w"));
        values.extend(of_event.map(|it| text(it.value.as_deref())));
    }
    run.ask_to_stop().await;
    assert_eq!(values.len(), 3);
    assert!(values.iter().all(|value| *value == values[0]));
    let value: Value = serde_json::from_str(&values[0]).unwrap();
    assert_eq!(value["id"], event.id.to_string());
}
