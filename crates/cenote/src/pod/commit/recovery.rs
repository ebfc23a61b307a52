//! Recovery: a live worker finishes or undoes what a dead process had begun.
//!
//! **Who notices.** A worker that waits for the allocator's lock (it recovers only as far as the lock), that finds a
//! dead worker's announcement holding reclamation back, that finds the pool full, or that opens it; watchers; and the
//! optional agent. No other worker has to wait for recovery: it returns memory, it unblocks nobody.
//!
//! **Notified first.** Registered steps run before the claim; by the first of them groups are notified of the death. A
//! recoverer that is stopped once it has claimed the record is alive, so nobody else may recover that record; but it
//! keeps nobody from being notified.
//!
//! **Claim.** A dead process's worker record, or one whose recoverer died: its state -> `Recovering(by us)`. Every step
//! below may be repeated from its beginning by the next recoverer, if this one dies. When none of a dead process's
//! workers is left, its own place is freed.
//!
//! **Damage.** Only what cannot be recovered is left as it was found: the other steps, workers and processes are
//! recovered all the same. [`failures`](crate::pod::instance::failures) keeps what failed.
//!
//! **For each worker**, in this order, in the dead worker's name (its mark, its list, its reserves):
//! 1. the allocator's lock: taken once, so that what the dead have committed is done;
//! 2. its list: the tail, the chunk that was being retired;
//! 3. its operation: the outcome is decided from what others can see (see `publish`), *recorded*, then acted on;
//! 4. its auxiliary allocation, which may be a line of a level that is being freed; then the batch that was being
//!    freed;
//! 5. the old level that it had claimed to retire;
//! 6. its reserves: cells returned, blocks orphaned;
//! 7. its announcement is withdrawn and its record freed; what its list still holds is left to adopters.

use std::fmt::Display;

use super::publish::{SLOT_CLAIMED, SLOT_CLEARED, SLOT_MOVE_BITS, finish_with_secondaries};
use crate::error::{Error, Result};
use crate::memory::checked::{owned_word, sync_word};
use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::auxiliary::{clear_auxiliary, discard_auxiliary, drain_auxiliary};
use crate::pod::alloc::heap;
use crate::pod::alloc::slab::{Location, locate, table_word};
use crate::pod::format::actor::Actor;
use crate::pod::format::block::{Block, ExtentState};
use crate::pod::format::chunk::{CHUNK_BYTES, GONE, next_of};
use crate::pod::format::class::CLASSES;
use crate::pod::format::entry::DROPPED;
use crate::pod::format::record::{
    DRAINING, IDLE, OWNED_LINK, PUBLISHED, Phase, ProcessRecord, State, WorkerRecord, operation,
};
use crate::pod::format::recovery_log;
use crate::pod::format::reserve::Reserve;
use crate::pod::format::superblock::{
    COMMITTED, DIRECTORY_LOCK, HEAP_LOCK, ORPHANS, RECOVERIES, REPAIRER, TRIM_LOCK,
};
use crate::pod::instance::advance::{least, reclaimable_below};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::drain;
use crate::pod::instance::failures::Task;
use crate::pod::instance::hooks::{Dead, StepOutcome};
use crate::pod::instance::worker::{Worker, unregister};
use crate::pod::lock;
use crate::pod::reclaim::takeover::lists_taken;
use crate::pod::reclaim::vacant::empty;
use crate::pod::reclaim::{collect, retire};

/// The result of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recovered {
    /// Dead processes whose places are free again.
    pub processes: u32,
    /// Their workers.
    pub workers: u32,
    /// Operations that had happened and were finished.
    pub finished: u32,
    /// Operations that had not happened and were undone.
    pub undone: u32,
    /// Recoveries that failed, or deaths that could not be established: [`Pod::failures`](crate::pod::Pod::failures)
    /// says why.
    pub failed: u32,
}

impl Recovered {
    /// Counts a failure, and keeps it.
    fn fail<M: Memory>(&mut self, worker: &Worker<M>, task: Task, what: impl Display, error: &Error) {
        self.failed += 1;
        worker.pod().note_failure(task, what, error);
    }
}

/// Recovers every dead process: first the workers that no living process answers for, then the places of processes.
/// What cannot be recovered is left, and counted.
///
/// # Errors
///
/// If this process was forked off the one that joined: then it may recover nobody.
pub fn recover_dead<M: Memory>(worker: &Worker<M>) -> Result<Recovered> {
    if worker.pod().is_forked() {
        return Err(Error::Forked);
    }
    let mut recovered = Recovered::default();
    recover_all(worker, &mut recovered);
    Ok(recovered)
}

/// [`recover_dead`], adding to an earlier result.
pub(in crate::pod) fn recover_all<M: Memory>(worker: &Worker<M>, recovered: &mut Recovered) {
    let pod = worker.pod();
    if pod.is_forked() {
        return;
    }
    let began = pod.begin_task();
    let mut is_whole = true;
    let dead = pod.dead_processes(|index, error| {
        recovered.fail(
            worker,
            Task::Dead,
            format_args!("the process at place {index}"),
            &error,
        );
    });
    for (index, state) in pod.attached_workers() {
        if index + 1 == u32::from(worker.me()) {
            continue;
        }
        if recovered.failed > 0 && mutant::is(Mutant::FirstFailureEnds) {
            return;
        }
        match pod.worker_lives(index, state) {
            // Whether its recoverer fails is not known yet.
            Ok(true) => is_whole &= state.phase != Phase::Recovering,
            Ok(false) => {
                is_whole &= recover_one(worker, index, state, recovered) == Recoverer::This;
                crash_point(Point::RecoverWorker);
            }
            Err(error) => recovered.fail(worker, Task::Dead, Dead::at(index, state), &error),
        }
    }
    crash_point(Point::RecoverProcess);
    for index in dead {
        if let Err(error) = free_place(worker, index, recovered) {
            recovered.fail(
                worker,
                Task::Dead,
                format_args!("the process at place {index}"),
                &error,
            );
        }
    }
    if is_whole {
        pod.end_task(Task::Dead, began);
    }
}

/// Frees a dead process's place, unless a worker of that process has appeared meanwhile.
fn free_place<M: Memory>(worker: &Worker<M>, index: u32, recovered: &mut Recovered) -> Result<()> {
    let (mem, pod) = (worker.mem(), worker.pod());
    let entry = ProcessRecord::new(worker.geometry(), index).state();
    let word = entry.load(mem);
    let state = State::decode(word);
    let has_workers = pod.attached_workers().iter().any(|(_, worker)| {
        worker.phase == Phase::Alive && worker.process == index && worker.tag == state.generation as u8
    });
    if state.phase == Phase::Free || has_workers || pod.process_lives(index)? {
        return Ok(());
    }
    let free = State {
        phase: Phase::Free,
        process: 0,
        tag: 0,
        generation: state.generation,
    };
    // NO PAIR: claim
    if entry.compare_exchange_acquire(mem, word, free.encode()).is_ok() {
        recovered.processes += 1;
        // NO PAIR: count
        RECOVERIES.fetch_add(mem, 1);
    }
    Ok(())
}

/// Who recovers a dead worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pod) enum Recoverer {
    /// This worker did, or failed to: the failure is noted.
    This,
    /// Others, or this one later.
    Others,
}

/// Recovers a worker that was seen dead in this state, unless another worker has claimed it.
pub(in crate::pod) fn recover_one<M: Memory>(
    worker: &Worker<M>,
    index: u32,
    state: State,
    recovered: &mut Recovered,
) -> Recoverer {
    recover(worker, index, state, recovered).unwrap_or_else(|error| {
        recovered.fail(worker, Task::Dead, Dead::at(index, state), &error);
        Recoverer::This
    })
}

/// Runs the registered steps first, in their order, without a claim. A step that fails does not keep the record from
/// being recovered; the next worker that uses the structure makes up for it.
fn recover<M: Memory>(
    worker: &Worker<M>,
    index: u32,
    state: State,
    recovered: &mut Recovered,
) -> Result<Recoverer> {
    let mem = worker.mem();
    let record = WorkerRecord::new(worker.geometry(), index);
    if !M::COHERENT && !worker.pod().disown(index, state.generation) {
        return Ok(Recoverer::Others);
    }
    if !worker.pod().may_recover()? {
        return Ok(Recoverer::Others);
    }
    // A thread that died alone has left its lines in this process's cache; what a dead process has left is drained
    // already.
    if worker.pod().is_own(state) {
        drain::drop_cached(mem, worker.geometry());
    }
    let dead = Dead::at(index, state);
    let mut entry = begin_entry(worker, index, state);
    if !mutant::is(Mutant::NotifiedUnderClaim) {
        run_steps(worker, dead, &mut entry, recovered);
    }
    let claim = worker.claim(state.generation);
    // NO PAIR: claim
    if record
        .state()
        .compare_exchange_acquire(mem, state.encode(), claim.encode())
        .is_err()
        && !mutant::is(Mutant::RecoveryWithoutClaim)
    {
        return Ok(Recoverer::Others);
    }
    crash_point(Point::RecoverClaimed);
    mutant::also(Mutant::NotifiedUnderClaim, || {
        run_steps(worker, dead, &mut entry, recovered)
    });
    let (finished, undone) = (recovered.finished, recovered.undone);
    let outcome = recover_record(worker, record, dead, recovered);
    let next = match outcome {
        Ok(()) => {
            unregister(mem, worker.geometry().death_slot(index));
            recovered.workers += 1;
            entry.done |= u64::from(recovered.finished - finished) * recovery_log::FINISHED;
            entry.done |= u64::from(recovered.undone - undone) * recovery_log::UNDONE;
            entry.took = mem.kernel().now().saturating_sub(entry.began);
            recovery_log::append(mem, worker.geometry(), entry);
            State {
                phase: Phase::Free,
                process: 0,
                tag: 0,
                generation: state.generation,
            }
        }
        // A record whose recovery failed is given back as it was found, for others or for later.
        Err(_) => {
            record.write_back(mem);
            state
        }
    };
    // After the fence of the log, or of the record that is given back.
    // PAIRS WITH: pod::commit::attach::attach_at, pod::reclaim::vacant::with_claim
    let _ = record
        .state()
        .compare_exchange_acquire(mem, claim.encode(), next.encode());
    hint_at_orphans(worker, record);
    outcome.map(|()| Recoverer::This)
}

/// Steps 1 to 7, under the claim, but for the record's state.
fn recover_record<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    dead: Dead,
    recovered: &mut Recovered,
) -> Result<()> {
    let actor = Actor {
        record,
        me: dead.index as u16 + 1,
    };
    release_locks(worker, dead)?;
    // A damaged user lock only keeps the place, whose slots name it, from being used again. It holds back no memory,
    // nor what waits in the record's list.
    let held = (worker.pod().hooks().recover_held)(worker, dead.index);
    if !mutant::is(Mutant::RecoveryNotInvalidated) {
        record.invalidate(worker.mem());
    }
    retire::refresh(worker, record)?;
    finish_record(worker, actor, recovered)?;
    leave(worker, actor);
    if held.is_err() {
        // The place is not vacant, so there will be no adopters.
        let least = reclaimable_below(worker, least(worker));
        let emptied = worker.hold_list().and_then(|_hold| empty(worker, actor, least));
        return held.and(emptied.map(drop));
    }
    held
}

/// The log entry of a recovery that begins.
fn begin_entry<M: Memory>(worker: &Worker<M>, index: u32, state: State) -> recovery_log::Entry {
    let mem = worker.mem();
    let mut entry = recovery_log::Entry {
        dead: u64::from(index + 1) | u64::from(state.generation) << 32,
        recoverer: worker.identity(),
        began: mem.kernel().now(),
        ..recovery_log::Entry::default()
    };
    // If it was being recovered already, the state names the recoverer.
    if state.phase == Phase::Alive && state.process < worker.geometry().parameters.processes {
        let process = ProcessRecord::new(worker.geometry(), state.process);
        entry.pid = process.pid().peek(mem) as u32;
        entry.host = process.host().peek(mem) as u32;
    }
    entry
}

/// Runs all registered steps, even if some fail.
fn run_steps<M: Memory>(
    worker: &Worker<M>,
    dead: Dead,
    entry: &mut recovery_log::Entry,
    recovered: &mut Recovered,
) {
    for (n, step) in worker.pod().hooks().steps.iter().enumerate() {
        let (task, began) = (Task::Step(step.name), worker.pod().begin_task());
        match (step.run)(worker, dead) {
            Ok(outcome) => {
                let was_there = outcome == StepOutcome::Recovered;
                entry.done |= u64::from(was_there) << (recovery_log::FIRST_STEP + n as u32);
                worker.pod().end_task(task, began);
            }
            Err(error) => {
                entry.done |= recovery_log::FAILED;
                recovered.fail(worker, task, format_args!("{dead}, {}", step.name), &error);
            }
        }
        crash_point(Point::RecoverStep);
    }
}

/// Step 1: ends the dead worker's holds of the pool's own locks; that on the trim lock once no log about a hole is left
/// to be replayed. Once this worker has had the allocator's lock, all that its dead holders had committed is done, also
/// what an earlier dead recoverer of this record had. Read sooner, the record and the block table would be out of date.
fn release_locks<M: Memory>(worker: &Worker<M>, dead: Dead) -> Result<()> {
    if !mutant::is(Mutant::LogsNotApplied) {
        drop(lock::acquire(worker, HEAP_LOCK)?);
    }
    lock::release_for_dead(worker, DIRECTORY_LOCK, dead.index, dead.generation);
    lock::release_for_dead(worker, TRIM_LOCK, dead.index, dead.generation);
    // Cleared, and not taken over: nobody is to be kept out by who recovers. What the dead one had committed was
    // replayed above, or before, and completed by a fence: no store that others count on waits.
    let named = u64::from(dead.index + 1) | u64::from(dead.generation) << 32;
    // PAIRS WITH: pod::instance::repair::refuse_beside_repair, pod::instance::repair::refuse_host
    let _ = REPAIRER.compare_exchange_acquire(worker.mem(), named, 0);
    Ok(())
}

/// Steps 2 to 6: finishes or undoes what a record says was begun.
pub(in crate::pod) fn finish_record<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    recovered: &mut Recovered,
) -> Result<()> {
    let (mem, record) = (worker.mem(), actor.record);
    mend_list(worker, actor)?;
    match recover_operation(worker, actor)? {
        Verdict::Finished => recovered.finished += 1,
        Verdict::Undone => recovered.undone += 1,
        Verdict::Nothing => {}
    }
    // Before reserves are given back: recovery would take an object that is in no reserve any more for one that had
    // left its reserve.
    record.write_back_operation(mem);
    mem.fence();
    record.expect_end_in_memory(mem);
    crash_point(Point::RecoverOperation);
    recover_auxiliary(worker, actor)?;
    {
        // Objects of the batch may be in blocks that are free: these keep their bytes meanwhile.
        let _pin = worker.pin()?;
        collect::finish_freeing(worker, actor)?;
    }
    if record.root().get(mem) != 0 {
        (worker.pod().hooks().finish_root)(worker, actor)?;
    }
    heap::return_reserves(worker, actor)?;
    crash_point(Point::RecoverReserve);
    Ok(())
}

/// Counts a record that may hold a list as left. Called once the record is free, as searchers ignore others. If its
/// owner dies before, a search for any other reason finds the list. The caller was its worker, or has brought it into
/// order, so its host's cache has what was left.
pub(in crate::pod) fn hint_at_orphans<M: Memory>(worker: &Worker<M>, record: WorkerRecord) {
    let mem = worker.mem();
    if record.head().get(mem) != record.tail().get(mem) {
        // NO PAIR: hint
        ORPHANS.fetch_add(mem, 1);
    }
}

/// Withdraws the announcement, and leaves what the list holds to adopters.
pub(crate) fn leave<M: Memory>(worker: &Worker<M>, actor: Actor) {
    let mem = worker.mem();
    actor.record.write_back(mem);
    actor.record.expect_in_memory(mem);
    if !mutant::is(Mutant::NeverWithdrawn) {
        // PAIRS WITH: pod::instance::advance::least
        actor.record.announced().store(mem, IDLE);
    }
}

/// Brings a list that was left between two steps into order.
fn mend_list<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    let record = actor.record;
    let (head, tail) = retire::span(worker, record)?;
    if tail.chunk == 0 {
        record.tail().set_lazily(mem, head.chunk);
    } else {
        let next = next_of(tail.chunk).get(mem);
        if next != 0 {
            worker.check("a retired list", next, CHUNK_BYTES)?;
            record.tail().set_lazily(mem, next);
        }
    }
    retire::mend_tail(worker, actor)?;
    let (head, tail) = retire::span(worker, record)?;
    let is_in_the_list = record.spare().get(mem) == tail.chunk && !mutant::is(Mutant::SpareKept);
    if is_in_the_list || retire::spare(worker, record).is_err() {
        record.spare().set_lazily(mem, 0);
    }
    // An empty list that was being taken back to the beginning of its chunk.
    if head.chunk == tail.chunk && head.index > tail.index {
        record.head().set_lazily(mem, record.tail().get(mem));
    }
    retire::write_back_ends(mem, record);
    let retiring = record.retiring().get(mem);
    if retiring & 1 != 0 {
        collect::finish_chunk(worker, actor, retiring & !1, true)?;
    }
    let (head, tail) = retire::span(worker, actor.record)?;
    if actor == worker.actor() {
        worker.reclaim.has_adopted.set(head != tail);
    }
    Ok(())
}

/// Whether an object was named but never left the reserve. A reserve of a block that is not the worker's is out of
/// date.
fn is_reserved<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<bool> {
    let Location::Slab(cell) = locate(worker, object)? else {
        return Ok(false);
    };
    let reserve = Reserve(
        actor
            .record
            .reserve(cell.class.min(CLASSES - 1))
            .get(worker.mem()),
    );
    let is_there = reserve.frame() == Some(cell.frame)
        && reserve.word() == cell.index / 4
        && reserve.mask() & 1 << (cell.index % 4) != 0;
    let is_its = || {
        let block = Block::decode(table_word(worker, cell.frame).load(worker.mem()));
        matches!(block, Block::Slab { owner, .. } if owner == actor.me)
    };
    Ok(is_there && is_its())
}

/// Has a published object leave the reserve or the list that it was taken from, if it is still there. A reserve's word
/// is complete with the next fence, which comes before the record forgets the object.
fn leave_source<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<Option<OwnedWord>> {
    let mut left = None;
    // An object that cannot be found was freed, and its block with it: the operation was long over, and its end not
    // written back.
    if object != 0
        && is_reserved(worker, actor, object).unwrap_or(false)
        && !mutant::is(Mutant::ReservedKept)
        && let Location::Slab(cell) = locate(worker, object)?
    {
        let word = actor.record.reserve(cell.class);
        let reserve = Reserve(word.get(worker.mem()));
        word.set_lazily(worker.mem(), reserve.without(cell.index).0);
        worker.mem().write_back(word.offset(), 8);
        left = Some(word);
    }
    if object != 0
        && let Some(entry) = retire::find(worker, actor, object)?
        && !mutant::is(Mutant::RecycledEntryKept)
    {
        retire::set(worker, entry, object | GONE);
    }
    Ok(left)
}

/// What recovery did with a dead worker's operation.
enum Verdict {
    /// There was none.
    Nothing,
    /// It had happened.
    Finished,
    /// It had not.
    Undone,
}

/// Finishes or undoes the dead worker's operation.
fn recover_operation<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<Verdict> {
    let mem = worker.mem();
    let record = actor.record;
    // Written back when it is over, before the reserves are given back. Until then another recoverer comes to the same
    // result.
    let set = |word: OwnedWord, value: u64| word.set_lazily(mem, value);
    let new = record.new_object().get(mem);
    let mut verdict = record.operation().get(mem);
    if verdict == operation::PUT || verdict == operation::REMOVE {
        let happened = has_happened(worker, actor, verdict, new)?;
        verdict = if happened {
            operation::COMMITTED
        } else {
            operation::ABORTED
        };
    } else if verdict == operation::NONE && allocated(worker, actor).any(|(_, object)| object != 0) {
        verdict = operation::ABORTED;
    }
    set(record.operation(), verdict);
    crash_point(Point::RecoverVerdict);
    match verdict {
        operation::NONE => {
            // A name left behind could be taken for evidence.
            set(record.old_object(), 0);
            let [first, second] = record.secondaries();
            let [third, fourth] = record.old_secondaries();
            for word in [first, second, third, fourth] {
                set(word, 0);
            }
            Ok(Verdict::Nothing)
        }
        operation::COMMITTED => {
            check_counter(worker, record.counter().get(mem))?;
            let mut left = [None; 3];
            for (left, word) in left.iter_mut().zip(new_words(actor)) {
                *left = leave_source(worker, actor, word.get(mem) & !PUBLISHED)?;
            }
            finish_with_secondaries(worker, actor, true)?;
            for word in left.into_iter().flatten() {
                mem.must_be_in_memory(word.offset(), 8);
            }
            Ok(Verdict::Finished)
        }
        operation::ABORTED => {
            for (word, object) in allocated(worker, actor) {
                let is_kept = mutant::is(Mutant::SecondaryKept) && word != record.new_object();
                if object != 0 && !is_kept && !is_reserved(worker, actor, object)? {
                    give_back(worker, actor, object)?;
                }
                set(word, 0);
            }
            set(record.old_object(), 0);
            for word in record.old_secondaries() {
                set(word, 0);
            }
            set(record.operation(), operation::NONE);
            Ok(Verdict::Undone)
        }
        _ => Err(Error::corrupt("an operation record", record.operation().offset())),
    }
}

/// Retires an object that was allocated and not published, unless it is still in the list that it was taken from.
fn give_back<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64) -> Result<()> {
    if retire::find(worker, actor, object)?.is_none() {
        return retire::retire(worker, actor, object);
    }
    // It was flushed, but the dead one may have written to it: a round that has begun is not enough.
    let [.., number] = actor.record.flush_request();
    retire::set(worker, number, 0);
    Ok(())
}

/// The words that name what a worker has allocated for its operation.
fn new_words(actor: Actor) -> [OwnedWord; 3] {
    let [first, second] = actor.record.secondaries();
    [actor.record.new_object(), first, second]
}

/// The same, with the objects that they name and no operation has published.
fn allocated<M: Memory>(worker: &Worker<M>, actor: Actor) -> impl Iterator<Item = (OwnedWord, u64)> + '_ {
    new_words(actor).into_iter().map(|word| {
        let object = word.get(worker.mem());
        (word, if object & PUBLISHED == 0 { object } else { 0 })
    })
}

fn check_counter<M: Memory>(worker: &Worker<M>, counter: u64) -> Result<()> {
    if counter == 0 || (counter & 7 == 0 && worker.check("a counter", counter, 8).is_ok()) {
        return Ok(());
    }
    Err(Error::corrupt("a counter in an operation record", counter))
}

/// Whether the compare-exchange of a dead worker happened; see `publish` for the argument.
fn has_happened<M: Memory>(worker: &Worker<M>, actor: Actor, kind: u64, new: u64) -> Result<bool> {
    let mem = worker.mem();
    let slot = actor.record.slot().get(mem);
    if slot & 7 != 0 {
        return Err(Error::corrupt("a slot in an operation record", slot));
    }
    // The slot of a structure, or the entry of one that was dropped.
    if !worker.geometry().is_entry(slot) {
        worker.check("a slot in an operation record", slot, 8)?;
    }
    let (slot, expected) = (sync_word(slot), actor.record.expected().get(mem));
    let mut found = slot.load(mem);
    if kind == operation::PUT && found == expected | SLOT_CLAIMED {
        // Only its owner could make it binding, and that is dead.
        found = match mutant::is(Mutant::DeadClaimKept) {
            true => SLOT_CLEARED,
            // NO PAIR: claim
            false => match slot.compare_exchange_acquire(mem, found, SLOT_CLEARED) {
                Ok(_) => SLOT_CLEARED,
                Err(found) => found,
            },
        };
        crash_point(Point::RecoverClaim);
    }
    // Other words than slots use these bits for themselves.
    if found == expected || found & !SLOT_MOVE_BITS == expected {
        return Ok(true);
    }
    if kind == operation::REMOVE || new == 0 || mutant::is(Mutant::EvidenceSlotAlone) {
        return Ok(false);
    }
    let others = || {
        (0..worker.pod().workers_high())
            .map(|index| WorkerRecord::new(worker.geometry(), index))
            .filter(|record| *record != actor.record)
    };
    // That a name is over may not have been written back. It is before the end of the announcement under which the name
    // was written, and the object is not reused before that.
    let seen_in_slot = others().any(|record| record.old_object().peek_speculative(mem) == new);
    if mutant::is(Mutant::EvidenceWithoutLists) || seen_in_slot {
        return Ok(seen_in_slot);
    }
    // Chunks that leave lists meanwhile stay intact while this reads.
    let _pin = worker.pin()?;
    loop {
        let taken = lists_taken(worker)?;
        let mut is_retired = false;
        for record in others() {
            retire::pending(worker, record, |object| is_retired |= object == new)?;
        }
        // A list that was moved meanwhile may have been missed.
        if is_retired || lists_taken(worker)? == taken {
            return Ok(is_retired);
        }
    }
}

fn recover_auxiliary<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    let record = actor.record;
    let object = record.aux_object().get(mem);
    if object == 0 {
        clear_auxiliary(worker, actor);
        return Ok(());
    }
    let (word, expected) = (record.aux_word().get(mem), record.aux_expected().get(mem));
    if word != 0 && (word & 6 != 0 || word >= worker.geometry().data + (worker.committed_frames()? << 16)) {
        return Err(Error::corrupt("a link in an auxiliary record", word));
    }
    if object & DRAINING != 0 {
        let line = object & !DRAINING;
        worker.check("a chain line", line, 64)?;
        let next = sync_word(line + 56).load(mem);
        return drain_auxiliary(worker, actor, sync_word(word), expected, line, next);
    }
    let published = match word {
        // An extent that is no longer pending was published, whatever its word says by now.
        _ if is_published_or_live(worker, object)? => true,
        0 => false,
        // In the record or its list, of which this host's cache has nothing old any more.
        _ if word & OWNED_LINK != 0 => owned_word(word & !OWNED_LINK).get(mem) == expected,
        // What was published in the directory may have been dropped since, and is in place until this is over.
        _ if worker.geometry().is_entry(word) && !mutant::is(Mutant::DropUnmasked) => {
            sync_word(word).load(mem) & !DROPPED == expected
        }
        _ => sync_word(word).load(mem) == expected,
    };
    if published {
        heap::mark_live(worker, object)?;
        clear_auxiliary(worker, actor);
        return Ok(());
    }
    if is_reserved(worker, actor, object)? || mutant::is(Mutant::AuxiliaryForgotten) {
        clear_auxiliary(worker, actor);
        return Ok(());
    }
    discard_auxiliary(worker, actor)
}

/// Whether an object is an extent that has been published.
fn is_published_or_live<M: Memory>(worker: &Worker<M>, object: u64) -> Result<bool> {
    Ok(match locate(worker, object)? {
        Location::Extent { state, .. } => state != ExtentState::Pending,
        Location::Slab(_) => false,
    })
}

const _: () = assert!(COMMITTED.offset() < 4096, "the redo limit covers the superblock");

#[cfg(test)]
#[path = "recovery_claim_tests.rs"]
mod claim_tests;
#[cfg(test)]
#[path = "recovery_left_tests.rs"]
mod left_tests;
#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
