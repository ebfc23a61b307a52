//! How a group is notified of deaths: of workers, and of hosts with all their members.
//!
//! Whoever recovers a worker tells all groups in which it is ([`died`]); that is a registered step of recovery, the first one.
//! What it misses is made up for by who joins next.
//!
//! **Hosts.** A member carries its host's generation. When that is over, "host died" comes first, then the deaths of all of the
//! host's members, in one go. Nobody has to be chosen for that: it is done by whoever is the first to tell of any of
//! them, be that the monitor ([`hosts_died`]) or who recovers one of the host's workers, for whatever reason. It happens once,
//! because afterwards there is no member of that generation, and nothing of it can join any more.
//!
//! *Why no death is told without its host's:* a host that is being fenced recovers nobody and declares nobody dead
//! ([`Pod::may_recover`](crate::pod::Pod::may_recover)), and other hosts wait until its generation is over. So a death that is told alone
//! came before the fence began.
//!
//! **Crash.** Each event is appended as all are. The event of a host's death sets the word that says whose members are being told dead
//! (`group.announcing_deaths`); whoever has the lock next goes on with them.

use super::Group;
use super::append::Change;
use super::event::{Event, Kind, Member, Status};
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::host::HostInstance;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::hooks::Dead;
use crate::pod::lock;
use crate::pod::names::directory::{self, KIND_GROUP};

impl Group {
    /// Tells of the deaths of all members whom nobody has recovered yet, or of whose recovery the group was not told. The caller
    /// holds the lock.
    pub(super) fn notify_of_the_gone<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        for (place, member) in self.all(worker)? {
            let is_here = matches!(member.status, Status::Joined | Status::Observer);
            // One of which nobody can tell, as what the pool says of its host is damaged, stays.
            let is_gone = is_here && matches!(lock::is_gone(worker, member.identity), Ok(true));
            if is_gone && worker.pod().may_recover()? {
                self.notify_of(worker, place)?;
            }
        }
        Ok(())
    }

    /// Tells of the death of who is at a place, and of that of its host if that is why. The caller holds the lock.
    fn notify_of<M: Memory>(&self, worker: &Worker<M>, place: u64) -> Result<()> {
        let member = self.member(worker, place)?;
        let is_member = member.status == Status::Joined && !mutant::is(Mutant::GroupHostForgotten);
        if is_member && member.origin().is_over(worker.mem(), worker.geometry())? {
            return self.notify_of_host(worker, member.origin());
        }
        self.end(worker, place, member, Kind::Died)?;
        Ok(())
    }

    /// Tells of a host's death, and of those of its members, if there are any. The caller holds the lock.
    fn notify_of_host<M: Memory>(&self, worker: &Worker<M>, origin: HostInstance) -> Result<()> {
        let is_member = |member: &Member| member.status == Status::Joined && member.origin() == origin;
        if self.all(worker)?.iter().any(|(_, member)| is_member(member)) {
            let change = Change {
                event: Event {
                    number: 0,
                    kind: Kind::HostDied,
                    member: String::new(),
                    identity: origin.generation.into(),
                    host: origin.host,
                    time: 0,
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

    /// Tells of the deaths of a host's members, if somebody has begun to. The caller holds the lock.
    pub(super) fn finish_deaths<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        let word = self.layout.announcing_deaths();
        // PAIRS WITH: pod::group::append::apply, pod::group::deaths::finish_deaths
        let Some(origin) = word.load(worker.mem()).checked_sub(1) else {
            return Ok(());
        };
        crash_point(Point::GroupBurying);
        for (place, member) in self.all(worker)? {
            if member.origin() == HostInstance::decode(origin) {
                self.end(worker, place, member, Kind::Died)?;
            }
        }
        // PAIRS WITH: pod::group::deaths::finish_deaths
        word.store(worker.mem(), 0);
        Ok(())
    }

    /// Tells of a worker's death, if it is here. Whether it is.
    fn bury<M: Memory>(&self, worker: &Worker<M>, identity: u64) -> Result<bool> {
        let mem = worker.mem();
        // It may have died with the lock, or its joining may be what is being appended: by itself, or by one who took the lock over
        // and died too. That is asked first: what is not being appended any more is in the table.
        let is_pending = self.layout.lock().load(mem) == identity || self.layout.commit().load(mem) != 0;
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
        // It may have died between an event and the event count, and that may be anybody's event.
        self.notify_all(mem);
        Ok(is_here)
    }

    fn bury_host<M: Memory>(&self, worker: &Worker<M>, origin: HostInstance) -> Result<()> {
        let held = self.enter(worker)?;
        self.notify_of_host(worker, origin)?;
        drop(held);
        self.notify_all(worker.mem());
        Ok(())
    }

    /// Tells of the deaths of all hosts that this group has members of and whose generation is over. The first error; a damaged host's
    /// members stay, the others are notified of.
    fn bury_hosts<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
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
        self.notify_all(worker.mem());
        outcome
    }
}

/// Tells all groups that a worker has died. A step of recovery. Whether it was in one of them.
///
/// Cost: a load for each entry of the directory; for each group one for each member, a load and a compare-exchange, and a
/// system call if somebody sleeps by it.
pub fn died<M: Memory>(worker: &Worker<M>, dead: Dead) -> Result<bool> {
    let mut was_there = false;
    let outcome = for_each(worker, |group| {
        was_there |= group.bury(worker, dead.identity())?;
        Ok(())
    });
    outcome.map(|()| was_there)
}

/// Tells all groups that a host has died, and with it all its members. Its processes must not write any more. May be repeated.
///
/// Cost: for each group the lock, eight loads a member, and about sixty sync stores for each member of that host.
pub fn host_died<M: Memory>(worker: &Worker<M>, origin: HostInstance) -> Result<()> {
    for_each(worker, |group| group.bury_host(worker, origin))
}

/// The same for all hosts whose generation is over. What monitors do when they have moved one, and when they begin to lead: whoever
/// led before may have died between the two.
pub fn hosts_died<M: Memory>(worker: &Worker<M>) -> Result<()> {
    for_each(worker, |group| group.bury_hosts(worker))
}

/// Does something with every group. The first error; the others are done all the same.
fn for_each<M: Memory>(worker: &Worker<M>, mut work: impl FnMut(Group) -> Result<()>) -> Result<()> {
    let mut outcome = Ok(());
    for at in directory::of_kind(worker, KIND_GROUP) {
        let done = Group::at(worker, at).and_then(&mut work);
        outcome = outcome.and(done);
    }
    outcome
}
