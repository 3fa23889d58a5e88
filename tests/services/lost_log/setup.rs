//! What is missing or wrong in the database: exit 3, with the SQL or the setting that mends it; and `check` finds it too.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_testkit::{Database, Kafka, PASSWORD, Postgres, USER, unique};
use serde_json::Value;
use tokio::time::sleep;

use super::{adopts, drop_slot, goes_on, refuses, that_has_run};
use crate::scene::{LIMIT, Scene};

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let (mut scene, mut written) = that_has_run("password").await;
    let right = scene.pipeline.source_url.clone();
    scene.pipeline.source_url = right.replace(PASSWORD, "wr0ng");
    scene.configure();
    for command in ["run", "check"] {
        refuses(&scene, command, &["password", USER, "password_file"]);
    }
    scene.pipeline.source_url = right;
    scene.configure();
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn a_missing_table_is_named() {
    let (scene, mut written) = that_has_run("table").await;
    let hide = "ALTER TABLE eventlog.events RENAME TO hidden";
    scene.database.execute(hide).await;
    let words = ["eventlog.events", scene.database.name(), "source.table"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    let found = "ALTER TABLE eventlog.hidden RENAME TO events";
    scene.database.execute(found).await;
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn a_missing_publication_is_named() {
    // GIVEN a pipeline at work
    let scene = Scene::ready(17, "publication").await;
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN its publication is dropped, and an event comes
    let publication = scene.pipeline.slot();
    let drop = format!("DROP PUBLICATION {publication}");
    scene.database.execute(&drop).await;
    let _gap = scene.commit_events(1).await;

    // THEN a person is asked for, now and at every start
    let code = run.ended_within(Duration::from_secs(20)).await;
    assert_eq!(code, 3, "{}", run.tail());
    assert!(run.tail().contains(&publication), "{}", run.tail());
    let words = ["publication", &publication, "does not exist"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);

    // AND a new one, which the slot could not use, is not made beside the old slot
    refuses(&scene, "init", &[&publication, "pg_drop_replication_slot"]);
    drop_slot(&scene).await;
    scene.init();
    adopts(&scene);
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn a_role_that_may_not_replicate_is_told_how_to() {
    // GIVEN a role of its own, which may replicate at first
    let mut scene = Scene::shared(17, "role").await;
    let role = unique("role");
    let make = format!(
        "CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{PASSWORD}';
         GRANT {USER} TO {role};"
    );
    scene.database.execute(&make).await;
    scene.pipeline.source_url = scene.pipeline.source_url.replace(USER, &role);
    scene.configure();
    scene.init();
    let mut written = super::has_run(&scene).await;

    // WHEN it may no longer, THEN the SQL that mends it is told
    let forbid = format!("ALTER ROLE {role} NOREPLICATION");
    scene.database.execute(&forbid).await;
    let words = ["ALTER ROLE", &role, "REPLICATION"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);

    // AND it mends it
    let allow = format!("ALTER ROLE {role} REPLICATION");
    scene.database.execute(&allow).await;
    goes_on(&scene, &mut written).await;
    let tidy = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    scene.database.execute(&tidy).await;
}

#[tokio::test]
async fn a_server_without_logical_decoding_is_told_the_setting() {
    let postgres = Postgres::start(17, &[("wal_level", "replica")]);
    let scene = Scene::on(&postgres, Kafka::shared(), "replica").await;
    let words = ["wal_level", "ALTER SYSTEM SET wal_level = 'logical'"];
    refuses(&scene, "init", &words);
    refuses(&scene, "check", &words);

    // AND the setting mends it
    let root = postgres.connect("postgres").await;
    let mend = "ALTER SYSTEM SET wal_level = 'logical'";
    root.batch_execute(mend).await.unwrap();
    drop(root);
    postgres.restart();
    scene.init();
}

#[tokio::test]
async fn a_slot_of_another_database_is_not_taken() {
    // GIVEN a pipeline whose slot is gone, and one of the same name in another database
    let (scene, _) = that_has_run("ours").await;
    let other = scene.database.postgres().database("theirs").await;
    let slot = scene.pipeline.slot();
    drop_slot(&scene).await;
    make_slot(&other, &slot).await;

    // WHEN it is started, THEN the other database is named
    let words = [&slot, other.name(), "source.slot"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    refuses(&scene, "adopt", &words);

    // AND a new pipeline does not take it either
    let mut new = Scene::shared(17, "new").await;
    new.pipeline.source = format!("slot = \"{slot}\"");
    new.configure();
    refuses(&new, "init", &words);
}

async fn make_slot(database: &Database<'_>, slot: &str) {
    let make = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    database.execute(&make).await;
}

#[tokio::test]
async fn a_slot_that_a_stranger_reads_is_not_waited_for() {
    // GIVEN a pipeline whose slot is being read by another program
    let (scene, mut written) = that_has_run("stranger").await;
    let slot = scene.pipeline.slot();
    let stranger = Stranger::reads(&scene.database, &slot).await;

    // WHEN it is started, THEN the stranger is named, at once
    let begun = Instant::now();
    let words = [&slot, "pg_recvlogical", "source.slot"];
    refuses(&scene, "run", &words);
    assert!(begun.elapsed() < Duration::from_secs(10), "it waited");
    refuses(&scene, "check", &words);

    // AND when the stranger is gone, and took nothing, it goes on
    drop(stranger);
    slot_is_held(&scene.database, &slot, false).await;
    goes_on(&scene, &mut written).await;
}

/// `pg_recvlogical`, reading without ever confirming; killed when dropped.
struct Stranger(Child);

impl Stranger {
    async fn reads(database: &Database<'_>, slot: &str) -> Self {
        let folder = "SELECT setting FROM pg_config() WHERE name = 'BINDIR'";
        let folder = database.ask(folder).await.expect("the server's folder");
        let url = database.postgres().url(database.name(), "postgres");
        let child = Command::new(format!("{folder}/pg_recvlogical"))
            .args(["--start", "--no-loop", "--file=-", "--dbname", &url])
            .args(["--slot", slot, "-o", "proto_version=1", "-o"])
            .arg(format!("publication_names={slot}"))
            .args(["--status-interval=0", "--fsync-interval=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pg_recvlogical starts");
        let stranger = Self(child);
        slot_is_held(database, slot, true).await;
        stranger
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn slot_is_held(database: &Database<'_>, slot: &str, held: bool) {
    let sql = format!("SELECT active::text FROM pg_replication_slots WHERE slot_name = '{slot}'");
    let end = Instant::now() + LIMIT;
    while database.ask(&sql).await != Some(held.to_string()) {
        assert!(Instant::now() < end, "slot {slot}: active is not {held}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn check_tells_problems_as_json_too() {
    let scene = Scene::shared(17, "bare").await;
    let output = scene.headwater.run(&["check", "--format", "json"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let findings: Vec<Value> = serde_json::from_str(&output.stdout).expect("JSON");
    let problems: Vec<&Value> = findings
        .iter()
        .filter(|finding| finding["level"] == "problem")
        .collect();
    for missing in ["publication", "slot", "positions topic"] {
        let told = problems.iter().any(|finding| {
            let what = finding["what"].as_str().unwrap_or_default();
            let mend = finding["mend"].as_str().unwrap_or_default();
            what.contains(missing) && mend.contains("headwater init")
        });
        assert!(told, "{missing} is not told: {}", output.stdout);
    }
}
