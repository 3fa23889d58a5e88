//! The rows that were there before come first; each is remembered by itself, and then the log is read from where the first view stood.

use headwater_core::positions::Snapshot;
use headwater_core::window::Key;

use super::*;

type Says = Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Said>>>;

/// A view of a table whose rows are what the test says; a mark of the log stands for its end.
pub(super) struct FakeSnapshot {
    says: Says,
    at: Snapshot,
    unmarked: bool,
    diary: Diary,
}

impl FakeSnapshot {
    pub(super) fn open(record: &mut Record, says: &Says, diary: &Diary) -> FakeSnapshot {
        let mut at = record.snapshot.clone().unwrap_or_default();
        diary.note(format!("viewed behind {}", at.rows));
        if at.begun.is_none() {
            at.begun = Some("1970-01-01T00:00:00Z".into());
            record.position = 40.into();
        }
        at.views += 1;
        record.snapshot = Some(at.clone());
        FakeSnapshot {
            says: Arc::clone(says),
            at,
            unmarked: true,
            diary: diary.clone(),
        }
    }
}

impl Source for FakeSnapshot {
    type Position = Snapshot;
    type Error = Scripted;

    fn identity(&self) -> serde_json::Value {
        "fake".into()
    }

    async fn next(&mut self) -> Result<Item<Snapshot>, Scripted> {
        if std::mem::take(&mut self.unmarked) {
            return Ok(Item::Mark(self.at.clone()));
        }
        match self.says.lock().await.recv().await {
            Some(Said::Item(Item::Row(row))) => {
                self.at.rows += 1;
                self.at.after = Some(Key {
                    event_date: Some("d".into()),
                    id: Some(self.at.rows.to_string()),
                });
                self.unmarked = true;
                Ok(Item::Row(row))
            }
            Some(Said::Item(_)) => Ok(Item::End),
            Some(Said::Trouble(trouble)) => Err(trouble),
            None => std::future::pending().await,
        }
    }

    fn enter(position: &Snapshot, record: &mut Record) {
        record.snapshot = Some(position.clone());
    }

    async fn confirm(&mut self, position: Snapshot) -> Result<(), Scripted> {
        self.diary.note(format!("confirmed row {}", position.rows));
        Ok(())
    }

    async fn close(self) {}
}

/// What `init` leaves where rows are to be published first.
fn wanted() -> Record {
    Record {
        snapshot: Some(Snapshot::default()),
        ..first_record()
    }
}

#[test]
fn of_a_date_that_is_ahead_the_beginning_of_the_snapshot_is_remembered() {
    play(|| async {
        let stage = Stage::after(wanted(), WIDE, 100);
        stage.row_with(1, &[(Role::EventDate, Value::Micros(7_000_000))]);
        later(1).await;
        stage.deliver(0);
        later(2).await;
        let known = stage.record.lock().unwrap().event_time.clone();
        assert_eq!(known.as_deref(), Some("1970-01-01T00:00:00.000000Z"));
    });
}

#[test]
fn the_rows_that_are_there_come_before_the_log() {
    play(|| async {
        let stage = Stage::after(wanted(), WIDE, 100);
        later(1).await;
        assert!(stage.diary.has("viewed behind 0"));
        assert!(!stage.diary.has("opened at 40"), "the log is not read yet");
        assert_eq!(stage.record.lock().unwrap().position, 40);
        stage.row(1);
        stage.row(2);
        stage.mark(0);
        later(2).await;
        assert!(!stage.diary.has("opened at 40"), "no row was acked");
        stage.deliver(0);
        stage.deliver(0);
        later(2).await;
        assert!(stage.diary.has("opened at 40"));
        assert_eq!(stage.record.lock().unwrap().snapshot, None);
        stage.row(3);
        stage.mark(41);
        later(1).await;
        stage.deliver(0);
        later(2).await;
        assert!(stage.diary.has("confirmed 41"));
    });
}

#[test]
fn one_that_was_broken_off_goes_on_behind_the_last_acked_row() {
    play(|| async {
        let stage = Stage::after(wanted(), WIDE, 100);
        for id in 1..=3 {
            stage.row(id);
        }
        later(1).await;
        stage.deliver(0);
        stage.deliver(1);
        later(2).await;
        let at = stage.record.lock().unwrap().snapshot.clone().unwrap();
        assert_eq!(at.rows, 1, "the second row was not acked");
        stage
            .log
            .send(Said::Trouble(Scripted(Severity::Transient, "restarted")))
            .ok();
        later(1).await;
        stage.deliver(0);
        later(2).await;
        assert!(
            stage.diary.has("viewed behind 3"),
            "{:?}",
            stage.diary.all()
        );
        let at = stage.record.lock().unwrap().snapshot.clone().unwrap();
        assert_eq!((at.views, at.rows), (2, 3));
        assert_eq!(
            stage.record.lock().unwrap().position,
            40,
            "the first view's"
        );
    });
}

#[test]
fn a_row_that_cannot_be_published_stops_it_and_nothing_before_it_comes_again() {
    play(|| async {
        let stage = Stage::after(wanted(), WIDE, 100);
        stage.row(1);
        stage.bad_row(2);
        later(1).await;
        stage.deliver(0);
        later(2).await;
        assert!(stage.task.is_finished());
        let record = stage.record.lock().unwrap().clone();
        assert_eq!(record.snapshot.as_ref().map(|at| at.rows), Some(1));
        let again = Stage::after(record, WIDE, 100);
        later(1).await;
        assert!(again.diary.has("viewed behind 1"));
        assert!(
            !again.diary.has("opened at 40"),
            "the log is not tried first"
        );
    });
}
