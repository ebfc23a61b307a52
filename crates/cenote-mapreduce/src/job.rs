//! What a job is, and what its tasks may read.

use std::io::Write;

use cenote::Plan;

use crate::error::{Error, Result};

/// What a task may read besides its input: results of earlier phases, and the job's map.
pub trait Data {
    /// Calls `read` with the result of a task of an earlier phase, by its number in that phase.
    fn result(&self, phase: usize, task: u64, read: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Sets a key's value in the job's map. A task may be done twice: the second one must set the same.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// A key's value in the job's map.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
}

/// Work in phases of tasks. A phase begins when all tasks of the one before it are done.
pub trait Job: Sync {
    /// How many tasks each phase has: at least one.
    fn phases(&self) -> Vec<u64>;

    /// Does a task, by its number in its phase; returns its result. The same task always has the same result.
    fn run(&self, phase: usize, task: u64, data: &dyn Data) -> Result<Vec<u8>>;

    /// Writes the output, when all is done.
    fn finish(&self, data: &dyn Data, output: &mut dyn Write) -> Result<()>;
}

/// The plan of a job's task list.
pub fn plan(job: &dyn Job) -> Plan {
    Plan::phases(job.phases())
}

/// The phase and the number in it of each task, in order.
pub fn places(phases: &[u64]) -> impl Iterator<Item = (usize, u64)> + '_ {
    phases
        .iter()
        .enumerate()
        .flat_map(|(phase, tasks)| (0..*tasks).map(move |task| (phase, task)))
}

/// A copy of a result.
pub(crate) fn copied(data: &dyn Data, phase: usize, task: u64) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    data.result(phase, task, &mut |bytes| {
        copy.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(copy)
}

/// What a phase's result is read with, if it is damaged.
pub(crate) fn damaged(phase: usize, task: u64) -> impl Fn() -> Error {
    move || Error::Result { phase, task }
}
