//! The condition variable: waiting for what others do under a lock.
//!
//! It is an [event count](crate::pod::instance::event_count). **The waiter** has the lock. It says in a slot that it
//! waits, prepares to wait on the event count, unlocks, sleeps until the count is another, and locks again. **The
//! notifier** increments the count, and wakes one of the sleepers, or all. No waiter misses a notifier that changes the
//! condition under the lock and notifies after that: a waiter that read the condition before the change had prepared to
//! wait.
//!
//! **A crash** of a waiter leaves a slot that says so. Recovery puts it at rest, and notifies all, as the dead waiter
//! may have been the only one that was woken. Sleepers check for deaths every [`LONGEST`]. So if a notification dies
//! with the waiter that it woke, the others wake then at the latest; at once if anybody watches. A crash of a notifier
//! between the count and the system call leaves sleepers that see the count when their time is over.
//!
//! **In a pod** a notification wakes sleepers of the notifier's own host; others poll the count every [`APART`].

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::guard::{Guard, Release};
use super::held::Handle;
use super::object::LockKind;
use super::sleep::APART;
use super::wait::Timeout;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::commit::recovery::recover_dead;
use crate::pod::format::lock_slots::SlotState;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::{Worker, instance::event_count, names::rename};

/// The longest sleep between two checks for deaths.
const LONGEST: Duration = Duration::from_secs(1);
/// The longest sleep of a waiter whose timeout is counted in polls.
const POLL: Duration = Duration::from_millis(1);

/// A condition variable, as one thread has it open.
pub struct Condvar<M: Memory>(Handle<M>);

/// The result of a wait, with the lock held again.
pub struct Waited<G> {
    /// The hold of the lock.
    pub guard: G,
    /// Whether the wait ended because its time was over.
    pub has_timed_out: bool,
}

impl<M: Memory> Condvar<M> {
    /// Opens the condition variable of a name, or creates it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open_or_create(worker, name, LockKind::Condvar).map(Self)
    }

    /// Opens the condition variable of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open(worker, name, LockKind::Condvar).map(Self)
    }

    /// Unlocks, waits for a notification, and locks again. It may return without a notification: the caller must check
    /// its condition again.
    ///
    /// The returned guard says whether the lock's last owner died, as any other does.
    ///
    /// Cost: an unlock, some loads and stores, two system calls, a lock.
    ///
    /// # Errors
    ///
    /// If the condition variable or the lock was removed, or this is a forked child; the lock is unlocked then.
    pub fn wait<'l, L: Release<M>>(&self, guard: Guard<'l, M, L>) -> Result<Guard<'l, M, L>> {
        Ok(self.wait_with(guard, Timeout::Forever)?.guard)
    }

    /// [`Condvar::wait`] as long as a condition is true.
    ///
    /// Errors: [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn wait_while<'l, L: Release<M>>(
        &self,
        mut guard: Guard<'l, M, L>,
        mut condition: impl FnMut() -> bool,
    ) -> Result<Guard<'l, M, L>> {
        while condition() {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// [`Condvar::wait`], for this long at most; locking again may take longer.
    ///
    /// Errors: [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn wait_for<'l, L: Release<M>>(
        &self,
        guard: Guard<'l, M, L>,
        time: Duration,
    ) -> Result<Waited<Guard<'l, M, L>>> {
        self.wait_with(guard, Timeout::during(time))
    }

    /// [`Condvar::wait`] until a timeout ends.
    ///
    /// Errors: [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn wait_with<'l, L: Release<M>>(
        &self,
        guard: Guard<'l, M, L>,
        timeout: Timeout,
    ) -> Result<Waited<Guard<'l, M, L>>> {
        let (handle, lock) = (&self.0, guard.lock());
        let slot = handle.claim()?;
        let turn = handle.turn(slot).next(SlotState::Waiting);
        handle.set_turn(slot, turn);
        let outcome = self.sleep(guard, timeout);
        let guard = lock.lock_again();
        // Only now: a waiter that dies before it has the lock again has not used its notification.
        handle.set_turn(slot, turn.to(SlotState::Rest));
        handle.release(slot);
        Ok(Waited {
            has_timed_out: outcome?,
            guard: guard?,
        })
    }

    /// Prepares to wait, and unlocks after that. Returns what was prepared.
    fn prepare_and_unlock<L: Release<M>>(&self, guard: Guard<'_, M, L>) -> (u64, u32) {
        let (mem, event_count) = (self.0.mem(), self.0.object.event_count());
        let unlock = || {
            drop(guard);
            crash_point(Point::CondvarUnlocked);
        };
        if mutant::is(Mutant::PreparedUnlocked) {
            unlock();
            return event_count::prepare_wait(mem, event_count);
        }
        let prepared = event_count::prepare_wait(mem, event_count);
        unlock();
        prepared
    }

    /// Unlocks, and sleeps until the event count is notified. Returns whether the time was over first.
    fn sleep<L: Release<M>>(&self, guard: Guard<'_, M, L>, timeout: Timeout) -> Result<bool> {
        let (handle, mem) = (&self.0, self.0.mem());
        let event_count = handle.object.event_count();
        let mut prepared = self.prepare_and_unlock(guard);
        let notifications = event_count::notifications_of(prepared.1);
        let longest = match handle.worker.pod().is_in_pod() {
            true => APART,
            false => LONGEST,
        };
        let (mut polls, mut slept) = (0u32, Duration::ZERO);
        loop {
            handle.confirm()?;
            let left = match timeout {
                Timeout::None => Duration::ZERO,
                Timeout::Until(end) => end.saturating_duration_since(Instant::now()),
                Timeout::Polls(most) if polls > most => Duration::ZERO,
                Timeout::Polls(_) => POLL,
                Timeout::Forever => Duration::MAX,
            };
            polls += 1;
            if !left.is_zero() {
                mem.kernel().wait(&[], &[prepared], left.min(longest));
            }
            prepared = event_count::prepare_wait(mem, event_count);
            if event_count::notifications_of(prepared.1) != notifications {
                return handle.confirm().map(|()| false);
            }
            if left.is_zero() {
                return Ok(true);
            }
            // An estimate: a thread that was woken for nothing has slept for less.
            slept += left.min(longest);
            if slept >= LONGEST {
                slept = Duration::ZERO;
                recover_dead(&handle.worker)?;
            }
        }
    }

    /// Wakes one waiter, if there is one.
    ///
    /// Cost: a load; an exchange and a system call if a thread may wait.
    pub fn notify_one(&self) -> Result<()> {
        self.notify(event_count::notify_one)
    }

    /// Wakes all waiters.
    ///
    /// Cost: as [`Condvar::notify_one`].
    pub fn notify_all(&self) -> Result<()> {
        self.notify(event_count::notify_waiting)
    }

    fn notify(&self, notify_all: impl FnOnce(&M, crate::memory::SyncWord)) -> Result<()> {
        let handle = &self.0;
        if handle.is_forked() {
            return Err(Error::Forked);
        }
        // What was stored under the lock is visible before this reads the event count: a waiter prepares its wait under
        // the lock.
        notify_all(handle.mem(), handle.object.event_count());
        Ok(())
    }

    /// Removes the condition variable and its name. Waiters get [`Error::LockRemoved`].
    ///
    /// Errors: [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn remove(self) -> Result<()> {
        let handle = &self.0;
        if handle.is_forked() {
            return Err(Error::Forked);
        }
        let (object, incarnation) = handle.identity();
        rename::remove(&handle.worker, object, incarnation, |_| {
            event_count::notify_all(handle.mem(), handle.object.event_count());
        })
    }
}
