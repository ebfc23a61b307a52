//! Reusing the slots of removed keys, in a group that has no empty slot left.
//!
//! | step | word | a crash after it leaves | repaired by |
//! |---|---|---|---|
//! | claim | slot: tombstone to claimed | a claim, which binds nothing | recovery clears it; so does an inserter that finds it in the way |
//! | confirm | | the same | the same |
//! | bind | slot: claimed to binding | an insertion that happened | recovery finishes it |
//! | give up | slot: claimed to cleared | a tombstone that names nobody | needs no repair |
//!
//! **Why two steps.** The first empty slot in a key's order is the same for all inserters of the key; a removed key's
//! slot is not. So an inserter that claims a slot reads the whole group again *after* that. It binds only if the key is
//! nowhere, no slot is empty, none has moved, and it has cleared every other claim that may be of the same key. Of two
//! claims of a key, the later inserter's read sees the earlier one: as a claim, which it clears, or as a binding. A key
//! is inserted into an empty slot without a claim. In a group's two lines that slot was always empty, so no claim ever
//! bound there. A line of the chain may have been linked after a claim's read went past: so an inserter into the chain
//! reads the whole group again too, after it has seen the slot empty.
//!
//! **Nobody waits.** Claims are cleared, not helped: nobody reads what a claim refers to. A write claims once; if it
//! loses, it links a further line instead.
//!
//! **The remover's evidence.** Recovery decides a dead removal by its tombstone. So a tombstone is claimed only when
//! its remover's record says that the removal is over ([`is_removal_over`]). It has a number, so that no other removal
//! in this slot is taken for the one that was checked.
//!
//! Proofs: `docs/protocols/hash.md`.

use super::level::{LINE_SLOTS, Level, home_line};
use super::probe::{CHAIN_MAX, check_line};
use super::slot::{Slot, fingerprint};
use super::{HashMap, object};
use crate::error::{Error, Result};
use crate::memory::checked::{sync_word, word_line};
use crate::memory::{LINE, Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::commit::publish::{Change, Claimed, is_removal_over, publish_claimed};
use crate::pod::format::record::operation;

/// Where a key is to be bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// In a slot that was seen empty, the first one in the key's order.
    Empty(SyncWord),
    /// In a slot that holds this claim.
    Claimed(SyncWord, Slot),
}

impl<M: Memory> HashMap<M> {
    /// A slot of a removed key in the group of a hash that may be claimed, if the cached lines show one.
    #[cold]
    pub(super) fn reusable(&self, level: &Level, hash: u64) -> Result<Option<(SyncWord, Slot)>> {
        let (worker, mem) = (&*self.worker, self.worker.mem());
        let group = level.group(level.group_of(hash));
        let (home, other) = (home_line(hash), 1 - home_line(hash));
        let mut at = group + home * LINE;
        let mut lines = [group + other * LINE].into_iter();
        let mut link = group + LINE + 8 * (LINE_SLOTS - 1);
        for _ in 0..CHAIN_MAX {
            for n in 0..LINE_SLOTS {
                let word = sync_word(at + 8 * n);
                // Read before the remover's record. If the slot holds something else by now, the claim fails: a
                // tombstone has a number.
                let slot = Slot(word.load_speculative(mem));
                if let Some(remover) = slot.as_tombstone()
                    && is_removal_over(worker, remover, word)
                {
                    return Ok(Some((word, slot)));
                }
            }
            at = match lines.next() {
                Some(line) => line,
                None => {
                    let Some(line) = Slot(sync_word(link).load_speculative(mem)).as_link() else {
                        return Ok(None);
                    };
                    check_line(self, line)?;
                    link = line + 8 * (LINE_SLOTS - 1);
                    line
                }
            };
        }
        Err(Error::corrupt("a chain without end", link))
    }

    /// Inserts a key into a slot that holds a tombstone. Returns whether it did.
    #[cold]
    pub(super) fn insert_claimed(
        &self,
        level: &Level,
        hash: u64,
        key: &[u8],
        new: Slot,
        at: SyncWord,
        tombstone: Slot,
    ) -> Result<bool> {
        let change = Change {
            slot: at,
            current: tombstone.0,
            next: new.0,
            operation: operation::PUT,
            old: 0,
            count: Some(self.counted(1)),
        };
        let claimed = publish_claimed(&self.worker, &change, || {
            let place = Destination::Claimed(at, new.claimed());
            Ok(mutant::is(Mutant::ClaimUnconfirmed) || self.is_sole(level, hash, key, place)?)
        })?;
        Ok(claimed == Claimed::Bound)
    }

    /// Reads all slots of a key's group that an insertion at `place` can conflict with, and clears claims that may be
    /// of the same key. Returns whether the key may be bound there.
    #[cold]
    pub(super) fn is_sole(&self, level: &Level, hash: u64, key: &[u8], place: Destination) -> Result<bool> {
        if matches!(place, Destination::Empty(_)) && mutant::is(Mutant::ChainUnconfirmed) {
            return Ok(true);
        }
        let mem = self.worker.mem();
        let group = level.group(level.group_of(hash));
        let mut at = group;
        for lines in 0..CHAIN_MAX {
            // PAIRS WITH: pod::commit::publish::publish_claimed
            let line = word_line(at).fetch(mem);
            let has_link = lines > 0;
            let slots = LINE_SLOTS - u64::from(has_link);
            for (n, &word) in line.iter().enumerate().take(slots as usize) {
                let slot = sync_word(at + 8 * n as u64);
                match self.judge(slot, Slot(word), hash, key, place)? {
                    Verdict::Harmless => {}
                    Verdict::Reached => return Ok(true),
                    Verdict::InTheWay => return Ok(false),
                }
            }
            if !has_link {
                at = group + LINE;
                continue;
            }
            let link = Slot(line[LINE_SLOTS as usize - 1]);
            if link.is_empty() {
                return Ok(matches!(place, Destination::Claimed(..)));
            }
            let Some(next) = link.as_link() else {
                return Ok(false);
            };
            check_line(self, next)?;
            at = next;
        }
        Err(Error::corrupt("a chain without end", at))
    }

    /// What a slot, as it was just read, means for an insertion.
    fn judge(
        &self,
        at: SyncWord,
        mut slot: Slot,
        hash: u64,
        key: &[u8],
        place: Destination,
    ) -> Result<Verdict> {
        match place {
            Destination::Claimed(own, claim) if own == at => {
                return Ok(if slot == claim {
                    Verdict::Harmless
                } else {
                    Verdict::InTheWay
                });
            }
            Destination::Empty(own) if own == at => {
                return Ok(if slot.is_empty() {
                    Verdict::Reached
                } else {
                    Verdict::InTheWay
                });
            }
            _ => {}
        }
        loop {
            if belongs_elsewhere(slot) {
                return Ok(Verdict::InTheWay);
            }
            if slot.fingerprint() != fingerprint(hash) {
                return Ok(Verdict::Harmless);
            }
            if slot.is_binding() {
                return Ok(match object::has_key(&self.worker, slot, key)? {
                    true => Verdict::InTheWay,
                    false => Verdict::Harmless,
                });
            }
            if !slot.is_claimed() || mutant::is(Mutant::RivalsIgnored) {
                return Ok(Verdict::Harmless);
            }
            // NO PAIR: claim
            match at.compare_exchange_acquire(self.worker.mem(), slot.0, Slot::CLEARED.0) {
                Ok(_) => return Ok(Verdict::Harmless),
                Err(found) => slot = Slot(found),
            }
        }
    }
}

/// Whether a key may not be bound beside such a slot: its place is the empty one, or the next level.
#[inline(always)]
fn belongs_elsewhere(slot: Slot) -> bool {
    slot.is_moved() || slot.is_empty() && !mutant::is(Mutant::ClaimBesideEmpty)
}

/// What a slot means for an insertion elsewhere in its group.
enum Verdict {
    /// Nothing.
    Harmless,
    /// The key is to be bound here, and nothing before was in the way.
    Reached,
    /// The key may be here, or it belongs elsewhere.
    InTheWay,
}
