//! The configuration as its users meet it: one text in, a `Config` or every problem out.

mod encode;
mod route;
mod security;

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_source::TlsMode;
use headwater_source::mysql::Flavor;

use super::secret::Password;
use super::*;

/// The smallest file that names no other files.
const JSON: &str = r#"name = "shop"

[source]
url = "postgres://headwater@localhost:5432/shop"

[encode]
format = "json"

[sink]
brokers = "localhost:9092"
"#;

const FULL: &str = r#"name = "shop"
[source]
url = "postgresql://hw@db.example.com:6432/shop"
password_file = "secret/password"
table = "app.outbox"
tls = { mode = "verify-ca", ca = "tls/ca.pem", cert = "tls/cert.pem", key = "/run/key.pem" }
snapshot = "never"
slot = "slot_1"
publication = "Pub-1"
silence_timeout = "1m"
[outbox]
layout = "ekbatan"
columns = {}
[encode]
format = "json"
schemas = []
json_style = "embedded"
[[route]]
topic = "t.{namespace}"
key = ""
key_format = "text"
where = {}
headers = {}
[failure]
policy = "dead-letter"
by_kind = { too_large = "stop" }
when_stopped = "hold"
topic = "letters.{name}"
[sink]
kind = "kafka"
brokers = "a:9092, b,[::1]:9093"
compression = "zstd"
linger = 0
max_in_flight = { messages = 7, bytes = 4096 }
create_topics = false
delivery = "at-least-once"
[sink.properties]
security.protocol = "SSL"
"socket.timeout.ms" = 5_000
"enable.ssl.certificate.verification" = true
[position]
topic = "p"
replication = 1
[admin]
listen = "off"
[log]
level = "trace"
format = "json"
"#;

fn try_with(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let environment = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    parse(text, Path::new("conf/hw.toml"), environment).map_err(|error| error.to_string())
}

fn good(text: &str, environment: &[(&str, &str)]) -> Config {
    try_with(text, environment).unwrap()
}

/// The smallest file with more lines at its top (from line 1) and one more section at its end (from line 11).
fn extended(top: &str, end: &str) -> String {
    format!("{top}{JSON}{end}")
}

fn postgres(config: &Config) -> &Postgres {
    match &config.source().database {
        Database::Postgres(postgres) => postgres,
        other => panic!("{other:?}"),
    }
}

fn mysql(config: &Config) -> &MySql {
    match &config.source().database {
        Database::MySql(mysql) => mysql,
        other => panic!("{other:?}"),
    }
}

fn kafka(config: &Config) -> &Kafka {
    match &config.sink().kind {
        SinkKind::Kafka(kafka) => kafka,
        SinkKind::Stdout => panic!("stdout"),
    }
}

/// Each text with the one problem that must be told of it.
fn assert_problems(cases: &[(&str, &str)]) {
    for (text, wanted) in cases {
        let found = try_with(text, &[]).expect_err(text);
        assert_eq!(found, *wanted, "\n{text}");
    }
}

/// `JSON` with one line replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(JSON.contains(from));
    JSON.replace(from, to)
}

#[test]
fn the_smallest_file_gets_the_defaults() {
    let config = good(reference::SMALLEST, &[]);
    assert_eq!(config.name(), "shop");
    assert!(matches!(config.encode(), Encode::Avro(_)));
    assert_eq!(config.file(), Path::new("conf/hw.toml"));
    let source = config.source();
    assert_eq!(source.table.to_string(), "eventlog.events");
    assert_eq!(source.snapshot, None);
    let postgres = postgres(&config);
    assert_eq!(
        postgres.to_string(),
        "postgres://headwater@localhost:5432/shop"
    );
    assert_eq!(postgres.slot, "headwater_shop");
    assert_eq!(postgres.publication, "headwater_shop");
    assert_eq!(postgres.silence_timeout, Duration::from_secs(30));
    assert!(matches!(postgres.password, Password::None));
    let [route] = config.routes() else { panic!() };
    assert_eq!(route.topic.value(), "ekbatan.{namespace}");
    assert_eq!(route.key.value(), "{model_id|action_id}");
    let kafka = kafka(&config);
    assert_eq!(kafka.brokers, "localhost:9092");
    assert_eq!(kafka.compression, Compression::Lz4);
    assert_eq!(kafka.linger, Duration::from_millis(1));
    assert!(kafka.create_topics && kafka.properties.is_empty());
    let bound = config.sink().max_in_flight;
    assert_eq!((bound.messages, bound.bytes), (20_000, 16 * 1024 * 1024));
    let topic = PositionStore::Topic {
        name: "headwater-positions".to_owned(),
        replication: 3,
    };
    assert_eq!(*config.position(), topic);
    let log = Log {
        level: LogLevel::Info,
        format: LogFormat::Text,
    };
    assert_eq!(config.log(), log);
}

#[test]
fn every_built_key_can_be_written() {
    let config = good(FULL, &[]);
    let source = config.source();
    assert_eq!(source.table.to_string(), "app.outbox");
    assert_eq!(source.snapshot, Some(Snapshot::Never));
    let postgres = postgres(&config);
    let server = Listening {
        host: Host::Tcp("db.example.com".to_owned()),
        port: 6432,
    };
    assert_eq!(
        (&postgres.servers, postgres.user.as_str()),
        (&vec![server], "hw")
    );
    let Tls { mode, ca, own } = &postgres.tls;
    assert_eq!(*mode.value(), TlsMode::VerifyCa);
    let ca = ca.as_ref().unwrap();
    assert_eq!(ca.value(), Path::new("conf/tls/ca.pem"));
    let (cert, key) = own.as_ref().unwrap();
    assert_eq!(cert.value(), Path::new("conf/tls/cert.pem"));
    assert_eq!(key.value(), Path::new("/run/key.pem"));
    assert_eq!(postgres.slot, "slot_1");
    assert_eq!(postgres.publication, "Pub-1");
    assert_eq!(postgres.silence_timeout, Duration::from_mins(1));
    match &postgres.password {
        Password::File(path) => assert_eq!(path, Path::new("conf/secret/password")),
        other => panic!("{other:?}"),
    }
    let [route] = config.routes() else { panic!() };
    assert_eq!(route.topic.value(), "t.{namespace}");
    assert_eq!(route.key.value(), "");
    let kafka = kafka(&config);
    assert_eq!(kafka.brokers, "a:9092, b,[::1]:9093");
    assert_eq!(kafka.compression, Compression::Zstd);
    assert_eq!(kafka.linger, Duration::ZERO);
    assert!(!kafka.create_topics);
    let properties: Vec<_> = kafka
        .properties
        .iter()
        .map(|property| {
            (
                property.value().name.as_str(),
                property.value().value.expose(),
            )
        })
        .collect();
    let wanted = [
        ("enable.ssl.certificate.verification", "true"),
        ("security.protocol", "SSL"),
        ("socket.timeout.ms", "5000"),
    ];
    assert_eq!(properties, wanted);
    let bound = config.sink().max_in_flight;
    assert_eq!((bound.messages, bound.bytes), (7, 4096));
    assert_eq!(config.log().level, LogLevel::Trace);
    assert_eq!(config.log().format, LogFormat::Json);
}

#[test]
fn sqlite_and_standard_output_need_no_server() {
    let text = "name = 'd'\nsource.url = 'sqlite:outbox.db'\nencode.format = 'json'\n\
                sink.kind = 'stdout'\nposition.file = '/var/d.position'\n";
    let config = good(text, &[]);
    match &config.source().database {
        Database::Sqlite(path) => assert_eq!(path, Path::new("conf/outbox.db")),
        other => panic!("{other:?}"),
    }
    assert_eq!(config.source().table.to_string(), "events");
    assert!(matches!(config.sink().kind, SinkKind::Stdout));
    let file = PositionStore::File(PathBuf::from("/var/d.position"));
    assert_eq!(*config.position(), file);
}

#[test]
fn what_is_no_toml_is_told_its_line() {
    let found = try_with("name = \"shop\"\n[source\n", &[]).unwrap_err();
    assert!(
        found.starts_with("conf/hw.toml:2: is not TOML: "),
        "{found}"
    );
    let found = try_with("name = \"a\"\n\nname = \"b\"\n", &[]).unwrap_err();
    assert_eq!(found, "conf/hw.toml:3: is not TOML: duplicate key");
    let found = try_with("[source]\npassword = \"hunter2\n", &[]).unwrap_err();
    assert!(found.starts_with("conf/hw.toml:2: "), "{found}");
    assert!(!found.contains("hunter2"), "{found}");
}

#[test]
fn an_unknown_key_is_told_its_line_and_the_nearest_key() {
    let unknown = |key: &str, line: usize, nearest: &str| {
        format!("conf/hw.toml:{line}: {key}: is not a known key; the nearest is {nearest}")
    };
    for (text, key, line, nearest) in [
        (extended("nmae = 1\n", ""), "nmae", 1, "name"),
        (
            extended("\nbrokers = ''\n", ""),
            "brokers",
            2,
            "sink.brokers",
        ),
        (
            extended("", "broker = 1\n"),
            "sink.broker",
            11,
            "sink.brokers",
        ),
        (extended("", "\n[sinks]\nx = 1\n"), "sinks", 12, "sink"),
        (extended("", "[[routes]]\n"), "routes", 11, "route"),
        (
            extended("", "[[route]]\ntopics = 1\n"),
            "route.topics",
            12,
            "route.topic",
        ),
        (
            extended("", "max_in_flight = { byte = 1 }\n"),
            "sink.max_in_flight.byte",
            11,
            "sink.max_in_flight.bytes",
        ),
    ] {
        let found = try_with(&text, &[]).unwrap_err();
        assert_eq!(found, unknown(key, line, nearest), "\n{text}");
    }
}

#[test]
fn a_wrong_type_is_told_which_is_wanted() {
    assert_problems(&[
        (
            &extended("", "[log]\nlevel = 3\n"),
            "conf/hw.toml:12: log.level: has the type integer; wanted is one of error, warn, info, debug, trace",
        ),
        (
            &extended("", "create_topics = \"yes\"\n"),
            "conf/hw.toml:11: sink.create_topics: has the type string; true or false is wanted",
        ),
        (
            &extended("", "max_in_flight = 1\n"),
            "conf/hw.toml:11: sink.max_in_flight: has the type integer; a table is wanted: [sink.max_in_flight]",
        ),
        (
            &extended("", "max_in_flight.messages = \"1\"\n"),
            "conf/hw.toml:11: sink.max_in_flight.messages: has the type string; a whole number is wanted",
        ),
        (
            &extended("", "properties = \"x\"\n"),
            "conf/hw.toml:11: sink.properties: has the type string; a table is wanted",
        ),
        (
            &extended("", "properties = {\n  a.b = 1.5 }\n"),
            "conf/hw.toml:12: sink.properties.a.b: has the type float; a string, a whole number, true or false is wanted",
        ),
        (
            &extended("", "[route]\ntopic = \"t\"\n"),
            "conf/hw.toml:11: route: has the type table; [[route]] with two brackets is wanted",
        ),
        (
            &extended("", "[outbox]\nlayout = []\n"),
            "conf/hw.toml:12: outbox.layout: has the type array; \"ekbatan\" is wanted",
        ),
        (
            &extended("", "linger = 1.5\n"),
            "conf/hw.toml:11: sink.linger: has the type float; a number with its unit is wanted, such as \"200ms\", \"30s\" or \"5m\"",
        ),
    ]);
    let found = try_with("source = 1\n", &[]).unwrap_err();
    assert!(
        found.contains("conf/hw.toml:1: source: has the type integer; a table is wanted: [source]"),
        "{found}"
    );
}

#[test]
fn a_wrong_value_is_told_what_is_wanted() {
    let name = "conf/hw.toml:1: name: is no pipeline's name; 1 to 40 of a-z, 0-9 and _ are wanted";
    assert_problems(&[
        (&changed("\"shop\"", "\"Shop\""), name),
        (&changed("\"shop\"", "\"a-b\""), name),
        (&changed("\"shop\"", &format!("{:?}", "a".repeat(41))), name),
        (
            &changed("\"shop\"", "\"\""),
            "conf/hw.toml:1: name: is empty; a text is wanted",
        ),
        (
            &extended("", "[log]\nlevel = \"inof\"\n"),
            "conf/hw.toml:12: log.level: cannot be \"inof\"; wanted is one of error, warn, info, debug, trace",
        ),
        (
            &extended("", "linger = 30\n"),
            "conf/hw.toml:11: sink.linger: cannot be \"30\"; a number with its unit is wanted, such as \"200ms\", \"30s\" or \"5m\"",
        ),
        (
            &extended("", "linger = \"16m\"\n"),
            "conf/hw.toml:11: sink.linger: is too long; at most \"15m\" is wanted",
        ),
        (
            &extended("", "max_in_flight.bytes = \"16M\"\n"),
            "conf/hw.toml:11: sink.max_in_flight.bytes: cannot be \"16M\"; a number of bytes is wanted, alone or with a unit, such as \"16MiB\" or \"1MB\"",
        ),
        (
            &extended("", "max_in_flight.bytes = 12\n"),
            "conf/hw.toml:11: sink.max_in_flight.bytes: is out of range; \"1KiB\" to \"16GiB\" is wanted",
        ),
        (
            &extended("", "max_in_flight.messages = 0\n"),
            "conf/hw.toml:11: sink.max_in_flight.messages: is out of range; 1 to 10000000 is wanted",
        ),
        (
            &extended("", "[position]\nreplication = -1\n"),
            "conf/hw.toml:12: position.replication: is out of range; 1 to 32767 is wanted",
        ),
        (
            &extended("", "[position]\ntopic = \"a b\"\n"),
            "conf/hw.toml:12: position.topic: is no topic's name; 1 to 249 of a-z, A-Z, 0-9, . _ and - are wanted",
        ),
        (
            &extended("", "[source.tls]\nmode = \"off\"\n"),
            "conf/hw.toml:12: source.tls.mode: cannot be \"off\"; wanted is one of disable, require, verify-ca, verify-full",
        ),
    ]);
}

#[test]
fn a_wrong_value_of_the_source_is_told_what_is_wanted() {
    let source = |line: &str| changed("\n[encode]", &format!("{line}\n\n[encode]"));
    assert_problems(&[
        (
            &source("silence_timeout = \"11s\""),
            "conf/hw.toml:5: source.silence_timeout: is too short; at least \"12s\" is wanted, because the server is asked to ping every few seconds",
        ),
        (
            &source("slot = \"Slot\""),
            "conf/hw.toml:5: source.slot: is no slot's name; 1 to 63 of a-z, 0-9 and _ are wanted",
        ),
        (
            &source(&format!("publication = {:?}", "p".repeat(64))),
            "conf/hw.toml:5: source.publication: is too long for PostgreSQL; at most 63 bytes are wanted",
        ),
        (
            &source("table = \"events\""),
            "conf/hw.toml:5: source.table: is no table's name; schema.table is wanted, as the database spells it, without quotes",
        ),
        (
            &changed("postgres://headwater@", "oracle://headwater@"),
            "conf/hw.toml:4: source.url: begins with no known scheme; postgres://user@host:5432/database, mysql://user@host:3306, mariadb://user@host:3306 or sqlite:path is wanted",
        ),
        (
            &changed("postgres://headwater@", "mysql://headwater@"),
            "conf/hw.toml:4: source.url: names another database than source.table (database.table); the url needs none",
        ),
    ]);
    for table in ["a.b.c", ".b", "a.", "\\\"A\\\".b"] {
        let found = try_with(&source(&format!("table = \"{table}\"")), &[]).unwrap_err();
        assert!(found.contains("is no table's name"), "{found}");
    }
    for brokers in [
        "a:x",
        "a:0",
        "a,,b",
        ":9092",
        "kafka://a:9092",
        "[::1",
        "a b",
    ] {
        let found = try_with(&changed("localhost:9092", brokers), &[]).unwrap_err();
        let wanted = "conf/hw.toml:10: sink.brokers: is no list of brokers; host:port is wanted, several with commas, without a scheme";
        assert_eq!(found, wanted, "{brokers}");
    }
}

#[test]
fn other_machines_are_reached_by_tls_unless_plain_text_is_accepted() {
    let disable = "[source.tls]\nmode = \"disable\"\n";
    for (servers, end, wanted) in [
        ("localhost:5432", "", TlsMode::Disable),
        ("127.0.0.1,[::1]:7", "", TlsMode::Disable),
        ("%2Frun%2Fpg", "", TlsMode::Disable),
        ("db.example.com", "", TlsMode::VerifyFull),
        ("10.0.0.1", "", TlsMode::VerifyFull),
        ("localhost,db.example.com", "", TlsMode::VerifyFull),
        ("db.example.com", disable, TlsMode::Disable),
    ] {
        let config = good(&(changed("localhost:5432", servers) + end), &[]);
        let mode = postgres(&config).tls.mode.value();
        assert_eq!(*mode, wanted, "{servers}");
    }
}

#[test]
fn a_file_for_tls_that_nobody_would_look_at_is_refused() {
    let without = "means nothing without TLS; set source.tls.mode (which is \"disable\" for this machine unless it is given), or remove it";
    let tls = |lines: &str| extended("", &format!("[source.tls]\n{lines}\n"));
    assert_problems(&[
        (
            &tls("ca = 'x'"),
            &format!("conf/hw.toml:12: source.tls.ca: {without}"),
        ),
        (
            &tls("mode = 'disable'\ncert = 'x'\nkey = 'y'"),
            &format!(
                "conf/hw.toml:13: source.tls.cert: {without}\nconf/hw.toml:14: source.tls.key: {without}"
            ),
        ),
        (
            &tls("mode = 'require'\nca = 'x'"),
            "conf/hw.toml:13: source.tls.ca: is not looked at with source.tls.mode = \"require\", which accepts any certificate; \"verify-ca\" or \"verify-full\" is wanted, or remove it",
        ),
        (
            &tls("mode = 'require'\ncert = 'x'"),
            "conf/hw.toml:13: source.tls.cert: is a certificate without its key; source.tls.key is wanted too",
        ),
        (
            &tls("mode = 'require'\nkey = 'x'"),
            "conf/hw.toml:13: source.tls.key: is a key without its certificate; source.tls.cert is wanted too",
        ),
        (
            &(changed("localhost:5432", "%2Frun%2Fpg") + "[source.tls]\nmode = 'require'\n"),
            "conf/hw.toml:12: source.tls.mode: means nothing for a Unix socket, which source.url names; remove it",
        ),
    ]);
}

#[test]
fn each_kind_of_failure_has_the_general_policy_or_its_own() {
    use headwater_core::failure::Kind;
    let kinds = |lines: &str| {
        let config = try_with(&extended("", &format!("[failure]\n{lines}\n")), &[]).unwrap();
        config.failure().policy.kinds().collect::<Vec<_>>()
    };
    assert_eq!(kinds(""), []);
    assert_eq!(kinds("policy = 'dead-letter'"), Kind::ALL);
    assert_eq!(
        kinds("by_kind = { too_large = 'dead-letter' }"),
        [Kind::TooLarge]
    );
    assert_eq!(
        kinds("policy = 'dead-letter'\nby_kind = { unknown_type = 'stop', refused = 'stop' }"),
        [Kind::BadPayload, Kind::Unroutable, Kind::TooLarge]
    );
}

#[test]
fn the_topic_of_dead_letters_is_a_legal_name() {
    let topic = |written: &str| {
        let text = extended("", &format!("[failure]\ntopic = '{written}'\n"));
        try_with(&text, &[]).map(|config| config.failure().topic.clone())
    };
    assert!(
        topic("{name}.dead-letter")
            .unwrap()
            .ends_with(".dead-letter")
    );
    assert_eq!(topic("letters").unwrap(), "letters");
    for wrong in ["", "a b", "{namespace}", "."] {
        assert!(
            topic(wrong).unwrap_err().contains("failure.topic"),
            "{wrong}"
        );
    }
}

#[test]
fn what_is_known_but_not_built_is_refused() {
    let refused = |end: &str, key: &str| {
        let found = try_with(&extended("", end), &[]).expect_err(end);
        let wanted = format!("conf/hw.toml:12: {key}: ");
        assert!(found.starts_with(&wanted), "{found}");
        assert!(found.contains("is known but not built yet; "), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
        found
    };
    for (section, line, key) in [
        ("outbox", "layout = \"lease\"", "outbox.layout"),
        ("outbox", "columns = { id = \"x\" }", "outbox.columns"),
    ] {
        refused(&format!("[{section}]\n{line}\n"), key);
    }
    refused("\ndelivery = \"exactly-once\"\n", "sink.delivery");
    let snapshot = changed("\n[encode]", "snapshot = \"first\"\n\n[encode]");
    let server = changed("\n[encode]", "server_id = 5400\n\n[encode]");
    assert_problems(&[
        (
            &snapshot,
            "conf/hw.toml:5: source.snapshot: cannot be \"first\"; wanted is one of initial, never, only",
        ),
        (
            &server,
            "conf/hw.toml:5: source.server_id: means nothing with PostgreSQL, which source.url names; remove it",
        ),
    ]);
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let stdout =
        "name = 'd'\nsource.url = 'sqlite:o.db'\nencode.format = 'json'\n[sink]\nkind = 'stdout'\n";
    let kafka_only = "means nothing with sink.kind = \"stdout\"; remove it, or the kind";
    let sqlite = "means nothing with SQLite, which source.url names; remove it";
    let file = "position.file = 'p'\n";
    assert_problems(&[
        (
            stdout,
            "conf/hw.toml:1: position.file: is missing; sink.kind = \"stdout\" has no topic to remember positions in, a path is wanted",
        ),
        (
            &format!("{file}{stdout}brokers = 'a'\nlinger = '1s'\nproperties.a = 1\n"),
            &format!(
                "conf/hw.toml:7: sink.brokers: {kafka_only}\nconf/hw.toml:8: sink.linger: {kafka_only}\n\
                 conf/hw.toml:9: sink.properties: {kafka_only}"
            ),
        ),
        (
            &format!("{file}source.slot = 's'\nsource.password = 'x'\n{stdout}"),
            &format!(
                "conf/hw.toml:2: source.slot: {sqlite}\nconf/hw.toml:3: source.password: {sqlite}"
            ),
        ),
        (
            &extended("", "[position]\nfile = 'x'\nreplication = 1\n"),
            "conf/hw.toml:13: position.replication: contradicts position.file (conf/hw.toml:12); one of the two is wanted",
        ),
        (
            &extended("", "[position]\ntopic = 't'\nfile = 'x'\n"),
            "conf/hw.toml:12: position.topic: contradicts position.file (conf/hw.toml:13); one of the two is wanted",
        ),
    ]);
    for key in [
        "password = 'x'",
        "password_file = 'x'",
        "password_command = 'x'",
        "tls.mode = 'disable'",
        "tls.ca = 'x'",
        "tls.cert = 'x'",
        "tls.key = 'x'",
        "slot = 's'",
        "publication = 'p'",
        "silence_timeout = '30s'",
    ] {
        let found = try_with(&format!("{file}source.{key}\n{stdout}"), &[]).unwrap_err();
        assert!(found.ends_with(sqlite), "{found}");
    }
    for key in [
        "brokers = 'a'",
        "compression = 'lz4'",
        "linger = '1s'",
        "create_topics = true",
        "properties.a = 1",
    ] {
        let found = try_with(&format!("{file}{stdout}{key}\n"), &[]).unwrap_err();
        assert!(found.ends_with(kafka_only), "{found}");
    }
    let with_file = good(&extended("", "[position]\nfile = 'x'\n"), &[]);
    let file = PositionStore::File(PathBuf::from("conf/x"));
    assert_eq!(*with_file.position(), file);
}

#[test]
fn what_is_missing_is_told_at_its_section() {
    assert_problems(&[
        (
            "",
            "conf/hw.toml:1: encode.format: is missing; wanted is one of avro, protobuf, json\n\
             conf/hw.toml:1: name: is missing; a string is wanted\n\
             conf/hw.toml:1: sink.brokers: is missing; \"host:port\" is wanted, or sink.kind = \"stdout\"\n\
             conf/hw.toml:1: source.url: is missing; a string is wanted",
        ),
        (
            &changed("brokers = \"localhost:9092\"", ""),
            "conf/hw.toml:9: sink.brokers: is missing; \"host:port\" is wanted, or sink.kind = \"stdout\"",
        ),
    ]);
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let text = "nam = 1\n[source]\nurl = 'x:'\n[sink]\nlinger = 'x'\nbrokers = 'a'\n";
    let found = try_with(text, &[("HEADWATER__LOG__LEVEL", "loud")]).unwrap_err();
    let keys: Vec<_> = found
        .lines()
        .filter_map(|line| line.split(": ").nth(1))
        .collect();
    assert_eq!(
        keys,
        [
            "encode.format",
            "nam",
            "name",
            "source.url",
            "sink.linger",
            "log.level"
        ]
    );
}

#[test]
fn the_environment_wins_over_the_file() {
    let environment = [
        ("HEADWATER__NAME", "other"),
        ("HEADWATER__SOURCE__URL", "postgres://u@localhost/d"),
        ("HEADWATER__SOURCE__PASSWORD", "p${x}"),
        ("HEADWATER__SINK__BROKERS", "b:1"),
        ("HEADWATER__SINK__CREATE_TOPICS", "false"),
        ("HEADWATER__SINK__LINGER", "5ms"),
        ("HEADWATER__SINK__MAX_IN_FLIGHT__BYTES", "1MiB"),
        ("HEADWATER__SINK__MAX_IN_FLIGHT__MESSAGES", "5"),
        ("HEADWATER__SINK__PROPERTIES__SECURITY_PROTOCOL", "SSL"),
        ("HEADWATER__ROUTE__TOPIC", "t"),
        ("HEADWATER__LOG__LEVEL", "debug"),
        ("HEADWATER_PORT", "tcp://10.0.0.1:80"),
        ("HEADWATER_SINK_BROKERS", "x"),
        ("OTHER", "x"),
    ];
    let config = good(JSON, &environment);
    assert_eq!(config.name(), "other");
    let postgres = postgres(&config);
    assert_eq!(postgres.slot, "headwater_other");
    let password = postgres.password.read("source.password").unwrap().unwrap();
    assert_eq!(password.expose(), "p${x}");
    let kafka = kafka(&config);
    assert_eq!(kafka.brokers, "b:1");
    assert!(!kafka.create_topics);
    assert_eq!(kafka.linger, Duration::from_millis(5));
    assert_eq!(kafka.properties[0].value().name, "security.protocol");
    assert_eq!(config.routes()[0].topic.value(), "t");
    let bound = config.sink().max_in_flight;
    assert_eq!((bound.messages, bound.bytes), (5, 1 << 20));
    assert_eq!(config.log().level, LogLevel::Debug);
}

#[test]
fn a_wrong_variable_is_told_by_its_name() {
    for (variable, value, wanted) in [
        (
            "HEADWATER__SINK__BROKER",
            "hunter2",
            "HEADWATER__SINK__BROKER: is not the name of a setting; the nearest is HEADWATER__SINK__BROKERS",
        ),
        (
            "HEADWATER__sink__brokers",
            "hunter2",
            "HEADWATER__sink__brokers: is not the name of a setting; the nearest is HEADWATER__SINK__BROKERS",
        ),
        (
            "HEADWATER__SINK__CREATE_TOPICS",
            "yes",
            "HEADWATER__SINK__CREATE_TOPICS: sink.create_topics: cannot be \"yes\"; true or false is wanted",
        ),
        (
            "HEADWATER__POSITION__REPLICATION",
            "two",
            "HEADWATER__POSITION__REPLICATION: position.replication: cannot be \"two\"; a whole number is wanted",
        ),
        (
            "HEADWATER__SINK__TLS__MODE",
            "on",
            "HEADWATER__SINK__TLS__MODE: sink.tls.mode: cannot be \"on\"; wanted is one of",
        ),
        (
            "HEADWATER__LOG__LEVEL",
            "",
            "HEADWATER__LOG__LEVEL: log.level: cannot be \"\"; wanted is one of",
        ),
    ] {
        let found = try_with(JSON, &[(variable, value)]).unwrap_err();
        assert!(found.starts_with(wanted), "{found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn a_name_in_braces_is_replaced_from_the_environment() {
    let text = changed("headwater@localhost", "headwater:${PW}@${HOST}")
        + "properties.\"sasl.password\" = \"$${x} ${PW}\"\n[log]\nlevel = \"${LEVEL}\"\n";
    let environment = [("PW", "p"), ("HOST", "127.0.0.1"), ("LEVEL", "warn")];
    let config = good(&text, &environment);
    let postgres = postgres(&config);
    let [server] = postgres.servers.as_slice() else {
        panic!("{:?}", postgres.servers);
    };
    assert_eq!(server.host, Host::Tcp("127.0.0.1".to_owned()));
    let password = postgres.password.read("source.password").unwrap().unwrap();
    assert_eq!(password.expose(), "p");
    let property = kafka(&config).properties[0].value();
    assert_eq!(property.value.expose(), "${x} p");
    assert_eq!(config.log().level, LogLevel::Warn);

    let found = try_with(&text, &[("PW", "p"), ("HOST", "localhost")]).unwrap_err();
    let wanted = "conf/hw.toml:13: log.level: needs the environment variable LEVEL, which is not set; \
                  set it, or write $${LEVEL} if ${LEVEL} itself is meant";
    assert_eq!(found, wanted);
    // What the environment overrides is not looked at.
    let instead = [
        ("PW", "p"),
        ("HOST", "::1"),
        ("HEADWATER__LOG__LEVEL", "warn"),
    ];
    good(&text.replace("${HOST}", "[${HOST}]"), &instead);
}

#[test]
fn two_ways_to_give_the_password_are_refused() {
    let source = |line: &str| changed("\n[encode]", &format!("{line}\n\n[encode]"));
    let both = "gives a password, and so does";
    let one = "one way to give it is wanted";
    assert_problems(&[
        (
            &source("password = 'a'\npassword_file = 'b'"),
            &format!(
                "conf/hw.toml:6: source.password_file: {both} source.password (conf/hw.toml:5); {one}"
            ),
        ),
        (
            &source("password_command = 'a'").replace("headwater@", "headwater:hunter2@"),
            &format!(
                "conf/hw.toml:5: source.password_command: {both} source.url (conf/hw.toml:4); {one}"
            ),
        ),
    ]);
    let found = try_with(
        &source("password_file = 'b'"),
        &[("HEADWATER__SOURCE__PASSWORD", "hunter2")],
    );
    let wanted = format!(
        "conf/hw.toml:5: source.password_file: {both} source.password (HEADWATER__SOURCE__PASSWORD); {one}"
    );
    assert_eq!(found.unwrap_err(), wanted);
}

#[test]
fn a_secret_is_never_printed() {
    let ways = [
        changed("headwater@", "headwater:hunter2@"),
        changed("headwater@", "headwater:${PW}@"),
        changed("\n[encode]", "password = 'hunter2'\n\n[encode]"),
        changed(
            "\n[encode]",
            "password_command = 'echo hunter2'\n\n[encode]",
        ),
        extended("", "properties.\"sasl.password\" = 'hunter2'\n"),
        extended(
            "",
            "sasl = { mechanism = 'PLAIN', username = 'u', password = 'hunter2' }\n",
        ),
    ];
    for text in ways {
        let config = good(&text, &[("PW", "hunter2")]);
        let shown = format!("{config:?} {config:#?} {}", postgres(&config));
        assert!(!shown.contains("hunter2"), "{shown}");
        for property in &kafka(&config).properties {
            let error = property.problem("is refused").to_string();
            assert_eq!(
                error,
                "conf/hw.toml:11: sink.properties.sasl.password: is refused"
            );
        }
        // The same text with a mistake in each place that can be wrong.
        for broken in [
            text.replace("localhost:5432", "db.example.com,"),
            text.replace("localhost:5432", "localhost:x"),
            text.replace("/shop", ""),
            text.replace("\"json\"", "\"${PW}\""),
            text.replace(
                "brokers = \"localhost:9092\"",
                "brokers = \"${PW}:x\"\nlinger = \"${PW}\"",
            ),
            text.replace("[sink]", "[sink"),
        ] {
            let error = parse(
                &broken,
                Path::new("f"),
                [("PW".to_owned(), "hunter2".to_owned())].into_iter(),
            );
            let error = error.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    let config = good(&changed("headwater@", "headwater:hunter2@"), &[]);
    assert_eq!(
        postgres(&config).to_string(),
        "postgres://headwater:***@localhost:5432/shop"
    );
}

#[test]
fn a_route_can_be_told_where_it_stands() {
    let config = good(&extended("", "[[route]]\n\ntopic = \"{x\"\n"), &[]);
    let route = &config.routes()[0];
    let topic = route.topic.problem("a { without its }").to_string();
    assert_eq!(topic, "conf/hw.toml:13: route.topic: a { without its }");
    let key = route.key.problem("x").to_string();
    assert_eq!(key, "(default): route.key: x");
}

#[test]
fn a_file_is_loaded_and_its_paths_begin_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hw.toml");
    let text = extended("", "[position]\nfile = \"p\"\n");
    std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
    let config = load(Some(&path)).unwrap();
    let file = PositionStore::File(folder.path().join("p"));
    assert_eq!(*config.position(), file);
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hw.toml");
    let error = load(Some(&path)).unwrap_err().to_string();
    assert!(
        error.contains("hw.toml: cannot be read: No such file"),
        "{error}"
    );
    std::fs::write(&path, b"name = 'a'\n# \xff\n").unwrap();
    let error = load(Some(&path)).unwrap_err().to_string();
    assert!(
        error.ends_with("hw.toml:2: is not UTF-8; a text file is wanted"),
        "{error}"
    );
}

#[test]
fn the_first_default_file_that_exists_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second.toml");
    std::fs::write(&second, "").unwrap();
    let first = folder.path().join("first.toml");
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    assert_eq!(find(&[first, second]).unwrap(), Path::new(second));
    let error = find(&[first]).unwrap_err().to_string();
    let wanted =
        format!("there is no configuration: neither {first} exists; name one with --config FILE");
    assert!(error.starts_with(&wanted), "{error}");
    assert!(error.ends_with(reference::SMALLEST), "{error}");
}

#[test]
fn the_admin_address_is_this_machines_unless_said_otherwise() {
    let listen = |config: &Config| {
        let listen = config.admin().listen.as_ref();
        listen.map(|listen| (listen.value().host.clone(), listen.value().port))
    };
    let usual = Some(("127.0.0.1".to_owned(), 9464));
    assert_eq!(listen(&good(JSON, &[])), usual);
    let other = extended("", "[admin]\nlisten = \"[::]:80\"\ntoken_file = \"t\"\n");
    let other = good(&other, &[]);
    assert_eq!(listen(&other), Some(("::".to_owned(), 80)));
    assert!(other.admin().token.is_some());
    let off = good(&extended("", "[admin]\nlisten = \"off\"\n"), &[]);
    assert_eq!(listen(&off), None);
    assert_problems(&[
        (
            &extended("", "[admin]\nlisten = \"9464\"\n"),
            "conf/hw.toml:12: admin.listen: is no address to listen at; host:port is wanted, such as \"127.0.0.1:9464\", \
             or \"off\"",
        ),
        (
            &extended("", "[admin]\nlisten = \"off\"\ntoken_file = \"t\"\n"),
            "conf/hw.toml:13: admin.token_file: means nothing with admin.listen = \"off\"; remove it, or give an address",
        ),
    ]);
}

#[test]
fn mysql_and_mariadb_need_no_more_than_a_user_and_a_host() {
    let url = "postgres://headwater@localhost:5432/shop";
    let config = good(&changed(url, "mariadb://hw@db.example.com,b:7"), &[]);
    let found = mysql(&config);
    assert_eq!(found.flavor, Flavor::MariaDb);
    let servers: Vec<String> = found.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["db.example.com:3306", "b:7"]);
    assert_eq!(found.user, "hw");
    assert_eq!(*found.tls.mode.value(), TlsMode::VerifyFull);
    assert_eq!(found.silence_timeout, Duration::from_secs(30));
    assert_eq!(config.source().table.to_string(), "eventlog.events");
    assert!((1 << 30..1 << 31).contains(&found.server_id));
    // The name is what tells two pipelines apart, and the number stays when it does.
    let again = good(&changed(url, "mysql://hw@other"), &[]);
    assert_eq!(mysql(&again).server_id, found.server_id);
    let other = changed(url, "mysql://hw@other").replace("\"shop\"", "\"shop2\"");
    assert_ne!(mysql(&good(&other, &[])).server_id, found.server_id);
}

#[test]
fn what_mysql_has_not_is_refused() {
    let source = |line: &str| {
        let url = changed(
            "postgres://headwater@localhost:5432/shop",
            "mysql://hw@localhost",
        );
        url.replace("\n[encode]", &format!("{line}\n\n[encode]"))
    };
    assert_problems(&[
        (
            &source("slot = \"s\""),
            "conf/hw.toml:5: source.slot: means nothing with MySQL and MariaDB, which have none; remove it",
        ),
        (
            &source("publication = \"p\""),
            "conf/hw.toml:5: source.publication: means nothing with MySQL and MariaDB, which have none; remove it",
        ),
        (
            &source("server_id = 0"),
            "conf/hw.toml:5: source.server_id: is out of range; 1 to 4294967295 is wanted",
        ),
        (
            &source("table = \"events\""),
            "conf/hw.toml:5: source.table: is no table's name; database.table is wanted, as the server spells it, without quotes",
        ),
        (
            &source("silence_timeout = \"1s\""),
            "conf/hw.toml:5: source.silence_timeout: is too short; at least \"12s\" is wanted, because the server is asked to ping every few seconds",
        ),
    ]);
    let config = good(&source("server_id = 5400\ntable = \"shop.outbox\""), &[]);
    assert_eq!(mysql(&config).server_id, 5400);
    assert_eq!(*mysql(&config).tls.mode.value(), TlsMode::Disable);
    assert_eq!(config.source().table.to_string(), "shop.outbox");
}
