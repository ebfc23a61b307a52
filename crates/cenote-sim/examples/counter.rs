//! How to run your own structure in the simulator: a counter, right and wrong.
//!
//! `cargo run --release -p cenote-sim --example counter` runs both under 200 seeds. The right one adds with a sync
//! operation. The wrong one loads, adds and stores; it loses an increment as soon as two threads are between load and
//! store.

use std::rc::Rc;

use cenote::memory::SyncWord;
use cenote_sim::exec::{Context, Settings, SimMemory, run};
use cenote_sim::policy::RandomWalk;

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// Where the counter is.
const AT: u64 = 0;
/// How often each process counts.
const TIMES: u64 = 5;
/// Processes, each on a host of its own.
const HOSTS: u32 = 3;

fn right(memory: &SimMemory<false>) {
    sync_word(AT).fetch_add(memory, 1);
}

fn wrong(memory: &SimMemory<false>) {
    let before = sync_word(AT).load(memory);
    sync_word(AT).store(memory, before + 1);
}

/// What the counter holds at the end of a seed's run.
fn count(seed: u64, increment: fn(&SimMemory<false>)) -> u64 {
    let settings = Settings {
        // A run that is wrong may read what nothing makes visible.
        checks_order: false,
        ..Settings::untimed(false, 4096, (0..HOSTS).collect())
    };
    let seen = Rc::new(std::cell::Cell::new(0));
    let at_end = seen.clone();
    run::<false>(
        &settings,
        Box::new(RandomWalk::new(seed)),
        Box::new(|context: Context<false>| sync_word(AT).store(&context.memory(), 0)),
        Rc::new(move |context: Context<false>| (0..TIMES).for_each(|_| increment(&context.memory()))),
        Box::new(move |context: Context<false>| at_end.set(sync_word(AT).load(&context.memory()))),
    );
    seen.get()
}

fn main() {
    let expected = u64::from(HOSTS) * TIMES;
    for (name, increment) in [("fetch_add", right as fn(&_)), ("load and store", wrong)] {
        match (1..=200).find(|&seed| count(seed, increment) != expected) {
            None => println!("{name}: {expected} in each of 200 runs"),
            Some(seed) => println!(
                "{name}: {} instead of {expected}, seed {seed}",
                count(seed, increment)
            ),
        }
    }
}
