//! The loop and its supervisor against scripted faults: a log that says what it is told, a sink that answers when it is
//! told to. What real servers can show is tested on real servers.

mod blocked;
mod letters;
mod snapshot;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::dead_letter::OUT_OF_ORDER;
use headwater_core::event::{Outbox, Role};
use headwater_core::failure::Kind;
use headwater_core::ledger::Ticket;
use headwater_core::message::Message;
use headwater_core::positions::{FORMAT, Positions, Record};
use headwater_core::route::Route;
use headwater_core::row::{Change, Row, Table, Value};
use headwater_core::sink::{Refusal, Report, Sink, Unsent};
use headwater_core::source::{Item, Origin, Source};
use headwater_core::trouble::{Severity, Trouble};
use headwater_encode::{Encoder, Json, JsonStyle};
use tokio::sync::mpsc;

use super::stop::Ask;
use super::{
    Board, Bound, Destination, Extent, Letters, Pipeline, Preparer, Stop, Tally, supervise,
};

#[derive(Debug, Clone)]
struct Scripted(Severity, &'static str);

impl fmt::Display for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
}
impl std::error::Error for Scripted {}
impl Trouble for Scripted {
    fn severity(&self) -> Severity {
        self.0
    }
}

/// Everything that happened, in order, as short sentences.
#[derive(Debug, Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn has(&self, what: &str) -> bool {
        self.all().iter().any(|entry| entry == what)
    }
}

enum Said {
    Item(Item<u64>),
    Trouble(Scripted),
}

struct FakeSource {
    says: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Said>>>,
    gone: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<()>>>,
    diary: Diary,
}

/// Each of its transactions was committed then.
const COMMITTED: i64 = 1_000_000;

impl Source for FakeSource {
    type Position = u64;
    type Error = Scripted;

    fn identity(&self) -> serde_json::Value {
        "fake".into()
    }

    async fn next(&mut self) -> Result<Item<u64>, Scripted> {
        match self.says.lock().await.recv().await {
            Some(Said::Item(item)) => Ok(item),
            Some(Said::Trouble(trouble)) => Err(trouble),
            None => std::future::pending().await,
        }
    }

    fn committed_at(&self) -> Option<i64> {
        Some(COMMITTED)
    }

    async fn lost(&mut self) -> Scripted {
        self.gone.lock().await.recv().await;
        Scripted(Severity::Transient, "gone")
    }

    async fn confirm(&mut self, position: u64) -> Result<(), Scripted> {
        self.diary.note(format!("confirmed {position}"));
        Ok(())
    }

    async fn close(self) {
        self.diary.note("closed");
    }
}

impl Drop for FakeSource {
    fn drop(&mut self) {
        self.diary.note("dropped");
    }
}

struct FakeOrigin {
    /// How often it was opened, and the times at which it could not be.
    opened: usize,
    refuse: Arc<Mutex<Vec<usize>>>,
    says: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Said>>>,
    gone: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<()>>>,
    diary: Diary,
}

impl Origin for FakeOrigin {
    type Source = FakeSource;
    type Snapshot = snapshot::FakeSnapshot;

    async fn lock(&mut self) -> Result<(), Scripted> {
        Ok(())
    }

    async fn open(&mut self, record: &Record) -> Result<FakeSource, Scripted> {
        self.diary.note(format!("opened at {}", record.position));
        self.opened += 1;
        if self.refuse.lock().unwrap().contains(&self.opened) {
            return Err(Scripted(Severity::Transient, "not free"));
        }
        Ok(FakeSource {
            says: Arc::clone(&self.says),
            gone: Arc::clone(&self.gone),
            diary: self.diary.clone(),
        })
    }

    async fn snapshot(&mut self, record: &mut Record) -> Result<snapshot::FakeSnapshot, Scripted> {
        Ok(snapshot::FakeSnapshot::open(
            record,
            &self.says,
            &self.diary,
        ))
    }
}

/// What the test tells the broker to do with the messages that it holds.
enum Answer {
    Deliver(usize),
    Refuse(usize),
    /// One behind which its key went on.
    RefuseOvertaken(usize),
    Break(Scripted),
}

struct FakeSink {
    held: VecDeque<(Message, Ticket)>,
    room: usize,
    answers: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Answer>>>,
    diary: Diary,
}

/// An id without the zeros that all of them begin with.
fn short(id: &str) -> &str {
    id.trim_start_matches(['0', '-'])
}

impl FakeSink {
    fn refused(&mut self, rank: usize, overtaken: bool) -> Report {
        let (message, ticket) = self.held.remove(rank).expect("a message of that rank");
        let refusal = Refusal {
            kind: Kind::TooLarge,
            why: "too big".into(),
            overtaken,
        };
        Report::Refused(ticket, message, refusal)
    }
}

impl Sink for FakeSink {
    type Error = Scripted;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Scripted>> {
        if self.held.len() >= self.room {
            return Err(Unsent::Later(message, ticket));
        }
        let headers = &message.address.headers;
        let is_late = headers.iter().any(|(name, _)| &**name == OUT_OF_ORDER);
        let letter = match &*message.address.topic {
            "test.dead-letter" if is_late => "late letter ",
            "test.dead-letter" => "letter ",
            _ => "",
        };
        self.diary
            .note(format!("sent {letter}{}", short(&message.id)));
        self.held.push_back((message, ticket));
        Ok(())
    }

    async fn next_report(&mut self) -> Result<Report, Scripted> {
        let answer = self.answers.lock().await.recv().await;
        match answer {
            Some(Answer::Deliver(rank)) => {
                let (_, ticket) = self.held.remove(rank).expect("a message of that rank");
                Ok(Report::Delivered(ticket))
            }
            Some(Answer::Refuse(rank)) => Ok(self.refused(rank, false)),
            Some(Answer::RefuseOvertaken(rank)) => Ok(self.refused(rank, true)),
            Some(Answer::Break(trouble)) => Err(trouble),
            None => std::future::pending().await,
        }
    }
}

/// Remembers in the diary; a record is safe only when `safe` is not held by the test.
struct FakePositions {
    record: Arc<Mutex<Record>>,
    under_way: Option<Record>,
    safe: Arc<tokio::sync::Mutex<()>>,
    diary: Diary,
}

impl Positions for FakePositions {
    type Error = Scripted;

    async fn read(&mut self) -> Result<Option<Record>, Scripted> {
        Ok(Some(self.record.lock().unwrap().clone()))
    }

    fn write(&mut self, record: &Record) -> Result<(), Scripted> {
        assert!(self.under_way.is_none(), "one at a time");
        self.under_way = Some(record.clone());
        Ok(())
    }

    async fn written(&mut self) -> Result<(), Scripted> {
        if self.under_way.is_none() {
            std::future::pending::<()>().await;
        }
        let _safe = self.safe.lock().await;
        let record = self.under_way.take().expect("just seen");
        self.diary.note(format!("remembered {}", record.position));
        if let Some(blocked) = &record.blocked {
            self.diary.note(format!("blocked {}", short(&blocked.id)));
        }
        *self.record.lock().unwrap() = record;
        Ok(())
    }
}

struct FakeDestination {
    room: usize,
    answers: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Answer>>>,
    record: Arc<Mutex<Record>>,
    safe: Arc<tokio::sync::Mutex<()>>,
    diary: Diary,
}

impl Destination for FakeDestination {
    type Sink = FakeSink;
    type Positions = FakePositions;

    async fn open(&mut self) -> Result<(FakeSink, FakePositions), Box<dyn Trouble>> {
        let sink = FakeSink {
            held: VecDeque::new(),
            room: self.room,
            answers: Arc::clone(&self.answers),
            diary: self.diary.clone(),
        };
        let positions = FakePositions {
            record: Arc::clone(&self.record),
            under_way: None,
            safe: Arc::clone(&self.safe),
            diary: self.diary.clone(),
        };
        Ok((sink, positions))
    }
}

/// One pipeline under test, running in a task, and the strings that pull it.
struct Stage {
    log: mpsc::UnboundedSender<Said>,
    broker: mpsc::UnboundedSender<Answer>,
    lose: mpsc::UnboundedSender<()>,
    safe: Arc<tokio::sync::Mutex<()>>,
    /// The times, counted from one, at which the log cannot be opened.
    refuse: Arc<Mutex<Vec<usize>>>,
    record: Arc<Mutex<Record>>,
    diary: Diary,
    ask: Ask,
    task: tokio::task::JoinHandle<Result<(), String>>,
    table: Arc<Table>,
}

impl Stage {
    fn new(bound: Bound, room: usize) -> Stage {
        Stage::after(first_record(), bound, room)
    }

    /// With what an earlier run remembered.
    fn after(record: Record, bound: Bound, room: usize) -> Stage {
        Stage::with(Letters::default(), record, bound, room)
    }

    fn with(letters: Letters, record: Record, bound: Bound, room: usize) -> Stage {
        let record = Arc::new(Mutex::new(record));
        let (log, says) = mpsc::unbounded_channel();
        let (broker, answers) = mpsc::unbounded_channel();
        let (lose, gone) = mpsc::unbounded_channel();
        let diary = Diary::default();
        let safe = Arc::new(tokio::sync::Mutex::new(()));
        let refuse = Arc::default();
        let mut pipeline = Pipeline {
            name: "test".into(),
            origin: FakeOrigin {
                opened: 0,
                refuse: Arc::clone(&refuse),
                says: Arc::new(tokio::sync::Mutex::new(says)),
                gone: Arc::new(tokio::sync::Mutex::new(gone)),
                diary: diary.clone(),
            },
            destination: FakeDestination {
                room,
                answers: Arc::new(tokio::sync::Mutex::new(answers)),
                record: Arc::clone(&record),
                safe: Arc::clone(&safe),
                diary: diary.clone(),
            },
            preparer: Preparer::new(
                Outbox::ekbatan(),
                Encoder::Json(Json::new(JsonStyle::Embedded)),
                vec![Route::parse("t", "{model_id}").unwrap()],
            ),
            letters,
            bound,
            extent: Extent::All,
            tally: Tally::default(),
            board: Board::default(),
        };
        let (ask, mut stop) = Stop::channel();
        let task = tokio::task::spawn_local(async move {
            supervise(&mut pipeline, &mut stop)
                .await
                .map(drop)
                .map_err(|trouble| trouble.to_string())
        });
        Stage {
            log,
            broker,
            lose,
            safe,
            refuse,
            record,
            diary,
            ask,
            task,
            table: Arc::new(Table {
                schema: "eventlog".into(),
                name: "events".into(),
                columns: Role::ALL.map(|role| role.name().to_owned()).to_vec(),
            }),
        }
    }

    fn row(&self, id: u8) {
        self.row_with(id, &[]);
    }

    /// A row without a payload.
    fn bad_row(&self, id: u8) {
        self.row_with(id, &[(Role::Payload, Value::Null)]);
    }

    fn row_with(&self, id: u8, changed: &[(Role, Value)]) {
        let mut cells = Role::ALL.map(|role| match role {
            Role::StartedDate | Role::CompletionDate | Role::EventDate => Value::Micros(0),
            Role::Delivered => Value::Bool(false),
            Role::Id => Value::Uuid(std::array::from_fn(|i| if i == 15 { id } else { 0 })),
            Role::Payload | Role::ActionParams => Value::Text("{}".into()),
            other => Value::Text(other.name().into()),
        });
        for (role, value) in changed {
            cells[*role as usize] = value.clone();
        }
        self.say(Item::Row(Row {
            table: Arc::clone(&self.table),
            change: Change::Insert,
            cells: cells.to_vec(),
        }));
    }

    fn say(&self, item: Item<u64>) {
        self.log.send(Said::Item(item)).ok();
    }

    fn mark(&self, position: u64) {
        self.say(Item::Mark(position));
    }

    fn deliver(&self, rank: usize) {
        self.broker.send(Answer::Deliver(rank)).ok();
    }
}

fn first_record() -> Record {
    Record {
        format: FORMAT,
        name: "test".into(),
        run: 0,
        source: "fake".into(),
        position: 0.into(),
        event_time: None,
        written_at: String::new(),
        headwater: String::new(),
        blocked: None,
        snapshot: None,
    }
}

const WIDE: Bound = Bound {
    messages: 1000,
    bytes: 1 << 20,
};

/// Plays a scene with the clock standing still unless everybody waits.
fn play<F: Future<Output = ()>>(scene: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, scene());
}

async fn later(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn of_a_date_that_is_ahead_the_commit_is_remembered() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row_with(1, &[(Role::EventDate, Value::Micros(COMMITTED + 7))]);
        stage.mark(7);
        later(1).await;
        stage.deliver(0);
        later(2).await;
        let known = stage.record.lock().unwrap().event_time.clone();
        assert_eq!(known.as_deref(), Some("1970-01-01T00:00:01.000000Z"));
    });
}

#[test]
fn a_position_is_confirmed_only_after_the_ack_and_the_record() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.row(2);
        stage.mark(7);
        later(2).await;
        assert!(!stage.diary.has("remembered 7"), "before any ack");
        stage.deliver(1);
        later(2).await;
        assert!(!stage.diary.has("remembered 7"), "one ack is missing");
        let unsafe_yet = stage.safe.lock().await;
        stage.deliver(0);
        later(2).await;
        assert!(!stage.diary.has("confirmed 7"), "the record is not safe");
        drop(unsafe_yet);
        later(2).await;
        assert!(stage.diary.has("remembered 7") && stage.diary.has("confirmed 7"));
    });
}

#[test]
fn an_idle_log_is_confirmed_and_a_hurry_at_once() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.mark(1);
        later(1).await;
        assert!(stage.diary.has("confirmed 1"));
        stage.mark(2);
        later(5).await;
        assert!(!stage.diary.has("confirmed 2"), "idle: every 10 s");
        stage.say(Item::Hurry);
        later(1).await;
        assert!(stage.diary.has("confirmed 2"));
    });
}

#[test]
fn the_log_is_not_read_beyond_the_bound() {
    play(|| async {
        let bound = Bound {
            messages: 2,
            bytes: 1 << 20,
        };
        let stage = Stage::new(bound, 100);
        for id in 1..=5 {
            stage.row(id);
        }
        later(1).await;
        assert!(stage.diary.has("sent 2") && !stage.diary.has("sent 3"));
        stage.deliver(0);
        later(1).await;
        assert!(stage.diary.has("sent 3") && !stage.diary.has("sent 4"));
    });
}

#[test]
fn a_message_over_the_bound_goes_alone() {
    play(|| async {
        let stage = Stage::new(
            Bound {
                messages: 10,
                bytes: 1,
            },
            100,
        );
        stage.row(1);
        stage.row(2);
        later(1).await;
        assert!(stage.diary.has("sent 1") && !stage.diary.has("sent 2"));
        stage.deliver(0);
        later(1).await;
        assert!(stage.diary.has("sent 2"));
    });
}

#[test]
fn what_a_full_sink_gives_back_is_offered_again_in_order() {
    play(|| async {
        let stage = Stage::new(WIDE, 1);
        for id in 1..=3 {
            stage.row(id);
        }
        stage.mark(3);
        for _ in 0..3 {
            later(1).await;
            stage.deliver(0);
        }
        later(1).await;
        let sent: Vec<String> = stage
            .diary
            .all()
            .into_iter()
            .filter(|entry| entry.starts_with("sent"))
            .collect();
        assert_eq!(sent, ["sent 1", "sent 2", "sent 3"]);
        assert!(stage.diary.has("confirmed 3"));
    });
}

#[test]
fn a_refused_message_stops_the_run_and_is_never_confirmed() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        stage.row(2);
        stage.mark(2);
        later(1).await;
        stage.deliver(0);
        later(1).await;
        stage.broker.send(Answer::Refuse(0)).ok();
        let trouble = stage.task.await.unwrap().expect_err("a person is needed");
        assert!(
            trouble.contains("000000000002") && trouble.contains("too_large"),
            "{trouble}"
        );
        assert!(stage.diary.has("remembered 1") && !stage.diary.has("remembered 2"));
    });
}

#[test]
fn a_row_that_cannot_be_published_stops_after_what_came_before_it() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        stage.bad_row(2);
        stage.row(3);
        stage.mark(3);
        later(1).await;
        stage.deliver(0);
        let trouble = stage.task.await.unwrap().expect_err("a person is needed");
        assert!(
            trouble.contains("after 1") && trouble.contains("column payload"),
            "{trouble}"
        );
        assert!(stage.diary.has("remembered 1") && stage.diary.has("blocked 2"));
        assert!(!stage.diary.has("sent 3"), "nothing is passed over");
    });
}

#[test]
fn a_lost_source_is_opened_again_where_the_last_record_stands_after_the_acks() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        stage.row(2);
        let lost = Scripted(Severity::Transient, "connection lost");
        stage.log.send(Said::Trouble(lost)).ok();
        later(5).await;
        assert!(stage.diary.has("dropped") && !stage.diary.has("opened at 1"));
        stage.deliver(0);
        stage.deliver(0);
        later(5).await;
        assert!(stage.diary.has("opened at 1"), "{:?}", stage.diary.all());
    });
}

#[test]
fn a_silent_broker_makes_the_log_be_given_up_until_it_answers() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        later(9).await;
        assert!(!stage.diary.has("dropped"));
        later(3).await;
        assert!(stage.diary.has("dropped"));
        later(3600).await;
        assert!(!stage.diary.has("opened at 1"));
        stage.deliver(0);
        later(1).await;
        assert!(stage.diary.has("opened at 1"));
    });
}

#[test]
fn inside_a_transaction_a_silent_broker_is_waited_for() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        later(60).await;
        assert!(!stage.diary.has("dropped"), "all of it would come again");
        stage.row(2);
        stage.mark(2);
        later(1).await;
        stage.deliver(0);
        stage.deliver(0);
        later(1).await;
        assert!(stage.diary.has("remembered 2"));
        let begun = stage
            .diary
            .all()
            .iter()
            .filter(|e| *e == "opened at 0")
            .count();
        assert_eq!(begun, 1, "nothing came again");
    });
}

#[test]
fn a_log_that_is_lost_is_let_go_even_while_there_is_no_room_to_read_it() {
    play(|| async {
        let one = Bound {
            messages: 1,
            bytes: 1 << 20,
        };
        let stage = Stage::new(one, 100);
        stage.row(1);
        later(1).await;
        assert!(!stage.diary.has("dropped"));
        stage.lose.send(()).ok();
        later(1).await;
        assert!(stage.diary.has("dropped"));
    });
}

#[test]
fn a_broker_that_is_not_asked_anything_need_not_answer() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        later(1).await;
        stage.deliver(0);
        later(3600).await;
        assert!(stage.diary.has("confirmed 1") && !stage.diary.has("dropped"));
    });
}

#[test]
fn a_broken_sink_is_made_anew_and_unsettled_rows_are_read_again() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        later(1).await;
        let broken = Scripted(Severity::Transient, "producer broken");
        stage.broker.send(Answer::Break(broken)).ok();
        later(1).await;
        let opened = stage
            .diary
            .all()
            .iter()
            .filter(|e| *e == "opened at 0")
            .count();
        assert_eq!(opened, 2);
    });
}

#[test]
fn fatal_trouble_ends_it() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        let fatal = Scripted(Severity::Fatal, "slot missing");
        stage.log.send(Said::Trouble(fatal)).ok();
        assert_eq!(stage.task.await.unwrap(), Err("slot missing".into()));
    });
}

#[test]
fn a_stop_reads_on_to_the_transactions_end_and_confirms_it() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        later(1).await;
        stage.ask.stop();
        later(1).await;
        stage.row(2);
        stage.mark(2);
        stage.row(3);
        later(1).await;
        stage.deliver(0);
        stage.deliver(0);
        assert_eq!(stage.task.await.unwrap(), Ok(()));
        assert!(
            !stage.diary.has("sent 3"),
            "that belongs to the next transaction"
        );
        let last: Vec<String> = stage.diary.all().split_off(stage.diary.all().len() - 4);
        assert_eq!(last, ["remembered 2", "confirmed 2", "closed", "dropped"]);
    });
}

/// A prepared transaction may be awaited for hours: the log goes on behind it, and stays to be resumed before it.
#[test]
fn a_stop_does_not_wait_for_a_log_that_is_held_back() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        stage.row(2);
        stage.mark(1);
        later(1).await;
        stage.deliver(0);
        stage.deliver(0);
        later(1).await;
        let asked = tokio::time::Instant::now();
        stage.ask.stop();
        assert_eq!(stage.task.await.unwrap(), Ok(()));
        assert!(asked.elapsed() < Duration::from_secs(2));
        let diary = stage.diary.all();
        let last: Vec<&String> = diary.iter().rev().take(2).collect();
        assert_eq!(last, ["dropped", "closed"]);
        assert_eq!(stage.record.lock().unwrap().position, 1);
    });
}

/// Else all that came since the mark would come again.
#[test]
fn a_log_that_is_held_back_is_not_given_up_for_a_silent_broker() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        later(1).await;
        stage.deliver(0);
        stage.row(2);
        stage.mark(1);
        later(60).await;
        assert!(!stage.diary.has("dropped"), "{:?}", stage.diary.all());
        stage.deliver(0);
        // Heard before the mark: behind that one the log could be given up.
        later(1).await;
        stage.mark(2);
        later(1).await;
        assert!(stage.diary.has("confirmed 2"), "{:?}", stage.diary.all());
    });
}

#[test]
fn a_stop_with_a_silent_broker_ends_within_thirty_seconds() {
    play(|| async {
        let stage = Stage::new(WIDE, 100);
        stage.row(1);
        stage.mark(1);
        later(1).await;
        let asked = tokio::time::Instant::now();
        stage.ask.stop();
        assert_eq!(stage.task.await.unwrap(), Ok(()));
        assert!(asked.elapsed() < Duration::from_secs(30));
        assert!(!stage.diary.has("confirmed 1"));
    });
}
