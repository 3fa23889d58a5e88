//! A pipeline of the benchmark: its configuration, and the built program that runs it.

use std::path::{Path, PathBuf};

use headwater_testkit::{Database, Headwater, Kafka, unique};

use crate::backlog::NAMESPACE;
use crate::topic::PARTITIONS;

/// Where positions are remembered: in the topic that is so named by default, or in a file without Kafka.
pub const POSITIONS_TOPIC: &str = "headwater-positions";
pub const POSITION_FILE: &str = "position.json";

/// What the configuration says.
pub struct Pipeline<'a> {
    pub name: &'a str,
    /// The lines of `[source]`.
    pub source: String,
    /// What becomes of rows that are there already.
    pub snapshot: &'a str,
    pub format: &'a str,
    /// So many of them take each event.
    pub routes: u32,
    /// None: standard output, which only counts in the program for that.
    pub kafka: Option<&'a Kafka>,
}

impl Pipeline<'_> {
    /// The topic that the first route's messages go to.
    pub fn topic(&self) -> String {
        format!("{}.{NAMESPACE}", self.name)
    }

    /// Those of all routes.
    pub fn topics(&self) -> Vec<String> {
        let others = (2..=self.routes).map(|number| format!("{}.{number}", self.topic()));
        [self.topic()].into_iter().chain(others).collect()
    }

    /// The first is a template, as most are.
    fn routes(&self) -> String {
        let others = self.topics().split_off(1);
        let others = others.iter();
        let others = others.map(|topic| format!("[[route]]\ntopic = \"{topic}\"\n\n"));
        let first = format!("[[route]]\ntopic = \"{}.{{namespace}}\"\n\n", self.name);
        first + &others.collect::<String>()
    }

    pub fn program(&self, binary: &Path) -> Headwater {
        Headwater::new(binary, &self.toml())
    }

    fn toml(&self) -> String {
        let (sink, position) = match self.kafka {
            Some(kafka) => (
                format!("brokers = \"{}\"\ncompression = \"lz4\"", kafka.brokers()),
                "replication = 1".to_owned(),
            ),
            None => (
                "kind = \"stdout\"".to_owned(),
                format!("file = \"{POSITION_FILE}\""),
            ),
        };
        let schemas = match self.format {
            "avro" => format!("schemas = [\"{}\"]", schema("avsc").display()),
            "protobuf" => format!("schemas = [\"{}\"]", schema("proto").display()),
            _ => String::new(),
        };
        format!(
            "name = \"{name}\"

[source]
{source}
snapshot = \"{snapshot}\"

[encode]
format = \"{format}\"
{schemas}

{routes}[sink]
{sink}

[position]
{position}

[admin]
listen = \"off\"

[log]
format = \"json\"
",
            name = self.name,
            routes = self.routes(),
            source = self.source,
            snapshot = self.snapshot,
            format = self.format,
        )
    }
}

/// A pipeline in Avro that begins now, and the topic that its messages go to.
pub async fn begin(binary: &Path, database: &Database<'_>, kafka: &Kafka) -> (Headwater, String) {
    let name = unique("bench");
    let pipeline = Pipeline {
        name: &name,
        source: format!("url = \"{}\"", database.url()),
        snapshot: "never",
        format: "avro",
        routes: 1,
        kafka: Some(kafka),
    };
    let headwater = pipeline.program(binary);
    command(&headwater, "init");
    let topic = pipeline.topic();
    kafka.create_topic(&topic, PARTITIONS, 1, &[]).await;
    (headwater, topic)
}

fn schema(extension: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    folder.join("OrderPlaced").with_extension(extension)
}

/// Runs a command that must succeed.
pub fn command(headwater: &Headwater, name: &str) {
    let output = headwater.run(&[name]);
    assert_eq!(output.code, 0, "{name}: {}", output.stderr);
}
