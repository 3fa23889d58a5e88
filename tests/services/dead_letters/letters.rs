//! Letters as Headwater makes them, put onto their topic by the tests themselves.

use std::sync::Arc;

use headwater_core::dead_letter::{self, Surroundings};
use headwater_core::event::Outbox as Layout;
use headwater_core::failure::{Failure, Kind};
use headwater_core::instant::Instant;
use headwater_core::row::{Change, Row, Table, Value};
use headwater_testkit::Outbox;

use crate::scene::{Event, Scene};

pub fn topic(scene: &Scene<'_, impl Outbox>) -> String {
    format!("{}.dead-letter", scene.pipeline.name)
}

pub struct Letter {
    event: Event,
    kind: Kind,
    route: Option<(usize, String)>,
    cut: bool,
}

impl Letter {
    pub fn of(event: &Event) -> Letter {
        Letter {
            event: event.clone(),
            kind: Kind::UnknownType,
            route: None,
            cut: false,
        }
    }

    pub fn kind(mut self, name: &str) -> Letter {
        self.kind = Kind::named(name).unwrap();
        self
    }

    pub fn route(mut self, number: usize, topic: &str) -> Letter {
        self.route = Some((number, topic.to_owned()));
        self
    }

    pub fn cut(mut self) -> Letter {
        self.cut = true;
        self
    }

    fn row(&self) -> Row {
        let Event {
            id,
            namespace,
            key,
            seq,
        } = &self.event;
        let filler = if self.cut { 3_000 } else { 0 };
        let payload = format!("{{\"seq\": {seq}}}{}", " ".repeat(filler));
        let text = |text: &str| Value::Text(text.into());
        let cells = vec![
            ("id", Value::Uuid(*id.as_bytes())),
            ("namespace", text(namespace)),
            ("action_id", Value::Uuid([7; 16])),
            ("action_name", text("TestAction")),
            ("action_params", text("{}")),
            ("started_date", Value::Micros(1_781_234_567_000_123)),
            ("completion_date", Value::Micros(1_781_234_567_000_123)),
            ("model_id", text(key)),
            ("model_type", text("Wallet")),
            ("event_type", text("WalletChangedEvent")),
            ("payload", text(&payload)),
            ("event_date", Value::Micros(1_781_234_567_000_123)),
            ("delivered", Value::Bool(false)),
        ];
        let (columns, cells) = cells.into_iter().map(|(a, b)| (a.to_owned(), b)).unzip();
        Row {
            table: Arc::new(Table {
                schema: "eventlog".into(),
                name: "events".into(),
                columns,
            }),
            change: Change::Insert,
            cells,
        }
    }
}

/// An initialised scene with these letters on the topic; their ids.
pub async fn with_letters(scene: &mut Scene<'_, impl Outbox>, letters: &[Letter]) -> Vec<String> {
    scene.init();
    let to: Arc<str> = topic(scene).into();
    scene.kafka.create_topic(&to, 3, 1, &[]).await;
    let mut ids = Vec::new();
    for letter in letters {
        let row = letter.row();
        let roles = Layout::ekbatan().bind(&row.table).unwrap();
        let route = letter.route.as_ref();
        let around = Surroundings {
            name: &scene.pipeline.name,
            to: &to,
            position: "0/0",
            transaction: None,
            time: Instant(1_781_234_567_000_123),
            version: "0.0.0",
            route: route.map(|(number, _)| *number),
            topic: route.map(|(_, topic)| topic.as_str()),
            key: route.map(|_| letter.event.key.as_bytes()),
            limit: letter.cut.then_some(2_000),
            out_of_order: false,
        };
        let failure = Failure::new(letter.kind, "as the test has it");
        let message = dead_letter::letter(&row, &roles, &failure, &around);
        let headers = message.address.headers.iter();
        let headers: Vec<(&str, &[u8])> = headers.map(|(name, it)| (&**name, &**it)).collect();
        let key = message.address.key.as_deref();
        scene
            .kafka
            .produce_with(&to, key, &headers, Some(&message.value))
            .await;
        ids.push(match route {
            Some((number, _)) => format!("{}/{number}", letter.event.id),
            None => letter.event.id.to_string(),
        });
    }
    ids
}
