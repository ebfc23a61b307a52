//! Cenote's ordered map: keys in the order of their bytes, so numbers with the highest byte first.

use super::cenote::Form;
use super::{Failure, Session, Shared, Subject, temporary};
use cenote::{Options, Ordered, Pool, Range};
use std::path::Path;
use tempfile::TempDir;

/// A pool with one ordered map.
pub struct Tree<M: Form> {
    map: Ordered<M>,
    _directory: Option<TempDir>,
}

impl<M: Form> Subject for Tree<M> {
    const NAME: &'static str = "cenote";
    const FORM: &'static str = M::FORM;
    const SCANS: bool = true;

    type Session<'s>
        = &'s Ordered<M>
    where
        Self: 's;

    fn create() -> Result<Self, Failure> {
        let directory = temporary("ordered", Path::new("/dev/shm"))?;
        let tree = Self::create_in(directory.path())?;
        Ok(Self {
            _directory: Some(directory),
            ..tree
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

impl<M: Form> Shared for Tree<M> {
    fn create_in(directory: &Path) -> Result<Self, Failure> {
        let options = Options {
            size: 1 << 20,
            max: 64 << 30,
            ..Options::default()
        };
        let pool: Pool<M> = Pool::create(directory.join("pool"), &options)?;
        Ok(Self {
            map: pool.ordered("bench")?,
            _directory: None,
        })
    }

    fn open_in(directory: &Path) -> Result<Self, Failure> {
        let pool: Pool<M> = Pool::open(directory.join("pool"), &Options::default())?;
        Ok(Self {
            map: pool.ordered("bench")?,
            _directory: None,
        })
    }
}

impl<M: Form> Session for &Ordered<M> {
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
    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        let (mut sum, mut left) = (0u64, count);
        let range = Range {
            from: &from.to_be_bytes(),
            to: None,
        };
        (**self).scan(range, |_, value| {
            let mut word = [0; 8];
            word.copy_from_slice(&value[..8]);
            sum = sum.wrapping_add(u64::from_le_bytes(word));
            left -= 1;
            left > 0
        })?;
        Ok(sum)
    }
}
