//! The buckets and their locks, as one thread has them open.

use cenote::{Backend, Pool, RegionsLock};

use super::bucket;
use super::shape::{PAGE, Shape};
use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::words::{Load, Store, Words, WordsMut};

/// A hash table with a lock for each bucket, as one thread has it open. Keys that are in one bucket wait for each
/// other, others do not.
///
/// ```
/// # fn main() -> Result<(), cenote_locked::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Options, Pool};
/// use cenote_locked::buckets::{Shape, Table};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let shape = Shape { buckets: 64, slots: 40, value_max: 100 };
/// let table = Table::in_pool(&pool, "visits", shape)?;
/// table.put(7, b"once")?;
/// table.update(7, |value| value.extend(b" more"))?;
/// assert_eq!(table.get(7)?.as_deref(), Some(&b"once more"[..]));
/// assert!(table.remove(7)?);
/// # Ok(())
/// # }
/// ```
pub struct Table<L> {
    shape: Shape,
    buckets: Vec<L>,
}

impl<M: Backend> Table<RegionsLock<M>> {
    /// The table of a name in a pool, created if there is none: bucket *n* is the directory lock `NAME.n`, with the
    /// first 4 KiB in its first region and the rest, if there is any, in its second one. The pool needs as many names.
    ///
    /// Errors: [`Error::Setting`], [`Error::OtherSizes`], [`Error::Pool`].
    pub fn in_pool(pool: &Pool<M>, name: &str, shape: Shape) -> Result<Self> {
        shape.check()?;
        let open = |n| {
            let builder = pool.regions_builder(&format!("{name}.{n}")).region(PAGE);
            let builder = match shape.overflow_bytes() {
                0 => builder,
                bytes => builder.region(bytes),
            };
            Ok(builder.open()?)
        };
        let buckets = (0..shape.buckets).map(open).collect::<Result<_>>()?;
        Self::open(shape, buckets)
    }
}

impl<L: Lock> Table<L> {
    /// The table over locks that cover [`PAGE`] and then [`Shape::overflow_bytes`], all zeroes at first.
    ///
    /// Errors: [`Error::Setting`], [`Error::OtherSizes`], what the locks refuse with.
    pub fn open(shape: Shape, buckets: Vec<L>) -> Result<Self> {
        shape.check()?;
        if buckets.len() as u64 != u64::from(shape.buckets) {
            return Err(Error::Setting {
                what: "the number of locks",
                value: buckets.len() as u64,
                why: "each bucket has one",
            });
        }
        let wanted = shape.word();
        for bucket in &buckets {
            let mut found = bucket.read(|words, _| words.load(0))?;
            if found == 0 {
                found = bucket.write(|words, _| {
                    if words.load(0)? == 0 {
                        words.store(0, wanted)?;
                    }
                    words.load(0)
                })?;
            }
            if found != wanted {
                return Err(Error::OtherSizes {
                    what: "the shape of a bucket (slots << 32 | length of values)",
                    found,
                    wanted,
                });
            }
        }
        Ok(Self { shape, buckets })
    }

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of a key's bucket.
    pub fn bucket_of(&self, key: u64) -> u32 {
        self.shape.bucket(bucket::hash(key))
    }

    fn lock_of(&self, key: u64) -> &L {
        &self.buckets[self.bucket_of(key) as usize]
    }

    /// Gives the value of a key to a closure, with the bucket shared.
    ///
    /// Errors: [`Error::Damaged`], what the lock refuses with.
    #[inline]
    pub fn with<R>(&self, key: u64, see: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.lock_of(key)
            .read(|words, _| Ok(see(bucket::get(&self.shape, words, key)?)))
    }

    /// A copy of the value of a key.
    ///
    /// Errors: as [`Table::with`].
    pub fn get(&self, key: u64) -> Result<Option<Vec<u8>>> {
        self.with(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Sets the value of a key. Returns whether there was one. A crash leaves the former value or this one.
    ///
    /// Errors: [`Error::ValueTooLong`], [`Error::BucketFull`], [`Error::Damaged`], what the lock refuses with.
    #[inline]
    pub fn put(&self, key: u64, value: &[u8]) -> Result<bool> {
        self.check_len(value.len())?;
        self.lock_of(key).write(|words, _| self.put_in(words, key, value))
    }

    /// Has the value of a key changed, with the bucket exclusive in between; there is nothing in it if there was no
    /// such key. Returns whether there was. A crash leaves the former value or the new one.
    ///
    /// Errors: as [`Table::put`].
    pub fn update(&self, key: u64, change: impl FnOnce(&mut Vec<u8>)) -> Result<bool> {
        self.lock_of(key).write(|words, _| {
            let former = bucket::get(&self.shape, words, key)?;
            let mut value = former.map(<[u8]>::to_vec).unwrap_or_default();
            change(&mut value);
            self.check_len(value.len())?;
            self.put_in(words, key, &value)
        })
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// Errors: [`Error::Damaged`], what the lock refuses with.
    pub fn remove(&self, key: u64) -> Result<bool> {
        self.lock_of(key)
            .write(|words, _| bucket::remove(&self.shape, words, key))
    }

    /// Visits all pairs of a bucket, with the bucket shared; they are those of one moment.
    ///
    /// Errors: [`Error::NoSuch`], [`Error::Damaged`], what the lock refuses with.
    pub fn scan(&self, bucket: u32, visit: impl FnMut(u64, &[u8])) -> Result<()> {
        let Some(lock) = self.buckets.get(bucket as usize) else {
            return Err(Error::NoSuch {
                what: "bucket",
                number: bucket.into(),
            });
        };
        lock.read(|words: &Words<'_>, _| bucket::scan(&self.shape, words, visit))
    }

    fn put_in(&self, words: &mut WordsMut<'_>, key: u64, value: &[u8]) -> Result<bool> {
        bucket::put(&self.shape, words, key, value)?.ok_or_else(|| Error::BucketFull {
            bucket: self.bucket_of(key),
            slots: self.shape.slots,
        })
    }

    fn check_len(&self, len: usize) -> Result<()> {
        let max = self.shape.value_max as usize;
        match len <= max {
            true => Ok(()),
            false => Err(Error::ValueTooLong { len, max }),
        }
    }
}
