//! The contract with modules: memory that computes.
//!
//! A module has memory and a processor that reaches no other memory. The host has them execute a [`Program`]: it sends
//! each module a batch of commands, launches all of them, and collects their answers. That is one *round*. Modules do
//! not talk to each other: what one has for another goes through the host, in two rounds.
//!
//! **What a backend promises.** A module executes the commands of a batch in order, and batches in the order of rounds.
//! A module's memory is its own, and stays from round to round. [`Counters`] count rounds, bytes and chases, whatever
//! the backend is.
//!
//! **Failure.** A module that reports an error, or a backend that loses one, ends the round by an error. What the other
//! modules have executed is not undone.

mod profile;
mod simulated;
mod threads;

pub use profile::{Profile, ProfileError};
pub use simulated::Simulated;
pub use threads::Threads;

/// What a module executes.
pub trait Program: Send + 'static {
    /// Executes commands in order, and appends their answers. Costs what it adds to the meter.
    ///
    /// # Errors
    /// [`Malformed`] at a command that it cannot read. The commands before it have been executed.
    fn run(&mut self, commands: &[u8], answers: &mut Vec<u8>, meter: &mut Meter) -> Result<(), Malformed>;

    /// Bytes of the module's memory that are in use.
    fn memory_bytes(&self) -> u64;
}

/// A batch of commands has bytes that are no command, or more answers than it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "byte {at} of a batch begins no command that can be executed, or one with more answers than a batch may have"
)]
pub struct Malformed {
    /// Where the command begins.
    pub at: usize,
}

/// What a program has done in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Pointers that it followed to a node whose contents it then read.
    pub chases: u64,
    /// Words of 64 bits or less that it read or wrote one by one, those of chases among them.
    pub accesses: u64,
    /// Bytes that it read or wrote in sequence, beside the commands and answers.
    pub streamed: u64,
}

/// Totals since a backend was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rounds.
    pub rounds: u64,
    /// Bytes of commands.
    pub sent: u64,
    /// Bytes of answers.
    pub received: u64,
    /// Pointers that modules chased.
    pub chases: u64,
    /// Nanoseconds of virtual time, where a backend has it.
    pub virtual_ns: u64,
    /// Nanoseconds of virtual time in which the host computed.
    pub host_ns: u64,
    /// Nanoseconds of virtual time in which the busiest module of each round computed.
    pub module_ns: u64,
    /// Nanoseconds of virtual time in which the host computed while modules were launched or did.
    pub overlapped_ns: u64,
}

/// Why there are no answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModulesError {
    /// A batch for each module is wanted.
    #[error("{given} batches for {modules} modules; give each module one, which may be empty")]
    Batches {
        /// How many came.
        given: usize,
        /// How many modules there are.
        modules: usize,
    },
    /// A module was given what is no command.
    #[error("module {module}: {cause}")]
    Malformed {
        /// Which one.
        module: usize,
        /// What it found.
        cause: Malformed,
    },
    /// A module does not answer any more.
    #[error("module {module} is lost, and what it held with it: {why}")]
    Lost {
        /// Which one.
        module: usize,
        /// How that shows, and where the module was.
        why: String,
    },
    /// A round was launched, and its answers were not collected.
    #[error("a round is under way: collect its answers first")]
    RoundPending,
    /// There are no answers to collect.
    #[error("no round is under way: launch one first")]
    NoRound,
    /// A backend has one module or more.
    #[error("no module was asked for")]
    NoModules,
    /// The system starts no more threads.
    #[error("worker threads could not be started: {why}")]
    Threads {
        /// The kind of the system's error.
        kind: std::io::ErrorKind,
        /// What the system says.
        why: String,
    },
}

impl ModulesError {
    /// That of a thread that the system does not start.
    pub(crate) fn threads(error: &std::io::Error) -> Self {
        Self::Threads {
            kind: error.kind(),
            why: error.to_string(),
        }
    }
}

/// Modules, whatever they are.
pub trait Modules {
    /// How many there are; at least one. They have numbers from 0.
    fn count(&self) -> usize;

    /// Sends each module its batch and starts all that have one that is not empty. The host may compute until it
    /// collects.
    ///
    /// # Errors
    /// Not as many batches as modules; a round that was not collected; a lost module.
    fn launch(&mut self, batches: Vec<Vec<u8>>) -> Result<(), ModulesError>;

    /// Waits until all modules are done. Their answers, by their numbers; none of those that had nothing to do.
    ///
    /// # Errors
    /// No round was launched; a module met a command that it cannot read, or is lost.
    fn collect(&mut self) -> Result<Vec<Vec<u8>>, ModulesError>;

    /// A whole round.
    ///
    /// # Errors
    /// As for its parts.
    fn round(&mut self, batches: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, ModulesError> {
        self.launch(batches)?;
        self.collect()
    }

    /// Says that the host has taken so many steps, for backends with virtual time: a step is a probe, a command
    /// written, an answer read. Steps between a launch and its collection are taken while modules compute.
    fn host_steps(&mut self, _steps: u64) {}

    /// Totals.
    fn counters(&self) -> Counters;

    /// Bytes of memory in use in all modules, as of the last round.
    fn memory_bytes(&self) -> u64;
}
