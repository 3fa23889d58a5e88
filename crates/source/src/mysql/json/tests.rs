use proptest::prelude::*;
use serde_json::{Map, Value};

use super::super::captured;
use super::super::decode::{self, Event, HEADER, Header};
use super::*;

/// A document in MySQL's form, made as plainly as can be: its type, then its bytes.
fn packed(value: &Value, large: bool) -> (u8, Vec<u8>) {
    match value {
        Value::Null => (LITERAL, vec![0]),
        Value::Bool(true) => (LITERAL, vec![1]),
        Value::Bool(false) => (LITERAL, vec![2]),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) if i16::try_from(int).is_ok() => {
                (INT16, int.to_le_bytes()[..2].to_vec())
            }
            (Some(int), _) if i32::try_from(int).is_ok() => {
                (INT32, int.to_le_bytes()[..4].to_vec())
            }
            (Some(int), _) => (INT64, int.to_le_bytes().to_vec()),
            (None, Some(int)) => (UINT64, int.to_le_bytes().to_vec()),
            (None, None) => {
                let double = number.as_f64().expect("a double");
                (DOUBLE, double.to_le_bytes().to_vec())
            }
        },
        Value::String(string) => (
            STRING,
            [&count(string.len())[..], string.as_bytes()].concat(),
        ),
        Value::Array(values) => container(None, &values.iter().collect::<Vec<_>>(), large),
        Value::Object(members) => {
            let names = members.keys().map(String::as_bytes).collect();
            container(Some(names), &members.values().collect::<Vec<_>>(), large)
        }
    }
}

fn count(mut length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while length > 127 {
        bytes.push(u8::try_from(length & 0x7F).expect("seven bits") | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).expect("seven bits"));
    bytes
}

fn container(names: Option<Vec<&[u8]>>, values: &[&Value], large: bool) -> (u8, Vec<u8>) {
    let width = if large { 4 } else { 2 };
    let number = |number: usize| (number as u64).to_le_bytes()[..width].to_vec();
    let names_at = 2 * width;
    let is_object = names.is_some();
    let names = names.unwrap_or_default();
    let values_at = names_at + names.len() * (width + 2);
    let mut data_at = values_at + values.len() * (width + 1);
    let (mut heads, mut data) = (Vec::new(), Vec::new());
    for name in &names {
        heads.extend(number(data_at));
        heads.extend(u16::try_from(name.len()).expect("short").to_le_bytes());
        data.extend_from_slice(name);
        data_at += name.len();
    }
    for value in values {
        let (kind, mut bytes) = packed(value, large);
        heads.push(kind);
        let inlined = matches!(kind, LITERAL | INT16) || large && kind == INT32;
        if inlined {
            bytes.resize(width, 0);
            heads.extend(bytes);
        } else {
            heads.extend(number(data_at));
            data_at += bytes.len();
            data.extend(bytes);
        }
    }
    let kind = match (is_object, large) {
        (true, false) => SMALL_OBJECT,
        (true, true) => LARGE_OBJECT,
        (false, false) => SMALL_ARRAY,
        (false, true) => LARGE_ARRAY,
    };
    let whole = [number(values.len()), number(data_at), heads, data].concat();
    (kind, whole)
}

fn document(value: &Value, large: bool) -> Vec<u8> {
    let (kind, bytes) = packed(value, large);
    [&[kind], &bytes[..]].concat()
}

/// The text, as slowly and plainly as can be.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(string) => quoted(string),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(plain).collect();
            format!("[{}]", values.join(","))
        }
        Value::Object(members) => {
            let member =
                |(name, value): (&String, &Value)| format!("{}:{}", quoted(name), plain(value));
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn quoted(string: &str) -> String {
    let escaped = string.chars().map(|c| match c {
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\u{8}' => "\\b".into(),
        '\t' => "\\t".into(),
        '\u{c}' => "\\f".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        c if c < ' ' => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<Vec<String>>().concat())
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-40_000..40_000_i64).prop_map(Value::from),
        "[\\x00-\\x{ff}\"\\\\\u{1f340}]{0,20}".prop_map(Value::from),
        "[a-z]{100,300}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\x01]{0,6}", inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn every_document_is_written_as_the_plain_statement_does(value in documents(), large: bool) {
        prop_assert_eq!(text(&document(&value, large)), Ok(plain(&value)));
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        let _ = text(&bytes);
    }

    #[test]
    fn corrupted_documents_are_survived(value in documents(), large: bool, at: usize, to: Vec<u8>) {
        let mut bytes = document(&value, large);
        let at = at % bytes.len();
        for (place, byte) in bytes[at..].iter_mut().zip(to) {
            *place = byte;
        }
        let _ = text(&bytes);
    }

    #[test]
    fn a_document_that_was_cut_is_malformed_or_shorter(value in documents(), at: usize) {
        let bytes = document(&value, false);
        let _ = text(&bytes[..at % bytes.len()]);
    }
}

#[test]
fn parts_that_lie_over_each_other_are_not_read_for_ever() {
    // An array of 200 arrays, each of which is the whole again would be endless; here each level is the next one twice.
    let mut level = vec![INT16, 1, 0];
    for _ in 0..40 {
        // Two values at the same place.
        let mut whole = vec![2, 0, 0, 0];
        let at = 4 + 2 * 3;
        for _ in 0..2 {
            whole.push(level[0]);
            whole.extend(u16::try_from(at).expect("short").to_le_bytes());
        }
        whole.extend(&level[1..]);
        let size = u16::try_from(whole.len()).expect("short").to_le_bytes();
        whole[2..4].copy_from_slice(&size);
        level = [&[SMALL_ARRAY], &whole[..]].concat();
    }
    assert!(text(&level).is_err());
}

#[test]
fn documents_nest_a_hundred_deep_and_no_deeper() {
    let nested = |levels: usize| {
        let mut value = Value::from(1);
        for _ in 0..levels {
            value = Value::Array(vec![value]);
        }
        text(&document(&value, false))
    };
    assert!(nested(100).is_ok());
    assert!(nested(101).is_err());
}

#[test]
fn nothing_at_all_is_null() {
    assert_eq!(text(&[]), Ok("null".into()));
}

/// The cells of a captured table's second column, in order.
fn captured_documents(case: &str) -> Vec<(String, Value)> {
    let capture = captured::one("mysql", case);
    let mut found = Vec::new();
    let mut payloads = Vec::new();
    for event in &capture.events {
        let header = Header::read(event).expect("a header");
        if header.is_format() {
            continue;
        }
        let body = event.slice(HEADER..event.len() - 4);
        match decode::event(&header, &body).expect("an event") {
            Event::Payload => {
                let mut payload = super::super::payload::Payload::new(&body).expect("packed");
                while let Some(event) = payload.next().expect("an event") {
                    payloads.push(event);
                }
            }
            Event::Rows(head) => found.push(document_of(head.rows)),
            _ => {}
        }
    }
    for event in payloads {
        let header = Header::read(&event).expect("a header");
        if let Event::Rows(head) = decode::event(&header, &event[HEADER..]).expect("an event") {
            found.push(document_of(head.rows));
        }
    }
    let texts = found
        .into_iter()
        .map(|bytes| text(&bytes).expect("a document"));
    texts.zip(capture.truth).collect()
}

/// Two columns: null bits, a number, a document (none at all where it is null).
fn document_of(rows: &[u8]) -> Vec<u8> {
    let mut reader = Reader(rows);
    reader.skip(1 + 1).expect("the columns");
    let nulls = reader.u8().expect("null bits");
    reader.skip(4).expect("a number");
    if nulls & 2 != 0 {
        return Vec::new();
    }
    let length = reader.u32().expect("a length");
    reader.take(length as usize).expect("a document").to_vec()
}

/// Numbers by their value: 10000000.0 is streamed as 10000000.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .all(|(name, value)| theirs.get(name).is_some_and(|it| same(value, it)))
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            ours == theirs || ours.as_f64() == theirs.as_f64()
        }
        _ => ours == theirs,
    }
}

#[test]
fn captured_documents_say_what_the_server_says() {
    let documents = captured_documents("json");
    assert!(documents.len() > 50);
    let mut compared = 0;
    for (text, truth) in &documents {
        let Some(told) = truth["doc"].as_str() else {
            assert_eq!(text, "null");
            continue;
        };
        // The server writes these in another way.
        let is_opaque = ["base64", ":5", ":0", "00.000"]
            .iter()
            .any(|sign| told.contains(sign));
        if is_opaque {
            continue;
        }
        // serde_json gives up on the largest doubles when all their digits are written out.
        if let (Ok(ours), Ok(theirs)) = (text.parse::<f64>(), told.parse::<f64>()) {
            assert_eq!(ours.to_bits(), theirs.to_bits(), "{text} is not {truth}");
        } else {
            let ours: Value = serde_json::from_str(text).expect("JSON");
            let theirs: Value = serde_json::from_str(told).expect("JSON");
            assert!(same(&ours, &theirs), "{text} is not {truth}");
        }
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn values_that_json_does_not_have_are_written_as_debezium_streams_them() {
    let documents = captured_documents("json");
    let text = |id: usize| documents[id].0.as_str();
    assert_eq!(
        text(50),
        r#"{"dec":12345678901234567890.123456789,"int":7,"neg":-0.5,"small":0.000000000000000000000000000001,"zeros":1.5000}"#
    );
    assert_eq!(
        text(51),
        "99999999999999999999999999999999999.999999999999999999999999999999"
    );
    assert_eq!(text(52), "-0.05");
    assert_eq!(
        text(53),
        r#"{"dt":"2024-02-29 01:02:03.000004","ts":"2001-09-09 01:46:40.5","dt0":"1000-01-01 00:00:00","date":"2024-02-29","time":"-12:34:56.789","time0":"838:59:59"}"#
    );
    assert_eq!(text(54), r#""9999-12-31 23:59:59.999999""#);
    assert_eq!(text(55), r#""-00:00:00.000001""#);
    assert_eq!(text(56), r#""0001-01-01""#);
    assert!(text(57).starts_with(r#"{"bits":"FQ==","blob":"AP8Q","long":"q6ur"#));
    assert_eq!(text(59), r#"["w7w=","AA=="]"#);
}

#[test]
fn large_documents_are_read() {
    let (text, truth) = &captured_documents("json_large")[0];
    let ours: Value = serde_json::from_str(text).expect("JSON");
    let theirs: Value = serde_json::from_str(truth["doc"].as_str().expect("text")).expect("JSON");
    assert_eq!(ours, theirs);
    for (text, truth) in captured_documents("json_huge") {
        // The server puts a space behind each comma and colon.
        let marks = text.matches([',', ':']).count();
        assert_eq!(Some((text.len() + marks) as u64), truth["length"].as_u64());
    }
}

#[test]
fn doubles_are_written_as_java_writes_them() {
    // Out of JDK 17, where its digits are the fewest: bits, and the text (the exact value where it would have an exponent).
    let table = include_str!("../../../../../tests/fixtures/binlog/doubles.tsv");
    let mut count = 0;
    for line in table.lines() {
        let (bits, expected) = line.split_once('\t').expect("two columns");
        let double = f64::from_bits(u64::from_str_radix(bits, 16).expect("hex"));
        let document = [&[DOUBLE], &double.to_le_bytes()[..]].concat();
        assert_eq!(text(&document).as_deref(), Ok(expected));
        count += 1;
    }
    assert!(count > 2000);
}
