//! A thread that dies alone: its stores stay in its host's cache, and its process goes on.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use cenote::memory::Memory;
use cenote::memory::OwnedWord;
use cenote_sim::exec::{Context, Crash, Ended, Settings, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::RandomWalk;

/// An owned word.
#[inline(always)]
fn owned_word(at: u64) -> OwnedWord {
    // SAFETY: an owned word of simulated memory, which checks each access.
    unsafe { OwnedWord::at(at) }
}

const X: u64 = 64;

fn settings() -> Settings {
    Settings {
        shape: Shape {
            coherent: false,
            hosts: 2,
            bytes: 4096,
            cache_lines: Capacity { shared: 64, own: 64 },
            prefetches: false,
            has_membarrier: true,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: vec![1],
        crashes: vec![Crash {
            process: 0,
            step: 2,
            restarts: false,
            alone: true,
        }],
        steps_max: 10_000,
        capacity: u64::MAX,
        profile: None,
        checks_order: false,
        traces: false,
        delegated: None,
        limits: None,
    }
}

#[test]
fn a_thread_that_dies_alone_leaves_its_stores_and_its_process() {
    let mut outcomes = BTreeSet::new();
    for seed in 1..=64 {
        // What the second thread found, and whether the first one came to its end.
        let (found, finished) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
        let (to_find, to_finish) = (found.clone(), finished.clone());
        let body = move |context: Context<false>| {
            let mem = context.memory();
            owned_word(X).set(&mem, 1);
            let to_find = to_find.clone();
            context.spawn(move |context| {
                let mem = context.memory();
                mem.pause();
                mem.pause();
                to_find.set(Some(owned_word(X).get(&mem)));
            });
            mem.pause();
            mem.pause();
            to_finish.set(true);
        };
        let policy = Box::new(RandomWalk::new(seed));
        let outcome = run(
            &settings(),
            policy,
            Box::new(|_| {}),
            Rc::new(body),
            Box::new(|_| {}),
        );
        assert_eq!(outcome.ended, Ended::Well, "seed {seed}");
        assert_eq!(outcome.deaths.len(), 1, "seed {seed}");
        outcomes.insert((found.get(), finished.get()));
    }
    // Either one dies, and never both; the survivor sees what was stored.
    assert_eq!(outcomes, [(None, true), (Some(1), false)].into());
}
