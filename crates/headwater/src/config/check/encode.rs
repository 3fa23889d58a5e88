//! What `[encode]` means: the format, and where its schemas are.

use headwater_encode::{JsonStyle, UnknownMembers};

use crate::config::schema::{SchemaFiles, SchemaKind};
use crate::config::written::Written;

/// How a message's value is written.
#[derive(Clone, Debug)]
pub enum Encode {
    Json(JsonStyle),
    Avro(SchemaFiles),
    Protobuf(SchemaFiles),
}

#[derive(Clone, Copy)]
enum Format {
    Avro,
    Protobuf,
    Json,
}

pub(super) fn check(written: &mut Written) -> Option<Encode> {
    let formats = [
        ("avro", Format::Avro),
        ("protobuf", Format::Protobuf),
        ("json", Format::Json),
    ];
    match written.word("encode.format", &formats)? {
        Format::Json => json(written).map(Encode::Json),
        Format::Avro => schemas(written, SchemaKind::Avro).map(Encode::Avro),
        Format::Protobuf => schemas(written, SchemaKind::Protobuf).map(Encode::Protobuf),
    }
}

fn json(written: &mut Written) -> Option<JsonStyle> {
    let what = "means nothing with encode.format = \"json\", which has no schemas; remove it";
    written.contradict(&["encode.unknown_members", "encode.envelope"], what);
    // An empty list says so itself.
    if let Some(schemas) = written.list("encode.schemas") {
        written.rule(&schemas, schemas.value().is_empty(), what);
    }
    let styles = [
        ("embedded", JsonStyle::Embedded),
        ("debezium", JsonStyle::Debezium),
    ];
    written.word("encode.json_style", &styles)
}

fn schemas(written: &mut Written, kind: SchemaKind) -> Option<SchemaFiles> {
    let (format, example) = (kind.format(), kind.example());
    let what = format!("means nothing with encode.format = \"{format}\"; remove it");
    written.contradict(&["encode.json_style"], &what);
    let wanted = format!(
        "encode.format = \"{format}\" wants the files of the payloads' schemas, such as [{example:?}]"
    );
    let list = written.list("encode.schemas");
    match &list {
        None => written.missing("encode.schemas", wanted),
        Some(list) => {
            let holds = !list.value().is_empty();
            written.rule(list, holds, &format!("is empty; {wanted}"));
        }
    }
    let envelope = written.located_path("encode.envelope");
    let policies = [
        ("warn", UnknownMembers::Warn),
        ("fail", UnknownMembers::Fail),
    ];
    let unknown_members = written.word("encode.unknown_members", &policies);
    Some(SchemaFiles {
        kind,
        folder: written.folder().to_owned(),
        list: list?,
        envelope,
        unknown_members: unknown_members?,
    })
}
