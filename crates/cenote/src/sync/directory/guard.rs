//! The guards of directory locks. Dropping a guard gives the lock up; the process keeps it until another one asks.

use std::cell::Cell;

use super::layout::Region;
use super::lock::DirectoryLock;
use super::node_handle::Cached;
use crate::memory::checked::guarded;
use crate::memory::{Guarded, Memory};
use crate::pod::instance::crash::{Point, crash_point};
use crate::sync::{Acquired, Guard, Owner, ReadGuard as RwReadGuard, ReadWriteLock};

/// A hold beside others that read.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct ReadGuard<'l, M: Memory> {
    lock: &'l DirectoryLock<M>,
    hold: ReadHold<'l, M>,
}

/// A hold of one thread alone.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct WriteGuard<'l, M: Memory> {
    lock: &'l DirectoryLock<M>,
    hold: WriteHold<'l, M>,
}

/// How a lock is held to read.
pub(super) enum ReadHold<'l, M: Memory> {
    Coherent(RwReadGuard<'l, M>),
    /// With the identity of who died writing, or 0.
    Cached(&'l Cached<M>, u64),
}

/// How a lock is held to write.
pub(super) enum WriteHold<'l, M: Memory> {
    Coherent(Guard<'l, M, ReadWriteLock<M>>),
    Cached(CachedHold<'l, M>),
}

/// An exclusive hold of a lock that processes cache.
pub(super) struct CachedHold<'l, M: Memory> {
    lock: &'l Cached<M>,
    /// What the hold began with: the note may be this owner's own later.
    acquired: Acquired,
    /// Whether the note may not be 0.
    noted: Cell<bool>,
}

impl<'l, M: Memory> WriteHold<'l, M> {
    pub(super) fn cached(lock: &'l Cached<M>, former: u64) -> Self {
        let noted = Cell::new(former != 0);
        let acquired = acquired(lock, former);
        Self::Cached(CachedHold {
            lock,
            acquired,
            noted,
        })
    }
}

fn acquired<M: Memory>(lock: &Cached<M>, former: u64) -> Acquired {
    match former {
        0 => Acquired::Clean,
        from => Acquired::Recovered {
            from: Owner::of(from),
            // PAIRS WITH: sync::directory::guard::WriteGuard::set_note, sync::directory::guard::CachedHold::drop
            note: lock.cohort.layout.note().load(lock.worker.mem()),
        },
    }
}

impl<'l, M: Memory> ReadGuard<'l, M> {
    #[inline]
    pub(super) fn new(lock: &'l DirectoryLock<M>, hold: ReadHold<'l, M>) -> Self {
        Self { lock, hold }
    }

    /// Whether the last thread that wrote has unlocked. If it died, all are told until another one has written, and
    /// unlocked.
    pub fn acquired(&self) -> Acquired {
        match &self.hold {
            ReadHold::Coherent(guard) => guard.acquired(),
            ReadHold::Cached(lock, former) => acquired(lock, *former),
        }
    }

    /// A region, counted from 0.
    #[inline]
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn region(&self, region: usize) -> Guarded {
        let Region { offset, len } = self.lock.regions[region];
        guarded(offset, len)
    }

    /// A word of a region, which is counted from 0, at a multiple of 8 within it.
    pub fn word(&self, region: usize, at: u64) -> u64 {
        self.region(region).read_word(self.lock.worker.mem(), at)
    }
}

impl<'l, M: Memory> WriteGuard<'l, M> {
    #[inline]
    pub(super) fn new(lock: &'l DirectoryLock<M>, hold: WriteHold<'l, M>) -> Self {
        crash_point(Point::DirectoryHeld);
        Self { lock, hold }
    }

    /// Whether the last thread that wrote has unlocked, or who died instead. On incoherent memory a process that dies
    /// while it keeps the lock counts as one that died writing, even if none of its threads was: what they had written
    /// may not have left its host's cache.
    pub fn acquired(&self) -> Acquired {
        match &self.hold {
            WriteHold::Coherent(guard) => guard.acquired(),
            WriteHold::Cached(hold) => hold.acquired,
        }
    }

    /// A region, counted from 0.
    #[inline]
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn region(&self, region: usize) -> Guarded {
        let Region { offset, len } = self.lock.regions[region];
        guarded(offset, len)
    }

    /// All regions, in their order.
    pub(crate) fn regions(&self) -> impl Iterator<Item = Guarded> + use<'l, M> {
        let regions = &self.lock.regions;
        regions.iter().map(|region| guarded(region.offset, region.len))
    }

    /// A word of a region, which is counted from 0, at a multiple of 8 within it.
    pub fn word(&self, region: usize, at: u64) -> u64 {
        self.region(region).read_word(self.lock.worker.mem(), at)
    }

    /// Panics in a forked child: it has a copy of the guard, and not the lock.
    #[inline]
    pub(crate) fn refuse_forked(&self) {
        assert!(
            !self.lock.worker.is_forked(),
            "a forked child has not got the lock that its parent's guard is of"
        );
    }

    /// Sets a word of a region. Does nothing in a forked child.
    pub fn set_word(&mut self, region: usize, at: u64, value: u64) {
        if self.lock.worker.is_forked() {
            return;
        }
        self.region(region).write_word(self.lock.worker.mem(), at, value);
    }

    /// Leaves a note: one word about what this thread is doing. If it dies, its successor gets the note.
    ///
    /// Cost: a store; a second one in the unlock.
    pub fn set_note(&self, note: u64) {
        match &self.hold {
            WriteHold::Coherent(guard) => guard.set_note(note),
            WriteHold::Cached(CachedHold { lock, noted, .. }) if !lock.worker.is_forked() => {
                noted.set(true);
                // PAIRS WITH: sync::directory::guard::acquired
                lock.cohort.layout.note().store(lock.worker.mem(), note);
            }
            WriteHold::Cached(_) => {}
        }
    }

    /// Unlocks as a death would: the next owner is told of this one, with the note as it is. For an owner that was told
    /// of a death, and leaves the data as it found them.
    pub fn poison(self) {
        match self.hold {
            WriteHold::Coherent(guard) => guard.poison(),
            WriteHold::Cached(hold) => {
                hold.lock.release(Some(hold.lock.worker.identity()));
                std::mem::forget(hold);
            }
        }
    }

    /// Draws a fencing token: a number greater than all that were drawn under this lock before. 0 in a forked child.
    ///
    /// Cost: a load and a store.
    pub fn fencing_token(&self) -> u64 {
        match &self.hold {
            WriteHold::Coherent(guard) => guard.fencing_token(),
            WriteHold::Cached(hold) if hold.lock.worker.is_forked() => 0,
            WriteHold::Cached(CachedHold { lock, .. }) => {
                let (mem, token) = (lock.worker.mem(), lock.cohort.layout.token());
                let drawn = token.load(mem).wrapping_add(1);
                // NO PAIR: count
                token.store(mem, drawn);
                drawn
            }
        }
    }
}

impl<M: Memory> Drop for ReadHold<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if let Self::Cached(lock, _) = self {
            lock.release(None);
        }
    }
}

impl<M: Memory> Drop for CachedHold<'_, M> {
    #[inline]
    fn drop(&mut self) {
        let Self { lock, noted, .. } = self;
        let worker = &lock.worker;
        if std::thread::panicking() {
            return lock.release(Some(worker.identity()));
        }
        if noted.get() && !worker.is_forked() {
            // PAIRS WITH: sync::directory::guard::acquired
            lock.cohort.layout.note().store(worker.mem(), 0);
        }
        lock.release(Some(0));
    }
}
