//! Black-box tests of the built program that need no server.

// Test code: a failed expectation is the test's answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod admin;
mod cli;
mod config;
mod conformance;
mod demo;
mod replay;
mod rooms;
mod routes;
mod schemas;
mod secrets;
mod sqlite;

use std::path::Path;
use std::process::{Command, Output};

/// The built program, with nothing of this machine's environment that it would listen to.
fn headwater(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(args).current_dir(folder).env("NO_COLOR", "1");
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    headwater(folder, args)
        .output()
        .expect("the program starts")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}
