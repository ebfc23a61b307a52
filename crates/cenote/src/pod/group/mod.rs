//! Groups: which members are there, left, or died, in one order for all members (Lupin, section 3.4).
//!
//! A group is one frame of the pool under a name. It has a table of members, a ring of events, and a lock. All of its
//! words but the header are sync words: they are written rarely, by the lock's holder.
//!
//! **Events.** Each event is appended under the lock together with what it changes ([`append`](self)), is numbered, and
//! is the same for all members. A member reads without a lock: its cursor says what it has read, and no event is
//! overwritten that a member has not read.
//!
//! **Room.** A joining member makes sure of room for two more events besides its own: its end, and that of its host. So
//! a death is never refused. A join is, if a member has not read for long; the error names that member.
//!
//! **Deaths.** See [`deaths`](self::deaths).
//!
//! **Members.** A member is a worker under a name. A worker that joins under a name that left or died has rejoined. A
//! member's words in the table belong to the lock's holder, but for its cursor.
//!
//! **Drops.** A group can be [dropped](crate::pod::names::dropping) while others use it: a worker that
//! reads or writes its words is pinned, and has checked that it is still there.
//!
//! **Crash.** See `append`; the lock is one of [`lock`](crate::pod::lock), taken over from the dead. An observer's
//! place is written without an event, its status last. The death notices of a host begin with the event of its death;
//! the next holder of the lock finishes them.

mod append;
mod audit;
mod deaths;
mod event;
mod layout;
mod token;

pub use audit::{Audited, audit};
pub use deaths::{died, host_died, hosts_died};
pub use event::{Event, EventKind, Member, Status};
pub use layout::{EVENTS_MAX, GROUP_BYTES, MEMBER_NAME_MAX, MEMBERS_MAX};

use append::Change;
use layout::{Layout, MAGIC};

use crate::causes::{Found, Structure};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::memory::checked::{published, unpublished};

use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap;
use crate::pod::format::host_entry::HostInstance;
use crate::pod::format::superblock::GROUP_EVENTS;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count;
use crate::pod::instance::worker::Pin;
use crate::pod::instance::worker::Worker;
use crate::pod::lock::{self, Held};
use crate::pod::names::directory::{self, KIND_GROUP, Named};
use crate::pod::names::dropping::{self, Check, Identity};
use crate::pod::names::open::opened;

/// Events that a join makes room for: its own, its end, the death of its host.
const EVENTS_A_JOIN: u64 = 1 + EVENTS_KEPT;
/// Events that are kept free for each member.
const EVENTS_KEPT: u64 = 2;

/// A group, as its header has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    layout: Layout,
    members: u64,
    events: u64,
    identity: Identity,
}

/// What a new group is made with.
#[derive(Clone, Copy, Debug)]
pub struct Creation {
    /// Room for members, including those that have left; at most [`MEMBERS_MAX`].
    pub members: u64,
    /// Room for events; at most [`EVENTS_MAX`].
    pub events: u64,
    /// A random number, so that equal tokens do not look equal.
    pub salt: u64,
}

/// A member's or observer's place in a group.
#[derive(Debug)]
pub struct GroupHandle {
    place: u64,
    identity: u64,
    read: u64,
    check: Check,
}

impl GroupHandle {
    /// Its place in the table.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Events that it has read.
    pub fn read(&self) -> u64 {
        self.read
    }
}

impl Group {
    /// Opens the group of a name with its token, or makes it.
    ///
    /// Cost: that of looking the name up.
    pub fn open_or_create<M: Memory>(
        worker: &Worker<M>,
        name: &str,
        token: &[u8],
        creation: Creation,
    ) -> Result<Self> {
        let members = creation.members.clamp(1, MEMBERS_MAX);
        let events = creation.events.clamp(EVENTS_A_JOIN, EVENTS_MAX);
        let build = || build(worker, token, creation.salt, members, events);
        let find = || directory::find_or_create(worker, name, KIND_GROUP, build).map(Some);
        let group = opened(worker, find, |named| Self::admit(worker, named, token))?;
        group.ok_or_else(|| no_such(name))
    }

    /// Opens the group of a name with its token, if there is one.
    pub fn open<M: Memory>(worker: &Worker<M>, name: &str, token: &[u8]) -> Result<Self> {
        let group = opened(
            worker,
            || directory::find(worker, name),
            |named| Self::admit(worker, named, token),
        )?;
        group.ok_or_else(|| no_such(name))
    }

    fn admit<M: Memory>(worker: &Worker<M>, named: Named, token: &[u8]) -> Result<Self> {
        let group = Self::of(worker, &named)?;
        match token::fits(worker, group.layout, token) {
            true => Ok(group),
            false => Err(Error::WrongToken { name: named.name }),
        }
    }

    /// The group that an entry names, unless it has been dropped. The worker is pinned.
    pub fn of<M: Memory>(worker: &Worker<M>, named: &Named) -> Result<Self> {
        if named.kind != KIND_GROUP {
            return Err(Error::OtherKind {
                name: named.name.clone(),
                kind: Found::IsNot(Structure::Group),
            });
        }
        let identity = Identity::of(worker, named).ok_or(Error::Dropped)?;
        Self::with(worker, named.offset, identity)
    }

    /// The group at an offset, without a check of its token. Nobody takes it apart meanwhile.
    pub fn at<M: Memory>(worker: &Worker<M>, at: u64) -> Result<Self> {
        Self::with(worker, at, Identity::UNCHECKED)
    }

    fn with<M: Memory>(worker: &Worker<M>, at: u64, identity: Identity) -> Result<Self> {
        worker.check("a group", at, GROUP_BYTES)?;
        let mem = worker.mem();
        let (magic, members, events) = (
            published(at, 8).read_word(mem),
            published(at + 8, 8).read_word(mem),
            published(at + 16, 8).read_word(mem),
        );
        let is_sized = (1..=MEMBERS_MAX).contains(&members) && (EVENTS_A_JOIN..=EVENTS_MAX).contains(&events);
        if !at.is_multiple_of(64) || magic != MAGIC || !is_sized {
            return Err(Error::corrupt("a group's header", at));
        }
        Ok(Self {
            layout: Layout(at),
            members,
            events,
            identity,
        })
    }

    /// Pins the worker. Fails if the group was dropped.
    fn pin<'w, M: Memory>(&self, worker: &'w Worker<M>) -> Result<Pin<'w, M>> {
        let pin = worker.pin()?;
        match self.is_there(worker) {
            true => Ok(pin),
            false => Err(Error::Dropped),
        }
    }

    /// Whether it has not been dropped. The worker is pinned.
    ///
    /// Cost: two sync loads.
    pub fn is_there<M: Memory>(&self, worker: &Worker<M>) -> bool {
        mutant::is(Mutant::GroupDropUnseen) || self.identity.is_there(worker)
    }

    /// Events so far. The worker is pinned, and the group was there since.
    pub fn counted<M: Memory>(&self, worker: &Worker<M>) -> u64 {
        // PAIRS WITH: pod::group::append::apply
        self.layout.counted().load(worker.mem())
    }

    /// The number of the last event that is certain to be delivered: it may be committed and not in the log yet.
    pub fn last_committed<M: Memory>(&self, worker: &Worker<M>) -> u64 {
        // PAIRS WITH: pod::group::append::apply
        let committed = self.layout.commit().load(worker.mem());
        self.counted(worker).max(committed)
    }

    /// Whether a worker has the group's lock, and may be about to commit an event.
    pub fn is_changing<M: Memory>(&self, worker: &Worker<M>) -> bool {
        self.layout.lock().load(worker.mem()) != 0
    }

    /// Takes the lock, and finishes what its last holder left.
    fn enter<'w, M: Memory>(&self, worker: &'w Worker<M>) -> Result<Held<'w, M>> {
        self.entered(worker, lock::acquire(worker, self.layout.lock())?)
    }

    /// Finishes what a dead holder left, by who has the lock.
    fn entered<'w, M: Memory>(&self, worker: &'w Worker<M>, held: Held<'w, M>) -> Result<Held<'w, M>> {
        crash_point(Point::GroupLocked);
        mutant::also(Mutant::GroupNotReplayed, || {
            self.layout.commit().store(worker.mem(), 0)
        });
        self.apply(worker)?;
        if !mutant::is(Mutant::GroupDeathsLeft) {
            self.finish_deaths(worker)?;
        }
        Ok(held)
    }

    fn high<M: Memory>(&self, worker: &Worker<M>) -> Result<u64> {
        let word = self.layout.high();
        // PAIRS WITH: pod::group::append::apply, pod::group::observe
        let high = word.load(worker.mem());
        match high <= self.members {
            true => Ok(high),
            false => Err(Error::corrupt("the number of a group's members", word.offset())),
        }
    }

    fn status<M: Memory>(&self, worker: &Worker<M>, place: u64) -> Result<Status> {
        let word = self.layout.member(place).word(0);
        // PAIRS WITH: pod::group::observe, pod::group::end
        Status::of(word.load(worker.mem()))
            .ok_or_else(|| Error::corrupt("the status of a group's member", word.offset()))
    }

    fn member<M: Memory>(&self, worker: &Worker<M>, place: u64) -> Result<Member> {
        let line = self.layout.member(place);
        Member::of(line.read(worker.mem()), line.offset())
    }

    /// All places ever used, with their present or former members.
    fn all<M: Memory>(&self, worker: &Worker<M>) -> Result<Vec<(u64, Member)>> {
        (0..self.high(worker)?)
            .map(|place| Ok((place, self.member(worker, place)?)))
            .collect()
    }

    /// Present members, and former ones until their places are needed.
    ///
    /// Cost: the lock, and eight loads a member.
    pub fn members<M: Memory>(&self, worker: &Worker<M>) -> Result<Vec<Member>> {
        let _pin = self.pin(worker)?;
        let held = self.enter(worker)?;
        let mut members = self.all(worker)?;
        drop(held);
        members.retain(|(_, member)| !matches!(member.status, Status::Free | Status::Observer));
        Ok(members.into_iter().map(|(_, member)| member).collect())
    }

    /// How many living members there are. The worker is pinned, and the group was there since.
    ///
    /// Cost: one load for each place.
    pub fn joined<M: Memory>(&self, worker: &Worker<M>) -> Result<u64> {
        let mut joined = 0;
        for place in 0..self.high(worker)? {
            joined += u64::from(self.status(worker, place)? == Status::Joined);
        }
        Ok(joined)
    }

    /// The cursor of the member that has read least, and its place: `counted` if nobody reads.
    fn least_cursor<M: Memory>(&self, worker: &Worker<M>, counted: u64) -> Result<(u64, Option<u64>)> {
        let mut least = (counted, None);
        for place in 0..self.high(worker)? {
            if matches!(self.status(worker, place)?, Status::Joined | Status::Observer) {
                // PAIRS WITH: pod::group::next, pod::group::observe, pod::group::append::apply
                let read = self.layout.cursor(place).load(worker.mem());
                if read > counted {
                    let at = self.layout.cursor(place).offset();
                    return Err(Error::corrupt("what a group's member has read", at));
                }
                if read < least.0 {
                    least = (read, Some(place));
                }
            }
        }
        Ok(least)
    }

    /// Becomes a member under a name; rejoins if a member of that name left or died. The first event that the member
    /// reads is its own.
    ///
    /// Cost: the lock, some loads a member, about sixty sync stores.
    pub fn join<M: Memory>(&self, worker: &Worker<M>, name: &str) -> Result<GroupHandle> {
        self.join_from(worker, name, worker.host_instance())
    }

    /// The same for a member that counts as one of a host: it ends with that host's generation too.
    pub fn join_from<M: Memory>(
        &self,
        worker: &Worker<M>,
        name: &str,
        origin: HostInstance,
    ) -> Result<GroupHandle> {
        if name.is_empty() || name.len() > MEMBER_NAME_MAX {
            return Err(Error::InvalidName {
                name: name.to_owned(),
                max: MEMBER_NAME_MAX,
            });
        }
        let _pin = self.pin(worker)?;
        let held = self.enter(worker)?;
        self.notify_of_the_gone(worker)?;
        let members = self.all(worker)?;
        let known = members.iter().find(|(_, member)| {
            member.name == name && !matches!(member.status, Status::Free | Status::Observer)
        });
        let (place, kind) = match known {
            Some((_, member)) if member.status == Status::Joined => {
                return Err(Error::MemberTaken {
                    name: name.to_owned(),
                });
            }
            Some((place, _)) => (*place, EventKind::Rejoined),
            None => (self.free_place(&members)?, EventKind::Joined),
        };
        let joined = members
            .iter()
            .filter(|(_, member)| member.status == Status::Joined);
        self.make_room(worker, joined.count() as u64)?;
        let identity = worker.identity();
        let member = Member {
            name: name.to_owned(),
            status: Status::Joined,
            identity,
            host: origin.host,
            host_generation: origin.generation,
            since_event: 0,
        };
        let read = self.counted(worker);
        let change = Change {
            event: event(kind, &member),
            member: Some((place, member)),
            begins: true,
            announcing_deaths: 0,
        };
        self.append(worker, change)?;
        drop(held);
        if !mutant::is(Mutant::GroupJoinNotNotified) {
            notify_all(worker.mem());
        }
        Ok(GroupHandle {
            place,
            identity,
            read,
            check: Check::new(self.identity),
        })
    }

    /// Reads events from now on, without being a member.
    ///
    /// Cost: as [`Group::join`], with fewer stores.
    pub fn observe<M: Memory>(&self, worker: &Worker<M>) -> Result<GroupHandle> {
        let mem = worker.mem();
        let _pin = self.pin(worker)?;
        let held = self.enter(worker)?;
        self.notify_of_the_gone(worker)?;
        let place = self.free_place(&self.all(worker)?)?;
        let read = self.counted(worker);
        let identity = worker.identity();
        let origin = worker.host_instance();
        let observer = Member {
            name: String::new(),
            status: Status::Observer,
            identity,
            host: origin.host,
            host_generation: origin.generation,
            since_event: read,
        };
        // PAIRS WITH: pod::group::least_cursor
        self.layout.cursor(place).store(mem, read);
        // PAIRS WITH: pod::group::status
        self.layout.member(place).word(0).store(mem, Status::Free.code());
        self.layout.member(place).write(mem, observer.words());
        let high = self.high(worker)?;
        // PAIRS WITH: pod::group::high
        self.layout.high().store(mem, high.max(place + 1));
        drop(held);
        Ok(GroupHandle {
            place,
            identity,
            read,
            check: Check::new(self.identity),
        })
    }

    /// A place without a member: a free one, else that of the member which left or died first.
    fn free_place(&self, members: &[(u64, Member)]) -> Result<u64> {
        if let Some((place, _)) = members.iter().find(|(_, member)| member.status == Status::Free) {
            return Ok(*place);
        }
        if (members.len() as u64) < self.members {
            return Ok(members.len() as u64);
        }
        members
            .iter()
            .filter(|(_, member)| matches!(member.status, Status::Left | Status::Died))
            .min_by_key(|(_, member)| member.since_event)
            .map(|(place, _)| *place)
            .ok_or(Error::GroupCrowded { limit: self.members })
    }

    /// Makes sure that there is room for one more member besides `joined`.
    fn make_room<M: Memory>(&self, worker: &Worker<M>, joined: u64) -> Result<()> {
        let counted = self.counted(worker);
        let (least, slowest) = self.least_cursor(worker, counted)?;
        let kept = if mutant::is(Mutant::GroupRoomForgotten) {
            0
        } else {
            joined * EVENTS_KEPT
        };
        if counted - least + kept + EVENTS_A_JOIN <= self.events {
            return Ok(());
        }
        let slowest = match slowest {
            Some(place) => self.member(worker, place)?.name,
            None => String::new(),
        };
        Err(Error::GroupFull {
            slowest,
            behind: counted - least,
        })
    }

    /// Ends a membership in peace.
    ///
    /// Cost: the lock and about sixty sync stores.
    pub fn leave<M: Memory>(&self, worker: &Worker<M>, handle: GroupHandle) -> Result<()> {
        let _pin = self.pin(worker)?;
        let held = self.enter(worker)?;
        let member = self.member(worker, handle.place)?;
        mutant::also(Mutant::GroupNotifiedEarly, || notify_all(worker.mem()));
        if member.identity == handle.identity {
            self.end(worker, handle.place, member, EventKind::Left)?;
        }
        drop(held);
        if !mutant::is(Mutant::GroupNotifiedEarly) {
            notify_all(worker.mem());
        }
        Ok(())
    }

    /// Ends a membership or an observation. Does nothing if it has ended already.
    fn end<M: Memory>(
        &self,
        worker: &Worker<M>,
        place: u64,
        member: Member,
        kind: EventKind,
    ) -> Result<bool> {
        let status = match (member.status, kind) {
            (Status::Observer, _) => {
                let word = self.layout.member(place).word(0);
                // PAIRS WITH: pod::group::status
                word.store(worker.mem(), Status::Free.code());
                return Ok(true);
            }
            (Status::Joined, EventKind::Left) => Status::Left,
            (Status::Joined, _) => Status::Died,
            _ if mutant::is(Mutant::GroupDeathTwice) && kind == EventKind::Died => Status::Died,
            _ => return Ok(false),
        };
        let change = Change {
            event: event(kind, &member),
            member: Some((place, Member { status, ..member })),
            begins: false,
            announcing_deaths: self.layout.announcing_deaths().load(worker.mem()),
        };
        self.append(worker, change)?;
        Ok(true)
    }

    /// The next event that the handle's place has not read, if there is one.
    ///
    /// Cost: a pin, and two loads if there is none; nine loads and a store if there is.
    pub fn next<M: Memory>(&self, worker: &Worker<M>, handle: &mut GroupHandle) -> Result<Option<Event>> {
        let mem = worker.mem();
        let _pin = worker.pin()?;
        if !mutant::is(Mutant::GroupDropUnseen) {
            handle.check.confirm(worker)?;
        }
        if self.counted(worker) <= handle.read {
            if !mutant::is(Mutant::GroupDropUnseen) {
                handle.check.confirm_now(worker)?;
            }
            return Ok(None);
        }
        let line = self.layout.event(handle.read % self.events);
        let event = Event::of(line.read(mem), line.offset())?;
        if event.number != handle.read + 1 {
            return Err(Error::corrupt("the number of a group's event", line.offset()));
        }
        handle.read += 1;
        // PAIRS WITH: pod::group::least_cursor
        self.layout.cursor(handle.place).store(mem, handle.read);
        Ok(Some(event))
    }

    /// Whether a worker is in the group. Costs a load for each member, and one more for each that is there.
    fn has<M: Memory>(&self, worker: &Worker<M>, identity: u64) -> Result<bool> {
        for place in 0..self.high(worker)? {
            let is_here = matches!(self.status(worker, place)?, Status::Joined | Status::Observer)
                || mutant::is(Mutant::GroupDeathTwice);
            if is_here && self.layout.member(place).word(1).load(worker.mem()) == identity {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The caller is about to sleep until something happens in a group; to be called before it looks. Returns what
/// [`Kernel::wait`](crate::memory::Kernel::wait) needs.
///
/// Cost: that of [`event_count::prepare_wait`].
pub fn prepare_wait<M: Memory>(mem: &M) -> (u64, u32) {
    event_count::prepare_wait(mem, GROUP_EVENTS)
}

/// Wakes all threads that wait for events of groups.
///
/// Cost: that of [`event_count::notify_all`].
pub fn notify_all<M: Memory>(mem: &M) {
    event_count::notify_all(mem, GROUP_EVENTS);
}

fn no_such(name: &str) -> Error {
    Error::NoSuch {
        kind: Structure::Group,
        name: name.to_owned(),
    }
}

fn event(kind: EventKind, member: &Member) -> Event {
    Event {
        number: 0,
        kind,
        member: member.name.clone(),
        identity: member.identity,
        host: member.host,
        time_ns: 0,
    }
}

/// Allocates a group as the worker's auxiliary object. From then on its words are used past the cache: nobody reads
/// what this host's cache has of them.
fn build<M: Memory>(worker: &Worker<M>, token: &[u8], salt: u64, members: u64, events: u64) -> Result<u64> {
    let mem = worker.mem();
    let at = heap::allocate_for(
        worker,
        worker.actor(),
        GROUP_BYTES,
        worker.record().aux_object(),
        0,
    )?;
    unpublished(at, GROUP_BYTES).zero(mem);
    for (n, word) in [MAGIC, members, events, salt]
        .into_iter()
        .chain(token::hash(salt, token))
        .enumerate()
    {
        unpublished(at + 8 * n as u64, 8).write_word(mem, word);
    }
    dropping::write_created(worker, at, KIND_GROUP);
    // With the next fence, which comes before it is published.
    mem.write_back(at, GROUP_BYTES);
    Ok(at)
}
