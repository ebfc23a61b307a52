//! Retired objects: unlinked, and waiting until no reader can hold them.
//!
//! Each worker record has a list of them, in the pool, so that it outlives its worker: a chain of chunks, each an
//! object of 1 KiB with 63 entries of (object, epoch). Only the record's worker appends entries at the tail, or
//! the worker that has claimed the record after it left or died.
//!
//! ```text
//! chunk:  next  count  (object, epoch) × 63        head = chunk | index     tail = chunk | count
//! ```
//!
//! **Only its entry says that an object is retired.** Its cell stays live. An entry that says so no more has the last
//! bit of its object's word set, or is 0: it is *gone*. An object is retired again only after its entry is gone, so all
//! lists together have at most one entry of it that is not gone.
//!
//! **Retiring** `x`, which the record names as *old*, as *new*, or as a level that left its map: for an extent, its
//! table word; the entry; `tail`; the name goes. Whatever step a crash follows, recovery looks for `x` in the list and
//! sees what is left to do.
//!
//! **The tail may reach memory before the entry, or after it.** A chunk begins as zeroes: an entry that is 0 is gone,
//! and a worker that does not have the list reads on from the tail to the first entry that is 0.
//!
//! The list needs memory that may not be had when an object must be retired; so operations that may retire first make
//! room ([`ensure_room`]), and fail as a whole if they cannot. Entries go by [`super::collect`], which frees their
//! objects, or by [`crate::pod::instance::recycle`], which takes them for new ones.

use crate::error::{Error, Result};
use crate::memory::checked::unpublished;
use crate::memory::{LINE, Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::auxiliary::{clear_auxiliary, link_auxiliary};
use crate::pod::alloc::heap::allocate_for;
use crate::pod::alloc::slab::{Location, locate, table_word};
use crate::pod::format::actor::Actor;
use crate::pod::format::block::{Block, CELL_LIVE, ExtentState};
use crate::pod::format::chunk::{
    CHUNK_BYTES, CHUNK_ENTRIES, GONE, INDEX_MASK, Position, ROOM, count_of, entry, next_of,
};
use crate::pod::format::class::TABLE;
use crate::pod::format::geometry::FRAME;
use crate::pod::format::record::{OWNED_LINK, WorkerRecord};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Worker;

/// The size class of chunks.
const CHUNK_CLASS: usize = 19;

/// Entries of a chunk of the list that ends at `tail`.
pub(in crate::pod) fn count_in<M: Memory>(worker: &Worker<M>, chunk: u64, tail: Position) -> u64 {
    let count = if chunk == tail.chunk {
        tail.index
    } else {
        count_of(chunk).peek(worker.mem())
    };
    count.min(CHUNK_ENTRIES)
}

/// Where the list of a record begins and ends now.
pub fn span<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<(Position, Position)> {
    let head = Position::decode(record.head().get(worker.mem()));
    let tail = Position::decode(record.tail().get(worker.mem()));
    for chunk in [head.chunk, tail.chunk] {
        if chunk != 0 {
            worker.check("a retired list", chunk, CHUNK_BYTES)?;
        }
    }
    Ok((head, tail))
}

/// [`span`] for callers other than the record's worker: this host's cache may have an old record. If the list was
/// mended, that may not have been written back: then there are entries after the tail.
fn span_afresh<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<(Position, Position)> {
    let head = Position::decode(record.head().peek_speculative(worker.mem()));
    let tail = Position::decode(record.tail().peek_speculative(worker.mem()));
    for chunk in [head.chunk, tail.chunk] {
        if chunk != 0 {
            worker.check("a retired list", chunk, CHUNK_BYTES)?;
        }
    }
    Ok((head, tail))
}

#[cfg_attr(feature = "mutants", track_caller)]
pub(in crate::pod) fn set_position<M: Memory>(worker: &Worker<M>, word: OwnedWord, position: Position) {
    word.set(worker.mem(), position.encode());
    worker.mem().persist(word.offset(), 8);
}

#[cfg_attr(feature = "mutants", track_caller)]
pub(in crate::pod) fn set<M: Memory>(worker: &Worker<M>, word: OwnedWord, value: u64) {
    word.set(worker.mem(), value);
    worker.mem().persist(word.offset(), 8);
}

/// Makes room for the objects that an operation may retire.
#[inline]
pub fn ensure_room<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    ensure_room_for(worker, actor, ROOM)
}

/// Makes room for an operation's worth of entries, unless there is room for `entries`.
#[inline]
pub(in crate::pod) fn ensure_room_for<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    entries: u64,
) -> Result<()> {
    match has_room(worker, actor, entries)? {
        true => Ok(()),
        false => make_room(worker, actor),
    }
}

/// Whether there is a last chunk, with room for this many entries.
#[inline]
fn has_room<M: Memory>(worker: &Worker<M>, actor: Actor, entries: u64) -> Result<bool> {
    let tail = Position::decode(actor.record.tail().get(worker.mem()));
    if tail.chunk == 0 {
        return Ok(false);
    }
    worker.check("a retired list", tail.chunk, CHUNK_BYTES)?;
    Ok(!lacks(worker, tail, entries))
}

/// Whether the last chunk of a list lacks room for this many entries.
#[inline]
pub(in crate::pod) fn lacks<M: Memory>(worker: &Worker<M>, tail: Position, room: u64) -> bool {
    tail.index + room > worker.limits().chunk_entries
}

/// Begins the last chunk anew if nothing waits in it, so that a full pool can be deleted from; else appends one: a new
/// one or, where there is no memory for that, the spare.
#[cold]
fn make_room<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    if begin_anew(worker, actor) {
        return Ok(());
    }
    // First: a later allocation could move the list, and fill its last chunk.
    have_spare(worker, actor)?;
    match append_chunk(worker, actor) {
        // The attempt has freed what could be freed; perhaps that was enough. Or it has taken over a list that ends
        // with room.
        Err(Error::Full { .. }) if begin_anew(worker, actor) || has_room(worker, actor, ROOM)? => Ok(()),
        Err(error @ Error::Full { .. }) => append_spare(worker, actor, error),
        other => other,
    }
}

/// Takes the last chunk back to its beginning, if all of its entries are gone: first the tail, then the head; recovery
/// recognises a head after its tail.
pub(in crate::pod) fn begin_anew<M: Memory>(worker: &Worker<M>, actor: Actor) -> bool {
    let (mem, record) = (worker.mem(), actor.record);
    let (head, tail) = (
        Position::decode(record.head().get(mem)),
        Position::decode(record.tail().get(mem)),
    );
    let is_requested = !M::COHERENT && record.flush_request()[3].get(mem) != 0;
    let is_last = head.chunk == tail.chunk;
    let first = if is_last { head.index } else { 0 };
    let end = tail.index.min(CHUNK_ENTRIES);
    if tail.chunk == 0 || end == 0 || is_requested {
        return false;
    }
    if (first..end).any(|index| !is_gone(worker, tail.chunk, index)) {
        return false;
    }
    // Zeroes first: nothing after the tail may look like an entry. That some were gone may not have been written back
    // either.
    let (first_word, _) = entry(tail.chunk, 0);
    unpublished(first_word.offset(), 16 * end).zero(mem);
    mem.persist(first_word.offset(), 16 * end);
    mem.must_be_in_memory(first_word.offset(), 16 * end);
    // A round that is over must not be found complete again, with what comes next in its place.
    mem.must_be_in_memory(record.flush_request()[3].offset(), 8);
    let start = Position { index: 0, ..tail };
    record.tail().set(mem, start.encode());
    if is_last {
        record.head().set(mem, start.encode());
    }
    // One line. Complete before there is an entry: else an entry before an older head would come back when the chunk is
    // read from its beginning.
    mem.persist(record.head().offset(), 24);
    if actor == worker.actor() {
        worker.reclaim.recycler.begin_anew(start);
    }
    true
}

/// Whether an entry of the caller's list is gone.
pub(in crate::pod) fn is_gone<M: Memory>(worker: &Worker<M>, chunk: u64, index: u64) -> bool {
    says_gone(entry(chunk, index).0.get(worker.mem()))
}

/// Whether the first word of an entry says that it is gone.
pub(in crate::pod) fn says_gone(word: u64) -> bool {
    word == 0 || word & GONE != 0
}

#[cold]
fn append_chunk<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    let chunk = new_chunk(worker, actor)?;
    // Allocation may have collected, and so moved the list.
    let link = link_behind(worker, actor)?;
    link_auxiliary(worker, actor, link.offset() | OWNED_LINK, chunk);
    crash_point(Point::RetireChunk);
    set(worker, link, chunk);
    crash_point(Point::RetireLinked);
    let tail = Position { chunk, index: 0 };
    // Complete before the first entry of the chunk, as that of the name is. Without it recovery follows the link.
    actor.record.tail().set_lazily(mem, tail.encode());
    mem.write_back(actor.record.tail().offset(), 8);
    clear_auxiliary(worker, actor);
    Ok(())
}

/// A chunk without entries, which the record names.
fn new_chunk<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<u64> {
    let mem = worker.mem();
    let chunk = allocate_for(worker, actor, CHUNK_BYTES, actor.record.aux_object(), 0)?;
    unpublished(chunk, CHUNK_BYTES).zero(mem);
    // Complete with what is named next.
    mem.write_back(chunk, CHUNK_BYTES);
    Ok(chunk)
}

/// The word that names the next chunk of a list, whose last chunk is closed.
fn link_behind<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<OwnedWord> {
    let tail = Position::decode(actor.record.tail().get(worker.mem()));
    if tail.chunk == 0 {
        return Ok(actor.record.head());
    }
    worker.check("a retired list", tail.chunk, CHUNK_BYTES)?;
    // In one line with the next one, and so written back with that.
    count_of(tail.chunk).set(worker.mem(), tail.index);
    Ok(next_of(tail.chunk))
}

/// The spare chunk of a record that the caller has, if there is one.
pub(in crate::pod) fn spare<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<Option<u64>> {
    as_spare(worker, record, record.spare().get(worker.mem()))
}

/// A record's spare chunk, checked.
pub fn as_spare<M: Memory>(worker: &Worker<M>, record: WorkerRecord, chunk: u64) -> Result<Option<u64>> {
    if chunk == 0 {
        return Ok(None);
    }
    let what = "a spare chunk of a retired list";
    worker.check(what, chunk, CHUNK_BYTES)?;
    match locate(worker, chunk) {
        Ok(Location::Slab(cell)) if cell.class == CHUNK_CLASS && cell.load(worker.mem()) == CELL_LIVE => {
            Ok(Some(chunk))
        }
        _ => Err(Error::corrupt(what, record.spare().offset())),
    }
}

/// Appends the record's spare chunk, or fails as the attempt to allocate one did. It is in the list when the list names
/// it, whatever the record says.
#[cold]
fn append_spare<M: Memory>(worker: &Worker<M>, actor: Actor, error: Error) -> Result<()> {
    let (mem, record) = (worker.mem(), actor.record);
    let Some(chunk) = spare(worker, record)? else {
        return Err(error);
    };
    unpublished(chunk, CHUNK_BYTES).zero(mem);
    mem.persist(chunk, CHUNK_BYTES);
    let link = link_behind(worker, actor)?;
    // Recovery follows the link, and finds nothing after it.
    mem.must_be_in_memory(chunk, CHUNK_BYTES);
    set(worker, link, chunk);
    crash_point(Point::RetireSpare);
    // Others find the entries after it.
    mem.must_be_in_memory(link.offset(), 8);
    record.tail().set(mem, Position { chunk, index: 0 }.encode());
    if !mutant::is(Mutant::SpareKept) {
        record.spare().set(mem, 0);
    }
    // One line.
    mem.persist(
        record.tail().offset(),
        record.spare().offset() + 8 - record.tail().offset(),
    );
    Ok(())
}

/// Makes sure that the worker's own list has a spare chunk, if there is memory: so keys of a full pool can be removed
/// although the list's chunks have been freed, and others have taken that memory.
pub(in crate::pod) fn have_spare<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let spare = actor.record.spare();
    if actor != worker.actor() || spare.get(worker.mem()) != 0 {
        return Ok(());
    }
    // Under a pin no operation makes room for it.
    let _pin = worker.pin()?;
    let chunk = match new_chunk(worker, actor) {
        Err(Error::Full { .. }) => return Ok(()),
        chunk => chunk?,
    };
    link_auxiliary(worker, actor, spare.offset() | OWNED_LINK, chunk);
    crash_point(Point::RetireChunk);
    set(worker, spare, chunk);
    clear_auxiliary(worker, actor);
    Ok(())
}

/// Retires an object that the actor has unlinked, and that its record names until this has returned. There must be
/// room.
#[inline]
pub fn retire<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    retire_named(worker, actor, object)?;
    await_entries(worker);
    Ok(())
}

/// [`retire`], unless a worker that died has done so.
pub fn retire_if_not<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    match find(worker, actor, object)? {
        Some(_) => Ok(()),
        None => retire(worker, actor, object),
    }
}

/// Waits until the entries of a list are written back.
#[inline]
pub(in crate::pod) fn await_entries<M: Memory>(worker: &Worker<M>) {
    if !M::COHERENT {
        worker.mem().fence();
    }
}

/// [`retire`] without the wait: the record names the object until the caller has [waited](await_entries).
#[inline]
pub(in crate::pod) fn retire_named<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    let mut bytes = None;
    if may_be_extent(worker, object)
        && let Location::Extent { frame, frames, .. } = locate(worker, object)?
    {
        mark_extent(worker, actor, frame, frames);
        bytes = Some(u64::from(frames) * FRAME);
        crash_point(Point::RetireMarked);
    }
    push(worker, actor, object)?;
    crash_point(Point::RetirePushed);
    if actor == worker.actor() {
        worker
            .reclaim
            .retired_since
            .set(worker.reclaim.retired_since.get() + 1);
        let bytes = bytes.unwrap_or_else(|| weight(worker, object));
        worker
            .reclaim
            .retired_bytes_since
            .set(worker.reclaim.retired_bytes_since.get() + bytes);
    }
    Ok(())
}

/// About how many bytes an object of a slab has: enough to tell whether much waits. No round trip.
#[inline]
fn weight<M: Memory>(worker: &Worker<M>, object: u64) -> u64 {
    let frame = worker.geometry().frame_of(object);
    if !M::COHERENT {
        let class = worker.alloc.classes.get(frame).and_then(|class| TABLE.get(class));
        return class.map_or(LINE, |class| u64::from(class.size));
    }
    // An object named in a record that is damaged meanwhile may be anything.
    if worker.check("", object, 1).is_err() {
        return 0;
    }
    match Block::decode(table_word(worker, frame).load(worker.mem())) {
        Block::Slab { class, .. } => TABLE
            .get(usize::from(class))
            .map_or(0, |class| u64::from(class.size)),
        // Of a block of several frames: its objects are large.
        Block::Tail => LARGE,
        _ => 0,
    }
}

/// About the size of an object in a block of several frames.
const LARGE: u64 = 8192;

/// Whether an object may have frames of its own: no object of a slab begins where a frame does.
#[inline]
pub(in crate::pod) fn may_be_extent<M: Memory>(worker: &Worker<M>, object: u64) -> bool {
    object.wrapping_sub(worker.geometry().data) & (FRAME - 1) == 0
}

pub(in crate::pod) fn mark_extent<M: Memory>(worker: &Worker<M>, actor: Actor, frame: u64, frames: u32) {
    let mem = worker.mem();
    let word = table_word(worker, frame);
    let mut current = word.load(mem);
    let retired = Block::Extent {
        frames,
        state: ExtentState::Retired,
        owner: actor.me,
    }
    .encode();
    // It says which worker may free the extent; the entry says when.
    // NO PAIR: claim
    while let Err(found) = word.compare_exchange_acquire(mem, current, retired | current & 0xff00) {
        current = found;
    }
}

/// Appends an entry. It and the tail are written back with the next fence, in any order.
#[inline]
pub(in crate::pod) fn push<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    let mem = worker.mem();
    debug_assert!(
        actor != worker.actor() || worker.holds_list(),
        "a worker retires into a list that it does not hold"
    );
    let tail = Position::decode(actor.record.tail().get(mem));
    worker.check("a retired list", tail.chunk, CHUNK_BYTES)?;
    if tail.index >= CHUNK_ENTRIES {
        return Err(Error::corrupt("a retired list without room", tail.chunk));
    }
    let (object_word, epoch_word) = entry(tail.chunk, tail.index);
    epoch_word.set(mem, tag_of(worker, actor));
    // After the tag, in the same line: it says that there is an entry.
    object_word.set(mem, object);
    write_back_entry(mem, object_word);
    let next = Position {
        index: tail.index + 1,
        ..tail
    };
    actor.record.tail().set(mem, next.encode());
    write_back_ends(mem, actor.record);
    Ok(())
}

/// The tag of an object that is retired now.
#[inline]
fn tag_of<M: Memory>(worker: &Worker<M>, actor: Actor) -> u64 {
    let tag = worker.epoch_to_tag(actor);
    if mutant::is(Mutant::TagZero) { 0 } else { tag }
}

/// Begins to write an entry back.
#[inline]
fn write_back_entry<M: Memory>(mem: &M, object_word: OwnedWord) {
    if !M::COHERENT && !mutant::is(Mutant::EntryNotWrittenBack) {
        mem.write_back(object_word.offset(), 16);
    }
}

/// Begins to write the head and the tail of a list back, which share a line.
#[inline]
pub(in crate::pod) fn write_back_ends<M: Memory>(mem: &M, record: WorkerRecord) {
    if !M::COHERENT {
        mem.write_back(record.head().offset(), 24);
    }
}

/// Recovery: moves the tail after the entries that it should follow. Written back by the caller.
pub(in crate::pod) fn mend_tail<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    let (_, mut tail) = span(worker, actor.record)?;
    while tail.chunk != 0 && tail.index < CHUNK_ENTRIES && entry(tail.chunk, tail.index).0.get(mem) != 0 {
        tail.index += 1;
    }
    actor.record.tail().set_lazily(mem, tail.encode());
    Ok(())
}

/// The entry of an object in a list that the caller has.
pub(in crate::pod) fn find<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    object: u64,
) -> Result<Option<OwnedWord>> {
    let (mut position, tail) = span(worker, actor.record)?;
    let mut chunks_left = chunks_max(worker)?;
    while position.chunk != 0 {
        let indexes = position.index..count_in(worker, position.chunk, tail);
        let mut words = indexes.map(|index| entry(position.chunk, index).0);
        if let Some(word) = words.find(|word| word.get(worker.mem()) == object) {
            return Ok(Some(word));
        }
        if position.chunk == tail.chunk {
            break;
        }
        position = next_position(worker, position, &mut chunks_left)?;
    }
    Ok(None)
}

/// More chunks than a list has; a walk of a damaged list ends here.
pub(in crate::pod) fn chunks_max<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    Ok(worker.committed_frames()? * 64 + 1)
}

/// The beginning of the chunk after a position; `chunks_left` ends the walk of a damaged list that is a cycle.
pub(in crate::pod) fn next_position<M: Memory>(
    worker: &Worker<M>,
    position: Position,
    chunks_left: &mut u64,
) -> Result<Position> {
    let next = next_of(position.chunk).peek(worker.mem());
    *chunks_left = chunks_left.saturating_sub(1);
    if *chunks_left == 0 || next & INDEX_MASK != 0 {
        return Err(Error::corrupt("a retired list", position.chunk));
    }
    // Nothing after it: a list whose tail a worker was about to move when it died.
    if next != 0 {
        worker.check("a retired list", next, CHUNK_BYTES)?;
    }
    Ok(Position {
        chunk: next,
        index: 0,
    })
}

/// Drops the chunks of a list that another host has written from this host's cache, so that they are read as they are
/// in memory; waits until that and earlier drops are complete.
pub(in crate::pod) fn refresh<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<()> {
    if M::COHERENT {
        return Ok(());
    }
    let chunks = chunks(worker, record);
    for &chunk in chunks
        .iter()
        .flatten()
        .filter(|_| !mutant::is(Mutant::ChunksNotRefreshed))
    {
        worker.mem().invalidate(chunk, CHUNK_BYTES);
    }
    worker.mem().fence();
    chunks.map(drop)
}

/// Calls `each` for the objects that wait in a record's list, whichever worker has it. Sees what is in it when the call
/// begins and stays there, and nothing that left it before. The caller is pinned, unless no worker takes entries out
/// meanwhile.
pub fn pending<M: Memory>(worker: &Worker<M>, record: WorkerRecord, mut each: impl FnMut(u64)) -> Result<()> {
    pending_tagged(worker, record, |object, _| each(object))
}

/// [`pending`], which also passes the word that holds the object's epoch.
pub fn pending_tagged<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    mut each: impl FnMut(u64, OwnedWord),
) -> Result<()> {
    pending_while(worker, record, |object, tag| {
        each(object, tag);
        true
    })
}

/// [`pending_tagged`], as long as `each` says so.
pub(in crate::pod) fn pending_while<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    mut each: impl FnMut(u64, OwnedWord) -> bool,
) -> Result<()> {
    let mem = worker.mem();
    let (mut position, tail) = span_afresh(worker, record)?;
    let mut chunks_left = chunks_max(worker)?;
    while position.chunk != 0 {
        let is_last = position.chunk == tail.chunk;
        let count = match is_last {
            true => CHUNK_ENTRIES,
            false => count_in(worker, position.chunk, tail),
        };
        for index in position.index..count {
            let (word, tag) = entry(position.chunk, index);
            let object = word.peek_speculative(mem);
            if is_last && index >= tail.index && object == 0 {
                break;
            }
            if !says_gone(object) && !each(object, tag) {
                return Ok(());
            }
        }
        if is_last {
            break;
        }
        position = next_position(worker, position, &mut chunks_left)?;
    }
    Ok(())
}

/// How many objects wait in all lists.
pub fn waiting<M: Memory>(worker: &Worker<M>) -> u64 {
    let mut found = 0;
    for index in 0..worker.pod().workers_high() {
        // A list that its owner changes meanwhile may look odd.
        let _ = pending(worker, WorkerRecord::new(worker.geometry(), index), |_| {
            found += 1
        });
    }
    found
}

/// The chunks of a record's list.
pub fn chunks<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<Vec<u64>> {
    let (mut position, tail) = span_afresh(worker, record)?;
    let mut chunks_left = chunks_max(worker)?;
    let mut found = Vec::new();
    while position.chunk != 0 {
        found.push(position.chunk);
        if position.chunk == tail.chunk {
            break;
        }
        position = next_position(worker, position, &mut chunks_left)?;
    }
    Ok(found)
}

const _: () = assert!(
    16 + 16 * CHUNK_ENTRIES == CHUNK_BYTES,
    "a chunk is full of entries"
);
const _: () = assert!(
    TABLE[CHUNK_CLASS].size as u64 == CHUNK_BYTES,
    "chunks have a size class of their own size"
);

#[cfg(test)]
#[path = "retire_tests.rs"]
mod tests;
