//! Every way in which a password reaches the program.

use std::fs;

use headwater_testkit::{
    Canaries, Headwater, Kafka, KafkaOptions, Listener, Pipeline, Postgres, percent_encoded, unique,
};

use crate::scene::{Scene, headwater};

/// The passwords of database and Kafka.
#[derive(Clone)]
pub struct Secrets {
    pub source: String,
    pub sink: String,
}

impl Secrets {
    pub fn plant(canaries: &mut Canaries) -> Self {
        Self {
            source: canaries.plant("source"),
            sink: canaries.plant("sink"),
        }
    }
}

pub fn kafka() -> Kafka {
    Kafka::start_with(&KafkaOptions {
        tls: true,
        ..KafkaOptions::default()
    })
}

/// The user of Kafka whose password is a canary.
const USER: &str = "canary";

/// A pipeline whose role in the database and user in Kafka have canaries for passwords.
pub async fn scene<'a>(kafka: &'a Kafka, canaries: &mut Canaries) -> (Scene<'a>, Secrets) {
    let mut scene = Scene::on(Postgres::shared(17), kafka, "secrets").await;
    let secrets = Secrets::plant(canaries);
    let role = unique("canary");
    let sql = format!(
        "CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{}' IN ROLE {}",
        secrets.source,
        headwater_testkit::USER
    );
    scene.database.execute(&sql).await;
    let postgres = scene.database.postgres();
    scene.pipeline.source_url = format!(
        "postgres://{role}@127.0.0.1:{}/{}",
        postgres.port(),
        scene.database.name()
    );
    let user = format!(
        "kafka-configs.sh --bootstrap-server {} --alter --entity-type users --entity-name {USER} --add-config 'SCRAM-SHA-256=[password={}]'",
        kafka.brokers(),
        secrets.sink
    );
    kafka.administer(&user);
    scene.pipeline.brokers = kafka.listener(Listener::Login);
    let ca = kafka.certificates().ca();
    scene.pipeline.sink = format!("tls = {{ ca = \"{}\" }}", ca.display());
    (scene, secrets)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    /// In the database's url; for Kafka, in `sink.sasl` as text.
    Url,
    Literal,
    /// `${NAME}`
    Substituted,
    File,
    Command,
    Variable,
    /// For Kafka, among librdkafka's own properties; for the database, in a url that is a variable.
    Property,
}

impl Way {
    pub const ALL: [Way; 7] = [
        Way::Url,
        Way::Literal,
        Way::Substituted,
        Way::File,
        Way::Command,
        Way::Variable,
        Way::Property,
    ];

    /// The program with a configuration that gives the secrets in this way.
    pub fn headwater(self, pipeline: &Pipeline, secrets: &Secrets) -> Headwater {
        let mut pipeline = pipeline.clone();
        let Secrets { source, sink } = secrets;
        let variables = [
            self.give_source(&mut pipeline, source),
            self.give_sink(&mut pipeline, sink),
        ];
        let mut made = headwater(&pipeline);
        for (name, value) in variables.into_iter().flatten() {
            made = made.env(name, &value);
        }
        fs::write(made.folder().join("source"), source).unwrap();
        fs::write(made.folder().join("sink"), format!("{sink}\n")).unwrap();
        made
    }

    fn give_source(self, pipeline: &mut Pipeline, secret: &str) -> Option<(&'static str, String)> {
        let in_url = format!(":{}@", percent_encoded(secret));
        let in_url = pipeline.source_url.replacen('@', &in_url, 1);
        match self {
            Way::Url => pipeline.source_url = in_url,
            Way::Literal => pipeline.source = format!("password = \"{secret}\""),
            Way::File => pipeline.source = "password_file = \"source\"".into(),
            Way::Command => pipeline.source = format!("password_command = \"echo {secret}\""),
            Way::Substituted => {
                pipeline.source = "password = \"${SOURCE_SECRET}\"".into();
                return Some(("SOURCE_SECRET", secret.to_owned()));
            }
            Way::Variable => return Some(("HEADWATER__SOURCE__PASSWORD", secret.to_owned())),
            Way::Property => return Some(("HEADWATER__SOURCE__URL", in_url)),
        }
        None
    }

    fn give_sink(self, pipeline: &mut Pipeline, secret: &str) -> Option<(&'static str, String)> {
        let (given, variable) = match self {
            Way::Url | Way::Literal => (format!(", password = \"{secret}\""), None),
            Way::File => (", password_file = \"sink\"".into(), None),
            Way::Command => (format!(", password_command = \"echo {secret}\""), None),
            Way::Substituted => {
                let variable = ("SINK_SECRET", secret.to_owned());
                (", password = \"${SINK_SECRET}\"".into(), Some(variable))
            }
            Way::Variable => {
                let variable = ("HEADWATER__SINK__SASL__PASSWORD", secret.to_owned());
                (String::new(), Some(variable))
            }
            Way::Property => {
                pipeline.sink = properties(&pipeline.sink, secret);
                return None;
            }
        };
        let login = format!("mechanism = \"SCRAM-SHA-256\", username = \"{USER}\"");
        pipeline.sink = format!("{}\nsasl = {{ {login}{given} }}", pipeline.sink);
        variable
    }
}

/// What `tls` says, and the login, in librdkafka's words.
fn properties(tls: &str, secret: &str) -> String {
    let ca = tls.split('"').nth(1).unwrap();
    format!(
        r#"[sink.properties]
"security.protocol" = "sasl_ssl"
"ssl.ca.location" = "{ca}"
"ssl.key.password" = "{secret}"
"sasl.mechanism" = "SCRAM-SHA-256"
"sasl.username" = "{USER}"
"sasl.password" = "{secret}""#
    )
}
