//! Policies decide which thread runs next, and which faults happen. One a file.
//!
//! Everything that a run leaves open is asked of its policy as a number below a bound. Zero is always the dull answer:
//! the running thread goes on, nothing breaks. So a run is a sequence of numbers, and one with more zeroes is simpler.

mod exhaustive;
mod pct;
mod random;
mod replay;

pub use exhaustive::{Bounds, Exhaustive};
pub use pct::Pct;
pub use random::RandomWalk;
pub use replay::Replay;

use crate::exec::Op;
use crate::machine::{Cache, Words};

/// A thread that could go on, and what it would do.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The thread.
    pub thread: u32,
    /// Its host.
    pub host: u32,
    /// Its next operation.
    pub op: Op,
    /// Whether it waits for another thread: running it alone leads nowhere.
    pub waits: bool,
    /// Whether what it waits for has not happened yet, as far as is known.
    pub blocked: bool,
}

/// Parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The memory is prepared, alone.
    Prepare,
    /// The processes have begun.
    Run,
    /// All their threads are there, and have not begun their operations.
    Gathered,
    /// Everything is checked, alone.
    Audit,
}

/// Something that may happen or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A line is evicted from a cache: 0 none, else one more than its number.
    Evict,
    /// A write-back that was begun completes before its fence: 0 no, 1 yes.
    CompleteEarly,
    /// A line that a dead process has left dirty in the cache of a host that goes on is written back: 0 none, else one
    /// more than its number.
    WriteBackLate,
    /// What becomes of a lost cache's dirty lines: 0 all are lost, 1 all reach memory, 2 each is asked for.
    LoseCache,
    /// Whether one dirty line reaches memory: 0 no, 1 yes.
    LoseLine,
    /// Whether a store waits in its thread's empty buffer: 0 no, 1 yes.
    Buffer,
    /// Which thread's oldest buffered store takes effect: 0 none's, else one more than its number among the threads
    /// that have any.
    Drain,
    /// Whether a line is loaded or stored word by word: 0 no, 1 yes.
    Tear,
    /// Whether the server of exchanges reads mailboxes one after the other in a pass: 0 no, 1 yes.
    ReadSingly,
    /// Whether the file system says that it has no space: 0 no, 1 yes.
    NoSpace,
}

/// Decides what a run leaves open.
pub trait Policy {
    /// Which of the candidates, two or more, runs next. The first is the one that ran last, unless that has `ended`.
    fn thread(&mut self, candidates: &[Candidate], ended: bool) -> usize;

    /// Whether the thread that ran last certainly goes on. Then the others are not gathered; it is the first candidate.
    fn stays(&mut self, _running: &Candidate) -> bool {
        false
    }

    /// Which of so many candidates runs next, if the policy needs only their number; then they are not described to it.
    fn thread_among(&mut self, _count: usize) -> Option<usize> {
        None
    }

    /// Whether the thread that executes the others' exchanges is next, where there is one that can run. Asked if the
    /// running thread does not stay.
    fn is_servers_turn(&mut self) -> bool {
        false
    }

    /// The only thread that can go on is about to. There is nothing to choose, but something to learn.
    fn alone(&mut self, _candidate: &Candidate) {}

    /// A part of the run begins.
    fn enter(&mut self, _phase: Phase) {}

    /// Which line is evicted from the cache of the running thread's host before its next operation: 0 none, else one
    /// more than its number.
    fn evict(&mut self, _running: &Candidate, cache: &Cache, _memory: &Words) -> u32 {
        self.fault(Fault::Evict, cache.len() as u32 + 1)
    }

    /// Whether the first write-back or flush that the running thread has begun, of this line, completes now: 0 no, 1
    /// yes.
    fn complete_early(&mut self, _running: &Candidate, _line: u64) -> u32 {
        self.fault(Fault::CompleteEarly, 2)
    }

    /// Which of `bound` outcomes a possible fault has.
    fn fault(&mut self, fault: Fault, bound: u32) -> u32;

    /// What it has drawn, for the head of a report.
    fn parameters(&self) -> String;
}
