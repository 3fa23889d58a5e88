//! The row that stopped a run is remembered, and tried first by the next one.

use headwater_core::positions::Blocked;

use super::*;

fn id(number: u8) -> String {
    format!("00000000-0000-0000-0000-0000000000{number:02}")
}

/// What the run before left: it stood at 5 and was stopped by row 9.
fn stopped() -> Record {
    Record {
        position: 5.into(),
        run: 3,
        blocked: Some(Blocked {
            id: id(9),
            after: "5".into(),
            kind: "bad_payload".into(),
            detail: "column payload is null in an event of type event_type".into(),
            since: "2026-01-01T00:00:00Z".into(),
        }),
        ..first_record()
    }
}

fn stage() -> Stage {
    Stage::after(stopped(), WIDE, 100)
}

impl Stage {
    fn opened(&self, at: u64) -> usize {
        let entry = format!("opened at {at}");
        self.diary.all().iter().filter(|e| **e == entry).count()
    }

    fn was_quiet(&self) -> bool {
        let said = |entry: &String| entry.starts_with("sent") || entry.starts_with("confirmed");
        !self.diary.all().iter().any(said)
    }

    fn blocked(&self) -> Option<Blocked> {
        self.record.lock().unwrap().blocked.clone()
    }
}

#[test]
fn the_row_that_stopped_the_run_is_remembered_after_what_came_before_it() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(4);
        stage.row(2);
        stage.bad_row(9);
        later(1).await;
        assert!(stage.blocked().is_none(), "acks are missing");
        stage.deliver(0);
        stage.deliver(0);
        let (diary, record) = (stage.diary.clone(), Arc::clone(&stage.record));
        let trouble = stage.task.await.unwrap().expect_err("a person is needed");
        assert!(
            trouble.contains(&id(9)) && trouble.contains("after 4"),
            "{trouble}"
        );
        let record = record.lock().unwrap().clone();
        let blocked = record.blocked.expect("remembered");
        assert_eq!((&*blocked.id, &*blocked.after), (&*id(9), "4"));
        assert_eq!(blocked.kind, "bad_payload");
        assert_eq!(record.position, 4, "{:?}", diary.all());
    });
}

#[test]
fn a_row_in_the_first_transaction_is_told_to_be_after_the_records_position() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.bad_row(9);
        let trouble = stage.task.await.unwrap().expect_err("a person is needed");
        assert!(trouble.contains("after 0"), "{trouble}");
    });
}

#[test]
fn a_refused_message_is_not_remembered_since_only_sending_could_try_it() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        later(1).await;
        stage.broker.send(Answer::Refuse(0)).ok();
        let record = Arc::clone(&stage.record);
        stage.task.await.unwrap().expect_err("a person is needed");
        assert_eq!(record.lock().unwrap().blocked, None);
    });
}

#[test]
fn a_record_that_cannot_be_written_does_not_hide_the_failure() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        later(1).await;
        let _never_safe = stage.safe.lock().await;
        stage.bad_row(9);
        let trouble = stage.task.await.unwrap().expect_err("a person is needed");
        assert!(trouble.contains(&id(9)), "{trouble}");
    });
}

#[test]
fn while_the_row_still_fails_nothing_is_sent_and_the_record_stays() {
    play(|| async {
        let stage = stage();
        stage.row(1);
        stage.bad_row(9);
        stage.row(3);
        stage.mark(6);
        later(1).await;
        assert!(stage.was_quiet(), "{:?}", stage.diary.all());
        assert!(stage.diary.has("closed"), "the log is free for the next");
        assert_eq!(stage.blocked(), stopped().blocked);
        assert_eq!(stage.record.lock().unwrap().position, 5);
        let trouble = stage.task.await.unwrap().expect_err("a person is needed");
        assert!(
            trouble.contains(&id(9)) && trouble.contains("after 5"),
            "{trouble}"
        );
    });
}

#[test]
fn the_same_row_with_another_complaint_keeps_its_date() {
    play(|| async {
        let stage = stage();
        stage.row_with(9, &[(Role::Payload, Value::Text("[1]".into()))]);
        later(1).await;
        let blocked = stage.blocked().expect("remembered");
        assert!(
            blocked.detail.contains("not a JSON object"),
            "{}",
            blocked.detail
        );
        assert_eq!(blocked.since, "2026-01-01T00:00:00Z");
        assert_eq!(stage.record.lock().unwrap().position, 5);
    });
}

#[test]
fn a_row_before_it_that_fails_now_takes_its_place() {
    play(|| async {
        let stage = stage();
        stage.bad_row(8);
        later(1).await;
        assert!(stage.was_quiet());
        let blocked = stage.blocked().expect("remembered");
        assert_eq!(blocked.id, id(8));
        assert_ne!(blocked.since, "2026-01-01T00:00:00Z");
        assert_eq!(stage.record.lock().unwrap().run, 4);
    });
}

#[test]
fn once_the_row_can_be_published_the_log_is_read_again_and_carried() {
    play(|| async {
        let stage = stage();
        stage.row(1);
        stage.row(9);
        later(1).await;
        assert_eq!(stage.opened(5), 1, "its transaction is read to the end");
        stage.mark(6);
        later(1).await;
        assert!(stage.was_quiet(), "{:?}", stage.diary.all());
        assert_eq!(stage.opened(5), 2);
        assert_eq!(stage.blocked(), None);
        stage.row(1);
        stage.row(9);
        stage.mark(6);
        later(1).await;
        assert!(stage.diary.has("sent 1") && stage.diary.has("sent 9"));
        stage.deliver(0);
        stage.deliver(0);
        later(1).await;
        assert!(stage.diary.has("confirmed 6"));
        let closed = stage.diary.all().iter().position(|e| e == "closed");
        let again = stage.diary.all().iter().rposition(|e| e == "opened at 5");
        assert!(closed < again, "one reader at a time");
    });
}

#[test]
fn another_row_of_its_transaction_that_fails_is_found_before_anything_is_published() {
    play(|| async {
        // Of two rows with one id the first may be well: a table without a key can hold them.
        for number in [9, 8] {
            let stage = stage();
            stage.row(1);
            stage.row(9);
            stage.bad_row(number);
            stage.mark(6);
            let (diary, task) = (stage.diary.clone(), stage.task);
            let trouble = task.await.unwrap().expect_err("a person is needed");
            assert!(trouble.contains(&id(number)), "{trouble}");
            assert!(!diary.has("sent 1"), "{:?}", diary.all());
        }
    });
}

#[test]
fn a_log_that_is_not_free_after_the_trial_is_opened_until_it_is_without_another_trial() {
    play(|| async {
        let stage = stage();
        stage.row(9);
        stage.mark(6);
        stage.refuse.lock().unwrap().extend([2, 3, 4]);
        later(30).await;
        assert_eq!(stage.opened(5), 5, "the trial, three refusals, the run");
        stage.row(9);
        stage.mark(6);
        later(1).await;
        assert!(stage.diary.has("sent 9"), "{:?}", stage.diary.all());
    });
}

#[test]
fn a_failure_without_end_is_remembered_in_part() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        let long = Value::Text("x".repeat(1_000_000).into());
        stage.row_with(9, &[(Role::Id, long), (Role::Payload, Value::Null)]);
        let record = Arc::clone(&stage.record);
        stage.task.await.unwrap().expect_err("a person is needed");
        let blocked = record.lock().unwrap().blocked.clone().expect("remembered");
        assert_eq!(blocked.id.len(), 1000);
    });
}

#[test]
fn a_transaction_that_ends_without_the_row_ends_the_trial() {
    play(|| async {
        let stage = stage();
        stage.row(1);
        stage.mark(6);
        later(1).await;
        assert_eq!((stage.opened(5), stage.blocked()), (2, None));
        assert!(stage.was_quiet());
    });
}

#[test]
fn what_lies_before_the_position_does_not_end_the_trial() {
    play(|| async {
        let stage = stage();
        stage.row(1);
        stage.mark(3);
        stage.row(2);
        stage.mark(5);
        stage.mark(6);
        later(1).await;
        assert_eq!(stage.opened(5), 1, "other tables moved the log on");
        stage.bad_row(9);
        let (diary, task) = (stage.diary.clone(), stage.task);
        let trouble = task.await.unwrap().expect_err("a person is needed");
        assert!(trouble.contains("after 5"), "{trouble}");
        assert!(!diary.has("sent 1"), "{:?}", diary.all());
    });
}

#[test]
fn a_log_that_is_held_back_at_the_position_ends_the_trial_behind_the_row() {
    play(|| async {
        let stage = stage();
        stage.row(1);
        stage.mark(5);
        stage.row(9);
        later(1).await;
        assert_eq!(stage.opened(5), 1, "its transaction is read to the end");
        stage.mark(5);
        later(1).await;
        assert_eq!((stage.opened(5), stage.blocked()), (2, None));
        assert!(stage.was_quiet(), "{:?}", stage.diary.all());
    });
}

#[test]
fn a_log_in_which_nothing_but_marks_comes_ends_the_trial() {
    play(|| async {
        let stage = stage();
        for second in 0..40 {
            stage.mark(6 + second);
            later(1).await;
        }
        assert_eq!((stage.opened(5), stage.blocked()), (2, None));
    });
}

#[test]
fn a_silent_log_ends_the_trial_too() {
    play(|| async {
        let stage = stage();
        later(200).await;
        assert_eq!(stage.opened(5), 1, "a large log may take its time");
        later(200).await;
        assert_eq!((stage.opened(5), stage.blocked()), (2, None));
    });
}

#[test]
fn a_log_that_is_lost_during_the_trial_is_tried_again() {
    play(|| async {
        let stage = stage();
        stage.row(1);
        let lost = Scripted(Severity::Transient, "connection lost");
        stage.log.send(Said::Trouble(lost)).ok();
        later(5).await;
        assert_eq!(stage.opened(5), 2);
        stage.row(1);
        stage.bad_row(9);
        let (diary, task) = (stage.diary.clone(), stage.task);
        task.await.unwrap().expect_err("a person is needed");
        assert!(!diary.has("sent 1"), "{:?}", diary.all());
    });
}

#[test]
fn a_stop_ends_the_trial() {
    play(|| async {
        let stage = stage();
        stage.row(1);
        later(1).await;
        stage.ask.stop();
        let (diary, record) = (stage.diary.clone(), Arc::clone(&stage.record));
        assert_eq!(stage.task.await.unwrap(), Ok(()));
        assert!(!diary.has("sent 1"));
        let record = record.lock().unwrap().clone();
        assert_eq!(
            (record.position, record.blocked),
            (5.into(), stopped().blocked)
        );
    });
}
