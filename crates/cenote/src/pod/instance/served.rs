//! Flush requests that a process has served, or need not serve ([`crate::pod::reclaim::flush`]).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pod::format::record::WorkerRecord;

/// The serial number of the last such request in each worker's record.
#[derive(Debug, Default)]
pub(in crate::pod) struct ServedRequests(Mutex<HashMap<WorkerRecord, u64>>);

impl ServedRequests {
    /// Whether a record's request `serial` need not be served.
    pub(in crate::pod) fn contains(&self, record: WorkerRecord, serial: u64) -> bool {
        self.serials().get(&record).copied().unwrap_or(0) == serial
    }

    /// From now on it need not. If two threads note requests of one record at a time, the older one may stay; then the
    /// younger one is served again.
    pub(in crate::pod) fn note(&self, record: WorkerRecord, serial: u64) {
        self.serials().insert(record, serial);
    }

    /// A thread that panicked has left numbers that were true.
    fn serials(&self) -> MutexGuard<'_, HashMap<WorkerRecord, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
