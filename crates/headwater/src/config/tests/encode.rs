//! `[encode]`: what fits together, and which files it names.

use std::fs;
use std::path::Path;

use headwater_encode::{JsonStyle, SchemaError, UnknownMembers};
use tempfile::TempDir;

use super::*;

/// `JSON` with other lines in `[encode]`, from line 7.
fn encode(lines: &str) -> String {
    changed("format = \"json\"", lines)
}

fn schemas(config: &Config) -> &SchemaFiles {
    match config.encode() {
        Encode::Avro(schemas) | Encode::Protobuf(schemas) => schemas,
        other @ Encode::Json(_) => panic!("{other:?}"),
    }
}

#[test]
fn each_format_takes_its_own_keys() {
    let config = good(&encode("format = \"json\"\njson_style = \"debezium\""), &[]);
    assert!(matches!(config.encode(), Encode::Json(JsonStyle::Debezium)));
    let config = good(JSON, &[]);
    assert!(matches!(config.encode(), Encode::Json(JsonStyle::Embedded)));
    let more = "schemas = [\"a\"]\nunknown_members = \"fail\"\nenvelope = \"e\"";
    let config = good(&encode(&format!("format = \"avro\"\n{more}")), &[]);
    assert!(matches!(config.encode(), Encode::Avro(_)));
    let named = schemas(&config);
    assert_eq!(named.unknown_members, UnknownMembers::Fail);
    let envelope = named.envelope.as_ref().map(|it| it.value().as_path());
    assert_eq!(envelope, Some(Path::new("conf/e")));
    let config = good(&encode("format = \"protobuf\"\nschemas = [\"a\"]"), &[]);
    assert!(matches!(config.encode(), Encode::Protobuf(_)));
    assert_eq!(schemas(&config).unknown_members, UnknownMembers::Warn);
    assert!(schemas(&config).envelope.is_none());
}

#[test]
fn what_does_not_fit_the_format_is_refused() {
    let no_schemas = "means nothing with encode.format = \"json\", which has no schemas; remove it";
    let wanted = "encode.format = \"avro\" wants the files of the payloads' schemas, such as [\"schemas/*.avsc\"]";
    let proto = "encode.format = \"protobuf\" wants the files of the payloads' schemas, such as [\"schemas/*.proto\"]";
    let json = |line: &str| encode(&format!("format = \"json\"\n{line}"));
    assert_problems(&[
        (
            &json("schemas = [\"a.avsc\"]"),
            &format!("conf/hw.toml:8: encode.schemas: {no_schemas}"),
        ),
        (
            &json("envelope = \"a\""),
            &format!("conf/hw.toml:8: encode.envelope: {no_schemas}"),
        ),
        (
            &json("unknown_members = \"warn\""),
            &format!("conf/hw.toml:8: encode.unknown_members: {no_schemas}"),
        ),
        (
            &encode("format = \"avro\""),
            &format!("conf/hw.toml:6: encode.schemas: is missing; {wanted}"),
        ),
        (
            &encode("format = \"avro\"\nschemas = []"),
            &format!("conf/hw.toml:8: encode.schemas: is empty; {wanted}"),
        ),
        (
            &encode("format = \"protobuf\"\nschemas = []"),
            &format!("conf/hw.toml:8: encode.schemas: is empty; {proto}"),
        ),
        (
            &encode("format = \"avro\"\nschemas = [\"a\"]\njson_style = \"embedded\""),
            "conf/hw.toml:9: encode.json_style: means nothing with encode.format = \"avro\"; remove it",
        ),
        (
            &encode("format = \"avro\"\nschemas = [\"a\"]\nunknown_members = \"drop\""),
            "conf/hw.toml:9: encode.unknown_members: cannot be \"drop\"; wanted is one of warn, fail",
        ),
        (
            &encode("format = \"xml\""),
            "conf/hw.toml:7: encode.format: cannot be \"xml\"; wanted is one of avro, protobuf, json",
        ),
    ]);
}

#[test]
fn a_list_is_a_list_of_texts() {
    let avro = |list: &str| encode(&format!("format = \"avro\"\nschemas = {list}"));
    let wanted = "a list of strings is wanted";
    assert_problems(&[
        (
            &avro("\"a.avsc\""),
            &format!("conf/hw.toml:8: encode.schemas: has the type string; {wanted}"),
        ),
        (
            &avro("[\n\"a.avsc\",\n7]"),
            &format!("conf/hw.toml:10: encode.schemas: has the type integer; {wanted}"),
        ),
        (
            &avro("[7]"),
            &format!("conf/hw.toml:8: encode.schemas: has the type integer; {wanted}"),
        ),
        (
            &avro("[\"a.avsc\", \"\"]"),
            "conf/hw.toml:8: encode.schemas: has an empty item; a text is wanted",
        ),
        (
            &avro("[\n\"${NONE}\"]"),
            "conf/hw.toml:9: encode.schemas: needs the environment variable NONE, which is not set; set it, or write \
             $${NONE} if ${NONE} itself is meant",
        ),
    ]);
}

/// A folder with a configuration and these files.
struct Place(TempDir);

impl Place {
    fn with(files: &[&str]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for file in files {
            let path = place.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self, lines: &str, environment: &[(&str, &str)]) -> Config {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        parse(&encode(lines), &self.path("hw.toml"), environment).unwrap()
    }

    /// The files' names, or the problems, without the folder.
    fn find(&self, lines: &str, environment: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let folder = format!("{}/", self.0.path().display());
        let plain = |text: String| text.replace(&folder, "");
        let config = self.config(lines, environment);
        let found = schemas(&config).find();
        let found = found.map_err(|error| plain(error.to_string()))?;
        let files = found.files.iter();
        Ok(files.map(|it| plain(it.display().to_string())).collect())
    }

    fn avro(&self, list: &str) -> Result<Vec<String>, String> {
        self.find(&format!("format = \"avro\"\nschemas = {list}"), &[])
    }
}

fn names(files: &[&str]) -> Vec<String> {
    files.iter().map(|&file| file.to_owned()).collect()
}

#[test]
fn files_and_patterns_are_found_sorted_and_each_once() {
    let place = Place::with(&[
        "b.avsc",
        "s/c.avsc",
        "s/a.avsc",
        "s/deep/er/d.avsc",
        "s/.hidden.avsc",
        "s/.data/e.avsc",
        "s/x.txt",
        "odd[1].avsc",
    ]);
    let (a, b, c, d) = ("s/a.avsc", "b.avsc", "s/c.avsc", "s/deep/er/d.avsc");
    assert_eq!(place.avro("[\"b.avsc\"]"), Ok(names(&[b])));
    assert_eq!(place.avro("[\"s/*.avsc\"]"), Ok(names(&[a, c])));
    assert_eq!(
        place.avro("[\"s/c.avsc\", \"s/*.avsc\", \"./b.avsc\", \"s/[a]*\", \"s/../b.avsc\"]"),
        Ok(names(&["./b.avsc", a, c]))
    );
    assert_eq!(place.avro("[\"s/**/*.avsc\"]"), Ok(names(&[a, c, d])));
    assert_eq!(place.avro("[\"odd[1].avsc\"]"), Ok(names(&["odd[1].avsc"])));
    let absolute = format!("[{:?}]", place.path("s/?.avsc"));
    assert_eq!(place.avro(&absolute), Ok(names(&[a, c])));
}

#[test]
fn the_folder_of_the_configuration_is_no_pattern() {
    let place = Place::with(&["[a]*/s/a.avsc", "a/s/wrong.avsc"]);
    let text = encode("format = \"avro\"\nschemas = [\"s/*.avsc\"]");
    let config = parse(&text, &place.path("[a]*/hw.toml"), std::iter::empty()).unwrap();
    let found = schemas(&config).find().unwrap();
    assert_eq!(found.files, [place.path("[a]*/s/a.avsc")]);
}

#[test]
fn each_format_has_its_endings() {
    let place = Place::with(&[
        "a.avsc", "a.proto", "a.desc", "a.binpb", "a.pb", "a.PROTO", "a",
    ]);
    let proto = |list: &str| place.find(&format!("format = \"protobuf\"\nschemas = {list}"), &[]);
    assert_eq!(
        proto("[\"a.proto\", \"a.desc\", \"a.binpb\", \"a.pb\"]"),
        Ok(names(&["a.binpb", "a.desc", "a.pb", "a.proto"]))
    );
    let wanted = "has the wrong ending for encode.format = \"protobuf\"; one of .proto, .desc, .binpb, .pb is wanted";
    for wrong in ["a.avsc", "a.PROTO", "a"] {
        assert_eq!(
            proto(&format!("[{wrong:?}]")),
            Err(format!("hw.toml:8: encode.schemas: {wrong:?} {wanted}"))
        );
    }
    assert_eq!(
        place.avro("[\"a.pro*\"]"),
        Err("hw.toml:8: encode.schemas: \"a.pro*\" matches a.proto, which has the wrong ending for \
             encode.format = \"avro\"; .avsc is wanted"
            .to_owned())
    );
}

#[test]
fn what_is_no_file_is_told_with_its_line() {
    let place = Place::with(&["s/a.avsc", "s/deep.avsc/b.avsc"]);
    std::os::unix::fs::symlink("nowhere", place.path("gone.avsc")).unwrap();
    let begin = "relative paths begin at the configuration's folder";
    let missing = "No such file or directory (os error 2)";
    for (list, wanted) in [
        ("[\"x.avsc\"]", format!("hw.toml:8: encode.schemas: \"x.avsc\" cannot be read: {missing}; {begin}")),
        ("[\n\n\"x/*.avsc\"]", format!("hw.toml:10: encode.schemas: \"x/*.avsc\" matches no file; {begin}")),
        ("[\"s\"]", "hw.toml:8: encode.schemas: \"s\" is a folder; files are wanted, or a pattern such as \"schemas/*.avsc\"".to_owned()),
        ("[\"s/*\"]", "hw.toml:8: encode.schemas: \"s/*\" matches s/deep.avsc, which is a folder; files are wanted, or a pattern such as \"schemas/*.avsc\"".to_owned()),
        ("[\"s/***\"]", "hw.toml:8: encode.schemas: \"s/***\" is no pattern: wildcards are either regular `*` or recursive `**`; write [*] where * itself is meant".to_owned()),
        ("[\"gone.avsc\"]", format!("hw.toml:8: encode.schemas: \"gone.avsc\" cannot be read: {missing}; {begin}")),
        ("[\"g*.avsc\"]", format!("hw.toml:8: encode.schemas: \"g*.avsc\" matches gone.avsc, which cannot be read: {missing}; {begin}")),
    ] {
        assert_eq!(place.avro(list), Err(wanted), "{list}");
    }
}

#[test]
fn all_that_is_wrong_with_the_files_is_told_at_once() {
    let place = Place::with(&["a.avsc"]);
    let lines =
        "format = \"avro\"\nschemas = [\"x.avsc\",\n\"y/*\", \"a.avsc\"]\nenvelope = \"e.avsc\"";
    let problems = place.find(lines, &[]).unwrap_err();
    let beginnings: Vec<&str> = problems
        .lines()
        .map(|it| it.split(" \"").next().unwrap())
        .collect();
    assert_eq!(
        beginnings,
        [
            "hw.toml:8: encode.schemas:",
            "hw.toml:9: encode.schemas:",
            "hw.toml:10: encode.envelope:"
        ]
    );
}

#[test]
fn the_environment_gives_a_list_with_commas() {
    let place = Place::with(&["a.avsc", "s/b.avsc", "s/c.avsc"]);
    let variable = |value| [("HEADWATER__ENCODE__SCHEMAS", value)];
    let lines = "format = \"avro\"\nschemas = [\"a.avsc\"]";
    assert_eq!(
        place.find(lines, &variable(" s/b.avsc ,, s/c*,")),
        Ok(names(&["s/b.avsc", "s/c.avsc"]))
    );
    let wrong = place.find(lines, &variable("x.avsc")).unwrap_err();
    assert!(
        wrong.starts_with("HEADWATER__ENCODE__SCHEMAS: encode.schemas: \"x.avsc\" cannot be read"),
        "{wrong}"
    );
    let none = try_with(&encode(lines), &variable("")).unwrap_err();
    assert!(
        none.starts_with("HEADWATER__ENCODE__SCHEMAS: encode.schemas: is empty; "),
        "{none}"
    );
    let others = [
        ("HEADWATER__ENCODE__FORMAT", "protobuf"),
        ("HEADWATER__ENCODE__SCHEMAS", "a.proto"),
        ("HEADWATER__ENCODE__UNKNOWN_MEMBERS", "fail"),
        ("HEADWATER__ENCODE__ENVELOPE", "e.proto"),
    ];
    let config = good(JSON, &others);
    assert!(matches!(config.encode(), Encode::Protobuf(_)));
    assert_eq!(schemas(&config).unknown_members, UnknownMembers::Fail);
    let config = good(JSON, &[("HEADWATER__ENCODE__JSON_STYLE", "debezium")]);
    assert!(matches!(config.encode(), Encode::Json(JsonStyle::Debezium)));
}

#[test]
fn a_name_in_braces_is_replaced_in_each_item_and_not_shown() {
    let place = Place::with(&["s/b.avsc"]);
    let lines = "format = \"avro\"\nschemas = [\"${WHERE}/*.avsc\"]";
    assert_eq!(
        place.find(lines, &[("WHERE", "s")]),
        Ok(names(&["s/b.avsc"]))
    );
    let wrong = place.find(lines, &[("WHERE", "hunter2")]).unwrap_err();
    assert!(
        wrong.contains("\"${WHERE}/*.avsc\" matches no file"),
        "{wrong}"
    );
    assert!(!wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn a_broken_schema_is_told_by_its_file_and_the_key_that_named_it() {
    let place = Place::with(&["a.avsc", "e.avsc"]);
    let lines = "format = \"avro\"\nschemas = [\"a.avsc\"]\nenvelope = \"e.avsc\"";
    let config = place.config(lines, &[]);
    let errors = [
        SchemaError::at_line(place.path("a.avsc"), 3, "is not JSON"),
        SchemaError::new(place.path("e.avsc"), "is no record"),
    ];
    let told = schemas(&config).refuse(&errors).to_string();
    let told = told.replace(&format!("{}/", place.0.path().display()), "");
    assert_eq!(
        told,
        "a.avsc:3: is not JSON (encode.schemas, hw.toml:8)\ne.avsc: is no record (encode.envelope, hw.toml:9)"
    );
}
