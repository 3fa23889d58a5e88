//! A row that cannot be published stops the run before it, and the next start stands before the same row.

mod binlog;

use headwater_testkit::{Outbox, Written, unique};

use super::{BY_LEAVES, with_publication};
use crate::scene::{Event, LIMIT, Scene, headwater};

/// A way to write events, and its words for what cannot be written.
struct Format {
    /// The lines of `[encode]`.
    encode: &'static str,
    /// A file, and what is in it around the namespace.
    schema: Option<(&'static str, [&'static str; 2])>,
    not_an_object: &'static str,
    not_json: &'static str,
    no_type: &'static str,
}

const JSON: Format = Format {
    encode: "format = \"json\"",
    schema: None,
    not_an_object: "payload is not a JSON object",
    not_json: "payload is not a JSON object",
    no_type: "column event_type is empty",
};

const AVRO: Format = Format {
    encode: "format = \"avro\"\nschemas = [\"changed.avsc\"]",
    schema: Some((
        "changed.avsc",
        [
            r#"{"type": "record", "name": "WalletChangedEvent", "namespace": ""#,
            r#".avro", "fields": [{"name": "seq", "type": "long"}]}"#,
        ],
    )),
    not_an_object: "not a JSON object",
    not_json: "Failed to encode payload",
    no_type: ".avro.: add its file to encode.schemas",
};

const PROTOBUF: Format = Format {
    encode: "format = \"protobuf\"\nschemas = [\"changed.proto\"]",
    schema: Some((
        "changed.proto",
        [
            "syntax = \"proto3\"; package ",
            ".proto; message WalletChangedEvent { int64 seq = 1; }",
        ],
    )),
    not_an_object: "message object",
    not_json: "Failed to encode payload",
    no_type: ".proto.: add its file to encode.schemas",
};

impl Format {
    fn put_schema(&self, scene: &Scene<'_, impl Outbox>) {
        if let Some((file, [before, after])) = self.schema {
            let text = format!("{before}{}{after}", scene.namespace);
            std::fs::write(scene.headwater.folder().join(file), text).unwrap();
        }
    }
}

/// What is odd about a row, and the words in which the run must tell it.
struct Case {
    column: &'static str,
    expression: &'static str,
    says: &'static str,
}

fn case(column: &'static str, expression: &'static str, says: &'static str) -> Case {
    Case {
        column,
        expression,
        says,
    }
}

/// In a table whose columns all may be null.
async fn lenient(format: &Format) -> Scene<'static> {
    let mut scene = Scene::shared(17, "failures").await;
    let required = [
        "id",
        "namespace",
        "action_id",
        "action_name",
        "action_params",
        "started_date",
        "completion_date",
        "event_date",
        "delivered",
    ];
    let nullable = required.map(|column| format!("ALTER COLUMN {column} DROP NOT NULL"));
    let sql = format!(
        "ALTER TABLE eventlog.events DROP CONSTRAINT events_pkey, {}",
        nullable.join(", ")
    );
    scene.database.execute(&sql).await;
    format.encode.clone_into(&mut scene.pipeline.encode);
    scene
}

async fn each_stops_the_run(format: &Format, cases: impl IntoIterator<Item = Case>) {
    each_stops(&mut lenient(format).await, format, cases).await;
}

async fn each_stops(
    scene: &mut Scene<'_, impl Outbox>,
    format: &Format,
    cases: impl IntoIterator<Item = Case>,
) {
    for case in cases {
        stands_before(scene, format, &case).await;
    }
}

async fn stands_before(scene: &mut Scene<'_, impl Outbox>, format: &Format, case: &Case) {
    // GIVEN a pipeline of its own
    scene.pipeline.name = unique("failures");
    scene.headwater = headwater(&scene.pipeline);
    format.put_schema(scene);
    scene.init();

    // WHEN an odd row is committed between two good ones
    let key = unique("k");
    let [before, odd, after] = [1, 2, 3].map(|seq| Event::new(&scene.namespace, &key, seq));
    let statements = [
        scene.insert(&before),
        scene.insert_with(&odd, &[(case.column, case.expression)]),
        scene.insert(&after),
    ];
    scene.database.execute_each(&statements).await;

    // THEN each start ends with code 3, and says which row and why
    let about = format!("{} {}", case.column, case.expression);
    let id = match case.column {
        "id" => "with id without-id-".to_owned(),
        _ => odd.id.to_string(),
    };
    for _ in 0..2 {
        let mut run = scene.spawn(&["run"]);
        assert_eq!(run.ended_within(LIMIT).await, 3, "{about}");
        let log = run.log();
        assert!(log.contains(case.says), "{about}: {}", case.says);
        assert!(log.contains(&id), "{about}: no id");
    }
    // and what is before it was published, and nothing else
    let arrived: Vec<Vec<u8>> = scene
        .consume()
        .await
        .into_iter()
        .filter_map(|m| m.value)
        .collect();
    let has = |event: &Event| {
        let id = event.id.to_string();
        arrived
            .iter()
            .any(|v| String::from_utf8_lossy(v).contains(&id))
    };
    assert!(has(&before), "{about}: the row before it is lost");
    assert!(!has(&odd), "{about}: it was published");
    assert!(!has(&after), "{about}: it was passed over");
}

#[tokio::test]
async fn a_null_where_a_message_needs_a_value_stops_the_run() {
    nulls_stop(&JSON).await;
}

async fn nulls_stop(format: &Format) {
    each_stops_the_run(format, nulls()).await;
}

fn nulls() -> [Case; 10] {
    [
        case("id", "NULL", "column id is null"),
        case("namespace", "NULL", "column namespace is null or blank"),
        case("action_id", "NULL", "column action_id is null"),
        case("action_name", "NULL", "column action_name is null"),
        case("action_params", "NULL", "column action_params is null"),
        case("started_date", "NULL", "column started_date is null"),
        case("completion_date", "NULL", "column completion_date is null"),
        case(
            "payload",
            "NULL",
            "column payload is null in an event of type",
        ),
        case("event_date", "NULL", "column event_date is null"),
        case("delivered", "NULL", "column delivered is null"),
    ]
}

#[tokio::test]
async fn a_payload_that_is_no_object_stops_the_run() {
    payloads_stop(&JSON).await;
}

async fn payloads_stop(format: &Format) {
    each_stops_the_run(format, no_objects(format)).await;
}

fn no_objects(format: &Format) -> [Case; 5] {
    let payloads = ["'null'", "'[1, 2]'", "'7.5'", "'\"text\"'", "'true'"];
    payloads.map(|payload| case("payload", payload, format.not_an_object))
}

#[tokio::test]
async fn a_payload_that_is_no_json_stops_the_run() {
    texts_stop(&JSON).await;
}

async fn texts_stop(format: &Format) {
    let mut scene = lenient(format).await;
    let text = "ALTER TABLE eventlog.events ALTER COLUMN payload TYPE text";
    scene.database.execute(text).await;
    each_stops(&mut scene, format, no_json(format)).await;
}

fn no_json(format: &Format) -> [Case; 3] {
    let payloads = ["''", "'{\"seq\": 2'", "'no json'"];
    payloads.map(|payload| case("payload", payload, format.not_json))
}

#[tokio::test]
async fn a_name_that_names_nothing_stops_the_run() {
    names_stop(&JSON).await;
}

async fn names_stop(format: &Format) {
    let cases = [
        case("namespace", "''", "column namespace is null or blank"),
        case("namespace", "E' \\t'", "column namespace is null or blank"),
        case("event_type", "''", format.no_type),
    ];
    each_stops_the_run(format, cases).await;
}

#[tokio::test]
async fn a_date_that_no_message_can_carry_stops_the_run() {
    dates_stop(&JSON).await;
}

async fn dates_stop(format: &Format) {
    let cases = [
        case(
            "started_date",
            "'infinity'",
            "column started_date is infinity",
        ),
        case(
            "completion_date",
            "'294276-12-31 23:59:59'",
            "column completion_date is too far from 1970",
        ),
        case(
            "event_date",
            "'-infinity'",
            "column event_date is -infinity",
        ),
    ];
    each_stops_the_run(format, cases).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_stops_the_run() {
    // Not to be compressed, so that it is larger than a broker takes in whatever form it is sent.
    let noise = "(SELECT jsonb_build_object('seq', 2, 'noise', string_agg(md5(random()::text), ''))
        FROM generate_series(1, 70000))";
    each_stops_the_run(&JSON, [case("payload", noise, "too_large")]).await;
}

#[tokio::test]
async fn a_column_of_another_type_than_a_message_needs_stops_the_run() {
    types_stop(&JSON).await;
}

async fn types_stop(format: &Format) {
    for (column, kind, value, says) in [
        ("event_type", "int", "7", "must be text, and is a number"),
        (
            "payload",
            "boolean",
            "true",
            "must be text, and is a boolean",
        ),
        (
            "event_date",
            "text",
            "'now'",
            "must be a date and time, and is text",
        ),
        ("delivered", "text", "'t'", "must be a boolean, and is text"),
        (
            "action_id",
            "bytea",
            "'\\x0102'",
            "holds 2 bytes; only 16 are a uuid",
        ),
    ] {
        // GIVEN a table that has one
        let scene = lenient(format).await;
        scene.configure();
        let alter = format!(
            "ALTER TABLE eventlog.events ALTER COLUMN {column} TYPE {kind} USING NULL::{kind}"
        );
        scene.database.execute(&alter).await;
        scene.init();
        // WHEN a row is written, THEN each start ends with code 3 and names the column
        let odd = Event::new(&scene.namespace, "k", 1);
        let insert = odd.insert_with(&[(column, value)]);
        scene.database.execute(&insert).await;
        stands_before_the_first(&scene, &odd, &format!("column {column} {says}")).await;
    }
}

/// The row is all there is.
async fn stands_before_the_first(scene: &Scene<'_, impl Outbox>, odd: &Event, says: &str) {
    for _ in 0..2 {
        let mut run = scene.spawn(&["run"]);
        assert_eq!(run.ended_within(LIMIT).await, 3, "{says}");
        let log = run.log();
        assert!(log.contains(says), "no {says}: {log}");
        assert!(log.contains(&odd.id.to_string()), "{says}: no id");
    }
    let count = scene.kafka.message_count(scene.topic()).await;
    assert_eq!(count, 0, "{says}: it was published");
}

#[tokio::test]
async fn nothing_else_about_a_sentinel_matters() {
    sentinels_pass(&JSON).await;
}

async fn sentinels_pass(format: &Format) {
    // GIVEN a publication that sends sentinels too
    let mut scene = lenient(format).await;
    with_publication(&mut scene, BY_LEAVES).await;
    scene.init();
    let run = scene.start().await;

    // WHEN sentinels hold what no message could
    let [first, second, event] = [1, 2, 3].map(|seq| Event::new(&scene.namespace, "k", seq));
    let odd = [
        ("event_type", "NULL"),
        ("started_date", "'infinity'"),
        ("namespace", "''"),
    ];
    let null = |column| (column, "NULL");
    let empty = ["event_type", "namespace", "action_params", "event_date"].map(null);
    for sql in [
        first.insert_with(&odd),
        second.insert_with(&empty),
        event.insert(),
    ] {
        scene.database.execute(&sql).await;
    }

    // THEN they are skipped like any other
    let written = Written {
        committed: vec![event.committed()],
        sentinels: [first.id, second.id].into(),
        ..Written::default()
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn the_same_columns_stop_a_run_that_writes_avro() {
    nulls_stop(&AVRO).await;
    dates_stop(&AVRO).await;
}

#[tokio::test]
async fn the_same_columns_stop_a_run_that_writes_protobuf() {
    nulls_stop(&PROTOBUF).await;
    dates_stop(&PROTOBUF).await;
}

#[tokio::test]
async fn what_does_not_fit_its_schema_stops_a_run_that_writes_avro() {
    let wrong = "LONG needs a number, got STRING (\"two\")";
    what_does_not_fit_stops(&AVRO, wrong, ".avro.Nobody: add its file").await;
}

#[tokio::test]
async fn what_does_not_fit_its_schema_stops_a_run_that_writes_protobuf() {
    what_does_not_fit_stops(&PROTOBUF, "int64", ".proto.Nobody: add its file").await;
}

async fn what_does_not_fit_stops(format: &Format, wrong: &'static str, unknown: &'static str) {
    payloads_stop(format).await;
    texts_stop(format).await;
    names_stop(format).await;
    let cases = [
        case("payload", "'{\"seq\": \"two\"}'", wrong),
        case(
            "payload",
            "'{\"seq\": \"two\"}'",
            "WalletChangedEvent.seq: ",
        ),
        case("payload", "'{\"seq\": 2.5}'", "WalletChangedEvent.seq: "),
        case("event_type", "'Nobody'", unknown),
    ];
    each_stops_the_run(format, cases).await;
}

#[tokio::test]
async fn a_row_that_was_delivered_already_is_published_like_any_other() {
    // GIVEN a pipeline at work
    let scene = Scene::ready(17, "failures").await;
    let run = scene.start().await;
    // WHEN a row is inserted that in-process handlers have seen
    let event = Event::new(&scene.namespace, "k", 1);
    let insert = event.insert_with(&[("delivered", "true")]);
    scene.database.execute(&insert).await;
    // THEN it arrives, and says so
    let written = Written {
        committed: vec![event.committed()],
        ..Written::default()
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    let value = scene.consume().await.remove(0).value.unwrap();
    let value: serde_json::Value = serde_json::from_slice(&value).unwrap();
    assert_eq!(value["delivered"], true);
}
