//! Every subject with a server that executes exchanges. Processes die at any step, the server's too. A failure prints
//! the command that repeats it. `CENOTE_SIM_SEEDS` sets how many seeds each subject gets.
//!
//! On this machine all hosts share the kernel's lock by which the server is found. The subject `lease` checks that only
//! one host has the lease.

use cenote_sim::campaign::{LimitsKind, Plan, PolicyKind, Result as Ended};
use cenote_sim::subjects::Subject;

#[test]
fn every_subject_with_a_server_that_dies() {
    let seeds = std::env::var("CENOTE_SIM_SEEDS")
        .map_or(12, |text| text.parse().expect("CENOTE_SIM_SEEDS is a number"));
    for subject in Subject::ALL {
        for (seed, crashes) in (1..=seeds).zip([0, 1, 2].into_iter().cycle()) {
            check(subject, 8, crashes, seed, LimitsKind::Drawn);
        }
    }
}

/// Three defects. Hosts were fenced again and again, because their work takes longer where a server executes exchanges.
/// A monitor had given up leading, and did not know yet that the server had taken the lock from it. Two monitors' hosts
/// had fenced each other, and both monitors were dead.
#[test]
fn hosts_come_to_an_end() {
    for (subject, seed) in [
        (Subject::Hosts, 31002),
        (Subject::Hosts, 50004),
        (Subject::DeathNotices, 50010),
        (Subject::Hosts, 5000049),
    ] {
        check(subject, 10, 2, seed, LimitsKind::Usual);
    }
}

/// A thread left a queue as its lock was removed, and the thread behind it gave up at the same time without having seen
/// that: the slot was never free again.
#[test]
fn a_slot_that_was_left_comes_back() {
    check(Subject::Removal, 20, 0, 109, LimitsKind::Drawn);
}

/// A thread's mark of its sleep, still in its store buffer, overwrote the request of the next thread at the same
/// mailbox. And a fault of the checker: it wanted later threads of the audit to see what a running server had not
/// published.
#[test]
fn a_mailbox_goes_on_with_an_empty_store_buffer() {
    check(Subject::Machines, 14, 2, 810, LimitsKind::Drawn);
    check(Subject::Removal, 20, 1, 405, LimitsKind::Small);
}

/// A thread that waited for a directory lock did not let its process's driver run, which had changed the entry and
/// waited for the server.
#[test]
fn who_waits_for_a_directory_lock_lets_the_driver_run() {
    for seed in [900_003, 900_004, 900_016] {
        let plan = Plan {
            policy: PolicyKind::Pct(3),
            ..plan(Subject::DirectoryLocks, 10, 2, LimitsKind::Drawn)
        };
        run(&plan, seed);
    }
}

fn check(subject: Subject, operations: u32, crashes: u32, seed: u64, limits: LimitsKind) {
    run(&plan(subject, operations, crashes, limits), seed);
}

fn plan(subject: Subject, operations: u32, crashes: u32, limits: LimitsKind) -> Plan {
    Plan {
        subject,
        coherent: false,
        delegated: true,
        hosts: 3,
        threads: 2,
        operations,
        crashes,
        draws_guidelines: true,
        prefetches: false,
        has_membarrier: true,
        blind_exchanges: false,
        limits,
        policy: PolicyKind::Random,
        profile: None,
        // A thread that waits for a server takes steps.
        steps_max: 60_000_000,
    }
}

fn run(plan: &Plan, seed: u64) {
    let run = plan.run(seed);
    let repeat = format!("repeat it with: cenote sim {}", plan.arguments(seed));
    assert_eq!(run.result, Ended::Passed, "{repeat}");
}
