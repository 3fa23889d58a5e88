//! Commands and their exit codes.

use crate::{code, run, stderr, stdout};

#[test]
fn help_names_every_command_that_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--help"]);
    assert_eq!(code(&output), Some(0));
    for command in [
        "demo",
        "check",
        "init",
        "run",
        "peek",
        "status",
        "replay",
        "dead-letters",
        "adopt",
        "recover",
        "audit",
    ] {
        assert!(
            stdout(&output).contains(&format!("\n  {command} ")),
            "{command}"
        );
    }
}

#[test]
fn an_unknown_command_is_a_usage_error_that_names_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["chekc"]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("'check'"), "{}", stderr(&output));
}

#[test]
fn without_a_configuration_it_says_how_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "run", "init", "check", "peek", "status", "adopt", "recover", "audit",
    ] {
        let output = run(folder.path(), &[command]);
        assert_eq!(code(&output), Some(2), "{command}");
        assert!(
            stderr(&output).contains("--config FILE"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_rate_that_is_no_rate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for rate in ["0", "-1", "x", "nan", "inf"] {
        let output = run(folder.path(), &["demo", "--rate", rate]);
        assert_eq!(code(&output), Some(2), "{rate}");
    }
}
