//! `check` tries the latest rows: what could not be published is told before a run meets it, and the server is not kept.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scene::{Event, Scene};

/// Findings as level, sentence and what mends it.
fn findings(scene: &Scene<'_>) -> (i32, Vec<(String, String, String)>) {
    let output = scene.headwater.run(&["check", "--format", "json"]);
    let findings: Vec<Value> = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", output.stdout, output.stderr));
    let text = |finding: &Value, name| finding[name].as_str().unwrap_or_default().to_owned();
    let of = |it: &Value| (text(it, "level"), text(it, "what"), text(it, "mend"));
    (output.code, findings.iter().map(of).collect())
}

#[track_caller]
fn assert_found(found: &[(String, String, String)], level: &str, says: &[&str]) {
    let fits = |(its, what, _): &(String, String, String)| {
        its == level && says.iter().all(|words| what.contains(words))
    };
    assert!(found.iter().any(fits), "{level} {says:?}: {found:#?}");
}

#[tokio::test]
async fn rows_that_could_not_be_published_are_counted_by_type() {
    // GIVEN rows of several types: good ones, bad ones, and those that are no events
    let scene = Scene::ready(17, "tried").await;
    let namespace = &scene.namespace;
    let event = |seq| Event::new(namespace, "k", seq);
    let secret = r#"'["hunter2"]'"#;
    for seq in 0..40 {
        scene.database.execute(&event(seq).insert()).await;
    }
    for seq in 0..3 {
        scene.database.execute(&event(seq).insert_sentinel()).await;
    }
    let opened = ("event_type", "'WalletOpened'");
    let later = ("event_date", "now() + interval '1 hour'");
    let (older, newer) = (event(1), event(2));
    let inserts = [
        event(0).insert_with(&[opened]),
        older.insert_with(&[opened, ("payload", secret)]),
        newer.insert_with(&[opened, ("payload", secret), later]),
        event(3).insert_with(&[("event_type", "'WalletClosed'"), ("payload", "NULL")]),
    ];
    for insert in inserts {
        scene.database.execute(&insert).await;
    }

    // WHEN it is checked
    let (code, found) = findings(&scene);

    // THEN each type with such rows is told once, with how many, why, and the newest of them
    assert_eq!(code, 3, "{found:#?}");
    assert_found(
        &found,
        "ok",
        &["(47): 41 can be published, 3 cannot, 3 would be skipped"],
    );
    let newest = newer.id.to_string();
    let opened = format!("2 of the 3 latest rows of WalletOpened in {namespace}");
    assert_found(
        &found,
        "problem",
        &[&opened, &newest, "payload is not a JSON object"],
    );
    let closed = format!("1 of the 1 latest rows of WalletClosed in {namespace}");
    assert_found(&found, "problem", &[&closed, "column payload is null"]);
    let problems = found.iter().filter(|(level, ..)| level == "problem");
    assert_eq!(problems.count(), 2, "{found:#?}");
    assert!(!format!("{found:?}").contains("hunter2"), "{found:#?}");
}

#[tokio::test]
async fn only_the_latest_thousand_rows_are_tried_and_large_ones_do_not_fill_the_memory() {
    // GIVEN old rows that are bad, and 1,000 later ones of 200 kB each
    let scene = Scene::ready(17, "large").await;
    let sql = format!(
        "INSERT INTO eventlog.events
            SELECT gen_random_uuid(), '{}', gen_random_uuid(), 'Large', '{{}}', now(), now(), 'k', 'Wallet', 'WalletChanged',
                   CASE WHEN n <= 10 THEN '[]' ELSE jsonb_build_object('text', repeat('x', 200000)) END,
                   now() + n * interval '1 second', false
              FROM generate_series(1, 1010) AS n",
        scene.namespace
    );
    scene.database.execute(&sql).await;

    // WHEN it is checked
    let mut check = scene.spawn(&["check"]);
    let mut peak = 0;
    while check.is_running() {
        // The process may end between the question and the answer.
        if let Some(kb) = peak_kb(check.pid()) {
            peak = peak.max(kb);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // THEN only the good ones were looked at, and never all of their 200 MB at once
    let said = check.stdout();
    assert!(
        said.contains("(1000): 1000 can be published, 0 cannot"),
        "{said}"
    );
    assert!(peak > 0 && peak < 100_000, "{peak} kB");
}

fn peak_kb(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[tokio::test]
async fn a_table_that_cannot_be_read_in_time_is_a_warning_and_check_ends() {
    // GIVEN a row that is bad, in a table of which every row takes the server half a minute
    let scene = Scene::ready(17, "slow").await;
    let bad = Event::new(&scene.namespace, "k", 1).insert_with(&[("payload", "'[1]'")]);
    scene.database.execute(&bad).await;
    let slow = "ALTER TABLE eventlog.events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         CREATE POLICY slow ON eventlog.events USING (pg_sleep(30) IS NOT NULL)";
    scene.database.execute(slow).await;

    // WHEN it is checked
    let begun = Instant::now();
    let (code, found) = findings(&scene);

    // THEN it says that the rows were not tried, and why, and is done soon
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(code, 0, "{found:#?}");
    let says = ["the latest rows were not tried", "took the server too long"];
    assert_found(&found, "warning", &says);

    // THEN they are tried as soon as they can be
    let quick = "ALTER TABLE eventlog.events DISABLE ROW LEVEL SECURITY";
    scene.database.execute(quick).await;
    let (code, found) = findings(&scene);
    assert_eq!(code, 3);
    assert_found(&found, "problem", &["1 of the 1 latest rows"]);
}

#[tokio::test]
async fn a_locked_table_does_not_keep_check() {
    // GIVEN a table that somebody has locked
    let scene = Scene::ready(17, "locked").await;
    let locker = scene.database.connect().await;
    locker
        .batch_execute("BEGIN; LOCK TABLE eventlog.events IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();

    // WHEN it is checked
    let begun = Instant::now();
    let (code, found) = findings(&scene);

    // THEN the lock is told, and it is done soon: not even the table's definition could be read
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(code, 3, "{found:#?}");
    assert_found(&found, "problem", &["lock timeout"]);
}

#[tokio::test]
async fn rows_that_may_not_be_read_are_a_warning() {
    // GIVEN a role that may replicate and not read
    let scene = Scene::ready(17, "unread").await;
    scene.database.execute("ALTER TABLE eventlog.events OWNER TO postgres; REVOKE ALL ON eventlog.events FROM headwater").await;

    // WHEN it is checked
    let (_, found) = findings(&scene);

    // THEN that is told with what mends it, as a warning
    let warning = found
        .iter()
        .find(|(_, what, _)| what.contains("the latest rows were not tried"));
    let (level, _, mend) = warning.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(level, "warning");
    assert!(mend.contains("GRANT SELECT"), "{mend}");
}
