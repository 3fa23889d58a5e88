//! What the tests say to a sink, and hear from it.

use std::io::Write;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use headwater_core::failure::Kind;
use headwater_core::ledger::Ledger;
use headwater_core::message::{Address, Content, Message};
use headwater_core::sink::{Refusal, Report, Sink, Unsent};
use headwater_sink::Error;
use headwater_sink::kafka::{Kafka, Passing, Settings};

pub const LIMIT: Duration = Duration::from_mins(1);

pub fn settings(brokers: &str) -> Settings {
    Settings {
        brokers: brokers.to_owned(),
        client_id: "test".into(),
        compression: "none".into(),
        linger: Duration::from_millis(1),
        max_messages: 20_000,
        max_bytes: 16 << 20,
        create_topics: true,
        topics: Vec::new(),
        passing: Passing::default(),
        tls: None,
        sasl: None,
        properties: Vec::new(),
    }
}

pub fn with(mut settings: Settings, properties: &[(&str, &str)]) -> Settings {
    let given = properties.iter();
    settings
        .properties
        .extend(given.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    settings
}

pub fn message(topic: &str, key: Option<&str>, value: impl Into<Vec<u8>>) -> Message {
    Message {
        id: "7".into(),
        address: Address {
            key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
            ..Address::of(topic)
        },
        content: Content::Json,
        value: value.into().into(),
    }
}

/// Bytes that no compression makes smaller, without a zero.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u8::try_from(state % 255).unwrap() + 1
    };
    (0..length).map(|_| next()).collect()
}

#[derive(Debug, Default)]
pub struct Heard {
    pub delivered: usize,
    pub refused: Vec<(Message, Refusal)>,
}

/// Sends all as the loop would, one after the other, and hears what became of each: up to the first refusal, which ends
/// a run.
pub async fn carry(kafka: &mut Kafka, messages: Vec<Message>) -> Result<Heard, Error> {
    let count = messages.len();
    let mut ledger: Ledger<u32> = Ledger::new(1);
    let mut heard = Heard::default();
    let hear = async {
        for message in messages {
            let ticket = ledger.admit(message.size());
            let mut unsent = Some((message, ticket));
            while let Some((message, ticket)) = unsent.take() {
                match kafka.send(message, ticket) {
                    Ok(()) => {}
                    Err(Unsent::Broken(error)) => return Err(error),
                    Err(Unsent::Later(message, ticket)) => {
                        unsent = Some((message, ticket));
                        note(kafka.next_report().await?, &mut ledger, &mut heard);
                        if !heard.refused.is_empty() {
                            return Ok(());
                        }
                    }
                }
            }
        }
        while heard.refused.is_empty() && heard.delivered < count {
            note(kafka.next_report().await?, &mut ledger, &mut heard);
        }
        Ok(())
    };
    tokio::time::timeout(LIMIT, hear)
        .await
        .expect("an answer within a minute")?;
    assert!(!heard.refused.is_empty() || ledger.outstanding() == 0);
    Ok(heard)
}

/// What is told of a topic that takes nothing from us.
pub async fn refused(kafka: &mut Kafka, topic: &str) -> String {
    let heard = carry(kafka, vec![message(topic, None, "1")]).await.unwrap();
    let (_, Refusal { kind, why, .. }) = heard.refused.into_iter().next().expect("refused");
    assert_eq!(kind, Kind::Refused, "{why}");
    why
}

fn note(report: Report, ledger: &mut Ledger<u32>, heard: &mut Heard) {
    match report {
        Report::Room => {}
        Report::Delivered(ticket) => {
            ledger.settle(ticket);
            heard.delivered += 1;
        }
        Report::Refused(ticket, message, refusal) => {
            ledger.settle(ticket);
            heard.refused.push((message, refusal));
        }
    }
}

static LOG: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(|| {
    struct Page;
    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            LOG.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(|| Page)
        .init();
    Mutex::default()
});

/// Every test that counts log lines begins with this.
pub fn listen() {
    drop(LOG.lock().unwrap());
}

/// How often a text was logged about these brokers.
pub fn said(text: &str, brokers: &str) -> usize {
    logged()
        .lines()
        .filter(|l| l.contains(text) && l.contains(brokers))
        .count()
}

pub fn logged() -> String {
    String::from_utf8(LOG.lock().unwrap().clone()).unwrap()
}
