//! Retired objects: unlinked, and waiting until no reader can hold them.
//!
//! Each worker record has a list of them, in the pool, so that it outlives its worker: a chain of chunks, each an
//! object of 1 KiB with 63 entries of (object, epoch). Entries are appended at the tail and freed from the head,
//! both by the record's worker alone, or by whoever has claimed the record after the worker left or died.
//!
//! ```text
//! chunk:  next  count  (object, epoch) × 63        head = chunk | index     tail = chunk | count
//! ```
//!
//! **Retiring** `x`: `retiring = x`; cell of `x`: live -> retired by me; entry and `tail`; `retiring = 0`. Whatever
//! step a crash follows, recovery sees from the cell and from the last entry what is left to do.
//!
//! The list needs memory that may not be had when an object must be retired; so operations that may retire first
//! make room ([`ensure_room`]), and fail as a whole if they cannot. Freeing is in [`super::collect`].

use super::block::{Block, CELL_LIVE, RangeState};
use super::class::TABLE;
use super::crash::{Point, crash_point};
use super::epoch;
use super::heap::allocate_for;
use super::publish::{OWNED_LINK, clear_auxiliary, link_auxiliary};
use super::record::WorkerRecord;
use super::slab::{CellAt, Place, cell_by_len, cell_of, locate, table_word};
use super::worker::Worker;
use crate::error::{Error, Result};
use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 1024;
/// Entries of a chunk.
pub const CHUNK_ENTRIES: u64 = 63;
/// Entries that one operation may append.
const ROOM: u64 = 3;
/// The low bits of a head or tail word; chunks are aligned to more.
pub(super) const INDEX_MASK: u64 = 63;

/// In whose name something is done: a worker's record, and its mark. Normally the caller's own; recovery and the
/// heirs of vacant records act for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The record.
    pub record: WorkerRecord,
    /// The worker's index plus one.
    pub me: u16,
}

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The chunk, or 0.
    pub chunk: u64,
    /// The entry in it.
    pub index: u64,
}

impl Position {
    pub(super) fn decode(word: u64) -> Self {
        Self {
            chunk: word & !INDEX_MASK,
            index: word & INDEX_MASK,
        }
    }

    pub(super) fn encode(self) -> u64 {
        self.chunk | self.index
    }
}

pub(super) fn next_of(chunk: u64) -> OwnedWord {
    OwnedWord::at(chunk)
}

fn count_of(chunk: u64) -> OwnedWord {
    OwnedWord::at(chunk + 8)
}

/// Entries of a chunk of the list that ends at `tail`.
pub(super) fn count_in<M: Memory>(worker: &Worker<M>, chunk: u64, tail: Position) -> u64 {
    let count = if chunk == tail.chunk {
        tail.index
    } else {
        count_of(chunk).peek(worker.mem())
    };
    count.min(CHUNK_ENTRIES)
}

/// The object and the epoch of an entry.
pub fn entry(chunk: u64, index: u64) -> (OwnedWord, OwnedWord) {
    let at = chunk + 16 + 16 * index;
    (OwnedWord::at(at), OwnedWord::at(at + 8))
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

/// [`span`] for whoever is not the record's worker: this host's cache may hold what the record was long ago.
fn span_afresh<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<(Position, Position)> {
    let head = Position::decode(record.head().peek(worker.mem()));
    let tail = Position::decode(record.tail().peek(worker.mem()));
    for chunk in [head.chunk, tail.chunk] {
        if chunk != 0 {
            worker.check("a retired list", chunk, CHUNK_BYTES)?;
        }
    }
    Ok((head, tail))
}

pub(super) fn set_position<M: Memory>(worker: &Worker<M>, word: OwnedWord, position: Position) {
    word.set(worker.mem(), position.encode());
    worker.mem().persist(word.offset(), 8);
}

pub(super) fn set<M: Memory>(worker: &Worker<M>, word: OwnedWord, value: u64) {
    word.set(worker.mem(), value);
    worker.mem().persist(word.offset(), 8);
}

/// Makes room for what an operation may retire.
#[inline]
pub fn ensure_room<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let tail = Position::decode(actor.record.tail().get(worker.mem()));
    if tail.chunk != 0 && tail.index + ROOM <= CHUNK_ENTRIES {
        return Ok(());
    }
    make_room(worker, actor, tail)
}

/// Begins the last chunk anew if nothing waits in it, so that a full pool can be deleted from; else appends one.
#[cold]
fn make_room<M: Memory>(worker: &Worker<M>, actor: Actor, tail: Position) -> Result<()> {
    if begin_anew(worker, actor) {
        return Ok(());
    }
    match append_chunk(worker, actor, tail) {
        // The attempt has freed what could be freed; perhaps that was all.
        Err(Error::Full { .. }) if begin_anew(worker, actor) => Ok(()),
        other => other,
    }
}

/// Takes an empty list back to the beginning of its chunk: first the tail, then the head; recovery knows a head behind
/// its tail for what it is.
fn begin_anew<M: Memory>(worker: &Worker<M>, actor: Actor) -> bool {
    let (mem, record) = (worker.mem(), actor.record);
    let tail = Position::decode(record.tail().get(mem));
    let is_requested = !M::COHERENT && record.flush_request()[3].get(mem) != 0;
    if tail.chunk == 0 || record.head().get(mem) != tail.encode() || is_requested {
        return false;
    }
    let start = Position { index: 0, ..tail };
    set_position(worker, record.tail(), start);
    set_position(worker, record.head(), start);
    true
}

#[cold]
fn append_chunk<M: Memory>(worker: &Worker<M>, actor: Actor, tail: Position) -> Result<()> {
    let mem = worker.mem();
    let chunk = allocate_for(worker, actor, CHUNK_BYTES, actor.record.aux_object(), 0)?;
    // Allocation may have collected, and so moved the list; the tail is as it was, only an operation appends.
    mem.zero(chunk, 16);
    mem.persist(chunk, 16);
    let link = if tail.chunk == 0 {
        actor.record.head()
    } else {
        worker.check("a retired list", tail.chunk, CHUNK_BYTES)?;
        set(worker, count_of(tail.chunk), tail.index);
        next_of(tail.chunk)
    };
    link_auxiliary(worker, actor, link.offset() | OWNED_LINK, chunk);
    crash_point(Point::RetireChunk);
    set(worker, link, chunk);
    crash_point(Point::RetireLinked);
    set_position(worker, actor.record.tail(), Position { chunk, index: 0 });
    clear_auxiliary(worker, actor);
    Ok(())
}

/// The cell of an object, of so many bytes if that is known, that may be retired soon, if that can be had at no great cost; on coherent memory
/// it is on its way then.
#[inline(always)]
pub fn expect<M: Memory>(worker: &Worker<M>, object: u64, len: Option<u64>) -> CellAt {
    if !M::COHERENT {
        return len.map_or(CellAt::UNKNOWN, |len| cell_by_len(worker, object, len));
    }
    let cell = cell_of(worker, object);
    if cell != CellAt::UNKNOWN {
        cell.prefetch(worker.mem());
    }
    cell
}

/// Retires an object that the actor has unlinked. There must be room.
#[inline]
pub fn retire<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    let place = locate(worker, object)?;
    let retiring = actor.record.retiring();
    set(worker, retiring, object);
    crash_point(Point::RetireIntent);
    let marked = match place {
        Place::Slab(cell) => mark_cell(worker, actor, object, cell.at),
        Place::Range { unit, units, .. } => {
            mark_range(worker, actor, unit, units);
            Ok(())
        }
    };
    if marked.is_ok() {
        enter(worker, actor, object)?;
    }
    set(worker, retiring, 0);
    marked
}

/// [`retire`] for an object that the record of an operation names as unlinked: that is as good as *retiring*. If its cell is
/// known, this is not a repetition: the object is live.
#[inline]
pub(super) fn retire_named<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    object: u64,
    cell: CellAt,
) -> Result<()> {
    if cell != CellAt::UNKNOWN && !M::COHERENT {
        return match cell.change_from(worker.mem(), CELL_LIVE, actor.me) {
            Some(_) => enter(worker, actor, object),
            None => Err(twice(object)),
        };
    }
    match cell {
        CellAt::UNKNOWN => match locate(worker, object)? {
            Place::Slab(cell) => mark_cell(worker, actor, object, cell.at)?,
            Place::Range { unit, units, .. } => mark_range(worker, actor, unit, units),
        },
        cell => mark_cell(worker, actor, object, cell)?,
    }
    enter(worker, actor, object)
}

fn twice(object: u64) -> Error {
    Error::corrupt("an object that is retired twice, seen", object)
}

/// Marks an object as retired by the actor, if it is not.
#[inline]
fn mark_cell<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64, cell: CellAt) -> Result<()> {
    match cell.load(worker.mem()) {
        CELL_LIVE => {
            cell.change(worker.mem(), CELL_LIVE, actor.me);
            Ok(())
        }
        mark if mark == actor.me => Ok(()),
        _ => Err(twice(object)),
    }
}

fn mark_range<M: Memory>(worker: &Worker<M>, actor: Actor, unit: u64, units: u32) {
    let mem = worker.mem();
    let word = table_word(worker, unit);
    let mut current = word.load(mem);
    let retired = Block::Range {
        units,
        state: RangeState::Retired,
        owner: actor.me,
    }
    .encode();
    while let Err(found) = word.compare_exchange(mem, current, retired | current & 0xff00) {
        current = found;
    }
}

/// Enters what is marked as retired into the list.
#[inline]
fn enter<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    crash_point(Point::RetireMarked);
    push(worker, actor, object)?;
    crash_point(Point::RetirePushed);
    if actor == worker.actor() {
        worker.retired_since.set(worker.retired_since.get() + 1);
    }
    Ok(())
}

#[inline]
fn push<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    let mem = worker.mem();
    let tail = Position::decode(actor.record.tail().get(mem));
    worker.check("a retired list", tail.chunk, CHUNK_BYTES)?;
    // Already pushed, before a crash? An entry that the head has passed says nothing: its object was freed, and may have
    // been allocated again.
    let is_empty = actor.record.head().get(mem) == tail.encode();
    if !is_empty && tail.index > 0 && entry(tail.chunk, tail.index - 1).0.get(mem) == object {
        return Ok(());
    }
    if tail.index >= CHUNK_ENTRIES {
        return Err(Error::corrupt("a retired list without room", tail.chunk));
    }
    let (object_word, epoch_word) = entry(tail.chunk, tail.index);
    object_word.set(mem, object);
    let tag = epoch::current(mem, actor.record, worker.replicates());
    epoch_word.set(mem, if mutant::is(Mutant::TagZero) { 0 } else { tag });
    if !mutant::is(Mutant::EntryNotWrittenBack) {
        mem.persist(object_word.offset(), 16);
    }
    set_position(
        worker,
        actor.record.tail(),
        Position {
            index: tail.index + 1,
            ..tail
        },
    );
    Ok(())
}

/// The beginning of the chunk behind a position; `chunks_left` ends the walk of a damaged list that is a cycle.
pub(super) fn next_position<M: Memory>(
    worker: &Worker<M>,
    position: Position,
    chunks_left: &mut u64,
) -> Result<Position> {
    let next = next_of(position.chunk).peek(worker.mem());
    *chunks_left = chunks_left.saturating_sub(1);
    if *chunks_left == 0 || next & INDEX_MASK != 0 {
        return Err(Error::corrupt("a retired list", position.chunk));
    }
    // Nothing behind it: a list whose tail was about to be moved by one who died.
    if next != 0 {
        worker.check("a retired list", next, CHUNK_BYTES)?;
    }
    Ok(Position {
        chunk: next,
        index: 0,
    })
}

/// Drops the chunks of a list that another host has written from this host's cache, so that they are read as they are.
pub(super) fn refresh<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<()> {
    if !M::COHERENT {
        for chunk in chunks(worker, record)?
            .into_iter()
            .filter(|_| !mutant::is(Mutant::ChunksNotRefreshed))
        {
            worker.mem().invalidate(chunk, CHUNK_BYTES);
        }
        worker.mem().fence();
    }
    Ok(())
}

/// Calls `each` for the objects that wait in a record's list, with their epochs.
pub fn pending<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    mut each: impl FnMut(u64, u64),
) -> Result<()> {
    let mem = worker.mem();
    let (mut position, tail) = span_afresh(worker, record)?;
    let mut chunks_left = worker.committed_units()? * 64 + 1;
    while position.chunk != 0 {
        for index in position.index..count_in(worker, position.chunk, tail) {
            let (object, epoch) = entry(position.chunk, index);
            each(object.peek(mem), epoch.peek(mem));
        }
        if position.chunk == tail.chunk {
            break;
        }
        position = next_position(worker, position, &mut chunks_left)?;
    }
    Ok(())
}

/// The chunks of a record's list.
pub fn chunks<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Result<Vec<u64>> {
    let (mut position, tail) = span_afresh(worker, record)?;
    let mut chunks_left = worker.committed_units()? * 64 + 1;
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
    TABLE[19].size as u64 == CHUNK_BYTES,
    "chunks have a size class of their own size"
);
