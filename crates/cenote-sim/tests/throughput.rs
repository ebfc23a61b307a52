//! YCSB workloads in virtual time, at small sizes: every form runs, the same plan gives the same result, and the counts
//! are those that the library states.

use cenote::Guidelines;
use cenote_sim::profile::Profile;
use cenote_sim::throughput::{Form, Outcome, Plan, ThroughputError, measure};
use cenote_ycsb::Workload;

fn plan(workload: Workload, guidelines: Guidelines, threads: u32) -> Plan {
    Plan {
        form: Form::Hash,
        hosts: 3,
        threads,
        coherent: false,
        workloads: vec![workload],
        records: 300,
        ranks: 0,
        operations: 400,
        guidelines,
        replicates_epoch: guidelines.replicate,
        trace: None,
        profile: Profile::load("cxl-remote").unwrap(),
        seed: 7,
        profiles_regions: false,
    }
}

fn run(plan: &Plan) -> Outcome {
    measure(plan).unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

#[test]
fn all_workloads_run_in_all_forms() {
    for workload in [
        Workload::Load,
        Workload::A,
        Workload::B,
        Workload::C,
        Workload::D,
        Workload::F,
    ] {
        for guidelines in [Guidelines::IN_PLACE, Guidelines::SP, Guidelines::P3] {
            let plan = plan(workload, guidelines, 5);
            let outcome = run(&plan);
            let done = &outcome.workloads[0];
            let wanted = if workload == Workload::Load { 300 } else { 400 };
            assert_eq!(done.operations, wanted, "{workload}");
            assert!(
                done.latency_ns.p50 <= done.latency_ns.p99 && done.mops_per_s > 0.0,
                "{done:?}"
            );
            assert_eq!(run(&plan), outcome, "{workload}: not the same twice");
        }
    }
    let coherent = Plan {
        coherent: true,
        ..plan(Workload::A, Guidelines::IN_PLACE, 5)
    };
    // Caches that hardware keeps coherent: what others write is fetched.
    assert!(run(&coherent).workloads[0].traffic.missed_lines > 0);
}

#[test]
fn a_seed_decides_what_is_done() {
    let plan = plan(Workload::A, Guidelines::P3, 4);
    let other = Plan {
        seed: 8,
        ..plan.clone()
    };
    assert_ne!(run(&plan).digest, run(&other).digest);
}

#[test]
fn threads_beyond_the_hosts_share_them() {
    let alone = run(&plan(Workload::C, Guidelines::SP, 1));
    let many = run(&plan(Workload::C, Guidelines::SP, 9));
    assert!(
        many.workloads[0].mops_per_s > alone.workloads[0].mops_per_s,
        "{many:?}, {alone:?}"
    );
}

#[test]
fn what_cannot_be_run_is_refused() {
    let scans = plan(Workload::E, Guidelines::P3, 1);
    assert_eq!(measure(&scans).unwrap_err(), ThroughputError::Scans(Workload::E));
    let nobody = plan(Workload::C, Guidelines::P3, 0);
    assert_eq!(measure(&nobody).unwrap_err(), ThroughputError::None("threads"));
}

#[test]
fn all_of_an_operations_time_is_accounted_for() {
    let plan = Plan {
        workloads: vec![Workload::Load, Workload::A],
        profiles_regions: true,
        ..plan(Workload::A, Guidelines::P3, 6)
    };
    let outcome = run(&plan);
    for done in &outcome.workloads {
        let regions = &done.profiled.regions;
        let by_part: f64 = done.time.iter().map(|share| share.ns).sum();
        let by_function: f64 = regions.iter().map(|region| region.ns).sum();
        // A thread's time beside its operations is a few draws and readings of the clock, which take none.
        for sum in [by_part, by_function] {
            assert!((sum / done.latency_ns.mean - 1.0).abs() < 0.01, "{sum}: {done:?}");
        }
        assert!(
            done.time.iter().all(|share| share.queued_ns <= share.ns),
            "{done:?}"
        );
        assert!(done.links_gib_per_s > 0.0);
        let put = regions
            .iter()
            .find(|region| region.function.starts_with("index/hash"));
        assert!(
            put.is_some_and(|region| region.with_callees_ns >= region.ns),
            "{regions:?}"
        );
        assert!(!done.profiled.folded.is_empty());
    }
    let without = run(&Plan {
        profiles_regions: false,
        ..plan.clone()
    });
    assert_eq!(without.digest, outcome.digest);
    assert_eq!(run(&plan), outcome);
}
