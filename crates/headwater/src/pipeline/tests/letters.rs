//! Dead letters in the loop: they take the place of what they are made of.

use headwater_core::event::Role;
use headwater_core::failure::{Kind, Policy};
use headwater_core::row::Value;

use super::{Answer, Stage, WIDE, first_record, later, play};
use crate::pipeline::Letters;

fn stage(kinds: &[Kind]) -> Stage {
    let letters = Letters {
        policy: Policy::of(kinds.iter().copied()),
        name: "test".into(),
        topic: "test.dead-letter".into(),
        ..Letters::default()
    };
    Stage::with(letters, first_record(), WIDE, 100)
}

impl Stage {
    fn refuse(&self, rank: usize) {
        self.broker.send(Answer::Refuse(rank)).ok();
    }

    fn count(&self, what: &str) -> usize {
        self.diary.all().iter().filter(|it| *it == what).count()
    }
}

#[test]
fn a_row_that_fails_is_settled_by_the_ack_of_its_letter() {
    play(|| async {
        let stage = stage(&[Kind::BadPayload]);
        stage.row(1);
        stage.bad_row(2);
        stage.row(3);
        stage.mark(7);
        later(1).await;
        for sent in ["sent 1", "sent letter 2", "sent 3"] {
            assert!(stage.diary.has(sent), "{sent}");
        }
        stage.deliver(2);
        stage.deliver(0);
        later(2).await;
        assert!(!stage.diary.has("remembered 7"), "the letter is not acked");
        stage.deliver(0);
        later(2).await;
        assert!(stage.diary.has("confirmed 7"));
    });
}

#[test]
fn a_refused_message_is_settled_by_the_ack_of_its_letter() {
    play(|| async {
        let stage = stage(&[Kind::TooLarge]);
        stage.row(1);
        stage.row(2);
        stage.mark(7);
        later(1).await;
        stage.refuse(0);
        later(1).await;
        assert!(stage.diary.has("sent letter 1"));
        stage.deliver(0);
        later(2).await;
        assert!(!stage.diary.has("remembered 7"), "the letter is not acked");
        stage.deliver(0);
        later(2).await;
        assert!(stage.diary.has("confirmed 7"));
    });
}

#[test]
fn the_letter_of_a_message_behind_which_its_key_went_on_says_so() {
    play(|| async {
        let stage = stage(&[Kind::TooLarge]);
        stage.row(1);
        stage.mark(7);
        later(1).await;
        stage.broker.send(Answer::RefuseOvertaken(0)).ok();
        later(1).await;
        assert!(stage.diary.has("sent late letter 1"));
        stage.deliver(0);
        later(2).await;
        assert!(stage.diary.has("confirmed 7"));
    });
}

#[test]
fn a_letter_that_is_too_large_is_cut_three_times_and_then_stops_the_run() {
    play(|| async {
        let stage = stage(&[Kind::TooLarge]);
        let large = format!("\"{}\"", "x".repeat(900_000));
        stage.row_with(1, &[(Role::ActionParams, Value::Text(large.into()))]);
        stage.mark(7);
        later(1).await;
        for letters in 1..=4 {
            stage.refuse(0);
            later(1).await;
            assert_eq!(stage.count("sent letter 1"), letters);
        }
        stage.refuse(0);
        let ended = stage.task.await.unwrap().unwrap_err();
        assert!(
            ended.contains("its dead letter for topic test.dead-letter"),
            "{ended}"
        );
        assert!(!stage.diary.has("remembered 7"));
    });
}

#[test]
fn what_is_of_another_kind_stops_the_run_as_ever() {
    play(|| async {
        let stage = stage(&[Kind::TooLarge]);
        stage.bad_row(1);
        let ended = stage.task.await.unwrap().unwrap_err();
        assert!(ended.contains("bad_payload"), "{ended}");
        assert!(!stage.diary.has("sent letter 1"));
    });
}

#[test]
fn a_row_that_stopped_the_last_run_is_past_once_its_letter_may_be_made() {
    play(|| async {
        let stopped = stage(&[]);
        stopped.bad_row(1);
        let _ = stopped.task.await.unwrap().unwrap_err();
        let record = stopped.record.lock().unwrap().clone();
        assert!(record.blocked.is_some());
        let letters = Letters {
            policy: Policy::of([Kind::BadPayload]),
            name: "test".into(),
            topic: "test.dead-letter".into(),
            ..Letters::default()
        };
        let stage = Stage::with(letters, record, WIDE, 100);
        // Once for the trial.
        for _ in 0..2 {
            stage.bad_row(1);
            stage.mark(7);
        }
        later(1).await;
        assert_eq!(stage.count("sent letter 1"), 1);
        stage.deliver(0);
        later(2).await;
        assert!(stage.diary.has("confirmed 7"));
    });
}
