//! Figures of a trace: its mix, its keys, its sizes, and how skewed it is.
//!
//! Keys are counted by their number ([`Record::key_number`]), about 24 bytes of memory for each different one: a
//! trace with a billion keys is summarised by its beginning.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::fit::{Fit, fit};
use super::record::{Action, Operation, Record};

/// Key numbers are hashes already.
#[derive(Debug, Clone, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// What is known of a trace. Add every record to it, then ask.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    operations: [u64; Operation::ALL.len()],
    keys: HashMap<u64, u64, BuildHasherDefault<AsItIs>>,
    key_bytes: u64,
    value_bytes: u64,
    value_most: u32,
    key_most: u32,
    times: Option<(u64, u64)>,
}

impl Summary {
    /// Counts a request. Costs one lookup in a hash map.
    pub fn add(&mut self, record: &Record) {
        // The order of declaration is that of `ALL`.
        self.operations[record.operation as usize] += 1;
        *self.keys.entry(record.key_number()).or_default() += 1;
        self.key_bytes += u64::from(record.key_size);
        self.key_most = self.key_most.max(record.key_size);
        if record.operation != Operation::Delete {
            self.value_bytes += u64::from(record.value_size);
            self.value_most = self.value_most.max(record.value_size);
        }
        let (first, last) = self.times.unwrap_or((record.time, record.time));
        self.times = Some((first.min(record.time), last.max(record.time)));
    }

    /// Requests.
    pub fn operations(&self) -> u64 {
        self.operations.iter().sum()
    }

    /// Requests for one operation.
    pub fn of(&self, operation: Operation) -> u64 {
        self.operations[operation as usize]
    }

    /// The share of requests that a map does one action for; 0 of an empty trace.
    pub fn share(&self, action: Action) -> f64 {
        let with = Operation::ALL
            .into_iter()
            .filter(|operation| operation.action() == action);
        ratio(with.map(|operation| self.of(operation)).sum(), self.operations())
    }

    /// Different keys.
    pub fn distinct_keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Keys that were asked for once.
    pub fn once(&self) -> u64 {
        self.keys.values().filter(|&&count| count == 1).count() as u64
    }

    /// Bytes of a key, on average over requests.
    pub fn mean_key_size(&self) -> f64 {
        ratio(self.key_bytes, self.operations())
    }

    /// Bytes of the longest key.
    pub fn longest_key(&self) -> u32 {
        self.key_most
    }

    /// Bytes of a value, on average over all requests but deletes.
    pub fn mean_value_size(&self) -> f64 {
        ratio(self.value_bytes, self.operations() - self.of(Operation::Delete))
    }

    /// Bytes of the largest value.
    pub fn largest_value(&self) -> u32 {
        self.value_most
    }

    /// Seconds from the earliest request to the latest.
    pub fn seconds(&self) -> u64 {
        self.times.map_or(0, |(first, last)| last - first)
    }

    /// An estimate of the zipf exponent; none if too few keys occurred often enough to tell ([`fit`]).
    pub fn exponent(&self) -> Option<Fit> {
        fit(self.keys.values().copied())
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
