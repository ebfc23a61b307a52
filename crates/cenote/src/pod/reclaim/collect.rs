//! Freeing retired objects, once no reader can hold them and no host has them in its cache.
//!
//! **Freeing** some entries of a chunk, a batch:
//!
//! | step | a crash after it leaves | recovery |
//! |---|---|---|
//! | *freeing* = chunk, *which* = the entries | entries of live objects | all of what follows |
//! | their cells: live -> being freed by me | some of them marked | the same |
//! | *freeing* = chunk, decided; the entries are gone | marked objects, in no list (`collect.decided`) | all of what follows |
//! | their cells: being freed by me -> free | some of them free (`collect.freed`) | those that are still marked |
//! | *freeing* = 0 | nothing | |
//!
//! Once it is decided, an unmarked cell was freed, and may have any owner: it can never be marked in this name again,
//! as the record's worker is dead. So a cell that is free is in no list: recovery of other workers relies on this. An
//! extent is a batch by itself: one transaction frees it and clears *freeing*.
//!
//! **The head** moves past entries that are gone. An exhausted chunk is retired itself, as others may be looking for
//! something in it: `retiring = chunk | 1`; the head moves to the next; the chunk is entered into the list;
//! `retiring = 0`.
//!
//! A worker that collects now and then caches what it is likely to allocate again ([`crate::pod::instance::recycle`]).
//! A worker that leaves may leave a list; the next worker that frees adopts it.

use super::flush;
use super::retire::{
    await_entries, begin_anew, chunks_max, count_in, ensure_room, ensure_room_for, find, is_gone, lacks,
    mark_extent, next_position, push, set, set_position, span, write_back_ends,
};
use super::takeover::{ListHold, Whose, ask_for_lists, take_over};
use super::vacant::adopt;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::alloc::classes::{place_of, renew_classes};
use crate::pod::alloc::frames::free_extent;
use crate::pod::alloc::orphans::after_free;
use crate::pod::alloc::pending::commit_pending;
use crate::pod::alloc::slab::{CellAt, Location, locate, table_word};
use crate::pod::format::actor::Actor;
use crate::pod::format::block::{CELL_FREE, CELL_LIVE, ExtentState};
use crate::pod::format::chunk::{
    CHUNK_BYTES, CHUNK_ENTRIES, GONE, INDEX_MASK, Position, ROOM, entry, next_of,
};
use crate::pod::format::record::WorkerRecord;
use crate::pod::format::superblock::ORPHANS;
use crate::pod::instance::advance::{advance, least, reclaimable_below};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::hooks::Progress;
use crate::pod::instance::recycle::CachedEntry;
use crate::pod::instance::worker::Worker;

/// Set in *freeing* once the batch is decided.
const DECIDED: u64 = 1;

/// Fills the magazines and frees reclaimable objects, now and then.
#[inline]
fn collect_sometimes<M: Memory>(worker: &Worker<M>) -> Result<()> {
    let limits = worker.limits();
    if worker.reclaim.retired_since.get() < limits.collect_every
        && worker.reclaim.retired_bytes_since.get() < limits.collect_bytes
    {
        return Ok(());
    }
    collect_now(worker)
}

/// The first step of every operation that may retire: holds the worker's list, collects if it is time, and makes room
/// in the list. The operation pins only then.
#[inline]
pub fn begin_write<M: Memory>(worker: &Worker<M>) -> Result<ListHold<'_, M>> {
    let hold = worker.hold_list()?;
    collect_sometimes(worker)?;
    ensure_room(worker, worker.actor())?;
    Ok(hold)
}

/// The slow path of [`collect_sometimes`].
#[cold]
pub fn collect_now<M: Memory>(worker: &Worker<M>) -> Result<()> {
    let _hold = worker.hold_list()?;
    worker.reclaim.retired_since.set(0);
    if let Some(until) = worker.reclaim.recycler.stopped_before() {
        return fill_magazines_on(worker, until);
    }
    worker.reclaim.retired_bytes_since.set(0);
    let least = reclaimable_below(worker, advance(worker));
    let found = fill_magazines(worker, least)?;
    let scans = worker.reclaim.scans.get().wrapping_add(1);
    worker.reclaim.scans.set(scans);
    let maintains = scans.is_multiple_of(worker.limits().maintain_every.max(1));
    if maintains || ORPHANS.load(worker.mem()) != 0 {
        // Moving lists takes the allocator's lock, and all workers may be at it: each takes one.
        adopt(worker, least, if M::COHERENT { 1 } else { u32::MAX })?;
    }
    if maintains {
        take_over(worker, Whose::Quiet)?;
    }
    if found == 0 {
        recover_if_held_back(worker)?;
    }
    Ok(())
}

/// Frees what the worker's place came with, as far as that can be freed now. For workers that retire nothing
/// themselves: others free it as they collect, and a leaving worker leaves it to adopters.
pub fn collect_adopted<M: Memory>(worker: &Worker<M>) -> Result<()> {
    if worker.reclaim.has_adopted.get()
        && let Some(_right) = worker.pod().may_reclaim(worker)
    {
        let _hold = worker.hold_list()?;
        let least = reclaimable_below(worker, advance(worker));
        collect(worker, worker.actor(), least)?;
        make_way(worker, worker.actor());
        let (head, tail) = span(worker, worker.record())?;
        worker.reclaim.has_adopted.set(head != tail);
    }
    Ok(())
}

/// Makes room in a list for the chunks that its head leaves, if there is memory for that: for a list to which nothing
/// is retired, so that no operation makes room in it. Returns whether room was lacking and is there now.
pub(in crate::pod) fn make_way<M: Memory>(worker: &Worker<M>, actor: Actor) -> bool {
    // As much as the head needs.
    let room = room_to_leave(worker, actor);
    let lacks_room =
        |(head, tail): (Position, Position)| head.chunk != tail.chunk && lacks(worker, tail, room);
    if !span(worker, actor.record).is_ok_and(lacks_room) {
        return false;
    }
    // In a full pool those chunks wait. Under a pin no operation makes room in it for them.
    let made = worker.pin().and_then(|_pin| ensure_room_for(worker, actor, room));
    made.is_ok()
}

/// [`free_all_and_chunks`] for callers that need no count.
pub fn collect_all<M: Memory>(worker: &Worker<M>) -> Result<()> {
    free_all_and_chunks(worker).map(drop)
}

/// [`free_all`] for callers that do not write: also frees the list's own chunks. Each chunk of room takes some sixty of
/// those that the head leaves.
pub fn free_all_and_chunks<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    let mut freed = free_all(worker)?;
    let _hold = worker.hold_list()?;
    loop {
        let has_room = make_way(worker, worker.actor());
        let (before, _) = span(worker, worker.record())?;
        freed += free_all(worker)?;
        let (after, _) = span(worker, worker.record())?;
        if !has_room || after.chunk == before.chunk {
            return Ok(freed);
        }
    }
}

/// Frees all that can be freed without waiting for a living worker: what dead, departed and idle workers and the caller
/// have retired. Returns how many objects.
pub fn free_all<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    (worker.pod().hooks().inner.recover_dead)(worker)?;
    let _hold = worker.hold_list()?;
    let mut left = take_idle_lists(worker)?;
    let adopted = adopt(worker, reclaimable_below(worker, least(worker)), u32::MAX)?;
    let mut freed = adopted + free_own(worker)?;
    // Lists of workers without a spare chunk, one after the other: each worker gets that of the caller's own list once
    // nothing waits in it. Workers may become idle as fast as their lists are taken.
    let mut rounds_left = worker.pod().workers_high();
    while left > 0 && rounds_left > 0 {
        rounds_left -= 1;
        let again = take_over(worker, Whose::Idle)?;
        if again.taken == 0 {
            break;
        }
        freed += free_own(worker)?;
        left = again.left;
    }
    if freed == 0 && M::COHERENT {
        freed = free_scattered(worker)?;
    }
    // Before there are entries after those that are gone: a spare chunk may have been given away for this one.
    begin_anew(worker, worker.actor());
    Ok(freed)
}

/// Takes the lists of idle workers over, and asks for those of others. Returns how many lists of idle workers are left.
fn take_idle_lists<M: Memory>(worker: &Worker<M>) -> Result<u32> {
    if mutant::is(Mutant::IdleListLeft) {
        return Ok(0);
    }
    let left = take_over(worker, Whose::Idle)?.left;
    ask_for_lists(worker);
    Ok(left)
}

/// Scans all of the own list, from its beginning until an entry is not reclaimable. Returns how many objects were
/// freed.
pub(in crate::pod) fn free_own<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    let mut freed = 0;
    // A retired object is reclaimable two epochs later; each scan covers a part of the list.
    let mut looks_left = 4;
    let mut goes_on = false;
    // A list that is a cycle has no end.
    let mut steps_left = chunks_max(worker)? / worker.limits().collect_chunks.max(1) + 4;
    while looks_left > 0 {
        let least = reclaimable_below(worker, advance(worker));
        let scan = scan(worker, worker.actor(), least, goes_on)?;
        goes_on = true;
        freed += scan.freed;
        match scan.went_on {
            _ if scan.freed > 0 => {}
            false => looks_left -= 1,
            true if steps_left == 0 => {
                let head = worker.record().head().offset();
                return Err(Error::corrupt("a retired list without end", head));
            }
            true => steps_left -= 1,
        }
    }
    Ok(freed)
}

/// Frees reclaimable entries after ones that are not: in a list that was put together from several, or of a worker that
/// reads for long. Coherent memory only; elsewhere a flush round covers only adjacent entries.
///
/// Cost: a walk of the own list.
fn free_scattered<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    let (mem, actor) = (worker.mem(), worker.actor());
    let least = reclaimable_below(worker, advance(worker));
    let (head, tail) = span(worker, actor.record)?;
    let mut freed = 0;
    for (chunk, which) in parts(worker, actor.record, head, tail)? {
        let reclaimable = indexes(which)
            .filter(|&index| is_reclaimable(entry(chunk, index).1.get(mem), least))
            .fold(0, |reclaimable, index| reclaimable | 1 << index);
        if reclaimable != 0 {
            freed += free_entries(worker, actor, chunk, reclaimable)?;
        }
    }
    move_head(worker, actor)?;
    Ok(freed)
}

/// The result of a scan.
struct Scan {
    /// Objects that were freed.
    freed: u64,
    /// Whether it came further than the last one.
    went_on: bool,
}

/// Frees the first entries of the actor's list whose tag is below `least - 1`, as many as one scan covers. Returns how
/// many.
pub fn collect<M: Memory>(worker: &Worker<M>, actor: Actor, least: u64) -> Result<u64> {
    Ok(scan(worker, actor, least, false)?.freed)
}

/// Scans a list from its beginning, or the own list from where the last scan ended if `goes_on`. All before that is
/// gone then, but the head may be behind if there was no room for the chunks that it leaves: walking through them in
/// each scan would take quadratic time.
fn scan<M: Memory>(worker: &Worker<M>, actor: Actor, least: u64, goes_on: bool) -> Result<Scan> {
    let is_own = actor == worker.actor();
    let _hold = is_own.then(|| worker.hold_list()).transpose()?;
    let (head, _) = span(worker, actor.record)?;
    commit_pending(worker);
    renew_classes(worker);
    let from = match is_own {
        true => worker.reclaim.recycler.frontier(head),
        false => first_there(worker, actor.record, head)?,
    };
    let stopped_before = worker.reclaim.recycler.stopped_before().filter(|_| is_own);
    let end = match stopped_before {
        Some(until) => until,
        None => available_until(worker, actor.record, from, least)?,
    };
    if is_own {
        worker.reclaim.recycler.clear();
        worker.reclaim.recycler.set_frontier(end);
    }
    let mut freed = 0;
    for (chunk, which) in parts(worker, actor.record, if goes_on { from } else { head }, end)? {
        freed += free_entries(worker, actor, chunk, which)?;
    }
    move_head(worker, actor)?;
    Ok(Scan {
        freed,
        went_on: end != from,
    })
}

/// Puts the own entries whose tag is below `least - 1` into the magazines, and frees what was not needed since the last
/// time. Returns how many entries that were.
fn fill_magazines<M: Memory>(worker: &Worker<M>, least: u64) -> Result<u64> {
    commit_pending(worker);
    let (head, _) = span(worker, worker.record())?;
    let from = worker.reclaim.recycler.frontier(head);
    match available_until(worker, worker.record(), from, least)? {
        until if until == from => Ok(0),
        until => {
            let unneeded = worker.reclaim.recycler.take_idle();
            fill_magazines_until(worker, until, unneeded)
        }
    }
}

/// Goes on with the extent at which filling the magazines has stopped, and then with the entries after it.
fn fill_magazines_on<M: Memory>(worker: &Worker<M>, until: Position) -> Result<()> {
    let (head, _) = span(worker, worker.record())?;
    let at = worker.reclaim.recycler.frontier(head);
    // Whatever the result: a damaged list is reported once.
    worker.reclaim.recycler.set_frontier(at);
    let object = entry(at.chunk, at.index).0.get(worker.mem());
    match is_left(worker, object, &mut links_at_a_time(worker)) {
        true => stop(worker, until),
        false => drop(fill_magazines_until(worker, until, Vec::new())?),
    }
    Ok(())
}

/// Puts the own entries from the frontier to `until` into the magazines, and frees the others. Stops at an extent that
/// refers to more than is freed at a time: the next write goes on with that.
fn fill_magazines_until<M: Memory>(
    worker: &Worker<M>,
    until: Position,
    mut unneeded: Vec<CachedEntry>,
) -> Result<u64> {
    let (actor, mem, recycler) = (worker.actor(), worker.mem(), &worker.reclaim.recycler);
    commit_pending(worker);
    renew_classes(worker);
    let (head, _) = span(worker, actor.record)?;
    let parts = parts(worker, actor.record, recycler.frontier(head), until)?;
    let (mut end, mut found) = (until, unneeded.len());
    let mut links_left = links_at_a_time(worker);
    'round: for (chunk, which) in parts {
        for index in indexes(which) {
            let object = entry(chunk, index).0.get(mem);
            let cached = CachedEntry { object, chunk, index };
            found += 1;
            let is_kept = match place_of(worker, object) {
                Ok(Location::Slab(cell)) => recycler.put(cell.class, cached, worker.limits().magazine_bytes),
                Ok(Location::Extent { .. }) if is_left(worker, object, &mut links_left) => {
                    end = Position { chunk, index };
                    break 'round;
                }
                _ => false,
            };
            if !is_kept {
                unneeded.push(cached);
            }
        }
    }
    recycler.set_frontier(end);
    match end == until {
        true => recycler.end_round(),
        false => stop(worker, until),
    }
    unneeded.sort_unstable_by_key(|cached| cached.chunk);
    for batch in unneeded.chunk_by(|one, next| one.chunk == next.chunk) {
        let which = batch.iter().fold(0, |which, cached| which | 1 << cached.index);
        free_entries(worker, actor, batch[0].chunk, which)?;
    }
    move_head(worker, actor)?;
    Ok(found as u64)
}

/// The links that a write follows at a time.
fn links_at_a_time<M: Memory>(worker: &Worker<M>) -> u64 {
    worker.limits().drain_links.max(1)
}

/// Filling the magazines stops at the frontier, before `until`; the next write goes on.
fn stop<M: Memory>(worker: &Worker<M>, until: Position) {
    worker.reclaim.recycler.stop_before(until);
    worker.reclaim.retired_since.set(worker.limits().collect_every);
}

/// Frees what an extent in the own list refers to, following a limited number of links. Returns whether anything is
/// left. Damage is met again, and skipped, when the extent is freed.
fn is_left<M: Memory>(worker: &Worker<M>, object: u64, links_left: &mut u64) -> bool {
    match place_of(worker, object) {
        Ok(Location::Extent {
            frame,
            state: ExtentState::Retired,
            ..
        }) => matches!(
            drain(worker, worker.actor(), frame, object, links_left),
            Ok(Progress::Partial)
        ),
        _ => false,
    }
}

/// Up to where the entries of a list from one on are reclaimable, and no host may still have their lines in its cache:
/// the two halves of the reuse rule. The fences of a flush round also complete the write-backs of the operations that
/// retired these objects: their records say that they are over.
fn available_until<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    from: Position,
    least: u64,
) -> Result<Position> {
    let reclaimable = reclaimable_until(worker, record, from, least)?;
    if M::COHERENT || mutant::is(Mutant::RecycledUnflushed) {
        return Ok(reclaimable);
    }
    flush::flushed_until(worker, record, from, reclaimable)
}

/// The first entry of a list that is not gone; the list's end if all are. A head may be far before that, as long as
/// there was no room for the chunks before it.
fn first_there<M: Memory>(worker: &Worker<M>, record: WorkerRecord, mut from: Position) -> Result<Position> {
    let (_, tail) = span(worker, record)?;
    let mut chunks_left = chunks_max(worker)?;
    while from.chunk != 0 {
        let count = count_in(worker, from.chunk, tail);
        let found = (from.index..count).find(|&index| !is_gone(worker, from.chunk, index));
        from.index = found.unwrap_or(count.max(from.index));
        if found.is_some() || from.chunk == tail.chunk {
            break;
        }
        from = next_position(worker, from, &mut chunks_left)?;
    }
    Ok(from)
}

/// The entries between two positions of a list that are not gone, chunk by chunk.
pub(in crate::pod) fn parts<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    mut from: Position,
    end: Position,
) -> Result<Vec<(u64, u64)>> {
    let (_, tail) = span(worker, record)?;
    let mut chunks_left = chunks_max(worker)?;
    let mut parts = Vec::new();
    while from.chunk != 0 && from != end {
        let mut last = count_in(worker, from.chunk, tail);
        if from.chunk == end.chunk {
            last = last.min(end.index);
        }
        let which = (from.index..last)
            .filter(|&index| !is_gone(worker, from.chunk, index))
            .fold(0, |which, index| which | 1 << index);
        parts.push((from.chunk, which));
        if from.chunk == end.chunk || from.chunk == tail.chunk {
            break;
        }
        from = next_position(worker, from, &mut chunks_left)?;
    }
    Ok(parts)
}

/// The bits of a batch.
fn indexes(which: u64) -> impl Iterator<Item = u64> {
    (0..CHUNK_ENTRIES).filter(move |index| which & 1 << index != 0)
}

/// Whether no reader can hold what was retired with this tag, given the least announcement.
fn is_reclaimable(tag: u64, least: u64) -> bool {
    let one = u64::from(!mutant::is(Mutant::EpochRuleWithoutOne));
    tag.saturating_add(one) < least
}

/// The first entry of a record's list, from one on, that a reader may still hold, or that is too far off for one scan;
/// the list's end if there is none.
fn reclaimable_until<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    mut position: Position,
    least: u64,
) -> Result<Position> {
    let mem = worker.mem();
    let (_, tail) = span(worker, record)?;
    let mut chunks_left = chunks_max(worker)?;
    for _ in 0..worker.limits().collect_chunks.max(1) {
        if position.chunk == 0 {
            break;
        }
        let count = count_in(worker, position.chunk, tail);
        while position.index < count {
            let tag = entry(position.chunk, position.index).1.get(mem);
            if !is_reclaimable(tag, least) && !mutant::is(Mutant::RecycledUnreclaimable) {
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

/// Frees entries of a chunk that are not gone. Returns how many.
fn free_entries<M: Memory>(worker: &Worker<M>, actor: Actor, chunk: u64, which: u64) -> Result<u64> {
    let mem = worker.mem();
    debug_assert!(
        actor != worker.actor() || worker.holds_list(),
        "a worker frees from a list that it does not hold"
    );
    let mut cells: Cells = [CellAt::UNKNOWN; CHUNK_ENTRIES as usize];
    let mut small = 0;
    for index in indexes(which) {
        let object = entry(chunk, index).0.get(mem);
        match place_of(worker, object) {
            Ok(Location::Slab(cell)) => {
                cells[index as usize] = cell.at;
                small |= 1 << index;
                if M::COHERENT {
                    cell.at.prefetch(mem);
                }
            }
            Ok(Location::Extent { frame, frames, .. }) => {
                name(worker, actor, chunk, 1 << index);
                // Another worker may have retired it, whose list was taken over.
                mark_extent(worker, actor, frame, frames);
                decide(worker, actor, chunk, 1 << index);
                free_large(worker, actor, object)?;
            }
            // Of a damaged pool.
            Err(_) => {
                decide(worker, actor, chunk, 1 << index);
                forget(worker, actor);
            }
        }
    }
    if small != 0 {
        free_small(worker, actor, chunk, small, &mut cells);
    }
    forget(worker, actor);
    Ok(u64::from(which.count_ones()))
}

/// The cells of a chunk's objects.
type Cells = [CellAt; CHUNK_ENTRIES as usize];

/// Frees the entries of a chunk whose objects are in slabs.
#[inline]
fn free_small<M: Memory>(worker: &Worker<M>, actor: Actor, chunk: u64, small: u64, cells: &mut Cells) {
    let mem = worker.mem();
    name(worker, actor, chunk, small);
    mark_small(mem, actor, small, cells);
    decide(worker, actor, chunk, small);
    for cell in indexes(small)
        .map(|index| cells[index as usize])
        .filter(|cell| *cell != CellAt::UNKNOWN)
    {
        let before = cell.change(mem, mark_of(actor), CELL_FREE);
        after_free(worker, cell, before);
        crash_point(Point::CollectFreed);
    }
}

/// Marks the cells of a batch as being freed.
#[inline]
fn mark_small<M: Memory>(mem: &M, actor: Actor, small: u64, cells: &mut Cells) {
    if mutant::is(Mutant::FreedUnmarked) {
        return;
    }
    for index in indexes(small) {
        if cells[index as usize]
            .change_from(mem, CELL_LIVE, actor.me)
            .is_none()
        {
            // Of a damaged pool: it is forgotten.
            cells[index as usize] = CellAt::UNKNOWN;
        }
    }
}

/// What a cell holds while an actor frees its object.
#[inline]
fn mark_of(actor: Actor) -> u16 {
    match mutant::is(Mutant::FreedUnmarked) {
        true => CELL_LIVE,
        false => actor.me,
    }
}

/// Records that entries are being freed.
fn name<M: Memory>(worker: &Worker<M>, actor: Actor, chunk: u64, which: u64) {
    let mem = worker.mem();
    if mutant::is(Mutant::BatchNotNamed) {
        return;
    }
    // The chunk last: until it is there, nothing is recorded.
    actor.record.freeing_which().set(mem, which);
    set(worker, actor.record.freeing(), chunk);
}

/// Records that entries will be freed whatever happens, and marks them gone.
fn decide<M: Memory>(worker: &Worker<M>, actor: Actor, chunk: u64, which: u64) {
    let mem = worker.mem();
    name_decided(worker, actor, chunk, which);
    crash_point(Point::CollectDecided);
    if which == 0 {
        return;
    }
    for index in indexes(which).filter(|_| !mutant::is(Mutant::FreedEntryKept)) {
        let word = entry(chunk, index).0;
        word.set(mem, word.get(mem) | GONE);
    }
    let (first, last) = (which.trailing_zeros(), 63 - which.leading_zeros());
    mem.persist(
        entry(chunk, u64::from(first)).0.offset(),
        16 * u64::from(last - first + 1),
    );
}

/// Records that entries will be freed; complete with the next fence.
fn name_decided<M: Memory>(worker: &Worker<M>, actor: Actor, chunk: u64, which: u64) {
    let mem = worker.mem();
    if mutant::is(Mutant::BatchNotNamed) {
        return;
    }
    actor.record.freeing_which().set(mem, which);
    actor.record.freeing().set(mem, chunk | DECIDED);
    mem.write_back(actor.record.freeing().offset(), 8);
}

/// A batch is over. Written back with the head or the tail, in whose line it is, before the chunk is retired or begun
/// anew; until then, the objects that the record says are being freed are not marked any more.
fn forget<M: Memory>(worker: &Worker<M>, actor: Actor) {
    actor.record.freeing().set_lazily(worker.mem(), 0);
}

/// Frees what an extent that no reader can hold refers to, following a limited number of links.
fn drain<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    frame: u64,
    object: u64,
    links_left: &mut u64,
) -> Result<Progress> {
    let tag = (table_word(worker, frame).load(worker.mem()) >> 8) as u8;
    if tag == 0 || mutant::is(Mutant::DrainForgotten) {
        return Ok(Progress::Complete);
    }
    (worker.pod().hooks().drain_extent)(worker, actor, object, links_left)
}

/// Frees an extent that the actor's record says is being freed.
fn free_large<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    let Ok(Location::Extent {
        frame,
        frames,
        state: ExtentState::Retired,
        owner,
    }) = locate(worker, object)
    else {
        return Ok(());
    };
    if owner != actor.me {
        return Ok(());
    }
    let mut links_left = u64::MAX;
    let _: Progress = drain(worker, actor, frame, object, &mut links_left)?;
    free_extent(worker, frame, frames, &[(actor.record.freeing(), 0)])?;
    crash_point(Point::ExtentFreed);
    Ok(())
}

/// Recovery: finishes the batch that a record says is being freed, from whatever step.
pub(in crate::pod) fn finish_freeing<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    let (freeing, which) = (
        actor.record.freeing().get(mem),
        actor.record.freeing_which().get(mem),
    );
    let chunk = freeing & !INDEX_MASK;
    if chunk == 0 {
        return Ok(());
    }
    worker.check("a retired list", chunk, CHUNK_BYTES)?;
    // After the last entry begins another object.
    if which >> CHUNK_ENTRIES != 0 {
        let at = actor.record.freeing_which().offset();
        return Err(Error::corrupt(
            "which entries of a retired list are being freed",
            at,
        ));
    }
    // An object that cannot be found was freed, and its block with it.
    let places = || {
        indexes(which).filter_map(|index| {
            let object = entry(chunk, index).0.get(mem) & !GONE;
            locate(worker, object).ok().map(|place| (object, place))
        })
    };
    if freeing & DECIDED == 0 {
        for (_, place) in places() {
            match place {
                Location::Slab(cell) if cell.load(mem) == CELL_LIVE => {
                    cell.change(mem, CELL_LIVE, actor.me);
                }
                Location::Slab(_) => {}
                Location::Extent { frame, frames, .. } => mark_extent(worker, actor, frame, frames),
            }
        }
    }
    decide(worker, actor, chunk, which);
    for (object, place) in places() {
        match place {
            Location::Slab(cell) if cell.load(mem) == actor.me => {
                let before = cell.change(mem, actor.me, CELL_FREE);
                after_free(worker, cell.at, before);
            }
            Location::Slab(_) => {}
            Location::Extent { .. } => free_large(worker, actor, object)?,
        }
    }
    forget(worker, actor);
    Ok(())
}

/// The room that a list's last chunk must have for the head to leave its first one. An operation needs the rest of it.
fn room_to_leave<M: Memory>(worker: &Worker<M>, actor: Actor) -> u64 {
    if actor == worker.actor() { ROOM + 1 } else { 1 }
}

/// Moves the head past entries that are gone, and retires the chunks that it leaves.
fn move_head<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let is_own = actor == worker.actor();
    loop {
        let (head, tail) = span(worker, actor.record)?;
        if head.chunk == 0 {
            return Ok(());
        }
        let count = count_in(worker, head.chunk, tail);
        let index = (head.index..count)
            .find(|&index| !is_gone(worker, head.chunk, index))
            .unwrap_or(count.max(head.index));
        if index != head.index {
            let next = Position { index, ..head };
            set_position(worker, actor.record.head(), next);
            if is_own {
                worker.reclaim.recycler.passed(0, next);
            }
        }
        let room = room_to_leave(worker, actor);
        let is_exhausted = index >= count && head.chunk != tail.chunk;
        if !is_exhausted || (lacks(worker, tail, room) && !begin_anew(worker, actor)) {
            return Ok(());
        }
        set(worker, actor.record.retiring(), head.chunk | 1);
        finish_chunk(worker, actor, head.chunk, false)?;
    }
}

/// Retires the first chunk, all of whose entries are gone, from whatever step.
pub(in crate::pod) fn finish_chunk<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    chunk: u64,
    is_repeated: bool,
) -> Result<()> {
    let mem = worker.mem();
    let record = actor.record;
    if Position::decode(record.head().get(mem)).chunk == chunk {
        let next = next_of(chunk).get(mem);
        if next == 0 || next & INDEX_MASK != 0 {
            return Err(Error::corrupt("a retired list's chunk", chunk));
        }
        worker.check("a retired list", next, CHUNK_BYTES)?;
        let next = Position {
            chunk: next,
            index: 0,
        };
        // Written back below, with the tail: until then recovery does the same again.
        record.head().set_lazily(mem, next.encode());
        if actor == worker.actor() {
            worker.reclaim.recycler.passed(chunk, next);
        }
    }
    crash_point(Point::CollectChunk);
    match is_repeated && find(worker, actor, chunk)?.is_some() {
        true => write_back_ends(mem, record),
        false => push(worker, actor, chunk)?,
    }
    await_entries(worker);
    // Complete with the next fence: before the chunk can be freed, which counts as retired as long as its entry is
    // there.
    record.retiring().set_lazily(mem, 0);
    mem.write_back(record.retiring().offset(), 8);
    Ok(())
}

/// Recovers the dead if one of them holds reclamation back.
fn recover_if_held_back<M: Memory>(worker: &Worker<M>) -> Result<()> {
    let mem = worker.mem();
    let least = least(worker);
    for (index, state) in worker.pod().attached_workers() {
        let announced = WorkerRecord::new(worker.geometry(), index).announced().load(mem);
        // Recovery reports a worker that may or may not live.
        if announced == least && matches!(worker.pod().worker_lives(index, state), Ok(false)) {
            (worker.pod().hooks().inner.recover_dead)(worker)?;
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "collect_batch_tests.rs"]
mod batch_tests;
#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
