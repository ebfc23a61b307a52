//! Threads that sleep, and the calls that are to wake some of them.

use std::collections::BTreeMap;

/// A thread that sleeps.
pub(super) struct Sleeper {
    pub thread: u32,
    pub death_slots: Vec<u64>,
    pub event_counts: Vec<(u64, u32)>,
    /// Event counts that a thread of another kernel has notified, or that one changed, or may have changed, before it
    /// died without the call that wakes. It is no fault to sleep on; a later call wakes.
    pub missed: Vec<u64>,
}

impl Sleeper {
    pub fn sleeps_by(&self, event_count: u64) -> bool {
        self.event_counts.iter().any(|&(by, _)| by == event_count) || self.missed.contains(&event_count)
    }

    /// From now on it is no fault that these notifications do not wake it.
    pub fn miss(&mut self, is_missed: impl Fn(u64) -> bool) {
        let (missed, event_counts) = std::mem::take(&mut self.event_counts)
            .into_iter()
            .partition::<Vec<_>, _>(|&(event_count, _)| is_missed(event_count));
        self.event_counts = event_counts;
        self.missed
            .extend(missed.into_iter().map(|(event_count, _)| event_count));
    }
}

/// Calls that the server of exchanges owes: it stores answers in one pass, and wakes the sleepers by them in the next.
#[derive(Default)]
pub(super) struct Owed {
    /// Passes that were begun.
    pub passes: u64,
    /// For each line that was stored and has woken nobody since: the pass in which it was stored.
    pub lines: BTreeMap<u64, u64>,
}

impl Owed {
    /// Another server begins: it serves all lines in its first pass.
    pub fn is_taken_over(&mut self) {
        let passes = self.passes;
        self.lines.values_mut().for_each(|pass| *pass = passes);
    }

    /// The server has stored a line.
    pub fn stores(&mut self, line: u64) {
        self.lines.insert(line, self.passes);
    }

    /// Whether the living server may still make this call.
    pub fn is_due(&self, event_count: u64) -> bool {
        self.lines
            .get(&event_count)
            .is_some_and(|pass| self.passes <= pass + 1)
    }
}
