//! Policies: who runs next, and which faults happen. One a file.
//!
//! Everything that a run leaves open is asked of its policy as a number below a bound. Zero is always the dull answer:
//! the running thread goes on, nothing breaks. So a run is a sequence of numbers, and one with more zeroes is simpler.

mod exhaustive;
mod pct;
mod random;
mod replay;

pub use exhaustive::Exhaustive;
pub use pct::Pct;
pub use random::RandomWalk;
pub use replay::Replay;

use crate::exec::Op;

/// A thread that could go on, and what it would do.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The thread.
    pub thread: u32,
    /// Its host.
    pub host: u32,
    /// Its next operation.
    pub op: Op,
    /// Whether it waits for another: running it alone leads nowhere.
    pub waits: bool,
}

/// Something that may happen or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A line is evicted from a cache: 0 none, else one more than its number.
    Evict,
    /// A write-back that was begun completes before its fence: 0 no, 1 yes.
    CompleteEarly,
    /// What becomes of a lost cache's dirty lines: 0 all are lost, 1 all reach memory, 2 each is asked for.
    LoseCache,
    /// Whether one dirty line reaches memory: 0 no, 1 yes.
    LoseLine,
}

/// Decides what a run leaves open.
pub trait Policy {
    /// Which of the candidates, two or more, runs next. The first is the one that ran last, unless that has `ended`.
    fn thread(&mut self, candidates: &[Candidate], ended: bool) -> usize;

    /// The only thread that can go on is about to. There is nothing to choose, but something to learn.
    fn alone(&mut self, _candidate: &Candidate) {}

    /// Which of `bound` outcomes a possible fault has.
    fn fault(&mut self, fault: Fault, bound: u32) -> u32;

    /// What it has drawn, for the head of a report.
    fn parameters(&self) -> String;
}
