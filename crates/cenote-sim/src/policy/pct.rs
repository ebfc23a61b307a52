//! Probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010): every thread has a priority, the highest
//! that can run runs, and at `depth - 1` steps drawn beforehand the running thread's priority drops below all others. A
//! bug that needs `depth` ordering constraints is found with probability at least `1 / (threads * steps^(depth - 1))`.
//!
//! A thread that waits for another drops too, or it would run for ever; the paper leaves such threads out.

use std::collections::BTreeMap;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::random::RandomWalk;
use super::{Candidate, Fault, Policy};

/// See the [module documentation](self).
pub struct Pct {
    random: Xoshiro256PlusPlus,
    faults: RandomWalk,
    /// Steps at which the running thread drops.
    changes: Vec<u64>,
    priorities: BTreeMap<u32, i64>,
    lowest: i64,
    step: u64,
}

impl Pct {
    /// The same, in which each store takes effect at once.
    pub fn without_buffers(mut self) -> Self {
        self.faults = self.faults.without_buffers();
        self
    }

    /// The same, in which a buffered store takes effect in so many steps at most.
    pub fn draining_within(mut self, steps: u32) -> Self {
        self.faults = self.faults.draining_within(steps);
        self
    }

    /// Priorities and `depth - 1` changes from a seed, for runs of about `steps` steps.
    pub fn new(seed: u64, depth: u32, steps: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5043_5400);
        let mut changes: Vec<u64> = (1..depth).map(|_| random.next_u64() % steps.max(1)).collect();
        changes.sort_unstable();
        Self {
            random,
            faults: RandomWalk::new(seed),
            changes,
            priorities: BTreeMap::new(),
            lowest: 0,
            step: 0,
        }
    }

    fn drop_below_all(&mut self, thread: u32) {
        self.lowest -= 1;
        self.priorities.insert(thread, self.lowest);
    }
}

impl Policy for Pct {
    fn thread(&mut self, candidates: &[Candidate], _ended: bool) -> usize {
        for candidate in candidates {
            if !self.priorities.contains_key(&candidate.thread) {
                let priority = i64::from(self.random.next_u32()) + 1;
                self.priorities.insert(candidate.thread, priority);
            }
        }
        let step = self.step;
        self.step += 1;
        // Other waiting threads have dropped when they began to wait.
        if self.changes.binary_search(&step).is_ok() || candidates[0].waits {
            self.drop_below_all(candidates[0].thread);
        }
        (0..candidates.len())
            .max_by_key(|&n| self.priorities.get(&candidates[n].thread).copied())
            .unwrap_or(0)
    }

    fn fault(&mut self, fault: Fault, bound: u32) -> u32 {
        self.faults.draw_fault(fault, bound)
    }

    fn parameters(&self) -> String {
        format!(
            "PCT: priorities drop at steps {:?}; {}",
            self.changes,
            self.faults.parameters()
        )
    }
}
