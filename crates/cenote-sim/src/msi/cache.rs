//! A node's cache: its lines, what it may do with each, and who waits for which.

use std::collections::HashMap;

use cenote::sync::directory::queue::Permission;

use super::data::Data;
use super::op::WordOp;

/// A line that is there.
struct Line {
    permission: Permission,
    data: Data,
}

/// A node's lines.
#[derive(Default)]
pub struct Cache {
    lines: HashMap<u64, Line>,
    /// Threads that wait for lines that were asked for.
    missing: HashMap<u64, Vec<u32>>,
    /// Threads that wait until a line is taken away or changed.
    parked: HashMap<u64, Vec<u32>>,
}

impl Cache {
    /// What the node may do with a line.
    pub fn permission(&self, line: u64) -> Option<Permission> {
        self.lines.get(&line).map(|line| line.permission)
    }

    /// A word of a line that is there.
    pub fn word(&self, line: u64, at: u64) -> Option<u64> {
        self.lines.get(&line).map(|line| line.data.get(at))
    }

    /// Accesses a word of a line, if the permission suffices. Returns what was there.
    pub fn access(&mut self, line: u64, at: u64, op: WordOp) -> Option<u64> {
        let line = self.lines.get_mut(&line)?;
        if line.permission < op.needs() {
            return None;
        }
        let before = line.data.get(at);
        let after = op.apply(before);
        if after != before {
            line.data.set(at, after);
        }
        Some(before)
    }

    /// A line arrives, or the permission to write one that is there.
    pub fn fill(&mut self, line: u64, permission: Permission, data: Option<Data>) {
        match (data, self.lines.get_mut(&line)) {
            (Some(data), _) => drop(self.lines.insert(line, Line { permission, data })),
            (None, Some(here)) => here.permission = permission,
            (None, None) => {}
        }
    }

    /// Gives a line up, or keeps it to read. Returns the data if it could be written.
    pub fn give_up(&mut self, line: u64, keeps: bool) -> Option<Data> {
        let is_dirty = self.permission(line) == Some(Permission::Exclusive);
        if keeps {
            let here = self.lines.get_mut(&line)?;
            here.permission = Permission::Shared;
            return is_dirty.then(|| here.data.clone());
        }
        let removed = self.lines.remove(&line)?;
        is_dirty.then_some(removed.data)
    }

    /// A thread waits for a line. Returns whether it is the first, so that the line has to be asked for.
    pub fn miss(&mut self, line: u64, thread: u32) -> bool {
        let waiting = self.missing.entry(line).or_default();
        waiting.push(thread);
        waiting.len() == 1
    }

    /// Those that waited for a line that has arrived.
    pub fn arrived(&mut self, line: u64) -> Vec<u32> {
        self.missing.remove(&line).unwrap_or_default()
    }

    /// A thread waits until a line is taken away or changed.
    pub fn park(&mut self, line: u64, thread: u32) {
        self.parked.entry(line).or_default().push(thread);
    }

    /// Those that waited for that.
    pub fn unpark(&mut self, line: u64) -> Vec<u32> {
        self.parked.remove(&line).unwrap_or_default()
    }
}
