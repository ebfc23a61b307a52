//! One lock, as one thread has it: its handle, and its hold if it has one.
//!
//! **Invariants.** A guard borrows the handle that lies beside it; it goes first. A hold for reading counts how often the thread has asked.

use std::ptr::NonNull;
use std::sync::Arc;

use cenote::locks::{Guard, ReadGuard, ReadWriteLock, Timeout};
use cenote::{Acquired, Coherent, Error};

use crate::deadline::Wait;
use crate::pool::Lock;
use crate::refusal::Refusal;

type Rw = ReadWriteLock<Coherent>;

/// What for a lock is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A shared hold.
    Read,
    /// An exclusive hold.
    Write,
}

/// A handle whose address does not change.
struct Handle(NonNull<Rw>);

impl Handle {
    fn new(lock: Rw) -> Self {
        Self(NonNull::from(Box::leak(Box::new(lock))))
    }

    /// The handle, for as long as the caller says.
    ///
    /// # Safety
    ///
    /// The reference is not used after `self` is dropped.
    unsafe fn get(&self) -> &'static Rw {
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

enum Hold {
    Nothing,
    Read {
        guard: ReadGuard<'static, Coherent>,
        times: u32,
    },
    Write {
        guard: Guard<'static, Coherent, Rw>,
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
    pub(crate) fn reopen(&mut self, handle: Rw) {
        self.hold = Hold::Nothing;
        self.handle = Some(Handle::new(handle));
    }

    /// What a thread that has the lock gets if it asks again; `None` if it does not have it.
    #[inline]
    pub(crate) fn again(&mut self, access: Access, wait: Wait) -> Option<Result<Acquired, Refusal>> {
        match &mut self.hold {
            Hold::Nothing => None,
            _ if self.lock.pool().is_forked() => Some(Err(Error::Forked.into())),
            Hold::Read { guard, times } if access == Access::Read => {
                *times += 1;
                Some(Ok(guard.acquired()))
            }
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
        // SAFETY: the guard made of it goes into `self.hold`, which is emptied before the handle is dropped or replaced.
        let lock = unsafe { handle.get() };
        let acquired = match access {
            Access::Read => {
                let guard = ask(wait, |timeout| match timeout {
                    Timeout::Forever => lock.read().map(Some),
                    timeout => lock.read_with(timeout),
                })?;
                let acquired = guard.acquired();
                self.hold = Hold::Read { guard, times: 1 };
                acquired
            }
            Access::Write => {
                let guard = ask(wait, |timeout| match timeout {
                    Timeout::Forever => lock.write().map(Some),
                    timeout => lock.write_with(timeout),
                })?;
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
                true => guard.abandon(),
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
        match &self.hold {
            Hold::Write { guard, .. } => {
                guard.set_note(note);
                Ok(())
            }
            _ => Err(Refusal::NotHeld),
        }
    }

    /// How the hold was acquired.
    pub(crate) fn acquired(&self) -> Result<Acquired, Refusal> {
        match &self.hold {
            Hold::Nothing => Err(Refusal::NotHeld),
            Hold::Read { guard, .. } => Ok(guard.acquired()),
            Hold::Write { guard, .. } => Ok(guard.acquired()),
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

fn ask<G>(wait: Wait, mut ask: impl FnMut(Timeout) -> cenote::Result<Option<G>>) -> Result<G, Refusal> {
    match wait {
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
    }
}
