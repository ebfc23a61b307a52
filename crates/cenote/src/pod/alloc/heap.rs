//! Allocation in two levels: blocks of frames from the buddy tree, objects from slab blocks (FUSEE, section 4.4;
//! Lupin, section 3.6).
//!
//! A worker owns at most one block of each size class at a time, and a *reserve*: one owned word that names the
//! block, a word of its cells, and which of those (at most four) it has taken. The common allocation takes the
//! next cell out of the reserve: two stores to the worker's own lines, no shared write. A block that has no free
//! cell left is orphaned; freeing an object in an orphaned block sets a *hint* bit, by which any worker may find it
//! and adopt it. Hints may be lost or wrong; when the pool seems full, every block is scanned.
//!
//! Before that, an allocation for an operation takes a reclaimable object from the worker's own retired list (see
//! `recycle`): again two stores to own lines, and nothing has to be freed.
//!
//! **Crash safety.** The object's offset is stored in an owned word (`destination`) *before* it leaves the
//! reserve, the reserve is written *before* cells are taken, a new block's owner is in the table by the same
//! transaction that allocates it. So a dead worker's record names all that the worker held: see `recovery`.
//!
//! On incoherent memory each *before* is a wait for a write-back; `pending` describes how most waits are saved.

use super::frames::{allocate_frames, free_extent, free_slab, too_large};
use super::orphans::{adopt_any, adopt_hinted, after_free, is_whole, orphan};
use super::pending::{
    Forgotten, allocate_pending, clear, commit_pending, forget_pending, leave_source, make_room_for_pending,
    put_back, return_to_magazine, without_pending,
};
use super::runs::Want;
use super::slab::{
    Cell, Location, cell_words, cells_of, free_lanes, initialise_cells, locate, mask_of, table_word,
};
use crate::error::{Error, Result};
use crate::memory::checked::sync_word;
use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::format::actor::Actor;
use crate::pod::format::block::{Block, CELL_FREE, CELL_LIVE, ExtentState};
use crate::pod::format::class::{TABLE, class_for};
use crate::pod::format::geometry::FRAME;
use crate::pod::format::record::{PUBLISHED, operation};
use crate::pod::format::reserve::Reserve;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::pending::{Pending, Source};
use crate::pod::instance::recycle::CachedEntry;
use crate::pod::instance::worker::Worker;

/// How many bytes past its reserved cells' first object a block is prefetched: what is written to a fresh object must
/// be in the cache before the exchange that publishes it can happen.
const AHEAD: u64 = 256;

/// Where the offset of a new object is written before the object leaves its source: from there it is published,
/// discarded or recovered.
#[derive(Clone, Copy)]
enum Destination {
    /// A word of the record of the worker's own operation. An intent writes the record back, so the object may leave
    /// its source late.
    Operation(OwnedWord),
    /// Any other word, of any actor.
    Other(OwnedWord),
}

impl Destination {
    #[inline(always)]
    fn word(self) -> OwnedWord {
        let (Self::Operation(word) | Self::Other(word)) = self;
        word
    }
}

/// Allocates `len` bytes for the worker's current operation: the offset is in its `new_object` on return, and will
/// be published, discarded or recovered from there.
///
/// Cost: two stores on own lines. If nothing in the worker's retired list fits, every fourth time one compare-exchange
/// on the block; now and then a block.
#[inline]
pub fn allocate<M: Memory>(worker: &Worker<M>, len: u64) -> Result<u64> {
    let new = Destination::Operation(worker.record().new_object());
    allocate_to(worker, worker.actor(), len, new, 0)
}

/// Allocates a further object that will be published together with the current operation's new one.
pub fn allocate_secondary<M: Memory>(worker: &Worker<M>, which: usize, len: u64) -> Result<u64> {
    worker.await_end();
    let secondary = Destination::Operation(worker.record().secondaries()[which]);
    allocate_to(worker, worker.actor(), len, secondary, 0)
}

/// Allocates for any actor, and writes the offset to a word that is not of an operation's record. A worker that
/// allocates for itself holds its list. `tag` marks an extent that holds references (see
/// [`DrainExtent`](crate::pod::instance::hooks::DrainExtent)).
#[inline]
pub fn allocate_for<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    len: u64,
    destination: OwnedWord,
    tag: u8,
) -> Result<u64> {
    allocate_to(worker, actor, len, Destination::Other(destination), tag)
}

#[inline]
fn allocate_to<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    len: u64,
    destination: Destination,
    tag: u8,
) -> Result<u64> {
    debug_assert!(
        actor.record != worker.record() || worker.holds_list(),
        "a worker that does not hold its list may not have its record in order"
    );
    let class = match class_for(len, !M::COHERENT) {
        Some(class) if tag == 0 => class,
        _ => {
            commit_pending(worker);
            return allocate_extent(worker, actor, len, destination.word(), tag);
        }
    };
    let is_of_operation = matches!(destination, Destination::Operation(_));
    let destination = destination.word();
    if is_of_operation {
        if let Some(cached) = worker.reclaim.recycler.take(class) {
            return Ok(take_cached(worker, class, cached, destination));
        }
        if leaves_late::<M>() {
            make_room_for_pending(worker);
            let reserve = without_pending(worker, class);
            if reserve.mask() != 0 {
                return Ok(allocate_pending(
                    worker,
                    lowest(worker, actor, class, reserve)?,
                    destination,
                ));
            }
        }
    }
    commit_pending(worker);
    let reserve = Reserve(actor.record.reserve(class).get(worker.mem()));
    if reserve.mask() != 0 {
        return take_reserved(worker, actor, class, reserve, destination);
    }
    refill(worker, actor, class)?;
    let reserve = Reserve(actor.record.reserve(class).get(worker.mem()));
    if reserve.mask() == 0 {
        return Err(misreserved(actor, class));
    }
    if leaves_late::<M>() && is_of_operation {
        make_room_for_pending(worker);
        return Ok(allocate_pending(
            worker,
            lowest(worker, actor, class, reserve)?,
            destination,
        ));
    }
    take_reserved(worker, actor, class, reserve, destination)
}

/// Whether what is allocated for an operation leaves its source late.
#[inline(always)]
fn leaves_late<M: Memory>() -> bool {
    !M::COHERENT && !mutant::is(Mutant::NamedLate)
}

/// Takes an entry of the retired list for a new object.
#[inline]
fn take_cached<M: Memory>(
    worker: &Worker<M>,
    class: usize,
    cached: CachedEntry,
    destination: OwnedWord,
) -> u64 {
    let CachedEntry { object, chunk, index } = cached;
    let round = worker.reclaim.recycler.round();
    let taken = Pending {
        object,
        class: class as u32,
        source: Source::List { chunk, index, round },
    };
    if leaves_late::<M>() {
        make_room_for_pending(worker);
        return allocate_pending(worker, taken, destination);
    }
    name_cached(worker, &taken, destination);
    crash_point(Point::AllocNew);
    leave_source(worker, &taken);
    crash_point(Point::AllocTaken);
    worker.alloc.last_allocated.set(taken);
    object
}

/// Names an object that is about to leave a list.
#[inline]
fn name_cached<M: Memory>(worker: &Worker<M>, taken: &Pending, destination: OwnedWord) {
    mutant::also(Mutant::NamedLate, || leave_source(worker, taken));
    destination.set(worker.mem(), taken.object);
}

/// The cell that is taken next from a reserve that has some. The block was the actor's when the reserve got it; damage
/// to the pool may have changed that since, so this makes sure that the result is an object of some block in the pool.
#[inline]
fn lowest<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize, reserve: Reserve) -> Result<Pending> {
    let layout = &TABLE[class];
    let index = reserve.word() * 4 + reserve.mask().trailing_zeros();
    let frame = reserve.frame().unwrap_or_default();
    let object = worker.geometry().frame_offset(frame) + layout.offset_of(index);
    let size = u64::from(layout.size);
    if index >= layout.objects || !worker.is_committed(object, size) {
        check_reserved(worker, actor, class, index, object)?;
    }
    Ok(Pending {
        object,
        class: class as u32,
        source: Source::Reserve { frame, index },
    })
}

/// Whether a cell that is taken next may be what it says: frames may have been committed meanwhile.
#[cold]
fn check_reserved<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    class: usize,
    index: u32,
    object: u64,
) -> Result<()> {
    let layout = &TABLE[class];
    match index < layout.objects && worker.check("", object, u64::from(layout.size)).is_ok() {
        true => Ok(()),
        false => Err(misreserved(actor, class)),
    }
}

/// A reserve that cannot be right.
#[cold]
fn misreserved(actor: Actor, class: usize) -> Error {
    Error::corrupt("a worker's reserve", actor.record.reserve(class).offset())
}

#[inline]
fn take_reserved<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    class: usize,
    reserve: Reserve,
    destination: OwnedWord,
) -> Result<u64> {
    let mem = worker.mem();
    let taken = lowest(worker, actor, class, reserve)?;
    let word = actor.record.reserve(class);
    name_reserved(mem, taken.object, destination, word, reserve);
    crash_point(Point::AllocNew);
    leave_reserve(mem, word, reserve);
    crash_point(Point::AllocTaken);
    worker.alloc.last_allocated.set(taken);
    Ok(taken.object)
}

/// Names an object that is about to leave a reserve.
#[inline]
fn name_reserved<M: Memory>(mem: &M, object: u64, destination: OwnedWord, word: OwnedWord, reserve: Reserve) {
    mutant::also(Mutant::NamedLate, || leave_reserve(mem, word, reserve));
    destination.set(mem, object);
    mem.persist(destination.offset(), 8);
}

/// Takes the lowest cell out of a reserve.
#[inline]
fn leave_reserve<M: Memory>(mem: &M, word: OwnedWord, reserve: Reserve) {
    // The lowest set bit of the word is the lowest of the mask: the mask is its low end and not empty.
    word.set_lazily(mem, reserve.0 & (reserve.0 - 1));
    // Complete before the object is published. Until then recovery sees that it is named and has not left.
    mem.write_back(word.offset(), 8);
}

/// Gives back an object that `allocate` returned and no other worker has seen. If the operation has published something
/// and could not be finished, that stays: whatever brings the record into order finishes it.
pub fn discard<M: Memory>(worker: &Worker<M>) -> Result<()> {
    if worker.record().operation().get(worker.mem()) == operation::COMMITTED {
        return Ok(());
    }
    discard_at(worker, worker.record().new_object())
}

/// [`discard`], also for objects of `allocate_secondary`.
pub fn discard_with_secondaries<M: Memory>(worker: &Worker<M>) -> Result<()> {
    if worker.record().operation().get(worker.mem()) == operation::COMMITTED {
        return Ok(());
    }
    discard_at(worker, worker.record().new_object())?;
    for word in worker.record().secondaries() {
        discard_at(worker, word)?;
    }
    Ok(())
}

/// Gives back the object that a word of the worker's record names.
#[inline]
fn discard_at<M: Memory>(worker: &Worker<M>, named: OwnedWord) -> Result<()> {
    match named.get(worker.mem()) {
        object if object == 0 || object & PUBLISHED != 0 => Ok(()),
        object => discard_object(worker, named, object),
    }
}

/// After a race was lost.
#[cold]
fn discard_object<M: Memory>(worker: &Worker<M>, named: OwnedWord, object: u64) -> Result<()> {
    let (actor, mem) = (worker.actor(), worker.mem());
    let taken = worker.alloc.last_allocated.get();
    if M::COHERENT && taken.object == object && put_back(worker, &taken, named) {
        return Ok(());
    }
    let place = locate(worker, object)?;
    if !M::COHERENT && !mutant::is(Mutant::DiscardedLinesKept) {
        // Complete with the next fence: before the object's name goes, or its frames are free.
        mem.invalidate(object, place.capacity());
    }
    if !M::COHERENT
        && let Some(forgotten) = forget_pending(worker, object)
    {
        match forgotten {
            Forgotten::Left(taken) if put_back(worker, &taken, named) => return Ok(()),
            Forgotten::Left(_) => {}
            Forgotten::InSource(taken) => {
                return_to_magazine(worker, &taken);
                clear(worker, named);
                return Ok(());
            }
        }
    }
    match place {
        Location::Slab(cell) => {
            let (frame, index) = (cell.frame, cell.index);
            let from_reserve = Pending {
                object,
                class: cell.class as u32,
                source: Source::Reserve { frame, index },
            };
            if put_back(worker, &from_reserve, named) {
                return Ok(());
            }
            // An operation that has claimed a level to retire may have used the rest of the room.
            (worker.pod().hooks().inner.retire)(worker, actor, object)?;
            clear(worker, named);
            Ok(())
        }
        Location::Extent { frame, frames, .. } => free_extent(worker, frame, frames, &[(named, 0)]),
    }
}

/// Fills the reserve of a class.
#[cold]
fn refill<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize) -> Result<()> {
    if take_from_block(worker, actor, class)? || adopt_hinted(worker, actor, class)? {
        return Ok(());
    }
    let layout = &TABLE[class];
    match allocate_slab(worker, actor, class) {
        Err(Error::Full { .. }) => {}
        other => return other,
    }
    // Full. Under a pin nothing retired lately becomes reclaimable: an operation ends its pin and tries again.
    if !worker.is_pinned() {
        (worker.pod().hooks().inner.make_room)(worker)?;
    }
    let looks_everywhere = !worker.is_pinned() || worker.alloc.is_thorough.get();
    if take_from_block(worker, actor, class)? || looks_everywhere && adopt_any(worker, actor, class)? {
        return Ok(());
    }
    allocate_slab(worker, actor, class).map_err(|error| match error {
        // The length of the longest run says nothing of objects that share a block.
        Error::Full { why, .. } => Error::Full {
            needed: u64::from(layout.size),
            why,
            largest: None,
        },
        other => other,
    })
}

/// Takes up to four free cells of the current block into the reserve; orphans the block if it has none.
///
/// On coherent memory the block table is asked first whether the block is the actor's, as a load there costs little.
fn take_from_block<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize) -> Result<bool> {
    let reserve = Reserve(actor.record.reserve(class).get(worker.mem()));
    let Some(frame) = reserve.frame() else {
        // No block, or a word that was never written: there is no block to go on with.
        return Ok(false);
    };
    let is_its = || {
        let block = Block::decode(table_word(worker, frame).load(worker.mem()));
        let (class, owner) = (class as u8, actor.me);
        block
            == Block::Slab {
                class,
                ready: true,
                owner,
            }
    };
    if !is_whole(worker, frame, &TABLE[class]) || M::COHERENT && !is_its() {
        return Err(misreserved(actor, class));
    }
    if take_cells(worker, actor, class, frame, reserve.word()) {
        return Ok(true);
    }
    orphan(worker, actor, class, frame);
    Ok(false)
}

/// Takes up to four free cells of a block into the empty reserve, beginning at a given word.
pub(in crate::pod) fn take_cells<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    class: usize,
    frame: u64,
    from: u32,
) -> bool {
    let mem = worker.mem();
    let base = worker.geometry().frame_offset(frame);
    for (word, mut current) in cell_words(mem, base, &TABLE[class], from) {
        let cells = sync_word(base + 8 * u64::from(word));
        loop {
            let free = free_lanes(current);
            if free == 0 {
                break;
            }
            let reserve = Reserve::new(frame, word, mask_of(free));
            announce_reserve(mem, actor, class, reserve);
            crash_point(Point::SlabIntent);
            // PAIRS WITH: pod::alloc::slab::CellAt::change
            match cells.compare_exchange_acquire(mem, current, current & !cells_of(free)) {
                Ok(_) => {
                    has_taken(mem, actor, class, reserve);
                    let ahead = TABLE[class].offset_of(4 * word) + AHEAD;
                    if M::COHERENT && ahead < FRAME {
                        mem.prefetch(base + ahead);
                    }
                    return true;
                }
                Err(found) => current = found,
            }
        }
    }
    false
}

/// Says in the reserve which cells are about to be taken.
#[inline]
fn announce_reserve<M: Memory>(mem: &M, actor: Actor, class: usize, reserve: Reserve) {
    if !mutant::is(Mutant::ReserveLate) {
        set_reserve(mem, actor, class, reserve);
    }
}

/// After the cells that the reserve says were taken.
#[inline]
fn has_taken<M: Memory>(mem: &M, actor: Actor, class: usize, reserve: Reserve) {
    mutant::also(Mutant::ReserveLate, || set_reserve(mem, actor, class, reserve));
    crash_point(Point::SlabTaken);
}

#[inline]
fn set_reserve<M: Memory>(mem: &M, actor: Actor, class: usize, reserve: Reserve) {
    actor.record.reserve(class).set(mem, reserve.0);
    mem.persist(actor.record.reserve(class).offset(), 8);
}

fn allocate_slab<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize) -> Result<()> {
    let layout = &TABLE[class];
    let mem = worker.mem();
    let mark = |ready| Block::Slab {
        class: class as u8,
        ready,
        owner: actor.me,
    };
    let frames = layout.frames();
    let want = Want {
        frames,
        align: frames,
    };
    let frame = allocate_frames(worker, want, |txn, frame| {
        txn.write(table_word(worker, frame).offset(), mark(false).encode());
        for tail in 1..layout.frames() {
            txn.write(table_word(worker, frame + tail).offset(), Block::Tail.encode());
        }
        txn.write_owned(actor.record.reserve(class), Reserve::new(frame, 0, 0).0);
    })?;
    crash_point(Point::SlabCells);
    initialise_cells(worker, frame, layout);
    // PAIRS WITH: pod::alloc::slab::locate, pod::alloc::heap::return_reserves
    table_word(worker, frame).store(mem, mark(true).encode());
    crash_point(Point::SlabReady);
    if take_cells(worker, actor, class, frame, 0) {
        Ok(())
    } else {
        Err(Error::corrupt(
            "a fresh block without a free cell",
            worker.geometry().frame_offset(frame),
        ))
    }
}

fn allocate_extent<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    len: u64,
    destination: OwnedWord,
    tag: u8,
) -> Result<u64> {
    let frames = len.div_ceil(FRAME).max(1);
    let count = u32::try_from(frames).map_err(|_| too_large(worker, len))?;
    let attempt = || {
        allocate_frames(worker, Want { frames, align: 1 }, |txn, frame| {
            let block = Block::Extent {
                frames: count,
                state: ExtentState::Pending,
                owner: actor.me,
            };
            txn.write(
                table_word(worker, frame).offset(),
                block.encode() | u64::from(tag) << 8,
            );
            txn.write_owned(destination, worker.geometry().frame_offset(frame));
        })
    };
    let outcome = match attempt() {
        Err(Error::Full { .. }) if !worker.is_pinned() => {
            (worker.pod().hooks().inner.make_room)(worker)?;
            attempt()
        }
        other => other,
    };
    match outcome {
        Err(Error::Full { why, largest, .. }) => Err(Error::Full {
            needed: len,
            why,
            largest,
        }),
        other => Ok(worker.geometry().frame_offset(other?)),
    }
}

/// Makes a pending extent live, after the word that publishes it has been written.
#[inline]
pub fn mark_live<M: Memory>(worker: &Worker<M>, object: u64) -> Result<()> {
    mark_live_if(worker, object, |_| true)
}

/// The same for an object of an actor's operation. The operation may be over, and another extent may have the frames by
/// now.
#[inline]
pub fn mark_own_live<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    mark_live_if(worker, object, |owner| owner == actor.me)
}

#[inline]
fn mark_live_if<M: Memory>(worker: &Worker<M>, object: u64, is_meant: impl Fn(u16) -> bool) -> Result<()> {
    let frame = worker.geometry().frame_of(object);
    if object.wrapping_sub(worker.geometry().data) & (FRAME - 1) != 0 {
        return Ok(());
    }
    // Its name lies in the pool: another process may have changed it since it was written.
    worker.check("an object's offset", object, FRAME)?;
    let word = table_word(worker, frame);
    let current = word.load(worker.mem());
    if let Block::Extent {
        frames,
        state: ExtentState::Pending,
        owner,
    } = Block::decode(current)
        && is_meant(owner)
    {
        let live = Block::Extent {
            frames,
            state: ExtentState::Live,
            owner: 0,
        }
        .encode()
            | current & 0xff00;
        // It fails when the extent was unlinked and retired in the meantime; then it must not be marked.
        // NO PAIR: claim
        let _ = word.compare_exchange_acquire(worker.mem(), current, live);
    }
    Ok(())
}

/// Whether another worker has reserved cells that [`return_reserves`] can give back without a lock. For coherent
/// memory.
pub(in crate::pod) fn may_be_withdrawn<M: Memory>(worker: &Worker<M>, actor: Actor) -> bool {
    let mem = worker.mem();
    let mut has_any = false;
    for (class, layout) in TABLE.iter().enumerate() {
        let Some(frame) = Reserve(actor.record.reserve(class).peek(mem)).frame() else {
            continue;
        };
        has_any = true;
        // An outdated reserve, of another worker's block, does no harm. A block of its own that is not ready must be
        // finished by its worker.
        let is_in_order = is_whole(worker, frame, layout)
            && !matches!(
                Block::decode(table_word(worker, frame).load(mem)),
                Block::Slab { ready: false, owner, .. } if owner == actor.me
            );
        if !is_in_order {
            return false;
        }
    }
    has_any
}

/// Returns an actor's reserved cells to their blocks and orphans the blocks. The actor is dead, leaving, or idle with
/// nobody else using its record meanwhile.
pub fn return_reserves<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    debug_assert!(
        actor != worker.actor() || worker.holds_list(),
        "a worker that does not hold its reserves gives them back"
    );
    commit_pending(worker);
    for (class, layout) in TABLE.iter().enumerate() {
        let word = actor.record.reserve(class);
        let reserve = Reserve(word.get(mem));
        if !reserve.is_sound() {
            return Err(misreserved(actor, class));
        }
        let Some(frame) = reserve.frame() else { continue };
        if !is_whole(worker, frame, layout) {
            return Err(Error::corrupt("a reserved block", word.offset()));
        }
        // PAIRS WITH: pod::alloc::heap::allocate_slab
        match Block::decode(table_word(worker, frame).load(mem)) {
            Block::Slab {
                class: found,
                ready,
                owner,
            } if usize::from(found) == class && owner == actor.me => {
                if !ready {
                    free_slab(worker, frame, layout.order, &[(word, 0)])?;
                    continue;
                }
                for bit in 0..4 {
                    let index = reserve.word() * 4 + bit;
                    if reserve.mask() & 1 << bit != 0 && index < layout.objects {
                        let cell = Cell::new(worker, frame, class, index);
                        // Free already if the worker died between its intent and the taking.
                        if mutant::is(Mutant::ReserveReturnedBlindly) || cell.load(mem) == CELL_LIVE {
                            cell.change(mem, CELL_LIVE, CELL_FREE);
                        }
                    }
                }
                crash_point(Point::ReserveFreed);
                // A repetition finds those cells free: nobody takes them before the block is orphaned.
                orphan(worker, actor, class, frame);
            }
            // Never adopted, or orphaned already.
            _ => word.set_lazily(mem, Reserve::NONE.0),
        }
    }
    Ok(())
}

/// `fsck --repair`: frees a leaked object. No other process has the pool open.
pub fn repair_cell<M: Memory>(worker: &Worker<M>, cell: &Cell) {
    let before = cell.change(worker.mem(), CELL_LIVE, CELL_FREE);
    after_free(worker, cell.at, before);
}

#[cfg(test)]
#[path = "heap_reserve_tests.rs"]
mod reserve_tests;
#[cfg(test)]
#[path = "heap_tests.rs"]
mod tests;
