//! All schedules within bounds, of small scenarios: two hosts, each with one process, one thread and two operations.
//! Each test prints how many there were. What the processes do before both have opened the map, and what the audit
//! does, is the same in every schedule.
//!
//! The scenarios with larger bounds are ignored;
//! `cargo test --release -p cenote-sim --test exhaustive -- --ignored --nocapture` runs them, in some minutes each.

use std::time::Instant;

use cenote_sim::campaign::{Explored, LimitsKind, Plan, PolicyKind, Result as Ended};
use cenote_sim::policy::Bounds;
use cenote_sim::subjects::Subject;

/// Of scenarios that take minutes without `--release` if there are two.
const PREEMPTIONS: u32 = if cfg!(debug_assertions) { 1 } else { 2 };

const fn bounds(preemptions: u32, faults: u32) -> Bounds {
    Bounds { preemptions, faults }
}

fn explored(subject: Subject, coherent: bool, bounds: Bounds, blind_exchanges: bool, seed: u64) -> Explored {
    let plan = Plan {
        subject,
        coherent,
        hosts: 2,
        threads: 1,
        operations: 2,
        crashes: 0,
        delegated: false,
        draws_guidelines: false,
        prefetches: false,
        has_membarrier: true,
        blind_exchanges,
        limits: LimitsKind::Usual,
        policy: PolicyKind::Exhaustive(bounds),
        profile: None,
        steps_max: 1_000_000,
    };
    plan.explore(seed, bounds, 1_000_000)
}

/// Of the seeds up to 40, one in which the two write the same key of a bucket, or allocate, or make the map grow; or
/// put new keys into the same leaf, which is split, or empty one, which is merged.
fn seed(subject: Subject, coherent: bool) -> u64 {
    match (subject, coherent) {
        (Subject::Hash, true) => 8,
        (Subject::Hash, false) => 14,
        (Subject::Ordered, true) => 8,
        (Subject::Ordered, false) => 34,
        (Subject::Split, true) => 34,
        (Subject::Split, false) => 17,
        (Subject::Merge, true) => 8,
        (Subject::Merge, false) => 5,
        // Both ask for the same lock and leave notes.
        (Subject::Queue, _) => 3,
        _ => 1,
    }
}

/// Explores a subject for one draw of its data.
fn explore(subject: Subject, coherent: bool, bounds: Bounds) {
    explore_seed(subject, coherent, bounds, seed(subject, coherent));
}

fn explore_seed(subject: Subject, coherent: bool, bounds: Bounds, seed: u64) {
    let begun = Instant::now();
    let explored = explored(subject, coherent, bounds, false, seed);
    let machine = if coherent { "coherent" } else { "noncoherent" };
    let name = format!("{}, {machine}", subject.name());
    println!("{name}: {explored}; {:.1} s", begun.elapsed().as_secs_f64());
    let Explored { last, has_ended, .. } = explored;
    assert_eq!(
        last.result,
        Ended::Passed,
        "{name}; its decisions: {:?}",
        last.outcome.decisions
    );
    assert!(has_ended, "{name}: the bounds are too large to be exhausted");
}

#[test]
fn one_bucket_on_coherent_memory() {
    explore(Subject::Hash, true, bounds(PREEMPTIONS, 0));
}

#[test]
fn one_bucket_on_incoherent_memory() {
    explore(Subject::Hash, false, bounds(1, 0));
    explore(Subject::Hash, false, bounds(0, 1));
}

#[test]
fn allocation_and_free_on_coherent_memory() {
    explore(Subject::Allocator, true, bounds(1, 0));
}

#[test]
fn allocation_and_free_on_incoherent_memory() {
    explore(Subject::Allocator, false, bounds(1, 0));
    explore(Subject::Allocator, false, bounds(0, 1));
}

#[test]
fn growth_on_coherent_memory() {
    explore(Subject::Growth, true, bounds(1, 0));
}

#[test]
fn growth_on_incoherent_memory() {
    explore(Subject::Growth, false, bounds(1, 0));
}

/// The one leaf becomes full: the root rises, and the leaf below it is split.
#[test]
fn one_leaf_on_coherent_memory() {
    explore(Subject::Ordered, true, bounds(PREEMPTIONS, 0));
}

#[test]
fn one_leaf_on_incoherent_memory() {
    explore(Subject::Ordered, false, bounds(1, 0));
    explore(Subject::Ordered, false, bounds(0, 1));
}

/// Both put keys into a full leaf, and one of them posts the new one.
#[test]
fn a_split_on_coherent_memory() {
    explore(Subject::Split, true, bounds(PREEMPTIONS, 0));
}

#[test]
fn a_split_on_incoherent_memory() {
    explore(Subject::Split, false, bounds(1, 0));
    explore(Subject::Split, false, bounds(0, 1));
}

/// Both remove keys of a leaf that is merged.
#[test]
fn a_merge_on_coherent_memory() {
    explore(Subject::Merge, true, bounds(PREEMPTIONS, 0));
}

#[test]
fn a_merge_on_incoherent_memory() {
    explore(Subject::Merge, false, bounds(1, 0));
    explore(Subject::Merge, false, bounds(0, 1));
}

/// Two ask for the same locks, twice each.
#[test]
fn locks_on_coherent_memory() {
    for subject in [Subject::Spin, Subject::Mutex, Subject::Queue, Subject::Rwlock] {
        explore(subject, true, bounds(PREEMPTIONS, 0));
    }
}

#[test]
fn locks_on_incoherent_memory() {
    for subject in [Subject::Spin, Subject::Mutex, Subject::Queue, Subject::Rwlock] {
        explore(subject, false, bounds(1, 0));
    }
}

#[test]
#[ignore = "larger bounds: more than four minutes"]
fn a_split_with_a_preemption_and_a_fault() {
    explore(Subject::Split, false, bounds(1, 1));
}

#[test]
#[ignore = "larger bounds: more than four minutes"]
fn a_merge_with_a_preemption_and_a_fault() {
    explore(Subject::Merge, false, bounds(1, 1));
}

#[test]
#[ignore = "larger bounds"]
fn one_bucket_with_a_preemption_and_a_fault() {
    // Fewer of the operations write than with the other seed.
    explore_seed(Subject::Hash, false, bounds(1, 1), 1);
}

#[test]
#[ignore = "larger bounds"]
fn allocation_and_free_with_two_preemptions() {
    explore(Subject::Allocator, true, bounds(2, 0));
}

/// An exploration finds compare-exchanges that never fail, and only if threads are preempted.
#[test]
fn a_planted_fault_is_found() {
    for subject in [
        Subject::Hash,
        Subject::Allocator,
        Subject::Growth,
        Subject::Ordered,
        Subject::Split,
        Subject::Merge,
    ] {
        for coherent in [true, false] {
            let seed = seed(subject, coherent);
            let case = format!("{}, coherent: {coherent}", subject.name());
            let dull = explored(subject, coherent, bounds(0, 0), true, seed);
            assert_eq!(dull.last.result, Ended::Passed, "{case}: without a preemption");
            let found = explored(subject, coherent, bounds(1, 0), true, seed);
            println!("{case}: {:?} after {} runs", found.last.result, found.runs);
            assert_ne!(found.last.result, Ended::Passed, "{case}: {found}");
        }
    }
}
