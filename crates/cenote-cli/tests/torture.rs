//! `cenote torture` and `cenote demo` as a user runs them: short, clean, and able to find what was planted.

use std::process::{Command, Output};

use serde_json::Value;

fn cenote(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cenote"))
        .args(args)
        .output()
        .unwrap()
}

fn torture(args: &[&str]) -> (Option<i32>, Value) {
    let output = cenote(&[&["torture", "--json"], args].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text:?} {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

/// A run that fails keeps its folder; this one failed because it was told to.
fn remove_kept(report: &Value) {
    let kept = report["kept"]
        .as_str()
        .expect("a failed run keeps its pool and says where");
    std::fs::remove_dir_all(kept).unwrap();
}

fn number(report: &Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn a_short_run_is_clean() {
    let (code, report) = torture(&["--seconds", "5", "--seed", "5", "--kills-per-second", "10"]);
    assert_eq!(code, Some(0), "{report:#}");
    for name in ["lost", "torn", "leaked_bytes"] {
        assert_eq!(number(&report, name), 0, "{report:#}");
    }
    assert_eq!(report["problems"], serde_json::json!([]));
    assert_eq!(number(&report, "seed"), 5);
    assert!(number(&report, "kills") >= 25, "{report:#}");
    assert!(number(&report, "restarts") >= 20, "{report:#}");
    assert!(number(&report, "acknowledged") > 1000, "{report:#}");
    assert!(number(&report, "reads") > 1000, "{report:#}");
    assert!(
        report["max_survivor_stall_ms"].as_f64().unwrap() > 0.0,
        "{report:#}"
    );
    assert_eq!(report["kept"], Value::Null);
}

#[test]
fn a_write_that_was_acknowledged_and_not_done_is_lost() {
    let (code, report) = torture(&["--seconds", "10", "--seed", "6", "--plant", "lose"]);
    assert_eq!(code, Some(1), "{report:#}");
    assert!(number(&report, "lost") > 0, "{report:#}");
    assert_eq!(number(&report, "torn"), 0, "{report:#}");
    remove_kept(&report);
}

#[test]
fn a_value_with_a_wrong_byte_is_torn() {
    for map in ["hash", "objects"] {
        let args = ["--seconds", "10", "--seed", "7", "--plant", "tear", "--map", map];
        let (code, report) = torture(&args);
        assert_eq!(code, Some(1), "{report:#}");
        assert!(number(&report, "torn") > 0, "{report:#}");
        remove_kept(&report);
    }
}

#[test]
fn object_stores_lose_tear_and_leak_nothing() {
    for memory in ["", "--noncoherent"] {
        let mut args = vec![
            "--seconds",
            "4",
            "--seed",
            "12",
            "--kills-per-second",
            "10",
            "--map",
            "objects",
        ];
        args.extend(Some(memory).filter(|memory| !memory.is_empty()));
        let (code, report) = torture(&args);
        assert_eq!(code, Some(0), "{report:#}");
        assert!(number(&report, "kills") >= 20, "{report:#}");
        assert!(number(&report, "acknowledged") > 500, "{report:#}");
        assert_eq!(report["map"], "objects");
    }
}

#[test]
fn an_object_that_is_forgotten_is_leaked() {
    let (code, report) = torture(&["--seconds", "2", "--seed", "8", "--plant", "leak"]);
    assert_eq!(code, Some(1), "{report:#}");
    assert_eq!(number(&report, "leaked_bytes"), 64, "{report:#}");
    assert_eq!(
        (number(&report, "lost"), number(&report, "torn")),
        (0, 0),
        "{report:#}"
    );
    remove_kept(&report);
}

#[test]
fn a_worker_that_does_not_move_is_seen() {
    let args = [
        "--workers",
        "1",
        "--seconds",
        "20",
        "--seed",
        "9",
        "--kills-per-second",
        "0.1",
        "--plant",
        "block",
    ];
    let (code, report) = torture(&args);
    assert_eq!(code, Some(1), "{report:#}");
    assert!(
        report["problems"][0].as_str().unwrap().contains("is blocked"),
        "{report:#}"
    );
    remove_kept(&report);
}

#[test]
fn misuse_is_told() {
    assert_eq!(
        cenote(&["torture", "--kills-per-second", "0"]).status.code(),
        Some(2)
    );
    assert_eq!(cenote(&["torture", "--size", "much"]).status.code(), Some(2));
    assert_eq!(cenote(&["torture", "--workers", "0"]).status.code(), Some(2));
    assert_eq!(cenote(&["worker", "torture"]).status.code(), Some(2));
}

#[test]
fn the_demo_verifies_everything() {
    let output = cenote(&["demo", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["cities"], 69_472);
    assert_eq!(summary["verified_after_indexing"]["cities"], 69_472);
    assert_eq!(summary["verified_after_indexing"]["countries"], 245);
    assert_eq!(summary["verified_after_indexing"]["population"], 4_236_878_190u64);
    assert_eq!(summary["indexed"]["killed"].as_array().unwrap().len(), 3);
    assert_eq!(summary["memory"]["leaked_bytes"], 0);
    assert_eq!(summary["pool"], Value::Null);
}

/// One process changes bytes while others use them: errors, and nothing else.
#[test]
fn damage_is_errors_and_nothing_else() {
    for memory in [&[][..], &["--noncoherent"]] {
        let (code, report) = torture(
            &[
                &["--damage", "--seconds", "4", "--workers", "3", "--seed", "11"],
                memory,
            ]
            .concat(),
        );
        assert_eq!(code, Some(0), "{report:#}");
        assert_eq!(report["faults"], serde_json::json!([]), "{report:#}");
        assert_eq!(number(&report, "seed"), 11);
        for name in ["rounds", "processes", "calls", "changes"] {
            assert!(number(&report, name) > 0, "{report:#}");
        }
    }
}
