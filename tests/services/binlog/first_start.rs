//! The first start: a position is taken where nothing is before it that is still to be committed.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, Mysql, MysqlDatabase, Server, Written, unique};
use tokio::time::sleep;

use super::transactions::prepare;
use super::{BinlogScene, SOON, WITHOUT_GTIDS};
use crate::lost_log::record;
use crate::scene::{Event, LIMIT, Running, Scene, headwater, on_every_binlog};

on_every_binlog!(what_is_under_way_during_init_is_told_or_carried: "meanwhile", own server, shared kafka);

async fn what_is_under_way_during_init_is_told_or_carried(scene: BinlogScene<'_>) {
    // GIVEN an empty table, and a transaction under way that will put an event into it
    scene.say_nothing_of_existing_rows();
    let event = Event::new(&scene.namespace, "k", 1);
    let writer = scene.database.begin(&scene.insert(&event)).await;

    // WHEN a pipeline begins, and the transaction is committed once `init` has ended, or waits for it
    let mut init = scene.spawn(&["init"]);
    let waits = waits_for_a_lock(&scene.database, &mut init).await;
    writer.commit().await;
    let code = init.ended_within(LIMIT).await;

    // THEN either a person hears of the event, and no position was taken before or after it
    if waits {
        assert_eq!(code, 2, "{}", init.tail());
        assert!(init.tail().contains("1 event"), "{}", init.tail());
        assert!(takes_no_position(&scene).await);
        return;
    }
    // or it is published: the position was taken before it
    assert_eq!(code, 0, "{}", init.tail());
    let mut written = Written {
        committed: vec![event.committed()],
        ..Written::default()
    };
    let run = scene.start().await;
    written.add(scene.commit_events(3).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

/// Whether the command comes to wait for a row that another transaction has locked; else it has ended.
async fn waits_for_a_lock(database: &MysqlDatabase<'_>, init: &mut Running) -> bool {
    let waiting =
        "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    // Each look that comes within 100 ms of the one before is answered out of a cache, which that keeps alive.
    let pause = Duration::from_millis(250);
    let end = Instant::now() + 2 * LIMIT;
    while init.is_running() {
        assert!(
            Instant::now() < end,
            "neither waits nor ends: {}",
            init.tail()
        );
        if database.ask(waiting).await.as_deref() != Some("0") {
            return true;
        }
        sleep(pause).await;
    }
    false
}

/// A record is there before the position is.
async fn takes_no_position(scene: &BinlogScene<'_>) -> bool {
    let record = record(scene).await;
    record.is_none_or(|record| record["position"].is_null())
}

on_every_binlog!(init_waits_for_prepared_transactions: "prepared", own server, shared kafka);

async fn init_waits_for_prepared_transactions(mut scene: BinlogScene<'_>) {
    may_see_prepared_ones(&scene).await;

    // GIVEN an empty table, and a prepared transaction with an event, whose rows are in the log already
    scene.say_nothing_of_existing_rows();
    let [gone, late] = [1, 2].map(|seq| Event::new(&scene.namespace, "k", seq));
    prepare(&scene, "gone", &gone).await;

    // WHEN a pipeline begins, THEN it waits; and begins when the transaction was rolled back
    let mut init = scene.spawn(&["init"]);
    looks_again_and_again(&scene, &mut init).await;
    assert!(takes_no_position(&scene).await);
    scene.database.execute("XA ROLLBACK 'gone'").await;
    assert_eq!(init.ended_within(LIMIT).await, 0, "{}", init.tail());
    let run = scene.start().await;
    let written = Written {
        rolled_back: [gone.id].into(),
        ..scene.commit_events(3).await
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();

    // WHEN another pipeline begins, and the transaction it waits for is committed, THEN a person hears of its event
    scene.database.execute("DELETE FROM events").await;
    scene.pipeline.name = unique("prepared");
    scene.headwater = headwater(&scene.pipeline);
    scene.say_nothing_of_existing_rows();
    prepare(&scene, "late", &late).await;
    let mut init = scene.spawn(&["init"]);
    looks_again_and_again(&scene, &mut init).await;
    scene.database.execute("XA COMMIT 'late'").await;
    assert_eq!(init.ended_within(LIMIT).await, 2, "{}", init.tail());
    assert!(init.tail().contains("1 event"), "{}", init.tail());
    assert!(takes_no_position(&scene).await);
}

/// MariaDB shows them to everybody.
async fn may_see_prepared_ones(scene: &BinlogScene<'_>) {
    if !scene.database.mysql().server().is_mariadb() {
        let user = scene.database.name();
        let grant = format!("GRANT XA_RECOVER_ADMIN ON *.* TO '{user}'@'%'");
        scene.database.execute(&grant).await;
    }
}

/// For prepared transactions, while it runs.
async fn looks_again_and_again(scene: &BinlogScene<'_>, init: &mut Running) {
    let mysql = scene.database.mysql();
    let before = mysql.status("Com_xa_recover").await;
    let end = Instant::now() + LIMIT;
    while mysql.status("Com_xa_recover").await < before + 3 {
        assert!(Instant::now() < end, "it does not look: {}", init.tail());
        assert!(init.is_running(), "it does not wait: {}", init.tail());
        sleep(SOON).await;
    }
}

#[tokio::test]
async fn one_that_may_not_see_prepared_transactions_waits_for_their_rows() {
    // GIVEN an empty table, and a prepared transaction with an event, on a MySQL that does not show it to us
    let mysql = Mysql::start(Server::MySql97, &[]);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "unseen").await;
    scene.say_nothing_of_existing_rows();
    let event = Event::new(&scene.namespace, "k", 1);
    prepare(&scene, "unseen", &event).await;

    // WHEN a pipeline begins, THEN it waits for the row, and tells of it when it is committed
    let mut init = scene.spawn(&["init"]);
    let waits = waits_for_a_lock(&scene.database, &mut init).await;
    assert!(waits, "{}", init.tail());
    scene.database.execute("XA COMMIT 'unseen'").await;
    assert_eq!(init.ended_within(LIMIT).await, 2, "{}", init.tail());
    assert!(init.tail().contains("1 event"), "{}", init.tail());
    assert!(takes_no_position(&scene).await);
}

#[tokio::test]
async fn without_gtids_a_snapshot_needs_the_right_to_lock_and_names_it() {
    // GIVEN rows on a MySQL without GTIDs, and a pipeline that is to publish them first
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let mut scene = Scene::binlog(&mysql, Kafka::shared(), "locking").await;
    let mut written = scene.commit_events(20).await;
    scene.pipeline.snapshot = "initial".into();
    scene.configure();
    let user = scene.database.name();
    let grant = format!("GRANT LOCK TABLES ON `{user}`.* TO '{user}'@'%';");
    let warned = || scene.headwater.run(&["check"]).stdout.contains(&grant);
    assert!(warned());
    scene.init();
    assert!(warned());

    // WHEN its user may not lock the table, THEN a person is asked for the right
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    assert!(run.tail().contains(&grant), "{}", run.tail());

    // AND with it the rows arrive, and what comes after them
    scene.database.execute(&grant).await;
    assert!(!warned());
    let run = scene.start().await;
    written.add(scene.commit_events(20).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    // A snapshot orders its rows by their dates, which are the same here.
    assert!(
        verdict.lost.is_empty() && verdict.doubled.is_empty(),
        "{verdict}"
    );
}

#[tokio::test]
async fn one_that_was_prepared_before_the_beginning_is_not_passed_over() {
    // GIVEN a pipeline that leaves existing rows alone, begun on a MySQL that does not show us a prepared transaction
    let mysql = Mysql::start(Server::MySql97, &[]);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "before").await;
    let early = Event::new(&scene.namespace, "k", 1);
    prepare(&scene, "early", &early).await;
    let init = scene.headwater.run(&["init"]);
    assert_eq!(init.code, 0, "{}", init.stderr);
    assert!(init.stderr.contains("XA_RECOVER_ADMIN"), "{}", init.stderr);
    // (whoever adopts the present position is told the same)
    let adopt = scene.headwater.run(&["adopt"]);
    assert_eq!(adopt.code, 0, "{}", adopt.stderr);
    assert!(
        adopt.stderr.contains("XA_RECOVER_ADMIN"),
        "{}",
        adopt.stderr
    );
    let mut run = scene.start().await;
    let written = scene.commit_events(3).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN that is committed, THEN a person is asked for, since its rows are before the beginning
    scene.database.execute("XA COMMIT 'early'").await;
    scene.commit_events(3).await;
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    let said = run.tail();
    // The log has names in hexadecimal digits: this is "early".
    for word in ["XA COMMIT X'6561726c79'", "headwater adopt"] {
        assert!(said.contains(word), "no {word}: {said}");
    }
    let verdict = scene.judge(&written).await;
    verdict.assert_exactly_once();
}
