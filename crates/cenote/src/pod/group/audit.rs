//! What `fsck` checks in a group: everything that its words say of each other.

use super::event::{Event, Status};
use super::{EVENTS_KEPT, GROUP_BYTES, Group};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::alloc::slab::check_fits;

/// Attempts of an observer to read a group that others change.
const ATTEMPTS: u32 = 200;

/// Checks the group at an offset: its header, its members, the events that a member has yet to read. Takes its lock, unless the caller is an
/// observer: an observer tries again if others change the group meanwhile, and reports nothing if they always do, or if a worker died with
/// the lock.
pub fn audit<M: Memory>(worker: &Worker<M>, at: u64) -> Result<()> {
    let group = Group::at(worker, at)?;
    check_fits(worker, "the size of a group", at, GROUP_BYTES)?;
    if !worker.pod().is_reader() {
        let _held = group.enter(worker)?;
        return check(&group, worker);
    }
    let (layout, mem) = (group.layout, worker.mem());
    // Every change of a group moves one of these words, except reads, which move cursors up to the count.
    let words =
        || [layout.lock(), layout.commit(), layout.counted(), layout.high()].map(|word| word.load(mem));
    for _ in 0..ATTEMPTS {
        let before = words();
        let found = check(&group, worker);
        if before[0] == 0 && words() == before {
            return found;
        }
        mem.pause();
    }
    Ok(())
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
