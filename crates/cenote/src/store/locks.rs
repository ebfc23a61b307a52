//! The locks of a pool, by name.

use std::ops::Deref;

use super::pool::Pool;
use crate::error::Result;
use crate::memory::{Coherent, Memory};
use crate::sync::{self, QueueLock, ReadWriteLock, SpinLock};

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
/// A named reader-writer lock. See [`ReadWriteLock`] for what it can do.
pub type RwLock<M = Coherent> = Named<ReadWriteLock<M>, M>;

impl<M: Memory> Pool<M> {
    fn named<L>(&self, lock: L) -> Named<L, M> {
        Named {
            lock,
            pool: self.clone(),
        }
    }

    /// The mutex of a name, created if there is none. The handle belongs to this thread; each thread opens its own.
    pub fn mutex(&self, name: &str) -> Result<Mutex<M>> {
        Ok(self.named(sync::Mutex::open_or_create(self.worker()?, name)?))
    }

    /// The mutex of a name, if there is one.
    pub fn existing_mutex(&self, name: &str) -> Result<Mutex<M>> {
        Ok(self.named(sync::Mutex::open(self.worker()?, name)?))
    }

    /// The spin lock of a name, created if there is none: for holds of some nanoseconds by threads that have a core each. The handle belongs to
    /// this thread; each thread opens its own.
    pub fn spin_mutex(&self, name: &str) -> Result<SpinMutex<M>> {
        Ok(self.named(SpinLock::open_or_create(self.worker()?, name)?))
    }

    /// The spin lock of a name, if there is one.
    pub fn existing_spin_mutex(&self, name: &str) -> Result<SpinMutex<M>> {
        Ok(self.named(SpinLock::open(self.worker()?, name)?))
    }

    /// The queue lock of a name, created if there is none. The handle belongs to this thread; each thread opens its own.
    pub fn queue_mutex(&self, name: &str) -> Result<QueueMutex<M>> {
        Ok(self.named(QueueLock::open_or_create(self.worker()?, name)?))
    }

    /// The queue lock of a name, if there is one.
    pub fn existing_queue_mutex(&self, name: &str) -> Result<QueueMutex<M>> {
        Ok(self.named(QueueLock::open(self.worker()?, name)?))
    }

    /// The reader-writer lock of a name, created if there is none. The handle belongs to this thread; each thread opens its
    /// own.
    pub fn rwlock(&self, name: &str) -> Result<RwLock<M>> {
        Ok(self.named(ReadWriteLock::open_or_create(self.worker()?, name)?))
    }

    /// The reader-writer lock of a name, if there is one.
    pub fn existing_rwlock(&self, name: &str) -> Result<RwLock<M>> {
        Ok(self.named(ReadWriteLock::open(self.worker()?, name)?))
    }
}
