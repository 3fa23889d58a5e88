//! Several instances of one pipeline: one works, the others stand by, and no two ever work at the same time.

use std::time::{Duration, Instant};

use headwater_testkit::{Load, Outbox, Proxy, Writing};
use tokio::time::sleep;

use crate::scene::{LIMIT, Running, Scene, headwater, on_every_binlog};

const CARRYING: &str = "carrying events";
const STANDING_BY: &str = "standing by";
/// How soon another instance works after the end of the one that did.
const TAKE_OVER: Duration = Duration::from_secs(5);
/// And after the server last heard of one that is still there: 30 s, and some for a busy machine.
const UNHEARD_OF: Duration = Duration::from_secs(45);

#[tokio::test]
async fn another_instance_takes_over_when_the_first_is_killed_or_stopped() {
    another_takes_over(Scene::shared(17, "three").await).await;
}

on_every_binlog!(another_takes_over: "three", shared server, shared kafka);

async fn another_takes_over(scene: Scene<'_, impl Outbox>) {
    // GIVEN three instances under load, one at work and two that say once that they stand by
    scene.init();
    let witness = scene.database.witness();
    let writing = load(&scene, 51);
    let mut first = scene.start().await;
    let mut others = vec![scene.spawn(&["run"]), scene.spawn(&["run"])];
    stand_by(&mut others).await;
    more(&writing).await;

    // WHEN the one at work is killed
    first.kill9();

    // THEN one of the others takes over soon, and the other still stands by
    let mut second = at_work(&mut others, TAKE_OVER).await;
    let mut third = others.remove(0);
    more(&writing).await;
    assert_eq!(third.log().matches(CARRYING).count(), 0);

    // WHEN that one is asked to stop, THEN the last one takes over soon
    second.ask_to_stop().await;
    assert!(third.wait_for_log(CARRYING, TAKE_OVER).await);
    more(&writing).await;

    // AND nothing is lost, reordered or foreign, and no two were ever at work
    let written = writing.stop().await;
    let stood_by = [&second, &third].map(|run| run.log().matches(STANDING_BY).count());
    assert_eq!(stood_by, [1, 1], "each says once that it stands by");
    let verdict = scene.stop_and_judge(third, &written).await;
    verdict.assert_at_least_once();
    assert_eq!(witness.most_at_work(), 1);
}

#[tokio::test]
async fn an_instance_that_stands_by_stops_when_asked() {
    // GIVEN two instances
    let scene = Scene::ready(17, "two").await;
    let mut first = scene.start().await;
    let mut others = [scene.spawn(&["run"])];
    stand_by(&mut others).await;
    let [mut second] = others;

    // WHEN the one that stands by is asked to stop, THEN it does so at once, and the other works on
    let begun = Instant::now();
    second.ask_to_stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{}",
        second.tail()
    );
    let written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    first.ask_to_stop().await;
}

#[tokio::test]
async fn an_instance_that_was_paused_and_wakes_up_finds_another_at_work() {
    let scene = Scene::shared(17, "paused").await;
    let witness = scene.database.witness();
    wakes_to_another_at_work(&scene).await;
    assert_eq!(witness.most_at_work(), 1);
}

// A server with a binlog shows for a while that it sends to one who sleeps: no witness counts them here.
on_every_binlog!(paused_it_finds_another_at_work: "paused", shared server, shared kafka);

async fn paused_it_finds_another_at_work(scene: Scene<'_, impl Outbox>) {
    wakes_to_another_at_work(&scene).await;
}

async fn wakes_to_another_at_work(scene: &Scene<'_, impl Outbox>) {
    // GIVEN three instances, started at once, under load
    scene.init();
    let writing = load(scene, 52);
    let mut others: Vec<Running> = (0..3).map(|_| scene.spawn(&["run"])).collect();
    let mut first = at_work(&mut others, LIMIT).await;
    stand_by(&mut others).await;
    more(&writing).await;

    // WHEN the one at work is paused, THEN another takes over
    first.stop();
    let mut second = at_work(&mut others, UNHEARD_OF).await;
    let third = others.remove(0);
    more(&writing).await;

    // WHEN it is woken, THEN it stands by, and does not take its successor for a stranger
    first.cont();
    let stands_by = first
        .wait_for_log(STANDING_BY, Duration::from_secs(15))
        .await;
    assert!(stands_by, "it was woken and does not stand by");
    more(&writing).await;
    let carried = [&first, &second, &third].map(|run| run.log().matches(CARRYING).count());
    assert_eq!(carried, [1, 1, 0]);

    // AND one of the two takes over when the second ends
    second.ask_to_stop().await;
    let mut others = [first, third];
    at_work_again(&others, 2, TAKE_OVER).await;
    more(&writing).await;

    // AND nothing is lost, reordered or foreign
    let written = writing.stop().await;
    scene.judge(&written).await.assert_at_least_once();
    for run in &mut others {
        run.ask_to_stop().await;
    }
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_at_least_once();
}

#[tokio::test]
async fn an_instance_whose_network_swallows_everything_is_replaced() {
    swallowed_it_is_replaced(Scene::shared(17, "swallowed").await).await;
}

on_every_binlog!(swallowed_it_is_replaced: "swallowed", shared server, shared kafka);

async fn swallowed_it_is_replaced(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN an instance at work behind a network of its own, and one that stands by
    scene.init();
    let direct = headwater(&scene.pipeline);
    let network = Proxy::start(scene.database.port());
    scene.pipeline.source_url = scene.database.url_through(network.port());
    scene.configure();
    let writing = load(&scene, 53);
    let mut first = scene.start().await;
    let mut second = [Running::of(direct.spawn(&["run"]))];
    stand_by(&mut second).await;
    let [mut second] = second;
    more(&writing).await;

    // WHEN that network swallows everything, and the server sees its connections open as ever
    network.stop_forwarding();

    // THEN the other takes over once the server has not heard of the first one for 30 s
    let takes_over = second.wait_for_log(CARRYING, UNHEARD_OF).await;
    assert!(takes_over, "the lock is kept for one that is gone");
    more(&writing).await;

    // WHEN the network is back, THEN the first one stands by, and takes over when the other ends
    network.forward_again();
    let stands_by = first.wait_for_log(STANDING_BY, LIMIT).await;
    assert!(stands_by, "it is back and does not stand by");
    second.ask_to_stop().await;
    at_work_again(std::slice::from_ref(&first), 2, TAKE_OVER).await;
    more(&writing).await;

    // AND nothing is lost, reordered or foreign
    let written = writing.stop().await;
    let verdict = scene.stop_and_judge(first, &written).await;
    verdict.assert_at_least_once();
}

fn load(scene: &Scene<'_, impl Outbox>, seed: u64) -> Writing {
    let load = Load {
        rate: Some(100),
        ..Load::new(&scene.namespace, headwater_testkit::seed(seed))
    };
    load.start(&scene.database.owner_url())
}

/// Lets the load go on for a while, so that what comes next comes in the middle of it.
async fn more(writing: &Writing) {
    writing.wait_for(writing.events() + 200, LIMIT).await;
}

async fn stand_by(others: &mut [Running]) {
    for other in others {
        assert!(other.wait_for_log(STANDING_BY, LIMIT).await);
    }
}

/// The one of them that comes to carry events; the others stay.
async fn at_work(runs: &mut Vec<Running>, limit: Duration) -> Running {
    at_work_again(runs, 1, limit).await;
    let carries = runs.iter().position(|run| run.log().contains(CARRYING));
    runs.remove(carries.expect("one of them carries"))
}

/// Waits until they have begun to carry events this many times in all.
async fn at_work_again(runs: &[Running], times: usize, limit: Duration) {
    let end = Instant::now() + limit;
    loop {
        let last = Instant::now() >= end;
        let begun: usize = runs
            .iter()
            .map(|run| run.log().matches(CARRYING).count())
            .sum();
        if begun >= times {
            return;
        }
        assert!(!last, "nobody takes over within {limit:?}");
        sleep(Duration::from_millis(50)).await;
    }
}
