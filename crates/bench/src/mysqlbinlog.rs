//! MySQL's and MariaDB's own reader: the yardstick.

use std::os::unix::fs::symlink;
use std::process::Command;

use headwater_testkit::PASSWORD;

use crate::backlog::binlog::Backlog;
use crate::yardstick::{self, Took};

/// Reads the whole backlog, over the network as a replica does.
pub async fn drain(backlog: &Backlog<'_>, options: &[&str]) -> Took {
    let folder = tempfile::tempdir().unwrap();
    let files = backlog.files();
    for file in &files {
        // With `--raw` it writes to files of the log's names, and to nothing else.
        symlink("/dev/null", folder.path().join(file)).unwrap();
    }
    let mysql = backlog.database.mysql();
    let (program, plain): (_, &[_]) = if mysql.server().is_mariadb() {
        let plain = &["--skip-ssl", "--skip-annotate-row-events"];
        ("mariadb-binlog", plain)
    } else {
        // Without TLS the server's key is needed for the password.
        let plain = &["--ssl-mode=DISABLED", "--get-server-public-key"];
        ("mysqlbinlog", plain)
    };
    let mut command = Command::new(mysql.program(program));
    command
        .current_dir(&folder)
        .env("MYSQL_PWD", PASSWORD)
        .args(["--no-defaults", "--read-from-remote-server"])
        .args(["--host=127.0.0.1", "--to-last-log"])
        .arg(format!("--port={}", mysql.port()))
        .arg(format!("--user={}", backlog.database.name()))
        .args(plain)
        .args(options)
        .args(files.first());
    yardstick::drain(command, backlog).await
}
