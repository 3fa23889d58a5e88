//! A row that cannot be published stops the run before it, and the next start stands before the same row.

use headwater_testkit::{Written, unique};

use crate::scene::{Event, LIMIT, Scene, headwater};

/// What is odd about a row, and the words in which the run must tell it.
struct Case {
    column: &'static str,
    expression: &'static str,
    says: &'static str,
}

const CASES: [Case; 7] = [
    Case {
        column: "payload",
        expression: "NULL",
        says: "column payload is null",
    },
    Case {
        column: "action_params",
        expression: "NULL",
        says: "column action_params is null",
    },
    Case {
        column: "namespace",
        expression: "' '",
        says: "column namespace is blank",
    },
    Case {
        column: "payload",
        expression: "'[1, 2]'",
        says: "payload is not a JSON object",
    },
    Case {
        column: "started_date",
        expression: "'infinity'",
        says: "column started_date is infinity",
    },
    Case {
        column: "event_date",
        expression: "'-infinity'",
        says: "column event_date is -infinity",
    },
    // Not to be compressed, so that it is larger than a broker takes in whatever form it is sent.
    Case {
        column: "payload",
        expression:
            "(SELECT jsonb_build_object('seq', 2, 'noise', string_agg(md5(random()::text), ''))
            FROM generate_series(1, 70000))",
        says: "too_large",
    },
];

#[tokio::test]
async fn a_row_that_cannot_be_published_stops_the_run_and_nothing_is_passed_over() {
    let mut scene = Scene::shared(17, "failures").await;
    let nullable = "ALTER TABLE eventlog.events ALTER COLUMN action_params DROP NOT NULL";
    scene.database.execute(nullable).await;
    for case in CASES {
        stands_before(&mut scene, &case).await;
    }
}

async fn stands_before(scene: &mut Scene<'_>, case: &Case) {
    // GIVEN a pipeline of its own
    scene.pipeline.name = unique("failures");
    scene.headwater = headwater(&scene.pipeline);
    scene.init();

    // WHEN an odd row is committed between two good ones
    let key = unique("k");
    let [before, odd, after] = [1, 2, 3].map(|seq| Event::new(&scene.namespace, &key, seq));
    for sql in [
        before.insert(),
        odd.insert_with(&[(case.column, case.expression)]),
        after.insert(),
    ] {
        scene.database.execute(&sql).await;
    }

    // THEN each start publishes what is before it, says which row and why, and ends with code 3
    for _ in 0..2 {
        let mut run = scene.spawn(&["run"]);
        assert_eq!(
            run.ended_within(LIMIT).await,
            3,
            "{} {}",
            case.column,
            case.expression
        );
        let log = run.log();
        assert!(log.contains(case.says), "{}", case.says);
        assert!(log.contains(&odd.id.to_string()), "no id");
    }
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
    assert!(has(&before), "{}: the row before it is lost", case.says);
    assert!(!has(&odd), "{}: it was published", case.says);
    assert!(!has(&after), "{}: it was passed over", case.says);
}

#[tokio::test]
async fn nothing_else_about_a_sentinel_matters() {
    // GIVEN a publication that sends sentinels too
    let mut scene = Scene::shared(17, "failures").await;
    scene
        .database
        .execute("CREATE PUBLICATION theirs FOR TABLE eventlog.events")
        .await;
    scene.pipeline.source.push_str("publication = \"theirs\"");
    scene.configure();
    scene.init();
    let run = scene.start().await;

    // WHEN a sentinel holds what no message could
    let [sentinel, event] = [1, 2].map(|seq| Event::new(&scene.namespace, "k", seq));
    let odd = [
        ("event_type", "NULL"),
        ("started_date", "'infinity'"),
        ("namespace", "''"),
    ];
    scene.database.execute(&sentinel.insert_with(&odd)).await;
    scene.database.execute(&event.insert()).await;

    // THEN it is skipped like any other
    let written = Written {
        committed: vec![event.committed()],
        sentinels: [sentinel.id].into(),
        ..Written::default()
    };
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}
