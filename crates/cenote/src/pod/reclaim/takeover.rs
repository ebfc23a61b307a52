//! Taking over the retired lists and the reserves of idle workers: what a worker has retired must not wait until that
//! worker writes again, nor may free cells be for it alone where others have no memory.
//!
//! A worker *holds* its list and its reserves while it may change them: [`Worker::hold_list`], around each operation
//! that writes. A worker that finds a list not held moves all of it to its own, in one transaction under the
//! allocator's lock. Reserves are given back by the same steps by which recovery gives back those of the dead
//! ([`withdraw_reserves`]; coherent memory only).
//!
//! | step | word | by | a crash leaves |
//! |---|---|---|---|
//! | take the allocator's lock | | the taker | nothing |
//! | mark the list as wanted | *list version*: odd | the same | an odd version: its worker makes it even when it writes next |
//! | barrier on all cores | | the same | the same |
//! | check whether the list is held | *busy* | the same | the same |
//! | move the list, count it | redo log | the same | all of it or nothing |
//! | or give back the reserves | cells, block table, *reserve* | the same | some cells free, some blocks nobody's: an odd version, as above, has their worker give back the rest |
//! | give the lock back | | the same | a dead worker's lock |
//!
//! **Coherent memory.** The worker stores *busy*, then loads *list version*; the taker stores *list version*, then
//! loads *busy*, with a full barrier between the two on both sides (the worker's is executed for it, as for
//! announcements). So either the worker finds another version than it knows, or it is found busy. In the first case it
//! waits for the allocator's lock, and then learns what has become of its list; in the second the list is left alone.
//!
//! **Incoherent memory.** The list lies in the cache of the worker's host, so only the background thread of its process
//! takes it over. The two agree by a word of the process. The thread takes a list after a second without change, as the
//! worker then begins with memory that lies in no cache; after 8 ms if a worker has asked for lists since the thread
//! last took this one: because the pool is full, or by hand ([`ask_for_lists`]).
//!
//! A worker that leaves holds its list until its record is free, and after that: the next worker of the place begins
//! anew.
//!
//! **What others know of the list.** A worker that does not hold its list has begun nothing: its record names no object
//! that is or may be in a list. Recovery that searches the lists of others for an object counts moves before and after.

use super::retire::{self, lacks, span};
use crate::error::{Error, Result};
use crate::memory::{LocalWord, Memory, OwnedWord, compiler_barrier};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap;
use crate::pod::format::actor::Actor;
use crate::pod::format::chunk::{CHUNK_BYTES, CHUNK_ENTRIES, Position, ROOM, count_of, entry, next_of};
use crate::pod::format::geometry::WORKER_BYTES;
use crate::pod::format::record::{Phase, State, WorkerRecord, operation};
use crate::pod::format::superblock::{HEAP_LOCK, LISTS_TAKEN, LISTS_WANTED, ROUND_EVENTS};
use crate::pod::instance::advance::{least, reclaimable_below, somebody_relies_on_it};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count;
use crate::pod::instance::failures::Task;
use crate::pod::instance::worker::{LocalPin, Worker};
use crate::pod::lock;
use crate::pod::lock::redo::Transaction;

/// Ticks of a background thread for which a list must not have changed to be taken over on request.
const ASKED_TICKS: u32 = 8;

/// While it lives, the worker may change its retired list, and no other takes that over.
pub struct ListHold<'w, M: Memory> {
    worker: &'w Worker<M>,
}

impl<M: Memory> Drop for ListHold<'_, M> {
    #[inline]
    fn drop(&mut self) {
        let worker = self.worker;
        let depth = worker.reclaim.holds.get() - 1;
        worker.reclaim.holds.set(depth);
        if depth == 0 && !worker.is_forked() {
            match M::COHERENT {
                // PAIRS WITH: pod::reclaim::takeover::of_idle
                true => worker.record().busy().store(worker.mem(), 0),
                false => {
                    worker.mem().tells_own_process();
                    // PAIRS WITH: pod::reclaim::takeover::take_over_locally, pod::reclaim::takeover::take_over
                    worker.local().busy.store(FREE);
                }
            }
        }
    }
}

/// Values of [`LocalPin::busy`]: no thread changes the list.
const FREE: u64 = 0;
/// Its worker may change it.
const HELD: u64 = 1;
/// The background thread takes it over.
const WANTED: u64 = 2;

impl<M: Memory> Worker<M> {
    /// The hold that a worker of incoherent memory begins with.
    pub(crate) fn first_hold(&self) -> ListHold<'_, M> {
        ListHold { worker: self }
    }

    /// Keeps the worker's retired list from being taken over until the guard is dropped. Holds nest. On coherent memory
    /// two stores to own lines; on incoherent memory two to words of the process.
    #[inline]
    pub fn hold_list(&self) -> Result<ListHold<'_, M>> {
        if self.reclaim.holds.get() == 0 {
            if self.is_forked() {
                return Err(Error::Forked);
            }
            if M::COHERENT {
                let (mem, record) = (self.mem(), self.record());
                if self.is_lazy() {
                    // PAIRS WITH: pod::reclaim::takeover::of_idle
                    record.busy().store(mem, 1);
                    compiler_barrier();
                } else {
                    // PAIRS WITH: pod::reclaim::takeover::of_idle
                    record.busy().store_seq_cst(mem, 1);
                }
                // PAIRS WITH: pod::reclaim::takeover::of_idle, pod::reclaim::takeover::withdraw_reserves
                if record.list_version().load(mem) != self.reclaim.list_version.get() {
                    self.learn_of_list()?;
                }
            } else {
                // PAIRS WITH: pod::reclaim::takeover::take_over_locally, pod::reclaim::takeover::take_over
                while !self.local().busy.exchange(FREE, HELD) {
                    self.mem().pause();
                }
                let version = self.local().list_version.load();
                if version != self.reclaim.list_version.replace(version) {
                    self.reclaim.recycler.forget();
                }
            }
        }
        self.reclaim.holds.set(self.reclaim.holds.get() + 1);
        Ok(ListHold { worker: self })
    }

    /// Whether it holds its list.
    pub(in crate::pod) fn holds_list(&self) -> bool {
        self.reclaim.holds.get() > 0
    }

    /// Waits until no worker is about to take the list over, and forgets what was known of it. The first time brings
    /// the record into order.
    #[cold]
    fn learn_of_list(&self) -> Result<()> {
        let (mem, version) = (self.mem(), self.record().list_version());
        let held = match mutant::is(Mutant::TakeoverNotAwaited) {
            true => None,
            false => match lock::acquire(self, HEAP_LOCK) {
                Ok(held) => Some(held),
                Err(error) => {
                    // PAIRS WITH: pod::reclaim::takeover::of_idle
                    self.record().busy().store(mem, 0);
                    return Err(error);
                }
            },
        };
        let mut now = version.load(mem);
        let is_odd = now & 1 != 0;
        if is_odd {
            now = now.wrapping_add(1);
            // NO PAIR: locked
            version.store(mem, now);
        }
        self.reclaim.list_version.set(now);
        drop(held);
        self.reclaim.recycler.forget();
        if is_odd && self.reclaim.is_tidy.get() {
            // A worker died, perhaps while giving back what this one has reserved. A record that is not in order yet is
            // brought into order below.
            self.reclaim.holds.set(1);
            let returned = heap::return_reserves(self, self.actor());
            self.reclaim.holds.set(0);
            if let Err(error) = returned {
                // Next time the record is brought into order like a new worker's: what cannot be right is forgotten.
                self.reclaim.is_tidy.set(false);
                self.reclaim.list_version.set(!now);
                // PAIRS WITH: pod::reclaim::takeover::of_idle
                self.record().busy().store(mem, 0);
                return Err(error);
            }
        }
        if !self.reclaim.is_tidy.replace(true) {
            self.reclaim.holds.set(1);
            tidy(self);
            self.reclaim.holds.set(0);
        }
        Ok(())
    }
}

/// Whose lists are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of workers that have not changed them since the last scan.
    Quiet,
    /// Of all workers that are in no operation now.
    Idle,
}

/// How many lists were taken over, and how many were not for lack of a chunk to leave to their workers.
pub struct Takeover {
    /// Lists taken over.
    pub taken: u32,
    /// Lists that can be once nothing waits in the caller's own list.
    pub left: u32,
}

/// Moves the retired lists of idle living workers to the caller's own, on coherent memory.
///
/// Cost: three loads a worker; if there is something to take, the allocator's lock, a barrier on all cores, and a
/// transaction a list.
pub(in crate::pod) fn take_over<M: Memory>(worker: &Worker<M>, whose: Whose) -> Result<Takeover> {
    let mem = worker.mem();
    let mut seen = worker.reclaim.tails_seen.take();
    let has_list = |record: WorkerRecord, index: usize| {
        if seen.len() <= index {
            seen.resize(index + 1, 0);
        }
        let tail = record.tail().peek(mem);
        let is_quiet = std::mem::replace(&mut seen[index], tail) == tail;
        (is_quiet || whose == Whose::Idle) && tail != record.head().peek(mem)
    };
    let candidates = candidates(worker, has_list);
    worker.reclaim.tails_seen.set(seen);
    let mut left = 0;
    let taken = of_idle(worker, candidates, |record, version| {
        if matches!(chunk_to_leave(worker, record, Whom::Living)?, Leaves::Nothing) {
            left += 1;
            return move_all_but_the_last(worker, record, version);
        }
        move_list(worker, record, Some(version), Whom::Living)
    })?;
    Ok(Takeover { taken, left })
}

/// Asks the background threads of all processes for the retired lists of their idle workers, on incoherent memory: each
/// takes over those that have not changed for 8 ms, once.
///
/// Cost: an exchange.
pub(in crate::pod) fn ask_for_lists<M: Memory>(worker: &Worker<M>) {
    if !M::COHERENT {
        // NO PAIR: hint
        LISTS_WANTED.fetch_add(worker.mem(), 1);
        event_count::notify_waiting(worker.mem(), ROUND_EVENTS);
    }
}

/// Gives back what idle living workers have reserved, cells and the blocks that they take them from, on coherent
/// memory. Returns how many workers that were.
///
/// The steps are those of [`take_over`]. A worker that dies at it leaves an odd version: the idle worker gives its
/// reserves back itself when it writes next, and finds the cells free that are.
///
/// Cost: some fifty loads a worker; if one has something, the allocator's lock, a barrier on all cores, and two
/// exchanges a block.
pub(in crate::pod) fn withdraw_reserves<M: Memory>(worker: &Worker<M>) -> Result<u32> {
    let candidates = candidates(worker, |record, _| {
        heap::may_be_withdrawn(worker, actor_of(worker, record))
    });
    of_idle(worker, candidates, |record, version| {
        let actor = actor_of(worker, record);
        if !heap::may_be_withdrawn(worker, actor) {
            return Ok(false);
        }
        heap::return_reserves(worker, actor)?;
        // PAIRS WITH: pod::reclaim::takeover::hold_list
        record.list_version().store(worker.mem(), version);
        Ok(true)
    })
}

/// Calls `each` for the records of candidates that are idle, while they hold neither their lists nor their reserves;
/// with the version that says so. Returns for how many.
///
/// A version that was odd before stays odd: a worker may have died while giving back what that worker has reserved, and
/// only that worker can tell.
fn of_idle<M: Memory>(
    worker: &Worker<M>,
    candidates: Vec<(WorkerRecord, u64)>,
    mut each: impl FnMut(WorkerRecord, u64) -> Result<bool>,
) -> Result<u32> {
    let began = worker.pod().begin_task();
    if candidates.is_empty() {
        worker.pod().end_task(Task::Idle, began);
        return Ok(0);
    }
    let mem = worker.mem();
    let _hold = worker.hold_list()?;
    let held = lock::acquire(worker, HEAP_LOCK)?;
    let candidates: Vec<_> = candidates
        .into_iter()
        .map(|(record, state)| {
            let (version, now) = (record.list_version(), record.list_version().load(mem));
            let was_odd = now & 1;
            let wanted = now.wrapping_add(1 + was_odd);
            // PAIRS WITH: pod::reclaim::takeover::hold_list
            version.store(mem, wanted);
            (record, state, wanted, wanted.wrapping_add(1 + was_odd))
        })
        .collect();
    crash_point(Point::TakeoverWanted);
    // PAIRS WITH: pod::reclaim::takeover::Worker::hold_list
    let has_barrier = mem.barrier_everywhere();
    if !has_barrier && !mutant::is(Mutant::TakenWithoutFence) {
        // A kernel that cannot do it has executed no barrier here either: `busy` must not be read before the versions
        // are seen.
        mem.fence();
    }
    let is_certain = has_barrier || !somebody_relies_on_it(worker);
    let mut count = 0;
    for (record, state, wanted, after) in candidates {
        let version = record.list_version();
        // PAIRS WITH: pod::reclaim::takeover::hold_list, pod::reclaim::takeover::learn_of_list, pod::reclaim::takeover::ListHold::drop, pod::commit::attach::attach_at
        let is_idle = record.busy().load(mem) == 0 || mutant::is(Mutant::TakenWhileHeld);
        if is_certain
            && is_idle
            && record.state().load(mem) == state
            && has_nothing_begun(record, |word| word.peek(mem))
        {
            match each(record, after) {
                Ok(was_done) => count += u32::from(was_done),
                Err(error) => {
                    // Its worker must finish what was begun: the version stays odd. No other worker fails by it.
                    let what = format_args!("what worker {} holds", actor_of(worker, record).me - 1);
                    worker.pod().note_failure(Task::Idle, what, &error);
                    continue;
                }
            }
        }
        if version.load(mem) == wanted {
            // PAIRS WITH: pod::reclaim::takeover::hold_list
            version.store(mem, after);
        }
    }
    drop(held);
    worker.pod().end_task(Task::Idle, began);
    Ok(count)
}

/// Living workers other than the caller that hold nothing now and have what is asked for, with the words of their
/// states. On coherent memory; else none.
fn candidates<M: Memory>(
    worker: &Worker<M>,
    mut has_it: impl FnMut(WorkerRecord, usize) -> bool,
) -> Vec<(WorkerRecord, u64)> {
    if !M::COHERENT {
        return Vec::new();
    }
    let mem = worker.mem();
    let mut found = Vec::new();
    for index in 0..worker.pod().workers_high() {
        let record = WorkerRecord::new(worker.geometry(), index);
        let state = record.state().load(mem);
        if has_it(record, index as usize)
            && State::decode(state).phase == Phase::Alive
            && record != worker.record()
            && record.busy().load(mem) == 0
        {
            found.push((record, state));
        }
    }
    found
}

/// The actor of a record.
fn actor_of<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Actor {
    let place = (record.state().offset() - worker.geometry().worker_table) / WORKER_BYTES;
    Actor {
        record,
        me: place as u16 + 1,
    }
}

/// Whether a record says that its worker is in no operation, and recovery would have nothing to finish. It is so
/// whenever the list is not held, unless a worker died.
pub(crate) fn has_nothing_begun(record: WorkerRecord, value: impl Fn(OwnedWord) -> u64) -> bool {
    let [first, second] = record.secondaries();
    let [third, fourth] = record.old_secondaries();
    value(record.operation()) == operation::NONE
        && [
            record.new_object(),
            record.old_object(),
            first,
            second,
            third,
            fourth,
            record.retiring(),
            record.freeing(),
            record.aux_object(),
            record.root(),
        ]
        .into_iter()
        .all(|word| value(word) == 0)
}

/// Moves the list of a free record to the caller's own, on coherent memory; the caller has claimed the record, and
/// holds its own list. What its last worker could not finish is finished first. Nothing is freed by that.
pub(in crate::pod) fn adopt_list<M: Memory>(worker: &Worker<M>, from: Actor) -> Result<u64> {
    finish_what_was_begun(worker, from)?;
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    move_list(worker, from.record, None, Whom::Vacant)?;
    Ok(0)
}

/// Brings a record that the caller has claimed into order, if its last worker could not. Nothing is freed by that.
pub(in crate::pod) fn finish_what_was_begun<M: Memory>(worker: &Worker<M>, from: Actor) -> Result<()> {
    let is_over = has_nothing_begun(from.record, |word| word.get(worker.mem()));
    match is_over && is_closed(worker, from.record) {
        true => Ok(()),
        false => (worker.pod().hooks().inner.finish_record)(worker, from),
    }
}

/// Moves a list to the caller's own: before it if it begins with what was retired earlier, else after it. The caller
/// has the allocator's lock, and no worker changes the list. `false` if it is empty or not in order.
fn move_list<M: Memory>(
    worker: &Worker<M>,
    from: WorkerRecord,
    version: Option<u64>,
    whom: Whom,
) -> Result<bool> {
    let mem = worker.mem();
    let own = worker.record();
    // Where caches are incoherent, another thread of this process has written them.
    let (head, tail) = (
        Position::decode(from.head().get(mem)),
        Position::decode(from.tail().get(mem)),
    );
    for chunk in [head.chunk, tail.chunk] {
        if chunk == 0 || worker.check("a retired list", chunk, CHUNK_BYTES).is_err() {
            return Ok(false);
        }
    }
    if !is_closed(worker, from) {
        return Ok(false);
    }
    let (first, end) = span(worker, own)?;
    let mut txn = Transaction::new(mem, own);
    // A flush round covers the first entries. A last chunk that has room stays the last one.
    let may_be_first = may_begin_otherwise(worker);
    let left = chunk_to_leave(worker, from, whom)?;
    if matches!(left, Leaves::Nothing) && whom == Whom::Living {
        return Ok(false);
    }
    let is_first = may_be_first && end.chunk != 0 && goes_first(worker, &left, (head, tail), (first, end));
    match left {
        Leaves::Own(chunk) => txn.write_owned(from.spare(), chunk),
        Leaves::Spare(chunk) => {
            txn.write_owned(from.spare(), chunk);
            txn.write_owned(own.spare(), 0);
        }
        Leaves::NotNeeded | Leaves::Nothing => {}
    }
    // Entries before a head are gone: its chunk may be read from its beginning.
    if matches!(left, Leaves::Own(_)) {
        txn.write_owned(own.head(), head.encode());
        txn.write_owned(own.tail(), tail.encode());
    } else if is_first {
        txn.write_owned(own.head(), head.encode());
        txn.write_owned(count_of(tail.chunk), tail.index);
        txn.write_owned(next_of(tail.chunk), first.chunk);
    } else if end.chunk == 0 {
        txn.write_owned(own.head(), head.encode());
        txn.write_owned(own.tail(), tail.encode());
    } else {
        txn.write_owned(count_of(end.chunk), end.index);
        txn.write_owned(next_of(end.chunk), head.chunk);
        txn.write_owned(own.tail(), tail.encode());
    }
    txn.write_owned(from.head(), 0);
    txn.write_owned(from.tail(), 0);
    if !M::COHERENT {
        // A round that has begun covers another list.
        txn.write_owned(from.flush_request()[3], 0);
    }
    let moved = txn.read(LISTS_TAKEN.offset());
    if !mutant::is(Mutant::MoveNotCounted) {
        txn.write(LISTS_TAKEN.offset(), moved.wrapping_add(1));
    }
    if let Some(version) = version {
        txn.write(from.list_version().offset(), version);
    }
    txn.commit()?;
    if may_be_first {
        // A round that is over must not be found complete again.
        mem.must_be_in_memory(own.flush_request()[3].offset(), 8);
    }
    crash_point(Point::TakeoverDone);
    if is_first {
        // Its progress says nothing of entries before.
        worker.reclaim.recycler.forget();
    }
    worker.reclaim.has_adopted.set(true);
    Ok(true)
}

/// Whether a list, given by its head and tail, goes before the caller's own, which has chunks.
fn goes_first<M: Memory>(
    worker: &Worker<M>,
    left: &Leaves,
    (head, tail): (Position, Position),
    (first, end): (Position, Position),
) -> bool {
    let is_older = || tag_at(worker, head) < tag_at(worker, first);
    first == end
        || match (has_much_room(worker, tail), has_much_room(worker, end)) {
            (false, true) => true,
            (true, true) => is_older(),
            (true, false) => false,
            // If all of it can be freed at once, its last chunk begins anew.
            (false, false) => !matches!(left, Leaves::Spare(_)) && end.index < tail.index,
        }
}

/// Moves all chunks of an idle worker's list but the last one, which that worker needs, to the front of the caller's
/// own, on coherent memory. `false` if there are none, or the list is not in order.
fn move_all_but_the_last<M: Memory>(worker: &Worker<M>, from: WorkerRecord, version: u64) -> Result<bool> {
    let own = worker.record();
    let (head, tail) = span(worker, from)?;
    if head.chunk == 0 || head.chunk == tail.chunk || !is_closed(worker, from) {
        return Ok(false);
    }
    let (mut last, mut chunks_left) = (head, retire::chunks_max(worker)?);
    while next_of(last.chunk).get(worker.mem()) != tail.chunk {
        last = retire::next_position(worker, last, &mut chunks_left)?;
        if last.chunk == 0 {
            return Ok(false);
        }
    }
    let (first, end) = span(worker, own)?;
    let mut txn = Transaction::new(worker.mem(), own);
    txn.write_owned(own.head(), head.encode());
    txn.write_owned(next_of(last.chunk), first.chunk);
    if end.chunk == 0 {
        let index = retire::count_in(worker, last.chunk, tail);
        txn.write_owned(own.tail(), Position { index, ..last }.encode());
    }
    txn.write_owned(from.head(), tail.chunk);
    let moved = txn.read(LISTS_TAKEN.offset());
    txn.write(LISTS_TAKEN.offset(), moved.wrapping_add(1));
    txn.write(from.list_version().offset(), version);
    txn.commit()?;
    crash_point(Point::TakeoverDone);
    worker.reclaim.recycler.forget();
    worker.reclaim.has_adopted.set(true);
    Ok(true)
}

/// Whether the caller's list may get another beginning: no flush round covers it.
fn may_begin_otherwise<M: Memory>(worker: &Worker<M>) -> bool {
    M::COHERENT || worker.record().flush_request()[3].get(worker.mem()) == 0
}

/// Whether no chunk is linked after the last one: none was being appended when its worker died.
fn is_closed<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> bool {
    let mem = worker.mem();
    match Position::decode(record.tail().get(mem)).chunk {
        0 => record.head().get(mem) == 0,
        chunk if worker.check("a retired list", chunk, CHUNK_BYTES).is_ok() => next_of(chunk).get(mem) == 0,
        _ => false,
    }
}

/// Whose list is moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// An idle worker's.
    Living,
    /// A vacant place's.
    Vacant,
}

/// What a worker gets as its spare chunk in exchange for its list's chunks.
enum Leaves {
    /// It has a spare chunk.
    NotNeeded,
    /// The chunk of the caller's own list, in which nothing waits.
    Own(u64),
    /// The caller's spare chunk.
    Spare(u64),
    /// The caller has nothing.
    Nothing,
}

fn chunk_to_leave<M: Memory>(worker: &Worker<M>, from: WorkerRecord, whom: Whom) -> Result<Leaves> {
    let own = worker.record();
    if from.spare().get(worker.mem()) != 0 {
        return Ok(Leaves::NotNeeded);
    }
    let (first, end) = span(worker, own)?;
    let spare = retire::spare(worker, own).unwrap_or_default();
    // On incoherent memory the caller is a background thread, which removes nothing.
    let needs_room = M::COHERENT && !gets_room(worker, from);
    if end.chunk != 0 && first == end && may_begin_otherwise(worker) && (!needs_room || spare.is_some()) {
        return Ok(Leaves::Own(end.chunk));
    }
    let keeps_room = end.chunk != 0 && has_much_room(worker, end) && may_begin_otherwise(worker);
    Ok(match spare {
        // A worker that has left needs it less than the caller.
        Some(spare) if whom == Whom::Living && (!needs_room || keeps_room) => Leaves::Spare(spare),
        _ => Leaves::Nothing,
    })
}

/// Whether a worker that takes a list over can then retire without another chunk: its last chunk has room, or all its
/// entries can be freed at once.
fn gets_room<M: Memory>(worker: &Worker<M>, from: WorkerRecord) -> bool {
    let tail = Position::decode(from.tail().get(worker.mem()));
    if has_much_room(worker, tail) {
        return true;
    }
    let least = reclaimable_below(worker, least(worker));
    let mut is_reclaimable = true;
    // A list that is not in order is not taken.
    let walked = retire::pending_while(worker, from, |_, tag| {
        is_reclaimable = tag.get(worker.mem()) + 1 < least;
        is_reclaimable
    });
    is_reclaimable && walked.is_ok()
}

/// Whether a list that ends there has room for about as much as a spare chunk has: a spare chunk is not given away for
/// a few entries.
fn has_much_room<M: Memory>(worker: &Worker<M>, tail: Position) -> bool {
    !lacks(worker, tail, (worker.limits().chunk_entries / 2).max(ROOM))
}

/// The tag of an entry of the caller's list, or of one that is being moved to it.
fn tag_at<M: Memory>(worker: &Worker<M>, at: Position) -> u64 {
    let last = CHUNK_ENTRIES - 1;
    entry(at.chunk, at.index.min(last)).1.get(worker.mem())
}

/// How often lists were taken over, read while none was being taken.
pub(in crate::pod) fn lists_taken<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    Ok(LISTS_TAKEN.load(worker.mem()))
}

/// What a process's background thread remembers of the lists of its workers (incoherent memory).
#[derive(Debug, Default)]
pub(in crate::pod) struct Quiet {
    /// The lists, by place.
    seen: Vec<Seen>,
}

/// What it remembers of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The tail.
    tail: u64,
    /// The number of ticks for which it was seen like that.
    times: u32,
    /// How often lists had been asked for when it was taken over.
    wanted: u64,
}

impl Quiet {
    /// Takes over the lists of this process's workers that have not changed for some ticks, fewer on request; `ticks`
    /// have passed since the last call.
    pub(in crate::pod) fn take_over<M: Memory>(
        &mut self,
        worker: &Worker<M>,
        pins: &[std::sync::Arc<LocalPin>],
        ticks: u32,
    ) -> Result<()> {
        let mem = worker.mem();
        let quiet_ticks = worker.limits().quiet_ticks;
        let Some(_right) = worker.pod().may_reclaim(worker) else {
            return Ok(());
        };
        for pin in pins.iter().filter(|pin| pin.record != worker.record()) {
            let place = usize::from(actor_of(worker, pin.record).me - 1);
            if self.seen.len() <= place {
                let begin = Seen {
                    wanted: LISTS_WANTED.load(mem),
                    ..Seen::default()
                };
                self.seen.resize(place + 1, begin);
            }
            // A worker that has left holds its list for ever: its record may have another owner.
            let is_unasked = mutant::is(Mutant::LeftWithPin);
            // PAIRS WITH: pod::reclaim::takeover::ListHold::drop
            if !is_unasked && !pin.busy.exchange(FREE, WANTED) {
                continue;
            }
            let (head, tail) = (pin.record.head().get(mem), pin.record.tail().get(mem));
            if !is_unasked {
                mem.tells_own_process();
                // PAIRS WITH: pod::reclaim::takeover::hold_list
                pin.busy.store(FREE);
            }
            let seen = &mut self.seen[place];
            seen.times = if seen.tail == tail {
                seen.times.saturating_add(ticks)
            } else {
                0
            };
            seen.tail = tail;
            if tail == 0 || tail == head || seen.times < ASKED_TICKS.min(quiet_ticks) {
                continue;
            }
            let wanted = LISTS_WANTED.load(mem);
            if wanted != seen.wanted || seen.times >= quiet_ticks {
                seen.times = 0;
                if take_over_locally(worker, pin)? {
                    seen.wanted = wanted;
                }
            }
        }
        Ok(())
    }
}

/// Takes over the list of a worker of this process, if the worker does not hold it; returns whether it has.
fn take_over_locally<M: Memory>(worker: &Worker<M>, pin: &LocalPin) -> Result<bool> {
    let mem = worker.mem();
    let _hold = worker.hold_list()?;
    if matches!(chunk_to_leave(worker, pin.record, Whom::Living)?, Leaves::Nothing) {
        retire::have_spare(worker, worker.actor())?;
    }
    let held = lock::acquire(worker, HEAP_LOCK)?;
    // PAIRS WITH: pod::reclaim::takeover::ListHold::drop
    if !pin.busy.exchange(FREE, WANTED) && !mutant::is(Mutant::TakenWhileHeld) {
        return Ok(false);
    }
    let state = State::decode(pin.record.state().load(mem));
    let is_its = state.phase == Phase::Alive && state.generation == pin.generation;
    if is_its {
        // The end of its last operation may not have been written back; recovery would repeat it, and search the list.
        pin.record.write_back_operation(mem);
        mem.fence();
        pin.record.expect_end_in_memory(mem);
    }
    // In a full pool a worker is not left without a chunk: it could remove no key any more.
    let outcome = match is_its
        && has_nothing_begun(pin.record, |word| word.get(mem))
        && !matches!(
            chunk_to_leave(worker, pin.record, Whom::Living),
            Ok(Leaves::Nothing) | Err(_)
        ) {
        true => move_list(worker, pin.record, None, Whom::Living),
        false => Ok(false),
    };
    if matches!(outcome, Ok(true)) {
        // NO PAIR: locked
        pin.list_version.add(1);
    }
    mem.tells_own_process();
    // PAIRS WITH: pod::reclaim::takeover::hold_list
    pin.busy.store(FREE);
    drop(held);
    outcome
}

/// A word by which a worker and the background thread of its process agree which of them changes the worker's list. On
/// incoherent memory the worker holds it from the beginning: its host's cache has an old list.
pub(in crate::pod) fn first_owner<M: Memory>() -> LocalWord {
    LocalWord::new(if M::COHERENT { FREE } else { HELD })
}

/// Brings the record that a worker has just taken into order. Normally there is nothing to do: its last worker left
/// in peace or was recovered. What a leaving worker could not give back is given back now; what cannot be right
/// is forgotten, so that nothing in the record of a living worker needs to be doubted.
///
/// The worker holds its list, for the first time.
pub(crate) fn tidy<M: Memory>(worker: &Worker<M>) {
    let (mem, actor) = (worker.mem(), worker.actor());
    let refreshed = retire::refresh(worker, actor.record);
    if refreshed.is_err() || (worker.pod().hooks().inner.finish_record)(worker, actor).is_err() {
        actor.record.forget(mem);
    }
}
