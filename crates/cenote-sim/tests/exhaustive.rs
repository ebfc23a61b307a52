//! All schedules within a bound, of small scenarios. Each prints how many there were.

use cenote_sim::campaign::{Plan, PolicyKind, Result as Ended};
use cenote_sim::subjects::Subject;

/// Explores a plan for one draw of its data.
fn explore(name: &str, plan: &Plan, seed: u64, preemptions: u32) {
    let (run, schedules) = plan.explore(seed, preemptions, SCHEDULES_MAX);
    println!(
        "{name}, {}: {schedules} schedules with at most {preemptions} preemptions",
        if plan.coherent { "coherent" } else { "noncoherent" }
    );
    assert_eq!(
        run.result,
        Ended::Passed,
        "{name}, after {schedules} schedules; its decisions: {:?}",
        run.outcome.decisions
    );
    assert!(
        schedules < SCHEDULES_MAX,
        "{name}: the bound is too large to be exhausted"
    );
}

const SCHEDULES_MAX: u64 = 200_000;

fn plan(subject: Subject, coherent: bool, operations: u32) -> Plan {
    Plan {
        subject,
        coherent,
        hosts: 2,
        threads: 1,
        operations,
        crashes: 0,
        draws_guidelines: false,
        prefetches: false,
        policy: PolicyKind::Exhaustive(0),
        steps_max: 4_000_000,
    }
}

#[test]
fn two_hosts_and_two_operations_each_on_one_bucket() {
    explore("bucket", &plan(Subject::Hash, true, 2), 1, 1);
}

#[test]
fn two_hosts_that_allocate_and_free() {
    explore("allocation", &plan(Subject::Allocator, true, 2), 1, 1);
}

#[test]
#[ignore = "takes minutes: every schedule zeroes and moves a level"]
fn two_hosts_while_the_map_grows() {
    explore("growth", &plan(Subject::Growth, true, 2), 1, 1);
}

#[test]
#[ignore = "takes many minutes: background threads add their steps"]
fn two_hosts_on_incoherent_memory() {
    explore("bucket", &plan(Subject::Hash, false, 2), 1, 1);
    explore("allocation", &plan(Subject::Allocator, false, 2), 1, 1);
    explore("growth", &plan(Subject::Growth, false, 2), 1, 1);
}
