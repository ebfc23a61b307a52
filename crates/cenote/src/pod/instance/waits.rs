//! Reports a long wait to the process: the pool's own locks are held for moments, so an owner that has had one for a
//! second is stopped, or about to be fenced.
//!
//! The report stays in the process and decides nothing: the waiter goes on waiting, asleep.

use super::process::Pod;
use crate::memory::Memory;
use crate::pod::format::lock_wait::{LockHolder, LockWait};
use crate::pod::format::record::ProcessRecord;

impl<M: Memory> Pod<M> {
    /// Has `tell` called, in the thread that waits, when that has waited for about a second for one of the pool's own
    /// locks, and again and again from then on. It must not use the pool.
    pub fn on_lock_wait(self, tell: Option<fn(&LockWait)>) -> Self {
        let mut changed = self;
        changed.tell = tell;
        changed
    }

    /// What people call an identity; `None` if it has no place any more.
    pub fn holder(&self, identity: u64) -> Option<LockHolder> {
        let generation = (identity >> 32) as u32;
        let found = self.owner_of(identity as u16, |found| found == generation);
        let (worker, state) = found.ok().flatten()?;
        let is_place = state.process < self.geometry.parameters.processes;
        let process = ProcessRecord::new(&self.geometry, is_place.then_some(state.process)?);
        Some(LockHolder {
            worker,
            pid: process.pid().peek(&self.mem),
            host: process.host().peek(&self.mem),
        })
    }

    /// Tells of a wait.
    pub(in crate::pod) fn tell_wait(&self, lock: &'static str, owner: u64) {
        if let Some(tell) = self.tell
            && let Some(holder) = self.holder(owner)
        {
            tell(&LockWait { lock, holder });
        }
    }
}
