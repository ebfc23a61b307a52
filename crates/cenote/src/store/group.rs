//! Groups of a pool that a thread has open, and four ways to receive their events.
//!
//! ```
//! # fn main() -> cenote::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("pool");
//! use std::time::Duration;
//! use cenote::{Options, Pool, group::EventKind};
//!
//! let pool: Pool = Pool::create(&path, &Options::default())?;
//! let workers = pool.group("workers", b"open sesame")?;
//! let mut me = workers.join("worker-1")?;
//! let event = me.next(Some(Duration::from_secs(1)))?.unwrap();
//! assert_eq!((event.kind, event.member.as_str()), (EventKind::Joined, "worker-1"));
//! // A wrong token admits nobody.
//! assert!(pool.group("workers", b"guess").is_err());
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::background::Sleeper;
use super::pool::{Pool, random_number};
use crate::error::{Error, Result};
use crate::memory::{Coherent, LocalWord, Memory};
use crate::pod::Worker;
use crate::pod::death::watch::Watch;
use crate::pod::group::{self, Creation, Event, GroupHandle, Member};

/// How many members and events a group is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSize {
    /// Members, including those that have left, until their places are needed. Default and maximum 124.
    pub members: u64,
    /// Events that some member has yet to read. Default and maximum 768.
    pub events: u64,
}

impl Default for GroupSize {
    fn default() -> Self {
        Self {
            members: group::MEMBERS_MAX,
            events: group::EVENTS_MAX,
        }
    }
}

impl<M: Memory> Pool<M> {
    /// The group of a name, created if there is none. The token is a secret: all that open the group must give the
    /// same.
    ///
    /// Cost: a search of the names. Errors: another kind of name ([`Error::OtherKind`](crate::Error::OtherKind)), a
    /// wrong token ([`Error::WrongToken`](crate::Error::WrongToken)), a full pool ([`Error::Full`](crate::Error::Full),
    /// [`Error::TooMany`](crate::Error::TooMany)).
    pub fn group(&self, name: &str, token: &[u8]) -> Result<Group<M>> {
        self.group_of_size(name, token, GroupSize::default())
    }

    /// The group of a name, created for so many members and events if there is none.
    ///
    /// Cost: as of [`Pool::map`].
    pub fn group_of_size(&self, name: &str, token: &[u8], size: GroupSize) -> Result<Group<M>> {
        let worker = self.worker()?;
        let creation = Creation {
            members: size.members,
            events: size.events,
            salt: random_number(),
        };
        let group = group::Group::open_or_create(&worker, name, token, creation)?;
        Ok(Group::new(self, worker, group))
    }

    /// The group of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::WrongToken`](crate::Error::WrongToken), [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_group(&self, name: &str, token: &[u8]) -> Result<Group<M>> {
        let worker = self.worker()?;
        let group = group::Group::open(&worker, name, token)?;
        Ok(Group::new(self, worker, group))
    }
}

/// A group, as one thread has it open.
pub struct Group<M: Memory = Coherent> {
    group: group::Group,
    worker: Rc<Worker<M>>,
    pool: Pool<M>,
}

impl<M: Memory> Group<M> {
    fn new(pool: &Pool<M>, worker: Rc<Worker<M>>, group: group::Group) -> Self {
        Self {
            group,
            worker,
            pool: pool.clone(),
        }
    }

    /// The pool that it is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// Becomes a member under a name of up to 31 bytes, which stays the same when the member rejoins: an argument of
    /// the program, say. This thread is the member: the member dies with the thread, or with its process.
    ///
    /// Cost: the group's lock, some loads a member, about sixty sync stores. Errors: a living member of that name
    /// ([`Error::MemberTaken`](crate::Error::MemberTaken)), no place
    /// ([`Error::GroupCrowded`](crate::Error::GroupCrowded)), no room because a member does not read
    /// ([`Error::GroupFull`](crate::Error::GroupFull)); [`Error::InvalidName`](crate::Error::InvalidName).
    pub fn join(&self, name: &str) -> Result<Membership<M>> {
        let handle = self.group.join(&self.worker, name)?;
        Ok(self.member(handle))
    }

    /// Receives the events from now on, without being a member.
    ///
    /// Cost: as of [`Group::join`], with fewer stores.
    ///
    /// Errors: [`Error::GroupFull`](crate::Error::GroupFull), [`Error::TooMany`](crate::Error::TooMany).
    pub fn observe(&self) -> Result<Membership<M>> {
        let handle = self.group.observe(&self.worker)?;
        Ok(self.member(handle))
    }

    fn member(&self, handle: GroupHandle) -> Membership<M> {
        Membership {
            group: self.group,
            handle: Some(handle),
            worker: self.worker.clone(),
            pool: self.pool.clone(),
            watch: Watch::default(),
            looked: None,
        }
    }

    /// The members, and former ones.
    ///
    /// Cost: the group's lock, and eight loads a member.
    pub fn members(&self) -> Result<Vec<Member>> {
        self.group.members(&self.worker)
    }

    /// Starts a thread that calls a function for each event, until the [`Listener`] is dropped. The thread is a member
    /// if `name` is given, else an observer. An error ends it, after a call with the error.
    ///
    /// Cost: starts a thread; as of [`Group::join`] or [`Group::observe`], and for each event that of
    /// [`Membership::try_next`].
    pub fn listen(
        &self,
        name: Option<&str>,
        call: impl FnMut(Result<Event>) + Send + 'static,
    ) -> Result<Listener> {
        let (pool, group) = (self.pool.clone(), self.group);
        let name = name.map(str::to_owned);
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let stop = Arc::new(LocalWord::new(0));
        let stopped = stop.clone();
        let work = move || {
            let member = pool.worker().and_then(|worker| {
                let group = Group::new(&pool, worker, group);
                match &name {
                    Some(name) => group.join(name),
                    None => group.observe(),
                }
            });
            match member {
                Ok(membership) => {
                    let _ = begun.send(Ok(()));
                    listen(membership, &stopped, call);
                }
                Err(error) => drop(begun.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new()
            .name("cenote-group".to_owned())
            .spawn(work)
            .map_err(|source| Error::Io {
                path: self.pool.pod().path().to_owned(),
                source,
            })?;
        begins.recv().unwrap_or(Err(Error::Forked))?;
        let pod = self.pool.pod().clone();
        Ok(Listener {
            stop: Box::new(move || {
                stop.store(1);
                let is_ours = !pod.is_forked();
                if is_ours {
                    group::notify_all(pod.mem());
                }
                is_ours
            }),
            thread: Some(thread),
        })
    }
}

fn listen<M: Memory>(mut membership: Membership<M>, stop: &LocalWord, mut call: impl FnMut(Result<Event>)) {
    loop {
        match membership.wait(None, || stop.load() != 0) {
            Ok(Some(event)) => call(Ok(event)),
            Ok(None) => return,
            Err(error) => return call(Err(error)),
        }
    }
}

/// A thread that calls a function for each event of a group. Dropping this ends it, after the call that is running.
pub struct Listener {
    stop: Box<dyn Fn() -> bool + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let thread = self.thread.take();
        let is_ours = (self.stop)();
        match thread {
            // A call may drop its own listener.
            Some(thread) if is_ours && thread.thread().id() != std::thread::current().id() => {
                let _ = thread.join();
            }
            other => std::mem::forget(other),
        }
    }
}

/// A thread's place in a group: reads the group's events, in order, without gaps. Dropping it leaves the group.
pub struct Membership<M: Memory = Coherent> {
    group: group::Group,
    /// `None` once it has left.
    handle: Option<GroupHandle>,
    worker: Rc<Worker<M>>,
    pool: Pool<M>,
    watch: Watch,
    /// When it last checked thoroughly for deaths.
    looked: Option<Instant>,
}

impl<M: Memory> Membership<M> {
    /// The next event, if there is one already.
    ///
    /// Cost: two loads if there is none; nine loads and a store if there is.
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        if self.worker.is_forked() {
            return Err(Error::Forked);
        }
        match &mut self.handle {
            Some(handle) => self.group.next(&self.worker, handle),
            None => Ok(None),
        }
    }

    /// Waits for the next event, for ever if there is no limit. `None` when the time is over.
    ///
    /// While it waits the thread is a watcher: it may be the one to recover a dead worker and report the death to its
    /// groups.
    ///
    /// Cost: that of [`Membership::try_next`], before and after each sleep, and of watching for deaths: a load for each
    /// worker.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Event>> {
        self.wait(limit, || false)
    }

    fn wait(&mut self, limit: Option<Duration>, is_over: impl Fn() -> bool) -> Result<Option<Event>> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut has_slept = false;
        loop {
            let next = self.try_next().transpose();
            if let Some(next) = next {
                // What has woken it may have been a death, for which the kernel wakes one sleeper.
                if has_slept {
                    self.watch.pass_on(&self.worker);
                }
                return next.map(Some);
            }
            let event_counts = [
                Watch::prepare_wait(&self.worker),
                group::prepare_wait(self.worker.mem()),
            ];
            let is_due = self
                .looked
                .is_none_or(|looked| looked.elapsed() >= self.watch.timeout());
            if is_due {
                self.looked = Some(Instant::now());
            }
            // What cannot be recovered is written down (`Pool::failures`).
            self.watch.poll(&self.worker, is_due);
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() || is_over() {
                return Ok(None);
            }
            self.watch
                .wait(&self.worker, &event_counts, left.min(self.watch.timeout()));
            has_slept = true;
        }
    }

    /// An iterator that waits for each event from here on. It ends behind an error, such as that the group was dropped.
    pub fn events(&mut self) -> Events<'_, M> {
        Events {
            membership: self,
            has_failed: false,
        }
    }

    /// The next event, for any executor. The process's background thread wakes the task; the first poll starts that
    /// thread, which watches for deaths.
    ///
    /// Cost: that of [`Membership::try_next`] for each poll.
    pub fn next_event(&mut self) -> NextEvent<'_, M> {
        NextEvent { membership: self }
    }

    /// Leaves the group, unless it has been dropped. The others get an event.
    ///
    /// Cost: the group's lock, about sixty sync stores.
    pub fn leave(mut self) -> Result<()> {
        self.leave_now()
    }

    fn leave_now(&mut self) -> Result<()> {
        if self.worker.is_forked() {
            return Err(Error::Forked);
        }
        match self.handle.take() {
            Some(handle) => match self.group.leave(&self.worker, handle) {
                // With all members.
                Err(Error::Dropped) => Ok(()),
                left => left,
            },
            None => Ok(()),
        }
    }
}

impl<M: Memory> Drop for Membership<M> {
    fn drop(&mut self) {
        // If the group is damaged, its other members will see that.
        let _ = self.leave_now();
    }
}

/// The events of a group, one after the other; see [`Membership::events`].
pub struct Events<'m, M: Memory = Coherent> {
    membership: &'m mut Membership<M>,
    has_failed: bool,
}

impl<M: Memory> Iterator for Events<'_, M> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.membership.next(None).transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}

/// A future of a group's next event; see [`Membership::next_event`]. Dropping it loses no event.
pub struct NextEvent<'m, M: Memory = Coherent> {
    membership: &'m mut Membership<M>,
}

impl<M: Memory> Future for NextEvent<'_, M> {
    type Output = Result<Event>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let membership = &mut *self.membership;
        if let Some(event) = membership.try_next().transpose() {
            return Poll::Ready(event);
        }
        let Some(handle) = &membership.handle else {
            return Poll::Pending;
        };
        let background_work = membership.pool.background_work();
        let sleeper = Sleeper {
            group: membership.group,
            place: handle.place(),
            read: handle.read(),
            waker: context.waker().clone(),
        };
        background_work.sleep(membership.worker.mem(), sleeper);
        if let Err(error) = membership.pool.watch() {
            return Poll::Ready(Err(error));
        }
        match membership.try_next().transpose() {
            Some(event) => Poll::Ready(event),
            None => Poll::Pending,
        }
    }
}
