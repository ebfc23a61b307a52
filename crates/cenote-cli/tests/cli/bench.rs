//! bench: every workload, processes, and nothing left behind.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Here, kill};

fn reports(here: &Here, line: &str) -> Vec<serde_json::Value> {
    let text = here.ok(&format!("{line} --json"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn all_workloads() {
    let here = Here::new();
    let found = reports(&here, "bench --records 2k --ops 4k --threads 2");
    let names: Vec<_> = found
        .iter()
        .map(|report| report["workload"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["load", "a", "b", "c", "f", "d", "e"]);
    for report in &found {
        let wanted: u64 = if report["workload"] == "load" {
            2_000
        } else {
            4_000
        };
        assert_eq!(report["operations"], wanted, "{report}");
        assert_eq!(report["misses"], 0, "{report}");
        assert!(report["operations_per_second"].as_f64().unwrap() > 0.0);
        let samples = report["latencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|times| times["samples"].as_u64().unwrap());
        assert!(
            (wanted / 61 - 4..=wanted / 61).contains(&samples.sum()),
            "{report}"
        );
        assert_eq!(report["note"].is_string(), report["workload"] == "e");
    }
    for memory in ["", "--noncoherent"] {
        let ordered = reports(
            &here,
            &format!("bench --map ordered --records 2k --ops 2k {memory}"),
        );
        assert_eq!(ordered.len(), 7);
        for report in &ordered {
            assert_eq!(
                (&report["map"], &report["misses"]),
                (&"ordered".into(), &0.into()),
                "{report}"
            );
            assert!(report["note"].is_null(), "{report}");
        }
    }
    let objects = reports(
        &here,
        "bench --map objects --records 2k --ops 2k --value-size 8-1KiB",
    );
    assert_eq!(objects.len(), 6, "all but the workload that scans");
    for report in &objects {
        assert_eq!(
            (&report["map"], &report["misses"]),
            (&"objects".into(), &0.into()),
            "{report}"
        );
    }
    here.fails(2, "bench --map objects --records 1k --workload e");
    let text = here.ok("bench --records 1k --workload e");
    assert!(text.contains("no order") && text.contains("Mops/s"), "{text}");
}

#[test]
fn processes_batches_and_counts() {
    let here = Here::new();
    here.ok("create ./p");
    for line in [
        "bench ./p --records 5k --workload f --processes 3 --value-size 8-1KiB",
        "bench --records 5k --workload c --processes 2 --threads 2 --batch 16",
        "bench --records 5k --workload a --noncoherent --processes 2 --guidelines sp",
        "bench --records 5k --workload b --guidelines in-place",
    ] {
        let found = reports(&here, line);
        assert_eq!(found.len(), 2, "{line}");
        assert!(
            found
                .iter()
                .all(|report| report["operations"] == 5_000 && report["misses"] == 0),
            "{found:?}"
        );
    }
    assert_eq!(here.json("stat ./p")["maps"][0]["keys"], 5_000);
    assert_eq!(here.json("fsck ./p")["clean"], true);

    let found = reports(&here, "bench --records 5k --workload c --noncoherent --count");
    let fetches = found[1]["memory_operations"]["line_fetches"].as_f64().unwrap();
    assert!((1.0..3.0).contains(&fetches), "{found:?}");
    assert!(
        found[1]["memory_operations"]["exchanges"].as_f64().unwrap() < 0.01,
        "{found:?}"
    );
}

#[test]
fn what_cannot_be_measured() {
    let here = Here::new();
    for bad in [
        "--workload g",
        "--records 0",
        "--records 1x",
        "--ops -1",
        "--value-size 9-8",
        "--value-size 2GiB",
        "--threads 0",
        "--processes 0",
        "--batch 0",
        "--guidelines p4",
        "./p --noncoherent",
    ] {
        here.fails(2, &format!("bench {bad}"));
    }
    here.fails(1, "bench ./missing");
    here.ok("create ./p --processes 2 --workers 8");
    let message = here.fails(1, "bench ./p --records 100 --processes 4");
    assert!(message.contains("--processes"), "{message}");
    here.ok("create ./small --size 2MiB --max 2MiB");
    for processes in [1, 2] {
        let message = here.fails(1, &format!("bench ./small --records 1M --processes {processes}"));
        assert!(message.contains("full"), "{message}");
    }
}

#[test]
fn an_interrupted_benchmark_cleans_up() {
    let here = Here::new();
    let mut child = here
        .command(["bench", "--records", "50M", "--workload", "c"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    // Its pool is the file in /dev/shm that it has mapped.
    let pool = loop {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        let pool = maps
            .split_whitespace()
            .find(|word| word.starts_with("/dev/shm/cenote-bench-"));
        if let Some(pool) = pool {
            break std::path::PathBuf::from(pool);
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
    };
    assert!(pool.parent().unwrap().exists());
    kill(child.id().into(), libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!pool.parent().unwrap().exists());
}
