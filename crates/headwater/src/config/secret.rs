//! What must never be printed, and where a password comes from.
//!
//! Rule: only `expose` gives a secret's text; `Debug` and `Display` show `***`.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::reference::PREFIX;

/// A password command that asks a slow vault gets this long; then a hanging one is given up.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a password is found.
#[derive(Clone, Debug)]
pub enum Password {
    None,
    Literal(Secret),
    File(PathBuf),
    /// The line is secret too: it may hold a token.
    Command {
        line: Secret,
        folder: PathBuf,
    },
}

impl Password {
    /// Reads the file or runs the command anew, so a password changed meanwhile is found. Waits: up to 30 s for a command.
    /// `key` is that of a literal one, for people: the others begin with it.
    pub fn read(&self, key: &'static str) -> Result<Option<Secret>, PasswordError> {
        self.find().map_err(|why| PasswordError { key, why })
    }

    fn find(&self) -> Result<Option<Secret>, Why> {
        match self {
            Self::None => Ok(None),
            Self::Literal(secret) => Ok(Some(secret.clone())),
            Self::File(path) => {
                let bytes = std::fs::read(path).map_err(|error| Why::File {
                    path: path.clone(),
                    error,
                })?;
                text(bytes, "_file").map(Some)
            }
            Self::Command { line, folder } => {
                let bytes = output(line, folder, COMMAND_LIMIT)?;
                text(bytes, "_command").map(Some)
            }
        }
    }
}

/// Why there is no password now.
#[derive(Debug, thiserror::Error)]
#[error("{key}{why}")]
pub struct PasswordError {
    key: &'static str,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("_file: {} cannot be read: {error}; make it readable for Headwater or name another file", path.display())]
    File {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("_command: cannot be run: {0}; it is given to `sh -c`")]
    NotRun(std::io::Error),
    #[error(
        "_command: ended with {0}; run it by hand to see why: it must print the secret and end with 0"
    )]
    Failed(ExitStatus),
    #[error(
        "_command: gave no answer within {} s; it must print the secret and end",
        .0.as_secs()
    )]
    Slow(Duration),
    #[error("{0}: gave nothing; one line with the secret is wanted")]
    Empty(&'static str),
    #[error("{0}: gave bytes that are not UTF-8; the secret as text is wanted")]
    NotText(&'static str),
}

/// One newline at the end belongs to the file or the command, not to the password.
fn text(bytes: Vec<u8>, key: &'static str) -> Result<Secret, Why> {
    let mut text = String::from_utf8(bytes).map_err(|_| Why::NotText(key))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() {
        return Err(Why::Empty(key));
    }
    Ok(Secret(text))
}

fn output(line: &Secret, folder: &Path, limit: Duration) -> Result<Vec<u8>, Why> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line.expose()).stdin(Stdio::null());
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    // Settings are Headwater's alone, and one of them may be the other password. The rest is how a command finds its vault.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            command.env_remove(name);
        }
    }
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Why::NotRun)?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut pipe) = child.stdout.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = pipe.read_to_end(&mut bytes).map(|_| bytes);
            // Nobody listens any more once the limit is over.
            drop(sender.send(read));
        });
    }
    let Ok(read) = receiver.recv_timeout(limit) else {
        // It may have ended this very moment; either way it is reaped here.
        drop(child.kill());
        drop(child.wait());
        return Err(Why::Slow(limit));
    };
    let status = child.wait().map_err(Why::NotRun)?;
    if !status.success() {
        return Err(Why::Failed(status));
    }
    read.map_err(Why::NotRun)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Password {
        Password::Command {
            line: Secret::new(line),
            folder: PathBuf::new(),
        }
    }

    fn exposed(password: &Password) -> Option<String> {
        password
            .read("source.password")
            .unwrap()
            .map(|s| s.expose().to_owned())
    }

    #[test]
    fn a_secret_is_shown_as_stars() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(secret.expose(), "hunter2");
        for password in [Password::Literal(secret), command("echo hunter2")] {
            assert!(!format!("{password:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_literal_password_is_given_as_it_is() {
        assert_eq!(exposed(&Password::None), None);
        let password = Password::Literal(Secret::new("a\n"));
        assert_eq!(exposed(&password), Some("a\n".to_owned()));
    }

    #[test]
    fn a_password_file_is_read_anew_each_time_and_loses_one_newline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let password = Password::File(path.clone());
        for (written, wanted) in [
            ("first\n", "first"),
            ("second\r\n", "second"),
            ("third", "third"),
            (" spaces \n\n", " spaces \n"),
        ] {
            std::fs::write(&path, written).unwrap();
            assert_eq!(exposed(&password).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn a_password_file_that_gives_none_is_an_error_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let password = Password::File(path.clone());
        let missing = password.read("source.password").unwrap_err().to_string();
        assert!(missing.starts_with("source.password_file: "), "{missing}");
        assert!(missing.contains("password cannot be read"), "{missing}");
        std::fs::write(&path, "\n").unwrap();
        let empty = password.read("source.password").unwrap_err().to_string();
        assert!(empty.contains("gave nothing"), "{empty}");
        std::fs::write(&path, b"hunter2\xff").unwrap();
        let binary = password.read("source.password").unwrap_err().to_string();
        assert!(binary.contains("not UTF-8"), "{binary}");
        assert!(!binary.contains("hunter2"));
    }

    #[test]
    fn a_password_command_is_run_anew_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let password = Password::Command {
            line: Secret::new("cat here"),
            folder: folder.path().to_owned(),
        };
        for wanted in ["first", "second"] {
            std::fs::write(folder.path().join("here"), format!("{wanted}\n")).unwrap();
            assert_eq!(exposed(&password).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn a_password_command_that_fails_is_an_error_without_its_output() {
        let failed = command("echo hunter2; exit 3")
            .read("source.password")
            .unwrap_err();
        assert!(failed.to_string().contains("exit status: 3"), "{failed}");
        assert!(!format!("{failed} {failed:?}").contains("hunter2"));
        let silent = command("true")
            .read("source.password")
            .unwrap_err()
            .to_string();
        assert!(silent.contains("gave nothing"), "{silent}");
    }

    #[test]
    fn a_password_command_that_hangs_is_given_up() {
        let limit = Duration::from_millis(50);
        let slow = output(&Secret::new("exec sleep 60"), Path::new(""), limit).unwrap_err();
        assert!(matches!(slow, Why::Slow(_)), "{slow}");
    }
}
