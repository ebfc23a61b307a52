//! The random walk: at each step, with a probability drawn for the run, any thread may be next.
//!
//! Its probabilities differ widely from run to run, so that some runs have long undisturbed stretches and others hardly
//! two steps of one thread; the same for evictions ("swarm testing", Groce and others, ISSTA 2012).

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Candidate, Fault, Policy};

/// From which the steps between late write-backs are drawn.
const LATE: [u32; 5] = [16, 0, 64, 512, 4096];

/// From which it is drawn in which passes mailboxes are read one by one.
const SINGLY: [u32; 4] = [16, 0, 4, 64];

/// From which the switches between two of the server's turns are drawn.
const SERVE: [u32; 4] = [0, 2, 2, 4];

/// See the [module documentation](self).
pub struct RandomWalk {
    random: Xoshiro256PlusPlus,
    /// One switch in so many steps.
    switch: u32,
    /// One eviction in so many steps; 0 is never.
    evict: u32,
    /// One early completion in so many chances; 0 is never.
    complete: u32,
    /// One write-back of what the dead have left in so many steps; 0 is never.
    late: u32,
    /// What buffers, lines and the file system do is drawn from numbers of its own: where none of it happens, a run is
    /// as it would be without.
    others: Xoshiro256PlusPlus,
    /// One store in so many is buffered; 0 is none.
    buffer: u32,
    /// One buffered store takes effect in so many steps.
    drain: u32,
    /// One line in so many is transferred word by word; 0 is none.
    tear: u32,
    /// One reservation in so many fails; 0 is none.
    no_space: u32,
    /// In one pass of so many the server reads mailboxes one after the other; 0 is never.
    singly: u32,
    /// One switch in so many is to the server; 0 is none but by chance.
    serve: u32,
}

impl RandomWalk {
    /// A walk from a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = |from: &[u32]| from[(random.next_u32() % from.len() as u32) as usize];
        let (switch, evict, complete) = (draw(&[2, 4, 16, 64]), draw(&[0, 0, 8, 64, 512]), draw(&[0, 1, 4]));
        let mut others = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5453_4f00);
        let mut draw = |from: &[u32]| from[(others.next_u32() % from.len() as u32) as usize];
        let (buffer, drain) = (draw(&[0, 0, 1, 4]), draw(&[2, 16, 128, 1024]));
        let (tear, no_space) = (draw(&[0, 0, 1, 8]), draw(&[0, 0, 0, 0, 0, 0, 0, 8]));
        let singly = SINGLY[(seed / LATE.len() as u64) as usize % SINGLY.len()];
        Self {
            random,
            switch,
            evict,
            complete,
            late: LATE[(seed % LATE.len() as u64) as usize],
            others,
            buffer,
            drain,
            tear,
            no_space,
            singly,
            serve: 0,
        }
    }

    /// The same walk, in which each store takes effect at once.
    pub fn without_buffers(self) -> Self {
        Self { buffer: 0, ..self }
    }

    /// The same walk, in which a buffered store takes effect in so many steps at most: for runs in which each exchange
    /// takes stores of three processes, and threads that wait for them take steps.
    pub fn draining_within(self, steps: u32) -> Self {
        Self {
            drain: self.drain.min(steps),
            ..self
        }
    }

    /// The same walk, in which the server has its turn often in most runs. Threads that wait, for an exchange or
    /// anything else, take steps; a real server has a processor of its own.
    pub fn serving(mut self) -> Self {
        self.serve = SERVE[self.others.next_u32() as usize % SERVE.len()];
        self
    }

    /// A number below a bound for what `others` is for: 0 but once in so many times.
    fn other(&mut self, one_in: u32, bound: u32) -> u32 {
        let mut below = |bound: u32| ((u64::from(self.others.next_u32()) * u64::from(bound)) >> 32) as u32;
        match one_in > 0 && below(one_in) == 0 {
            true => 1 + below(bound - 1),
            false => 0,
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
            Fault::WriteBackLate if self.one_in(self.late) => 1 + self.below(bound - 1),
            Fault::WriteBackLate => 0,
            Fault::CompleteEarly => u32::from(self.one_in(self.complete)),
            Fault::LoseCache | Fault::LoseLine => self.below(bound),
            Fault::Buffer => self.other(self.buffer, bound),
            Fault::Drain => self.other(self.drain, bound),
            Fault::Tear => self.other(self.tear, bound),
            Fault::ReadSingly => self.other(self.singly, bound),
            Fault::NoSpace => self.other(self.no_space, bound),
        }
    }
}

impl Policy for RandomWalk {
    fn stays(&mut self, running: &Candidate) -> bool {
        !(running.waits || self.one_in(self.switch))
    }

    /// Asked if the running thread does not stay.
    fn thread(&mut self, candidates: &[Candidate], _ended: bool) -> usize {
        self.below(candidates.len() as u32) as usize
    }

    fn thread_among(&mut self, count: usize) -> Option<usize> {
        Some(self.below(count as u32) as usize)
    }

    fn is_servers_turn(&mut self) -> bool {
        self.one_in(self.serve)
    }

    fn fault(&mut self, fault: Fault, bound: u32) -> u32 {
        self.draw_fault(fault, bound)
    }

    fn parameters(&self) -> String {
        format!(
            "random walk: a switch in {} steps, an eviction in {}, an early completion in {}, a store of {} buffered, one drained \
             in {}, a line of {} torn, a reservation of {} refused, a switch in {} to the server (0: never)",
            self.switch,
            self.evict,
            self.complete,
            self.buffer,
            self.drain,
            self.tear,
            self.no_space,
            self.serve
        )
    }
}
