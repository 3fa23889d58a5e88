//! The outbox table is changed while its rows are read.

use std::time::Duration;

use headwater_testkit::{Kafka, Mysql, Server, Written};
use tokio::time::sleep;

use super::BinlogScene;
use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

on_every_binlog!(columns_come_and_go_amid_the_stream: "columns", shared server, shared kafka);

async fn columns_come_and_go_amid_the_stream(scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work, on a log that names its columns
    scene.init();
    let mut run = scene.start().await;

    // WHEN columns are added, moved, renamed and dropped between events, read at once or all together after a stop
    let uuid = if scene.database.mysql().server().is_mariadb() {
        "UUID"
    } else {
        "CHAR(36) CHARACTER SET ascii"
    };
    let steps = [
        "ALTER TABLE events ADD COLUMN extra INT NULL AFTER namespace".to_owned(),
        "ALTER TABLE events MODIFY COLUMN payload JSON FIRST, MODIFY COLUMN delivered BOOLEAN NOT NULL AFTER payload"
            .to_owned(),
        "ALTER TABLE events CHANGE COLUMN extra another VARCHAR(300) NULL".to_owned(),
        format!("ALTER TABLE events MODIFY COLUMN id {uuid} NOT NULL FIRST, ADD COLUMN last_one BIT(9) NULL"),
        "ALTER TABLE events MODIFY COLUMN model_id VARCHAR(1000) CHARACTER SET latin1".to_owned(),
        "ALTER TABLE events DROP COLUMN another, DROP COLUMN last_one".to_owned(),
        "RENAME TABLE events TO aside; CREATE TABLE events LIKE aside; DROP TABLE aside".to_owned(),
    ];
    let mut written = scene.commit_events(3).await;
    for (n, step) in steps.iter().enumerate() {
        if n == 3 {
            run.ask_to_stop().await;
        }
        scene.database.execute(step).await;
        written.add(scene.commit_events(3).await);
    }
    let mut run = scene.start().await;

    // THEN nothing is lost, doubled or reordered
    scene.judge(&written).await.assert_exactly_once();

    // WHEN a column that plays a role gets another name, THEN the next row stops the run, and says which is missing
    scene
        .database
        .execute("ALTER TABLE events CHANGE COLUMN payload body JSON")
        .await;
    let event = Event::new(&scene.namespace, "k", 1);
    let mut insert = scene.insert(&event);
    insert = insert.replacen("payload", "body", 1);
    scene.database.execute(&insert).await;
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    assert!(run.log().contains("payload"), "{}", run.tail());
    let verdict = scene.judge(&written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn without_names_in_the_log_a_changed_table_is_refused_on_mysql_9_7() {
    without_names(Server::MySql97, "MINIMAL").await;
}

#[tokio::test]
async fn without_names_in_the_log_a_changed_table_is_refused_on_mariadb_10_11() {
    without_names(Server::MariaDb1011, "NO_LOG").await;
}

#[tokio::test]
async fn without_names_in_the_log_a_changed_table_is_refused_on_mariadb_11_8() {
    without_names(Server::MariaDb118, "MINIMAL").await;
}

/// Some of these would go unnoticed by types and their number.
const CHANGES: [(&str, &str); 4] = [
    (
        "added",
        "ALTER TABLE events ADD COLUMN extra VARCHAR(255) NULL AFTER namespace",
    ),
    (
        "moved among columns of the same type",
        "ALTER TABLE events MODIFY COLUMN extra VARCHAR(255) NULL AFTER action_name",
    ),
    (
        "renamed, and its name given to another",
        "ALTER TABLE events CHANGE COLUMN action_name extra VARCHAR(255) NULL,
            CHANGE COLUMN extra action_name VARCHAR(255) NULL",
    ),
    ("dropped", "ALTER TABLE events DROP COLUMN extra"),
];

async fn without_names(server: Server, metadata: &str) {
    // GIVEN a pipeline on a log that does not name its columns
    let mysql = Mysql::start(server, &[("binlog_row_metadata", metadata)]);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "nameless").await;
    scene.init();
    let check = scene.headwater.run(&["check"]);
    let full = "SET GLOBAL binlog_row_metadata = 'FULL'";
    assert!(check.stdout.contains(full), "{}", check.stdout);
    let mut written = scene.database.bulk_rows(&scene.namespace, 1000, 100).await;
    for (n, (how, change)) in CHANGES.into_iter().enumerate() {
        let mut run = scene.start().await;
        written.add(scene.commit_events(3).await);
        scene.judge(&written).await.assert_exactly_once();

        // WHEN the table is changed and written to, while it is read or not
        if n % 2 == 1 {
            run.ask_to_stop().await;
        }
        scene.database.execute(change).await;
        let event = Event::new(&scene.namespace, "k", 1);
        scene.database.execute(&scene.insert(&event)).await;
        if n % 2 == 1 {
            run = scene.spawn(&["run"]);
        }

        // THEN nobody guesses what its columns are: a person is asked for
        assert_eq!(run.ended_within(LIMIT).await, 3, "{how}: {}", run.tail());
        let said = run.tail();
        for word in ["binlog_row_metadata", "headwater adopt"] {
            assert!(said.contains(word), "{how}: no {word}: {said}");
        }
        let verdict = scene.judge(&written).await;
        verdict.assert_exactly_once();

        // AND it goes on, with the columns as they are now, when it is told to
        let adopt = scene.headwater.run(&["adopt"]);
        assert_eq!(adopt.code, 0, "{how}: {}", adopt.stderr);
    }
    let run = scene.start().await;
    written.add(scene.commit_events(3).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

on_every_binlog!(init_remembers_the_columns_that_its_position_begins_with: "during", own server, shared kafka);

async fn init_remembers_the_columns_that_its_position_begins_with(scene: BinlogScene<'_>) {
    // GIVEN a log that does not name its columns, and an `init` that waits for a prepared transaction
    let mysql = scene.database.mysql();
    let settings = format!(
        "SET GLOBAL binlog_row_metadata = MINIMAL{}",
        if mysql.server().is_mariadb() {
            String::new()
        } else {
            let name = scene.database.name();
            format!("; GRANT XA_RECOVER_ADMIN ON *.* TO '{name}'@'%'")
        }
    );
    mysql.execute(&settings).await;
    let prepare = "CREATE TABLE busy (n INT); XA START 'x'; INSERT INTO busy VALUES (1); XA END 'x'; XA PREPARE 'x'";
    scene.database.execute(prepare).await;
    let mut init = scene.spawn(&["init"]);
    sleep(Duration::from_secs(3)).await;
    assert!(init.is_running(), "it does not wait: {}", init.tail());

    // WHEN the table is changed meanwhile
    let change = "ALTER TABLE events ADD COLUMN extra INT NULL FIRST";
    scene.database.execute(change).await;
    scene.database.execute("XA COMMIT 'x'").await;
    assert_eq!(init.ended_within(LIMIT).await, 0, "{}", init.tail());

    // THEN what is written then can be read
    let run = scene.start().await;
    let written: Written = scene.commit_events(3).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

on_every_binlog!(the_log_learns_to_name_its_columns: "learns", own server, shared kafka);

async fn the_log_learns_to_name_its_columns(scene: BinlogScene<'_>) {
    // GIVEN a pipeline that began on a log that did not name its columns
    let mysql = scene.database.mysql();
    mysql
        .execute("SET GLOBAL binlog_row_metadata = MINIMAL")
        .await;
    scene.init();
    let mut run = scene.start().await;
    let mut written: Written = scene.commit_events(3).await;

    // WHEN it does so from now on, THEN all goes on
    mysql.execute("SET GLOBAL binlog_row_metadata = FULL").await;
    written.add(scene.commit_events(3).await);
    scene.judge(&written).await.assert_exactly_once();

    // WHEN the table is changed, THEN it stops all the same: what it remembers of the columns has to be given up first
    let alter = "ALTER TABLE events ADD COLUMN extra INT NULL FIRST";
    scene.database.execute(alter).await;
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    assert!(run.tail().contains("headwater adopt"), "{}", run.tail());
    let adopt = scene.headwater.run(&["adopt"]);
    assert_eq!(adopt.code, 0, "{}", adopt.stderr);

    // AND after that, changes tell themselves
    let run = scene.start().await;
    scene
        .database
        .execute("ALTER TABLE events DROP COLUMN extra")
        .await;
    written.add(scene.commit_events(3).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}
