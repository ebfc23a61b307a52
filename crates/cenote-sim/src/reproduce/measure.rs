//! Threads that do the same operation again and again, and how long each took by its virtual clock.
//!
//! All threads are on one host and begin at the same time. Each waits for its operation to be done before it begins the
//! next. The first round is not counted: in it nothing is cached yet, and all threads arrive at once.

use std::cell::RefCell;
use std::rc::Rc;

use super::ReproduceError;
use crate::exec::{Context, Ended, Settings, SimMemory, run};
use crate::machine::LINE;
use crate::policy::RandomWalk;
use crate::profile::Profile;

/// The thread that does an operation, and when.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Which thread, counted from 0.
    pub thread: u64,
    /// How many there are.
    pub threads: u64,
    /// Which of its operations, counted from 0.
    pub round: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// How long each operation took, in picoseconds, ascending.
    times: Vec<u64>,
    /// How long each thread took for all of its operations.
    spans: Vec<u64>,
    rounds: u32,
}

/// Measures `rounds` operations of each of so many threads on `bytes` of simulated memory.
pub fn measure(
    profile: &Profile,
    threads: u32,
    rounds: u32,
    bytes: u64,
    operation: fn(&SimMemory<false>, Place),
) -> Result<Measured, ReproduceError> {
    let settings = Settings {
        processes: vec![0; threads as usize],
        ..Settings::timed(profile, false, 1, 1, bytes.next_multiple_of(LINE))
    };
    let measured = Rc::new(RefCell::new(Measured {
        times: Vec::new(),
        spans: Vec::new(),
        rounds,
    }));
    let sum = measured.clone();
    let body = move |context: Context<false>| {
        let mem = context.memory();
        let place = |round| Place {
            // The first process prepares.
            thread: u64::from(context.process()) - 1,
            threads: u64::from(threads),
            round,
        };
        operation(&mem, place(0));
        let begin = context.now_ps();
        let times: Vec<u64> = (1..=u64::from(rounds))
            .map(|round| {
                let before = context.now_ps();
                operation(&mem, place(round));
                context.now_ps() - before
            })
            .collect();
        let mut sum = sum.borrow_mut();
        sum.times.extend(times);
        sum.spans.push(context.now_ps() - begin);
    };
    // With a profile nothing is left to the policy.
    let policy = Box::new(RandomWalk::new(0));
    let outcome = run(
        &settings,
        policy,
        Box::new(|_| {}),
        Rc::new(body),
        Box::new(|_| {}),
    );
    match outcome.ended {
        Ended::Well => {
            let mut measured = measured.take();
            measured.times.sort_unstable();
            Ok(measured)
        }
        ended => Err(ReproduceError::Run(ended)),
    }
}

impl Measured {
    /// The median time of an operation, in nanoseconds.
    pub fn median_ns(&self) -> f64 {
        let middle = self.times.get(self.times.len() / 2);
        middle.map_or(0.0, |&time| time as f64 / 1e3)
    }

    /// The mean time of an operation, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.times.iter().sum::<u64>() as f64 / self.times.len().max(1) as f64 / 1e3
    }

    /// Operations of all threads a nanosecond.
    pub fn per_ns(&self) -> f64 {
        let rate = |&span: &u64| f64::from(self.rounds) * 1e3 / span.max(1) as f64;
        self.spans.iter().map(rate).sum()
    }
}
