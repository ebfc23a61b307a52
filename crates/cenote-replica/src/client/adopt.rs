//! Blocks of clients that have gone: another client finds out which of their objects are free, and goes on with them.
//!
//! The client before is over: it left in order, or its session was ended and what it had begun was decided. So an
//! object of its block that is not in the index now never will be, whichever client retired it or was about to: it is
//! retired here once more, and free when no operation is left that may have read its address. Any other client that has
//! retired it frees it as well; that is done once, as the [page](crate::client) of upkeep says. Objects in the index
//! stay, and so do the extents of their values; a client that takes one of them out marks it in the block, as always.

use std::collections::BTreeSet;

use super::join::join_all;
use super::{Client, Step, bytes_read, read};
use crate::index::layout::{Hash, Label};
use crate::memory::block::{Cut, MARK};
use crate::mutant::{self, Mutant};
use crate::object::{Extent, Identity, Record};
use crate::slot::value::Content;
use crate::verbs::{Address, Verbs};
use crate::view::{Control, View};

/// Bytes that are read at once.
const CHUNK: u32 = 1 << 20;
/// Objects that are looked for in the index at once.
const POLLS: usize = 64;

/// What was found in a block.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Never written.
    pub unused: Vec<Address>,
    pub freed: Vec<Address>,
    /// Marks of all that was looked at.
    pub marks: Vec<(Address, u64)>,
    /// In no slot, and not freed.
    pub lost: Vec<(Address, Identity)>,
}

impl<N: Verbs + Control> Client<N> {
    /// Takes over a block that the master has given to this client; whether it is one of a client that has gone. Else
    /// it is new.
    ///
    /// Cost: two round trips; then one for each MiB of it, one or two for each 64 objects that were written and not
    /// freed. Of a new block: one.
    pub async fn take_over(&self, at: Address) -> Result<bool, super::Error> {
        let found = self.under_views(async |view| self.cut_of(view, at).await).await?;
        let Some(cut) = found else {
            return Ok(false);
        };
        // Its client may have died when this had arrived at the primary alone. If that were lost, the next one who has
        // the block would find it new, and its objects free.
        if !mutant::is(Mutant::SizeBelieved) {
            self.write_size(cut).await?;
        }
        self.adopt(cut).await.map(|()| true)
    }

    async fn adopt(&self, cut: Cut) -> Result<(), super::Error> {
        let era = self.heap.borrow_mut().pin(self.net.eras());
        let found = self
            .under_views(async |view| self.findings(view, cut, &BTreeSet::new()).await)
            .await;
        let mut heap = self.heap.borrow_mut();
        heap.unpin(era);
        let found = found?;
        let eras = self.net.eras();
        heap.adopt(cut, [found.unused, found.freed].concat());
        for (at, mark) in found.marks {
            heap.learn_mark(at, mark);
        }
        let lost = found.lost.into_iter();
        for (at, identity) in lost.filter(|_| !mutant::is(Mutant::AdoptedForgotten)) {
            heap.retire(at, identity, eras);
        }
        Ok(())
    }

    /// What is in a block, but for what is the client's own: free in its list, or taken for an operation that goes on.
    pub(super) async fn findings(&self, view: &View, cut: Cut, own: &BTreeSet<Address>) -> Step<Findings> {
        let mut block = Vec::with_capacity(self.layout.block as usize);
        for begin in (0..self.layout.block).step_by(CHUNK as usize) {
            let len = CHUNK.min(self.layout.block - begin);
            let request = read(view, cut.at.plus(begin), len)?;
            let completions = self.net.post(vec![request.clone()]).await;
            block.extend_from_slice(bytes_read(&request, completions.first())?);
        }
        let mut findings = Findings::default();
        let mut used = Vec::new();
        let part = |at: Address, len: u32| {
            let begin = (at.bits() - cut.at.bits()) as usize;
            block.get(begin..begin + len as usize).unwrap_or_default()
        };
        let word_of = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        for n in 0..cut.count {
            let (at, mark) = (cut.object(n), word_of(part(cut.mark(n), MARK)));
            let is_own = own.contains(&at);
            // If what is passed over has a new mark, upkeep is to find it.
            if mark != 0 && (!is_own || mutant::is(Mutant::PassedOverLearnt)) {
                findings.marks.push((at, mark));
            }
            if is_own {
                continue;
            }
            let object = part(at, cut.size);
            match word_of(object) {
                0 => findings.unused.push(at),
                word if word == mark => findings.freed.push(at),
                word if Label::of(word).is_some() => {}
                _ if mutant::is(Mutant::ExtentsForgotten) && Extent::decode(object).is_some() => {}
                word => used.push((at, Identity(word), object)),
            }
        }
        for used in used.chunks(POLLS) {
            let looks = used
                .iter()
                .map(|(at, _, object)| self.is_shown(view, *at, object));
            for ((at, identity, _), is_shown) in used.iter().zip(join_all(looks).await) {
                if !is_shown? {
                    findings.lost.push((*at, *identity));
                }
            }
        }
        Ok(findings)
    }

    /// Whether the index has an object.
    async fn is_shown(&self, view: &View, at: Address, bytes: &[u8]) -> Step<bool> {
        if let Some(extent) = Extent::decode(bytes) {
            return self.is_extent_shown(view, &extent).await;
        }
        // One that is not whole never came so far.
        let Some(record) = Record::decode(bytes) else {
            return Ok(false);
        };
        let (candidates, _) = self.read_candidates(view, &Hash::of(record.key), &[]).await?;
        let has = |slot: crate::slot::value::Slot| match slot.unsealed().content() {
            Content::Object { at: shown, .. } => shown == at,
            _ => false,
        };
        Ok(candidates.slots.iter().any(|seen| has(seen.slot)) && !mutant::is(Mutant::AdoptedShown))
    }
}
