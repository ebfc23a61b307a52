//! The index of the example `own_index` as a subject, right and with planted faults.

#[path = "../examples/own_index/buckets.rs"]
mod buckets;
#[path = "../examples/own_index/publish.rs"]
mod publish;

use buckets::OnBuckets;
use cenote::index::baseline::clht::Clht;
use cenote_sim::own::{Bounds, Ended, Failure, Index, Memory, Plan, PolicyKind, Subject, schedule};
use publish::{Exchanged, NotWrittenBack, Publish, Stored};

/// Runs of each plan of the index that is right.
const SEEDS: u64 = 12;
/// Runs in which a fault must show.
const SEEDS_OF_A_FAULT: u64 = 60;
/// Schedules after which an exploration is given up.
const SCHEDULES_MAX: u64 = 100_000;

fn plan<P: Publish>(coherent: bool) -> Plan {
    Plan {
        hosts: 3,
        crashes: 2,
        ..Plan::new(Subject::own::<OnBuckets<P>>(), coherent)
    }
}

/// One of the library's own, brought in from outside.
struct Brought;

impl Index for Brought {
    type On<M: Memory> = Clht<M>;
}

#[test]
fn it_is_run_as_one_of_the_library_is() {
    for coherent in [true, false] {
        let outcome = |subject| Plan::new(subject, coherent).run(7).outcome;
        let (own, built_in) = (outcome(Subject::own::<Brought>()), outcome(Subject::Clht));
        assert_eq!(own.digest, built_in.digest);
        assert_eq!(own.decisions, built_in.decisions);
    }
}

/// The first failure of a fault, which must be found.
fn failure_of(plan: &Plan) -> Failure {
    match plan.try_seeds(1..=SEEDS_OF_A_FAULT) {
        Err(failure) => *failure,
        Ok(passed) => panic!("{}, {}: {passed}", plan.subject.name(), plan.memory()),
    }
}

#[test]
fn it_passes_on_every_memory() {
    for (coherent, delegated) in [(true, false), (false, false), (false, true)] {
        for policy in [PolicyKind::Random, PolicyKind::Pct(3)] {
            let plan = Plan {
                policy,
                delegated,
                ..plan::<Exchanged>(coherent)
            };
            let passed = plan
                .try_seeds(1..=SEEDS)
                .unwrap_or_else(|failure| panic!("{failure}"));
            assert!(passed.deaths > 0, "nobody died: {passed}");
            // Of those that died few were in a call, and no arena was full.
            assert!(passed.answered * 10 > passed.calls * 9, "{passed}");
        }
    }
}

#[test]
fn a_store_for_an_exchange_is_found() {
    for coherent in [true, false] {
        let failure = failure_of(&plan::<Stored>(coherent));
        assert_eq!(failure.checker, "linearizability", "{failure}");
    }
}

#[test]
fn a_missing_write_back_is_found_where_caches_are_not_coherent() {
    let failure = failure_of(&plan::<NotWrittenBack>(false));
    assert_eq!(failure.checker, "order", "{failure}");
    if let Err(failure) = plan::<NotWrittenBack>(true).try_seeds(1..=SEEDS) {
        panic!("coherent memory needs no write-back: {failure}");
    }
}

#[test]
fn a_failure_says_how_to_repeat_it() {
    let plan = plan::<Stored>(true);
    let failure = failure_of(&plan);
    let decisions = schedule::decode(&failure.schedule).expect("a schedule");
    let again = plan.replay(failure.seed, decisions);
    assert_eq!(
        plan.failure(failure.seed, &again, false, 0).checker,
        failure.checker
    );
    assert!(
        failure.repeat.contains(&failure.schedule) && failure.repeat.contains(plan.subject.name()),
        "{failure}"
    );
}

/// Two threads with two calls each, of which one may be preempted. In one of the seeds they change the same bucket.
#[test]
fn exploration_finds_the_store_and_comes_to_an_end_without_it() {
    let bounds = Bounds {
        preemptions: 1,
        faults: 0,
    };
    let small = |plan| Plan {
        hosts: 2,
        threads: 1,
        operations: 2,
        crashes: 0,
        draws_guidelines: false,
        policy: PolicyKind::Exhaustive(bounds),
        ..plan
    };
    let (wrong, right) = (small(plan::<Stored>(true)), small(plan::<Exchanged>(true)));
    let seed = (1..=SEEDS_OF_A_FAULT)
        .find(|&seed| wrong.explore(seed, bounds, SCHEDULES_MAX).last.result != Ended::Passed)
        .expect("a seed in which a store loses a change");
    let explored = right.explore(seed, bounds, SCHEDULES_MAX);
    assert_eq!(explored.last.result, Ended::Passed, "{explored}");
    assert!(explored.has_ended, "{explored}");
    println!("seed {seed}: {explored}");
}
