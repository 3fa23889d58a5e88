//! SIGKILL at any moment: what was committed arrives, in order; at worst a part of it arrives twice.
//!
//! The moments come from a seed, which is printed; `HEADWATER_SEED` gives it again.

use std::time::Duration;

use headwater_testkit::{Kafka, Load, Mysql, Outbox, Pipeline, Server, long, unique};
use tokio::time::sleep;

use crate::binlog::WITHOUT_GTIDS;
use crate::scene::{LIMIT, Scene, headwater, on_every_binlog};

#[tokio::test]
async fn killed_again_and_again_under_load_it_loses_and_reorders_nothing() {
    let scene = Scene::shared(17, "kills").await;
    killed_under_load(scene, if long() { 30 } else { 10 }).await;
}

on_every_binlog!(killed_under_load_it_loses_and_reorders_nothing: "kills", shared server, shared kafka);

async fn killed_under_load_it_loses_and_reorders_nothing(scene: Scene<'_, impl Outbox>) {
    killed_under_load(scene, if long() { 30 } else { 5 }).await;
}

#[tokio::test]
async fn killed_under_load_without_gtids_it_loses_and_reorders_nothing() {
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "places").await;
    killed_under_load_it_loses_and_reorders_nothing(scene).await;
}

async fn killed_under_load(mut scene: Scene<'_, impl Outbox>, kills: u32) {
    // GIVEN a load that does not pause, and a broker that takes its time
    let mut moments = Moments::new();
    scene.send_one_by_one();
    scene.init();
    let load = Load {
        rate: Some(200),
        ..Load::new(&scene.namespace, moments.seed)
    };
    let load = load.start(&scene.database.owner_url());
    let backlogs = scene.another_namespace("backlog").await;

    // WHEN each run is killed at some moment of its first seconds, while it starts, reads, waits or confirms
    for round in 1..=kills {
        let moment = moments.next_within(Duration::from_millis(1800));
        println!("a kill after {moment:?}");
        scene.commit_backlog(&backlogs, round).await;
        let mut run = scene.spawn(&["run"]);
        sleep(moment).await;
        assert!(run.is_running(), "it ended before it was killed");
        run.kill9();
    }

    // THEN nothing is lost, reordered or foreign
    let mut written = load.stop().await;
    written.add(scene.committed_in(&backlogs).await);
    let run = scene.start().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    println!("seed {}: {verdict}", moments.seed);
    verdict.assert_at_least_once();
}

#[tokio::test]
async fn killed_while_it_initialises_it_begins_once_and_loses_nothing_after_that() {
    let mut moments = Moments::new();
    let mut scene = Scene::shared(17, "births").await;
    let mut completed = 0;
    // The first moments are the same in every run of the suite: they lie in each of its steps.
    let first = [0, 20, 60, 120, 200, 300].map(Duration::from_millis);
    let seeded: Vec<Duration> = (0..if long() { 20 } else { 4 })
        .map(|_| moments.next_within(Duration::from_millis(1500)))
        .collect();
    let all = first.into_iter().chain(seeded).map(Some).chain([None]);
    for moment in all {
        println!("a kill after {moment:?}");
        // GIVEN a pipeline that never ran
        let name = unique("births");
        scene.pipeline = Pipeline::new(&name, &scene.database.url(), &scene.kafka.brokers());
        scene.headwater = headwater(&scene.pipeline);
        completed += u32::from(born_in_two_attempts(&scene, moment).await);
    }
    println!(
        "seed {}: {completed} had a position before they were killed",
        moments.seed
    );
}

/// Whether the first attempt came to its end before it was killed; without a moment it is killed right after that.
async fn born_in_two_attempts(scene: &Scene<'_>, moment: Option<Duration>) -> bool {
    // WHEN its first start is killed, events are committed, and it is started again
    let mut first = scene.spawn(&["run", "--init"]);
    match moment {
        Some(moment) => sleep(moment).await,
        None => assert!(first.wait_for_log("begins at", LIMIT).await),
    }
    first.kill9();
    let had_begun = first.log().contains("begins at");
    let between = scene.commit_events(5).await;
    let mut second = scene.spawn(&["run", "--init"]);
    second.wait_until_it_carries().await;
    let mut must = scene.commit_events(5).await;

    // THEN the second start works, and nothing that was committed after a completed init is lost
    if had_begun {
        must.add(between);
    }
    scene.judge(&must).await;
    second.ask_to_stop().await;
    let arrived = scene.consume().await;
    let arrived: Vec<String> = arrived
        .iter()
        .filter_map(|m| Some(String::from_utf8_lossy(m.value.as_deref()?).into_owned()))
        .collect();
    for event in &must.committed {
        let id = event.id.to_string();
        let times = arrived.iter().filter(|value| value.contains(&id)).count();
        assert_eq!(
            times,
            1,
            "killed after {moment:?}, begun: {had_begun}; {id}:\n{}",
            first.tail()
        );
    }
    had_begun
}

/// Random moments by splitmix64: the same ones for the same seed, on every machine.
pub struct Moments {
    pub seed: u64,
    state: u64,
}

impl Moments {
    pub fn new() -> Self {
        let seed = headwater_testkit::seed(3);
        Self { seed, state: seed }
    }

    pub fn next_within(&mut self, limit: Duration) -> Duration {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let millis = u64::try_from(limit.as_millis()).unwrap();
        Duration::from_millis(mixed % millis)
    }
}
