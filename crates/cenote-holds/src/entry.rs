//! One lock, as one thread has it: its handle, and its hold if it has one.
//!
//! **Invariants.** A guard borrows the handle that lies beside it; it goes first. A hold for reading counts how often
//! the thread has asked.

use std::ptr::NonNull;
use std::sync::Arc;

use cenote::locks::{Guard, ReadGuard, ReadWriteLock, Timeout};
use cenote::sync::directory::{DirectoryLock, guard};
use cenote::{Acquired, Coherent, Error};

use crate::cancel::uncancelled;
use crate::deadline::Wait;
use crate::pool::Lock;
use crate::refusal::Refusal;

type Rw = ReadWriteLock<Coherent>;
type Directory = DirectoryLock<Coherent>;

/// What for a lock is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A shared hold.
    Read,
    /// An exclusive hold.
    Write,
}

/// A lock of the library's, opened by a worker.
pub(crate) enum Opened {
    /// A lock alone.
    Rw(Rw),
    /// One with the regions that it covers.
    Directory(Directory),
}

/// A handle whose address does not change.
struct Handle(NonNull<Opened>);

impl Handle {
    fn new(lock: Opened) -> Self {
        Self(NonNull::from(Box::leak(Box::new(lock))))
    }

    /// The handle, for as long as the caller says.
    ///
    /// # Safety
    ///
    /// The reference is not used after `self` is dropped.
    unsafe fn get(&self) -> &'static Opened {
        // SAFETY: it was leaked by `new` and is freed by `drop`; it is only ever shared.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it comes from a box, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A shared hold of the library's.
enum Shared {
    Rw(ReadGuard<'static, Coherent>),
    Directory(guard::ReadGuard<'static, Coherent>),
}

/// An exclusive hold of the library's.
enum Exclusive {
    Rw(Guard<'static, Coherent, Rw>),
    Directory(guard::WriteGuard<'static, Coherent>),
}

impl Shared {
    fn acquired(&self) -> Acquired {
        match self {
            Self::Rw(guard) => guard.acquired(),
            Self::Directory(guard) => guard.acquired(),
        }
    }
}

impl Exclusive {
    fn acquired(&self) -> Acquired {
        match self {
            Self::Rw(guard) => guard.acquired(),
            Self::Directory(guard) => guard.acquired(),
        }
    }

    /// Unlocks so that the next owner is told of this one.
    fn poison(self) {
        match self {
            Self::Rw(guard) => guard.poison(),
            Self::Directory(guard) => guard.poison(),
        }
    }
}

enum Hold {
    Nothing,
    Read {
        guard: Shared,
        times: u32,
    },
    Write {
        guard: Exclusive,
        /// Whether what the lock protects is as a dead owner has left it.
        is_broken: bool,
    },
}

pub(crate) struct Entry {
    // Before the handle: fields are dropped in this order.
    hold: Hold,
    handle: Option<Handle>,
    pub(crate) lock: Arc<Lock>,
}

impl Entry {
    pub(crate) fn new(lock: Arc<Lock>) -> Self {
        Self {
            hold: Hold::Nothing,
            handle: None,
            lock,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.hold, Hold::Nothing)
    }

    /// Uses another handle from now on. Not while it is held.
    pub(crate) fn reopen(&mut self, handle: Opened) {
        self.hold = Hold::Nothing;
        self.handle = Some(Handle::new(handle));
    }

    /// What a thread that has the lock gets if it asks again; `None` if it does not have it.
    #[inline]
    pub(crate) fn again(&mut self, access: Access, wait: Wait) -> Option<Result<Acquired, Refusal>> {
        match &mut self.hold {
            Hold::Nothing => None,
            _ if self.lock.pool().is_forked() => Some(Err(Error::Forked.into())),
            Hold::Read { guard, times } if access == Access::Read => match times.checked_add(1) {
                Some(more) => {
                    *times = more;
                    Some(Ok(guard.acquired()))
                }
                None => Some(Err(Refusal::Exhausted(
                    "this thread reads as often as can be counted",
                ))),
            },
            _ if matches!(wait, Wait::No) => Some(Err(Refusal::Busy)),
            _ => Some(Err(Refusal::Deadlock)),
        }
    }

    /// Takes the lock, which this thread does not have.
    #[inline]
    pub(crate) fn take(&mut self, access: Access, wait: Wait) -> Result<Acquired, Refusal> {
        let Some(handle) = &self.handle else {
            return Err(Refusal::Invalid("the lock is not open"));
        };
        // SAFETY: the guard made of it goes into `self.hold`, which is emptied before the handle is dropped or
        // replaced.
        let lock = unsafe { handle.get() };
        let acquired = match access {
            Access::Read => {
                let guard = read(lock, wait)?;
                let acquired = guard.acquired();
                self.hold = Hold::Read { guard, times: 1 };
                acquired
            }
            Access::Write => {
                let guard = write(lock, wait)?;
                let acquired = guard.acquired();
                let is_broken = acquired != Acquired::Clean;
                self.hold = Hold::Write { guard, is_broken };
                acquired
            }
        };
        Ok(acquired)
    }

    /// Gives one hold up.
    #[inline]
    pub(crate) fn release(&mut self) -> Result<(), Refusal> {
        if let Hold::Read { times, .. } = &mut self.hold
            && *times > 1
        {
            *times -= 1;
            return Ok(());
        }
        match std::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Nothing => return Err(Refusal::NotHeld),
            Hold::Read { guard, .. } => drop(guard),
            Hold::Write { guard, is_broken } => match is_broken {
                true => guard.poison(),
                false => drop(guard),
            },
        }
        Ok(())
    }

    /// Says that what the lock protects is whole again.
    pub(crate) fn mend(&mut self) -> Result<(), Refusal> {
        match &mut self.hold {
            Hold::Write { is_broken, .. } if *is_broken => {
                *is_broken = false;
                Ok(())
            }
            _ => Err(Refusal::Invalid(
                "this thread does not hold the lock for writing after a dead owner",
            )),
        }
    }

    /// Leaves a note for the next owner, should this one die.
    pub(crate) fn note(&self, note: u64) -> Result<(), Refusal> {
        let Hold::Write { guard, .. } = &self.hold else {
            return Err(Refusal::NotHeld);
        };
        match guard {
            Exclusive::Rw(guard) => guard.set_note(note),
            Exclusive::Directory(guard) => guard.set_note(note),
        }
        Ok(())
    }

    /// How the hold was acquired.
    pub(crate) fn acquired(&self) -> Result<Acquired, Refusal> {
        match &self.hold {
            Hold::Nothing => Err(Refusal::NotHeld),
            Hold::Read { guard, .. } => Ok(guard.acquired()),
            Hold::Write { guard, .. } => Ok(guard.acquired()),
        }
    }

    /// Bytes of each region that the lock covers; none of a lock alone.
    pub(crate) fn region_lens(&self) -> Vec<u64> {
        // SAFETY: the reference is dropped here.
        match self.handle.as_ref().map(|handle| unsafe { handle.get() }) {
            Some(Opened::Directory(lock)) => lock.regions().iter().map(|region| region.len).collect(),
            Some(Opened::Rw(_)) | None => Vec::new(),
        }
    }

    /// Where this process has a region of a lock that this thread holds.
    #[inline]
    pub(crate) fn region(&self, region: usize) -> Result<*mut u8, Refusal> {
        // SAFETY: the reference is dropped here.
        let Some(Opened::Directory(lock)) = self.handle.as_ref().map(|handle| unsafe { handle.get() }) else {
            return Err(Refusal::Invalid("the lock covers no regions"));
        };
        if region >= lock.regions().len() {
            return Err(Refusal::Invalid("the lock has not so many regions"));
        }
        match &self.hold {
            Hold::Read {
                guard: Shared::Directory(guard),
                ..
            } => Ok(guard.region(region).pointer(lock.mem())),
            Hold::Write {
                guard: Exclusive::Directory(guard),
                ..
            } => Ok(guard.region(region).pointer(lock.mem())),
            _ => Err(Refusal::NotHeld),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The thread ends with the lock: nobody knows whether it had finished.
        if let Hold::Write { is_broken, .. } = &mut self.hold {
            *is_broken = true;
        }
        while self.release().is_ok() {}
    }
}

#[inline]
fn read(lock: &'static Opened, wait: Wait) -> Result<Shared, Refusal> {
    match lock {
        Opened::Rw(lock) => {
            if matches!(wait, Wait::Forever)
                && let Some(guard) = lock.read_at_once()
            {
                return Ok(Shared::Rw(guard));
            }
            ask(wait, |timeout| lock.read_with(timeout)).map(Shared::Rw)
        }
        Opened::Directory(lock) => ask(wait, |timeout| lock.read_with(timeout)).map(Shared::Directory),
    }
}

#[inline]
fn write(lock: &'static Opened, wait: Wait) -> Result<Exclusive, Refusal> {
    match lock {
        Opened::Rw(lock) => {
            if matches!(wait, Wait::Forever)
                && let Some(guard) = lock.write_at_once()
            {
                return Ok(Exclusive::Rw(guard));
            }
            ask(wait, |timeout| lock.write_with(timeout)).map(Exclusive::Rw)
        }
        Opened::Directory(lock) => ask(wait, |timeout| lock.write_with(timeout)).map(Exclusive::Directory),
    }
}

#[cold]
fn ask<G>(wait: Wait, mut ask: impl FnMut(Timeout) -> cenote::Result<Option<G>>) -> Result<G, Refusal> {
    uncancelled(|| match wait {
        Wait::No => ask(Timeout::None)?.ok_or(Refusal::Busy),
        Wait::Forever => loop {
            if let Some(guard) = ask(Timeout::Forever)? {
                return Ok(guard);
            }
        },
        Wait::Until(deadline) => loop {
            let left = deadline.left();
            let timeout = match left.is_zero() {
                true => Timeout::None,
                false => Timeout::during(left),
            };
            if let Some(guard) = ask(timeout)? {
                return Ok(guard);
            }
            // The clock may have been set back.
            if deadline.left().is_zero() {
                return Err(Refusal::TimedOut);
            }
        },
    })
}
