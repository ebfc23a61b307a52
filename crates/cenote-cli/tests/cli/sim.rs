//! sim: seeds that pass, explorations, virtual time, throughput, and arguments that do not fit.

use serde_json::Value;

use super::Here;

#[test]
fn an_exploration_tells_its_bounds() {
    let here = Here::new();
    let text = here.ok(
        "sim allocator --memory coherent --threads 1 --operations 1 --crashes 0 --policy exhaustive --preemptions 1",
    );
    assert!(
        text.contains("all ") && text.contains("schedules with at most 1 preemption and 0 faults"),
        "{text}"
    );
}

#[test]
fn a_profile_gives_virtual_time() {
    let here = Here::new();
    let command =
        "sim hash --memory noncoherent --operations 4 --crashes 0 --profile cxl-remote --twice --json";
    let answer: Value = serde_json::from_str(&here.ok(command)).unwrap();
    assert_eq!(answer["result"], "passed");
    assert!(answer["virtual_ns"].as_f64().unwrap() > 1e3, "{answer}");
    here.fails(2, "sim hash --profile cxl-remote --policy pct");
    let message = here.fails(2, "sim hash --profile no-such");
    assert!(
        message.contains("no-such") && message.contains("cxl-remote"),
        "{message}"
    );
}

#[test]
fn throughput_is_the_same_twice() {
    let here = Here::new();
    let command = "sim throughput --workload a --records 500 --operations 1k --threads 6 --hosts 2 --json";
    let printed = here.ok(command);
    assert_eq!(here.ok(command), printed);
    let answer: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["origin"], "simulated");
    assert_eq!(answer["operations"], 1000);
    assert!(answer["mops_per_s"].as_f64().unwrap() > 0.0, "{answer}");
    assert!(answer["traffic"]["exchanges"].as_u64().unwrap() > 400, "{answer}");
    let message = here.fails(2, "sim throughput --workload e --records 100 --operations 100");
    assert!(message.contains("no order"), "{message}");
}
