//! What the tests of all formats need: an event, bytes as text, the contract's fixtures.

use std::fmt::Write;
use std::path::Path;

use headwater_core::event::{Event, Flag, Text};

/// A `CrateSealed` of `port.cargo` with this payload: the contract's base row.
pub fn event(payload: &str) -> Event<'_> {
    Event {
        id: Text::Plain("3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a"),
        namespace: Text::Plain("port.cargo"),
        action_id: Text::Plain("9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5"),
        action_name: Text::Plain("SealCrateAction"),
        action_params: Text::Plain("{\"dock\": 12, \"seal\": \"Q-88\"}"),
        started_date: 1_781_234_567_000_123,
        completion_date: 1_781_234_567_450_789,
        model_id: Some(Text::Plain("crate-4410")),
        model_type: Some(Text::Plain("Crate")),
        event_type: Text::Plain("CrateSealed"),
        payload: Text::Plain(payload),
        event_date: 1_781_234_567_450_789,
        delivered: Flag::Bool(false),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/contract");
    std::fs::read_to_string(folder.join(name)).expect(name)
}
