//! YCSB on the hash table with a lock for each bucket. A value says of which key it is, and how often it was updated.

use std::path::Path;
use std::time::{Duration, Instant};

use cenote_locked::buckets::{PAGE, Shape, Table as Buckets};
use cenote_ycsb::{Action, Spec, Workload, key_of_record};

use super::locks::{AnyLock, Kind, Sizes, failure, open};
use super::{Application, Done, Share};
use crate::subjects::{Failure, absent, check};

/// Records of a bucket, in the mean.
const LOAD: u64 = 20;
/// The most records of a bucket: more than that, of this mean, has none in a thousand million.
const SLOTS: u32 = 60;
/// The most bytes of a value.
const VALUE: u32 = 96;
/// Operations between two readings of the clock.
const GROUP: u64 = 64;
/// Operations that no process comes to the end of.
const ENDLESS: u64 = u64::MAX;

/// A table, and the workload on it.
pub struct Table {
    table: Buckets<AnyLock>,
    workload: Workload,
    records: u64,
}

/// Parses a number of records, of which there is room for a million in the pool's names.
pub fn records(text: &str) -> Result<u64, String> {
    let records = crate::table::count(text)?;
    match records <= 1_000_000 {
        true => Ok(records),
        false => Err("there are 1,000,000 at most".to_owned()),
    }
}

/// The value of a key after so many updates: both, and words that follow from them, up to 96 bytes.
fn value(key: u64, count: u64, into: &mut Vec<u8>) {
    into.clear();
    let words = 2 + (key ^ count) % 11;
    for n in 0..words {
        let word = match n {
            0 => key,
            1 => count,
            _ => key.wrapping_mul(count.wrapping_add(n)).rotate_left(n as u32),
        };
        into.extend(word.to_le_bytes());
    }
}

/// How often a value was updated; `None` if it is torn, or of another key.
fn count_in(key: u64, found: &[u8]) -> Option<u64> {
    let (words, rest) = found.as_chunks::<8>();
    let word = |n: usize| words.get(n).map(|word| u64::from_le_bytes(*word));
    let count = word(1)?;
    let is_whole = rest.is_empty()
        && word(0) == Some(key)
        && words.len() as u64 == 2 + (key ^ count) % 11
        && (2..words.len() as u64)
            .all(|n| word(n as usize) == Some(key.wrapping_mul(count.wrapping_add(n)).rotate_left(n as u32)));
    is_whole.then_some(count)
}

impl Table {
    pub fn open(
        folder: &Path,
        kind: Kind,
        (workload, records): (Workload, u64),
        makes: bool,
    ) -> Result<Self, Failure> {
        let shape = Shape {
            buckets: records.div_ceil(LOAD) as u32,
            slots: SLOTS,
            value_max: VALUE,
        };
        let sizes = Sizes {
            locks: shape.buckets,
            regions: [PAGE, shape.overflow_bytes()],
        };
        let locks = open(folder, "table", kind, &sizes, makes)?;
        let table = Buckets::open(shape, locks).map_err(failure)?;
        let mut bytes = Vec::new();
        for key in (0..records).filter(|_| makes).map(key_of_record) {
            value(key, 0, &mut bytes);
            table.put(key, &bytes).map_err(failure)?;
        }
        Ok(Self {
            table,
            workload,
            records,
        })
    }

    /// Updates in all values, and how many there are.
    fn sums(&self) -> Result<(u64, u64), Failure> {
        let (mut updates, mut keys, mut torn) = (0, 0, 0);
        for bucket in 0..self.table.shape().buckets {
            let see = |key, value: &[u8]| {
                keys += 1;
                match count_in(key, value) {
                    Some(count) => updates += count,
                    None => torn += 1,
                }
            };
            self.table.scan(bucket, see).map_err(failure)?;
        }
        check(torn == 0, "a value is torn, or another key's")?;
        Ok((updates, keys))
    }
}

impl Application for Table {
    fn counted(&self) -> Result<u64, Failure> {
        Ok(self.sums()?.0)
    }

    fn map(&self) -> Result<(), Failure> {
        self.sums().map(drop)
    }

    fn work(&self, time: Duration, share: Share) -> Result<Done, Failure> {
        let spec = Spec {
            operations: ENDLESS,
            seed: share.seed,
            ..Spec::new(self.workload, self.records)
        };
        let mut stream = spec.for_worker(share.worker, share.workers).stream();
        let mut operations = Vec::with_capacity(GROUP as usize);
        let mut bytes = Vec::new();
        let mut done = Done::default();
        let mut spent = Duration::ZERO;
        while spent < time {
            // Drawn while the clock stands.
            operations.clear();
            operations.extend(stream.by_ref().take(GROUP as usize));
            let begun = Instant::now();
            for operation in &operations {
                let key = key_of_record(operation.record);
                let seen = match operation.action {
                    Action::Read => self
                        .table
                        .with(key, |found| found.map(|found| count_in(key, found))),
                    _ => {
                        done.counted += 1;
                        let mut seen = None;
                        let change = |found: &mut Vec<u8>| {
                            seen = count_in(key, found);
                            value(key, seen.unwrap_or_default() + 1, &mut bytes);
                            std::mem::swap(found, &mut bytes);
                        };
                        self.table.update(key, change).map(|was| was.then_some(seen))
                    }
                };
                let whole = seen.map_err(failure)?.ok_or_else(|| absent(key))?;
                check(whole.is_some(), "a value is torn, or another key's")?;
            }
            done.operations += GROUP;
            spent += begun.elapsed();
        }
        done.ns = spent.as_nanos() as u64;
        Ok(done)
    }

    fn check(&self) -> Result<(), Failure> {
        let (_, keys) = self.sums()?;
        check(keys == self.records, "keys are missing, or there are too many")
    }
}
