//! bench --map near: on worker threads, simulated modules, and memory nodes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::Here;

/// A memory node, which ends with this.
struct Node {
    child: Child,
    address: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn node(here: &Here) -> Node {
    std::fs::write(here.path("token"), "of the test\n").unwrap();
    let line = "memnode --listen 127.0.0.1:0 --memory 64MiB --token-file token --json";
    let mut command = here.command(line.split(' '));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut began = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut began).unwrap();
    let began: serde_json::Value = serde_json::from_str(&began).unwrap();
    let address = began["listening"].as_str().unwrap().to_owned();
    Node { child, address }
}

fn reports(here: &Here, line: &str) -> Vec<serde_json::Value> {
    let text = here.ok(&format!("bench --map near {line} --json"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn all_workloads_on_every_backend() {
    let here = Here::new();
    let nodes = [node(&here), node(&here)];
    let addresses = format!("{},{}", nodes[0].address, nodes[1].address);
    for (backend, line) in [
        ("threads", "--threads 2".to_owned()),
        ("simulated", "--simulated --alpha 1.2".to_owned()),
        ("memory nodes", format!("--nodes {addresses} --token-file token")),
    ] {
        let found = reports(
            &here,
            &format!("--records 4k --ops 8k --batch 1k --modules 8 {line}"),
        );
        let names: Vec<_> = found
            .iter()
            .map(|report| report["workload"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["load", "a", "b", "c", "f", "d", "e"]);
        for report in &found {
            assert_eq!(report["backend"], backend);
            assert_eq!(report["misses"], 0, "{report}");
            assert_eq!(report["simulated"], backend == "simulated");
            assert_eq!(report["module_loads"].as_array().unwrap().len(), 8);
            let rounds = report["rounds_per_batch"].as_f64().unwrap();
            assert!((1.0..=2.0).contains(&rounds), "{report}");
            assert!(report["operations"].as_u64().unwrap() >= 4_000, "{report}");
        }
        assert!(found[6]["scanned_pairs"].as_u64().unwrap() > 0);
    }
    let text = here.ok("bench --map near --records 2k --workload c --modules 8 --static");
    assert!(
        text.contains("load of each module") && text.contains("Mops/s"),
        "{text}"
    );
    assert!(text.contains("0 splits, 0 moves"), "{text}");
}

#[test]
fn misuse_and_nodes_that_are_not_there_are_told() {
    let here = Here::new();
    let mut node = node(&here);
    for (code, line, what) in [
        (2, "bench --modules 8".to_owned(), "--map near"),
        (2, "bench --map near pool".to_owned(), "leave out POOL"),
        (2, "bench --map near --alpha 11".to_owned(), "0 to 10"),
        (
            2,
            format!("bench --map near --nodes {}", node.address),
            "--token-file",
        ),
        (
            1,
            format!(
                "bench --map near --records 90M --nodes {} --token-file token",
                node.address
            ),
            "more than what is free",
        ),
    ] {
        let message = here.fails(code, &line);
        assert!(message.contains(what), "{line}: {message}");
    }
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    let line = format!("bench --map near --nodes {} --token-file token", node.address);
    let message = here.fails(1, &line);
    assert!(
        message.contains(&node.address) && message.contains("is it running"),
        "{message}"
    );
}
