//! What is an event and what is not: inserts of events are published as they are, everything else is passed by rule, and
//! nothing is passed over without one.

mod columns;
mod failures;
mod message;

use headwater_testkit::{Load, MysqlDatabase, Outbox, Written};

use crate::scene::{Event, Scene, on_every_binlog};

/// Publications as they are found in the wild, made by somebody else.
const EVERYTHING: &str = "CREATE PUBLICATION theirs FOR ALL TABLES";
const EVERYTHING_BY_ROOTS: &str =
    "CREATE PUBLICATION theirs FOR ALL TABLES WITH (publish_via_partition_root = true)";
const BY_LEAVES: &str = "CREATE PUBLICATION theirs FOR TABLE eventlog.events";

/// A pipeline that uses the publication which `sql` makes.
async fn with_publication(scene: &mut Scene<'_>, sql: &str) {
    scene.database.execute(sql).await;
    scene.pipeline.source.push_str("publication = \"theirs\"");
    scene.configure();
}

#[tokio::test]
async fn only_inserted_events_are_published_through_our_publication() {
    let scene = Scene::shared(17, "skips").await;
    only_inserted_events_are_published(scene).await;
}

#[tokio::test]
async fn only_inserted_events_are_published_though_all_operations_of_all_tables_come() {
    let mut scene = Scene::shared(17, "skips").await;
    with_publication(&mut scene, EVERYTHING).await;
    only_inserted_events_are_published(scene).await;
}

on_every_binlog!(only_inserts_are_events: "skips", shared server, shared kafka);

async fn only_inserts_are_events(scene: Scene<'_, MysqlDatabase<'_>>) {
    only_inserted_events(scene, mysql_steps).await;
}

async fn only_inserted_events_are_published(scene: Scene<'_>) {
    only_inserted_events(scene, postgres_steps).await;
}

/// Events that are inserted, whatever becomes of their rows; a sentinel; and one that is in no outbox.
struct Cast {
    events: [Event; 5],
    sentinel: Event,
    other: Event,
}

async fn only_inserted_events<'a, D: Outbox>(
    scene: Scene<'a, D>,
    steps: fn(&Scene<'a, D>, &Cast) -> Vec<String>,
) {
    // GIVEN a pipeline at work
    scene.init();
    let run = scene.start().await;

    // WHEN all that can happen to a table happens to the outbox and to its neighbours
    let event = |seq| Event::new(&scene.namespace, "k", seq);
    let cast = Cast {
        events: [1, 2, 3, 4, 5].map(event),
        sentinel: event(6),
        other: event(7),
    };
    scene.database.execute_each(&steps(&scene, &cast)).await;

    // THEN the inserted events arrive, once each, whatever became of their rows
    let written = Written {
        committed: cast.events.iter().map(Event::committed).collect(),
        sentinels: [cast.sentinel.id].into(),
        rolled_back: [cast.other.id].into(),
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

fn update(table: &str, event: &Event) -> String {
    format!(
        "UPDATE {table} SET delivered = true WHERE id = '{}';",
        event.id
    )
}

fn delete(table: &str, event: &Event) -> String {
    format!("DELETE FROM {table} WHERE id = '{}';", event.id)
}

/// A sentinel that an UPDATE makes look like an event is still no insert.
fn disguise(table: &str, sentinel: &Event) -> String {
    format!(
        "UPDATE {table} SET event_type = 'x', payload = '{{}}' WHERE id = '{}'",
        sentinel.id
    )
}

fn postgres_steps(scene: &Scene<'_>, cast: &Cast) -> Vec<String> {
    let [first, second, third, fourth, fifth] = &cast.events;
    let (sentinel, other) = (&cast.sentinel, &cast.other);
    let table = scene.database.table();
    let again = |e: &Event, action: &str| {
        let insert = e.insert();
        format!(
            "{} ON CONFLICT (id) DO {action};",
            insert.trim_end_matches(';')
        )
    };
    vec![
        first.insert(),
        sentinel.insert_sentinel(),
        update(table, first),
        disguise(table, sentinel),
        delete(table, first),
        "CREATE TABLE public.events (LIKE eventlog.events INCLUDING ALL)".to_owned(),
        "CREATE TABLE eventlog.events_archive (LIKE eventlog.events INCLUDING ALL)".to_owned(),
        other.insert_into("public.events", &[]),
        other.insert_into("eventlog.events_archive", &[]),
        "SELECT pg_logical_emit_message(false, 'test', 'not in a transaction')".to_owned(),
        "SELECT pg_logical_emit_message(true, 'test', 'in a transaction')".to_owned(),
        format!(
            "BEGIN; {} {} SELECT pg_logical_emit_message(true, 'test', 'amid'); {} {} COMMIT",
            second.insert(),
            update(table, second),
            delete(table, second),
            third.insert()
        ),
        again(third, "NOTHING"),
        again(third, "UPDATE SET delivered = true"),
        "TRUNCATE eventlog.events".to_owned(),
        fourth.insert(),
        format!(
            "BEGIN; TRUNCATE eventlog.events, public.events; {} COMMIT",
            fifth.insert()
        ),
        format!("BEGIN; {} ROLLBACK", other.insert()),
        update(table, fifth),
    ]
}

fn mysql_steps(scene: &Scene<'_, MysqlDatabase<'_>>, cast: &Cast) -> Vec<String> {
    let [first, second, third, fourth, fifth] = &cast.events;
    let (sentinel, other) = (&cast.sentinel, &cast.other);
    let table = scene.database.table();
    let insert = |event: &Event| scene.insert(event);
    let again = insert(third);
    let again = again.trim_end_matches(';');
    vec![
        insert(first),
        sentinel.insert_sentinel_into(table),
        update(table, first),
        disguise(table, sentinel),
        delete(table, first),
        "CREATE TABLE events_archive LIKE events".to_owned(),
        "CREATE TABLE loose LIKE events".to_owned(),
        "ALTER TABLE loose ENGINE = MyISAM".to_owned(),
        other.insert_into("events_archive", &[]),
        other.insert_into("loose", &[]),
        format!(
            "BEGIN; {} {} {} {} COMMIT",
            insert(second),
            update(table, second),
            delete(table, second),
            insert(third)
        ),
        again.replacen("INSERT", "INSERT IGNORE", 1),
        format!("{again} ON DUPLICATE KEY UPDATE delivered = true"),
        "CREATE TRIGGER archived AFTER INSERT ON events FOR EACH ROW DELETE FROM events_archive WHERE id = NEW.id".to_owned(),
        "TRUNCATE events".to_owned(),
        insert(fourth),
        "DROP TRIGGER archived".to_owned(),
        format!("BEGIN; DELETE FROM events; {} COMMIT", insert(fifth)),
        format!("BEGIN; {} ROLLBACK", insert(other)),
        format!(
            "BEGIN; SAVEPOINT s; {} ROLLBACK TO SAVEPOINT s; COMMIT",
            insert(other)
        ),
        update(table, fifth),
        "CREATE TEMPORARY TABLE passing LIKE events".to_owned(),
        other.insert_into("passing", &[]),
    ]
}

#[tokio::test]
async fn a_partitioned_outbox_is_read_through_our_publication() {
    let scene = Scene::shared(17, "parts").await;
    make_partitioned(&scene).await;
    a_partitioned_outbox_is_read(scene).await;
}

#[tokio::test]
async fn a_partitioned_outbox_is_read_though_its_rows_come_under_the_leaves_names() {
    let mut scene = Scene::shared(17, "parts").await;
    make_partitioned(&scene).await;
    with_publication(&mut scene, BY_LEAVES).await;
    a_partitioned_outbox_is_read(scene).await;
}

#[tokio::test]
async fn a_partitioned_outbox_is_read_among_all_tables() {
    let mut scene = Scene::shared(15, "parts").await;
    make_partitioned(&scene).await;
    with_publication(&mut scene, EVERYTHING_BY_ROOTS).await;
    a_partitioned_outbox_is_read(scene).await;
}

/// By date, with the present in one partition.
async fn make_partitioned(scene: &Scene<'_>) {
    let sql = "ALTER TABLE eventlog.events RENAME TO plain;
        CREATE TABLE eventlog.events (LIKE eventlog.plain, PRIMARY KEY (id, event_date)) PARTITION BY RANGE (event_date);
        DROP TABLE eventlog.plain;
        CREATE TABLE eventlog.events_present PARTITION OF eventlog.events FOR VALUES FROM (MINVALUE) TO ('2100-01-01');
        ALTER TABLE eventlog.events OWNER TO headwater; ALTER TABLE eventlog.events_present OWNER TO headwater;";
    scene.database.execute(sql).await;
}

async fn a_partitioned_outbox_is_read(mut scene: Scene<'_>) {
    // GIVEN a pipeline at work
    scene.init();
    let run = scene.start().await;
    let load = Load {
        transactions: Some(20),
        ..Load::new(&scene.another_namespace("load").await, 1)
    };
    let load = load.start(&scene.database.url());

    // WHEN partitions are attached while it works: one that was a table of its own with its columns in another order, and
    // one that has partitions itself
    let attach = "
        CREATE TABLE eventlog.attached (gone int, delivered BOOLEAN NOT NULL, event_date TIMESTAMP NOT NULL,
            payload JSONB, event_type VARCHAR(255), model_type VARCHAR(255), model_id VARCHAR(255),
            completion_date TIMESTAMP NOT NULL, started_date TIMESTAMP NOT NULL, action_params JSONB NOT NULL,
            action_name VARCHAR(255) NOT NULL, action_id UUID NOT NULL, namespace VARCHAR(255) NOT NULL, id UUID NOT NULL);
        ALTER TABLE eventlog.attached DROP COLUMN gone;
        ALTER TABLE eventlog.events ATTACH PARTITION eventlog.attached FOR VALUES FROM ('2100-01-01') TO ('2200-01-01');
        CREATE TABLE eventlog.nested PARTITION OF eventlog.events FOR VALUES FROM ('2200-01-01') TO ('2300-01-01')
            PARTITION BY HASH (id);
        CREATE TABLE eventlog.nested_0 PARTITION OF eventlog.nested FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE eventlog.nested_1 PARTITION OF eventlog.nested FOR VALUES WITH (MODULUS 2, REMAINDER 1);";
    scene.database.execute(attach).await;
    let mut written = Written::default();
    let mut sql = String::new();
    for seq in 1..=12 {
        let event = Event::new(&scene.namespace, "k", seq);
        let date = ["now()", "'2150-06-01'", "'2250-06-01'"][usize::try_from(seq).unwrap() % 3];
        sql += &event.insert_with(&[("event_date", date)]);
        sql += "TRUNCATE eventlog.nested;";
        written.committed.push(event.committed());
    }
    // In one transaction, so that its rows come from many relations.
    scene.database.execute(&sql).await;
    let straight = Event::new(&scene.namespace, "straight", 1);
    scene
        .database
        .execute(&straight.insert_into("eventlog.attached", &[("event_date", "'2150-07-01'")]))
        .await;
    written.committed.push(straight.committed());

    // THEN nothing is lost, doubled, reordered or foreign
    written.add(load.finish().await);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn events_of_a_partition_that_was_dropped_before_they_were_read_arrive() {
    let scene = Scene::shared(17, "parts").await;
    make_partitioned(&scene).await;
    events_of_a_dropped_partition_arrive(scene).await;
}

#[tokio::test]
async fn events_of_a_leaf_that_was_dropped_before_they_were_read_arrive() {
    let mut scene = Scene::shared(17, "parts").await;
    make_partitioned(&scene).await;
    with_publication(&mut scene, BY_LEAVES).await;
    events_of_a_dropped_partition_arrive(scene).await;
}

#[tokio::test]
async fn events_of_a_leaf_among_all_tables_that_was_dropped_before_they_were_read_arrive() {
    // GIVEN a publication through which a partition's rows look like any other table's
    let mut scene = Scene::shared(17, "parts").await;
    make_partitioned(&scene).await;
    with_publication(&mut scene, EVERYTHING).await;
    events_of_a_dropped_partition_arrive(scene).await;
}

async fn events_of_a_dropped_partition_arrive(scene: Scene<'_>) {
    // GIVEN a pipeline that is not at work
    scene.init();
    // WHEN a partition goes before its event was read
    let event = short_lived_partition(&scene).await;
    let run = scene.start().await;
    // THEN the event arrives
    let verdict = scene.stop_and_judge(run, &event).await;
    verdict.assert_exactly_once();
}

/// A partition comes, gets an event, and goes.
async fn short_lived_partition(scene: &Scene<'_>) -> Written {
    let event = Event::new(&scene.namespace, "k", 1);
    let make = "CREATE TABLE eventlog.short PARTITION OF eventlog.events FOR VALUES FROM ('2100-01-01') TO ('2200-01-01')";
    scene.database.execute(make).await;
    scene
        .database
        .execute(&event.insert_with(&[("event_date", "'2150-06-01'")]))
        .await;
    scene.database.execute("DROP TABLE eventlog.short").await;
    Written {
        committed: vec![event.committed()],
        ..Written::default()
    }
}
