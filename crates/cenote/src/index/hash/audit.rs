//! Walking a map for `fsck`: everything that it refers to, and whether that is sound. While others write, what seems
//! wrong may be their writes.

use super::level::{CHUNK_GROUPS, GROUP_SLOTS, LINE_SLOTS, Level, TENTATIVE};
use super::slot::{Slot, fingerprint};
use super::{HashMap, next_level, object, share};
use crate::error::{Error, Result};
use crate::index::common::pair;
use crate::memory::checked::sync_word;
use crate::memory::{Memory, SyncWord};
use crate::pod::Worker;
use crate::pod::alloc::slab::check_fits;
use crate::pod::format::record::{WorkerRecord, operation};

/// Groups that are looked at under one pin.
const GROUPS_A_PIN: u64 = 512;
/// Walks of a map of which levels go, and levels that a map may have, at most.
const ATTEMPTS: u32 = 4;
const LEVELS_MAX: u32 = 64;

/// What a walk found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Keys bound.
    pub keys: u64,
    /// Levels.
    pub levels: u64,
    /// Chain lines.
    pub lines: u64,
    /// Slots of all levels, for the fill.
    pub slots: u64,
}

impl<M: Memory> HashMap<M> {
    /// The oldest level, if there is one; for tools.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn oldest_level(&self) -> Result<Option<Level>> {
        let _pin = self.pin()?;
        self.oldest()
    }

    /// Calls `reach` for every allocation that the map refers to (its header, levels, chain lines, objects), and
    /// `suspect` for what seems wrong.
    ///
    /// The worker is pinned for some groups at a time, so that others are not kept from reusing what they retire for as
    /// long as all of it takes. If the level is none of the map's any more when the next groups come, what was found of
    /// the map is forgotten, and the walk begins anew; the last of a few times with one pin for all.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn audit(&self, reach: impl FnMut(u64), suspect: impl FnMut(Error)) -> Result<Audit> {
        for attempt in 0..ATTEMPTS {
            let (mut reached, mut suspects) = (Vec::new(), Vec::new());
            // The pin of who only reads is none.
            let is_last = attempt + 1 == ATTEMPTS || self.worker.pod().is_reader();
            let walked = self.walk(
                is_last,
                |offset| reached.push(offset),
                |error| suspects.push(error),
            )?;
            if let Some(audit) = walked {
                reached.into_iter().for_each(reach);
                suspects.into_iter().for_each(suspect);
                return Ok(audit);
            }
        }
        // With one pin for all no level goes.
        Err(Error::corrupt(
            "a map whose levels come and go, seen",
            self.header,
        ))
    }

    /// Whether a level is one of the map's.
    fn has_level(&self, level: &Level) -> Result<bool> {
        let worker = &*self.worker;
        let mut found = Level::decode(worker, self.root().load(worker.mem()))?;
        // A damaged list may be a cycle.
        for _ in 0..LEVELS_MAX {
            match found {
                Some(other) if other.reference() == level.reference() => return Ok(true),
                Some(other) => found = Level::decode(worker, other.next().load(worker.mem()))?,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// [`HashMap::audit`], once; `None` if a level was not the map's any more.
    fn walk(
        &self,
        is_pinned_for_all: bool,
        mut reach: impl FnMut(u64),
        mut suspect: impl FnMut(Error),
    ) -> Result<Option<Audit>> {
        let worker = &*self.worker;
        let mut pin = self.pin()?;
        let mut audit = Audit::default();
        reach(self.header);
        let root = self.root().load(worker.mem());
        let mut level = Level::decode(worker, root)?;
        let mut earlier = Vec::new();
        while let Some(this) = level {
            if earlier.contains(&this.offset) {
                return Err(Error::corrupt("a list of levels without end", this.offset));
            }
            earlier.push(this.offset);
            reach(this.offset);
            check_fits(worker, "a level's size", this.offset, Level::bytes(this.order))?;
            audit.levels += 1;
            audit.slots += this.groups * (GROUP_SLOTS + 1);
            let mut spares = Vec::new();
            for group in 0..this.groups {
                if group > 0 && group.is_multiple_of(GROUPS_A_PIN) && !is_pinned_for_all {
                    drop(pin);
                    pin = self.pin()?;
                    if !self.has_level(&this)? {
                        return Ok(None);
                    }
                }
                self.audit_group(&this, group, &mut audit, &mut spares, &mut reach, &mut suspect)?;
            }
            self.audit_spares(&this, spares, &mut suspect);
            level = Level::decode(worker, this.next().load(worker.mem()))?;
        }
        self.audit_replicas(root, &mut suspect);
        drop(pin);
        Ok(Some(audit))
    }

    /// Checks that each spare line is linked at most once, and only after it was taken: else the next chain would get
    /// it as well.
    fn audit_spares(&self, level: &Level, mut spares: Vec<u64>, suspect: &mut impl FnMut(Error)) {
        let taken = level.spares_taken().load(self.worker.mem());
        spares.sort_unstable();
        let is_twice = spares.windows(2).any(|pair| pair[0] == pair[1]);
        let end = level.spare(taken);
        if is_twice || spares.last().zip(end).is_some_and(|(&last, end)| last >= end) {
            suspect(Error::corrupt(
                "a map's level with more spare lines in use than were taken, seen",
                level.spares_taken().offset(),
            ));
        }
    }

    /// Whether the chunk of a group is marked done. Then nobody moves its groups any more.
    fn is_done(&self, level: &Level, group: u64) -> bool {
        let (word, bit) = level.done(group / CHUNK_GROUPS);
        sync_word(word).load(self.worker.mem()) & bit != 0
    }

    /// Checks that no confirmed replica differs from the root, while the root stays the same and is not being moved.
    fn audit_replicas(&self, root: u64, suspect: &mut impl FnMut(Error)) {
        let mem = self.worker.mem();
        for index in 0..u64::from(self.worker.geometry().parameters.workers) {
            let replica = sync_word(share(self.header, index)).load(mem);
            let is_confirmed = replica != 0 && (replica | root) & TENTATIVE == 0;
            if is_confirmed && replica != root && self.root().load(mem) == root {
                suspect(Error::corrupt(
                    "a replica of a map's root that is not the root, seen",
                    share(self.header, index),
                ));
            }
        }
    }

    fn audit_group(
        &self,
        level: &Level,
        group: u64,
        audit: &mut Audit,
        spares: &mut Vec<u64>,
        reach: &mut impl FnMut(u64),
        suspect: &mut impl FnMut(Error),
    ) -> Result<()> {
        let worker = &*self.worker;
        let mut slots = Vec::new();
        // Written last, and so read first.
        let is_done = self.is_done(level, group);
        self.each_slot(level, group, |at: SyncWord| {
            slots.push((at, Slot(at.load(worker.mem()))))
        })?;
        if is_done
            && slots
                .iter()
                .any(|(_, slot)| slot.as_link().is_none() && !slot.is_moved())
        {
            suspect(Error::corrupt(
                "a group that is said to have moved, and has not, seen",
                level.group(group),
            ));
        }
        let has_left = |slot: &Slot| slot.is_moved() || slot.is_frozen();
        // Read after the slots: the next level was there before any of them moved.
        if slots.iter().any(|(_, slot)| has_left(slot)) && level.next().load(worker.mem()) == 0 {
            suspect(Error::corrupt(
                "a slot that has moved, of a level that does not move, seen",
                level.group(group),
            ));
        }
        for (n, (at, slot)) in (0..).zip(slots) {
            // The last slot of the group, and of each further line.
            let may_link = n >= GROUP_SLOTS && (n - GROUP_SLOTS).is_multiple_of(LINE_SLOTS);
            if slot.as_link().is_some() && (!may_link || has_left(&slot)) {
                suspect(Error::corrupt("a link in the place of a key, seen", at.offset()));
                continue;
            }
            if let Some(line) = slot.as_link() {
                audit.lines += 1;
                match level.is_spare(line) {
                    true => spares.push(line),
                    false => reach(line),
                }
            } else if slot.is_claimed() {
                if !is_being_put(worker, at) && Slot(at.load(worker.mem())) == slot {
                    suspect(Error::corrupt("a claim of a slot by nobody, seen", at.offset()));
                }
            } else if slot.is_binding() {
                match object::key_alone(worker, slot) {
                    Ok(key) => {
                        let hash = self.hash(key);
                        if level.group_of(hash) != group || slot.fingerprint() != fingerprint(hash) {
                            suspect(Error::corrupt("a key in a place of another", at.offset()));
                        }
                    }
                    Err(error) => suspect(error),
                }
                if !slot.is_small() {
                    pair::check_lengths(worker, slot.offset()).unwrap_or_else(&mut *suspect);
                }
                // While it is frozen, its copy may be in the next level: the same object and key.
                if !slot.is_frozen() || !self.is_copied(level, slot)? {
                    audit.keys += 1;
                    reach(slot.offset());
                }
            }
        }
        Ok(())
    }

    /// Whether a frozen binding has been copied already.
    fn is_copied(&self, level: &Level, slot: Slot) -> Result<bool> {
        let key = object::key_alone(&self.worker, slot)?;
        let next = next_level(&self.worker, level, false)?;
        let probe = self.probe(&next, self.hash(key), key)?;
        Ok(matches!(probe, super::probe::Probe::Bound(..)))
    }
}

/// Whether a worker's record says that it is about to put something into a slot. The record is written back before the
/// worker does so; it may say so for a while afterwards.
fn is_being_put<M: Memory>(worker: &Worker<M>, slot: SyncWord) -> bool {
    let mem = worker.mem();
    (0..worker.pod().workers_high())
        .map(|index| WorkerRecord::new(worker.geometry(), index))
        .any(|record| {
            record.operation().peek_speculative(mem) == operation::PUT
                && record.slot().peek_speculative(mem) == slot.offset()
        })
}
