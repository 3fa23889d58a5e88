//! Kafka's own command-line tools, for commands that a person would type.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Kafka;
use super::node::jars;
use crate::keeper::folder;

/// Each tool, and the class behind it.
const TOOLS: [(&str, &str); 3] = [
    ("kafka-acls.sh", "org.apache.kafka.tools.AclCommand"),
    ("kafka-configs.sh", "kafka.admin.ConfigCommand"),
    (
        "kafka-console-producer.sh",
        "org.apache.kafka.tools.ConsoleProducer",
    ),
];

/// A folder with the tools, and how an administrator logs in.
struct Place(PathBuf);

impl Kafka {
    /// Runs a line in a shell that has the tools; `admin.properties` there is for user `u` at [`super::Listener::Login`].
    pub fn administer(&self, line: &str) {
        let place = Place(folder("tools"));
        for (name, class) in TOOLS {
            place.put(name, &tool(class));
        }
        if let Some(certificates) = &self.certificates {
            place.put("admin.properties", &login(&certificates.ca()));
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(&place.0)
            .env("PATH", format!("{}:{path}", place.0.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

impl Place {
    fn put(&self, name: &str, text: &str) {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tool(class: &str) -> String {
    let jars = jars();
    format!(
        "#!/bin/sh
exec java -cp '{jars}' -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn {class} \"$@\"
"
    )
}

fn login(ca: &Path) -> String {
    format!(
        r#"security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={}
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";
"#,
        ca.display()
    )
}
