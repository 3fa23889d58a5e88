//! The program: joins the parts and talks with the operator.

mod admin;
mod cli;
mod clock;
mod compare;
mod config;
mod dead_letters;
mod demo;
mod metrics;
mod parts;
mod pipeline;
mod replay;
mod telemetry;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
