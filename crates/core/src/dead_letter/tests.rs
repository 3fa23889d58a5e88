//! Letters of rows that lack something, cut and whole, and what is read back from them.

use super::*;
use crate::event::Outbox;
use crate::failure::Kind;
use crate::row::{Change, Table, Value};

fn row(with: &[(&str, Value)]) -> (Row, Roles) {
    let mut columns: Vec<String> = Role::ALL.map(|role| role.name().to_owned()).to_vec();
    columns.insert(0, "tenant".into());
    let others = with.iter().map(|(name, _)| (*name).to_owned());
    let others: Vec<String> = others.filter(|name| !columns.contains(name)).collect();
    columns.extend(others);
    let usual = |column: &String| match column.as_str() {
        "started_date" | "completion_date" | "event_date" => Value::Micros(7),
        "delivered" => Value::Bool(false),
        "id" | "action_id" => Value::Uuid([1; 16]),
        "payload" | "action_params" => Value::Text("{\"a\": 1}".into()),
        other => Value::Text(other.into()),
    };
    let cell = |column: &String| {
        let given = with.iter().find(|(name, _)| name == column);
        given.map_or_else(|| usual(column), |(_, value)| value.clone())
    };
    let cells = columns.iter().map(cell).collect();
    let table = Arc::new(Table {
        schema: "eventlog".into(),
        name: "events".into(),
        columns,
    });
    let roles = Outbox::ekbatan().bind(&table).expect("an outbox");
    let change = Change::Insert;
    let row = Row {
        table,
        change,
        cells,
    };
    (row, roles)
}

fn around(to: &Arc<str>) -> Surroundings<'_> {
    Surroundings {
        name: "shop",
        to,
        position: "0/16B3748",
        transaction: Some("0/16B3750"),
        time: Instant(0),
        version: "1.2.3",
        route: Some(2),
        topic: Some("ekbatan.shop"),
        key: Some(b"w-1"),
        limit: None,
        out_of_order: false,
    }
}

fn made(with: &[(&str, Value)], change: impl Fn(&mut Surroundings<'_>)) -> Message {
    let (row, roles) = row(with);
    let to = Arc::from("shop.dead-letter");
    let mut around = around(&to);
    change(&mut around);
    let failure = Failure::new(Kind::UnknownType, "no schema for shop.Opened");
    letter(&row, &roles, &failure, &around)
}

fn value(message: &Message) -> serde_json::Value {
    serde_json::from_slice(&message.value).expect("JSON")
}

fn texts(message: &Message) -> Vec<(String, String)> {
    let text = |value: &Bytes| String::from_utf8(value.to_vec()).expect("text");
    let headers = message.address.headers.iter();
    headers
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

fn read(message: &Message) -> Letter {
    let headers = message.address.headers.iter();
    let headers = headers.map(|(name, value)| (&**name, &**value));
    match Entry::read(headers, &message.value) {
        Ok(Entry::Letter(letter)) => *letter,
        other => panic!("{other:?}"),
    }
}

const ID: &str = "01010101-0101-0101-0101-010101010101";

#[test]
fn a_letter_says_what_failed_where_and_why() {
    let message = made(&[], |_| {});
    let id = format!("{ID}/2");
    let said = [
        ("headwater-dead-letter", id.as_str()),
        ("headwater-event-id", ID),
        ("headwater-kind", "unknown_type"),
        (
            "headwater-reason",
            "there is no schema for the event's type",
        ),
        ("headwater-error", "no schema for shop.Opened"),
        ("headwater-table", "eventlog.events"),
        ("headwater-position", "0/16B3748"),
        ("headwater-transaction", "0/16B3750"),
        ("headwater-time", "1970-01-01T00:00:00.000000Z"),
        ("headwater-route", "2"),
        ("headwater-topic", "ekbatan.shop"),
        ("headwater-version", "1.2.3"),
        ("headwater-name", "shop"),
        ("headwater-key", "w-1"),
    ];
    let said = said.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(texts(&message), said);
    assert_eq!(&*message.address.topic, "shop.dead-letter");
    assert_eq!(message.address.key.as_deref(), Some(&b"w-1"[..]));
    assert_eq!(&*message.id, ID);
}

#[test]
fn a_row_that_no_route_took_says_nothing_of_routes_and_is_keyed_by_its_id() {
    let message = made(&[], |around| {
        (around.route, around.topic, around.key) = (None, None, None);
        around.out_of_order = true;
    });
    let letter = read(&message);
    assert_eq!((letter.id.as_str(), letter.event_id.as_str()), (ID, ID));
    assert_eq!((letter.route, letter.topic, letter.key), (None, None, None));
    assert!(letter.out_of_order);
    assert_eq!(message.address.key.as_deref(), Some(ID.as_bytes()));
}

#[test]
fn every_column_is_text_in_the_order_of_the_table() {
    let message = made(
        &[
            ("id", Value::Bytes(Bytes::from_static(&[0x11; 16]))),
            ("blob", Value::Bytes(Bytes::from_static(&[0, 255]))),
            ("count", Value::Int(-3)),
            ("note", Value::Text("a\"b\u{1}\u{e9}".into())),
            ("model_id", Value::Null),
            ("event_date", Value::Unreadable("is infinity".into())),
            ("payload", Value::Absent),
        ],
        |_| {},
    );
    let json = std::str::from_utf8(&message.value).expect("text");
    let date = "1970-01-01T00:00:00.000007Z";
    assert_eq!(
        json,
        format!(
            r#"{{"columns":{{"tenant":"tenant","id":"11111111-1111-1111-1111-111111111111","namespace":"namespace","action_id":"{ID}","action_name":"action_name","action_params":"{{\"a\": 1}}","started_date":"{date}","completion_date":"{date}","model_id":null,"model_type":"model_type","event_type":"event_type","payload":null,"event_date":null,"delivered":"false","blob":"00ff","count":"-3","note":"a\"b\u0001é"}},"bytes":["blob"],"unreadable":{{"payload":"did not come with the row","event_date":"is infinity"}}}}"#
        )
    );
}

#[test]
fn the_row_comes_back_out_of_its_letter() {
    let given = [
        ("blob", Value::Bytes(Bytes::from_static(&[0, 255, 16]))),
        ("id", Value::Text(ID.into())),
        ("action_id", Value::Text(ID.into())),
        ("model_id", Value::Null),
        ("delivered", Value::Int(1)),
        ("started_date", Value::Unreadable("is infinity".into())),
        ("note", Value::Text("\u{1f600} \\ \"".into())),
    ];
    let (row, _) = row(&given);
    let letter = read(&made(&given, |_| {}));
    let again = letter.row(&Outbox::ekbatan()).expect("nothing was cut");
    assert_eq!(again.table, row.table);
    assert_eq!(again.cells, row.cells);
    assert_eq!(letter.column("note"), Some("\u{1f600} \\ \""));
    assert_eq!(letter.column("model_id"), None);
}

#[test]
fn a_row_without_an_id_has_one_of_its_own_that_stays() {
    let id = |payload: &str| {
        let payload = Value::Text(payload.into());
        let given = [("id", Value::Null), ("payload", payload)];
        read(&made(&given, |around| around.route = None)).id
    };
    assert_eq!(id("1"), id("1"));
    assert_ne!(id("1"), id("2"));
    assert!(id("1").starts_with("without-id-"));
}

#[test]
fn a_letter_that_is_too_large_loses_its_payload_first() {
    let long = |length: usize| Value::Text("\"\u{e9}".repeat(length).into());
    let given = [
        ("payload", long(30_000)),
        ("action_params", long(20_000)),
        ("tenant", long(500)),
        ("note", long(900)),
    ];
    let whole = made(&given, |_| {}).size();
    for (limit, cut) in [
        (whole, &[][..]),
        (whole - 1, &["payload"]),
        (100_000, &["payload"]),
        (50_000, &["payload", "action_params"]),
        (6_000, &["payload", "action_params", "note"]),
        (2_500, &["payload", "action_params", "note", "tenant"]),
    ] {
        let message = made(&given, |around| around.limit = Some(limit));
        assert!(message.size() <= limit, "{limit}: {}", message.size());
        // Nothing is cut without need: at most a character's length is left.
        assert!(cut.is_empty() || message.size() + 24 > limit, "{limit}");
        let letter = read(&message);
        assert_eq!(letter.cut, cut, "{limit}");
        assert_eq!(letter.row(&Outbox::ekbatan()).is_none(), !cut.is_empty());
        let payload = letter.column("payload").expect("text");
        assert!("\"\u{e9}".repeat(30_000).starts_with(payload));
    }
}

#[test]
fn a_key_as_large_as_its_message_and_a_long_error_are_cut_too() {
    let (row, roles) = row(&[]);
    let to = Arc::from("shop.dead-letter");
    let key = vec![b'k'; 100_000];
    let failure = Failure::new(Kind::Refused, "\u{e9}".repeat(100_000));
    let around = Surroundings {
        key: Some(&key),
        limit: Some(8 * 1024),
        ..around(&to)
    };
    let message = letter(&row, &roles, &failure, &around);
    assert!(message.size() <= 8 * 1024, "{}", message.size());
    assert_eq!(message.address.key.as_deref(), Some(ID.as_bytes()));
    assert_eq!(value(&message)["cut"], serde_json::json!(["headwater-key"]));
}

#[test]
fn a_mark_closes_its_letter_and_other_messages_are_neither() {
    let message = made(&[], |_| {});
    let letter = read(&message);
    let key = message.address.key.clone();
    let topic = &message.address.topic;
    let marked = mark(&letter, topic, (3, key), "shop", Instant(0));
    assert_eq!(marked.address.key, message.address.key);
    assert_eq!(marked.address.partition, Some(3));
    let headers = marked.address.headers.iter();
    let headers: Vec<(&str, &[u8])> = headers.map(|(name, it)| (&**name, &**it)).collect();
    assert_eq!(
        Entry::read(headers, &marked.value),
        Ok(Entry::Mark(Mark {
            letter: letter.id,
            name: "shop".into(),
            time: "1970-01-01T00:00:00.000000Z".into(),
        }))
    );
    let header = [(LETTER, &b"1"[..])];
    for (headers, value) in [
        (&[][..], &b"{\"columns\": {}}"[..]),
        (&header, b"{}"),
        (&header, b"{\"columns\": {\"a\": 1}}"),
        (&header, b"\xff"),
    ] {
        let read = Entry::read(headers.iter().copied(), value);
        assert!(read.is_err(), "{read:?}");
    }
}
