//! The handle of threads on a lock of a directory, and its guards. Dropping a guard gives the lock up; the node keeps it, with its data, until another one asks.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use super::message::{LockId, Session};
use super::remote::{NodeState, RemoteError, RemoteNode, Shared};
use crate::sync::directory::cohort::Step;
use crate::sync::directory::queue::Permission;
use crate::sync::{Acquired, Timeout};

/// A lock of a directory. Threads share one handle, or have one each.
///
/// Cost of getting a lock that the node has, if no other one asks for it: a mutex of the process. Else a round trip to the directory, and the wait for the nodes that have the lock.
pub struct RemoteLock {
    lock: LockId,
    shared: Arc<Shared>,
}

/// A hold beside others that read.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RemoteReadGuard<'l> {
    hold: Hold<'l>,
    data: Arc<Vec<u8>>,
}

/// A hold of one thread alone.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RemoteWriteGuard<'l> {
    hold: Hold<'l>,
    /// Nothing else refers to it.
    data: Arc<Vec<u8>>,
}

struct Hold<'l> {
    lock: &'l RemoteLock,
    thread: u64,
    former: Option<Session>,
}

impl RemoteLock {
    /// A lock of the node's directory. Whether there is one of this name is seen when it is asked for.
    pub fn new(node: &RemoteNode, lock: LockId) -> Self {
        Self {
            lock,
            shared: node.shared(),
        }
    }

    /// Waits until no other thread of any node writes.
    ///
    /// Errors: [`RemoteError`].
    pub fn read(&self) -> Result<RemoteReadGuard<'_>, RemoteError> {
        loop {
            if let Some(guard) = self.read_with(Timeout::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Waits until no other thread of any node reads or writes.
    ///
    /// Errors: [`RemoteError`].
    pub fn write(&self) -> Result<RemoteWriteGuard<'_>, RemoteError> {
        loop {
            if let Some(guard) = self.write_with(Timeout::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// [`RemoteLock::read`], until a timeout ends. The node gets what it has asked for all the same, for the next thread that asks. There is a clock, so
    /// [`Timeout::Polls`] is not to wait.
    pub fn read_with(&self, timeout: Timeout) -> Result<Option<RemoteReadGuard<'_>>, RemoteError> {
        let take = |state: &mut NodeState| state.client.copy(self.lock).map(|copy| copy.data().clone());
        let acquired = self.acquire(Permission::Shared, timeout, take)?;
        Ok(acquired.map(|(hold, data)| RemoteReadGuard { hold, data }))
    }

    /// [`RemoteLock::write`], until a timeout ends, as with [`RemoteLock::read_with`].
    pub fn write_with(&self, timeout: Timeout) -> Result<Option<RemoteWriteGuard<'_>>, RemoteError> {
        let take = |state: &mut NodeState| {
            let (data, _) = state.client.written(self.lock)?;
            Some(std::mem::replace(data, nothing()))
        };
        let acquired = self.acquire(Permission::Exclusive, timeout, take)?;
        Ok(acquired.map(|(hold, mut data)| {
            // If a message refers to it too, it is copied here.
            Arc::make_mut(&mut data);
            RemoteWriteGuard { hold, data }
        }))
    }

    fn acquire<T>(
        &self,
        wants: Permission,
        timeout: Timeout,
        take: impl Fn(&mut NodeState) -> Option<T>,
    ) -> Result<Option<(Hold<'_>, T)>, RemoteError> {
        let (lock, thread) = (self.lock, this_thread());
        if self.shared.is_forked() {
            return Err(RemoteError::Forked);
        }
        let mut state = self.shared.state();
        let is_cut_off = state.is_cut_off();
        let local = state.locals.entry(lock).or_default();
        if local.is_used_by(thread) {
            return Err(RemoteError::Deadlock);
        }
        let hold = |state: &NodeState| Hold {
            lock: self,
            thread,
            former: state.client.copy(lock).and_then(|copy| copy.former()),
        };
        if local.is_open(wants) && !is_cut_off {
            local.enter(thread, wants);
            let taken = take(&mut state);
            return Ok(taken.map(|taken| (hold(&state), taken)));
        }
        local.wait(thread, wants);
        state.ask_again(lock, wants);
        let outcome = loop {
            state.drive(lock);
            if state.is_cut_off() {
                break Err(RemoteError::CutOff);
            }
            if state.is_missing(lock) {
                break Err(RemoteError::NoSuchLock(lock));
            }
            let local = state.locals.entry(lock).or_default();
            if local.enter_in_turn(thread) {
                break Ok(true);
            }
            let longest = match timeout {
                Timeout::Forever => None,
                Timeout::Until(moment) => Some(moment.saturating_duration_since(Instant::now())),
                Timeout::None | Timeout::Polls(_) => break Ok(false),
            };
            let changed = &self.shared.changed;
            state = match longest {
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(longest) if longest.is_zero() => break Ok(false),
                Some(longest) => match changed.wait_timeout(state, longest) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                },
            };
        };
        if !matches!(outcome, Ok(true)) {
            state.locals.entry(lock).or_default().withdraw(thread);
        }
        let taken = match outcome {
            Ok(true) => take(&mut state),
            _ => None,
        };
        let hold = hold(&state);
        // The next one may share the lock, or it is the node's turn to give it up.
        state.drive(lock);
        drop(state);
        self.shared.changed.notify_all();
        outcome?;
        Ok(taken.map(|taken| (hold, taken)))
    }
}

impl Hold<'_> {
    fn acquired(&self) -> Acquired {
        match self.former {
            None => Acquired::Clean,
            Some(session) => Acquired::Recovered {
                from: session.owner(),
                note: 0,
            },
        }
    }

    fn end(&mut self, written: Option<Arc<Vec<u8>>>) {
        let (shared, lock) = (&self.lock.shared, self.lock.lock);
        if shared.is_forked() {
            return;
        }
        let mut state = shared.state();
        let session = state.client.session();
        if let (Some(written), Some((data, former))) = (written, state.client.written(lock)) {
            *data = written;
            *former = std::thread::panicking().then_some(session);
        }
        let local = state.locals.entry(lock).or_default();
        local.leave(self.thread);
        if local.next_step(false) == Step::Nothing && !local.is_wanted() {
            return;
        }
        state.drive(lock);
        drop(state);
        shared.changed.notify_all();
    }
}

impl RemoteReadGuard<'_> {
    /// Whether the last thread that wrote has unlocked. If its node died, or it panicked, all are told until another one has written, and unlocked. The owner
    /// that is named is the node's number and session.
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }
}

impl RemoteWriteGuard<'_> {
    /// Whether the last thread that wrote has unlocked, or which node died instead, or panicked. A node that dies while it keeps the lock counts as one that
    /// died writing, even if none of its threads was: what they had written is lost with it.
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }
}

impl Deref for RemoteReadGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.data
    }
}

impl Deref for RemoteWriteGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.data
    }
}

impl DerefMut for RemoteWriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.data).as_mut_slice()
    }
}

impl Drop for RemoteReadGuard<'_> {
    fn drop(&mut self) {
        // The next writer of the node need not copy.
        self.data = nothing();
        self.hold.end(None);
    }
}

impl Drop for RemoteWriteGuard<'_> {
    fn drop(&mut self) {
        let data = std::mem::replace(&mut self.data, nothing());
        self.hold.end(Some(data));
    }
}

/// Stands where data was taken away.
fn nothing() -> Arc<Vec<u8>> {
    static NOTHING: LazyLock<Arc<Vec<u8>>> = LazyLock::new(Arc::default);
    NOTHING.clone()
}

/// A number of this thread; no other thread of the process has it, or had it.
fn this_thread() -> u64 {
    static LAST: Mutex<u64> = Mutex::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            number.set(*last);
        }
        number.get()
    })
}
