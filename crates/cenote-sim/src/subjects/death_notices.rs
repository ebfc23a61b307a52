//! A group over hosts that die: what its members must be notified of. The hosts are those of [`hosts`](super::hosts),
//! whose threads are its members.
//!
//! What is checked, as far as the events that were read have no gaps:
//!
//! - a host's death comes once; the deaths of all its members that were there follow it directly, and none of its
//!   threads joins afterwards;
//! - once a host is fenced, the group is not notified of a death of its members before its own death, but by what was
//!   being appended then;
//! - when all members are gone, the group knows it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use cenote::pod::Worker;
use cenote::pod::format::host_entry::HostInstance;
use cenote::pod::group::{Creation, Event, EventKind, Group, GroupHandle, Status, hosts_died};
use cenote::{Error, Result};

use super::Log;
use crate::exec::{Context, SimMemory};

const NAME: &str = "group";
const TOKEN: &[u8] = b"token";
/// Room for all threads that can ever begin, and for nearly all that can be notified of them.
const ROOM: Creation = Creation {
    members: 64,
    events: 192,
    salt: 1,
};

/// The group, and what is known of it outside of the machine.
#[derive(Default)]
pub struct DeathNotices {
    log: Log,
    /// Events that any thread has read, by number.
    events: RefCell<BTreeMap<u64, Event>>,
    /// The hosts of members, by their identities.
    origins: RefCell<BTreeMap<u64, HostInstance>>,
    /// Hosts that a monitor says to have fenced, in their generations, and the number of the last event by then, or of
    /// the one that was being appended.
    fenced: RefCell<BTreeMap<(u32, u32), u64>>,
}

impl DeathNotices {
    pub fn new(log: &Log) -> Self {
        Self {
            log: log.clone(),
            ..Self::default()
        }
    }

    pub fn prepare<const C: bool>(&self, worker: &Worker<SimMemory<C>>) -> Result<()> {
        Group::open_or_create(worker, NAME, TOKEN, ROOM).map(drop)
    }

    /// Has a thread join under a name that no other has; whether there was room.
    pub fn join<const C: bool>(
        &self,
        context: &Context<C>,
        worker: &Worker<SimMemory<C>>,
    ) -> Result<Option<GroupHandle>> {
        let group = Group::open(worker, NAME, TOKEN)?;
        // Before it joins: afterwards it may be dead.
        let identity = worker.identity();
        self.origins.borrow_mut().insert(identity, worker.host_instance());
        match group.join(worker, &context.thread().to_string()) {
            Err(Error::GroupFull { .. } | Error::GroupCrowded { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Has a thread read all events from now on; whether there was room.
    pub fn observe<const C: bool>(&self, worker: &Worker<SimMemory<C>>) -> Result<Option<GroupHandle>> {
        match Group::open(worker, NAME, TOKEN)?.observe(worker) {
            Err(Error::GroupFull { .. } | Error::GroupCrowded { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Reads all events that there are.
    pub fn read<const C: bool>(
        &self,
        worker: &Worker<SimMemory<C>>,
        handle: &mut Option<GroupHandle>,
    ) -> Result<()> {
        let Some(handle) = handle else { return Ok(()) };
        let group = Group::open(worker, NAME, TOKEN)?;
        while let Some(event) = group.next(worker, handle)? {
            let mut events = self.events.borrow_mut();
            let known = events.entry(event.number).or_insert_with(|| event.clone());
            if known != &event {
                self.log
                    .fault(format!("event {} was read in two ways", event.number));
            }
        }
        Ok(())
    }

    pub fn leave<const C: bool>(
        &self,
        worker: &Worker<SimMemory<C>>,
        handle: Option<GroupHandle>,
    ) -> Result<()> {
        match handle {
            Some(handle) => Group::open(worker, NAME, TOKEN)?.leave(worker, handle),
            None => Ok(()),
        }
    }

    /// What a monitor's host does when one was fenced.
    pub fn tell<const C: bool>(&self, worker: &Worker<SimMemory<C>>) -> Result<()> {
        hosts_died(worker)
    }

    /// A monitor says that it has fenced a host.
    pub fn fenced<const C: bool>(
        &self,
        worker: &Worker<SimMemory<C>>,
        host: u32,
        generation: u32,
    ) -> Result<()> {
        let group = Group::open(worker, NAME, TOKEN)?;
        // Who has the lock may have seen the host alive, and be about to announce that a member died alone.
        let being_appended = u64::from(group.is_changing(worker));
        let last_event = group.last_committed(worker) + being_appended;
        self.fenced.borrow_mut().insert((host, generation), last_event);
        Ok(())
    }

    pub fn audit<const C: bool>(&self, worker: &Worker<SimMemory<C>>) -> Result<()> {
        for member in Group::open(worker, NAME, TOKEN)?.members(worker)? {
            if !matches!(member.status, Status::Left | Status::Died) {
                self.log
                    .fault(format!("all are gone, and {member:?} is a member"));
            }
        }
        self.check_order();
        Ok(())
    }

    fn check_order(&self) {
        let (events, origins, fenced) = (self.events.borrow(), self.origins.borrow(), self.fenced.borrow());
        let mut dead = BTreeSet::new();
        let mut last: Option<&Event> = None;
        // Whether all events up to here were read.
        let mut is_whole = true;
        for event in events.values() {
            let before = last.filter(|before| before.number + 1 == event.number);
            is_whole &= event.number == 1 || before.is_some();
            last = Some(event);
            let origin = match event.kind {
                EventKind::HostDied => Some(HostInstance {
                    host: event.host,
                    generation: event.identity as u32,
                }),
                _ => origins.get(&event.identity).copied(),
            };
            let Some(origin) = origin.map(|HostInstance { host, generation }| (host, generation)) else {
                continue;
            };
            let is_dead = dead.contains(&origin);
            let follows = |before: &Event| {
                matches!(before.kind, EventKind::Died | EventKind::HostDied) && before.host == event.host
            };
            let is_right = match event.kind {
                EventKind::HostDied => dead.insert(origin),
                EventKind::Joined | EventKind::Rejoined | EventKind::Left => !is_dead,
                EventKind::Died if is_dead => before.is_none_or(follows),
                EventKind::Died => {
                    !is_whole
                        || fenced
                            .get(&origin)
                            .is_none_or(|&last_event| event.number <= last_event)
                }
            };
            if !is_right {
                self.log.fault(format!(
                    "{event:?}, of host {} in generation {}, comes behind {before:?}, and its host is {}dead",
                    origin.0,
                    origin.1,
                    if is_dead { "" } else { "not " }
                ));
            }
            let needs_more = before.is_some_and(|before| before.kind == EventKind::HostDied);
            if needs_more
                && !(event.kind == EventKind::Died && before.is_some_and(|before| before.host == event.host))
            {
                self.log
                    .fault(format!("{event:?} comes behind {before:?} at once"));
            }
        }
    }
}
