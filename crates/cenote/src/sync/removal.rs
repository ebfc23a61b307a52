//! Removed lock names, and locks that get another name: what becomes of the lock's own words.
//!
//! **State.** The lock's count of [incarnations](crate::pod::names::rename) says whether it has a name, and which
//! handles are for it. **Removing.** The owner increments the count, then sets the word free in the new incarnation, or
//! leaves the queue of a queue lock. A handle of the old incarnation does not take that for a free lock. **Making
//! ready** for the next name resets the word, if nobody alive has it; of a semaphore the words of all permits; the
//! notes; and the queue, if nobody alive stands in it. Living workers in it leave.
//!
//! **A crash** of the remover before it has incremented the count leaves an owner that died; after that, a lock without
//! a name whose word names the dead owner, or in whose queue it stands. The worker that makes the lock ready frees the
//! word, and goes past the dead slot. Each step may be repeated: nobody has a handle of the incarnation to come.

use std::rc::Rc;

use super::guard::{Guard, Release};
use super::object::{LockKind, Object};
use super::wait::Timeout;
use super::{Condvar, Mutex, QueueLock, ReadWriteLock, Semaphore, SpinLock};
use crate::causes::{Found, Structure};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::names::directory::{self, KIND_DIRECTORY_LOCK, KIND_LOCK, KIND_LOCKS};
use crate::pod::{Worker, names::rename};

impl<M: Memory, L: Release<M>> Guard<'_, M, L> {
    /// Removes the lock and its name. All open handles fail with [`Error::LockRemoved`] from then on, also those of
    /// waiters. If this fails, the lock is unlocked.
    ///
    /// Cost: an unlock, under the directory's lock, and a compare-exchange.
    ///
    /// Errors: [`Error::LockRemoved`](crate::Error::LockRemoved), [`Error::InArray`](crate::Error::InArray).
    pub fn remove(self) -> Result<()> {
        let (lock, slot) = (self.lock(), self.slot());
        let handle = lock.handle();
        if handle.is_forked() {
            return Err(Error::Forked);
        }
        let (object, incarnation) = handle.identity();
        if incarnation == 0 {
            return Err(Error::InArray);
        }
        rename::remove(&handle.worker, object, incarnation, |count| {
            lock.unlock_removed(slot, count);
        })?;
        std::mem::forget(self);
        Ok(())
    }
}

/// Acquires the lock of a name and removes it; [`Error::LockHeld`] if the timeout ended first. A semaphore and a
/// condition variable are removed at once. It does not matter whether the last owner died.
pub fn remove<M: Memory>(worker: Rc<Worker<M>>, name: &str, timeout: Timeout) -> Result<()> {
    let absent = || Error::NoSuch {
        kind: Structure::Lock,
        name: name.to_owned(),
    };
    let found = directory::find(&*worker, name)?.ok_or_else(absent)?;
    match found.kind {
        KIND_LOCK => {}
        KIND_LOCKS => return Err(Error::InArray),
        KIND_DIRECTORY_LOCK => {
            return Err(Error::OtherKind {
                kind: Found::Is(Structure::DirectoryLock),
                name: found.name,
            });
        }
        _ => return Err(absent()),
    }
    let held = || Error::LockHeld {
        name: name.to_owned(),
    };
    match Object::at(&worker, found.offset)?.kind() {
        LockKind::Spin => {
            let lock = SpinLock::open(worker, name)?;
            lock.lock_with(timeout)?.ok_or_else(held)?.remove()
        }
        LockKind::Mutex => {
            let lock = Mutex::open(worker, name)?;
            lock.lock_with(timeout)?.ok_or_else(held)?.remove()
        }
        LockKind::Queue => {
            let lock = QueueLock::open(worker, name)?;
            let guard = match timeout {
                Timeout::None => lock.try_lock()?,
                _ => lock.lock_with(timeout)?,
            };
            guard.ok_or_else(held)?.remove()
        }
        LockKind::Semaphore => Semaphore::open(worker, name)?.remove(),
        LockKind::Condvar => Condvar::open(worker, name)?.remove(),
        LockKind::Rw => {
            let lock = ReadWriteLock::open(worker, name)?;
            lock.write_with(timeout)?.ok_or_else(held)?.remove()
        }
        LockKind::Directory => Err(absent()),
    }
}
