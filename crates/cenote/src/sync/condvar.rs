//! The condition variable: waiting for what others do under a lock.
//!
//! It is a [event count](crate::pod::instance::event_count) and its count. **Who waits** has the lock. It says in a slot that it waits, says at the event count that it sleeps, unlocks, sleeps until the count is another, and
//! locks again. **Who notifies** notifies: it counts on, and wakes one of those who sleep, or all. Who changes what is waited for under the lock, and notifies after that,
//! is missed by nobody: whoever had looked before had said that it sleeps.
//!
//! **A crash** of one who waits leaves a slot that says so; recovery puts it at rest, and notifies for all, as that one may have been the only one that was woken. Those who
//! sleep look every [`LONGEST`] whether somebody has died. So a notification that dies with the one whom it woke wakes the others at the latest then; at once if anybody
//! watches. A crash of one who notifies, between the count and the system call, leaves sleepers who see the count when their time is over.
//!
//! **In a pod** a ring wakes sleepers of the notifier's own host; others look at the count every [`APART`].

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::guard::{Guard, Release};
use super::held::Handle;
use super::object::Form;
use super::sleep::APART;
use super::wait::Timeout;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::commit::recovery::recover_dead;
use crate::pod::format::slots::Stand;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::{Worker, instance::event_count, names::rename};

/// The longest sleep between two polls for the dead.
const LONGEST: Duration = Duration::from_secs(1);
/// The same of one whose timeout is counted in looks.
const POLL: Duration = Duration::from_millis(1);

/// A condition variable, as one thread has it open.
pub struct Condvar<M: Memory>(Handle<M>);

/// What a wait came to, with the lock again.
pub struct Waited<G> {
    /// The hold of the lock.
    pub guard: G,
    /// Whether it ended because its time was over.
    pub timed_out: bool,
}

impl<M: Memory> Condvar<M> {
    /// Opens the condition variable of a name, or creates it.
    pub fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open_or_create(worker, name, Form::Condvar).map(Self)
    }

    /// Opens the condition variable of a name, if there is one.
    pub fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open(worker, name, Form::Condvar).map(Self)
    }

    /// Unlocks, waits until it is notified, and locks again. It may return without a notification: what is waited for must be looked at again.
    ///
    /// The hold that is returned says whether the lock's last owner died, as any other does.
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

    /// [`Condvar::wait`], but not longer than this; to lock again may take longer.
    pub fn wait_for<'l, L: Release<M>>(
        &self,
        guard: Guard<'l, M, L>,
        time: Duration,
    ) -> Result<Waited<Guard<'l, M, L>>> {
        self.wait_with(guard, Timeout::during(time))
    }

    /// [`Condvar::wait`] as patiently as told.
    pub fn wait_with<'l, L: Release<M>>(
        &self,
        guard: Guard<'l, M, L>,
        timeout: Timeout,
    ) -> Result<Waited<Guard<'l, M, L>>> {
        let (handle, lock) = (&self.0, guard.lock());
        let slot = handle.claim()?;
        let turn = handle.turn(slot).next(Stand::Waiting);
        handle.set_turn(slot, turn);
        let outcome = self.sleep(guard, timeout);
        let guard = lock.lock_again();
        // Only now: who dies before it has the lock again has not taken notice.
        handle.set_turn(slot, turn.to(Stand::Rest));
        handle.release(slot);
        Ok(Waited {
            timed_out: outcome?,
            guard: guard?,
        })
    }

    /// Unlocks, and sleeps until the event count has been notified; whether the time was over before.
    fn sleep<L: Release<M>>(&self, guard: Guard<'_, M, L>, timeout: Timeout) -> Result<bool> {
        let (handle, mem) = (&self.0, self.0.mem());
        let event_count = handle.object.event_count();
        let mut attended = match mutant::is(Mutant::PreparedUnlocked) {
            true => (event_count.offset(), 0),
            false => event_count::prepare_wait(mem, event_count),
        };
        drop(guard);
        crash_point(Point::CondvarUnlocked);
        if mutant::is(Mutant::PreparedUnlocked) {
            attended = event_count::prepare_wait(mem, event_count);
        }
        let notifications = event_count::notifications_of(attended.1);
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
                mem.kernel().wait(&[], &[attended], left.min(longest));
            }
            attended = event_count::prepare_wait(mem, event_count);
            if event_count::notifications_of(attended.1) != notifications {
                return handle.confirm().map(|()| false);
            }
            if left.is_zero() {
                return Ok(true);
            }
            // About: who is woken for nothing has slept for less.
            slept += left.min(longest);
            if slept >= LONGEST {
                slept = Duration::ZERO;
                recover_dead(&handle.worker)?;
            }
        }
    }

    /// Wakes one of those who wait, if somebody does.
    ///
    /// Cost: a load; an exchange and a system call if somebody may wait.
    pub fn notify_one(&self) -> Result<()> {
        self.notify(event_count::notify_one)
    }

    /// Wakes all who wait.
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
        // What was stored under the lock is seen by others before the look at the event count: who waits said that it sleeps under the lock.
        notify_all(handle.mem(), handle.object.event_count());
        Ok(())
    }

    /// Removes the condition variable's name, and the condition variable: who waits gets [`Error::LockRemoved`].
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
