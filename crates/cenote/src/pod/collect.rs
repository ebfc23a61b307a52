//! Freeing what is retired, once no reader can hold it and no host has it in its cache.
//!
//! **Freeing** entries at the head: their cells: retired by me -> free; then the head moves past them. If a crash comes
//! between, some cells no longer name this record, and recovery moves the head past those. A cell can never name it again
//! for another reason, as the record's worker is dead: this is why cells hold a name and not a bit.
//!
//! **Exhausted chunks** are seen by nobody else and freed at once: `retiring = chunk | 1` and the same two steps.
//!
//! A worker that leaves may leave a list; whoever frees next inherits it.

use super::abandoned::after_free;
use super::block::{CELL_FREE, CELL_LIVE, RangeState};
use super::crash::{Point, crash_point};
use super::epoch;
use super::flush;
use super::publish::forget_lines;
use super::record::{Phase, State, WorkerRecord};
use super::retire::{
    Actor, INDEX_MASK, Position, count_in, entry, next_of, next_position, refresh, set, set_position, span,
};
use super::slab::{CellAt, Place, cell_of, locate, remembered_cell, table_word};
use super::superblock::ORPHANS;
use super::units::free_range;
use super::worker::Worker;
use crate::error::{Error, Result};
use crate::memory::{LINE, Memory};
use crate::mutant::{self, Mutant};

/// Retired objects after which a worker tries to free some.
const COLLECT_EVERY: u32 = 256;
/// Entries freed together, so that the misses of their cells overlap.
const FREED_AT_ONCE: usize = 8;

/// Frees what may be freed, now and then. Called by operations that retire, before they pin.
#[inline]
pub fn collect_sometimes<M: Memory>(worker: &Worker<M>) -> Result<()> {
    if worker.retired_since.get() < COLLECT_EVERY {
        return Ok(());
    }
    collect_now(worker)
}

#[cold]
fn collect_now<M: Memory>(worker: &Worker<M>) -> Result<()> {
    worker.retired_since.set(0);
    let least = epoch::advance(worker);
    let freed = collect(worker, worker.actor(), least)?;
    if ORPHANS.load(worker.mem()) != 0 {
        inherit(worker, least)?;
    }
    if freed == 0 {
        super::recovery::recover_if_held_back(worker)?;
    }
    Ok(())
}

/// Frees what the worker's place came with, as far as that can be freed now. For workers that retire nothing themselves:
/// others come to it sooner or later, and whoever leaves leaves it to heirs.
pub fn collect_inherited<M: Memory>(worker: &Worker<M>) -> Result<()> {
    if worker.has_inherited.get() {
        let least = epoch::advance(worker);
        collect(worker, worker.actor(), least)?;
        let (head, tail) = span(worker, worker.record())?;
        worker.has_inherited.set(head != tail);
    }
    Ok(())
}

/// Frees all that can be freed without waiting for anybody who lives.
pub fn collect_all<M: Memory>(worker: &Worker<M>) -> Result<()> {
    super::recovery::recover_dead(worker)?;
    for _ in 0..4 {
        let least = epoch::advance(worker);
        collect(worker, worker.actor(), least)?;
        inherit(worker, least)?;
    }
    Ok(())
}

/// Frees the entries of the actor's list whose tag is below `least - 1`. Returns how many.
pub fn collect<M: Memory>(worker: &Worker<M>, actor: Actor, least: u64) -> Result<u64> {
    let mut freed = 0;
    let end = ripe_until(worker, actor.record, least)?;
    // The reuse rule's second half: no host may still have the lines in its cache. The fences of a flush round also complete
    // what the operations have written back that retired these objects: their records say that they are over.
    let end = if M::COHERENT {
        end
    } else {
        flush::flushed_until(worker, actor.record, end)?
    };
    loop {
        let (head, tail) = span(worker, actor.record)?;
        if head.chunk == 0 || head == end {
            return Ok(freed);
        }
        let mut last = count_in(worker, head.chunk, tail);
        if head.index >= last {
            if head.chunk == tail.chunk {
                return Ok(freed);
            }
            free_chunk(worker, actor, head.chunk)?;
            continue;
        }
        if head.chunk == end.chunk {
            last = last.min(end.index);
        }
        freed += free_entries(worker, actor, head, last)?;
    }
}

/// Frees the entries of one chunk from `first` on, up to the one before `last`: some of them, at least one. Returns how
/// many.
fn free_entries<M: Memory>(worker: &Worker<M>, actor: Actor, first: Position, last: u64) -> Result<u64> {
    // A dead one's first entry may be freed already, and its cell somebody else's: it is looked at right before it is
    // freed.
    let is_own = actor == worker.actor();
    let at_once = if is_own { FREED_AT_ONCE } else { 1 };
    let count = at_once.min((last - first.index) as usize);
    let mem = worker.mem();
    let mut cells = [CellAt::UNKNOWN; FREED_AT_ONCE];
    for (cell, index) in cells[..count].iter_mut().zip(first.index..) {
        let object = entry(first.chunk, index).0.get(mem);
        *cell = match is_own.then(|| remembered_cell(worker, object)).flatten() {
            Some(cell) => cell.at,
            None => cell_of(worker, object),
        };
        if M::COHERENT && *cell != CellAt::UNKNOWN {
            cell.prefetch(mem);
        }
    }
    let head = actor.record.head();
    let behind = |index| Position { index, ..first };
    let mut index = first.index;
    for cell in &cells[..count] {
        if *cell == CellAt::UNKNOWN {
            // It moves the head itself.
            if index > first.index {
                set_position(worker, head, behind(index));
            }
            let object = entry(first.chunk, index).0.get(mem);
            free_object(worker, actor, object, behind(index + 1))?;
        } else {
            if mutant::is(Mutant::HeadBeforeCell) {
                set_position(worker, head, behind(index + 1));
            }
            free_cell(worker, actor, *cell);
        }
        index += 1;
    }
    set_position(worker, head, behind(index));
    Ok(count as u64)
}

/// The first entry of a record's list that somebody may still be reading; the list's end if there is none.
fn ripe_until<M: Memory>(worker: &Worker<M>, record: WorkerRecord, least: u64) -> Result<Position> {
    let mem = worker.mem();
    let (mut position, tail) = span(worker, record)?;
    let mut chunks_left = worker.committed_units()? * 64 + 1;
    while position.chunk != 0 {
        let count = count_in(worker, position.chunk, tail);
        while position.index < count {
            let one = u64::from(!mutant::is(Mutant::EpochRuleWithoutOne));
            let tag = entry(position.chunk, position.index).1.get(mem);
            if tag.saturating_add(one) >= least {
                return Ok(position);
            }
            position.index += 1;
        }
        if position.chunk == tail.chunk {
            break;
        }
        position = next_position(worker, position, &mut chunks_left)?;
    }
    Ok(position)
}

/// Frees an entry's object, whose cell is known.
#[inline]
fn free_cell<M: Memory>(worker: &Worker<M>, actor: Actor, cell: CellAt) {
    let mem = worker.mem();
    // A worker knows of its own entries that they are not freed.
    let before = match !M::COHERENT && actor == worker.actor() {
        true => cell.change_from(mem, actor.me, CELL_FREE),
        false if cell.load(mem) == actor.me => Some(cell.change(mem, actor.me, CELL_FREE)),
        false => None,
    };
    if let Some(before) = before {
        after_free(worker, cell, before);
        crash_point(Point::CollectFreed);
    }
}

/// Frees the object of the entry before `next`.
fn free_object<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64, next: Position) -> Result<()> {
    let mem = worker.mem();
    let head = actor.record.head();
    match locate(worker, object) {
        // Freed already, and its block with it.
        Err(_) => set_position(worker, head, next),
        Ok(Place::Slab(cell)) => {
            free_cell(worker, actor, cell.at);
            set_position(worker, head, next);
        }
        Ok(Place::Range {
            unit,
            units,
            state: RangeState::Retired,
            owner,
        }) if owner == actor.me => {
            let tag = (table_word(worker, unit).load(mem) >> 8) as u8;
            if tag != 0 && !mutant::is(Mutant::DrainForgotten) {
                let range = worker.geometry().unit_offset(unit);
                (worker.pod().hooks().drain_range)(worker, actor, range)?;
                // Its head has been read through the cache.
                forget_lines(mem, range, LINE);
            }
            free_range(worker, unit, units, &[(head, next.encode())])?;
            crash_point(Point::BigFreed);
        }
        Ok(Place::Range { .. }) => set_position(worker, head, next),
    }
    Ok(())
}

/// Frees the first chunk, all of whose entries are freed.
fn free_chunk<M: Memory>(worker: &Worker<M>, actor: Actor, chunk: u64) -> Result<()> {
    set(worker, actor.record.retiring(), chunk | 1);
    finish_chunk(worker, actor, chunk)
}

/// Finishes what `free_chunk` began, from whatever step.
pub(super) fn finish_chunk<M: Memory>(worker: &Worker<M>, actor: Actor, chunk: u64) -> Result<()> {
    let mem = worker.mem();
    let record = actor.record;
    let is_first = Position::decode(record.head().get(mem)).chunk == chunk;
    let cell = match locate(worker, chunk) {
        Ok(Place::Slab(cell)) => cell,
        // Out of the list and freed already, and its block with it.
        _ if !is_first => {
            set(worker, record.retiring(), 0);
            return Ok(());
        }
        _ => return Err(Error::corrupt("a retired list's chunk", chunk)),
    };
    if is_first {
        match cell.load(mem) {
            CELL_LIVE => {
                cell.change(mem, CELL_LIVE, actor.me);
            }
            mark if mark == actor.me => {}
            _ => return Err(Error::corrupt("a retired list's chunk that is free, seen", chunk)),
        }
    }
    crash_point(Point::CollectChunk);
    if is_first {
        let next = next_of(chunk).get(mem);
        if next == 0 {
            set(worker, record.tail(), 0);
        }
        set_position(
            worker,
            record.head(),
            Position {
                chunk: next & !INDEX_MASK,
                index: 0,
            },
        );
    }
    if cell.load(mem) == actor.me {
        let before = cell.change(mem, actor.me, CELL_FREE);
        after_free(worker, cell.at, before);
    }
    set(worker, record.retiring(), 0);
    Ok(())
}

/// Frees what vacant records still hold.
pub fn inherit<M: Memory>(worker: &Worker<M>, least: u64) -> Result<()> {
    let mem = worker.mem();
    let before = ORPHANS.load(mem);
    let mut left = false;
    for index in 0..worker.pod().workers_high() {
        let record = WorkerRecord::new(worker.geometry(), index);
        let word = record.state().load(mem);
        let state = State::decode(word);
        if state.phase != Phase::Free || record.head().peek(mem) == record.tail().peek(mem) {
            continue;
        }
        let claimed = worker.claim(state.generation);
        if record
            .state()
            .compare_exchange(mem, word, claimed.encode())
            .is_err()
            && !mutant::is(Mutant::HeirWithoutClaim)
        {
            continue;
        }
        if !mutant::is(Mutant::HeirNotInvalidated) {
            record.invalidate(mem);
        }
        let actor = Actor {
            record,
            me: index as u16 + 1,
        };
        let done = refresh(worker, record).and_then(|()| collect(worker, actor, least));
        left |= record.head().get(mem) != record.tail().get(mem);
        record.write_back(mem);
        let _ = record.state().compare_exchange(mem, claimed.encode(), word);
        done?;
    }
    if !left && before != 0 {
        let _ = ORPHANS.compare_exchange(mem, before, 0);
    }
    Ok(())
}
