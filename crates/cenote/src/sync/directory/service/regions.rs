//! The handle of threads on a lock of a lock service, and its guards. Dropping a guard gives the lock up; the node
//! keeps it, with its data, until another one asks.

use std::cell::Cell;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::client::{LockClient, Runtime, Shared, until};
use super::clock::now;
use super::error::Error;
use crate::memory::LocalWord;
use crate::sync::directory::messages::client::{LeaseState, Opened};
use crate::sync::directory::messages::copy::Copy;
use crate::sync::directory::messages::message::{Former, LockId, NAME_MAX};
use crate::sync::directory::messages::region::{Data, is_possible};
use crate::sync::directory::messages::threads::{Asked, Held, Misuse, Unlock};
use crate::sync::directory::queue::Permission;
use crate::sync::{Acquired, Timeout};

/// Regions of bytes under a lock of a lock service. Threads share one handle, or have one each. See
/// [`RwLock`](super::RwLock).
pub struct RegionsLock {
    lock: LockId,
    lens: Vec<u32>,
    shared: Arc<Shared>,
}

/// What a new lock is made with; [`LockClient::regions_builder`].
#[must_use = "a builder makes nothing before it opens"]
pub struct RegionsLockBuilder<'c> {
    client: &'c LockClient,
    name: String,
    regions: Vec<u64>,
}

impl RegionsLockBuilder<'_> {
    /// One more region that the lock covers, of so many bytes, zeroes at first. Regions are counted from 0, in the
    /// order of these calls.
    pub fn region(mut self, bytes: u64) -> Self {
        self.regions.push(bytes);
        self
    }

    /// The lock of the name, made if there is none. A lock that exists stays as it is, whatever is asked for.
    ///
    /// Cost: a round trip to the service.
    ///
    /// Errors: [`Error::InvalidName`], [`Error::Regions`], [`Error::Full`]; those of a connection.
    pub fn open(self) -> Result<RegionsLock, Error> {
        let lens = self.regions.iter().map(|len| u32::try_from(*len).ok());
        let lens = lens.collect::<Option<Vec<u32>>>().ok_or(Error::Regions)?;
        self.client.open_lock(&self.name, Some(&lens))
    }
}

impl LockClient {
    /// Says how a lock is to be made that covers several regions, or none.
    pub fn regions_builder(&self, name: &str) -> RegionsLockBuilder<'_> {
        RegionsLockBuilder {
            client: self,
            name: name.to_owned(),
            regions: Vec::new(),
        }
    }

    /// The regions of a name and their lock, if there is one.
    ///
    /// Cost: a round trip to the service.
    ///
    /// Errors: [`Error::Missing`]; those of a connection.
    pub fn existing_regions(&self, name: &str) -> Result<RegionsLock, Error> {
        self.open_lock(name, None)
    }

    pub(super) fn open_lock(&self, name: &str, regions: Option<&[u32]>) -> Result<RegionsLock, Error> {
        if name.is_empty() || name.len() > NAME_MAX {
            let name = name.to_owned();
            return Err(Error::InvalidName { name });
        }
        if regions.is_some_and(|regions| !is_possible(regions)) {
            return Err(Error::Regions);
        }
        let (lock, lens) = self
            .shared()
            .ask_for(name, regions)?
            .map_err(|why| Error::refused(why, name))?;
        Ok(RegionsLock {
            lock,
            lens,
            shared: self.shared().clone(),
        })
    }
}

impl Shared {
    /// Asks the service for a lock by its name.
    fn ask_for(&self, name: &str, regions: Option<&[u32]>) -> Result<Opened, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let mut state = self.state();
        state.confirm()?;
        let (serial, messages) = state.node.client_mut().open(name, regions);
        state.send(messages);
        loop {
            if let Some(opened) = state.node.client_mut().take_opened(serial) {
                return Ok(opened);
            }
            if let Err(error) = state.confirm() {
                state.node.client_mut().forget_opening(serial);
                return Err(error);
            }
            let until = state.lease_ends();
            state = self.sleep(state, Some(until));
        }
    }
}

/// How long a thread waits for what it has asked the service for.
enum Until {
    /// Until an answer has come to this heartbeat, which was sent after the request; and for no longer than the lease.
    Answer(u64),
    /// Until a moment, or for ever.
    Moment(Option<Instant>),
}

impl RegionsLock {
    /// How many regions it covers.
    pub fn regions(&self) -> usize {
        self.lens.len()
    }

    /// Bytes of a region, if there is such a region.
    pub(super) fn len(&self, region: usize) -> Option<usize> {
        self.lens.get(region).map(|len| *len as usize)
    }

    pub(super) fn lock_for_reading(&self, timeout: Timeout) -> Result<Option<RegionsReadGuard<'_>>, Error> {
        let held = self.acquire(Permission::Shared, timeout)?;
        Ok(held.map(|(thread, held)| RegionsReadGuard {
            hold: Hold {
                lock: self,
                thread,
                former: held.former,
            },
            data: held.data,
        }))
    }

    pub(super) fn lock_for_writing(&self, timeout: Timeout) -> Result<Option<RegionsWriteGuard<'_>>, Error> {
        let held = self.acquire(Permission::Exclusive, timeout)?;
        Ok(held.map(|(thread, held)| RegionsWriteGuard {
            hold: Hold {
                lock: self,
                thread,
                former: held.former,
            },
            epoch: held.epoch,
            data: Some(held.data),
        }))
    }

    fn acquire(&self, wants: Permission, timeout: Timeout) -> Result<Option<(u64, Held)>, Error> {
        if self.shared.is_forked() {
            return Err(Error::Forked);
        }
        let (lock, thread) = (self.lock, this_thread());
        let mut state = self.shared.state();
        state.check()?;
        let moment = now();
        let asks = match state.node.ask(lock, thread, wants, moment) {
            Ok(Asked::Got(held)) => return Ok(Some((thread, held))),
            Ok(Asked::Waits(messages)) => {
                let asks = !messages.is_empty();
                state.send(messages);
                asks
            }
            Err(Misuse::Deadlock) => return Err(Error::Deadlock),
            Err(Misuse::Closing) => return Err(Error::Closed),
        };
        let waits_until = match until(timeout) {
            Some(_) if asks && matches!(timeout, Timeout::None | Timeout::Polls(_)) => {
                Until::Answer(state.send_heartbeat())
            }
            moment => Until::Moment(moment),
        };
        let outcome = loop {
            if let Some(held) = state.node.enter(lock, thread, wants, now()) {
                break Ok(Some((thread, held)));
            }
            if let Err(error) = state.check() {
                break Err(error);
            }
            if state.node.is_closing() {
                break Err(Error::Closed);
            }
            let until = match &waits_until {
                Until::Moment(moment) => *moment,
                Until::Answer(heartbeat) => {
                    let is_confirmed = state.node.client().lease_state(now()) == LeaseState::Confirmed;
                    match is_confirmed && state.node.client().lease().answered() < *heartbeat {
                        true => Some(state.lease_ends()),
                        false => break Ok(None),
                    }
                }
            };
            if until.is_some_and(|until| until <= Instant::now()) {
                break Ok(None);
            }
            state = self.shared.sleep(state, until);
        };
        if !matches!(outcome, Ok(Some(_))) {
            let messages = state.node.withdraw(lock, thread);
            state.send(messages);
        }
        // The next one may share the lock, or it is the next one's turn.
        self.shared.wake(state);
        outcome
    }
}

impl Runtime {
    /// When the lease runs out, unless the service answers.
    fn lease_ends(&self) -> Instant {
        let left = self.node.client().lease().until().since(now());
        Instant::now() + Duration::from_micros(left.max(1))
    }
}

struct Hold<'l> {
    lock: &'l RegionsLock,
    thread: u64,
    former: Option<Former>,
}

impl Hold<'_> {
    fn acquired(&self) -> Acquired {
        match self.former {
            None => Acquired::Clean,
            Some(former) => Acquired::Recovered {
                from: former.session.owner(),
                note: former.note,
            },
        }
    }

    fn state(&self) -> Result<MutexGuard<'_, Runtime>, Error> {
        match self.lock.shared.is_forked() {
            true => Err(Error::Forked),
            false => Ok(self.lock.shared.state()),
        }
    }

    fn verify(&self) -> Result<(), Error> {
        self.state()?.confirm()
    }
}

/// A shared hold of regions. Dropping it unlocks.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RegionsReadGuard<'l> {
    hold: Hold<'l>,
    data: Arc<Data>,
}

impl RegionsReadGuard<'_> {
    /// See [`RwLockReadGuard::acquired`](super::RwLockReadGuard::acquired).
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }

    /// See [`RwLockReadGuard::verify`](super::RwLockReadGuard::verify).
    pub fn verify(&self) -> Result<(), Error> {
        self.hold.verify()
    }

    /// The bytes of a region, at an address that is a multiple of 16.
    ///
    /// # Panics
    ///
    /// If there is no such region.
    pub fn region(&self, region: usize) -> &[u8] {
        self.data.region(region).expect(NO_REGION)
    }
}

impl Drop for RegionsReadGuard<'_> {
    fn drop(&mut self) {
        // The next writer of the node need not copy.
        self.data = Data::none();
        let Ok(mut state) = self.hold.state() else {
            return;
        };
        let messages = state.node.leave_read(self.hold.lock.lock, self.hold.thread);
        state.send(messages);
        self.hold.lock.shared.wake(state);
    }
}

/// An exclusive hold of regions. Dropping it unlocks.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RegionsWriteGuard<'l> {
    hold: Hold<'l>,
    epoch: u64,
    /// Until it is unlocked.
    data: Option<Arc<Data>>,
}

impl RegionsWriteGuard<'_> {
    /// See [`RwLockWriteGuard::acquired`](super::RwLockWriteGuard::acquired).
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }

    /// See [`RwLockReadGuard::verify`](super::RwLockReadGuard::verify).
    pub fn verify(&self) -> Result<(), Error> {
        self.hold.verify()
    }

    /// See [`RwLockWriteGuard::set_note`](super::RwLockWriteGuard::set_note).
    pub fn set_note(&self, note: u64) -> Result<(), Error> {
        let lock = self.hold.lock.lock;
        let mut state = self.hold.state()?;
        state.confirm()?;
        let messages = state.node.client_mut().set_note(lock, note);
        state.send(messages);
        loop {
            let is_noted = |copy: &Copy| copy.is_noted();
            if state.node.client().copy(lock).is_none_or(is_noted) {
                return state.confirm();
            }
            state.confirm()?;
            let until = state.lease_ends();
            state = self.hold.lock.shared.sleep(state, Some(until));
        }
    }

    /// See [`RwLockWriteGuard::fencing_token`](super::RwLockWriteGuard::fencing_token).
    pub fn fencing_token(&self) -> u64 {
        self.epoch
    }

    /// The bytes of a region, at an address that is a multiple of 16.
    ///
    /// # Panics
    ///
    /// If there is no such region.
    pub fn region(&self, region: usize) -> &[u8] {
        self.data
            .as_ref()
            .and_then(|data| data.region(region))
            .expect(NO_REGION)
    }

    /// The bytes of a region, to be changed. The region travels to the next node that gets the lock.
    ///
    /// # Panics
    ///
    /// If there is no such region.
    pub fn region_mut(&mut self, region: usize) -> &mut [u8] {
        let data = self.data.as_mut().map(Arc::make_mut);
        data.and_then(|data| data.region_mut(region)).expect(NO_REGION)
    }

    /// See [`RwLockWriteGuard::unlock`](super::RwLockWriteGuard::unlock).
    pub fn unlock(mut self) -> Result<(), Error> {
        self.release(Unlock::Kept)
    }

    /// See [`RwLockWriteGuard::commit`](super::RwLockWriteGuard::commit).
    pub fn commit(mut self) -> Result<(), Error> {
        self.release(Unlock::HandedOver)?;
        let (lock, epoch) = (self.hold.lock.lock, self.epoch);
        let mut state = self.hold.state()?;
        loop {
            if state.node.is_committed(lock, epoch) {
                return state.check();
            }
            state.confirm()?;
            let until = state.lease_ends();
            state = self.hold.lock.shared.sleep(state, Some(until));
        }
    }

    fn release(&mut self, unlock: Unlock) -> Result<(), Error> {
        let Some(data) = self.data.take() else {
            return Ok(());
        };
        let mut state = self.hold.state()?;
        let confirmed = state.confirm();
        let (lock, thread) = (self.hold.lock.lock, self.hold.thread);
        let messages = state.node.leave_written(lock, thread, data, unlock);
        state.send(messages);
        self.hold.lock.shared.wake(state);
        confirmed
    }
}

impl Drop for RegionsWriteGuard<'_> {
    fn drop(&mut self) {
        let unlock = match std::thread::panicking() {
            true => Unlock::Poisoned,
            false => Unlock::Kept,
        };
        // Who wants to know calls `unlock`.
        let _ = self.release(unlock);
    }
}

const NO_REGION: &str = "the lock covers no such region";

/// A number of this thread; no other thread of the process has it, or had it.
fn this_thread() -> u64 {
    static LAST: LocalWord = LocalWord::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            // NO PAIR: count
            number.set(LAST.add(1) + 1);
        }
        number.get()
    })
}
