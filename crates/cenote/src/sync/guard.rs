//! The guards of locks that are held. Dropping a guard unlocks.
//!
//! The guard writes the note; the lock's own form writes the rest. **A crash** while the lock is held leaves the note
//! as it was set last. A clean unlock sets it to 0 before it gives up the lock; a crash between the two leaves a dead
//! owner without a note.

use std::cell::Cell;
use std::marker::PhantomData;

use super::Acquired;
use super::held::Handle;
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::instance::crash::{Point, crash_point};

/// How to release a form of lock. Implemented by the forms of this module alone.
pub trait Release<M: Memory> {
    /// The part common to all forms.
    fn handle(&self) -> &Handle<M>;

    /// Releases an exclusive hold; if `poisoned`, the next owner is told of this one.
    fn unlock(&self, slot: usize, poisoned: bool);

    /// Waits for an exclusive hold.
    fn lock_again(&self) -> Result<Guard<'_, M, Self>>
    where
        Self: Sized;

    /// Releases an exclusive hold of a lock that was removed, and that is in this incarnation from now on.
    fn unlock_removed(&self, slot: usize, incarnation: u64);
}

/// An exclusive hold of a lock of the form `L`.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct Guard<'l, M: Memory, L: Release<M>> {
    lock: &'l L,
    slot: usize,
    /// Whether the last owner died; the handle says which.
    recovered: bool,
    /// Whether the note may not be 0.
    noted: Cell<bool>,
    of: PhantomData<M>,
}

impl<'l, M: Memory, L: Release<M>> Guard<'l, M, L> {
    /// A hold of a lock whose last owner has unlocked.
    #[inline]
    pub(super) fn clean(lock: &'l L, slot: usize) -> Self {
        crash_point(Point::HeldTaken);
        Self {
            lock,
            slot,
            recovered: false,
            noted: Cell::new(false),
            of: PhantomData,
        }
    }

    /// A hold of a lock whose last owner has died, if there is one.
    pub(super) fn new(lock: &'l L, slot: usize, from: Option<u64>) -> Self {
        let mut guard = Self::clean(lock, slot);
        if let Some(from) = from {
            let handle = lock.handle();
            let acquired = notified(handle, from);
            handle.notified.set(acquired);
            guard.recovered = acquired != Acquired::Clean;
            guard.noted.set(guard.recovered);
        }
        guard
    }

    pub(super) fn lock(&self) -> &'l L {
        self.lock
    }

    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// How this owner acquired the lock.
    pub fn acquired(&self) -> Acquired {
        match self.recovered {
            true => self.lock.handle().notified.get(),
            false => Acquired::Clean,
        }
    }

    /// Leaves a note: one word, of the caller's choice, about what it is doing. If this owner dies, the next one gets
    /// the note.
    ///
    /// Cost: a store; a second one in the unlock.
    pub fn set_note(&self, note: u64) {
        let handle = self.lock.handle();
        if !handle.is_forked() {
            self.noted.set(true);
            // PAIRS WITH: sync::guard::notified
            handle.object.note().store(handle.mem(), note);
            crash_point(Point::HeldNoted);
        }
    }
}

impl<M: Memory, L: Release<M>> Guard<'_, M, L> {
    /// Unlocks as a death would: the next owner is told of this one, with the note as it is. For an owner that was told
    /// of a death, and leaves what the lock protects as it found it.
    pub fn poison(self) {
        if !self.lock.handle().is_forked() {
            end(self.lock, self.slot, self.noted.get(), true);
        }
        std::mem::forget(self);
    }

    /// Draws a fencing token: a number greater than all that were drawn under this lock before. A service outside the
    /// pool that refuses a lower token than it has seen is safe from an owner that was taken for dead, on a host that
    /// was fenced. 0 in a forked child.
    ///
    /// Cost: a load and a store.
    pub fn fencing_token(&self) -> u64 {
        let handle = self.lock.handle();
        if handle.is_forked() {
            return 0;
        }
        let (mem, token) = (handle.mem(), handle.object.token());
        let drawn = token.load(mem).wrapping_add(1);
        // NO PAIR: count
        token.store(mem, drawn);
        drawn
    }
}

/// What the successor of a dead owner is told. The successor has the lock, so the note does not change.
#[cold]
pub(super) fn notified<M: Memory>(handle: &Handle<M>, from: u64) -> Acquired {
    crash_point(Point::HeldSeized);
    if mutant::is(Mutant::SuccessorNotNotified) {
        return Acquired::Clean;
    }
    Acquired::Recovered {
        from: super::Owner::of(from),
        // PAIRS WITH: sync::guard::set_note, sync::guard::end
        note: handle.object.note().load(handle.mem()),
    }
}

impl<M: Memory, L: Release<M>> Drop for Guard<'_, M, L> {
    #[inline]
    fn drop(&mut self) {
        let handle = self.lock.handle();
        if handle.is_forked() {
            return;
        }
        let poisoned = std::thread::panicking();
        if poisoned || self.noted.get() {
            return end(self.lock, self.slot, self.noted.get(), poisoned);
        }
        self.lock.unlock(self.slot, false);
    }
}

/// Ends a hold that left a note, or that a panic ends. Takes the guard's parts, so that the guard need not be in
/// memory.
#[cold]
#[inline(never)]
fn end<M: Memory, L: Release<M>>(lock: &L, slot: usize, noted: bool, poisoned: bool) {
    let handle = lock.handle();
    if noted && !poisoned && !mutant::is(Mutant::NoteKept) {
        // PAIRS WITH: sync::guard::notified
        handle.object.note().store(handle.mem(), 0);
        crash_point(Point::HeldForgotten);
    }
    lock.unlock(slot, poisoned);
}

/// A shared hold of a lock.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct ReadGuard<'l, M: Memory> {
    lock: &'l super::ReadWriteLock<M>,
    /// The slot, and [`RECOVERED`] if the last exclusive owner died; the handle says which. Two words in all, so that a
    /// guard stays in registers: written to memory field by field and read back as a whole, it costs three times what
    /// the lock does.
    slot: usize,
}

/// Marks a read guard's slot.
const RECOVERED: usize = 1 << 32;

impl<'l, M: Memory> ReadGuard<'l, M> {
    /// A hold of a lock whose last exclusive owner has unlocked.
    #[inline]
    pub(super) fn clean(lock: &'l super::ReadWriteLock<M>, slot: usize) -> Self {
        Self { lock, slot }
    }

    /// A hold of a lock whose last exclusive owner has died, if there is one.
    pub(super) fn new(lock: &'l super::ReadWriteLock<M>, slot: usize, from: Option<u64>) -> Self {
        let handle = lock.handle();
        let acquired = from.map_or(Acquired::Clean, |from| notified(handle, from));
        handle.notified.set(acquired);
        match acquired {
            Acquired::Clean => Self::clean(lock, slot),
            Acquired::Recovered { .. } => Self::clean(lock, slot | RECOVERED),
        }
    }

    /// Whether the last exclusive owner has unlocked. If it died, all readers are told until an exclusive owner has
    /// repaired what the lock protects, and unlocked.
    pub fn acquired(&self) -> Acquired {
        match self.slot & RECOVERED {
            0 => Acquired::Clean,
            _ => self.lock.handle().notified.get(),
        }
    }

    /// The last fencing token that was drawn under this lock. Later ones are greater.
    ///
    /// Cost: a load.
    pub fn fencing_token(&self) -> u64 {
        let handle = self.lock.handle();
        handle.object.token().load(handle.mem())
    }
}

impl<M: Memory> Drop for ReadGuard<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock_shared(self.slot & !RECOVERED);
    }
}
