//! Virtual time.

use crate::exec::Op;
use crate::machine::Found;
use crate::profile::Profile;

/// Threads' clocks.
pub struct Clock {
    now: Vec<u64>,
    alive: Vec<bool>,
}

impl Clock {
    /// Clocks at zero.
    pub fn new(_profile: Profile, _hosts: u32) -> Self {
        Self { now: Vec::new(), alive: Vec::new() }
    }

    /// A thread begins, at its parent's time.
    pub fn begin(&mut self, thread: u32, parent: u32) {
        let now = self.now.get(parent as usize).copied().unwrap_or(0);
        self.now.resize(self.now.len().max(thread as usize + 1), 0);
        self.alive.resize(self.now.len(), false);
        self.now[thread as usize] = now;
        self.alive[thread as usize] = true;
    }

    /// A thread has ended.
    pub fn end(&mut self, thread: u32) {
        self.alive[thread as usize] = false;
    }

    /// The thread whose clock is least.
    pub fn first(&mut self, _current: u32, _goes_on: bool) -> Option<u32> {
        (0..self.now.len()).filter(|&n| self.alive[n]).min_by_key(|&n| self.now[n]).map(|n| n as u32)
    }

    /// Charges an operation.
    pub fn charge(&mut self, thread: u32, _host: u32, _op: Op, _found: Found) {
        self.now[thread as usize] += 1000;
    }

    /// Lets time pass.
    pub fn spend_ps(&mut self, thread: u32, time: u64) {
        self.now[thread as usize] += time;
    }

    /// A thread's time.
    pub fn now_ps(&self, thread: u32) -> u64 {
        self.now[thread as usize]
    }

    /// The latest time.
    pub fn latest_ps(&self) -> u64 {
        self.now.iter().copied().max().unwrap_or(0)
    }
}
