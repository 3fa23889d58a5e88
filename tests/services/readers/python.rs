//! The readers of `tests/readers`, run as a child: messages in, rows out.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use headwater_testkit::Consumed;
use serde_json::Value;

const ENVELOPE: &str = "io.ekbatan.events.streaming.actionevent.protobuf.ActionEvent";

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Python program and its arguments.
pub struct Reader {
    python: PathBuf,
    args: Vec<OsString>,
}

impl Reader {
    /// Payloads are resolved into the reader's own schema if it has one.
    pub fn avro(schemas: &[PathBuf], reads_as: Option<&Path>) -> Self {
        let mut args = vec![root().join("schemas/action_event.avsc").into_os_string()];
        args.extend(schemas.iter().map(OsString::from));
        if let Some(schema) = reads_as {
            args.extend(["--as".into(), schema.into()]);
        }
        Self::new("avro.py", args)
    }

    /// Python gets the schemas as descriptors, so that no protoc is needed; they are written into `folder`.
    pub fn protobuf(folder: &Path, schemas: &[PathBuf]) -> Self {
        let published = root().join("schemas");
        let beside = schemas[0].parent().unwrap();
        let envelope = published.join("action_event.proto");
        let descriptors = protox::Compiler::new([beside, published.as_path()])
            .unwrap()
            .include_imports(true)
            .open_files(schemas.iter().chain([&envelope]))
            .unwrap()
            .encode_file_descriptor_set();
        let file = folder.join("descriptors.binpb");
        fs::write(&file, descriptors).unwrap();
        Self::new("protobuf.py", vec![ENVELOPE.into(), file.into()])
    }

    fn new(program: &str, mut args: Vec<OsString>) -> Self {
        let program = root().join("tests/readers").join(program);
        // -B: leaves no compiled files in the checkout.
        args.splice(0..0, ["-B".into(), program.into_os_string()]);
        Self {
            python: python(),
            args,
        }
    }

    /// One row a message, in their order.
    pub fn read(&self, messages: &[Consumed]) -> Vec<Value> {
        let values = messages.iter().map(super::value);
        let output = self.run(values);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), messages.len(), "one row a message");
        rows
    }

    #[track_caller]
    pub fn refuses(&self, message: &[u8], why: &str) {
        let output = self.run([message].into_iter());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "it was read: {why}");
        assert!(errors.contains(why), "{errors}");
    }

    fn run<'a>(&self, messages: impl Iterator<Item = &'a [u8]>) -> Output {
        let mut child = Command::new(&self.python)
            .args(&self.args)
            .env("PYTHONIOENCODING", "utf-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of_hex(messages);
        let mut stdin = child.stdin.take().unwrap();
        // In a thread of its own: the child answers while it is still being told.
        let telling = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let output = child.wait_with_output().unwrap();
        // A child that refused a message did not listen to the rest.
        let _ = telling.join().unwrap();
        output
    }
}

fn lines_of_hex<'a>(messages: impl Iterator<Item = &'a [u8]>) -> String {
    let mut lines = String::new();
    for message in messages {
        for byte in message {
            write!(lines, "{byte:02x}").unwrap();
        }
        lines.push('\n');
    }
    lines
}

/// The Python that `scripts/readers` makes, or has made.
fn python() -> PathBuf {
    let output = Command::new(root().join("scripts/readers"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/readers: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().into()
}
