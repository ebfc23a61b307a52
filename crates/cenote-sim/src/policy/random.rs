//! The random walk: at each step, with a probability drawn for the run, any thread may be next.
//!
//! Its probabilities differ widely from run to run, so that some runs have long undisturbed stretches and others hardly two
//! steps of one thread; the same for evictions ("swarm testing", Groce and others, ISSTA 2012).

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Candidate, Fault, Policy};

/// See the [module documentation](self).
pub struct RandomWalk {
    random: Xoshiro256PlusPlus,
    /// One switch in so many steps.
    switch: u32,
    /// One eviction in so many steps; 0 is never.
    evict: u32,
    /// One early completion in so many chances; 0 is never.
    complete: u32,
}

impl RandomWalk {
    /// A walk from a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = |from: &[u32]| from[(random.next_u32() % from.len() as u32) as usize];
        let (switch, evict, complete) = (draw(&[2, 4, 16, 64]), draw(&[0, 0, 8, 64, 512]), draw(&[0, 1, 4]));
        Self {
            random,
            switch,
            evict,
            complete,
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// An outcome of a fault, with this walk's probabilities.
    pub(super) fn draw_fault(&mut self, fault: Fault, bound: u32) -> u32 {
        match fault {
            Fault::Evict if self.one_in(self.evict) => 1 + self.below(bound - 1),
            Fault::Evict => 0,
            Fault::CompleteEarly => u32::from(self.one_in(self.complete)),
            Fault::LoseCache | Fault::LoseLine => self.below(bound),
        }
    }
}

impl Policy for RandomWalk {
    fn thread(&mut self, candidates: &[Candidate], ended: bool) -> usize {
        if !(ended || candidates[0].waits || self.one_in(self.switch)) {
            return 0;
        }
        self.below(candidates.len() as u32) as usize
    }

    fn fault(&mut self, fault: Fault, bound: u32) -> u32 {
        self.draw_fault(fault, bound)
    }

    fn parameters(&self) -> String {
        format!(
            "random walk: a switch in {} steps, an eviction in {}, an early completion in {} (0: never)",
            self.switch, self.evict, self.complete
        )
    }
}
