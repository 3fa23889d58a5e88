//! What `check` says of a standby before it is needed.

use headwater_testkit::Postgres;

use super::Pair;
use crate::scene::Scene;

#[tokio::test]
async fn check_says_what_a_standby_lacks_until_it_could_take_over_on_postgres_17() {
    check_says_what_a_standby_lacks_until_it_could_take_over(17).await;
}

#[tokio::test]
async fn check_says_what_a_standby_lacks_until_it_could_take_over_on_postgres_18() {
    check_says_what_a_standby_lacks_until_it_could_take_over(18).await;
}

async fn check_says_what_a_standby_lacks_until_it_could_take_over(version: u32) {
    // GIVEN a slot that is for its primary alone, as others make them, and a standby
    let pair = Pair::start(version, false);
    let scene = pair.scene("lacks").await;
    scene.init();
    let slot = scene.pipeline.slot();
    let alter = |how: &str| format!("ALTER_REPLICATION_SLOT {slot} (FAILOVER {how})");
    psql(&scene, &alter("false"));

    // WHEN each thing is mended as `check` says, THEN it asks for the next
    let mended = says(&scene, "is no failover slot");
    assert!(mended.contains(&alter("true")), "{mended}");
    psql(&scene, &alter("true"));

    let mended = says(&scene, "synchronized_standby_slots is empty");
    mend(&pair.primary, &mended).await;

    pair.primary.set("synchronous_standby_names", "*").await;
    says(&scene, "Headwater's own session is a standby");
    pair.primary.set("synchronous_standby_names", "").await;

    let mended = says(&scene, "keeps no copy of slot");
    assert!(!mended.contains("primary_slot_name"), "{mended}");
    mend(&pair.standby, &mended).await;
    let run = scene.start().await;
    pair.standby.keeps_slot(&slot, &pair.primary).await;

    // AND then nothing lacks any more
    let output = scene.headwater.run(&["check"]);
    println!("{}", output.stdout);
    let fine = [
        "is a failover slot, and is sent only what the standby behind slot standby has".to_owned(),
        format!(
            "standby 127.0.0.1:{} keeps a copy of slot {slot}, at ",
            pair.standby.port()
        ),
    ];
    for fine in fine {
        assert!(output.stdout.contains(&fine), "{}", output.stdout);
    }
    let rest = [
        "own session",
        "synchronized_standby_slots names",
        "failover slot:",
        "keeps no",
    ];
    assert!(
        rest.iter().all(|it| !output.stdout.contains(it)),
        "{}",
        output.stdout
    );
    drop(run);

    // WHEN the standby is gone, THEN that nothing is sent without it is told, and that it could not be asked
    pair.standby.stop_fast();
    let gone = "SELECT FROM pg_replication_slots WHERE slot_name = 'standby' AND NOT active";
    pair.primary.until(gone).await;
    says(
        &scene,
        "synchronized_standby_slots names slot standby, which nobody reads",
    );
    says(&scene, "could not be asked whether it keeps a copy");
}

/// The rest of the output after this warning: what mends it.
#[track_caller]
fn says(scene: &Scene<'_>, warning: &str) -> String {
    let output = scene.headwater.run(&["check"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let (_, rest) = output
        .stdout
        .split_once(warning)
        .unwrap_or_else(|| panic!("check does not say {warning:?}:\n{}", output.stdout));
    rest.to_owned()
}

/// Runs the statements of a piece of advice.
async fn mend(postgres: &Postgres, advice: &str) {
    let begin = advice.find("ALTER SYSTEM").expect(advice);
    let end = advice.find(" SELECT pg_reload_conf()").expect(advice);
    let client = postgres.connect("postgres").await;
    for statement in advice[begin..end].split_inclusive(';') {
        client.batch_execute(statement).await.unwrap();
    }
    postgres.reload();
}

/// A command of the replication protocol, the way `check` says.
#[track_caller]
fn psql(scene: &Scene<'_>, command: &str) {
    let postgres = scene.database.postgres();
    let place = format!(
        "host=127.0.0.1 port={} user=postgres dbname={} replication=database",
        postgres.port(),
        scene.database.name()
    );
    let done = std::process::Command::new(postgres.program("psql"))
        .args([&place, "-c", command])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}
