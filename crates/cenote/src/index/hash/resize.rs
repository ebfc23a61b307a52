//! Growing, and moving from one level to the next. All writers help; nobody waits.
//!
//! | step | by | word | if it dies |
//! |---|---|---|---|
//! | claim to prepare a level | a worker that appended too many lines | `grower` | the next such worker takes the claim over |
//! | link it | the same | `next`: 0 -> level | the level is freed, or is linked |
//! | freeze a slot | any helper | slot | any helper goes on |
//! | copy it | any helper | slot in the next level: empty -> binding | any helper finds the copy |
//! | mark it moved | any helper | slot | any helper marks it |
//! | mark a chunk done | its helper | `done` | the chunk is moved again, which changes nothing |
//! | claim to retire the old level | a helper that saw all chunks done | `retirer` | recovery goes on in its name |
//! | move the root | any helper | root: old -> new, updating | any helper goes on |
//! | move the replicas | any helper | replica: old -> new | any helper goes on |
//! | clear the root's last bit | any helper | root | any helper goes on |
//! | retire the old level | the helper that claimed it | its list | recovery goes on in its name |
//!
//! **Copied once.** A copier searches the next level, then checks whether the original is still frozen, then exchanges
//! the empty slot that it found. A key is removed from the next level only after its original is marked moved; so if
//! the original was still frozen after the search, the key had not been there and gone. If the key has arrived since,
//! it took that very empty slot, and the exchange fails.
//!
//! **What publishes.** The exchange that links a level, the one that copies a slot, and the setting of a chunk's bit in
//! `done`, before which its slots are seen as moved. All other exchanges here only acquire: they claim a step, or say
//! how far a move has come whose steps all others see by then.
//!
//! **One move at a time.** A level gets a next one only while it is the root, that is, after all of its predecessor
//! has moved to it.

use super::level::{self, CHUNK_GROUPS, GROUP_SLOTS, Level, TENTATIVE, UPDATING};
use super::probe::{CHAIN_MAX, Probe, check_line};
use super::slot::Slot;
use super::{HashMap, Root, next_level, object, share};
use crate::error::{Error, Result};
use crate::memory::checked::{owned_word, sync_word, word_line};
use crate::memory::{LINE, Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::alloc::auxiliary::drain_auxiliary;
use crate::pod::alloc::orphans::reclaim_empty_blocks;
use crate::pod::alloc::slab::{Location, locate, table_word};
use crate::pod::alloc::{growth, heap};
use crate::pod::commit::publish::{publish_auxiliary, set_until_end};
use crate::pod::format::actor::Actor;
use crate::pod::format::geometry::FRAME;
use crate::pod::format::superblock::DIRECTORY_LOCK;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::hooks::Progress;
use crate::pod::lock;
use crate::pod::reclaim::retire;
use crate::pod::reclaim::room::with_room;

/// The tag of extents that hold a level.
pub const LEVEL_TAG: u8 = 1;
/// A level grows when more than one in this many of its groups has a chain.
const GROUPS_PER_LINK: u64 = 64;
/// The part of a new level's slots, in percent, that the keys may fill.
const FILL_PERCENT: u64 = 45;
/// Up to this order, 16 MiB, levels grow at least fourfold: keys are copied less often while memory does not
/// matter.
const QUICK_ORDER_MAX: u32 = 8;
/// A level whose keys fill less of its slots than this, in percent, is too large. Far from what moves leave: a move to
/// a smaller level leaves at least 11, one to a larger level 13, as that grows fourfold, and from 54.
const SPARSE_PERCENT: u64 = 5;
/// Removers check whether a level is too large as often as [`crate::pod::instance::limits::Limits::removals`] says for
/// each of its frames, but not more seldom than for this order.
const CHECKS_ORDER_MAX: u32 = 6;
/// The largest level, as logarithm of its frames.
const ORDER_MAX: u32 = 31;

impl<M: Memory> HashMap<M> {
    /// The level to write to first. Creates the first level, and helps if the map is moving.
    #[inline(always)]
    pub(super) fn level_for_writing(&self) -> Result<Level> {
        if self.check_root() != Root::Same || self.is_moving(&self.cached_level.get()) {
            self.find_level_for_writing()?;
        }
        Ok(self.cached_level.get())
    }

    /// Whether a level moves to another, as far as the cache knows.
    #[inline(always)]
    fn is_moving(&self, level: &Level) -> bool {
        level.next().load_speculative(self.worker.mem()) != 0
    }

    /// Caches the level to write to first.
    #[cold]
    fn find_level_for_writing(&self) -> Result<()> {
        let level = match self.oldest()? {
            Some(level) => level,
            None => self.first_level()?,
        };
        if !self.is_moving(&level) {
            return Ok(());
        }
        let oldest = || {
            self.forget_cached();
            self.oldest()?
                .ok_or_else(|| Error::corrupt("a map's root", self.header))
        };
        match self.help(&oldest()?) {
            // What has no room in the next level stays where it is; the operation itself may need no room.
            Ok(()) | Err(Error::Full { .. }) => oldest().map(drop),
            Err(error) => Err(error),
        }
    }

    #[cold]
    fn first_level(&self) -> Result<Level> {
        self.link_level(self.root(), 0)?;
        self.oldest()?
            .ok_or_else(|| Error::corrupt("a map's root", self.header))
    }

    /// Allocates an empty level and links it in `word`, if nobody else has.
    fn link_level(&self, word: SyncWord, order: u32) -> Result<()> {
        let worker = &*self.worker;
        let destination = worker.record().aux_object();
        let offset = heap::allocate_for(
            worker,
            worker.actor(),
            Level::bytes(order),
            destination,
            LEVEL_TAG,
        )?;
        let level = Level::new(offset, order);
        level.format(worker.mem());
        let points = [Point::GrowLevel, Point::GrowLinked];
        // If another worker was faster, its level is the next one.
        publish_auxiliary(worker, word, 0, level.reference(), offset, points).map(|_| ())
    }

    /// Called after a line was linked: begins to grow when there are too many.
    pub(super) fn consider_growth(&self, level: &Level, links: u64) -> Result<()> {
        if links * GROUPS_PER_LINK <= level.groups {
            return Ok(());
        }
        self.begin_move(level, |keys| {
            let floor = self.floor().load(self.worker.mem()).min(u64::from(level.order));
            let order = order_for(keys).max(floor as u32);
            Some(match order > level.order {
                true => order.max((level.order + 2).min(QUICK_ORDER_MAX)),
                false => order,
            })
        })
        .map(drop)
    }

    /// Called after a key was removed, with a number that is different every time. Now and then checks whether the
    /// level is far too large, and if so begins to move to a smaller one. The removal succeeds even if this fails: the
    /// next operation that comes to the damage reports it.
    #[inline]
    pub(super) fn shrink_sometimes(&self, level: &Level, number: u64) {
        if level.order == 0 {
            return;
        }
        let every = (u64::from(self.worker.limits().removals) << level.order.min(CHECKS_ORDER_MAX)).max(1);
        // At random, so that it does not matter how many workers remove, nor which keys.
        if number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff_ffff < (1 << 32) / every {
            let _ = self.consider_shrinking(level);
        }
    }

    #[cold]
    fn consider_shrinking(&self, level: &Level) -> Result<()> {
        let floor = self.floor().load(self.worker.mem());
        if u64::from(level.order) <= floor {
            return Ok(());
        }
        let smaller = |keys: u64| {
            let slots = u128::from(level.groups * (GROUP_SLOTS + 1));
            // Room for twice the keys: so that it is not soon too small.
            let order = order_for(keys.saturating_mul(2)).max(floor as u32);
            let is_sparse = u128::from(keys) * 100 < slots * u128::from(SPARSE_PERCENT);
            (is_sparse && order < level.order).then_some(order)
        };
        let worker = &*self.worker;
        if !self.begin_move(level, smaller)? && reclaim_empty_blocks(worker, worker.actor())? > 0 {
            // The pool was full of blocks of objects, which are free by now.
            self.begin_move(level, smaller)?;
        }
        Ok(())
    }

    /// Links a level of the order that `order_for_keys` returns after `level`, if `level` is the root and nobody else
    /// does so. `false` if there was no room for it.
    fn begin_move(&self, level: &Level, order_for_keys: impl FnOnce(u64) -> Option<u32>) -> Result<bool> {
        let worker = &*self.worker;
        let mem = worker.mem();
        let is_root = self.root().load(mem) == level.reference();
        // The whole line: if the map is moving, this host's writers see it in their cache from now on.
        if !is_root || word_line(level.next().offset()).fetch(mem)[0] != 0 {
            return Ok(true);
        }
        let Some(order) = order_for_keys(self.len()) else {
            return Ok(true);
        };
        let mine = u64::from(worker.me()) | u64::from(worker.generation()) << 32;
        let grower = level.grower();
        // NO PAIR: claim
        let claim = match grower.compare_exchange_acquire(mem, 0, mine) {
            Ok(_) => true,
            Err(other) => {
                // A worker whose state is unknown still has the claim.
                // NO PAIR: claim
                matches!(lock::is_gone(worker, other), Ok(true))
                    && grower.compare_exchange_acquire(mem, other, mine).is_ok()
            }
        };
        if !claim {
            return Ok(true);
        }
        let linked = match growth::approach(worker, Level::bytes(order) / FRAME) {
            Ok(true) => self.link_level(level.next(), order),
            // The next worker that appends a line, or checks, tries again.
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        // NO PAIR: claim
        let _ = grower.compare_exchange_acquire(mem, mine, 0);
        // This host's cache still says that there is no next level.
        mem.invalidate(level.next().offset(), 8);
        match linked {
            // There is no room for another level; this one goes on working.
            Err(Error::Full { .. }) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Gives the map a level for `keys` keys from the start; removals never make it smaller. If the map has a level
    /// already, a call with fewer keys only lowers the reservation: removals may then shrink the map.
    ///
    /// Cost: the directory's lock and some round trips; if there is no level yet, its allocation and initialisation.
    pub fn reserve(&self, keys: u64) -> Result<()> {
        with_room(&self.worker, || self.attempt_to_reserve(keys))
    }

    fn attempt_to_reserve(&self, keys: u64) -> Result<()> {
        // One worker at a time: whether a failed call resets the floor must not depend on whether another has set the
        // same. Before the list is held: a worker that waits leaves its list to others.
        let _held = lock::acquire(&self.worker, DIRECTORY_LOCK)?;
        let _hold = self.worker.hold_list()?;
        retire::ensure_room(&self.worker, self.worker.actor())?;
        let _pin = self.pin()?;
        let (mem, order) = (self.worker.mem(), order_for(keys));
        let (word, floor) = (self.floor(), self.floor().load(mem));
        // NO PAIR: claim
        let set_floor = |from, to| word.compare_exchange_acquire(mem, from, to).is_ok();
        if self.oldest()?.is_none() {
            // Before the level: a worker that sees the level may check whether it is too large.
            let was_set = set_floor(floor, u64::from(order));
            let linked = self.link_level(self.root(), order);
            if linked.is_err() && was_set {
                set_floor(u64::from(order), floor);
            }
            return linked;
        }
        if u64::from(order) < floor {
            set_floor(floor, u64::from(order));
        }
        Ok(())
    }

    /// Does a share of the work of moving `level` to its next one.
    #[cold]
    pub(super) fn help(&self, level: &Level) -> Result<()> {
        let mem = self.worker.mem();
        // Set once. If the cached copy is older, this worker goes on as if the map were not moving; the caller has
        // checked no closer.
        let Some(next) = Level::decode(&self.worker, level.next().load_speculative(mem))? else {
            return Ok(());
        };
        if level.cursor().load(mem) < level.chunks() {
            // NO PAIR: count
            let chunk = level.cursor().fetch_add(mem, 1);
            if chunk < level.chunks() {
                return self.move_chunk(level, &next, chunk);
            }
        }
        if !mutant::is(Mutant::RestNotMoved) {
            self.move_rest(level, &next)?;
        }
        self.finish(level, &next)
    }

    /// Moves the rest of a level: chunks whose helpers are slow, or dead.
    fn move_rest(&self, level: &Level, next: &Level) -> Result<()> {
        let mem = self.worker.mem();
        let mut seen = (0, 0);
        for chunk in 0..level.chunks() {
            let (word, bit) = level.done(chunk);
            // One load for the chunks of a word, and one after each move, which takes long enough for others to move
            // some.
            if seen.0 != word {
                // PAIRS WITH: index::hash::resize::move_chunk
                seen = (word, sync_word(word).load(mem));
            }
            if seen.1 & bit == 0 {
                self.move_chunk(level, next, chunk)?;
                seen.0 = 0;
            }
        }
        Ok(())
    }

    fn move_chunk(&self, level: &Level, next: &Level, chunk: u64) -> Result<()> {
        let groups = chunk * CHUNK_GROUPS..((chunk + 1) * CHUNK_GROUPS).min(level.groups);
        for group in groups.clone() {
            self.prefetch_group(level, group);
        }
        self.move_groups(level, next, chunk, groups)?;
        crash_point(Point::MigrateChunk);
        let (word, bit) = level.done(chunk);
        // PAIRS WITH: index::hash::resize::move_rest
        sync_word(word).fetch_or(self.worker.mem(), bit);
        Ok(())
    }

    /// Moves the groups of a chunk, which is done after that.
    #[inline]
    fn move_groups(
        &self,
        level: &Level,
        next: &Level,
        chunk: u64,
        groups: std::ops::Range<u64>,
    ) -> Result<()> {
        mutant::also(Mutant::DoneBeforeMoved, || {
            sync_word(level.done(chunk).0).fetch_or(self.worker.mem(), level.done(chunk).1)
        });
        let mut frozen = Vec::with_capacity(32);
        for group in groups {
            self.move_group(level, next, group, &mut frozen)?;
        }
        Ok(())
    }

    /// Prefetches the objects of a group: each will be read for its key.
    fn prefetch_group(&self, level: &Level, group: u64) {
        if !M::COHERENT {
            return;
        }
        let mem = self.worker.mem();
        for line in [level.group(group), level.group(group) + LINE] {
            for word in word_line(line).fetch(mem) {
                let slot = Slot(word);
                if slot.is_binding() && self.worker.check("", slot.offset(), 16).is_ok() {
                    mem.prefetch(slot.offset());
                }
            }
        }
    }

    /// Moves the group of a hash and returns the level in which to go on.
    pub(super) fn move_on(&self, level: &Level, hash: u64) -> Result<Level> {
        let next = next_level(&self.worker, level, self.guidelines.speculate)?;
        if !mutant::is(Mutant::GroupNotHelped) {
            self.move_group(level, &next, level.group_of(hash), &mut Vec::new())?;
        }
        Ok(next)
    }

    /// Moves one group: freezes all its slots, then copies what they bind.
    fn move_group(
        &self,
        level: &Level,
        next: &Level,
        group: u64,
        frozen: &mut Vec<(SyncWord, Slot)>,
    ) -> Result<()> {
        let mem = self.worker.mem();
        let first = level.group(group);
        self.freeze_line(first, frozen);
        self.freeze_line(first + LINE, frozen);
        let mut link = level.link(group);
        let mut lines_left = CHAIN_MAX;
        while let Some(line) = Slot(link.load(mem)).as_link() {
            check_line(self, line)?;
            lines_left = one_less(lines_left, line)?;
            self.freeze_line(line, frozen);
            link = sync_word(line + LINE - 8);
        }
        for (at, slot) in frozen.drain(..) {
            crash_point(Point::MigrateFrozen);
            self.copy(next, at, slot)?;
            crash_point(Point::MigrateCopied);
            // All helpers store the same to a frozen slot.
            // PAIRS WITH: index::hash::probe::scan, index::hash::probe::find
            at.store(mem, slot.moved().0);
        }
        Ok(())
    }

    /// Freezes the slots of a line, in the order in which they fill.
    #[inline]
    fn freeze_line(&self, line: u64, frozen: &mut Vec<(SyncWord, Slot)>) {
        for (n, word) in word_line(line).fetch(self.worker.mem()).into_iter().enumerate() {
            let at = sync_word(line + 8 * n as u64);
            if let Some(slot) = self.freeze(at, Slot(word)) {
                frozen.push((at, slot));
            }
        }
    }

    /// Calls `each` for all slots of a group, its links included, in the order in which they fill.
    pub(super) fn each_slot(&self, level: &Level, group: u64, mut each: impl FnMut(SyncWord)) -> Result<()> {
        let at = level.group(group);
        for n in 0..GROUP_SLOTS {
            each(sync_word(at + 8 * n));
        }
        let mut link = level.link(group);
        let mut lines_left = CHAIN_MAX;
        loop {
            each(link);
            let Some(line) = Slot(link.load(self.worker.mem())).as_link() else {
                return Ok(());
            };
            check_line(self, line)?;
            lines_left = one_less(lines_left, line)?;
            for n in 0..7 {
                each(sync_word(line + 8 * n));
            }
            link = sync_word(line + 56);
        }
    }

    /// Freezes a slot that held `slot` when it was read: bindings become frozen, everything else but links moved, and
    /// claims are cleared by that. Returns what must be copied.
    #[inline]
    fn freeze(&self, at: SyncWord, mut slot: Slot) -> Option<Slot> {
        let mem = self.worker.mem();
        loop {
            if stays(slot) {
                return None;
            }
            if slot.is_frozen() {
                return Some(slot);
            }
            let next = match slot {
                slot if slot.is_binding() => slot.frozen(),
                slot if slot.is_claimed() && !mutant::is(Mutant::ClaimMoved) => Slot::CLEARED.moved(),
                slot => slot.moved(),
            };
            // NO PAIR: claim
            match at.compare_exchange_acquire(mem, slot.0, next.0) {
                Ok(_) => return slot.is_binding().then_some(next),
                Err(found) => slot = Slot(found),
            }
        }
    }

    /// Copies a frozen binding to the next level, unless it is there or has been there.
    #[inline]
    fn copy(&self, next: &Level, original: SyncWord, slot: Slot) -> Result<()> {
        mutant::also(Mutant::MovedBeforeCopied, || {
            original.store(self.worker.mem(), slot.moved().0)
        });
        match object::small_key(&self.worker, slot) {
            Some(key) => self.copy_key(next, original, slot, &key),
            None => self.copy_key(next, original, slot, object::key(&self.worker, slot)?),
        }
    }

    #[inline(always)]
    fn copy_key(&self, next: &Level, original: SyncWord, slot: Slot, key: &[u8]) -> Result<()> {
        let hash = self.hash(key);
        let mem = self.worker.mem();
        loop {
            let probe = self.probe(next, hash, key)?;
            let found = Slot(original.load(mem));
            if is_moved_since(slot, found) {
                return Ok(());
            }
            match probe {
                Probe::Bound(..) => return Ok(()),
                // No check for claims: nobody inserts the key here before its original is marked moved.
                Probe::Vacant(at) | Probe::VacantInChain(at) => {
                    // PAIRS WITH: index::hash::probe::scan, index::hash::probe::find
                    if at.compare_exchange(mem, 0, slot.unfrozen().0).is_ok() {
                        return Ok(());
                    }
                }
                Probe::Full(at) => match self.append_line(next, at) {
                    Err(Error::Full { .. }) => self.append_spare(next, at)?,
                    other => other?,
                },
                Probe::Moved => {
                    return Err(Error::corrupt("a level that moves before its turn", next.offset));
                }
            }
        }
    }

    /// After all groups have moved: makes `next` the root, and retires `level` if nobody has claimed to.
    fn finish(&self, level: &Level, next: &Level) -> Result<()> {
        let worker = &*self.worker;
        let mem = worker.mem();
        let record = worker.record();
        // Named before it is claimed: recovery checks whether the claim is ours.
        record.root_level().set(mem, level.reference());
        record.root().set(mem, self.header);
        mem.persist(record.root().offset(), 16);
        // NO PAIR: claim
        let claim = level
            .retirer()
            .compare_exchange_acquire(mem, 0, u64::from(worker.me()));
        let is_mine = claim.is_ok() || mutant::is(Mutant::RetirerNotClaimed);
        if is_mine {
            crash_point(Point::RootClaimed);
        }
        move_root(worker, self.header, level, next);
        if is_mine {
            crash_point(Point::RootDone);
            retire::retire(worker, worker.actor(), level.offset)?;
        }
        // Before the level can be freed, as others may free it once this operation has ended; then the record would
        // name something else.
        set_until_end(worker, record.root(), 0);
        Ok(())
    }
}

/// Whether a slot needs no freezing: it binds nothing, and nothing will be bound there.
#[inline(always)]
fn stays(slot: Slot) -> bool {
    slot.as_link().is_some() || slot.is_moved() || slot.is_empty() && mutant::is(Mutant::EmptyNotFrozen)
}

/// Whether a slot that was frozen has been moved by another helper, given what is found in it now.
#[inline(always)]
fn is_moved_since(frozen: Slot, found: Slot) -> bool {
    found != frozen && !mutant::is(Mutant::CopyUnchecked) && !mutant::is(Mutant::MovedBeforeCopied)
}

/// The replica of the root in a worker's share of a map.
fn replica_of(header: u64, worker: u64) -> SyncWord {
    sync_word(share(header, worker))
}

/// Moves the root and all its replicas from a level to the next. Any number of workers may do so, repeatedly and at the
/// same time. Once it is done, no worker that pins from then on begins with `level`.
fn move_root<M: Memory>(worker: &Worker<M>, header: u64, level: &Level, next: &Level) {
    let mem = worker.mem();
    let root = sync_word(header);
    let (old, new) = (level.reference(), next.reference());
    // The dead linker may not have marked the level live. Recovery reads that state, as the root no longer tells.
    let _ = heap::mark_live(worker, level.offset);
    // PAIRS WITH: index::hash::resize::adopt_replica
    let _ = root.compare_exchange_acquire(mem, old, new | UPDATING);
    crash_point(Point::RootMoved);
    for index in 0..u64::from(worker.geometry().parameters.workers) {
        move_replica(mem, replica_of(header, index), old, new);
    }
    // NO PAIR: claim
    let _ = root.compare_exchange_acquire(mem, new | UPDATING, new);
}

/// Moves a replica of the root that refers to the old level, confirmed or not.
#[inline]
fn move_replica<M: Memory>(mem: &M, replica: SyncWord, old: u64, new: u64) {
    if mutant::is(Mutant::ReplicasNotMoved) {
        return;
    }
    // PAIRS WITH: index::hash::resize::adopt_replica
    let mut found = replica.load(mem);
    // Its worker may confirm it, or give it up, at this moment: then it is read again.
    while found & !TENTATIVE == old {
        // PAIRS WITH: index::hash::resize::adopt_replica
        match replica.compare_exchange_acquire(mem, found, new) {
            Err(other) if !mutant::is(Mutant::ReplicasTriedOnce) => found = other,
            _ => break,
        }
    }
}

/// Gives a worker a replica of the root. It is tentative until the root is seen not to have moved meanwhile: from then
/// on, a worker that moves the root finds it. `left` is what the replica was just seen to hold. Returns the root's
/// level, to be used now.
#[cold]
pub(super) fn adopt_replica<M: Memory>(worker: &Worker<M>, header: u64, replica: SyncWord, left: u64) -> u64 {
    let mem = worker.mem();
    let root = sync_word(header);
    if left & TENTATIVE != 0 {
        // A dead worker's attempt.
        // NO PAIR: claim
        let _ = replica.compare_exchange_acquire(mem, left, 0);
    }
    let reference = root.load(mem);
    if reference == 0 || reference & UPDATING != 0 {
        return reference & !UPDATING;
    }
    // PAIRS WITH: index::hash::resize::move_root, index::hash::resize::move_replica
    if replica
        .compare_exchange_acquire(mem, 0, reference | TENTATIVE)
        .is_ok()
    {
        let is_same = mutant::is(Mutant::ReplicaNotTentative) || root.load(mem) == reference;
        let confirmed = if is_same { reference } else { 0 };
        // PAIRS WITH: index::hash::resize::move_replica
        let _ = replica.compare_exchange_acquire(mem, reference | TENTATIVE, confirmed);
    }
    reference
}

/// The order of the smallest level in which `keys` keys leave enough room.
fn order_for(keys: u64) -> u32 {
    (0..ORDER_MAX)
        .find(|&order| {
            let slots = u128::from(Level::new(0, order).groups * (GROUP_SLOTS + 1));
            slots * u128::from(FILL_PERCENT) >= u128::from(keys) * 100
        })
        .unwrap_or(ORDER_MAX)
}

/// Recovery: finishes the retirement that a dead worker had claimed, if it had.
pub fn finish_root<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let mem = worker.mem();
    let (header, reference) = (actor.record.root().get(mem), actor.record.root_level().get(mem));
    let level =
        Level::decode(worker, reference)?.ok_or_else(|| Error::corrupt("a level in a record", reference))?;
    if level.retirer().load(mem) == u64::from(actor.me) {
        let workers = u64::from(worker.geometry().parameters.workers);
        worker.check("a map's header in a record", header, share(0, workers))?;
        let next = next_level(worker, &level, false)?;
        move_root(worker, header, &level, &next);
        retire::retire_if_not(worker, actor, level.offset)?;
    }
    actor.record.root().set(mem, 0);
    mem.persist(actor.record.root().offset(), 8);
    Ok(())
}

/// Reclamation: frees chain lines of a retired level that is about to be freed, following at most so many links. The
/// next call goes on where this one has stopped. The caller holds the list that the level is in.
///
/// Cost: a sync load for each link; for each line about an exchange and four stores of a record.
pub fn drain_extent<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    offset: u64,
    links_left: &mut u64,
) -> Result<Progress> {
    let mem = worker.mem();
    let level = level::at(worker, offset)?;
    // It was read through the cache. Complete with the next fence: before the level is free, and before another worker
    // has the list.
    mem.invalidate(offset, LINE);
    if level.links().load(mem) == 0 {
        return Ok(Progress::Complete);
    }
    // PAIRS WITH: index::hash::resize::drain_extent
    for group in level.drained().load(mem)..level.groups {
        let link = level.link(group);
        let mut lines_left = CHAIN_MAX;
        loop {
            if *links_left == 0 {
                // PAIRS WITH: index::hash::resize::drain_extent
                level.drained().store(mem, chains_before(group));
                return Ok(Progress::Partial);
            }
            *links_left -= 1;
            let Some(line) = Slot(link.load(mem)).as_link() else {
                break;
            };
            worker.check("a chain line", line, LINE)?;
            lines_left = one_less(lines_left, line)?;
            let next = sync_word(line + LINE - 8).load(mem);
            match level.is_spare(line) {
                true => {
                    // PAIRS WITH: index::hash::resize::drain_extent
                    link.store(mem, next);
                    // In a damaged level its chain may lead back to it.
                    // NO PAIR: unshared
                    sync_word(line + LINE - 8).store(mem, 0);
                }
                false => drain_auxiliary(worker, actor, link, Slot::link(line).0, line, next)?,
            }
        }
    }
    // PAIRS WITH: index::hash::resize::drain_extent
    level.drained().store(mem, level.groups);
    Ok(Progress::Complete)
}

/// The chains that are freed when a group's chain is not.
fn chains_before(group: u64) -> u64 {
    group + u64::from(mutant::is(Mutant::DrainedAhead))
}

/// Calls `each` for the chain lines of the level at an offset; for none if there is no level. Leaves nothing of the
/// level in a cache: the caller may be a background thread that has dropped the level's lines before, and does not know
/// whether the level is still there.
pub fn extent_lines<M: Memory>(worker: &Worker<M>, offset: u64, each: &mut dyn FnMut(u64)) -> Result<()> {
    let mem = worker.mem();
    let is_extent = matches!(locate(worker, offset)?, Location::Extent { .. });
    let word = table_word(worker, worker.geometry().frame_of(offset)).load(mem);
    if !is_extent || (word >> 8) as u8 != LEVEL_TAG {
        return Ok(());
    }
    worker.check("a level", offset, FRAME)?;
    let level = level::read_at(worker, offset, owned_word(offset).peek_speculative(mem))?;
    for group in 0..level.groups {
        let mut link = level.link(group);
        let mut lines_left = CHAIN_MAX;
        while let Some(line) = Slot(link.load(mem)).as_link() {
            worker.check("a chain line", line, LINE)?;
            lines_left = one_less(lines_left, line)?;
            if !level.is_spare(line) {
                each(line);
            }
            link = sync_word(line + LINE - 8);
        }
    }
    Ok(())
}

/// Counts a chain's lines down: a damaged one may be a cycle.
fn one_less(lines_left: u32, line: u64) -> Result<u32> {
    lines_left
        .checked_sub(1)
        .ok_or_else(|| Error::corrupt("a chain without end", line))
}
