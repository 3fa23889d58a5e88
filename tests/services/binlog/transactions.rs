//! Transactions of other shapes: prepared ones, a row of 20 MB, one that comes as a statement, GTIDs with tags and none.

use std::time::Duration;

use headwater_testkit::{Kafka, Mysql, Outbox, Server, Written};
use tokio::time::sleep;

use super::{BinlogScene, WITHOUT_GTIDS};
use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

on_every_binlog!(prepared_transactions_count_when_they_are_committed: "xa", own server, shared kafka);

async fn prepared_transactions_count_when_they_are_committed(scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work
    scene.init();
    let run = scene.start().await;
    let event = |seq| Event::new(&scene.namespace, "k", seq);
    let [late, gone, between, once, after] = [3, 9, 1, 2, 4].map(event);

    // WHEN one transaction is prepared and committed after others, one is rolled back, and one has one phase
    prepare(&scene, "late", &late).await;
    prepare(&scene, "gone", &gone).await;
    scene.database.execute(&scene.insert(&between)).await;
    let one_phase = format!(
        "XA START 'once'; {} XA END 'once'; XA COMMIT 'once' ONE PHASE",
        scene.insert(&once)
    );
    scene.database.execute(&one_phase).await;
    let early = Written {
        committed: vec![between.committed(), once.committed()],
        ..Written::default()
    };
    scene.judge(&early).await.assert_exactly_once();
    scene.database.execute("XA ROLLBACK 'gone'").await;
    scene.database.execute("XA COMMIT 'late'").await;
    scene.database.execute(&scene.insert(&after)).await;

    // THEN each arrives when it is committed, and what was rolled back never does
    let mut written = Written {
        committed: [between, once, late, after]
            .iter()
            .map(Event::committed)
            .collect(),
        rolled_back: [gone.id].into(),
        ..Written::default()
    };
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();

    // AND also when it ends between a PREPARE and its COMMIT; it then reads a part again
    let [open, undone, meanwhile, last] = [5, 10, 6, 8].map(event);
    let mut run = scene.start().await;
    prepare(&scene, "open", &open).await;
    prepare(&scene, "undone", &undone).await;
    let other = Event {
        key: "other".into(),
        ..meanwhile
    };
    scene.database.execute(&scene.insert(&other)).await;
    written.committed.push(other.committed());
    scene.judge(&written).await.assert_exactly_once();
    run.kill9();
    scene.database.execute("XA ROLLBACK 'undone'").await;
    scene.database.execute("XA COMMIT 'open'").await;
    scene.database.execute(&scene.insert(&last)).await;
    written
        .committed
        .extend([open.committed(), last.committed()]);
    written.rolled_back.insert(undone.id);
    let run = scene.start().await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

on_every_binlog!(a_stop_waits_for_no_prepared_transaction: "xastop", own server, shared kafka);

async fn a_stop_waits_for_no_prepared_transaction(scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work, a prepared transaction with an event, and others behind it
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(3).await;
    let open = Event::new(&scene.namespace, "k", 1);
    prepare(&scene, "open", &open).await;
    written.add(scene.commit_events(3).await);
    scene.judge(&written).await.assert_exactly_once();

    // WHEN it is asked to stop, THEN it does not wait for that one's end, and tells what this costs
    run.ask_to_stop().await;
    let log = run.log();
    assert!(!log.contains("took too long"), "{log}");
    assert!(log.contains("these messages will come again"), "{log}");
    assert!(log.contains("again=3"), "{log}");

    // AND whatever becomes of it then, nothing is lost or reordered
    let mut run = scene.start().await;
    run.ask_to_stop().await;
    scene.database.execute("XA COMMIT 'open'").await;
    written.committed.push(open.committed());
    written.add(scene.commit_events(3).await);
    let run = scene.start().await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

/// In a session that ends: another may commit what it prepared.
pub async fn prepare(scene: &BinlogScene<'_>, name: &str, event: &Event) {
    let insert = scene.insert(event);
    let sql = format!("XA START '{name}'; {insert} XA END '{name}'; XA PREPARE '{name}'");
    scene.database.execute(&sql).await;
    // MariaDB gives it to others only once the session has ended.
    sleep(Duration::from_millis(300)).await;
}

on_every_binlog!(large_prepared_transactions_wait_for_their_end_too: "bigxa", own server, shared kafka);

async fn large_prepared_transactions_wait_for_their_end_too(scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work
    scene.init();
    let mut run = scene.start().await;
    let event = |seq| Event::new(&scene.namespace, "k", seq);
    let mut written = Written::default();

    // WHEN one of 2 MiB is rolled back, and others are prepared: of 2 MiB, and of more than can be held
    let gone = prepare_many(&scene, "gone", 40).await;
    scene.database.execute("XA ROLLBACK 'gone'").await;
    let undone = prepare_many(&scene, "undone", 400).await;
    let open = prepare_many(&scene, "open", 40).await;
    let huge = prepare_many(&scene, "huge", 400).await;
    let rolled_back = gone.iter().chain(&undone).map(|event| event.id);
    written.rolled_back = rolled_back.collect();

    // THEN nothing of them comes before its end, also in a run that had to begin anew
    for seq in 1..=2 {
        let between = event(seq);
        scene.database.execute(&scene.insert(&between)).await;
        written.committed.push(between.committed());
        scene.judge(&written).await.assert_at_least_once();
        run.kill9();
        run = scene.start().await;
    }

    // AND what is committed arrives
    scene.database.execute("XA ROLLBACK 'undone'").await;
    for (name, events) in [("open", &open), ("huge", &huge)] {
        scene.database.execute(&format!("XA COMMIT '{name}'")).await;
        written
            .committed
            .extend(events.iter().map(Event::committed));
        scene.judge(&written).await.assert_at_least_once();
    }
    let once = many(&scene, "once", 400);
    let inserts: String = once.iter().map(|event| wide(&scene, event)).collect();
    let sql = format!("XA START 'once'; {inserts} XA END 'once'; XA COMMIT 'once' ONE PHASE");
    scene.database.execute(&sql).await;
    written.committed.extend(once.iter().map(Event::committed));
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

fn many(scene: &BinlogScene<'_>, key: &str, count: i64) -> Vec<Event> {
    let event = |seq| Event::new(&scene.namespace, key, seq);
    (1..=count).map(event).collect()
}

/// Of 50 kB.
fn wide(scene: &BinlogScene<'_>, event: &Event) -> String {
    let params = r#"CONCAT('{"x": "', REPEAT('x', 50000), '"}')"#;
    scene.insert_with(event, &[("action_params", params)])
}

async fn prepare_many(scene: &BinlogScene<'_>, name: &str, count: i64) -> Vec<Event> {
    let events = many(scene, name, count);
    let inserts: String = events.iter().map(|event| wide(scene, event)).collect();
    let sql = format!("XA START '{name}'; {inserts} XA END '{name}'; XA PREPARE '{name}'");
    scene.database.execute(&sql).await;
    sleep(Duration::from_millis(300)).await;
    events
}

on_every_binlog!(a_row_of_20_megabytes_is_read: "large", shared server, shared kafka);

async fn a_row_of_20_megabytes_is_read(scene: BinlogScene<'_>) {
    // GIVEN an outbox with a column that is no event's
    scene
        .database
        .execute("ALTER TABLE events ADD COLUMN attachment LONGBLOB AFTER namespace")
        .await;
    scene.init();
    let run = scene.start().await;

    // WHEN it holds more than a packet of the protocol can
    let [before, large, after] = [1, 2, 3].map(|seq| Event::new(&scene.namespace, "k", seq));
    let attachment = [("attachment", "REPEAT('x', 20000000)")];
    let statements = [
        scene.insert(&before),
        scene.insert_with(&large, &attachment),
        scene.insert(&after),
    ];
    scene.database.execute_each(&statements).await;

    // THEN all arrive
    let written = Written {
        committed: [before, large, after]
            .iter()
            .map(Event::committed)
            .collect(),
        ..Written::default()
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

on_every_binlog!(a_statement_where_rows_are_wanted_stops_the_run: "words", shared server, shared kafka);

async fn a_statement_where_rows_are_wanted_stops_the_run(scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work
    scene.init();
    let mut run = scene.start().await;
    let written = scene.commit_events(3).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN a session writes to the outbox by statements
    let event = Event::new(&scene.namespace, "k", 1);
    let sql = format!(
        "SET SESSION binlog_format = STATEMENT; {}",
        scene.insert(&event)
    );
    scene.database.execute(&sql).await;

    // THEN nothing is passed over: a person is asked for, and told what it is about
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    let log = run.log();
    assert!(log.contains("binlog_format"), "{log}");
    let verdict = scene.judge(&written).await;
    verdict.assert_exactly_once();

    // AND behind the statement it goes on, with everything that was committed since
    let mut written = written;
    let behind = if scene.database.mysql().server().is_mariadb() {
        "SELECT @@global.gtid_binlog_pos"
    } else {
        "SELECT @@global.gtid_executed"
    };
    let behind = scene.database.ask(behind).await.unwrap();
    written.add(scene.commit_events(3).await);
    let output = scene.headwater.run(&["adopt", "--at", &behind]);
    assert_eq!(output.code, 0, "adopt: {}", output.stderr);
    let run = scene.start().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

on_every_binlog!(init_waits_only_for_what_was_prepared_before_it: "traffic", own server, shared kafka);

async fn init_waits_only_for_what_was_prepared_before_it(scene: BinlogScene<'_>) {
    // GIVEN a server on which at every moment some transaction is prepared
    scene.database.execute("CREATE TABLE busy (n INT)").await;
    if !scene.database.mysql().server().is_mariadb() {
        let grant = format!(
            "GRANT XA_RECOVER_ADMIN ON *.* TO '{}'@'%'",
            scene.database.name()
        );
        scene.database.execute(&grant).await;
    }
    let beginning = async {
        sleep(Duration::from_secs(1)).await;

        // WHEN a pipeline begins, THEN it does not wait for a moment without any, and nothing is missing
        let mut init = scene.spawn(&["init"]);
        assert_eq!(init.ended_within(LIMIT).await, 0, "{}", init.tail());
        let run = scene.start().await;
        let written = scene.commit_events(10).await;
        let verdict = scene.stop_and_judge(run, &written).await;
        verdict.assert_exactly_once();
    };
    tokio::select! {
        () = beginning => {}
        () = traffic(&scene) => {}
    }
}

/// Each is committed after the next one was prepared.
async fn traffic(scene: &BinlogScene<'_>) {
    for n in 1_u64.. {
        let sql = format!(
            "XA START 'n{n}'; INSERT INTO busy VALUES (1); XA END 'n{n}'; XA PREPARE 'n{n}'"
        );
        scene.database.execute(&sql).await;
        sleep(Duration::from_millis(300)).await;
        if n > 1 {
            let sql = format!("XA COMMIT 'n{}'", n - 1);
            scene.database.execute(&sql).await;
        }
    }
}

#[tokio::test]
async fn tagged_gtids_and_none_at_all_are_resumed() {
    // GIVEN a pipeline on a MySQL whose transactions have tags
    let mysql = Mysql::start(Server::MySql97, &[]);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "tags").await;
    scene.init();
    let mut run = scene.start().await;
    let mut written = Written::default();
    let mut seq = 0;
    let mut tagged = async |tag: &str| {
        seq += 1;
        let event = Event::new(&scene.namespace, "k", seq);
        let insert = scene.insert(&event);
        let sql = format!("SET GTID_NEXT = 'AUTOMATIC{tag}'; {insert}");
        scene.database.execute(&sql).await;
        event.committed()
    };

    // WHEN it is stopped and started between them
    for _ in 0..2 {
        for tag in [":shop", "", ":other"] {
            written.committed.push(tagged(tag).await);
        }
        scene.judge(&written).await.assert_exactly_once();
        run.ask_to_stop().await;
        written.committed.push(tagged(":shop").await);
        run = scene.start().await;
    }

    // THEN nothing is lost, doubled or reordered
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
}

#[tokio::test]
async fn a_gtid_mode_that_is_lowered_while_it_runs_is_followed() {
    // GIVEN a pipeline at work on a MySQL with GTIDs
    let mysql = Mysql::start(Server::MySql97, &[]);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "lowered").await;
    scene.init();
    let run = scene.start().await;
    let mut written = scene.commit_events(5).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN transactions come to have none, which the server does not send to whoever reads by GTIDs
    for mode in ["ON_PERMISSIVE", "OFF_PERMISSIVE"] {
        let set = format!("SET GLOBAL gtid_mode = {mode}");
        mysql.execute(&set).await;
        written.add(scene.commit_events(5).await);
    }

    // THEN the same process reads on by files and offsets
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
}

#[tokio::test]
async fn without_gtids_the_place_in_the_file_is_remembered() {
    // GIVEN a MySQL without GTIDs
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "none").await;
    scene.init();
    let mut run = scene.start().await;
    let mut written = Written::default();

    // WHEN it is stopped and started, and the log goes on in another file
    for _ in 0..3 {
        written.add(scene.commit_events(10).await);
        scene.judge(&written).await.assert_exactly_once();
        run.ask_to_stop().await;
        written.add(scene.commit_events(10).await);
        mysql.execute("FLUSH BINARY LOGS").await;
        written.add(scene.commit_events(10).await);
        run = scene.start().await;
    }

    // THEN nothing is lost, doubled or reordered
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
}
