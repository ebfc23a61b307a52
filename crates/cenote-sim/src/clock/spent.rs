//! Where a thread's virtual time goes: by what it did, and how much of that it waited for others.

use std::ops::{AddAssign, Sub};

use serde::Serialize;

use crate::exec::{Kind, Op};
use crate::machine::Found;

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Sync loads.
    Loads,
    /// Sync stores.
    Stores,
    /// Compare-exchanges and other read-modify-writes.
    Exchanges,
    /// Lines fetched afresh.
    Fetches,
    /// Cached accesses to lines that are absent, or in another host's cache.
    Misses,
    /// Cached accesses to lines that are there.
    Hits,
    /// Fences, and what they wait for: write-backs and flushes.
    Fences,
    /// Pauses between two polls, system calls, sleep.
    Waits,
}

const PARTS: [(Part, &str); 8] = [
    (Part::Loads, "sync loads"),
    (Part::Stores, "sync stores"),
    (Part::Exchanges, "exchanges"),
    (Part::Fetches, "line fetches"),
    (Part::Misses, "misses"),
    (Part::Hits, "hits"),
    (Part::Fences, "fences"),
    (Part::Waits, "pauses and system calls"),
];

impl Part {
    /// Of what an operation is a part.
    pub(super) fn of(op: Op, found: Found) -> Self {
        let has_missed = matches!(found, Found::Missed(1..));
        match op.kind {
            Kind::Load => Self::Loads,
            Kind::Store | Kind::StoreSeqCst => Self::Stores,
            Kind::CompareExchange | Kind::FetchModify => Self::Exchanges,
            Kind::FetchLine => Self::Fetches,
            Kind::Speculate | Kind::OwnedStore | Kind::OwnedLoad | Kind::Read | Kind::Write if has_missed => {
                Self::Misses
            }
            Kind::Speculate | Kind::OwnedStore | Kind::OwnedLoad | Kind::Read | Kind::Write => Self::Hits,
            Kind::WriteBack | Kind::Invalidate | Kind::Prefetch | Kind::Fence => Self::Fences,
            Kind::Start | Kind::Wait | Kind::Kernel => Self::Waits,
        }
    }
}

/// Picoseconds of threads, by part, and lines that passed the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    all: [u64; PARTS.len()],
    queued: [u64; PARTS.len()],
    lines: u64,
}

/// One part of a mean operation's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// What takes the time.
    pub part: &'static str,
    /// Nanoseconds.
    pub ns: f64,
    /// Of these, how many it waited for others: for links, for words, for queues of exchanges, for write-backs that
    /// waited for links.
    pub queued_ns: f64,
}

impl Spent {
    pub(super) fn add(&mut self, part: Part, all: u64, queued: u64) {
        self.all[part as usize] += all;
        self.queued[part as usize] += queued;
    }

    pub(super) fn add_lines(&mut self, lines: u64) {
        self.lines += lines;
    }

    /// Lines that passed the links, either way.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// What each part takes in the mean of so many operations.
    pub fn shares(&self, operations: u64) -> Vec<Share> {
        let mean = |ps: u64| ps as f64 / 1e3 / operations.max(1) as f64;
        PARTS
            .iter()
            .map(|&(part, name)| Share {
                part: name,
                ns: mean(self.all[part as usize]),
                queued_ns: mean(self.queued[part as usize]),
            })
            .collect()
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        for n in 0..PARTS.len() {
            self.all[n] += other.all[n];
            self.queued[n] += other.queued[n];
        }
        self.lines += other.lines;
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(mut self, before: Self) -> Self {
        for n in 0..PARTS.len() {
            self.all[n] -= before.all[n];
            self.queued[n] -= before.queued[n];
        }
        self.lines -= before.lines;
        self
    }
}
