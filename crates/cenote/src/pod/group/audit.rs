//! What `fsck` checks in a group: everything that its words say of each other.

use std::time::Duration;

use super::event::{Event, Status};
use super::{EVENTS_KEPT, GROUP_BYTES, Group};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::alloc::slab::check_fits;
use crate::pod::format::record::{State, WorkerRecord};
use crate::pod::lock;
use crate::pod::names::directory::Named;

/// Attempts to read a group that others change or hold: at first one after the other, then with sleeps between.
const ATTEMPTS: u32 = 1_200;
const QUICK_ATTEMPTS: u32 = 200;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

/// The outcome of an audit of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// It is sound.
    Sound,
    /// Who has the lock kept it from being looked at, for about a second: an identity.
    Held(u64),
    /// Others have changed it all the time.
    Changing,
}

/// Checks the group that an entry names: its header, its lock and what is being appended, its members, the events that
/// a member or an observer has yet to read. Waits for no lock that a living worker has: it tries again if others change
/// the group meanwhile. It finishes what a dead owner of the lock left, unless the caller only reads.
///
/// # Errors
///
/// [`Error::Dropped`], and any damage.
pub fn audit<M: Memory>(worker: &Worker<M>, named: &Named) -> Result<Audited> {
    let _pin = worker.pin()?;
    let group = Group::of(worker, named)?;
    check_fits(worker, "the size of a group", named.offset, GROUP_BYTES)?;
    let (layout, mem) = (group.layout, worker.mem());
    // Every change of a group moves one of these words, except reads, which move cursors up to the count.
    let words =
        || [layout.lock(), layout.commit(), layout.counted(), layout.high()].map(|word| word.load(mem));
    let mut owner = 0;
    for attempt in 0..ATTEMPTS {
        let before = words();
        owner = before[0];
        let is_left = match owner {
            0 => before[1] != 0,
            _ => lock::is_gone(worker, owner)?,
        };
        check_lock(&group, worker, owner)?;
        if is_left
            && !worker.pod().is_reader()
            && let Some(held) = lock::try_acquire(worker, layout.lock())?
        {
            let _held = group.entered(worker, held)?;
            return check(&group, worker).map(|()| Audited::Sound);
        }
        if owner == 0 {
            let found = group.committed(worker).and_then(|_| check(&group, worker));
            if words() == before {
                return found.map(|()| Audited::Sound);
            }
        } else if is_left && worker.pod().is_reader() {
            // Nobody who reads changes that.
            break;
        }
        match attempt < QUICK_ATTEMPTS {
            true => mem.pause(),
            false => mem.rest(BETWEEN_ATTEMPTS),
        }
    }
    Ok(match owner {
        0 => Audited::Changing,
        owner => Audited::Held(owner),
    })
}

/// Whether the lock names somebody who may have had it: a place that there is, in a generation that there was.
fn check_lock<M: Memory>(group: &Group, worker: &Worker<M>, owner: u64) -> Result<()> {
    let (place, generation) = (owner as u32, (owner >> 32) as u32);
    let is_possible = match place {
        0 => owner == 0,
        place if place > worker.geometry().parameters.workers => false,
        place => {
            let state = WorkerRecord::new(worker.geometry(), place - 1).state();
            let now = State::decode(state.load(worker.mem())).generation;
            now.wrapping_sub(generation) as i32 >= 0
        }
    };
    match is_possible {
        true => Ok(()),
        false => Err(Error::corrupt("a group's lock", group.layout.lock().offset())),
    }
}

fn check<M: Memory>(group: &Group, worker: &Worker<M>) -> Result<()> {
    let counted = group.counted(worker);
    let joined = group
        .all(worker)?
        .iter()
        .filter(|(_, member)| member.status == Status::Joined)
        .count() as u64;
    let (least, _) = group.least_cursor(worker, counted)?;
    if counted - least + joined * EVENTS_KEPT > group.events {
        let at = group.layout.counted().offset();
        return Err(Error::corrupt("the room for a group's events", at));
    }
    for read in least..counted {
        let line = group.layout.event(read % group.events);
        let event = Event::of(line.read(worker.mem()), line.offset())?;
        if event.number != read + 1 {
            return Err(Error::corrupt("the number of a group's event", line.offset()));
        }
    }
    Ok(())
}
