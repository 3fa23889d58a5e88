//! Whatever a server, a database or a role is set to, the same rows give the same bytes.

use std::collections::BTreeMap;

use headwater_testkit::{Kafka, Pipeline, Postgres, USER, unique};

use crate::scene::{LIMIT, Running, headwater};

/// For the whole server, as lines of postgresql.conf.
const SERVER: [(&str, &str); 8] = [
    ("datestyle", "SQL, DMY"),
    ("timezone", "Pacific/Chatham"),
    ("standard_conforming_strings", "off"),
    ("backslash_quote", "off"),
    ("extra_float_digits", "-15"),
    ("quote_all_identifiers", "on"),
    ("array_nulls", "off"),
    ("transform_null_equals", "on"),
];

/// For the database.
const DATABASE: [(&str, &str); 6] = [
    ("intervalstyle", "'sql_standard'"),
    ("bytea_output", "'escape'"),
    ("default_transaction_isolation", "'serializable'"),
    ("xmlbinary", "'hex'"),
    ("lc_monetary", "'C.UTF-8'"),
    ("lc_time", "'C.UTF-8'"),
];

/// For the role that Headwater connects as.
const ROLE: [(&str, &str); 10] = [
    ("search_path", "decoy, public"),
    ("client_encoding", "'LATIN1'"),
    ("default_transaction_read_only", "on"),
    ("default_transaction_deferrable", "on"),
    ("statement_timeout", "'300ms'"),
    ("lock_timeout", "'1ms'"),
    ("idle_session_timeout", "'500ms'"),
    ("row_security", "off"),
    ("timezone", "'America/St_Johns'"),
    ("wal_sender_timeout", "'0'"),
];

const OUTBOX: &str = include_str!("../../schemas/outbox/postgres.sql");

/// A decoy that an unqualified name would find, and operators that would be taken for the real ones.
const DECOY: &str = "CREATE SCHEMA decoy;
    CREATE TABLE decoy.events (LIKE eventlog.events INCLUDING ALL);
    CREATE TABLE decoy.pg_class (relname name, relnamespace oid, oid oid);
    CREATE TABLE decoy.pg_publication (oid oid, pubname name);
    CREATE FUNCTION decoy.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true';
    GRANT USAGE ON SCHEMA decoy TO headwater;
    GRANT SELECT ON ALL TABLES IN SCHEMA decoy TO headwater;";

/// A database of the test's own making on one of its servers.
struct Place<'a> {
    postgres: &'a Postgres,
    database: &'a str,
}

impl Place<'_> {
    async fn make(&self, encoding: &str) {
        let root = self.postgres.connect("postgres").await;
        let sql = format!(
            "CREATE DATABASE {} OWNER {USER} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0",
            self.database
        );
        root.batch_execute(&sql).await.unwrap();
        self.execute(OUTBOX).await;
        self.execute(
            "ALTER TABLE eventlog.events ADD COLUMN age interval, ADD COLUMN raw bytea, ADD COLUMN price money,
                ADD COLUMN ratio float8, ADD COLUMN moment timestamptz;
             ALTER SCHEMA eventlog OWNER TO headwater; ALTER TABLE eventlog.events OWNER TO headwater;",
        )
        .await;
    }

    async fn execute(&self, sql: &str) {
        let client = self.postgres.connect(self.database).await;
        let done = client.batch_execute(sql).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    fn url(&self) -> String {
        self.postgres.url(self.database, USER)
    }
}

#[tokio::test]
async fn strange_settings_change_no_byte() {
    // GIVEN a plain database, one where everything is set otherwise, and one in another encoding
    let strange_server = Postgres::start(17, &SERVER);
    let plain = Place {
        postgres: Postgres::shared(17),
        database: &unique("plain"),
    };
    let strange = Place {
        postgres: &strange_server,
        database: "strange",
    };
    let latin = Place {
        postgres: &strange_server,
        database: "latin",
    };
    plain.make("UTF8").await;
    strange.make("UTF8").await;
    latin.make("LATIN1").await;
    strange.execute(DECOY).await;
    for (name, value) in DATABASE {
        strange
            .execute(&format!("ALTER DATABASE strange SET {name} = {value}"))
            .await;
    }
    for (name, value) in ROLE {
        strange
            .execute(&format!("ALTER ROLE {USER} SET {name} = {value}"))
            .await;
    }

    // WHEN the identical rows are written into each
    let namespace = unique("settings");
    let expected = messages_of(&plain, &namespace, true).await;
    assert_eq!(expected.len(), 4);

    // THEN the messages are identical, to the byte
    assert_eq!(messages_of(&strange, &namespace, true).await, expected);
    let latin = messages_of(&latin, &namespace, false).await;
    assert_eq!(latin.len(), 3);
    for (key, value) in latin {
        assert_eq!(Some(&value), expected.get(&key), "from a LATIN1 database");
    }
    let drop = format!("DROP DATABASE {} WITH (FORCE)", plain.database);
    Postgres::shared(17)
        .connect("postgres")
        .await
        .batch_execute(&drop)
        .await
        .unwrap();
}

/// Carries the rows, and gives the messages by their keys.
async fn messages_of(
    place: &Place<'_>,
    namespace: &str,
    unicode: bool,
) -> BTreeMap<String, String> {
    let kafka = Kafka::shared();
    let name = unique("settings");
    let mut pipeline = Pipeline::new(&name, &place.url(), &kafka.brokers());
    pipeline.more = format!("[[route]]\ntopic = \"{name}.{{namespace}}\"");
    let headwater = headwater(&pipeline);
    for says in ["begins at", "nothing to do"] {
        let output = headwater.run(&["init"]);
        assert_eq!(output.code, 0, "init: {}", output.stderr);
        assert!(output.stderr.contains(says), "{}", output.stderr);
    }
    let mut run = Running::of(headwater.spawn(&["run"]));
    run.wait_until_it_carries().await;
    let rows = rows(namespace, unicode);
    place.execute(&rows.join("")).await;
    let topic = format!("{name}.{namespace}");
    let count = u64::try_from(rows.len() - 1).unwrap();
    assert!(
        kafka.wait_for_messages(&topic, count, LIMIT).await,
        "the rows do not arrive"
    );
    run.ask_to_stop().await;
    let slot = pipeline.slot();
    place
        .execute(&format!("SELECT pg_drop_replication_slot('{slot}')"))
        .await;
    let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap()).unwrap();
    let messages = kafka.consume_all(&[&topic]).await.into_iter();
    messages.map(|m| (text(m.key), text(m.value))).collect()
}

/// The same in every session: the writer's own settings are pinned first.
fn rows(namespace: &str, unicode: bool) -> Vec<String> {
    let insert = |id: u32, text: &str, date: &str, json: &str| {
        format!(
            "INSERT INTO eventlog.events VALUES ('00000000-0000-0000-0000-00000000000{id}', '{namespace}',
            '10000000-0000-0000-0000-00000000000{id}', $${text}$$, $${json}$$, '{date}', '{date}', 'key-{id}', $${text}$$,
            'SettingEvent', $${json}$$, '{date}', {id} % 2 = 0, '1 year 2 mons -3 days 04:05:06.7', decode('00ff5c', 'hex'),
            12.34, 0.1::float8 + 0.2, '{date}');"
        )
    };
    let mut rows = vec![
        "SET datestyle = 'ISO, YMD'; SET timezone = 'UTC'; SET standard_conforming_strings = on; \
         SET default_transaction_read_only = off; SET search_path = pg_catalog; SET client_encoding = 'UTF8';"
            .to_owned(),
        insert(1, r#"plain \ 'quoted' "text""#, "2026-03-04 05:06:07.000089", r#"{"a": 1.10, "b": "\\ \" \n"}"#),
        insert(2, "é ñ ß", "0044-03-15 12:00:00 BC", r#"{"é": "ß", "n": -0.000000000000001234567890123456789}"#),
        insert(3, "", "294000-12-31 23:59:59.999999", r#"{"deep": [[[{"x": null}]]], "t": true}"#),
    ];
    if unicode {
        rows.push(insert(
            4,
            "漢字 😀 €",
            "1969-12-31 23:59:59.999999",
            r#"{"€": "😀"}"#,
        ));
    }
    rows
}
