//! Which locks threads want, and what they do under them.

use std::sync::Arc;

use cenote::sync::directory::queue::Permission;
use cenote_ycsb::{Action, Spec, Stream, Workload, key_of_record};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::script::Script;

/// What threads do again and again.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// They share one lock, to read with a probability of so many in a hundred.
    Shares(u32),
    /// A hash table whose buckets have a lock each, under a YCSB workload over so many records.
    Buckets(Workload, u64),
    /// One lock, and what recorded transactions did under it.
    Transactions(Arc<Script>),
}

/// A thread's choices, from a seed.
pub(super) struct Chooser {
    work: Work,
    draws: Xoshiro256PlusPlus,
    operations: Option<Stream>,
    locks: u32,
}

/// Operations that no thread comes to the end of.
const ENDLESS: u64 = 1 << 40;

impl Chooser {
    pub fn new(work: Work, locks: u32, (thread, threads): (u32, u32), seed: u64) -> Self {
        let operations = match &work {
            Work::Buckets(workload, records) => {
                let spec = Spec {
                    operations: ENDLESS,
                    seed,
                    ..Spec::new(*workload, *records)
                };
                Some(spec.for_worker(thread.into(), threads.into()).stream())
            }
            Work::Shares(_) | Work::Transactions(_) => None,
        };
        Self {
            work,
            draws: Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(thread) << 32),
            operations,
            locks,
        }
    }

    /// A number below another.
    fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.draws.next_u32()) * u64::from(end)) >> 32) as u32
    }

    /// The next lock, and what for.
    pub fn next(&mut self) -> (u32, Permission) {
        match self.work {
            Work::Shares(percent) => match self.below(100) < percent {
                true => (0, Permission::Shared),
                false => (0, Permission::Exclusive),
            },
            // Its next transaction says what for.
            Work::Transactions(_) => (0, Permission::Exclusive),
            Work::Buckets(..) => {
                let operation = self.operations.as_mut().and_then(Iterator::next);
                operation.map_or((0, Permission::Shared), |operation| {
                    let bucket = key_of_record(operation.record) % u64::from(self.locks);
                    let wants = match operation.action {
                        Action::Read => Permission::Shared,
                        _ => Permission::Exclusive,
                    };
                    (bucket as u32, wants)
                })
            }
        }
    }
}
