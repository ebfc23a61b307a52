//! Locks, with a death at every step: of an owner, of a waiter, of a thread that takes a lock over, of a recoverer.
//!
//! `CENOTE_SIM_SEEDS` sets how many schedules there are (default 2).

use cenote_sim::campaign::{LimitsKind, Plan, PolicyKind, Result as Ended};
use cenote_sim::exec::Crash;
use cenote_sim::subjects::Subject;

fn seeds() -> u64 {
    std::env::var("CENOTE_SIM_SEEDS").map_or(2, |text| text.parse().expect("CENOTE_SIM_SEEDS is a number"))
}

fn plan(subject: Subject, coherent: bool) -> Plan {
    Plan {
        subject,
        coherent,
        hosts: 3,
        threads: 1,
        operations: 3,
        crashes: 0,
        delegated: false,
        draws_guidelines: false,
        prefetches: false,
        has_membarrier: true,
        blind_exchanges: false,
        limits: LimitsKind::Usual,
        policy: PolicyKind::Random,
        profile: None,
        steps_max: 400_000,
    }
}

fn dies(process: u32, step: u64, restarts: bool) -> Crash {
    Crash {
        process,
        step,
        restarts,
        alone: false,
    }
}

/// Kills one process at each of its steps in turn, and then another one too, near the steps at which it finds what the
/// first has left.
fn every_step(subject: Subject) {
    every_so_many_steps(subject, 1);
}

/// The same at one in so many steps: what a killed thread had allocated outside the machine is never given back.
fn every_so_many_steps(subject: Subject, stride: usize) {
    for coherent in [true, false] {
        let plan = plan(subject, coherent);
        for seed in 1..=seeds() {
            for step in (1..).step_by(stride) {
                let first = dies(0, step, false);
                let run = plan.run_dying(seed, vec![first]);
                assert_eq!(
                    run.result,
                    Ended::Passed,
                    "{}, coherent: {coherent}, seed {seed}, step {step}",
                    subject.name()
                );
                if run.outcome.deaths.is_empty() {
                    break;
                }
                // The next one dies at about the same place, where it finds what the first has left.
                for later in [step + step % 7, step * 3 / 2 + 3] {
                    let run = plan.run_dying(seed, vec![first, dies(1, later, true)]);
                    assert_eq!(
                        run.result,
                        Ended::Passed,
                        "{}, coherent: {coherent}, seed {seed}, steps {step} and {later}",
                        subject.name()
                    );
                }
            }
        }
    }
}

#[test]
fn spin() {
    every_step(Subject::Spin);
}

#[test]
fn mutex() {
    every_step(Subject::Mutex);
}

#[test]
fn queue() {
    every_step(Subject::Queue);
}

#[test]
fn rwlock() {
    every_step(Subject::Rwlock);
}

#[test]
fn removal() {
    every_so_many_steps(Subject::Removal, 16);
}
