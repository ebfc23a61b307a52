//! The locks that are compared.

use cenote::sync::directory::queue::Permission;

use crate::locks::cohort::Cohort;
use crate::locks::mcs::Mcs;
use crate::locks::per_core::PerCore;
use crate::locks::posix::Posix;
use crate::locks::room::Room;
use crate::locks::service::Service;
use crate::locks::{Lock, Who};
use crate::msi::Cpu;

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Directory locks: the library's entry and queue.
    Directory {
        /// Whether lock and data stay at a node that has released them.
        keeps: bool,
        /// Whether the data travel with the lock, and are not fetched as lines.
        combines: bool,
    },
    /// A queue lock.
    Mcs,
    /// A reader-writer lock with one counter.
    Posix,
    /// A reader-writer lock with a word for each thread.
    PerCore,
    /// A reader-writer cohort lock.
    Cohort,
    /// The same, laid out for lines of 64 bytes whatever the lines are.
    CohortClose,
    /// A lock service, with a manager on each node.
    Service,
}

impl Scheme {
    /// Directory locks with all that they can do.
    pub const OURS: Self = Self::Directory {
        keeps: true,
        combines: true,
    };

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory {
                keeps: true,
                combines: true,
            } => "directory lock",
            Self::Directory { combines: false, .. } => "directory lock, data apart",
            Self::Directory { keeps: false, .. } => "directory lock, not kept",
            Self::Mcs => "MCS",
            Self::Posix => "one counter (POSIX)",
            Self::PerCore => "word for each core",
            Self::Cohort => "cohort (C-RW-WP)",
            Self::CohortClose => "cohort, laid out for 64 bytes",
            Self::Service => "lock service",
        }
    }
}

/// Locks of a kind.
pub(super) enum Locks {
    Directory,
    Mcs(Vec<Mcs>),
    Posix(Vec<Posix>),
    PerCore(Vec<PerCore>),
    Cohort(Vec<Cohort>),
    Service(Service),
}

impl Locks {
    /// So many locks for so many nodes and threads. The ports behind the threads' are those of managers.
    pub fn new(scheme: Scheme, room: &mut Room, count: u32, nodes: u32, threads: u32) -> Self {
        let each = 0..count;
        match scheme {
            Scheme::Directory { .. } => Self::Directory,
            Scheme::Mcs => {
                let entries = Mcs::entries(room, threads);
                Self::Mcs(each.map(|_| Mcs::new(room, entries)).collect())
            }
            Scheme::Posix => Self::Posix(each.map(|_| Posix::new(room)).collect()),
            Scheme::PerCore => Self::PerCore(each.map(|_| PerCore::new(room, threads)).collect()),
            Scheme::Cohort => Self::Cohort(each.map(|_| Cohort::new(room, nodes)).collect()),
            Scheme::CohortClose => Self::Cohort(each.map(|_| Cohort::close(room, nodes)).collect()),
            Scheme::Service => Self::Service(Service {
                managers: (threads, nodes),
            }),
        }
    }

    pub fn acquire(&self, cpu: &Cpu<'_>, who: Who, lock: u32, wants: Permission) {
        let n = lock as usize;
        match self {
            Self::Directory => cpu.acquire(lock, wants),
            Self::Mcs(locks) => locks[n].acquire(cpu, who, wants),
            Self::Posix(locks) => locks[n].acquire(cpu, who, wants),
            Self::PerCore(locks) => locks[n].acquire(cpu, who, wants),
            Self::Cohort(locks) => locks[n].acquire(cpu, who, wants),
            Self::Service(service) => service.acquire(cpu, who.thread, lock, wants),
        }
    }

    pub fn release(&self, cpu: &Cpu<'_>, who: Who, lock: u32, had: Permission) {
        let n = lock as usize;
        match self {
            Self::Directory => cpu.release(lock),
            Self::Mcs(locks) => locks[n].release(cpu, who, had),
            Self::Posix(locks) => locks[n].release(cpu, who, had),
            Self::PerCore(locks) => locks[n].release(cpu, who, had),
            Self::Cohort(locks) => locks[n].release(cpu, who, had),
            Self::Service(service) => service.release(cpu, who.thread, lock),
        }
    }
}
