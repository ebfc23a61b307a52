//! A worker's auxiliary allocation: an object besides those of its operation, to be published by one word. The worker's
//! record names the object, the word and what the word will hold, so that recovery can find out whether it was
//! published.

use super::frames::free_extent;
use super::orphans::after_free;
use super::slab::{Location, forget_lines, locate};
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::format::actor::Actor;
use crate::pod::format::block::{CELL_FREE, CELL_LIVE};
use crate::pod::format::record::DRAINING;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Worker;

/// Names the word that will publish the auxiliary allocation, and what it will hold.
pub fn link_auxiliary<M: Memory>(worker: &Worker<M>, actor: Actor, word: u64, expected: u64) {
    let mem = worker.mem();
    if mutant::is(Mutant::AuxiliaryNotNamed) {
        return;
    }
    // The word last: until it is there, nothing is published.
    actor.record.aux_expected().set(mem, expected);
    actor.record.aux_word().set(mem, word);
    mem.persist(actor.record.aux_object().offset(), 24);
}

/// Forgets the auxiliary allocation, after it was published or freed.
pub fn clear_auxiliary<M: Memory>(worker: &Worker<M>, actor: Actor) {
    let mem = worker.mem();
    actor.record.aux_object().set(mem, 0);
    actor.record.aux_word().set(mem, 0);
    actor.record.aux_expected().set(mem, 0);
    mem.persist(actor.record.aux_object().offset(), 24);
}

/// Frees an auxiliary allocation that no other worker has seen; repeatable from any step. Its block is still the
/// actor's (nothing of its class was allocated since), so nobody can have taken its cell once it is free.
pub fn discard_auxiliary<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    let object = actor.record.aux_object().get(mem);
    if object != 0 {
        let place = locate(worker, object)?;
        forget_lines(mem, object, place.capacity());
        mem.must_not_be_cached(object, place.capacity());
        match place {
            Location::Slab(cell) => {
                if cell.load(mem) == CELL_LIVE {
                    cell.change(mem, CELL_LIVE, actor.me);
                }
                if cell.load(mem) == actor.me {
                    let before = cell.change(mem, actor.me, CELL_FREE);
                    after_free(worker, cell.at, before);
                }
            }
            Location::Extent { frame, frames, .. } => {
                free_extent(worker, frame, frames, &[(actor.record.aux_object(), 0)])?;
            }
        }
    }
    clear_auxiliary(worker, actor);
    Ok(())
}

/// Takes the object that `link` refers to out of a private list of such objects and frees it; repeatable from any
/// step. `link` holds `expected` while the object is still in the list, and `next` afterwards.
pub fn drain_auxiliary<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    link: SyncWord,
    expected: u64,
    object: u64,
    next: u64,
) -> Result<()> {
    let mem = worker.mem();
    let cell = match locate(worker, object) {
        Ok(Location::Slab(cell)) => cell,
        // It is out of the list and freed already, and its block with it.
        _ if link.load(mem) != expected => {
            clear_auxiliary(worker, actor);
            return Ok(());
        }
        _ => return Err(Error::corrupt("a chain line", object)),
    };
    // The object last: until it is there, nothing is drained.
    actor.record.aux_expected().set(mem, expected);
    actor.record.aux_word().set(mem, link.offset());
    actor.record.aux_object().set(mem, object | DRAINING);
    mem.persist(actor.record.aux_object().offset(), 24);
    // PAIRS WITH: pod::alloc::auxiliary::drain_auxiliary
    if link.load(mem) == expected {
        match cell.load(mem) {
            CELL_LIVE => {
                cell.change(mem, CELL_LIVE, actor.me);
            }
            mark if mark == actor.me => {}
            _ => {
                return Err(Error::corrupt(
                    "a chain line that is free and linked, seen",
                    object,
                ));
            }
        }
        // PAIRS WITH: pod::alloc::auxiliary::drain_auxiliary
        link.store(mem, next);
    }
    crash_point(Point::DrainedLine);
    if cell.load(mem) == actor.me {
        let before = cell.change(mem, actor.me, CELL_FREE);
        after_free(worker, cell.at, before);
    }
    clear_auxiliary(worker, actor);
    Ok(())
}
