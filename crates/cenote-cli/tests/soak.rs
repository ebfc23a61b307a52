//! `cenote soak` as a user runs it, for a few seconds on each memory: checks that hold for runs of any length. Whether
//! figures stay flat takes an hour, and is not tested here.

use std::process::Command;

use serde_json::Value;

fn number(report: &Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {report:#}"))
}

/// Runs it for some seconds; the report.
fn soak(memory: &str, seed: &str, more: &[&str]) -> Value {
    let args = [
        "soak",
        "--json",
        "--memory",
        memory,
        "--seconds",
        "8",
        "--max",
        "160MiB",
        "--workers",
        "3",
        "--kills-per-second",
        "2",
        "--seed",
        seed,
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_cenote"))
        .args([&args, more].concat())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("seed {seed}: {why}: {text:?} {error}"));
    let is_clean = report["reasons"] == serde_json::json!([]);
    assert_eq!(output.status.code(), Some(i32::from(!is_clean)), "{report:#}");
    report
}

fn check(report: &Value) {
    for name in [
        "lost",
        "torn",
        "phantom",
        "leaked_bytes",
        "problems",
        "falsely_refused",
    ] {
        assert_eq!(number(report, name), 0, "{name}: {report:#}");
    }
    let checkpoints = report["checkpoints"].as_array().unwrap();
    assert!(checkpoints.len() >= 3, "{report:#}");
    for checkpoint in checkpoints {
        assert!(number(checkpoint, "writes") > 0, "{report:#}");
        assert!(
            number(&checkpoint["memory"], "committed_bytes") <= 160 << 20,
            "{report:#}"
        );
    }
    assert!(number(report, "writes") > 1000, "{report:#}");
    assert!(number(report, "reads") > 1000, "{report:#}");
    assert!(
        number(report, "kills") + number(report, "stops") > 0,
        "{report:#}"
    );
    assert!(number(report, "restarts") > 0, "{report:#}");
}

#[test]
fn a_short_run_on_coherent_memory_loses_nothing() {
    let report = soak("coherent", "31", &[]);
    assert_eq!(report["memory"], "coherent");
    check(&report);
}

#[test]
fn a_short_run_on_noncoherent_memory_loses_nothing() {
    let report = soak("noncoherent", "32", &[]);
    assert_eq!(report["memory"], "noncoherent");
    check(&report);
}

#[test]
fn a_write_that_was_acknowledged_and_not_done_is_lost() {
    let report = soak("coherent", "33", &["--plant", "lose"]);
    // Values of less than 8 bytes do not say who wrote them.
    assert!(
        number(&report, "lost") + number(&report, "torn") > 0,
        "{report:#}"
    );
}

#[test]
fn a_value_with_a_wrong_byte_is_torn() {
    let report = soak("coherent", "34", &["--plant", "tear"]);
    assert!(number(&report, "torn") > 0, "{report:#}");
}

#[test]
fn a_refusal_without_a_reason_is_false() {
    let report = soak("coherent", "35", &["--plant", "refuse"]);
    assert!(number(&report, "falsely_refused") > 0, "{report:#}");
    assert_eq!(number(&report, "lost"), 0, "{report:#}");
}

#[test]
fn misuse_is_told() {
    for args in [
        ["--seconds", "0"],
        ["--workers", "0"],
        ["--max", "1MiB"],
        ["--kills-per-second", "0"],
        ["--interval", "0"],
    ] {
        let command = Command::new(env!("CARGO_BIN_EXE_cenote"))
            .arg("soak")
            .args(args)
            .output()
            .unwrap();
        assert_eq!(command.status.code(), Some(2), "{args:?}");
    }
}
