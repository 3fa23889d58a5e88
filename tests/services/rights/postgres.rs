//! Nothing is written to anybody's tables, and the role has no more rights than were printed for it.

use std::time::{Duration, Instant};

use headwater_testkit::{Postgres, USER, unique};
use tokio::time::sleep;

use super::{printed, split};
use crate::scene::{LIMIT, Scene};

/// A scene in whose database nobody may do anything by default.
async fn closed(hint: &str) -> Scene<'static> {
    let scene = Scene::shared(17, hint).await;
    let sql = format!(
        "REVOKE ALL ON DATABASE {} FROM PUBLIC;
         REVOKE ALL ON SCHEMA public FROM PUBLIC;",
        scene.database.name()
    );
    scene.database.execute(&sql).await;
    scene
}

/// Lets the pipeline connect as a role that is not there yet, and gives the statements that are printed for it.
fn as_a_new_role(scene: &mut Scene<'_>) -> (String, Vec<String>) {
    let role = unique("reader");
    scene.pipeline.source_url = Postgres::shared(17).url(scene.database.name(), &role);
    scene.configure();
    let (sql, _) = split(printed(scene));
    assert_eq!(sql.len(), 4, "{sql:?}");
    (role, sql)
}

/// A scene whose pipeline connects as a role that was made by the printed statements.
async fn with_the_printed_role(hint: &str) -> (Scene<'static>, String) {
    let mut scene = closed(hint).await;
    let (role, sql) = as_a_new_role(&mut scene);
    scene.database.execute(&sql.join("\n")).await;
    (scene, role)
}

/// The statement that only the table's owner may run, as `init --dry-run` prints it.
fn publication_of(scene: &Scene<'_>) -> String {
    let output = scene.headwater.run(&["init", "--dry-run"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let mut lines = output.stdout.lines();
    let line = lines.find(|line| line.starts_with("CREATE PUBLICATION"));
    line.expect(&output.stdout).to_owned()
}

#[tokio::test]
async fn the_printed_rights_are_enough_and_no_row_is_touched() {
    // GIVEN the printed role, and a publication that the table's owner made as `init --dry-run` says
    let (scene, role) = with_the_printed_role("privileges").await;
    let publication = publication_of(&scene);
    let as_owner = format!("SET ROLE {USER}; {publication}");
    scene.database.execute(&as_owner).await;

    // WHEN every command is used, THEN each works, and the rows are as they were
    every_command_leaves_the_rows_alone(scene, &role).await;
}

#[tokio::test]
async fn each_of_the_printed_rights_is_missed_by_name() {
    let mut scene = closed("lacking").await;
    let as_owner = format!("SET ROLE {USER}; {}", publication_of(&scene));
    scene.database.execute(&as_owner).await;
    for lacking in 0..4 {
        // GIVEN a role with all of the printed rights but one
        let (role, mut sql) = as_a_new_role(&mut scene);
        let missed = match lacking {
            // Without a role there is nothing to grant.
            0 => {
                sql[0] = sql[0].replace(" REPLICATION", "");
                format!("ALTER ROLE \"{role}\" REPLICATION;")
            }
            other => sql.remove(other),
        };
        scene.database.execute(&sql.join("\n")).await;

        // WHEN it looks, THEN it names the one
        let check = scene.headwater.run(&["check"]);
        assert!(check.stdout.contains("mend: "), "{check:?}");
        let mends = check.stdout.lines().filter(|line| line.contains("mend: "));
        let mends: Vec<&str> = mends.filter(|line| line.contains(&missed)).collect();
        assert!(!mends.is_empty(), "no \"{missed}\": {check:?}");

        // WHEN it needs the one, THEN it is told the same
        let needs = if lacking < 2 { "init" } else { "peek" };
        let output = scene.headwater.run(&[needs]);
        assert_eq!(output.code, 3, "{output:?}");
        assert!(output.stderr.contains(&missed), "{missed}: {output:?}");
    }
}

#[tokio::test]
async fn the_owners_rights_are_not_used_on_rows() {
    // GIVEN the table's owner, who could write
    let scene = Scene::shared(17, "owner").await;

    // WHEN every command is used, THEN each works, and the rows are as they were
    every_command_leaves_the_rows_alone(scene, USER).await;
}

#[tokio::test]
async fn init_names_the_statement_that_its_role_may_not_run() {
    // GIVEN the printed role, and no publication
    let (scene, _) = with_the_printed_role("unpublished").await;
    let publication = publication_of(&scene);

    // WHEN init is called, THEN it says what the owner has to run
    let output = scene.headwater.run(&["init"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains(&publication), "{}", output.stderr);

    // WHEN the owner has run it, THEN init goes on
    let as_owner = format!("SET ROLE {USER}; {publication}");
    scene.database.execute(&as_owner).await;
    scene.init();
    let run = scene.start().await;
    let written = scene.commit_events(3).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

async fn every_command_leaves_the_rows_alone(scene: Scene<'static>, role: &str) {
    let earlier = scene.commit_events(2).await;
    let before = rows(&scene).await;
    scene.init();
    scene.init();
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
    let peek = scene.headwater.run(&["peek"]);
    assert_eq!(peek.code, 0, "{}", peek.stderr);
    for event in &earlier.committed {
        assert!(peek.stdout.contains(&event.id.to_string()));
    }
    assert_eq!(rows(&scene).await, before);

    let written = scene.commit_events(5).await;
    let before = rows(&scene).await;
    let run = scene.start().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    let adopt = scene.headwater.run(&["adopt"]);
    assert_eq!(adopt.code, 0, "{}", adopt.stderr);
    assert_eq!(rows(&scene).await, before);
    assert_eq!(counted(&scene, role, 7).await, "eventlog.events 7 0 0");
    assert_eq!(scene.consume().await.len(), 5);
}

/// Every row with who wrote it and where it lies: an UPDATE changes both, even one that changes no value.
async fn rows(scene: &Scene<'_>) -> String {
    let sql = "SELECT string_agg(concat_ws(' ', xmin, xmax, ctid, events), E'\n' ORDER BY id) FROM eventlog.events";
    scene.database.ask(sql).await.expect("there are rows")
}

/// What the server counted for every table of the database: inserts, updates, deletes. Counts arrive when a session ends:
/// the role's are waited for, and those of whoever inserted.
async fn counted(scene: &Scene<'_>, role: &str, inserted: u32) -> String {
    let sessions = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}' AND datname = '{}'",
        scene.database.name()
    );
    let counts = "SELECT string_agg(concat_ws(' ', schemaname || '.' || relname, n_tup_ins, n_tup_upd, n_tup_del), ', ')
        FROM pg_stat_user_tables";
    let inserts = "SELECT sum(n_tup_ins) FROM pg_stat_user_tables";
    let end = Instant::now() + LIMIT;
    while scene.database.ask(&sessions).await.as_deref() != Some("0")
        || scene.database.ask(inserts).await != Some(inserted.to_string())
    {
        assert!(Instant::now() < end, "the counts do not arrive");
        sleep(Duration::from_millis(50)).await;
    }
    scene.database.ask(counts).await.expect("there are tables")
}
