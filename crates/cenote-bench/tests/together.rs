//! `cenote-bench together` measures every store that several processes may have open, says of the others why not, and
//! leaves nothing behind.

use serde_json::Value;
use std::process::Command;

#[test]
fn several_processes_on_each_store() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cenote-bench"));
    command.args(["together", "--processes", "3", "--records", "3k"]);
    command.args(["--inserts", "200", "--rounds", "2", "--ms", "5", "--json"]);
    let child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let prefix = format!("cenote-bench-together-{}-", child.id());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    for (part, rounds_of_redb) in [("one", 2), ("all", 0)] {
        let subjects = json[part]["subjects"].as_array().expect("there are subjects");
        assert_eq!(subjects.len(), 5);
        for subject in subjects {
            let is_redb = subject["name"] == "redb";
            let rounds = if is_redb { rounds_of_redb } else { 2 };
            for figure in ["load_per_second", "update_per_second", "get_per_second"] {
                let found = subject[figure]["rounds"].as_array().map(Vec::len);
                assert_eq!(found, Some(rounds), "{part} {figure} {subject}");
            }
            let missing = (is_redb && part == "all").then_some("one process only");
            assert_eq!(subject["missing"].as_str(), missing);
        }
    }
    let left = std::fs::read_dir("/dev/shm").expect("it can be listed");
    let left: Vec<_> = left
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
