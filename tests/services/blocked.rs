//! A row that cannot be published is tried first by the next start: a supervisor that starts again and again publishes
//! nothing again and again.

use std::time::{Duration, Instant};

use headwater_testkit::Written;
use serde_json::Value;
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, STOP_LIMIT, Scene};

/// What the program says when a trial begins, and when it went well.
const TRYING: &str = "trying the row that stopped the last run first";
const MENDED: &str = "the row that stopped the last run does not stop it any more";

/// The odd row's.
const OWN_KEY: &str = "k0";

/// Events around a row that cannot be published: some before it, of which most are in its transaction, and some after it.
pub struct Obstacle {
    pub before: Vec<Event>,
    pub odd: Event,
    pub after: Vec<Event>,
}

impl Obstacle {
    /// So many of the events before it are in transactions of their own.
    const ALONE: usize = 10;

    /// The odd row has other values than usual: column and SQL expression.
    pub async fn commit(scene: &Scene<'_>, changed: &[(&str, &str)]) -> Self {
        let events = |seqs: std::ops::RangeInclusive<i64>| -> Vec<Event> {
            seqs.map(|seq| Event::new(&scene.namespace, &format!("k{}", seq % 3), seq))
                .collect()
        };
        let obstacle = Self {
            before: events(1..=50),
            odd: Event::new(&scene.namespace, OWN_KEY, 51),
            after: events(52..=60),
        };
        let all = |events: &[Event]| events.iter().map(Event::insert).collect::<String>();
        let (alone, together) = obstacle.before.split_at(Self::ALONE);
        let (with_it, later) = obstacle.after.split_at(5);
        scene.database.execute(&all(alone)).await;
        // A neighbour's transactions move the log on, and its reader is told so.
        for sql in [
            "CREATE TABLE public.neighbour (n int)",
            "DO $$ BEGIN FOR n IN 1..500 LOOP INSERT INTO public.neighbour VALUES (n); COMMIT; END LOOP; END $$",
        ] {
            scene.database.execute(sql).await;
        }
        let odd = obstacle.odd.insert_with(changed);
        let transaction = format!("BEGIN; {} {odd} {} COMMIT", all(together), all(with_it));
        scene.database.execute(&transaction).await;
        scene.database.execute(&all(later)).await;
        obstacle
    }

    /// All of it, once the odd row can be published.
    pub fn written(&self) -> Written {
        let odd = std::slice::from_ref(&self.odd);
        let all = [&self.before, odd, &self.after].concat();
        Written {
            committed: all.iter().map(Event::committed).collect(),
            ..Written::default()
        }
    }

    /// A start that ends with code 3 and names the row; what it said.
    pub async fn stops(&self, scene: &Scene<'_>) -> String {
        let mut run = scene.spawn(&["run"]);
        assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
        let log = run.log();
        assert!(log.contains(&self.odd.id.to_string()), "no id: {log}");
        assert!(log.contains("in the transaction after "), "no place: {log}");
        log
    }

    /// The first start publishes what is before the row; whoever starts it again publishes nothing, and is told the same.
    pub async fn stops_again_and_again(&self, scene: &Scene<'_>) {
        let first = self.stops(scene).await;
        assert!(!first.contains(TRYING), "nothing was remembered yet");
        let count = scene.kafka.message_count(scene.topic()).await;
        assert_eq!(count, self.before.len() as u64);
        let blocked = record(scene).await["blocked"].clone();
        assert_eq!(blocked["id"], self.odd.id.to_string());
        for _ in 0..3 {
            let log = self.stops(scene).await;
            assert!(log.contains(TRYING), "it did not try the row: {log}");
            assert_eq!(last_line(&log), last_line(&first));
        }
        let count = scene.kafka.message_count(scene.topic()).await;
        assert_eq!(count, self.before.len() as u64, "published again");
        assert_eq!(record(scene).await["blocked"], blocked);
    }

    /// A start after what the row complained of was mended: it and all behind it arrive.
    pub async fn is_carried_now(&self, scene: &Scene<'_>) {
        let run = scene.start().await;
        assert!(run.log().contains(MENDED), "{}", run.tail());
        let verdict = scene.stop_and_judge(run, &self.written()).await;
        verdict.assert_at_least_once();
        assert_eq!(record(scene).await["blocked"], Value::Null);
    }
}

/// The sentence for people, without the time.
fn last_line(log: &str) -> &str {
    let line = log.lines().last().unwrap_or_default();
    &line[line.find("the row with id").expect("its sentence")..]
}

/// The position record that counts.
async fn record(scene: &Scene<'_>) -> Value {
    let topic = scene.pipeline.positions_topic();
    let records = scene.kafka.consume_all(&[&topic]).await;
    let last = records.last().expect("a record");
    serde_json::from_slice(last.value.as_ref().expect("a value")).unwrap()
}

/// Without a model there is no key; another template would mend that.
async fn keyed_by_model(version: u32) -> Scene<'static> {
    let mut scene = Scene::shared(version, "blocked").await;
    route_by(&mut scene, "{model_id}");
    scene.init();
    scene
}

fn route_by(scene: &mut Scene<'_>, key: &str) {
    scene.pipeline.more = format!("[[route]]\ntopic = 'ekbatan.{{namespace}}'\nkey = '{key}'\n");
    scene.configure();
}

#[tokio::test]
async fn started_again_and_again_before_a_bad_row_it_publishes_nothing_again_on_postgres_15() {
    nothing_comes_again(15).await;
}

#[tokio::test]
async fn started_again_and_again_before_a_bad_row_it_publishes_nothing_again_on_postgres_17() {
    nothing_comes_again(17).await;
}

#[tokio::test]
async fn started_again_and_again_before_a_bad_row_it_publishes_nothing_again_on_postgres_18() {
    nothing_comes_again(18).await;
}

async fn nothing_comes_again(version: u32) {
    // GIVEN a row that no format publishes
    let scene = Scene::ready(version, "blocked").await;
    let obstacle = Obstacle::commit(&scene, &[("payload", "'[1]'")]).await;
    // WHEN the program is started again and again, THEN only the first start publishes
    obstacle.stops_again_and_again(&scene).await;
}

#[tokio::test]
async fn when_the_row_can_be_published_all_of_its_transaction_is_carried_on_postgres_15() {
    the_rest_is_carried(15).await;
}

#[tokio::test]
async fn when_the_row_can_be_published_all_of_its_transaction_is_carried_on_postgres_17() {
    the_rest_is_carried(17).await;
}

#[tokio::test]
async fn when_the_row_can_be_published_all_of_its_transaction_is_carried_on_postgres_18() {
    the_rest_is_carried(18).await;
}

async fn the_rest_is_carried(version: u32) {
    // GIVEN a pipeline that a row stopped
    let mut scene = keyed_by_model(version).await;
    let obstacle = Obstacle::commit(&scene, &[("model_id", "NULL")]).await;
    obstacle.stops_again_and_again(&scene).await;

    // WHEN the configuration is mended, THEN all of it arrives
    route_by(&mut scene, &format!("{{model_id|\"{OWN_KEY}\"}}"));
    obstacle.is_carried_now(&scene).await;

    // and only what is in its transaction came again
    let count = scene.kafka.message_count(scene.topic()).await;
    let again = obstacle.before.len() - Obstacle::ALONE;
    assert_eq!(count, (obstacle.written().committed.len() + again) as u64);
}

#[tokio::test]
async fn when_its_schema_has_come_the_row_is_carried() {
    // GIVEN a pipeline with a schema for all events but one
    let mut scene = Scene::shared(17, "blocked").await;
    scene.pipeline.encode = "format = \"avro\"\nschemas = [\"*.avsc\"]".to_owned();
    scene.configure();
    put_schema(&scene, "WalletChangedEvent");
    scene.init();
    let obstacle = Obstacle::commit(&scene, &[("event_type", "'WalletClosed'")]).await;
    obstacle.stops_again_and_again(&scene).await;

    // WHEN its schema is put beside the others, THEN all arrive
    put_schema(&scene, "WalletClosed");
    let mut run = scene.start().await;
    assert!(run.log().contains(MENDED), "{}", run.tail());
    let all = obstacle.written().committed;
    let end = Instant::now() + LIMIT;
    while scene.kafka.message_count(scene.topic()).await < all.len() as u64 {
        assert!(Instant::now() < end, "{}", run.tail());
        sleep(Duration::from_millis(100)).await;
    }
    run.ask_to_stop().await;
    let arrived = scene.consume().await;
    for event in all {
        let id = event.id.to_string();
        let is_it = |value: &Vec<u8>| value.windows(id.len()).any(|part| part == id.as_bytes());
        let found = arrived.iter().filter_map(|message| message.value.as_ref());
        assert!(
            found.filter(|value| is_it(value)).count() > 0,
            "{id} is lost"
        );
    }
}

/// Of an event with the number that all events here have.
fn put_schema(scene: &Scene<'_>, event_type: &str) {
    let schema = serde_json::json!({
        "type": "record", "name": event_type, "namespace": format!("{}.avro", scene.namespace),
        "fields": [{"name": "seq", "type": "long"}],
    });
    let file = scene.headwater.folder().join(format!("{event_type}.avsc"));
    std::fs::write(file, schema.to_string()).unwrap();
}

#[tokio::test]
async fn asked_to_stop_during_a_trial_it_ends_well_and_has_published_nothing() {
    // GIVEN a row that stopped a run, behind many others of its transaction
    const BEFORE: u64 = 60_000;
    let scene = Scene::ready(17, "blocked").await;
    let odd = Event::new(&scene.namespace, "k", 0);
    let many = format!(
        "BEGIN; INSERT INTO eventlog.events SELECT gen_random_uuid(), '{}', gen_random_uuid(), 'Bulk', '{{}}', now(), now(),
            'k' || n % 10, 'Wallet', 'WalletChangedEvent', jsonb_build_object('seq', n), now(), false
            FROM generate_series(1, {BEFORE}) n; {} COMMIT",
        scene.namespace,
        odd.insert_with(&[("payload", "'[1]'")])
    );
    scene.database.execute(&many).await;
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());

    // WHEN the next start is asked to stop while it tries the row
    let mut run = scene.spawn(&["run"]);
    assert!(run.wait_for_log(TRYING, LIMIT).await, "{}", run.tail());
    run.term();

    // THEN it ends well, before the row came
    assert_eq!(run.ended_within(STOP_LIMIT).await, 0, "{}", run.tail());
    assert!(!run.log().contains("carrying events"));
    let count = scene.kafka.message_count(scene.topic()).await;
    assert_eq!(count, BEFORE);
    assert_eq!(record(&scene).await["blocked"]["id"], odd.id.to_string());
}

#[tokio::test]
async fn adopting_a_position_forgets_the_row() {
    // GIVEN a row that stopped a run
    let scene = Scene::ready(17, "blocked").await;
    let obstacle = Obstacle::commit(&scene, &[("payload", "NULL")]).await;
    obstacle.stops(&scene).await;
    assert_ne!(record(&scene).await["blocked"], Value::Null);
    // WHEN a person decides on a position
    let output = scene.headwater.run(&["adopt"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // THEN nothing is tried
    assert_eq!(record(&scene).await["blocked"], Value::Null);
    assert!(!obstacle.stops(&scene).await.contains(TRYING));
}
