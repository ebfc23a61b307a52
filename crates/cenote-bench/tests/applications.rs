//! `cenote-bench applications` measures both applications over each kind of lock, kills workers, and leaves nothing
//! behind.

use serde_json::Value;
use std::process::{Command, Stdio};

fn run(arguments: &[&str]) -> Value {
    let child = Command::new(env!("CARGO_BIN_EXE_cenote-bench"))
        .arg("applications")
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let prefix = format!("cenote-bench-applications-{}-", child.id());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let left = std::fs::read_dir("/dev/shm").expect("it can be listed");
    let left: Vec<_> = left
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

#[test]
fn both_applications_over_each_lock() {
    let small = ["--rounds", "2", "--ms", "5", "--records", "400", "--json"];
    for (case, locks) in [("YCSB A", 5), ("YCSB C", 5), ("TPC-C, small", 5)] {
        let json = run(&[&small[..], &["--only", case]].concat());
        let rows = json["rows"].as_array().expect("there are rows");
        assert_eq!(rows.len(), locks, "{case}");
        for row in rows {
            assert_eq!(row["rounds"].as_array().map(Vec::len), Some(2), "{row}");
            assert!(row["median_per_second"].as_f64() > Some(0.0), "{row}");
        }
    }
}

#[test]
fn workers_that_are_killed_leave_a_store_whose_conditions_hold() {
    let json = run(&["--kill", "12", "--json"]);
    let locks = json["rows"].as_array().map(Vec::len);
    assert_eq!((json["killed"].as_u64(), locks), (Some(12), Some(4)));
}
