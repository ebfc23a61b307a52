//! Operations that a crash cannot tear: change one slot, count it, retire what it held.
//!
//! The deciding step is one compare-exchange on a *slot*. Before it, the worker's operation record says which slot,
//! what it will hold (`expected`, unique to this attempt: it names the new object, or the remover), the new object,
//! the old one, and the counter with its value afterwards. After it, `operation = COMMITTED`, then the counting and
//! the retirement, then `NONE`.
//!
//! **What recovery knows.** The dead worker's announcement still stands, so neither object was reused and the slot's
//! memory was not. Slots keep what they held when they are frozen or moved. Hence the compare-exchange of a dead
//! `PUT` happened if and only if one of these is seen, looked for in this order:
//! 1. the slot holds `expected`, frozen or not;
//! 2. some worker's record names the new object as the old one of its own operation: it was seen in the slot;
//! 3. another worker's retired list has an entry of the new object that is not gone: it was unlinked, hence linked.
//!
//! (A worker that unlinks it names it first, enters it next, and only then forgets its name: so if 2 is not seen
//! because it is over, 3 is. The entry stays as long as the announcement stands.) A dead `REMOVE` is simpler: the
//! tombstone names the remover and this removal, and nobody changes it before the record says that it happened
//! ([`is_removal_over`]).
//!
//! **Claims** ([`publish_claimed`]). A claimed slot binds nothing: a worker that finds one in the way clears it.
//! Recovery does so before it looks for anything else; so a dead `PUT` that has only claimed has not happened, and
//! never will.
//!
//! **Secondary objects.** An operation may publish up to two further objects that only the new one refers to, and
//! unlink two further objects that only the old one referred to. They follow the verdict on the new object. Their names
//! have a line of their own. So the name of a new one is marked [`PUBLISHED`] at the end, before the record says that
//! the operation is over: it is right whichever of the two, and of the reserve without the object, reaches memory
//! first.
//!
//! Auxiliary allocations (levels, chain lines, list chunks, maps) are published by words that never change again
//! while the announcement stands: `aux_word` holds `aux_expected` or it does not.

use crate::error::{Error, Result};
use crate::memory::checked::{owned_word, word_line};
use crate::memory::{Memory, OwnedWord, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::auxiliary::{clear_auxiliary, discard_auxiliary, link_auxiliary};
use crate::pod::alloc::heap::{mark_live, mark_own_live};
use crate::pod::alloc::pending::leave_sources;
use crate::pod::format::actor::Actor;
use crate::pod::format::record::{PUBLISHED, WorkerRecord, operation};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Worker;
use crate::pod::reclaim::retire;

/// The bits of a slot that say how far its move to another level has come.
pub const SLOT_MOVE_BITS: u64 = 0b11;

/// What those bits are while a slot is claimed and its change not yet committed.
pub const SLOT_CLAIMED: u64 = 0b10;

/// What a slot holds after its claim was given up or cleared: a tombstone that names nobody.
pub const SLOT_CLEARED: u64 = 0b1000;

/// One change of one slot.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The slot.
    pub slot: SyncWord,
    /// What it must hold.
    pub current: u64,
    /// What it shall hold.
    pub next: u64,
    /// [`operation::PUT`] or [`operation::REMOVE`].
    pub operation: u64,
    /// The object that this unlinks, or 0.
    pub old: u64,
    /// The owned word that counts, and its value afterwards.
    pub count: Option<(OwnedWord, u64)>,
}

/// How an attempt to make a [`Change`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Publication {
    /// The change has been made.
    Made,
    /// The slot held this, and nothing has happened; the allocated objects are still the caller's.
    Lost(u64),
}

impl Publication {
    /// Whether the change has been made.
    #[inline]
    pub fn is_made(self) -> bool {
        self == Self::Made
    }
}

/// Makes a change. The worker is pinned, has room to retire, and has written its object back.
///
/// Cost: one compare-exchange; on incoherent memory one wait for the new objects and the record, and one for what
/// follows.
#[inline]
pub fn publish<M: Memory>(worker: &Worker<M>, change: &Change) -> Result<Publication> {
    let publication = exchange(worker, change);
    if publication.is_made() {
        finish_committed(worker, worker.actor(), false)?;
    }
    Ok(publication)
}

/// How [`publish_claimed`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claimed {
    /// The change has been made.
    Bound,
    /// The slot held something else, or somebody cleared the claim. Nothing has happened.
    Lost,
    /// It was not confirmed. Nothing has happened.
    Refused,
}

/// [`publish`] in two steps, for a slot that a further check must confirm: `change.current` is exchanged for
/// `change.next` *claimed*; then, if `confirm` says so, that for `change.next`. Any worker may clear a claim.
///
/// Cost: one compare-exchange more.
pub fn publish_claimed<M: Memory>(
    worker: &Worker<M>,
    change: &Change,
    confirm: impl FnOnce() -> Result<bool>,
) -> Result<Claimed> {
    let mem = worker.mem();
    let (slot, claim) = (change.slot, change.next | SLOT_CLAIMED);
    intend(worker, change);
    // A claim binds nothing. What it is for must be visible when it becomes binding.
    // PAIRS WITH: index::hash::claim::is_sole
    let claimed = match M::COHERENT {
        true => slot.compare_exchange_acquire(mem, change.current, claim),
        false => slot.fence_and_exchange(mem, change.current, claim),
    };
    if claimed.is_err() {
        give_up(worker);
        return Ok(Claimed::Lost);
    }
    crash_point(Point::PublishClaimed);
    let confirmed = confirm();
    // PAIRS WITH: index::hash::probe::scan, index::hash::probe::find, index::hash::probe::likely_object
    if matches!(confirmed, Ok(true)) && slot.compare_exchange(mem, claim, change.next).is_ok() {
        has_happened(worker);
        return finish_committed(worker, worker.actor(), false).map(|()| Claimed::Bound);
    }
    if !mutant::is(Mutant::ClaimLeft) {
        // NO PAIR: claim
        let _ = slot.compare_exchange_acquire(mem, claim, SLOT_CLEARED);
    }
    give_up(worker);
    confirmed.map(|is_confirmed| match is_confirmed {
        true => Claimed::Lost,
        false => Claimed::Refused,
    })
}

/// Whether the worker with mark `remover`, whose tombstone was seen in `slot`, has recorded that this removal happened.
/// Until then the tombstone is the evidence, and must stay.
pub fn is_removal_over<M: Memory>(worker: &Worker<M>, remover: u16, slot: SyncWord) -> bool {
    if remover == 0 || remover == worker.me() || mutant::is(Mutant::EvidenceReused) {
        return true;
    }
    if u32::from(remover) > worker.geometry().parameters.workers {
        return false;
    }
    let (mem, record) = (
        worker.mem(),
        WorkerRecord::new(worker.geometry(), u32::from(remover) - 1),
    );
    // In this order, as they lie in one line: if the record names another removal when its slot is read, this removal
    // was over. That it is over may not have been written back; then the tombstone stays a little longer.
    let [what, at, ..] = word_line(record.operation().offset()).peek_speculative(mem);
    // If the remover is on this host, only its cache may say so. Complete before the slot is claimed.
    mem.write_back(record.operation().offset(), 8);
    what != operation::REMOVE || at != slot.offset()
}

/// [`publish`] for an operation with secondary objects: those that the record names are published too, and those of
/// `old` that are not 0 are unlinked with the old object.
pub fn publish_with_secondaries<M: Memory>(
    worker: &Worker<M>,
    change: &Change,
    old: [u64; 2],
) -> Result<Publication> {
    let words = worker.record().old_secondaries();
    // In lines that are written back together with the operation.
    if old != [0; 2] {
        worker.await_end();
    }
    words[0].set(worker.mem(), old[0]);
    if old[1] != 0 {
        words[1].set(worker.mem(), old[1]);
    }
    match exchange(worker, change) {
        Publication::Made => {
            finish_with_secondaries(worker, worker.actor(), false).map(|()| Publication::Made)
        }
        lost @ Publication::Lost(_) => {
            // Not written back: names in a record that says nothing else are ignored, and the next record is written
            // back as a whole.
            for word in words {
                word.set_lazily(worker.mem(), 0);
            }
            Ok(lost)
        }
    }
}

/// The record, and the exchange; what follows it is the caller's.
#[inline]
fn exchange<M: Memory>(worker: &Worker<M>, change: &Change) -> Publication {
    let mem = worker.mem();
    intend(worker, change);
    let (slot, current, next) = (change.slot, change.current, change.next);
    // PAIRS WITH: pod::tasks::result::result
    // PAIRS WITH: index::ordered::find::descend_by_slow_path, index::ordered::find::load_behind, index::ordered::fast_path::fast_path_to
    // PAIRS WITH: index::hash::probe::scan, index::hash::probe::find, index::hash::probe::likely_object
    let exchanged = match M::COHERENT {
        true => slot.compare_exchange(mem, current, next),
        // The new objects' contents, the names, and what is to happen: all of it before it happens.
        false => slot.fence_and_exchange(mem, current, next),
    };
    if let Err(found) = exchanged {
        give_up(worker);
        return Publication::Lost(found);
    }
    has_happened(worker);
    Publication::Made
}

/// Fills in the record; on incoherent memory it is written back by the next fence.
#[inline]
fn intend<M: Memory>(worker: &Worker<M>, change: &Change) {
    let mem = worker.mem();
    let record = worker.record();
    record.slot().set(mem, change.slot.offset());
    record.expected().set(mem, change.next);
    record.old_object().set(mem, change.old);
    let (counter, count) = change
        .count
        .map_or((0, 0), |(word, value)| (word.offset(), value));
    record.counter().set(mem, counter);
    record.count().set(mem, count);
    record.operation().set(mem, change.operation);
    if !M::COHERENT {
        write_back_intent(worker, record);
        worker.is_end_in_flight.set(false);
    }
    crash_point(Point::PublishIntent);
}

/// Begins to write a filled-in record back. What it names has not left its source.
#[inline]
fn write_back_intent<M: Memory>(worker: &Worker<M>, record: WorkerRecord) {
    let mem = worker.mem();
    mutant::also(Mutant::TakenEarly, || leave_sources(worker));
    if !mutant::is(Mutant::RecordNotWrittenBack) {
        record.write_back_operation(mem);
    }
}

/// Records that no operation is under way, after an exchange that failed.
#[inline]
fn give_up<M: Memory>(worker: &Worker<M>) {
    let record = worker.record();
    record.operation().set(worker.mem(), operation::NONE);
    // A name kept beyond the pin would be mistaken for evidence once the object is reused.
    set_until_end(worker, record.old_object(), 0);
    worker.back_off.lost(worker.mem());
}

/// Records that the operation happened, after an exchange that succeeded.
#[inline]
fn has_happened<M: Memory>(worker: &Worker<M>) {
    crash_point(Point::PublishDone);
    if !M::COHERENT {
        leave_sources(worker);
    }
    worker.back_off.won();
    // Not written back: a recoverer finds out that the operation happened as long as its announcement stands.
    worker
        .record()
        .operation()
        .set_lazily(worker.mem(), operation::COMMITTED);
}

/// Sets a word of the record; it is written back by the next fence at the latest.
#[inline]
#[cfg_attr(feature = "mutants", track_caller)]
fn set_soon<M: Memory>(worker: &Worker<M>, word: OwnedWord, value: u64) {
    word.set_lazily(worker.mem(), value);
    if !M::COHERENT {
        worker.mem().write_back(word.offset(), 8);
    }
}

/// Sets a word of the operation's record; it is written back before the worker's announcement changes.
#[inline]
#[cfg_attr(feature = "mutants", track_caller)]
pub(crate) fn set_until_end<M: Memory>(worker: &Worker<M>, word: OwnedWord, value: u64) {
    set_soon(worker, word, value);
    if !M::COHERENT {
        worker.is_end_in_flight.set(true);
    }
}

#[inline]
#[cfg_attr(feature = "mutants", track_caller)]
fn set<M: Memory>(worker: &Worker<M>, word: OwnedWord, value: u64) {
    word.set(worker.mem(), value);
    worker.mem().persist(word.offset(), 8);
}

/// Finishes a change that happened; repeatable from any step. All of it is written back before the record says that it
/// is over; that itself is written back by the next fence, which comes before anything of the list is freed.
#[inline]
pub(in crate::pod) fn finish_committed<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    is_repeated: bool,
) -> Result<()> {
    finish(worker, actor, is_repeated, false)
}

#[inline(always)]
fn finish<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    is_repeated: bool,
    had_secondaries: bool,
) -> Result<()> {
    let mem = worker.mem();
    let record = actor.record;
    let counter = record.counter().get(mem);
    if counter != 0 {
        // The record lies in the pool: another process may have changed it since the operation began.
        if counter & 7 != 0 || worker.check("", counter, 8).is_err() {
            return Err(Error::corrupt("a counter in an operation record", counter));
        }
        let (word, count) = (owned_word(counter), record.count().get(mem));
        set_count(worker, word, count);
    }
    crash_point(Point::PublishCounted);
    let new = record.new_object().get(mem);
    if new != 0 {
        mark_own_live(worker, actor, new)?;
    }
    let old = record.old_object().get(mem);
    if old != 0 {
        retire_old(worker, actor, old, is_repeated)?;
    }
    retire::await_entries(worker);
    forget_names(mem, record, had_secondaries);
    set_until_end(worker, record.operation(), operation::NONE);
    Ok(())
}

/// Sets a counter that the record names.
#[inline]
fn set_count<M: Memory>(worker: &Worker<M>, word: OwnedWord, count: u64) {
    if mutant::is(Mutant::CountNotWrittenBack) {
        return word.set(worker.mem(), count);
    }
    set_soon(worker, word, count);
}

/// Removes the objects of an operation that is over from its record.
#[inline]
fn forget_names<M: Memory>(mem: &M, record: WorkerRecord, had_secondaries: bool) {
    if !mutant::is(Mutant::PublishedNameKept) {
        record.new_object().set_lazily(mem, 0);
    }
    record.old_object().set_lazily(mem, 0);
    if had_secondaries {
        // Only the first line is written back now: the names in the others mean nothing once the record says so.
        let words = record.secondaries().into_iter().chain(record.old_secondaries());
        for word in words.filter(|word| word.get(mem) != 0) {
            word.set_lazily(mem, 0);
        }
    }
}

/// Retires an object that the record names as unlinked; if this is repeated, unless it is in the list already.
#[inline]
fn retire_old<M: Memory>(worker: &Worker<M>, actor: Actor, object: u64, is_repeated: bool) -> Result<()> {
    match is_repeated && retire::find(worker, actor, object)?.is_some() {
        true => Ok(()),
        false => retire::retire_named(worker, actor, object),
    }
}

/// [`finish_committed`] for an operation with secondary objects.
pub(in crate::pod) fn finish_with_secondaries<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    is_repeated: bool,
) -> Result<()> {
    let record = actor.record;
    let mem = worker.mem();
    let ([one, other], [old, other_old]) = (record.secondaries(), record.old_secondaries());
    if one.get(mem) | other.get(mem) | old.get(mem) | other_old.get(mem) == 0 {
        return finish(worker, actor, is_repeated, false);
    }
    for word in record.secondaries() {
        let secondary = word.get(mem);
        if secondary != 0 && secondary & PUBLISHED == 0 {
            mark_own_live(worker, actor, secondary)?;
            set_soon(worker, word, secondary | PUBLISHED);
        }
    }
    for word in record.old_secondaries() {
        let old = word.get(mem);
        if old == 0 {
            continue;
        }
        crash_point(Point::PublishSecondary);
        retire_secondary(worker, actor, (word, old), is_repeated)?;
    }
    finish(worker, actor, is_repeated, true)
}

/// Retires the secondary object that a word of the record names as unlinked. The word names it until the operation is
/// over.
fn retire_secondary<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    (word, old): (OwnedWord, u64),
    is_repeated: bool,
) -> Result<()> {
    mutant::also(Mutant::SecondaryForgottenEarly, || set(worker, word, 0));
    if mutant::is(Mutant::SecondaryRetiredLast) {
        finish_committed(worker, actor, is_repeated)?;
    }
    retire_old(worker, actor, old, is_repeated)
}

/// What has become of an auxiliary allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Auxiliary {
    /// It is published.
    Published,
    /// Another one was published before it; this one is free.
    Freed,
}

/// Publishes the auxiliary allocation `object` by a compare-exchange of `word` from `empty` to `expected`. If another
/// was faster, the object is freed.
pub fn publish_auxiliary<M: Memory>(
    worker: &Worker<M>,
    word: SyncWord,
    empty: u64,
    expected: u64,
    object: u64,
    points: [Point; 2],
) -> Result<Auxiliary> {
    let actor = worker.actor();
    link_auxiliary(worker, actor, word.offset(), expected);
    crash_point(points[0]);
    // PAIRS WITH: pod::names::directory::read
    // PAIRS WITH: index::hash::next_level, index::hash::check_root, index::hash::probe::probe_rest, index::hash::probe::probe_chain
    if word.compare_exchange(worker.mem(), empty, expected).is_ok() {
        crash_point(points[1]);
        mark_live(worker, object)?;
        clear_auxiliary(worker, actor);
        return Ok(Auxiliary::Published);
    }
    discard_auxiliary(worker, actor)?;
    Ok(Auxiliary::Freed)
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
