//! How many of a thread's operations reached memory, by kind: its round trips.

use std::ops::{AddAssign, Sub};

use serde::Serialize;

use super::op::{Kind, Op};
use crate::machine::Found;

/// Counts of one thread, or sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Sync loads.
    pub sync_loads: u64,
    /// Sync stores.
    pub sync_stores: u64,
    /// Compare-exchanges and other read-modify-writes.
    pub exchanges: u64,
    /// Lines fetched afresh.
    pub line_fetches: u64,
    /// Lines that cached accesses brought in.
    pub missed_lines: u64,
    /// Lines whose write-back was begun.
    pub write_backs: u64,
    /// Lines whose flush was begun.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
}

impl Traffic {
    /// Names and counts, in the order of the fields.
    pub fn by_kind(&self) -> [(&'static str, u64); 8] {
        [
            ("sync loads", self.sync_loads),
            ("sync stores", self.sync_stores),
            ("exchanges", self.exchanges),
            ("line fetches", self.line_fetches),
            ("missed lines", self.missed_lines),
            ("write-backs", self.write_backs),
            ("flushes", self.flushes),
            ("fences", self.fences),
        ]
    }

    pub(super) fn count(&mut self, op: Op, found: Found) {
        let lines = op.lines().map_or(0, |(first, last)| last - first + 1);
        if let Found::Missed(missed) = found
            && !matches!(op.kind, Kind::FetchLine | Kind::Fence)
        {
            self.missed_lines += u64::from(missed);
        }
        match op.kind {
            Kind::Load => self.sync_loads += 1,
            Kind::Store | Kind::StoreSeqCst => self.sync_stores += 1,
            Kind::CompareExchange | Kind::FetchModify => self.exchanges += 1,
            Kind::FetchLine => self.line_fetches += lines,
            Kind::WriteBack => self.write_backs += lines,
            Kind::Invalidate => self.flushes += lines,
            Kind::Fence => self.fences += 1,
            Kind::Speculate | Kind::OwnedStore | Kind::OwnedLoad | Kind::Read | Kind::Write => {}
            Kind::Start | Kind::Prefetch | Kind::Wait | Kind::Kernel => {}
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.sync_loads += other.sync_loads;
        self.sync_stores += other.sync_stores;
        self.exchanges += other.exchanges;
        self.line_fetches += other.line_fetches;
        self.missed_lines += other.missed_lines;
        self.write_backs += other.write_backs;
        self.flushes += other.flushes;
        self.fences += other.fences;
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            sync_loads: self.sync_loads - other.sync_loads,
            sync_stores: self.sync_stores - other.sync_stores,
            exchanges: self.exchanges - other.exchanges,
            line_fetches: self.line_fetches - other.line_fetches,
            missed_lines: self.missed_lines - other.missed_lines,
            write_backs: self.write_backs - other.write_backs,
            flushes: self.flushes - other.flushes,
            fences: self.fences - other.fences,
        }
    }
}
