//! Reader-writer locks together with what they cover: the lock is the coherence transaction
//! ([`sync::directory`](crate::sync::directory)).

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::pool::Pool;
use crate::error::{Error, Result};
use crate::memory::{Backend, Coherent, Counted, Guarded, Guards, LINE, Memory};
use crate::sync::directory::DirectoryLock;
use crate::sync::directory::guard::{ReadGuard, WriteGuard};
use crate::sync::{Acquired, Timeout};

/// Nodes of a lock for which its maker asked for no number.
const NODES: u8 = 16;

/// A value of the pool under a reader-writer lock of its own, as one thread has it open. It keeps the pool open.
///
/// `T` is plain data ([`bytemuck::Pod`]): any bytes are a value of it, as another process may have died in the middle
/// of a change. A new lock's value is all zeroes.
///
/// On coherent memory the lock is a [`ReadWriteLock`](crate::locks::ReadWriteLock) beside the value. On incoherent
/// memory processes cache lock and value until another process asks for them, so no change has to be written back
/// before that, and getting the lock again costs nothing in the pool.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Acquired, Options, Pool};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let balances = pool.rwlock::<[u64; 2]>("balances")?;
/// let mut both = balances.write()?;
/// if let Acquired::Recovered { from, .. } = both.acquired() {
///     println!("worker {} died while it could write: these may be half changed", from.worker);
/// }
/// both[0] = 90;
/// both[1] = 110;
/// drop(both);
/// assert_eq!(balances.read()?.iter().sum::<u64>(), 200);
/// # Ok(())
/// # }
/// ```
pub struct RwLock<T: bytemuck::Pod, M: Memory = Coherent> {
    lock: DirectoryLock<M>,
    guards: Guards,
    pool: Pool<M>,
    of: PhantomData<T>,
}

/// Regions of the pool under one reader-writer lock, as one thread has them open. They keep the pool open. See
/// [`RwLock`].
pub struct RegionsLock<M: Memory = Coherent> {
    lock: DirectoryLock<M>,
    guards: Guards,
    pool: Pool<M>,
}

/// What a new lock is made with; [`Pool::regions_builder`].
#[must_use = "a builder makes nothing before it opens"]
pub struct RegionsLockBuilder<'p, M: Memory> {
    pool: &'p Pool<M>,
    name: String,
    nodes: u8,
    regions: Vec<u64>,
}

impl<M: Memory> RegionsLockBuilder<'_, M> {
    /// How many processes can use the lock at a time, 1 to 40; 16 if nothing is said. Only on incoherent memory there
    /// is a limit. A node takes 64 bytes.
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    /// One more region that the lock covers, of so many bytes, zeroes at first. Regions are counted from 0, in the
    /// order of these calls.
    pub fn region(mut self, bytes: u64) -> Self {
        self.regions.push(bytes);
        self
    }

    /// The lock of the name, created if there is none. A lock that exists stays as it is, whatever is asked for.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn open(self) -> Result<RegionsLock<M>> {
        let lock = DirectoryLock::open_or_create(self.pool.worker()?, &self.name, self.nodes, &self.regions)?;
        RegionsLock::new(lock, self.pool)
    }
}

impl<M: Memory> Pool<M> {
    /// The value of a name and its reader-writer lock, created if there is none. The handle belongs to this thread;
    /// each thread opens its own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind);
    /// [`Error::OtherValueSize`](crate::Error::OtherValueSize) if the value has another size.
    pub fn rwlock<T: bytemuck::Pod>(&self, name: &str) -> Result<RwLock<T, M>> {
        let builder = self.regions_builder(name).region(size_of::<T>() as u64);
        RwLock::over(builder.open()?)
    }

    /// The value of a name and its reader-writer lock, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany); [`Error::OtherValueSize`](crate::Error::OtherValueSize) if the value has another
    /// size.
    pub fn existing_rwlock<T: bytemuck::Pod>(&self, name: &str) -> Result<RwLock<T, M>> {
        RwLock::over(self.existing_regions(name)?)
    }

    /// Says how a lock is to be made that covers several regions, or is used by more processes than usual.
    ///
    /// ```
    /// # fn main() -> cenote::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pool");
    /// use cenote::{Options, Pool};
    ///
    /// let pool: Pool = Pool::create(&path, &Options::default())?;
    /// let table = pool.regions_builder("table").nodes(8).region(4096).region(64).open()?;
    /// let mut guard = table.write()?;
    /// guard.region_mut(0)[17] = 1;
    /// guard.region_mut(1)[0] = 17;
    /// # Ok(())
    /// # }
    /// ```
    pub fn regions_builder(&self, name: &str) -> RegionsLockBuilder<'_, M> {
        RegionsLockBuilder {
            pool: self,
            name: name.to_owned(),
            nodes: NODES,
            regions: Vec::new(),
        }
    }

    /// The regions of a name and their lock, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_regions(&self, name: &str) -> Result<RegionsLock<M>> {
        let lock = DirectoryLock::open(self.worker()?, name)?;
        RegionsLock::new(lock, self)
    }
}

impl<T: bytemuck::Pod, M: Memory> RwLock<T, M> {
    fn over(RegionsLock { lock, guards, pool }: RegionsLock<M>) -> Result<Self> {
        const {
            assert!(
                align_of::<T>() as u64 <= LINE,
                "a value's alignment is 64 at most"
            )
        };
        match lock.regions().first() {
            Some(region) if region.len == size_of::<T>() as u64 => Ok(Self {
                lock,
                guards,
                pool,
                of: PhantomData,
            }),
            found => Err(Error::OtherValueSize {
                has: found.map_or(0, |region| region.len),
                asked: size_of::<T>() as u64,
            }),
        }
    }
}

/// What the locks have in common: the ways of waiting.
macro_rules! ways_of_waiting {
    ([$($generics:tt)*] $lock:ty, $read:ty, $write:ty) => {
        impl<$($generics)*> $lock {
            /// The pool that it is in.
            pub fn pool(&self) -> &Pool<M> {
                &self.pool
            }

            /// Waits for a shared hold, while other threads may read.
            ///
            /// Cost on coherent memory: that of [`ReadWriteLock::read`](crate::locks::ReadWriteLock::read). On
            /// incoherent memory nothing in the pool if the process has the lock and no other one has asked for it;
            /// else about ten round trips, and those of the data.
            ///
            /// Errors: [`Error::Deadlock`](crate::Error::Deadlock),
            /// [`Error::TooManyLocks`](crate::Error::TooManyLocks),
            /// [`Error::TooManyNodes`](crate::Error::TooManyNodes).
            #[inline]
            pub fn read(&self) -> Result<$read> {
                self.lock.read().map(|hold| self.reading(hold))
            }

            /// Waits for an exclusive hold. Cost and errors as for a shared one.
            #[inline]
            pub fn write(&self) -> Result<$write> {
                self.lock.write().map(|hold| self.writing(hold))
            }

            /// Takes a shared hold if nobody alive writes. On incoherent memory `None` may also mean that another
            /// process keeps the lock, which it has been asked for now.
            ///
            /// Errors: as for waiting.
            pub fn try_read(&self) -> Result<Option<$read>> {
                self.read_with(Timeout::None)
            }

            /// Takes an exclusive hold if nobody alive reads or writes. On incoherent memory `None` may also mean that
            /// other processes keep the lock, which they have been asked for now.
            ///
            /// Errors: as for waiting.
            pub fn try_write(&self) -> Result<Option<$write>> {
                self.write_with(Timeout::None)
            }

            /// Waits for a shared hold, for this long at most.
            ///
            /// Errors: as for waiting.
            pub fn read_for(&self, time: Duration) -> Result<Option<$read>> {
                self.read_with(Timeout::during(time))
            }

            /// Waits for an exclusive hold, for this long at most.
            ///
            /// Errors: as for waiting.
            pub fn write_for(&self, time: Duration) -> Result<Option<$write>> {
                self.write_with(Timeout::during(time))
            }

            /// Waits for a shared hold until a timeout ends.
            ///
            /// Errors: as for waiting.
            pub fn read_with(&self, timeout: Timeout) -> Result<Option<$read>> {
                Ok(self.lock.read_with(timeout)?.map(|hold| self.reading(hold)))
            }

            /// Waits for an exclusive hold until a timeout ends.
            ///
            /// Errors: as for waiting.
            pub fn write_with(&self, timeout: Timeout) -> Result<Option<$write>> {
                Ok(self.lock.write_with(timeout)?.map(|hold| self.writing(hold)))
            }
        }
    };
}

ways_of_waiting!([T: bytemuck::Pod, M: Backend] RwLock<T, M>, RwLockReadGuard<'_, T, M>, RwLockWriteGuard<'_, T, M>);
ways_of_waiting!([M: Backend] RegionsLock<M>, RegionsReadGuard<'_, M>, RegionsWriteGuard<'_, M>);

impl<T: bytemuck::Pod, M: Backend> RwLock<T, M> {
    #[inline]
    fn reading<'l>(&'l self, hold: ReadGuard<'l, M>) -> RwLockReadGuard<'l, T, M> {
        let value = hold.region(0).pointer(self.lock.mem()).cast();
        let _counted = self.guards.count();
        RwLockReadGuard {
            hold,
            value,
            _counted,
        }
    }

    #[inline]
    fn writing<'l>(&'l self, hold: WriteGuard<'l, M>) -> RwLockWriteGuard<'l, T, M> {
        let value = hold.region(0).pointer(self.lock.mem()).cast();
        let _counted = self.guards.count();
        RwLockWriteGuard {
            hold,
            value,
            _counted,
        }
    }
}

impl<M: Memory> RegionsLock<M> {
    fn new(lock: DirectoryLock<M>, pool: &Pool<M>) -> Result<Self> {
        pool.start_downconvert_thread()?;
        Ok(Self {
            lock,
            guards: pool.guards()?,
            pool: pool.clone(),
        })
    }
}

impl<M: Backend> RegionsLock<M> {
    /// How many regions it covers.
    pub fn regions(&self) -> usize {
        self.lock.regions().len()
    }

    #[inline]
    fn reading<'l>(&'l self, hold: ReadGuard<'l, M>) -> RegionsReadGuard<'l, M> {
        RegionsReadGuard {
            mem: self.lock.mem(),
            hold,
            _counted: self.guards.count(),
        }
    }

    #[inline]
    fn writing<'l>(&'l self, hold: WriteGuard<'l, M>) -> RegionsWriteGuard<'l, M> {
        RegionsWriteGuard {
            mem: self.lock.mem(),
            hold,
            _counted: self.guards.count(),
        }
    }
}

/// A shared hold of a value. Dropping it unlocks.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RwLockReadGuard<'l, T: bytemuck::Pod, M: Backend> {
    hold: ReadGuard<'l, M>,
    value: *const T,
    _counted: Counted<'l>,
}

/// An exclusive hold of a value. Dropping it unlocks. A forked child's copy of it panics when it is written through:
/// the child has not got the lock.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RwLockWriteGuard<'l, T: bytemuck::Pod, M: Backend> {
    hold: WriteGuard<'l, M>,
    value: *mut T,
    _counted: Counted<'l>,
}

/// A shared hold of regions. Dropping it unlocks.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RegionsReadGuard<'l, M: Backend> {
    hold: ReadGuard<'l, M>,
    mem: &'l M,
    _counted: Counted<'l>,
}

/// An exclusive hold of regions. Dropping it unlocks.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RegionsWriteGuard<'l, M: Backend> {
    hold: WriteGuard<'l, M>,
    mem: &'l M,
    _counted: Counted<'l>,
}

impl<T: bytemuck::Pod, M: Backend> RwLockReadGuard<'_, T, M> {
    /// Whether the last thread that wrote has unlocked. If it died, all are told until another one has written and
    /// unlocked.
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }
}

impl<T: bytemuck::Pod, M: Backend> RwLockWriteGuard<'_, T, M> {
    /// Whether the last thread that wrote has unlocked, or who died instead; the value may be half changed then. On
    /// incoherent memory a process that dies while it keeps the lock counts as one that died writing: what its threads
    /// had written may not have left its host's cache, so the value may also be an older one.
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }

    /// Leaves a note: one word about what this thread is doing. If it dies, its successor gets the note.
    ///
    /// Cost: a store; a second one in the unlock.
    pub fn set_note(&self, note: u64) {
        self.hold.set_note(note)
    }

    /// Draws a fencing token: a number greater than all that were drawn under this lock before. 0 in a forked child.
    ///
    /// Cost: a load and a store.
    pub fn fencing_token(&self) -> u64 {
        self.hold.fencing_token()
    }
}

impl<T: bytemuck::Pod, M: Backend> Deref for RwLockReadGuard<'_, T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a region of the size of `T`, at a multiple of 64, mapped while the lock's handle lives; any bytes are
        // a `T`; no process that uses the pool as it should writes while this one reads (docs/security.md says what a
        // faulty one may do).
        unsafe { &*self.value }
    }
}

impl<T: bytemuck::Pod, M: Backend> Deref for RwLockWriteGuard<'_, T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: as for a shared hold.
        unsafe { &*self.value }
    }
}

impl<T: bytemuck::Pod, M: Backend> DerefMut for RwLockWriteGuard<'_, T, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.hold.refuse_forked();
        // SAFETY: as for a shared hold; this thread alone has the lock, and the guard is borrowed.
        unsafe { &mut *self.value }
    }
}

/// The bytes of a region under a lock that is held.
#[inline]
fn bytes_of<M: Backend>(region: Guarded, mem: &M) -> &[u8] {
    // SAFETY: mapped while the lock's handle lives; no process that uses the pool as it should writes while this one
    // has the lock.
    unsafe { std::slice::from_raw_parts(region.pointer(mem), region.len()) }
}

impl<M: Backend> RegionsReadGuard<'_, M> {
    /// See [`RwLockReadGuard::acquired`].
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }

    /// The bytes of a region.
    ///
    /// # Panics
    ///
    /// If there is no such region.
    #[inline]
    pub fn region(&self, region: usize) -> &[u8] {
        bytes_of(self.hold.region(region), self.mem)
    }
}

impl<M: Backend> RegionsWriteGuard<'_, M> {
    /// See [`RwLockWriteGuard::acquired`].
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }

    /// See [`RwLockWriteGuard::set_note`].
    pub fn set_note(&self, note: u64) {
        self.hold.set_note(note)
    }

    /// See [`RwLockWriteGuard::fencing_token`].
    pub fn fencing_token(&self) -> u64 {
        self.hold.fencing_token()
    }

    /// The bytes of a region.
    ///
    /// # Panics
    ///
    /// If there is no such region.
    #[inline]
    pub fn region(&self, region: usize) -> &[u8] {
        bytes_of(self.hold.region(region), self.mem)
    }

    /// The bytes of all regions in their order, to be changed. No two of them overlap.
    ///
    /// # Panics
    ///
    /// In a forked child, which has not got the lock.
    pub fn regions_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.hold.refuse_forked();
        let (hold, mem) = (&self.hold, self.mem);
        hold.regions().map(move |region| {
            // SAFETY: as for a shared hold; this thread alone has the lock, the guard is borrowed, and each region is
            // given once: their places were checked when the lock was opened, each behind the one before it.
            unsafe { std::slice::from_raw_parts_mut(region.pointer(mem), region.len()) }
        })
    }

    /// The bytes of a region, to be changed.
    ///
    /// # Panics
    ///
    /// If there is no such region, or in a forked child, which has not got the lock.
    #[inline]
    pub fn region_mut(&mut self, region: usize) -> &mut [u8] {
        self.hold.refuse_forked();
        let region = self.hold.region(region);
        // SAFETY: as for a shared hold; this thread alone has the lock, and the guard is borrowed.
        unsafe { std::slice::from_raw_parts_mut(region.pointer(self.mem), region.len()) }
    }
}
