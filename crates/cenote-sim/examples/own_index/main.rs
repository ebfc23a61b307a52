//! Bring your own index: a small one under the simulator's policies, crashes and checkers.
//!
//! `cargo run --release -p cenote-sim --example own_index` runs the index of `buckets.rs` under 200 seeds on each
//! memory and with each of two policies, while processes die. With `-- stored` or `-- not-written-back` a fault is
//! planted in it (`publish.rs`), to see what a failure looks like. Exit code: 0 if all runs passed, 1 if one failed, 2
//! for misuse.

mod buckets;
mod publish;

use std::process::ExitCode;

use buckets::OnBuckets;
use cenote_sim::own::{Plan, PolicyKind, Subject};
use publish::{Exchanged, NotWrittenBack, Stored};

/// Runs of each plan.
const SEEDS: u64 = 200;

fn main() -> ExitCode {
    let subject = match std::env::args().nth(1).as_deref() {
        None => Subject::own::<OnBuckets<Exchanged>>(),
        Some("stored") => Subject::own::<OnBuckets<Stored>>(),
        Some("not-written-back") => Subject::own::<OnBuckets<NotWrittenBack>>(),
        Some(_) => {
            eprintln!("usage: own_index [stored | not-written-back]");
            return ExitCode::from(2);
        }
    };
    for coherent in [true, false] {
        for policy in [PolicyKind::Random, PolicyKind::Pct(3)] {
            let plan = Plan {
                hosts: 3,
                crashes: 2,
                policy,
                ..Plan::new(subject, coherent)
            };
            let (name, memory) = (subject.name(), plan.memory());
            match plan.try_seeds(1..=SEEDS) {
                Ok(passed) => println!("{name}, {memory}, {policy:?}: {passed}"),
                Err(failure) => {
                    println!("{name}, {memory}, {policy:?}: {failure}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
