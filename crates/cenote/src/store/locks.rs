//! The locks of a pool, by name.

use std::ops::Deref;

use super::pool::Pool;
use crate::error::Result;
use crate::memory::{Coherent, Memory};
use crate::sync::array::ArrayLock;
use crate::sync::{self, LockArray, QueueLock, ReadWriteLock, SpinLock, Timeout, removal};

/// A named lock, as one thread has it open. It keeps the pool open.
pub struct Named<L, M: Memory = Coherent> {
    lock: L,
    pool: Pool<M>,
}

impl<L, M: Memory> Named<L, M> {
    /// The pool that it is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }
}

impl<L, M: Memory> Deref for Named<L, M> {
    type Target = L;

    #[inline]
    fn deref(&self) -> &L {
        &self.lock
    }
}

/// A named mutex. See [`sync::Mutex`] for what it can do.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Acquired, Options, Pool};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let mutex = pool.mutex("stock")?;
/// let guard = mutex.lock()?;
/// if let Acquired::Recovered { from, note } = guard.acquired() {
///     println!("worker {} died while it did {note}", from.worker);
/// }
/// guard.set_note(17);
/// # Ok(())
/// # }
/// ```
pub type Mutex<M = Coherent> = Named<sync::Mutex<M>, M>;
/// A named spin lock. See [`SpinLock`] for what it can do.
pub type SpinMutex<M = Coherent> = Named<SpinLock<M>, M>;
/// A named queue lock. See [`QueueLock`] for what it can do.
pub type QueueMutex<M = Coherent> = Named<QueueLock<M>, M>;
/// A named reader-writer lock that covers nothing by itself. See [`ReadWriteLock`] for what it can do, and
/// [`RwLock`](super::RwLock) for one with data.
pub type RawRwLock<M = Coherent> = Named<ReadWriteLock<M>, M>;

/// Many locks under one name, as one thread has them open. It keeps the pool open.
pub struct Locks<L: ArrayLock<M>, M: Memory = Coherent> {
    locks: LockArray<M, L>,
    pool: Pool<M>,
}

impl<L: ArrayLock<M>, M: Memory> Locks<L, M> {
    /// How many locks there are.
    pub fn count(&self) -> u32 {
        self.locks.count()
    }

    /// A handle on one of them, counted from 0. It belongs to this thread. See [`LockArray::at`].
    ///
    /// Errors: [`Error::OutOfRange`](crate::Error::OutOfRange).
    pub fn at(&self, index: u32) -> Result<Named<L, M>> {
        Ok(self.pool.named(self.locks.at(index)?))
    }
}

/// A named semaphore. See [`sync::Semaphore`] for what it can do.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Options, Pool};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let connections = pool.semaphore("connections", 8)?;
/// let permit = connections.acquire()?;
/// println!("this thread has connection {}", permit.number());
/// # Ok(())
/// # }
/// ```
pub type Semaphore<M = Coherent> = Named<sync::Semaphore<M>, M>;
/// A named condition variable. See [`sync::Condvar`] for what it can do.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Options, Pool};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// # pool.map("orders")?.put(b"next", b"17")?;
/// let (mutex, filled) = (pool.mutex("orders, mutex")?, pool.condvar("orders, filled")?);
/// let orders = pool.map("orders")?;
/// let guard = mutex.lock()?;
/// let guard = filled.wait_while(guard, || matches!(orders.get(b"next"), Ok(None)))?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
pub type Condvar<M = Coherent> = Named<sync::Condvar<M>, M>;

impl<M: Memory> Pool<M> {
    fn named<L>(&self, lock: L) -> Named<L, M> {
        Named {
            lock,
            pool: self.clone(),
        }
    }

    /// The mutex of a name, created if there is none. The handle belongs to this thread; each thread opens its own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn mutex(&self, name: &str) -> Result<Mutex<M>> {
        Ok(self.named(sync::Mutex::open_or_create(self.worker()?, name)?))
    }

    /// The mutex of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_mutex(&self, name: &str) -> Result<Mutex<M>> {
        Ok(self.named(sync::Mutex::open(self.worker()?, name)?))
    }

    /// The spin lock of a name, created if there is none: for holds of some nanoseconds by threads that have a core
    /// each. The handle belongs to this thread; each thread opens its own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn spin_mutex(&self, name: &str) -> Result<SpinMutex<M>> {
        Ok(self.named(SpinLock::open_or_create(self.worker()?, name)?))
    }

    /// The spin lock of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_spin_mutex(&self, name: &str) -> Result<SpinMutex<M>> {
        Ok(self.named(SpinLock::open(self.worker()?, name)?))
    }

    /// The queue lock of a name, created if there is none. The handle belongs to this thread; each thread opens its
    /// own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn queue_mutex(&self, name: &str) -> Result<QueueMutex<M>> {
        Ok(self.named(QueueLock::open_or_create(self.worker()?, name)?))
    }

    /// The queue lock of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_queue_mutex(&self, name: &str) -> Result<QueueMutex<M>> {
        Ok(self.named(QueueLock::open(self.worker()?, name)?))
    }

    /// The semaphore of a name, created with so many permits if there is none. The handle belongs to this thread; each
    /// thread opens its own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::Permits`](crate::Error::Permits), [`Error::PermitsAsked`](crate::Error::PermitsAsked).
    pub fn semaphore(&self, name: &str, permits: u32) -> Result<Semaphore<M>> {
        Ok(self.named(sync::Semaphore::open_or_create(self.worker()?, name, permits)?))
    }

    /// The semaphore of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_semaphore(&self, name: &str) -> Result<Semaphore<M>> {
        Ok(self.named(sync::Semaphore::open(self.worker()?, name)?))
    }

    /// The condition variable of a name, created if there is none. The handle belongs to this thread; each thread opens
    /// its own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn condvar(&self, name: &str) -> Result<Condvar<M>> {
        Ok(self.named(sync::Condvar::open_or_create(self.worker()?, name)?))
    }

    /// The condition variable of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_condvar(&self, name: &str) -> Result<Condvar<M>> {
        Ok(self.named(sync::Condvar::open(self.worker()?, name)?))
    }

    /// The reader-writer lock of a name, without data of its own, created if there is none. The handle belongs to this
    /// thread; each thread opens its own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn raw_rwlock(&self, name: &str) -> Result<RawRwLock<M>> {
        Ok(self.named(ReadWriteLock::open_or_create(self.worker()?, name)?))
    }

    /// The reader-writer lock of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_raw_rwlock(&self, name: &str) -> Result<RawRwLock<M>> {
        Ok(self.named(ReadWriteLock::open(self.worker()?, name)?))
    }

    fn locks<L: ArrayLock<M>>(&self, name: &str, count: Option<u32>) -> Result<Locks<L, M>> {
        let worker = self.worker()?;
        let locks = match count {
            Some(count) => LockArray::open_or_create(worker, name, count)?,
            None => LockArray::open(worker, name)?,
        };
        let pool = self.clone();
        Ok(Locks { locks, pool })
    }

    /// So many mutexes under one name, created if there are none: up to 1,048,576, which take 256 bytes each and one
    /// entry of the directory. Their number is set when they are created; another number is
    /// [`Error::OtherArray`](crate::Error::OtherArray), as is another form.
    ///
    /// So a pool can have more locks than names, and objects locks of their own: by a number, or by the hash of a key.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::OtherArray`](crate::Error::OtherArray), [`Error::InvalidOption`](crate::Error::InvalidOption).
    ///
    /// ```
    /// # fn main() -> cenote::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pool");
    /// use std::hash::{DefaultHasher, Hash, Hasher};
    ///
    /// use cenote::{Options, Pool};
    ///
    /// /// Which of so many locks is that of a key. All threads must compute the same.
    /// fn stripe(key: &[u8], count: u32) -> u32 {
    ///     let mut hasher = DefaultHasher::new();
    ///     key.hash(&mut hasher);
    ///     (hasher.finish() % u64::from(count)) as u32
    /// }
    ///
    /// let pool: Pool = Pool::create(&path, &Options::default())?;
    /// let accounts = pool.map("accounts")?;
    /// let locks = pool.mutexes("accounts/locks", 1024)?;
    ///
    /// // Two keys at a time: in the order of their locks, so that there is no deadlock.
    /// // One lock if both have the same.
    /// let (from, to) = (b"ada", b"grace");
    /// let (a, b) = (stripe(from, locks.count()), stripe(to, locks.count()));
    /// let (first, second) = (locks.at(a.min(b))?, locks.at(a.max(b))?);
    /// let one = first.lock()?;
    /// let other = if a != b { Some(second.lock()?) } else { None };
    /// accounts.put(from, &90u64.to_le_bytes())?;
    /// accounts.put(to, &110u64.to_le_bytes())?;
    /// # drop((one, other));
    /// # Ok(())
    /// # }
    /// ```
    pub fn mutexes(&self, name: &str, count: u32) -> Result<Locks<sync::Mutex<M>, M>> {
        self.locks(name, Some(count))
    }

    /// The mutexes of a name, if there are some.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany), [`Error::OtherArray`](crate::Error::OtherArray).
    pub fn existing_mutexes(&self, name: &str) -> Result<Locks<sync::Mutex<M>, M>> {
        self.locks(name, None)
    }

    /// So many spin locks under one name, as [`Pool::mutexes`].
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::OtherArray`](crate::Error::OtherArray), [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn spin_mutexes(&self, name: &str, count: u32) -> Result<Locks<SpinLock<M>, M>> {
        self.locks(name, Some(count))
    }

    /// The spin locks of a name, if there are some.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany), [`Error::OtherArray`](crate::Error::OtherArray).
    pub fn existing_spin_mutexes(&self, name: &str) -> Result<Locks<SpinLock<M>, M>> {
        self.locks(name, None)
    }

    /// So many queue locks under one name, as [`Pool::mutexes`].
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::OtherArray`](crate::Error::OtherArray), [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn queue_mutexes(&self, name: &str, count: u32) -> Result<Locks<QueueLock<M>, M>> {
        self.locks(name, Some(count))
    }

    /// The queue locks of a name, if there are some.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany), [`Error::OtherArray`](crate::Error::OtherArray).
    pub fn existing_queue_mutexes(&self, name: &str) -> Result<Locks<QueueLock<M>, M>> {
        self.locks(name, None)
    }

    /// So many reader-writer locks under one name, as [`Pool::mutexes`]; each takes a line more for each 512 workers
    /// that the pool may have.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::OtherArray`](crate::Error::OtherArray), [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn raw_rwlocks(&self, name: &str, count: u32) -> Result<Locks<ReadWriteLock<M>, M>> {
        self.locks(name, Some(count))
    }

    /// The reader-writer locks of a name, if there are some.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany), [`Error::OtherArray`](crate::Error::OtherArray).
    pub fn existing_raw_rwlocks(&self, name: &str) -> Result<Locks<ReadWriteLock<M>, M>> {
        self.locks(name, None)
    }

    /// Locks and removes the lock of a name, whatever its form. Threads that wait for it, or ask for it later with an
    /// open handle, get [`Error::LockRemoved`](crate::Error::LockRemoved). The name may be given to a new lock at once,
    /// and the entry of the directory to anything.
    ///
    /// Fails if there is no such lock, if another thread removes it first, or if this thread holds it: then use
    /// [`Guard::remove`](sync::Guard::remove).
    ///
    /// Cost: as of [`Pool::map`], an exclusive hold of the lock, the directory's lock, and some round trips.
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::InArray`](crate::Error::InArray),
    /// [`Error::Deadlock`](crate::Error::Deadlock), [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn remove_lock(&self, name: &str) -> Result<()> {
        self.remove_lock_with(name, Timeout::Forever)
    }

    /// The same, with a timeout; [`Error::LockHeld`](crate::Error::LockHeld) if that ended first.
    ///
    /// Cost: as of [`Pool::remove_lock`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::LockHeld`](crate::Error::LockHeld),
    /// [`Error::InArray`](crate::Error::InArray), [`Error::Deadlock`](crate::Error::Deadlock),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn remove_lock_with(&self, name: &str, timeout: Timeout) -> Result<()> {
        removal::remove(self.worker()?, name, timeout)
    }
}
