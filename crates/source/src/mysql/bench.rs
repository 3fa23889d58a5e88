//! A log made by hand, and its reading: what `benches/binlog.rs` measures. Feature `bench` alone.

use bytes::Bytes;

use super::flavor::Flavor;
use super::gtid::Gtids;
use super::position::Position;
use super::rows::Rows;
use super::{decode, made};

/// What a transaction looks like.
#[derive(Clone, Copy)]
pub struct Shape {
    pub rows: usize,
    pub checksums: bool,
    pub outbox: bool,
}

/// One reading.
pub struct Log(Rows);

impl Default for Log {
    fn default() -> Log {
        Log::new()
    }
}

impl Log {
    pub fn new() -> Log {
        let gtids = Gtids::MySql("".parse().unwrap_or_default());
        let start = Position::new(gtids, "binlog.000001", 4);
        Log(Rows::new(
            Flavor::MySql,
            "eventlog",
            "events",
            start,
            None,
            false,
        ))
    }

    /// How many items an event gave.
    ///
    /// # Panics
    /// If the event cannot be read.
    #[expect(clippy::expect_used, reason = "it was made here")]
    pub fn take(&mut self, event: Bytes) -> usize {
        self.0.take(event).expect("a good event");
        let mut items = 0;
        while let Some(item) = self.0.item().expect("a good event") {
            std::hint::black_box(&item);
            items += 1;
        }
        items
    }
}

impl Shape {
    /// The events of so many transactions.
    pub fn events(self, transactions: usize) -> Vec<Bytes> {
        let mut events = vec![made::format()];
        if self.checksums {
            let mut format = events.remove(0).to_vec();
            let algorithm = format.len() - 5;
            if let Some(byte) = format.get_mut(algorithm) {
                *byte = 1;
            }
            events.push(self.sealed(&format[..format.len() - 4], 0));
        }
        let name = if self.outbox { "events" } else { "other" };
        for number in 1..=transactions {
            let number = u64::try_from(number).unwrap_or_default();
            let mut one = vec![
                made::gtid(100, number, 1_700_000_000_000_000 + number),
                made::query(200, "", "BEGIN"),
            ];
            let mut left = self.rows;
            while left > 0 {
                // As many as the server puts into an event of 8 kB.
                let some = left.min(10);
                one.push(made::table(1, "eventlog", name, &columns()));
                one.push(write(some));
                left -= some;
            }
            one.push(made::xid(900));
            events.extend(one.iter().map(|event| self.sealed(event, 4)));
        }
        events
    }

    /// With its checksum; `longer` by so many bytes.
    fn sealed(self, event: &[u8], longer: usize) -> Bytes {
        let mut event = event.to_vec();
        if !self.checksums {
            return event.into();
        }
        let size = u32::try_from(event.len() + longer).unwrap_or_default();
        if let Some(place) = event.get_mut(9..13).filter(|_| longer > 0) {
            place.copy_from_slice(&size.to_le_bytes());
        }
        if let Ok(header) = header(&event, longer) {
            event.extend(decode::checksum(&header, &event).to_le_bytes());
        }
        event.into()
    }
}

fn header(event: &[u8], longer: usize) -> Result<decode::Header, super::reader::Malformed> {
    let mut whole = event.to_vec();
    whole.resize(event.len() + longer.max(4), 0);
    decode::Header::read(&whole)
}

const TEXT: [&str; 3] = ["namespace", "action_name", "model_id"];

/// Ekbatan's table on MySQL.
fn columns() -> Vec<u8> {
    let names = [
        "id",
        "namespace",
        "action_id",
        "action_name",
        "action_params",
        "started_date",
        "completion_date",
        "model_id",
        "model_type",
        "event_type",
        "payload",
        "event_date",
        "delivered",
    ];
    let types = [254, 15, 254, 15, 245, 18, 18, 15, 15, 15, 245, 18, 1];
    let mut columns = vec![13];
    columns.extend(types);
    let meta: Vec<u8> = types
        .iter()
        .flat_map(|kind| match kind {
            254 => vec![254, 36],
            15 => vec![252, 3],
            245 => vec![4],
            18 => vec![6],
            _ => vec![],
        })
        .collect();
    columns.push(u8::try_from(meta.len()).unwrap_or_default());
    columns.extend(meta);
    columns.extend([0, 0]);
    columns.extend([1, 1, 0]); // signs
    columns.extend([2, 7, 45, 0, 11, 2, 11, 1, 45]); // character sets
    let names: Vec<u8> = names
        .iter()
        .flat_map(|name| {
            [
                &[u8::try_from(name.len()).unwrap_or_default()],
                name.as_bytes(),
            ]
            .concat()
        })
        .collect();
    columns.push(4);
    columns.push(u8::try_from(names.len()).unwrap_or_default());
    columns.extend(names);
    columns
}

/// A rows event.
fn write(rows: usize) -> Bytes {
    let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 13, 0xFF, 0x1F];
    for _ in 0..rows {
        body.extend(row());
    }
    made::event(30, 0, 0, &body)
}

fn row() -> Vec<u8> {
    let short = |text: &str| {
        [
            &[u8::try_from(text.len()).unwrap_or_default()],
            text.as_bytes(),
        ]
        .concat()
    };
    let text = |text: &str| {
        let length = u16::try_from(text.len()).unwrap_or_default();
        [&length.to_le_bytes(), text.as_bytes()].concat()
    };
    let json = |members: usize| {
        let document = document(members);
        let length = u32::try_from(document.len()).unwrap_or_default();
        [&length.to_le_bytes(), &document[..]].concat()
    };
    let date = [0x99, 0xB8, 0x42, 0xA0, 0x00, 0x01, 0xE2, 0x40];
    let uuid = "0b5e4a31-6c0e-4c1e-9d6e-2f1c6a4b9f01";
    let [namespace, action, model] = TEXT;
    [
        vec![0, 0],
        short(uuid),
        text(namespace),
        short(uuid),
        text(action),
        json(3),
        date.to_vec(),
        date.to_vec(),
        text(model),
        text("Wallet"),
        text("WalletMoneyDepositedEvent"),
        json(12),
        date.to_vec(),
        vec![0],
    ]
    .concat()
}

/// A small object of numbers and texts.
fn document(members: usize) -> Vec<u8> {
    let value = "some text of usual length";
    let mut heads = Vec::new();
    let mut data = Vec::new();
    let mut at = 4 + members * 4 + members * 3;
    for member in 0..members {
        let name = format!("member_{member:02}");
        heads.extend(u16::try_from(at).unwrap_or_default().to_le_bytes());
        heads.extend(u16::try_from(name.len()).unwrap_or_default().to_le_bytes());
        at += name.len();
        data.extend(name.into_bytes());
    }
    for member in 0..members {
        if member % 3 == 0 {
            heads.extend([5, 7, 0]);
            continue;
        }
        heads.push(12);
        heads.extend(u16::try_from(at).unwrap_or_default().to_le_bytes());
        data.push(u8::try_from(value.len()).unwrap_or_default());
        data.extend(value.as_bytes());
        at += 1 + value.len();
    }
    let count = u16::try_from(members).unwrap_or_default().to_le_bytes();
    let size = u16::try_from(at).unwrap_or_default().to_le_bytes();
    [&[0], &count[..], &size[..], &heads[..], &data[..]].concat()
}
