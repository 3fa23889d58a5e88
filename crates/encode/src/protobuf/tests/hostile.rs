//! Payloads that were made to hurt: each ends in bytes or a clear failure, soon, and without the stack growing with it.

use std::time::{Duration, Instant};

use super::{event, hex, proto3};
use crate::buffer::KEPT;
use crate::protobuf::Protobuf;

const BODY: &str = "message CrateSealed { CrateSealed next = 1; string text = 2; int32 int = 3; uint64 big = 4; double number = 5; \
    float small = 6; google.protobuf.Value any = 7; map<string,int32> map = 8; repeated CrateSealed list = 9; bytes raw = 10; \
    google.protobuf.Duration span = 11; google.protobuf.Struct structure = 12; }";

/// In a test's thread of 2 MiB, and within a time that only something quadratic exceeds.
fn soon(encoder: &mut Protobuf, json: &str) -> Result<String, String> {
    let start = Instant::now();
    let written = encoder.payload(&event("CrateSealed", json));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    let written = written.map(hex).map_err(|failure| failure.detail);
    if let Err(told) = &written {
        assert!(told.len() < 1000, "{} bytes", told.len());
    }
    written
}

#[test]
fn depth_ends_in_a_failure() {
    let mut encoder = proto3(BODY);
    for (open, inside, close) in [
        ("{\"next\":", "{}", "}"),
        ("{\"list\":[", "{}", "]}"),
        ("{\"structure\":{\"x\":", "1", "}}"),
        ("{\"unknown\":", "1", "}"),
        ("{text:", "1", "}"),
    ] {
        for levels in [500, 100_000] {
            let json = format!("{}{inside}{}", open.repeat(levels), close.repeat(levels));
            let _ = soon(&mut encoder, &json);
        }
    }
    for member in ["any", "text", "list"] {
        let json = format!(
            "{{\"{member}\":{}{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(soon(&mut encoder, &json).is_err());
    }
}

#[test]
fn huge_exponents_and_numbers_cost_no_more_than_their_characters() {
    let mut encoder = proto3(BODY);
    for exponent in [
        "1e999999999",
        "-1E999999999",
        "1e99999999999999999999",
        "1e2147483648",
    ] {
        for member in ["int", "big", "number", "small", "any"] {
            let told = soon(&mut encoder, &format!("{{\"{member}\":{exponent}}}"))
                .expect_err("does not fit");
            assert!(told.contains(member), "{told}");
        }
        let text = soon(&mut encoder, &format!("{{\"text\":{exponent}}}")).expect("is text");
        assert_eq!(text.len(), 2 * (2 + exponent.len()));
    }
    let long = "7".repeat(5_000_000);
    for member in ["int", "big", "number", "small"] {
        assert!(soon(&mut encoder, &format!("{{\"{member}\":{long}}}")).is_err());
        assert!(soon(&mut encoder, &format!("{{\"{member}\":\"{long}\"}}")).is_err());
        let is_whole = matches!(member, "int" | "big");
        assert_eq!(
            soon(&mut encoder, &format!("{{\"{member}\":0.{long}e-9}}")).is_err(),
            is_whole
        );
    }
    assert!(soon(&mut encoder, &format!("{{\"text\":{long}}}")).is_ok());
    assert!(soon(&mut encoder, &format!("{{\"span\":\"{long}s\"}}")).is_err());
    assert!(soon(&mut encoder, &format!("{{\"span\":\"1.{long}s\"}}")).is_ok());
}

#[test]
fn huge_texts_are_written_at_any_depth_and_their_room_is_given_back() {
    let mut encoder = proto3(BODY);
    let text = "x".repeat(20_000_000);
    for levels in [0, 99] {
        let json = format!(
            "{}{{\"text\":\"{text}\"}}{}",
            "{\"next\":".repeat(levels),
            "}".repeat(levels)
        );
        let start = Instant::now();
        let event = super::event("CrateSealed", &json);
        let length = encoder.encode(&event).expect("encodes").len();
        assert!(length > text.len() && start.elapsed() < Duration::from_secs(20));
    }
    encoder
        .encode(&super::event("CrateSealed", "{}"))
        .expect("encodes");
    assert!(encoder.payload.capacity() <= KEPT && encoder.message.capacity() <= KEPT);
    assert!(
        soon(
            &mut encoder,
            &format!("{{\"raw\":\"{}\"}}", "A".repeat(20_000_000))
        )
        .is_ok()
    );
    assert!(soon(&mut encoder, &format!("{{\"int\":\"{text}\"}}")).is_err());
}

#[test]
fn a_million_members_are_read_dropped_or_written() {
    let mut encoder = proto3(BODY);
    let members = |name: &str| {
        (0..1_000_000)
            .map(|n| format!("\"{name}{n}\":1"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let unknown = format!("{{{}}}", members("m"));
    assert_eq!(soon(&mut encoder, &unknown), Ok(String::new()));
    assert_eq!(encoder.unknown_members(), 1_000_000);
    assert!(encoder.notices().len() < 200);
    assert!(
        soon(
            &mut encoder,
            &format!("{{\"map\":{unknown},\"any\":{unknown}}}")
        )
        .is_ok()
    );
    let same = format!("{{\"map\":{{{}}}}}", "\"k\":1,".repeat(500_000) + "\"k\":2");
    assert_eq!(soon(&mut encoder, &same).as_deref(), Ok("42050a016b1002"));
}
