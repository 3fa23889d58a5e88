//! Any text is read as another reader reads it, or refused with its place.

use proptest::prelude::*;

use super::read::small;
use super::text::LoneSurrogate;
use super::*;

fn with<T>(text: &str, look: impl FnOnce(Value<'_>) -> T) -> T {
    let mut document = Document::new();
    let value = document.read(text, &Limits::REFERENCE).expect("is JSON");
    look(value.expect("is not blank"))
}

fn malformed(text: &str) -> String {
    let mut document = Document::new();
    let malformed = document.read(text, &Limits::REFERENCE).expect_err(text);
    malformed.to_string()
}

/// Rebuilds what was indexed, with another reader's types.
fn rebuilt(value: Value<'_>) -> serde_json::Value {
    match value.kind() {
        Kind::Object => value
            .entries()
            .map(|(name, value)| (name.lossy().into_owned(), rebuilt(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Kind::Array => value.elements().map(rebuilt).collect(),
        Kind::Text => {
            let text = value.text().expect("a text").to_str().expect("whole");
            text.into_owned().into()
        }
        _ => serde_json::from_str(value.raw()).expect("a scalar"),
    }
}

#[test]
fn members_and_elements_are_found_in_any_order() {
    with(
        r#" {"a": [1, {"b": []}, "x"], "c": -2.5e3} tail"#,
        |value| {
            let members: Vec<_> = value.members().map(|(n, v)| (n.lossy(), v)).collect();
            assert_eq!(members.len(), 2);
            assert_eq!(members[1].0, "c");
            assert_eq!(members[1].1.number(), Some("-2.5e3"));
            assert_eq!(members[1].1.kind(), Kind::Decimal);
            let elements: Vec<_> = members[0].1.elements().collect();
            assert_eq!(elements[1].raw(), r#"{"b": []}"#);
            assert_eq!(elements[2].text().and_then(Text::plain), Some("x"));
        },
    );
}

#[test]
fn an_escape_is_what_it_stands_for_and_its_length_is_known() {
    let json = r#"["a\u0000\n\"\u00e9\u20ac\ud83d\ude00\/z"]"#;
    with(json, |value| {
        let text = value.elements().next().and_then(Value::text).expect("text");
        let plain = "a\u{0}\n\"é€😀/z";
        assert_eq!(text.to_str().expect("whole"), plain);
        assert_eq!(text.len(), plain.len());
        let mut bytes = Vec::new();
        text.append_to(&mut bytes).expect("whole");
        assert_eq!(bytes, plain.as_bytes());
    });
}

#[test]
fn half_a_surrogate_pair_is_found_when_the_text_is_taken() {
    for json in [
        r#""\udc00x""#,
        r#""\ud83d""#,
        r#""\ud83dA""#,
        r#""\ud83d\ud83d""#,
    ] {
        with(json, |value| {
            let text = value.text().expect("text");
            assert_eq!(text.to_str(), Err(LoneSurrogate));
            assert_eq!(text.append_to(&mut Vec::new()), Err(LoneSurrogate));
        });
    }
}

#[test]
fn of_equal_names_the_last_value_counts_at_the_place_of_the_first() {
    let many: Vec<String> = (0..20).map(|n| format!("\"m{n}\":{n}")).collect();
    let many = many.join(",");
    for json in [
        r#"{"b":1,"a":2,"\u0062":9}"#.to_owned(),
        format!("{{\"b\":1,\"a\":2,{many},\"b\":9}}"),
    ] {
        with(&json, |value| {
            let mut entries = value.entries();
            assert_eq!(entries.count_left(), value.len() - 1);
            let (name, first) = entries.next().expect("b");
            assert_eq!((name.lossy().as_ref(), first.raw()), ("b", "9"));
            assert_eq!(entries.next().expect("a").1.raw(), "2");
        });
    }
}

#[test]
fn what_is_not_json_is_told_with_its_place() {
    for (json, wanted) in [
        ("{\"a\":1", "',' or '}'"),
        ("{\"a\":}", "a value"),
        ("{'a':1}", "a member's name"),
        ("[1,]", "a value"),
        ("[01]", "the end of a number"),
        ("[-]", "a digit"),
        ("[1.]", "a digit"),
        ("[NaN]", "a value"),
        ("[\"a\nb\"]", "a control character"),
        ("[\"\\x\"]", "an escape"),
        ("[\"\\u12g4\"]", "four hexadecimal digits"),
        ("[\"", "the end of a string"),
        ("[1}", "',' or ']'"),
        ("nul", "a value"),
    ] {
        let told = malformed(json);
        assert!(told.contains(wanted), "{json}: {told}");
    }
}

#[test]
fn what_follows_a_value_is_refused_only_where_the_whole_text_counts() {
    let mut document = Document::new();
    for text in [
        "{} {}",
        "{\"a\":1}x",
        "1,2",
        "nullx",
        "\"a\"\u{a0}",
        "[] \u{0}",
    ] {
        assert!(document.read(text, &Limits::REFERENCE).is_ok(), "{text}");
        let malformed = document.read_whole(text, &Limits::REFERENCE);
        let told = malformed.expect_err(text).to_string();
        assert!(told.contains("the end of the text"), "{told}");
    }
    for text in ["{}", " [1]\r\n", "7 ", "\"a\"\t", " "] {
        assert!(
            document.read_whole(text, &Limits::REFERENCE).is_ok(),
            "{text}"
        );
    }
}

#[test]
fn the_way_to_a_value_leads_to_it() {
    let json = r#"{"a":[0,[],{"x":1,"b":{}}],"c\u0064":{"a":[[7]]},"e":"z"}"#;
    with(json, |value| {
        let told = |value: Value<'_>| {
            let steps = value.way().map(|step| match step {
                Step::Member(name) => format!(".{}", name.lossy()),
                Step::Element(index) => format!("[{index}]"),
            });
            steps.collect::<String>()
        };
        let all = (0..value.nodes.len()).map(|at| Value {
            at: small(at),
            ..value
        });
        let of_values: Vec<String> = all.map(told).filter(|way| !way.ends_with('"')).collect();
        for way in [
            "",
            ".a",
            ".a[0]",
            ".a[1]",
            ".a[2]",
            ".a[2].x",
            ".a[2].b",
            ".cd",
            ".cd.a",
            ".cd.a[0]",
            ".cd.a[0][0]",
            ".e",
        ] {
            assert!(
                of_values.iter().any(|told| told == way),
                "{way}: {of_values:?}"
            );
        }
    });
}

#[test]
fn what_exceeds_a_limit_fails() {
    let deep = "[".repeat(100_000);
    assert!(malformed(&deep).contains("1000 levels"));
    assert!(malformed(&format!("[{}]", "7".repeat(1001))).contains("1000 characters"));
    assert!(malformed(&format!("{{\"{}\":1}}", "n".repeat(50_001))).contains("50000 characters"));
    let long = format!("[\"{}\"]", "é".repeat(20_000_000));
    with(&long, |value| assert_eq!(value.len(), 1));
    let longer = format!("[\"{}x\"]", "é".repeat(20_000_000));
    assert!(malformed(&longer).contains("20000000 characters"));
}

#[test]
fn a_blank_text_holds_no_value() {
    let mut document = Document::new();
    assert!(
        document
            .read(" \n", &Limits::REFERENCE)
            .expect("blank")
            .is_none()
    );
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "\\PC*".prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn every_json_value_is_read_as_another_reader_reads_it(json in any_json(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&json).expect("is JSON")
        } else {
            json.to_string()
        };
        let same = with(&text, rebuilt);
        prop_assert_eq!(same, serde_json::from_str::<serde_json::Value>(&text).expect("is JSON"));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}:,\"\\\\u0-9a-f.eE+ tnl-]*") {
        let mut document = Document::new();
        let own = document.read(&text, &Limits::REFERENCE).is_ok_and(|value| value.is_some());
        if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
            prop_assert!(own, "{} is JSON", text);
        }
    }
}

#[test]
fn the_end_of_plain_text_is_found_wherever_it_stands() {
    for length in 0..40 {
        for stop in ['"', '\\', '\u{1f}', '\u{0}'] {
            for before in ["a", "é", "\u{7f}", "!", "]", " ", "\u{10ffff}"] {
                let text = before.repeat(length);
                let json = format!("[\"{text}{stop}n\",\"{text}\"]");
                let mut document = Document::new();
                let read = document.read(&json, &Limits::REFERENCE);
                assert_eq!(read.is_ok(), stop == '\\', "{json}");
                let json = format!("[\"{text}\",\"{text}\"]");
                with(&json, |value| {
                    assert!(
                        value
                            .elements()
                            .all(|e| e.text().and_then(Text::plain) == Some(&text))
                    );
                });
            }
        }
    }
}
