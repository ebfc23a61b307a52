//! What is compared: stores of keys and values of any length.

use super::Pair;
use crate::subjects::heap::Growth;
use crate::subjects::{Failure, lmdb, temporary};
use cenote::{Coherent, Map, Options, Ordered, Pool};
use crossbeam_skiplist::SkipMap;
use dashmap::DashMap;
use heed::types::Bytes;
use heed::{Database, Env};
use rustc_hash::FxBuildHasher;
use std::ops::Range;
use std::path::Path;
use tempfile::TempDir;

/// A store of one thread.
pub trait Store: Sized {
    /// The name in the tables.
    const NAME: &'static str;
    /// The most writes of a kind that are timed.
    const WRITES_MAX: u64 = u64::MAX;

    /// An empty store that grows as it is loaded.
    fn create() -> Result<Self, Failure>;

    /// Binds a key to a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// The same for some records as they are loaded, outside the measurement.
    fn fill(&mut self, records: Range<u64>, pair: &mut Pair) -> Result<(), Failure> {
        records.into_iter().try_for_each(|record| {
            let (key, value) = pair.of(record, 0);
            self.put(key, value)
        })
    }

    /// Shows the value of a key, where it is. Returns whether it is there.
    fn get(&mut self, key: &[u8], read: impl FnOnce(&[u8])) -> Result<bool, Failure>;

    /// The bytes of memory that hold the records, where that is known.
    fn bytes(&mut self) -> Result<Option<u64>, Failure>;
}

fn pool() -> Result<(Pool<Coherent>, TempDir), Failure> {
    let directory = temporary("sizes", Path::new("/dev/shm"))?;
    let options = Options {
        size: 1 << 20,
        max: 64 << 30,
        ..Options::default()
    };
    Ok((Pool::create(directory.path().join("pool"), &options)?, directory))
}

macro_rules! ours {
    ($store:ident, $map:ident, $open:ident, $name:literal) => {
        /// A map in a pool.
        pub struct $store {
            map: $map,
            _directory: TempDir,
        }

        impl Store for $store {
            const NAME: &'static str = $name;

            fn create() -> Result<Self, Failure> {
                let (pool, directory) = pool()?;
                Ok(Self {
                    map: pool.$open("bench")?,
                    _directory: directory,
                })
            }

            fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
                Ok(self.map.put(key, value).map(drop)?)
            }

            fn get(&mut self, key: &[u8], read: impl FnOnce(&[u8])) -> Result<bool, Failure> {
                Ok(self.map.get(key)?.map(|value| read(&value)).is_some())
            }

            fn bytes(&mut self) -> Result<Option<u64>, Failure> {
                let report = self.map.pool().fsck()?;
                Ok(Some(report.committed_bytes - report.free_bytes))
            }
        }
    };
}

ours!(Hash, Map, map, "cenote, hash");
ours!(OrderedMap, Ordered, ordered, "cenote, ordered");

/// A map of one process, and how the heap has grown since it was empty.
pub struct Heap<T> {
    map: T,
    growth: Growth,
}

impl<T: Default> Heap<T> {
    fn new() -> Self {
        Self {
            growth: Growth::start(),
            map: T::default(),
        }
    }
}

macro_rules! of_one_process {
    ($store:ident, $map:ty, $name:literal) => {
        /// Each key and value is in memory of its own.
        pub type $store = Heap<$map>;

        impl Store for $store {
            const NAME: &'static str = $name;

            fn create() -> Result<Self, Failure> {
                Ok(Self::new())
            }

            fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
                self.map.insert(key.into(), value.into());
                Ok(())
            }

            fn get(&mut self, key: &[u8], read: impl FnOnce(&[u8])) -> Result<bool, Failure> {
                Ok(self.map.get(key).map(|entry| read(entry.value())).is_some())
            }

            fn bytes(&mut self) -> Result<Option<u64>, Failure> {
                Ok(self.growth.bytes())
            }
        }
    };
}

of_one_process!(Dash, DashMap<Box<[u8]>, Box<[u8]>, FxBuildHasher>, "dashmap");
of_one_process!(Skip, SkipMap<Box<[u8]>, Box<[u8]>>, "crossbeam::SkipMap");

/// LMDB in its fastest form: a writable map, a transaction a write, and one for each read.
pub struct Lmdb {
    table: Database<Bytes, Bytes>,
    env: Env,
}

impl Store for Lmdb {
    const NAME: &'static str = "LMDB";
    const WRITES_MAX: u64 = 25_000;

    fn create() -> Result<Self, Failure> {
        let directory = temporary("sizes", Path::new("/dev/shm"))?;
        let env = lmdb::environment(directory.path(), true)?;
        directory.close()?;
        let mut txn = env.write_txn()?;
        let table = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Self { table, env })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut txn = self.env.write_txn()?;
        self.table.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn fill(&mut self, records: Range<u64>, pair: &mut Pair) -> Result<(), Failure> {
        let mut txn = self.env.write_txn()?;
        for record in records {
            let (key, value) = pair.of(record, 0);
            self.table.put(&mut txn, key, value)?;
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, key: &[u8], read: impl FnOnce(&[u8])) -> Result<bool, Failure> {
        let txn = self.env.read_txn()?;
        Ok(self.table.get(&txn, key)?.map(read).is_some())
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        let txn = self.env.read_txn()?;
        let stat = self.table.stat(&txn)?;
        let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        Ok(Some(pages as u64 * u64::from(stat.page_size)))
    }
}
