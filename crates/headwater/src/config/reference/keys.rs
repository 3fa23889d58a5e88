//! The table of keys, in the order in which people read them.

use super::{Fallback, Key, Kind, State};
use Fallback::{Required, Said, Value};
use Kind::{Bool, Condition, Conditions, Duration, Integer, List, Map, Path, Size, Text};

const NONE: Fallback = Said("none");
const POLICY: Fallback = Said("as `failure.policy`");

const fn key(path: &'static str, kind: Kind, fallback: Fallback, meaning: &'static str) -> Key {
    Key {
        path,
        kind,
        fallback,
        meaning,
        state: State::Built,
    }
}

const fn later(path: &'static str, kind: Kind, advice: &'static str, meaning: &'static str) -> Key {
    Key {
        path,
        kind,
        fallback: NONE,
        meaning,
        state: State::NotYet(advice),
    }
}

const fn word(built: &'static [&'static str], later: &'static [&'static str]) -> Kind {
    Kind::Word { built, later }
}

// One key a paragraph: a table is looked through, not read.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("name", Text, Required,
        "The pipeline's name, 1 to 40 of a-z, 0-9 and _: key of its position record, name of its lock, part of \
         the default slot and publication names."),

    key("unrouted", word(&["fail", "skip"], &[]), Value("fail"),
        "What becomes of an event that no route takes; `fail`: it is a row that cannot be published; `skip`: it is passed over \
         and counted."),

    key("source.url", Text, Required,
        "The database: `postgres://user@host:5432/database` (a Unix socket as \
         `postgres://user@/database?host=/folder`; several servers as `postgres://user@a:5432,b:5432/database`, of \
         which the primary is taken), `mysql://user@host:3306` or `mariadb://user@host:3306` (a Unix socket as \
         `mysql://user@/?socket=/file`; of several servers the one that can be written to is taken) or `sqlite:path`."),
    key("source.password", Text, NONE,
        "The database's password; one of four ways to give it, the others being the url, `password_file` and \
         `password_command`."),
    key("source.password_file", Path, NONE,
        "A file that holds the password; read at every connect, one newline at its end does not count."),
    key("source.password_command", Text, NONE,
        "A command that prints the password; given to `sh -c` in the configuration's folder at every connect, for \
         at most 30 s. It has the environment, without Headwater's own variables."),
    key("source.table", Text, Said("`eventlog.events`; `events` on SQLite"),
        "The outbox table: `schema.table` on PostgreSQL, `database.table` on MySQL and MariaDB, `table` on SQLite; \
         exactly as the database spells it, without quotes."),
    key("source.tls.mode", word(&["disable", "require", "verify-ca", "verify-full"], &[]),
        Said("`verify-full`; `disable` if every host is this machine (loopback, Unix socket)"),
        "How connections to the database are protected: `disable` is plain text, `require` encrypts but accepts any \
         certificate, `verify-ca` wants one of a known authority, `verify-full` wants it to be for the host's name or \
         IP address too. A Unix socket needs none."),
    key("source.tls.ca", Path, Said("the system's authorities"),
        "Certificate authorities (PEM) that the server's certificate is checked against."),
    key("source.tls.cert", Path, NONE,
        "Headwater's own certificate (PEM, with the ones in between), for a server that wants one."),
    key("source.tls.key", Path, NONE,
        "The private key (PEM, not encrypted) of `tls.cert`."),
    key("source.snapshot", word(&["initial", "never", "only"], &[]),
        Said("none: required once the table holds events"),
        "What to do with rows that are already in the table when the pipeline begins: `initial` publishes them first, once; \
         `only` publishes them and ends; `never` leaves them alone. It counts when `init` is run."),
    key("source.slot", Text, Said("`headwater_<name>`"),
        "PostgreSQL's replication slot, 1 to 63 of a-z, 0-9 and _."),
    key("source.publication", Text, Said("`headwater_<name>`"),
        "PostgreSQL's publication, at most 63 bytes."),
    key("source.server_id", Integer, Said("derived from the name"),
        "MySQL's, MariaDB's number of this client among the server's replicas, 1 to 4294967295; no other replica may \
         have it."),
    key("source.silence_timeout", Duration, Value("30s"),
        "Nothing heard from the server for this long, not even a keepalive: reconnect. At least 12s, because the \
         server is asked to ping every few seconds."),

    key("outbox.layout", word(&["ekbatan"], &["status", "published-at", "lease", "event-router", "custom"]),
        Value("ekbatan"), "Which column plays which role."),
    later("outbox.columns", Map, "the columns are those of the layout \"ekbatan\"",
        "The roles' columns of a layout of your own."),

    key("encode.format", word(&["avro", "protobuf", "json"], &[]), Required,
        "What a message's value is made of."),
    key("encode.schemas", List, Said("none; required for `avro` and `protobuf`"),
        "The payloads' schemas, one for each event type: files and patterns. `avro` takes `.avsc`; `protobuf` takes \
         `.proto` and descriptor sets (`.desc`, `.binpb`, `.pb`). In a pattern `*` and `?` stand for any characters \
         and one character of a name, `[ab]` for one of these, `**` for folders at any depth; a name that begins with \
         a dot is matched by a dot only. Whatever is matched must be a schema."),
    key("encode.json_style", word(&["embedded", "debezium"], &[]), Value("embedded"),
        "How a row becomes JSON; `embedded` puts payload and action_params into it as JSON and dates as ISO-8601 \
         text, `debezium` puts payload and action_params into it as text and dates as microseconds. For `json` only."),
    key("encode.unknown_members", word(&["warn", "fail"], &[]), Value("warn"),
        "What happens to a payload's members that its schema does not have; `warn`: they are dropped, told once for \
         each type and member, and counted; `fail`: the row cannot be published. For `avro` and `protobuf` only."),
    key("encode.envelope", Path, Said("the built-in one, `schemas/action_event.avsc` or `.proto`"),
        "Another envelope schema than the built-in one, with some or all of its 13 fields. For `avro` and `protobuf` only."),

    key("route.preset", word(&["ekbatan", "ekbatan-routed", "debezium"], &[]), NONE,
        "A route, or several, ready made: `ekbatan` is the one that there is without any `[[route]]`; `ekbatan-routed` adds a \
         topic for each model type and event type; `debezium` has the topic, key and headers that Debezium gives. The keys \
         beside it replace its own; `where` and `headers` are added to them. `headwater check --show-config` prints it in full."),
    key("route.topic_prefix", Text, Said("the name"),
        "Debezium's `topic.prefix`, for the preset `debezium` only."),
    key("route.where", Condition, NONE,
        "Which events take this route: columns, or paths into JSON, each with the texts that may stand there. `Wallet*` is any \
         text that begins so, `*` any that is not null. All columns must match; of a column's texts one."),
    key("route.topic", Text, Value("ekbatan.{namespace}"),
        "The message's topic, a template: `{column}`; `{payload.customer.id}` is a member of JSON, `{payload.items.0}` an item; \
         `{a|b}` is the first that is not null; `{a|\"text\"}` has a last resort. Null with nothing left fails the row."),
    key("route.key", Text, Value("{model_id|action_id}"),
        "The message's key, a template; empty for no key."),
    key("route.key_format", word(&["text", "debezium-json", "debezium-json-schema", "debezium-string"], &[]),
        Value("text"), "How the key is written; `text` is the template `key`, the others are the row's id as Debezium's users \
         know it, `{\"id\":\"...\"}`, the same with its schema, `Struct{id=...}`, and ignore `key`."),
    key("route.partition", Text, Said("the one that the key leads to, as in Kafka's Java clients"),
        "The message's partition, a template. One that the topic does not have fails the row."),
    key("route.timestamp", Text, Said("when the message is sent"),
        "The message's time, a template: `{event_date}`, or milliseconds since 1970. Kafka deletes old messages by it."),
    key("route.headers", Map, NONE,
        "The message's headers, each a template; one is left out where a place of it is null."),
    key("route.headers_from", Text, NONE,
        "A column that holds a JSON object: each member becomes a header, unless `headers` has one of its name."),

    key("filter.skip", Conditions, NONE,
        "Events that are not published: one for which any of these conditions holds (as in `route.where`). Counted by rule; \
         at most 31."),
    key("filter.only", Conditions, NONE,
        "If given, an event is published only if one of these conditions holds."),

    key("failure.policy", word(&["stop", "dead-letter"], &[]), Value("stop"),
        "What happens to a row that cannot be published; `stop`: nothing is passed over; `dead-letter`: it goes whole to a topic of \
         its own, with what is wrong, and the others go on."),
    key("failure.by_kind.unknown_type", word(&["stop", "dead-letter"], &[]), POLICY,
        "The same for events without a schema."),
    key("failure.by_kind.bad_payload", word(&["stop", "dead-letter"], &[]), POLICY,
        "The same for rows of which a column or the payload does not hold what the message needs."),
    key("failure.by_kind.unroutable", word(&["stop", "dead-letter"], &[]), POLICY,
        "The same for events of which no address can be made."),
    key("failure.by_kind.too_large", word(&["stop", "dead-letter"], &[]), POLICY,
        "The same for messages larger than the broker takes."),
    key("failure.by_kind.refused", word(&["stop", "dead-letter"], &[]), POLICY,
        "The same for messages that the broker will never take for another reason, a missing right to their topic among them."),
    key("failure.when_stopped", word(&["exit", "hold"], &[]), Value("exit"),
        "What `stop` means; `exit`: end with code 3; `hold`: stay up, not ready, say why, and try the row again when the \
         configuration's file or a schema's changes, or on SIGHUP."),
    key("failure.topic", Text, Value("{name}.dead-letter"),
        "The topic of dead letters; `{name}` is the pipeline's name. It may not be that of a route or of the positions, nor be compacted by `[sink.topics]`."),

    key("sink.kind", word(&["kafka", "stdout"], &[]), Value("kafka"),
        "Where messages go: a Kafka cluster, or standard output, one JSON line a message; a value that is not JSON \
         is base64 text there, and `\"encoding\":\"base64\"` follows it."),
    key("sink.brokers", Text, Said("required, unless sink.kind is `stdout`"),
        "The Kafka brokers to begin with: `host:port`, several with commas."),
    key("sink.tls.mode", word(&["disable", "require", "verify-ca", "verify-full"], &[]),
        Said("`verify-full` if the table `sink.tls` is there; else `disable`"),
        "How connections to the brokers are protected. `disable`: plain text; `check` warns unless the brokers are on this \
         machine. `require`: TLS, and nobody's certificate is verified. `verify-ca`: an authority that is trusted must have \
         signed the broker's certificate. `verify-full`: and it must be for the name or address that is connected to."),
    key("sink.tls.ca", Path, Said("the system's"),
        "A PEM file with the certificate authorities that are trusted."),
    key("sink.tls.cert", Path, NONE,
        "A PEM file with Headwater's own certificate, for brokers that ask for one; `key` belongs to it."),
    key("sink.tls.key", Path, NONE,
        "A PEM file with that certificate's private key."),
    key("sink.sasl.mechanism", word(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"], &[]),
        Said("required if the table `sink.sasl` is there; without it nobody is asked who it is"),
        "How Headwater proves to the brokers who it is: by a password, or (`OAUTHBEARER`) by a token that it asks an \
         authorization server for."),
    key("sink.sasl.username", Text, Said("required, unless the mechanism is `OAUTHBEARER`"),
        "The user; ACLs name it `User:username`."),
    key("sink.sasl.password", Text, Said("one of the three ways is required, unless the mechanism is `OAUTHBEARER`"),
        "The user's password; the other ways to give it are `password_file` and `password_command`."),
    key("sink.sasl.password_file", Path, NONE,
        "A file that holds the password; read whenever the brokers are connected to anew for a run, one newline at its end \
         does not count."),
    key("sink.sasl.password_command", Text, NONE,
        "A command that prints the password; given to `sh -c` in the configuration's folder as often as the file would be \
         read, for at most 30 s. It has the environment, without Headwater's own variables."),
    key("sink.sasl.token_endpoint", Text, Said("required with `OAUTHBEARER`"),
        "Where tokens are asked for, by the client credentials grant of OAuth 2.0: `https://host/path`; `http` only on this \
         machine. Redirections are not followed."),
    key("sink.sasl.token_ca", Path, Said("the system's authorities"),
        "A PEM file with the certificate authorities that are trusted for the token endpoint."),
    key("sink.sasl.client_id", Text, Said("required with `OAUTHBEARER`"),
        "Who asks for tokens; sent with its secret by HTTP Basic. ACLs name the token's subject, which may be another name."),
    key("sink.sasl.client_secret", Text, Said("one of the three ways is required with `OAUTHBEARER`"),
        "The client's secret; the other ways to give it are `client_secret_file` and `client_secret_command`."),
    key("sink.sasl.client_secret_file", Path, NONE,
        "A file that holds the secret; read for each token, one newline at its end does not count."),
    key("sink.sasl.client_secret_command", Text, NONE,
        "A command that prints the secret; given to `sh -c` in the configuration's folder for each token, for at most 30 s. \
         It has the environment, without Headwater's own variables."),
    key("sink.sasl.scope", Text, NONE,
        "The scope that is asked for, several with spaces between them."),
    key("sink.sasl.extensions", Map, NONE,
        "What the brokers are told beside the token, such as `logicalCluster` and `identityPoolId` for Confluent Cloud."),
    key("sink.compression", word(&["none", "gzip", "snappy", "lz4", "zstd"], &[]), Value("lz4"),
        "How batches are compressed."),
    key("sink.linger", Duration, Value("1ms"),
        "How long a batch waits for more messages; at most 15m."),
    key("sink.max_in_flight.messages", Integer, Value("20000"),
        "How many messages may wait for the broker's ack; 1 to 10000000."),
    key("sink.max_in_flight.bytes", Size, Value("16MiB"),
        "How large together; a single larger message still goes, alone. 1KiB to 16GiB."),
    key("sink.create_topics", Bool, Value("true"),
        "Missing topics are made by Headwater, as `[sink.topics]` says and with the broker's defaults where it says nothing."),
    key("sink.delivery", word(&["at-least-once"], &["exactly-once"]), Value("at-least-once"),
        "What is promised about each message."),
    key("sink.properties", Map, NONE,
        "Other librdkafka settings by their own names; those that would break a promise are refused by name."),
    key("sink.topics.partitions", Integer, Said("the broker's"),
        "How many partitions a topic gets that Headwater makes, for the topics of one pattern: \
         `[sink.topics.\"ekbatan.shop.*\"]`; a name, or `*` at its end. The longest pattern wins."),
    key("sink.topics.replication", Integer, Said("the broker's"),
        "The same for its replicas."),
    key("sink.topics.settings", Map, NONE,
        "The same for its settings, such as `\"retention.ms\" = \"604800000\"`."),

    key("position.topic", Text, Value("headwater-positions"),
        "The compacted topic that remembers positions."),
    key("position.replication", Integer, Value("3"),
        "How many brokers keep it; lowered with a warning where the cluster is smaller."),
    key("position.file", Path, Said("none; required when sink.kind is `stdout`"),
        "A file that remembers the position, instead of the topic."),

    key("admin.listen", Text, Value("127.0.0.1:9464"),
        "The address of `/health`, `/ready`, `/metrics` and `/status`, `host:port`; each pipeline of a machine needs its \
         own. Where it was not given and is taken, there are no pages. `off`: none."),
    key("admin.token_file", Path, NONE,
        "A file that holds a token, one newline at its end does not count; `/metrics` and `/status` then want it as \
         `Authorization: Bearer`. Read at every request."),

    key("log.level", word(&["error", "warn", "info", "debug", "trace"], &[]), Value("info"),
        "The least important thing that is logged."),
    key("log.format", word(&["text", "json"], &[]), Value("text"),
        "How a line of the log is written."),
];
