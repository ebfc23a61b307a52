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

#[test]
fn a_campaign_goes_on_where_it_was_interrupted() {
    let here = Here::new();
    let command = "sim campaign --subjects spin,names --memory coherent,noncoherent --seeds 6 --part 4 --jobs 2 --results passed --json \
                   -- --hosts 2 --threads 1 --operations 4 --crashes 1";
    let all = here.ok(command);
    let sums: Vec<Value> = all
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(sums.len(), 4);
    assert!(sums.iter().all(|sum| sum["seeds"] == 6), "{all}");
    let passed = std::fs::read_to_string(here.path("passed")).unwrap();
    assert_eq!(passed.lines().count(), 8);
    // What was being written when it was interrupted counts for nothing.
    std::fs::write(here.path("passed"), &passed[..passed.len() / 2 + 9]).unwrap();
    assert_eq!(here.ok(command), all);
    let again = std::fs::read_to_string(here.path("passed")).unwrap();
    let mut lines: Vec<&str> = again.lines().filter(|line| line.ends_with(" .")).collect();
    lines.sort_unstable();
    let mut before: Vec<&str> = passed.lines().collect();
    before.sort_unstable();
    assert_eq!(lines, before);
}

#[test]
fn a_campaign_tells_of_parts_that_fail_and_of_plans_that_are_none() {
    let here = Here::new();
    let ran = here.run(
        "sim campaign --subjects spin --memory coherent --seeds 4 --part 2 --jobs 1 --json -- --steps-max 10 --no-shrink",
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let sum: Value = serde_json::from_str(&ran.text()).unwrap();
    assert_eq!(sum["seeds"], 0);
    let parts = sum["failed_parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    let told = parts[1].as_str().unwrap();
    assert!(
        told.starts_with("cenote sim spin --memory coherent --seed 3 --seeds 2 --steps-max 10"),
        "{told}"
    );
    let ran = here.run("sim campaign --subjects spin --seeds 1 -- --nonsense");
    assert!(
        ran.code == Some(2) && ran.stderr.contains("--nonsense"),
        "{ran:?}"
    );
    here.fails(2, "sim campaign --subjects nope");
    here.fails(
        1,
        "sim campaign --subjects spin --seeds 1 --results no/such/folder",
    );
}
