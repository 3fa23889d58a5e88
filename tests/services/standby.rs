//! The primary is lost and a standby takes its place: if it keeps the slot, the same process carries on there; else it is refused.
//!
//! What a primary answered as committed and never sent is lost with it, by the database itself: no reader of a log can make that
//! good. Where a test says that nothing is lost, `synchronous_standby_names` is set, so that committed means on the standby.

use std::collections::HashSet;
use std::time::Duration;

use headwater_testkit::{Kafka, Postgres, Proxy, Written, bulk_rows};
use uuid::Uuid;

use crate::failover::{carries_again, load, more};
use crate::lost_log::refuses;
use crate::recover::{comes_back, with_own_topic};
use crate::scene::{Event, LIMIT, Scene};
use crate::several_hosts::point;

mod check;

#[tokio::test]
async fn a_standby_that_keeps_the_slot_takes_over_under_load_on_postgres_17() {
    a_standby_that_keeps_the_slot_takes_over_under_load(17).await;
}

#[tokio::test]
async fn a_standby_that_keeps_the_slot_takes_over_under_load_on_postgres_18() {
    a_standby_that_keeps_the_slot_takes_over_under_load(18).await;
}

async fn a_standby_that_keeps_the_slot_takes_over_under_load(version: u32) {
    // GIVEN a pipeline at work under load, and a standby that keeps its slot and has all that was committed
    let pair = Pair::start(version, true);
    pair.primary.commit_with_the_standby().await;
    pair.primary.send_behind_the_standby().await;
    let mut scene = pair.scene("takeover").await;
    scene.init();
    let mut run = scene.start().await;
    let writing = load(&scene.namespace, 51).start(&scene.pipeline.source_url);
    let slot = scene.pipeline.slot();
    pair.standby.keeps_slot(&slot, &pair.primary).await;
    more(&writing).await;

    // WHEN the primary is killed while it holds commits that the standby does not have, and nobody was answered yet
    pair.cable.stop_forwarding();
    let unanswered = Event::new(&scene.namespace, "unanswered", 1);
    let client = scene.database.connect().await;
    let insert = unanswered.insert();
    let commit = tokio::spawn(async move { client.batch_execute(&insert).await });
    pair.waits_for_the_standby(&scene, &unanswered).await;
    pair.fail_over();
    commit.await.unwrap().unwrap_err();

    // THEN the same process carries on with the standby, as the writers do
    carries_again(&mut run, 2).await;
    more(&writing).await;
    let written = writing.stop().await;

    // AND nothing that was committed is lost or reordered, and nothing was published that the new primary does not have
    scene.database = scene.database.on(&pair.standby);
    let held = ids(&scene.committed_in(&scene.namespace).await);
    assert_eq!(held, ids(&written), "the database itself lost commits");
    assert!(!held.contains(&unanswered.id));
    let verdict = scene.stop_and_judge(run, &written).await;
    println!("{verdict}");
    verdict.assert_at_least_once();
}

#[tokio::test]
async fn a_standby_without_the_slot_is_refused_on_postgres_17() {
    a_standby_without_the_slot_is_refused(17).await;
}

#[tokio::test]
async fn a_standby_without_the_slot_is_refused_on_postgres_18() {
    a_standby_without_the_slot_is_refused(18).await;
}

async fn a_standby_without_the_slot_is_refused(version: u32) {
    // GIVEN a pipeline at work under load, and a standby that has all that was committed but does not keep the slot
    let pair = Pair::start(version, false);
    pair.primary.commit_with_the_standby().await;
    pair.primary.send_behind_the_standby().await;
    let mut scene = with_own_topic(pair.scene("slotless").await);
    scene.init();
    let mut run = scene.start().await;
    let writing = load(&scene.namespace, 52).start(&scene.pipeline.source_url);
    more(&writing).await;

    // WHEN the primary is killed and the standby takes its place
    pair.fail_over();

    // THEN a person is asked for, while the application goes on
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    more(&writing).await;
    let written = writing.stop().await;
    scene.database = scene.database.on(&pair.standby);
    let slot = scene.pipeline.slot();
    let words = [slot.as_str(), "does not exist"];
    let published = scene.consume().await.len();
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);

    // AND nothing was published past the gap, nor anything that the new primary does not have
    assert_eq!(scene.consume().await.len(), published);
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    assert!(verdict.foreign.is_empty(), "{verdict}");
    assert!(!verdict.lost.is_empty(), "nothing was committed since");

    // AND what is missing comes from the new primary's table, each event once, and the log goes on there
    comes_back(&scene, written, &Written::default()).await;
}

#[tokio::test]
async fn a_standby_that_lacks_what_was_published_is_refused_on_postgres_17() {
    a_standby_that_lacks_what_was_published_is_refused(17).await;
}

#[tokio::test]
async fn a_standby_that_lacks_what_was_published_is_refused_on_postgres_18() {
    a_standby_that_lacks_what_was_published_is_refused(18).await;
}

/// What `synchronized_standby_slots` is for: the same without it.
async fn a_standby_that_lacks_what_was_published_is_refused(version: u32) {
    // GIVEN a pipeline at work, and a standby that keeps its slot, which nobody waits for
    let pair = Pair::start(version, true);
    let mut scene = with_own_topic(pair.scene("ahead").await);
    scene.init();
    let mut run = scene.start().await;
    let mut held = scene.commit_events(20).await;
    let slot = scene.pipeline.slot();
    pair.standby.keeps_slot(&slot, &pair.primary).await;

    // WHEN events are committed, published and remembered that the standby does not have, and it takes over
    pair.cable.stop_forwarding();
    let fork = scene.database.wal_lsn().await;
    let ahead = scene.commit_events(20).await;
    let mut written = held.clone();
    written.add(ahead.clone());
    scene.judge(&written).await.assert_exactly_once();
    let told = scene.database.wait_confirmed(&slot, fork + 1, LIMIT).await;
    assert!(told, "the position is not past the fork");
    pair.fail_over();

    // THEN a person is asked for: the topic holds what the new primary never had
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    scene.database = scene.database.on(&pair.standby);
    let there = ids(&scene.committed_in(&scene.namespace).await);
    assert!(there.is_disjoint(&ids(&ahead)), "the standby had them");
    // Once the new log has outgrown the old one, only the timelines tell that it is another.
    let client = scene.database.connect().await;
    held.add(bulk_rows(&client, &scene.namespace, 2000, 100).await);
    let words = ["timeline 2", "left timeline 1", "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_exactly_once();

    // AND what the new primary has comes from its table, each event once, and what it never had is told
    comes_back(&scene, held, &ahead).await;
}

#[tokio::test]
async fn what_a_promotion_loses_was_never_published() {
    // GIVEN a primary that answers before anything is on a disk, its own or the standby's
    let pair = Pair::start(17, true);
    pair.primary.set("synchronous_commit", "off").await;
    pair.primary.send_behind_the_standby().await;
    let mut scene = pair.scene("hasty").await;
    scene.init();
    let mut run = scene.start().await;
    let writing = load(&scene.namespace, 53).start(&scene.pipeline.source_url);
    let slot = scene.pipeline.slot();
    pair.standby.keeps_slot(&slot, &pair.primary).await;
    more(&writing).await;

    // WHEN it is killed with commits that the standby does not have
    pair.cable.stop_forwarding();
    let lost = Event::new(&scene.namespace, "lost", 1);
    scene.database.execute(&lost.insert()).await;
    pair.sends_nothing_to(scene.database.name()).await;
    pair.fail_over();
    carries_again(&mut run, 2).await;
    more(&writing).await;
    writing.stop().await;

    // THEN the topic holds what the new primary has: all of it, and nothing else
    scene.database = scene.database.on(&pair.standby);
    let held = scene.committed_in(&scene.namespace).await;
    assert!(!ids(&held).contains(&lost.id), "nothing was lost");
    let verdict = scene.stop_and_judge(run, &held).await;
    println!("{verdict}");
    verdict.assert_at_least_once();
}

#[tokio::test]
async fn without_its_standby_nothing_is_published_and_the_primary_stops_all_the_same() {
    // GIVEN a pipeline at work, and a standby that goes away
    let pair = Pair::start(17, true);
    pair.primary.send_behind_the_standby().await;
    let scene = pair.scene("alone").await;
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    pair.standby.stop_fast();

    // WHEN events are committed, THEN they are held back
    let held_back = scene.commit_events(10).await;
    pair.sends_nothing_to(scene.database.name()).await;
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_exactly_once();

    // AND the primary can be stopped; when both are there again, nothing is lost
    pair.primary.stop_fast();
    pair.primary.start_again();
    pair.standby.start_again();
    carries_again(&mut run, 2).await;
    written.add(held_back);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
}

/// A primary, the standby that is to take its place, and the cable between them.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    cable: Proxy,
}

impl Pair {
    fn start(version: u32, keeps_slots: bool) -> Self {
        let primary = Postgres::start(version, &[]);
        let cable = Proxy::start(primary.port());
        let standby = primary.successor(cable.port(), keeps_slots);
        Self {
            primary,
            standby,
            cable,
        }
    }

    /// A pipeline that may use either server.
    async fn scene(&self, hint: &str) -> Scene<'_> {
        let mut scene = Scene::on(&self.primary, Kafka::shared(), hint).await;
        point(&mut scene, &[self.primary.port(), self.standby.port()]);
        scene
    }

    /// Until this event's COMMIT and the pipeline's walsender both wait for the standby.
    async fn waits_for_the_standby(&self, scene: &Scene<'_>, event: &Event) {
        let commit = format!(
            "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%{}%'",
            event.id
        );
        self.primary.until(&commit).await;
        self.sends_nothing_to(scene.database.name()).await;
    }

    /// Until the walsender of the pipeline has something to send, and may not.
    async fn sends_nothing_to(&self, database: &str) {
        let sender = format!(
            "SELECT FROM pg_stat_activity WHERE backend_type = 'walsender' AND datname = '{database}'
                AND wait_event = 'WaitForStandbyConfirmation'"
        );
        self.primary.until(&sender).await;
    }

    /// The primary is killed, and the standby takes its place with what it has; what is on the way to it is lost.
    fn fail_over(&self) {
        self.primary.kill9();
        self.cable.cut();
        self.cable.forward_again();
        self.standby.promote();
    }
}

pub fn ids(written: &Written) -> HashSet<Uuid> {
    written.committed.iter().map(|event| event.id).collect()
}
