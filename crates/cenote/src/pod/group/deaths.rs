//! Death notices: how a group is notified of the deaths of workers, and of hosts with all their members.
//!
//! The recoverer of a worker notifies all groups that have it ([`died`]); that is the first registered step of
//! recovery. What it misses, the next worker that joins makes up for.
//!
//! **Hosts.** A member carries its host's generation. When that is over, "host died" comes first, then the deaths of
//! all of the host's members, in one go. No worker has to be chosen for that: the first to announce any of these deaths
//! does it, be it the monitor ([`hosts_died`]) or a recoverer of one of the host's workers. It happens once, because
//! afterwards the group has no member of that generation, and no process of it can join any more.
//!
//! *Why no death is announced without its host's:* a host that is being fenced recovers nobody and declares nobody dead
//! ([`Pod::may_recover`](crate::pod::Pod::may_recover)), and other hosts wait until its generation is over. So a death
//! that is announced alone came before the fence began. Its announcement may come after the fence, if it was being
//! appended then.
//!
//! **Crash.** Each event is appended like any other. The event of a host's death sets the word that says whose members
//! are being announced dead (`group.announcing-deaths`); the next holder of the lock goes on with them.

use super::append::Change;
use super::event::{Event, EventKind, Member, Status};
use super::{Group, notify_all};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::host_entry::HostInstance;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::hooks::{Dead, StepOutcome};
use crate::pod::lock;
use crate::pod::names::directory::{self, KIND_GROUP};

impl Group {
    /// Announces the deaths of all members that nobody has recovered yet, or of whose recovery the group was not
    /// notified. The caller holds the lock.
    pub(super) fn notify_of_the_gone<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        for (place, member) in self.all(worker)? {
            let is_here = matches!(member.status, Status::Joined | Status::Observer);
            // A member whose host's entry is damaged may or may not live, and stays.
            let is_gone = is_here && matches!(lock::is_gone(worker, member.identity), Ok(true));
            if is_gone && worker.pod().may_recover()? {
                self.notify_of(worker, place)?;
            }
        }
        Ok(())
    }

    /// Announces the death of the member at a place, or its host's if that is the cause. The caller holds the lock.
    fn notify_of<M: Memory>(&self, worker: &Worker<M>, place: u64) -> Result<()> {
        let member = self.member(worker, place)?;
        let is_member = member.status == Status::Joined && !mutant::is(Mutant::GroupHostForgotten);
        if is_member && member.origin().is_over(worker.mem(), worker.geometry())? {
            return self.notify_of_host(worker, member.origin());
        }
        self.end(worker, place, member, EventKind::Died)?;
        Ok(())
    }

    /// Announces a host's death and its members', if it has members. The caller holds the lock.
    fn notify_of_host<M: Memory>(&self, worker: &Worker<M>, origin: HostInstance) -> Result<()> {
        let is_member = |member: &Member| member.status == Status::Joined && member.origin() == origin;
        if self.all(worker)?.iter().any(|(_, member)| is_member(member)) {
            let change = Change {
                event: Event {
                    number: 0,
                    kind: EventKind::HostDied,
                    member: String::new(),
                    identity: origin.generation.into(),
                    host: origin.host,
                    time_ns: 0,
                },
                member: None,
                begins: false,
                announcing_deaths: origin.encode().wrapping_add(1),
            };
            self.append(worker, change)?;
            self.finish_deaths(worker)?;
        }
        Ok(())
    }

    /// Announces the deaths of a host's members, if a worker has begun to. The caller holds the lock.
    pub(super) fn finish_deaths<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        let word = self.layout.announcing_deaths();
        // PAIRS WITH: pod::group::append::apply, pod::group::deaths::finish_deaths
        let Some(origin) = word.load(worker.mem()).checked_sub(1) else {
            return Ok(());
        };
        crash_point(Point::GroupAnnouncingDeaths);
        for (place, member) in self.all(worker)? {
            if member.origin() == HostInstance::decode(origin) {
                self.end(worker, place, member, EventKind::Died)?;
            }
        }
        // PAIRS WITH: pod::group::deaths::finish_deaths
        word.store(worker.mem(), 0);
        Ok(())
    }

    /// Announces a worker's death, if it is in the group. Returns whether it is.
    fn announce_death<M: Memory>(&self, worker: &Worker<M>, identity: u64) -> Result<bool> {
        let mem = worker.mem();
        // It may have died with the lock, or its joining may be what is being appended: by itself, or by a worker that
        // took the lock over and died too. That is checked first: what is no longer being appended is in the table.
        // Else it is left to who has the lock, or to who announces that one's death.
        let is_pending = self.layout.lock().load(mem) == identity || self.is_appending(worker, identity);
        let is_pending = is_pending && !mutant::is(Mutant::GroupPendingIgnored);
        let is_here = is_pending | self.has(worker, identity)?;
        if is_here && !mutant::is(Mutant::GroupNotNotified) {
            let held = self.enter(worker)?;
            for (place, member) in self.all(worker)? {
                if member.identity == identity {
                    self.notify_of(worker, place)?;
                }
            }
            drop(held);
        }
        Ok(is_here)
    }

    fn announce_host_death<M: Memory>(&self, worker: &Worker<M>, origin: HostInstance) -> Result<()> {
        let held = self.enter(worker)?;
        self.notify_of_host(worker, origin)?;
        drop(held);
        Ok(())
    }

    /// Announces the deaths of all hosts that this group has members of and whose generation is over. Returns the first
    /// error; a damaged host's members stay, the others are announced.
    fn announce_host_deaths<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        let mut outcome = Ok(());
        let held = self.enter(worker)?;
        for (place, member) in self.all(worker)? {
            let is_over = match member.status {
                Status::Joined => member.origin().is_over(worker.mem(), worker.geometry()),
                _ => Ok(false),
            };
            match is_over {
                Ok(true) => self.notify_of(worker, place)?,
                Ok(false) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        drop(held);
        outcome
    }
}

/// Notifies all groups that a worker has died. A step of recovery.
///
/// Cost: a load for each entry of the directory; for each group one for each member, a load and a compare-exchange, and
/// a system call if a thread sleeps by it.
pub fn died<M: Memory>(worker: &Worker<M>, dead: Dead) -> Result<StepOutcome> {
    let mut was_there = false;
    let outcome = for_each(worker, |group| {
        was_there |= group.announce_death(worker, dead.identity())?;
        Ok(())
    });
    outcome.map(|()| match was_there {
        true => StepOutcome::Recovered,
        false => StepOutcome::Nothing,
    })
}

/// Notifies all groups that a host has died, and with it all its members. Its processes must not write any more. May be
/// repeated.
///
/// Cost: for each group the lock, eight loads a member, and about sixty sync stores for each member of that host.
pub fn host_died<M: Memory>(worker: &Worker<M>, origin: HostInstance) -> Result<()> {
    for_each(worker, |group| group.announce_host_death(worker, origin))
}

/// The same for all hosts whose generation is over. Monitors do this when they have moved a generation, and when they
/// begin to lead: the last leader may have died between the two.
pub fn hosts_died<M: Memory>(worker: &Worker<M>) -> Result<()> {
    for_each(worker, |group| group.announce_host_deaths(worker))
}

/// Calls `work` for every group, pinned, and notifies those that sleep once for all. Returns the first error; goes on
/// with the others all the same.
fn for_each<M: Memory>(worker: &Worker<M>, mut work: impl FnMut(Group) -> Result<()>) -> Result<()> {
    let mut outcome = Ok(());
    let mut has_groups = false;
    for named in directory::unnamed_of_kind(worker, KIND_GROUP) {
        has_groups = true;
        let _pin = worker.pin()?;
        match Group::of(worker, &named).and_then(&mut work) {
            // Meanwhile.
            Err(Error::Dropped) => {}
            done => outcome = outcome.and(done),
        }
    }
    if has_groups {
        // Also where nothing was appended: a worker may have died between appending an event, which may be about any
        // member, and notifying.
        notify_all(worker.mem());
    }
    outcome
}
