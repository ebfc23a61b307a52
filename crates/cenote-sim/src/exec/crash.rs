//! Deaths that a run is to have.

/// A process that dies, or one of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Which of the processes that the run begins with.
    pub process: u32,
    /// After so many steps of its own.
    pub step: u64,
    /// Whether another process begins in its place.
    pub restarts: bool,
    /// Whether the thread that takes that step dies alone, and its process goes on as long as it has others.
    pub alone: bool,
}
