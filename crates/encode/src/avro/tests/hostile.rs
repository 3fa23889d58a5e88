//! Payloads made to hurt: each ends soon, and clearly.

use std::time::{Duration, Instant};

use super::{avro, event, one_field, written};
use crate::buffer::KEPT;

/// Far more than any of these needs, even on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn soon<T>(play: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = play();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    result
}

#[test]
fn a_hundred_thousand_levels_fail() {
    let mut avro = avro(&one_field("\"int\""));
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    let failure = soon(|| written(&mut avro, &deep)).expect_err("too deep");
    assert!(
        failure.contains("Failed to encode payload: port.cargo.avro.CrateSealed"),
        "{failure}"
    );
    assert!(failure.contains("1000 levels"), "{failure}");
}

#[test]
fn a_recursive_schema_takes_every_level_that_a_document_may_have() {
    let schema = r#"{"type":"record","name":"port.cargo.avro.CrateSealed","fields":[
        {"name":"next","type":["null","CrateSealed",{"type":"array","items":"CrateSealed"}],"default":null}]}"#;
    let deep = format!("{}{{}}{}", r#"{"next":"#.repeat(999), "}".repeat(999));
    let lists = format!("{}{{}}{}", r#"{"next":["#.repeat(499), "]}".repeat(499));
    // As small as the stack of a thread is by default.
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let play = thread.spawn(move || {
        let mut avro = avro(schema);
        let levels = soon(|| written(&mut avro, &deep)).expect("fits").len();
        let lists = soon(|| written(&mut avro, &lists)).expect("fits").len();
        (levels, lists)
    });
    assert_eq!(
        play.expect("a thread").join().expect("no overflow"),
        (1000, 499 * 3 + 1)
    );
}

#[test]
fn unions_that_are_tried_without_end_fail() {
    let schema = r#"{"type":"record","name":"port.cargo.avro.CrateSealed","fields":[
        {"name":"n","type":["null",
            {"type":"record","name":"A","fields":[{"name":"n","type":["null","CrateSealed","A","B"]}]},
            {"type":"record","name":"B","fields":[{"name":"n","type":["null","CrateSealed","A","B"]}]}]}]}"#;
    let mut avro = avro(schema);
    for end in ["null", "7"] {
        let deep = format!("{}{end}{}", r#"{"n":"#.repeat(900), "}".repeat(900));
        let failure = soon(|| written(&mut avro, &deep)).expect_err("a bomb");
        assert!(failure.contains("tried too often"), "{failure:.300}");
    }
    let shallow = format!("{}null{}", r#"{"n":"#.repeat(4), "}".repeat(4));
    assert_eq!(written(&mut avro, &shallow), Ok(vec![2, 2, 2, 0]));
    let wrong = format!("{}7{}", r#"{"n":"#.repeat(4), "}".repeat(4));
    let failure = written(&mut avro, &wrong).expect_err("a number");
    assert!(
        failure.contains("matches no branch") && failure.len() < 20_000,
        "{failure}"
    );
}

#[test]
fn finding_the_way_to_what_does_not_fit_costs_no_more_than_trying_it() {
    let schema = r#"{"type":"record","name":"port.cargo.avro.CrateSealed","fields":[
        {"name":"list","type":{"type":"array","items":["int",
            {"type":"record","name":"A","fields":[{"name":"n","type":["int","A","B"]}]},
            {"type":"record","name":"B","fields":[{"name":"n","type":["int","A","B"]}]}]}}]}"#;
    let mut avro = avro(schema);
    let deep = format!("{}null{}", r#"{"n":"#.repeat(16), "}".repeat(16));
    let payload = format!("{{\"list\":[{}{deep}]}}", "1,".repeat(1_000_000));
    let failure = soon(|| written(&mut avro, &payload)).expect_err("null");
    assert!(failure.len() < 20_000, "{failure}");
}

#[test]
fn a_text_of_twenty_megabytes_is_written_and_its_memory_given_back() {
    let mut avro = avro(&one_field("\"string\""));
    let long = format!("{{\"qty\":\"{}\"}}", "x".repeat(19_999_990));
    let bytes = soon(|| avro.encode(&event(&long)).map(<[u8]>::len)).expect("fits");
    assert!(bytes > 19_999_990);
    avro.encode(&event("{\"qty\":\"x\"}")).expect("fits");
    assert!(avro.payload.capacity() <= KEPT && avro.message.capacity() <= KEPT);
}

#[test]
fn a_million_members_are_dropped_and_told_a_hundred_times() {
    let mut avro = avro(&one_field("\"int\""));
    let members: Vec<String> = (0..1_000_000).map(|n| format!("\"m{n}\":0")).collect();
    let payload = format!("{{\"qty\":1,{}}}", members.join(","));
    assert_eq!(soon(|| written(&mut avro, &payload)), Ok(vec![2]));
    assert_eq!(avro.unknown_members(), 1_000_000);
    assert_eq!(avro.notices().len(), 101);
}

#[test]
fn a_map_of_a_million_entries_is_written() {
    let mut avro = avro(&one_field(r#"{"type":"map","values":["int","string"]}"#));
    let entries: Vec<String> = (0..1_000_000).map(|n| format!("\"m{n}\":{n}")).collect();
    let payload = format!("{{\"qty\":{{{}}}}}", entries.join(","));
    soon(|| written(&mut avro, &payload)).expect("fits");
}

#[test]
fn half_a_surrogate_pair_fails_wherever_it_stands() {
    for (of, value) in [
        ("\"string\"", r#""\ud800""#),
        (r#"["null","string"]"#, r#""a\udc00""#),
        (r#"{"type":"map","values":"int"}"#, r#"{"\ud800":1}"#),
        ("\"bytes\"", r#""\ud800""#),
        (
            r#"{"type":"enum","name":"E","symbols":["A"]}"#,
            r#""\ud800""#,
        ),
        (r#"{"type":"string","logicalType":"uuid"}"#, r#""\ud800""#),
        (r#"{"type":"int","logicalType":"date"}"#, r#""\ud800""#),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":4}"#,
            r#""\ud800""#,
        ),
    ] {
        let mut avro = avro(&one_field(of));
        let failure = written(&mut avro, &format!("{{\"qty\":{value}}}")).expect_err(of);
        assert!(
            failure.contains("port.cargo.avro.CrateSealed.qty"),
            "{failure}"
        );
    }
    let mut avro = avro(&one_field("\"int\""));
    assert_eq!(
        written(&mut avro, r#"{"qty":1,"\ud800":"\udc00"}"#),
        Ok(vec![2])
    );
}

#[test]
fn a_failure_never_shows_a_whole_payload() {
    let long = "x".repeat(100_000);
    for (of, value) in [
        ("\"int\"", format!("\"{long}\"")),
        ("\"bytes\"", format!("\"{long}!\"")),
        (
            r#"{"type":"enum","name":"E","symbols":["A"]}"#,
            format!("\"{long}\""),
        ),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":4}"#,
            format!("\"{long}\""),
        ),
        (
            r#"{"type":"long","logicalType":"timestamp-millis"}"#,
            format!("\"{long}\""),
        ),
        (r#"["int","long"]"#, format!("\"{long}\"")),
        (
            r#"{"type":"map","values":"int"}"#,
            format!("{{\"{long:.40000}\":\"x\"}}"),
        ),
    ] {
        let mut avro = avro(&one_field(of));
        let failure = written(&mut avro, &format!("{{\"qty\":{value}}}")).expect_err(of);
        assert!(failure.len() < 1_000, "{failure}");
    }
}
