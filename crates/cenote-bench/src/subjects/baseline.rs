//! Indexes of the library's that its maps are compared with, in a pool of their own.

use super::{Failure, Session, Subject, temporary};
use cenote::index::baseline::WordMap;
use cenote::index::baseline::btree::BTree;
use cenote::{Coherent, Guidelines, Options, Pool};
use std::marker::PhantomData;
use std::path::Path;
use tempfile::TempDir;

/// Records that there is room for: these indexes do not grow.
const RECORDS: u64 = 10_500_000;

/// An index, and how tables call it.
pub trait Compared: WordMap<Coherent> {
    /// Its name and form.
    const CALLED: [&'static str; 2];
}

impl Compared for BTree<Coherent> {
    const CALLED: [&'static str; 2] = ["BTreeOLC", "optimistic locks, in a pool"];
}

/// A pool with one of them.
pub struct Baseline<W> {
    pool: Pool,
    _directory: TempDir,
    _index: PhantomData<W>,
}

impl<W: Compared> Subject for Baseline<W> {
    const NAME: &'static str = W::CALLED[0];
    const FORM: &'static str = W::CALLED[1];
    const SCANS: bool = W::IS_ORDERED;

    type Session<'s>
        = Opened<W>
    where
        Self: 's;

    fn create() -> Result<Self, Failure> {
        let directory = temporary("baseline", Path::new("/dev/shm"))?;
        let options = Options {
            max: 64 << 30,
            ..Options::default()
        };
        Ok(Self {
            pool: Pool::create(directory.path().join("pool"), &options)?,
            _directory: directory,
            _index: PhantomData,
        })
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        let opened = W::open_or_create(self.pool.worker()?, "bench", Guidelines::P3, RECORDS)?;
        Ok(Opened(opened))
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        // It has taken memory for all the records that there could be.
        Ok(None)
    }
}

/// One thread's use.
pub struct Opened<W>(W);

impl<W: Compared> Session for Opened<W> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        Ok(self.0.put_u64(key, value).map(drop)?)
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        Ok(self.0.put_u64(key, value).map(drop)?)
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(self.0.get_u64(key)?)
    }

    #[inline]
    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        let (mut sum, mut left) = (0u64, count);
        self.0.scan_u64(from, |_, value| {
            sum = sum.wrapping_add(value);
            left -= 1;
            left > 0
        })?;
        Ok(sum)
    }
}
