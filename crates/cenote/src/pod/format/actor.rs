//! In whose name a worker acts.

use super::record::WorkerRecord;

/// In whose name a worker acts: a worker's record, and its mark. Normally the caller's own; recovery and the
/// adopters of vacant records act for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The record.
    pub record: WorkerRecord,
    /// The worker's index plus one.
    pub me: u16,
}
