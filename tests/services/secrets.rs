//! Secrets and payloads are told to nobody: canaries stand wherever they can stand, and everything that the program says is
//! searched for them.

mod ways;

use std::fs;

use headwater_testkit::{Canaries, Headwater, Kafka, PASSWORD, Page, Postgres, free_port, request};
use uuid::Uuid;

use crate::scene::{Event, LIMIT, Running, Scene, headwater};
use ways::{Secrets, Way};

/// Everything that the program is let to say.
const LOUD: [(&str, &str); 2] = [
    ("HEADWATER__LOG__LEVEL", "trace"),
    ("HEADWATER__SINK__PROPERTIES__DEBUG", "all"),
];

/// Runs a command to its end, and searches what it said. Rows are what `peek` is there to show.
fn search(canaries: &Canaries, headwater: &Headwater, args: &[&str]) -> i32 {
    let output = headwater.run(args);
    if args != ["peek"] {
        canaries.assert_unseen(&format!("the output of {args:?}"), &output.stdout);
    }
    canaries.assert_unseen(&format!("the log of {args:?}"), &output.stderr);
    output.code
}

#[tokio::test]
async fn no_way_to_give_a_password_shows_it() {
    // GIVEN passwords that are canaries, and a Kafka that asks for one
    let kafka = ways::kafka();
    let mut canaries = Canaries::default();
    let (mut scene, right) = ways::scene(&kafka, &mut canaries).await;
    for way in Way::ALL {
        // WHEN they are right, THEN everything works, and shows none of them
        scene.headwater = way.headwater(&scene.pipeline, &right);
        if way == Way::ALL[0] {
            search(&canaries, &scene.headwater, &["check"]);
        }
        let mut commands = vec![&["init"][..], &["check", "--format", "json"]];
        if matches!(way, Way::Url | Way::Property) {
            commands.extend([
                &["init", "--dry-run"][..],
                &["check"],
                &["adopt"],
                &["peek"],
            ]);
        }
        for args in commands {
            let mut code = search(&canaries, &scene.headwater, args);
            // A busy machine may be too slow for one try; what is said is searched in each.
            if code == 1 {
                code = search(&canaries, &scene.headwater, args);
            }
            // `check` waits for 10 s only.
            assert!(code == 0 || args[0] == "check", "{way:?}: {args:?}: {code}");
        }

        // WHEN both are wrong, or one of them, THEN the refusal shows none of them
        let wrong = Secrets::plant(&mut canaries);
        let only_sink = Secrets {
            sink: wrong.sink.clone(),
            ..right.clone()
        };
        let only_source = Secrets {
            source: wrong.source.clone(),
            ..right.clone()
        };
        for (secrets, args) in [
            (wrong, &["check", "--format", "json"][..]),
            (only_sink, &["run"]),
            (only_source, &["run"]),
        ] {
            let headwater = way.headwater(&scene.pipeline, &secrets);
            let code = search(&canaries, &headwater, args);
            assert_eq!(code, 3, "{way:?}: {args:?}");
        }
    }
}

#[tokio::test]
async fn a_password_command_sees_no_setting() {
    // GIVEN secrets among the settings in the environment, and a command that tells what it sees
    let kafka = Kafka::shared();
    let mut canaries = Canaries::default();
    let scene = Scene::on(Postgres::shared(17), kafka, "command").await;
    let secret = canaries.plant("key");
    let url = scene.pipeline.source_url.replace(PASSWORD, "");
    let command = format!("env > seen; echo {PASSWORD}");
    let headwater = headwater(&scene.pipeline)
        .env("HEADWATER__SOURCE__URL", &url)
        .env("HEADWATER__SOURCE__PASSWORD_COMMAND", &command)
        .env("HEADWATER__SINK__PROPERTIES__SSL_KEY_PASSWORD", &secret)
        .env("VAULT", "is found by this");

    // WHEN it is run, THEN it has the environment, but for what is Headwater's own
    assert_eq!(search(&canaries, &headwater, &["peek"]), 0);
    let seen = fs::read_to_string(headwater.folder().join("seen")).unwrap();
    // Whoever runs the test may have secrets there too, so it is not shown.
    assert!(seen.contains("VAULT=is found by this"));
    let settings = seen.lines().filter(|line| line.starts_with("HEADWATER__"));
    assert_eq!(settings.collect::<Vec<&str>>(), Vec::<&str>::new());
}

/// The pages of a run, with what they ask for.
struct Admin {
    port: u16,
    token: String,
    canaries: Canaries,
}

impl Admin {
    fn page(&self, path: &str, token: &str) -> Page {
        let port = self.port;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n"
        );
        let page = request(port, &head).unwrap_or_else(|| panic!("nobody answers {path}"));
        self.canaries.assert_unseen(path, &page.text);
        page
    }

    /// Waits for what the log says, and searches the pages then, the log and the process's arguments.
    async fn search_when(&self, run: &mut Running, says: &str) {
        assert!(run.wait_for_log(says, LIMIT).await, "never \"{says}\"");
        for path in ["/health", "/ready", "/metrics", "/status", "/nothing"] {
            self.page(path, "another");
            self.page(path, &self.token);
        }
        for path in ["/metrics", "/status"] {
            let page = self.page(path, &self.token);
            assert_eq!(page.code, 200, "{path}: it was refused, and says nothing");
        }
        let arguments = fs::read(format!("/proc/{}/cmdline", run.pid())).unwrap();
        let arguments = String::from_utf8_lossy(&arguments);
        self.canaries.assert_unseen("its arguments", &arguments);
        self.canaries.assert_unseen("the log", &run.log());
        self.canaries.assert_unseen("its output", &run.stdout());
    }
}

/// An event whose payload and parameters are canaries.
struct Row {
    id: Uuid,
    sql: String,
}

impl Row {
    fn plant(scene: &Scene<'_>, canaries: &mut Canaries, payload: &str) -> Row {
        let event = Event::new(&scene.namespace, "key", 1);
        let payload = payload.replace("CANARY", &canaries.plant("payload"));
        let payload = format!("'{payload}'");
        let params = format!("'{{\"by\": \"{}\"}}'", canaries.plant("params"));
        let changed = [("payload", &*payload), ("action_params", &*params)];
        Row {
            id: event.id,
            sql: event.insert_with(&changed),
        }
    }
}

/// A pipeline that says all that it can.
struct Loud<'a> {
    scene: Scene<'a>,
    right: Secrets,
    admin: Admin,
}

#[tokio::test]
async fn a_run_shows_no_secret_and_no_payload_whatever_happens_to_it() {
    // GIVEN a pipeline with passwords and a token, and rows, all of them canaries
    let kafka = ways::kafka();
    let mut canaries = Canaries::default();
    let (mut scene, right) = ways::scene(&kafka, &mut canaries).await;
    let (port, token) = (free_port(), canaries.plant("token"));
    scene.pipeline.admin = format!("listen = \"127.0.0.1:{port}\"\ntoken_file = \"token\"");
    let fit = "{\"seq\": 1, \"owner\": \"CANARY\"}";
    let fit = [(); 2].map(|()| Row::plant(&scene, &mut canaries, fit));
    let unfit = Row::plant(&scene, &mut canaries, "\"CANARY\"");
    // Of digits that no compression makes small.
    let filling: String = (0..2_000).map(|_| Uuid::new_v4().to_string()).collect();
    let too_large = format!("{{\"owner\": \"CANARY\", \"filling\": \"{filling}\"}}");
    let too_large = Row::plant(&scene, &mut canaries, &too_large);
    let admin = Admin {
        port,
        token,
        canaries,
    };
    let mut loud = Loud {
        scene,
        right,
        admin,
    };

    // WHEN it carries events, THEN logs, pages and records have none
    loud.configure(Way::File, "text");
    loud.carries(&fit[0], 1).await;
    loud.configure(Way::Property, "json");
    loud.carries(&fit[1], 2).await;

    // WHEN Kafka is away, or the database, THEN what it waits for has none
    loud.waits_for_kafka().await;
    loud.waits_for_the_database().await;

    // WHEN a row is refused, or cannot be published, THEN it is named, and nothing else of it
    loud.configure(Way::Literal, "text");
    loud.stops_at(&too_large, 10_000).await;
    loud.stops_at(&unfit, 1_000_000).await;
}

impl Loud<'_> {
    fn configure(&mut self, way: Way, format: &str) {
        let mut headwater = way.headwater(&self.scene.pipeline, &self.right);
        for (name, value) in LOUD {
            headwater = headwater.env(name, value);
        }
        let headwater = headwater.env("HEADWATER__LOG__FORMAT", format);
        fs::write(headwater.folder().join("token"), &self.admin.token).unwrap();
        self.scene.headwater = headwater;
    }

    fn search(&self, args: &[&str]) -> i32 {
        search(&self.admin.canaries, &self.scene.headwater, args)
    }

    /// The row arrives, as the topic's `count`th.
    async fn carries(&self, row: &Row, count: u64) {
        let Self { scene, admin, .. } = self;
        scene.init();
        let mut run = scene.start().await;
        scene.database.execute(&row.sql).await;
        let arrived = scene.kafka.wait_for_messages(scene.topic(), count, LIMIT);
        assert!(arrived.await, "the row did not arrive");
        admin.search_when(&mut run, "librdkafka").await;
        for args in [&["status"][..], &["status", "--format", "json"], &["peek"]] {
            assert_eq!(self.search(args), 0, "{args:?}");
        }
        run.ask_to_stop().await;
        admin.canaries.assert_unseen("the log", &run.log());
        self.search_records().await;
    }

    async fn waits_for_kafka(&mut self) {
        let nobody = format!("127.0.0.1:{}", free_port());
        let brokers = std::mem::replace(&mut self.scene.pipeline.brokers, nobody);
        self.configure(Way::Command, "json");
        let mut run = self.scene.spawn(&["run"]);
        self.admin.search_when(&mut run, "waiting for Kafka").await;
        assert_eq!(self.search(&["status"]), 3, "nothing is delivered");
        assert_eq!(self.search(&["check"]), 3);
        self.scene.pipeline.brokers = brokers;
    }

    async fn waits_for_the_database(&mut self) {
        let port = self.scene.database.postgres().port();
        let (there, nobody) = (format!(":{port}/"), format!(":{}/", free_port()));
        let url = self.scene.pipeline.source_url.replace(&there, &nobody);
        let url = std::mem::replace(&mut self.scene.pipeline.source_url, url);
        for way in [Way::Url, Way::Command] {
            self.configure(way, "text");
            let mut run = self.scene.spawn(&["run"]);
            self.admin.search_when(&mut run, "trying again").await;
            assert_eq!(self.search(&["check"]), 3);
        }
        self.scene.pipeline.source_url = url;
    }

    /// The topic takes messages up to `largest` bytes.
    async fn stops_at(&self, row: &Row, largest: u32) {
        let Self { scene, admin, .. } = self;
        let command = format!(
            "kafka-configs.sh --bootstrap-server {} --alter --topic '{}' --add-config max.message.bytes={largest}",
            scene.kafka.brokers(),
            scene.topic()
        );
        scene.kafka.administer(&command);
        scene.database.execute(&row.sql).await;
        let mut run = scene.spawn(&["run"]);
        assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
        assert!(run.log().contains(&row.id.to_string()), "{}", run.tail());
        admin.canaries.assert_unseen("the log", &run.log());
        for args in [&["check"][..], &["check", "--format", "json"]] {
            self.search(args);
        }
        self.search_records().await;
    }

    /// What is remembered in Kafka.
    async fn search_records(&self) {
        let topic = self.scene.pipeline.positions_topic();
        let records = self.scene.kafka.consume_all(&[&topic]).await;
        assert!(!records.is_empty());
        for record in records {
            let (key, value) = (record.key.unwrap(), record.value.unwrap());
            let text = String::from_utf8([key, value].concat()).unwrap();
            self.admin
                .canaries
                .assert_unseen("a position record", &text);
        }
    }
}
