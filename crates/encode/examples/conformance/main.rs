//! Judges the encoders by golden cases: `conformance FILE.jsonl BASE_ROW.json`.
//!
//! One line a case (`id ok`, `id FAIL what`; `id skip` for what only Kafka Connect can show), and a last line with the sums.

mod decoded;
mod judge;
mod record;

use std::process::ExitCode;

use judge::{Verdict, judge};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cases, base_row] = arguments.as_slice() else {
        eprintln!("conformance FILE.jsonl BASE_ROW.json");
        return ExitCode::from(2);
    };
    match judge_all(cases, base_row) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::from(2)
        }
    }
}

/// How many failed.
fn judge_all(cases: &str, base_row: &str) -> Result<usize, String> {
    let base = read(base_row)?;
    let base = serde_json::from_str(&base).map_err(|error| format!("{base_row}: {error}"))?;
    let (mut passed, mut failed) = (0, 0);
    for (line, text) in read(cases)?.lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let case: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("{cases}:{}: {error}", line + 1))?;
        let id = case["id"].as_str().unwrap_or("(no id)");
        match judge(text, &base) {
            Verdict::Passed => {
                passed += 1;
                println!("{id} ok");
            }
            Verdict::Failed(what) => {
                failed += 1;
                println!("{id} FAIL {}", what.replace('\n', " "));
            }
            Verdict::ConnectOnly => println!("{id} skip"),
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed)
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))
}
