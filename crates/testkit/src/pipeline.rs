//! The configuration that most service tests use, as text.

/// A pipeline from a PostgreSQL url to a Kafka, with a positions topic of its own.
#[derive(Clone)]
pub struct Pipeline {
    pub name: String,
    pub source_url: String,
    pub brokers: String,
    /// Copies of the positions topic.
    pub replication: u32,
    pub log_level: String,
    /// What becomes of rows that are there already; nothing unless a test says otherwise.
    pub snapshot: String,
    /// Further lines of `[source]`.
    pub source: String,
    /// The lines of `[encode]`; JSON unless a test says otherwise.
    pub encode: String,
    /// Further lines of `[sink]`.
    pub sink: String,
    /// The lines of `[admin]`. Off unless a test says otherwise: many pipelines run at a time.
    pub admin: String,
    /// Further tables.
    pub more: String,
}

impl Pipeline {
    pub fn new(name: &str, source_url: &str, brokers: &str) -> Self {
        Self {
            name: name.to_owned(),
            source_url: source_url.to_owned(),
            brokers: brokers.to_owned(),
            replication: 1,
            log_level: "debug".to_owned(),
            snapshot: "never".to_owned(),
            source: String::new(),
            encode: "format = \"json\"".to_owned(),
            sink: String::new(),
            admin: "listen = \"off\"".to_owned(),
            more: String::new(),
        }
    }

    /// The slot and the publication that Headwater makes for it.
    pub fn slot(&self) -> String {
        format!("headwater_{}", self.name)
    }

    pub fn positions_topic(&self) -> String {
        format!("positions-{}", self.name)
    }

    pub fn toml(&self) -> String {
        format!(
            r#"name = "{name}"

[source]
url = "{url}"
snapshot = "{snapshot}"
{source}

[encode]
{encode}

[sink]
brokers = "{brokers}"
{sink}

[position]
topic = "{positions}"
replication = {replication}

[admin]
{admin}

[log]
level = "{level}"

{more}
"#,
            name = self.name,
            url = self.source_url,
            snapshot = self.snapshot,
            source = self.source,
            encode = self.encode,
            brokers = self.brokers,
            sink = self.sink,
            positions = self.positions_topic(),
            replication = self.replication,
            admin = self.admin,
            level = self.log_level,
            more = self.more,
        )
    }
}
