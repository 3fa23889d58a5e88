//! One broker: its folder, ports, configuration and process.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::certificate::Certificates;
use super::listener::{self, Listener};
use super::{KafkaOptions, LIMIT};
use crate::keeper::{LogFolder, folder};
use crate::place;
use crate::port::free_port;
use crate::process::{Launch, Process, append_to};

/// Any 16 bytes in base64 will do; every throwaway cluster is alone on its ports.
const CLUSTER: &str = "AAAAAAAAAAAAAAAAAAAAAA";

pub(super) struct Node {
    id: usize,
    port: u16,
    controller_port: u16,
    sasl_port: Option<u16>,
    listeners: Vec<(Listener, u16)>,
    /// The address of the keys of tokens.
    jwks: Option<String>,
    fast: bool,
    folder: PathBuf,
    log: LogFolder,
    process: Mutex<Option<Process>>,
}

/// Formats and starts all brokers, and waits until each listens.
pub(super) fn start_all(
    options: &KafkaOptions,
    certificates: Option<&Certificates>,
    shared: bool,
) -> Vec<Node> {
    let nodes: Vec<Node> = (1..=options.nodes)
        .map(|id| Node::new(id, options, certificates, shared))
        .collect();
    for node in &nodes {
        let mut conf = node.configuration(&nodes, options);
        if let Some(certificates) = certificates {
            conf.push_str(&listener::configuration(certificates));
        }
        fs::write(node.conf(), conf).unwrap();
    }
    let formatting: Vec<Child> = nodes.iter().map(|node| node.format(options)).collect();
    for (child, node) in formatting.into_iter().zip(&nodes) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "format of {}: {output:?}", node.id);
    }
    for node in &nodes {
        node.start();
    }
    for node in &nodes {
        node.wait_until_listening();
    }
    nodes
}

impl Node {
    fn new(
        id: usize,
        options: &KafkaOptions,
        certificates: Option<&Certificates>,
        shared: bool,
    ) -> Self {
        let name = format!("kafka{id}");
        Self {
            id,
            port: free_port(),
            controller_port: free_port(),
            sasl_port: options.sasl.then(free_port),
            listeners: if options.tls {
                Listener::ALL.map(|it| (it, free_port())).into()
            } else {
                Vec::new()
            },
            jwks: certificates.map(listener::jwks),
            fast: options.fast,
            folder: folder("kafka"),
            log: if shared {
                LogFolder::shared(&name)
            } else {
                LogFolder::of_this_test(&name)
            },
            process: Mutex::new(None),
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn sasl_port(&self) -> Option<u16> {
        self.sasl_port
    }

    pub(super) fn listener_port(&self, listener: Listener) -> u16 {
        let mut all = self.listeners.iter();
        let found = all.find(|(it, _)| *it == listener);
        found.expect("started with tls").1
    }

    pub(super) fn is_running(&self) -> bool {
        let mut process = self.process();
        process.as_mut().is_some_and(|p| p.exited().is_none())
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(process) = self.process().as_mut() {
            process.signal(signal);
        }
    }

    pub(super) fn kill9(&self) {
        self.process().take();
    }

    pub(super) fn term(&self) {
        if let Some(mut process) = self.process().take() {
            process.signal(Signal::SIGTERM);
            let ended = process.wait(LIMIT);
            assert!(ended.is_some(), "broker {} ignores SIGTERM", self.id);
        }
    }

    pub(super) fn start(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "broker {} is started already", self.id);
        *process = Some(Process::start(Launch {
            program: "java".into(),
            args: self.java_args().into_iter().map(Into::into).collect(),
            env: Vec::new(),
            folder: self.folder.clone(),
            user: None,
            stdout: append_to(&self.log_file()),
            stderr: append_to(&self.log_file()),
        }));
    }

    /// A small heap and, unless it is to be fast, a cheap compiler: brokers here live for seconds and share two cores with the
    /// tests.
    fn java_args(&self) -> Vec<String> {
        let mut args = vec!["-cp".to_owned(), jars()];
        if !self.fast {
            args.push("-XX:TieredStopAtLevel=1".to_owned());
        }
        let options = [
            "-Xms64m",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        ];
        args.extend(options.map(str::to_owned));
        let allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls";
        args.extend(self.jwks.iter().map(|jwks| format!("{allowed}={jwks}")));
        args.push("kafka.Kafka".to_owned());
        args.push(self.conf().display().to_string());
        args
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conf(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    fn log_file(&self) -> PathBuf {
        self.log.path().join("log")
    }

    fn wait_until_listening(&self) {
        let end = Instant::now() + LIMIT;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(
                self.is_running() && Instant::now() < end,
                "broker {} does not start:\n{}",
                self.id,
                self.log()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn format(&self, options: &KafkaOptions) -> Child {
        let mut command = Command::new("java");
        command
            .args(["-cp", &jars(), "-XX:TieredStopAtLevel=1"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"])
            .arg(self.conf());
        if options.sasl {
            command.args(["--add-scram", "SCRAM-SHA-512=[name=u,password=p]"]);
        }
        if options.tls {
            command.args(listener::SCRAM_USERS);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("java is there: scripts/test installs it")
    }

    fn configuration(&self, nodes: &[Node], options: &KafkaOptions) -> String {
        let count = nodes.len();
        let voters: Vec<String> = nodes
            .iter()
            .map(|n| format!("{}@127.0.0.1:{}", n.id, n.controller_port))
            .collect();
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{}", self.port);
        if let Some(port) = self.sasl_port {
            write!(listeners, ",SASL_PLAINTEXT://127.0.0.1:{port}").unwrap();
        }
        for (listener, port) in &self.listeners {
            write!(listeners, ",{}://127.0.0.1:{port}", listener.name()).unwrap();
        }
        let mut conf = format!(
            "node.id={id}
controller.quorum.voters={voters}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
log.dirs={data}
default.replication.factor={count}
offsets.topic.replication.factor={count}
transaction.state.log.replication.factor={count}
transaction.state.log.min.isr={majority}
share.coordinator.state.topic.replication.factor={count}
{SETTINGS}",
            id = self.id,
            voters = voters.join(","),
            controller = self.controller_port,
            data = self.folder.join("data").display(),
            majority = count.div_ceil(2),
        );
        if options.sasl {
            conf.push_str(SASL);
        }
        for (name, value) in &options.settings {
            writeln!(conf, "{name}={value}").unwrap();
        }
        conf
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill9();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn jars() -> String {
    format!("{}/*", place::server("kafka").join("libs").display())
}

/// Few partitions of the broker's own topics: it starts and rebalances faster. A short session: a killed broker's
/// successor under the same number is refused while the old session lasts.
const SETTINGS: &str = "process.roles=broker,controller
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,TLS:SSL,MUTUAL:SSL,LOGIN:SASL_SSL,TOKEN:SASL_SSL,MISNAMED:SSL,EXPIRED:SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
share.coordinator.state.topic.min.isr=1
offsets.topic.num.partitions=3
transaction.state.log.num.partitions=3
group.initial.rebalance.delay.ms=0
num.partitions=1
";

const SASL: &str = r#"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_u="p";
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"#;
