//! Cenote: a pool in shared memory, created small, so that its growth is part of the load.

use super::{Failure, Session, Subject, temporary};
use cenote::memory::Mapped;
use cenote::{Coherent, Guidelines, Map, Noncoherent, Options, Pool};
use std::path::Path;
use tempfile::TempDir;

/// A memory backend and how the tables call it.
pub trait Form: Mapped {
    /// The name in the tables.
    const FORM: &'static str;
}

impl Form for Coherent {
    const FORM: &'static str = "coherent";
}

impl Form for Noncoherent {
    const FORM: &'static str = "noncoherent";
}

/// A pool with one map; whether updates overwrite the values of it where they are.
pub struct Cenote<M: Form, const IN_PLACE: bool = false> {
    map: Map<M>,
    _directory: TempDir,
}

impl<M: Form, const IN_PLACE: bool> Subject for Cenote<M, IN_PLACE> {
    const NAME: &'static str = "cenote";
    const FORM: &'static str = if IN_PLACE { "updates in place" } else { M::FORM };
    const BATCHES: bool = true;

    type Session<'s>
        = &'s Map<M>
    where
        Self: 's;

    fn create() -> Result<Self, Failure> {
        let directory = temporary("cenote", Path::new("/dev/shm"))?;
        let options = Options {
            size: 1 << 20,
            max: 64 << 30,
            guidelines: Guidelines {
                out_of_place: !IN_PLACE,
                ..Guidelines::default()
            },
            ..Options::default()
        };
        let pool: Pool<M> = Pool::create(directory.path().join("pool"), &options)?;
        Ok(Self {
            map: pool.map("bench")?,
            _directory: directory,
        })
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        Ok(&self.map)
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        let report = self.map.pool().fsck()?;
        Ok(Some(report.committed_bytes - report.free_bytes))
    }
}

impl<M: Form> Session for &Map<M> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        Ok(self.put_u64(key, value).map(drop)?)
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        Ok(self.put_u64(key, value).map(drop)?)
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(self.get_u64(key)?)
    }

    #[inline]
    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), Failure> {
        Ok(self.get_many_u64(keys, |n, value| values[n] = value)?)
    }
}
