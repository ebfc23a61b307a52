//! Flush requests that a process has served, or need not serve ([`crate::pod::reclaim::flush`]).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pod::format::record::WorkerRecord;

/// The serial number of the last such request in each worker's record. Numbers of one record rise in their low halves;
/// the high half says which process has begun the request. So a number that a thread has noted and died with, before it
/// wrote the request, is no other request's.
#[derive(Debug, Default)]
pub(in crate::pod) struct ServedRequests(Mutex<HashMap<WorkerRecord, u64>>);

/// The serial number of a process's request after one in the same record.
pub(in crate::pod) fn serial_after(before: u64, process: u32, generation: u32) -> u64 {
    let beginner = (process << 16) | (generation & 0xffff);
    u64::from(beginner) << 32 | u64::from((before as u32).wrapping_add(1))
}

/// How far one serial number is behind another of the same record.
fn behind(serial: u64, other: u64) -> i32 {
    (other as u32).wrapping_sub(serial as u32) as i32
}

impl ServedRequests {
    /// Whether a record's request `serial` need not be served: it was, or it is over.
    pub(in crate::pod) fn contains(&self, record: WorkerRecord, serial: u64) -> bool {
        match self.serials().get(&record) {
            Some(&noted) => serial == noted || behind(serial, noted) > 0,
            None => serial == 0,
        }
    }

    /// From now on it need not, and none before it.
    pub(in crate::pod) fn note(&self, record: WorkerRecord, serial: u64) {
        let mut serials = self.serials();
        let noted = serials.entry(record).or_insert(serial);
        if behind(serial, *noted) <= 0 {
            *noted = serial;
        }
    }

    /// A thread that panicked has left numbers that were true.
    fn serials(&self) -> MutexGuard<'_, HashMap<WorkerRecord, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
