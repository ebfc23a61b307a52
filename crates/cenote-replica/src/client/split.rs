//! Segments that are full: each is split into two new ones. Any client may do it, and go on where another has stopped.

use std::rc::Rc;

use super::join::join_all;
use super::known::{depth_of, directory_word};
use super::offers::{Offer, Offered};
use super::{Client, Error, POLLS, Step, all_written, bytes_read, read, writes};
use crate::index::candidates::{Segment, image};
use crate::index::layout::{DEPTH_MAX, Hash, SIBLING_AT, SUCCESSOR_AT, successor_word};
use crate::mutant::{self, Mutant};
use crate::object::Record;
use crate::slot::snapshot::{Verdict, await_end, swap_backups, swap_primary};
use crate::slot::value::{Content, Slot};
use crate::verbs::{Address, GRANULE, Verbs};
use crate::view::{Control, View};

/// Requests of a batch that reads many objects.
const BATCH: usize = 256;

impl<N: Verbs + Control> Client<N> {
    /// Splits a segment, or finds that it has been split. Changes of its keys wait meanwhile; reads go on.
    ///
    /// Cost: about ten round trips, and the transfer of the segment and of the headers of its objects.
    pub(super) async fn split(&self, view: &View, segment: Segment) -> Step<()> {
        let cell = self.cell(0).await;
        let split = self
            .split_in(view, segment, self.session.cells.plus(8 * cell))
            .await;
        self.cells.borrow_mut().push(cell);
        split
    }

    async fn split_in(&self, view: &View, segment: Segment, cell: Address) -> Step<()> {
        // The master that makes copies equal after a death has to know that any of its words may differ.
        let batch = writes(view, cell, &Rc::from(cell_of(segment.at).to_le_bytes()))?;
        let completions = self.net.post(batch.clone()).await;
        all_written(&batch, &completions)?;

        // Memory first: a segment that is sealed and cannot be split would refuse even removals.
        let offer = match self.offered(view, segment).await? {
            Offered::Taken => return Ok(()),
            Offered::Open(offer) => offer,
            Offered::Nothing => self.new_offer(segment).await?,
        };
        let mut is_written = offer.is_written;
        let split = match self.seal_all(view, segment).await {
            Ok(content) => self.succeed(view, &offer, &mut is_written, &content).await,
            Err(trouble) => Err(trouble),
        };
        if split.is_err() {
            self.keep(Offer { is_written, ..offer });
        }
        split
    }

    /// Seals all slots of a segment. Returns what is in them.
    async fn seal_all(&self, view: &View, segment: Segment) -> Step<Vec<(Hash, Slot)>> {
        let slots = self.layout.segments.slots();
        let words = self.words(view, segment).await?;
        let early = words.clone();
        let seals = (0..slots)
            .zip(words)
            .map(|(n, word)| self.seal(view, segment.at.plus(self.layout.segments.slot_at(n)), word));
        for sealed in join_all(seals).await {
            sealed?;
        }
        let words = match mutant::is(Mutant::ContentReadEarly) {
            true => early,
            false => self.words(view, segment).await?,
        };
        self.content(view, &words).await
    }

    /// The slots of a segment.
    async fn words(&self, view: &View, segment: Segment) -> Step<Vec<Slot>> {
        let first = self.layout.segments.slot_at(0);
        let request = read(view, segment.at.plus(first), self.layout.segments.slots() * 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let bytes = bytes_read(&request, completions.first())?;
        let word = |bytes: &[u8]| Slot(bytes.try_into().map_or(0, u64::from_le_bytes));
        Ok(bytes.chunks_exact(8).map(word).collect())
    }

    /// Seals a slot, whatever others do to it.
    async fn seal(&self, view: &View, at: Address, mut slot: Slot) -> Step<()> {
        let word = self.word(view, at)?;
        while !slot.is_sealed() {
            if slot.content() == Content::Tentative {
                // Its client takes it back or makes it an object.
                slot = Slot(await_end(&self.net, word, slot.0, POLLS).await?);
                continue;
            }
            let (old, new) = (slot.0, slot.sealed().0);
            let is_won = swap_backups(&self.net, word, old, new).await? == Verdict::Won
                && swap_primary(&self.net, word, old, new).await? == Verdict::Won;
            slot = match is_won {
                true => slot.sealed(),
                false => Slot(await_end(&self.net, word, old, POLLS).await?),
            };
        }
        Ok(())
    }

    /// The objects of sealed slots, with the hashes of their keys.
    async fn content(&self, view: &View, slots: &[Slot]) -> Step<Vec<(Hash, Slot)>> {
        let mut objects = Vec::new();
        for slot in slots {
            if let Content::Object { at, .. } = slot.content() {
                objects.push((*slot, read(view, at, GRANULE)?));
            }
        }
        let mut content = Vec::with_capacity(objects.len());
        for objects in objects.chunks(BATCH) {
            let batch = objects.iter().map(|(_, request)| request.clone()).collect();
            let completions = self.net.post(batch).await;
            for ((slot, request), completion) in objects.iter().zip(&completions) {
                let bytes = bytes_read(request, Some(completion))?;
                let damaged = Error::Damaged {
                    what: "the hash of an object",
                    at: request.at.bits(),
                };
                content.push((Record::hash(bytes).ok_or(damaged)?, *slot));
            }
        }
        Ok(content)
    }

    /// Makes the two parts of a sealed segment, and its successor.
    async fn succeed(
        &self,
        view: &View,
        offer: &Offer,
        is_written: &mut bool,
        content: &[(Hash, Slot)],
    ) -> Step<()> {
        let is_successor = self.offer(view, offer, is_written, content).await?;
        self.end_offer(offer, is_successor);
        Ok(())
    }

    /// Offers two parts as the successor of a segment; whether they are.
    async fn offer(
        &self,
        view: &View,
        offer: &Offer,
        is_written: &mut bool,
        content: &[(Hash, Slot)],
    ) -> Step<bool> {
        let Offer {
            segment,
            labels,
            parts,
            ..
        } = *offer;
        let mut batch = Vec::new();
        for (n, label) in labels.into_iter().enumerate() {
            let damaged = Error::Damaged {
                what: "a segment with more keys than it has slots for",
                at: segment.at.bits(),
            };
            let mut image = image(self.layout.segments, label, content).ok_or(damaged)?;
            let sibling = SIBLING_AT as usize;
            image[sibling..sibling + 8].copy_from_slice(&parts[1 - n].bits().to_le_bytes());
            batch.extend(writes(view, parts[n], &image.into())?);
        }
        let completions = self.net.post(batch.clone()).await;
        all_written(&batch, &completions)?;
        *is_written = true;
        parts
            .iter()
            .for_each(|part| self.heap.borrow_mut().written(*part));

        let word = self.word(view, segment.at.plus(SUCCESSOR_AT))?;
        let mine = successor_word(parts[0]);
        let is_won = swap_backups(&self.net, word, 0, mine).await? == Verdict::Won
            && swap_primary(&self.net, word, 0, mine).await? == Verdict::Won;
        let winner = match is_won {
            true => mine,
            false => await_end(&self.net, word, 0, POLLS).await?,
        };
        if winner == mine {
            let known = |n: usize| Segment {
                at: parts[n],
                label: labels[n],
            };
            // The segment stays: it leads on a client that comes to it, by the directory or by what the client knows.
            self.enter(view, [known(0), known(1)]).await?;
        }
        Ok(winner == mine)
    }

    /// Sets the directory's entries for the two parts of a segment.
    async fn enter(&self, view: &View, parts: [Segment; 2]) -> Step<()> {
        let entries = parts.into_iter().flat_map(|part| {
            let depth = self.layout.depth;
            let bits = depth.saturating_sub(part.label.depth);
            // Deeper segments than the directory has prefixes for are found through those that it names.
            let count = if part.label.depth <= depth {
                1_u64 << bits
            } else {
                0
            };
            (0..count).map(move |n| (part.label.prefix << bits | n, part))
        });
        let entered = join_all(entries.map(|(prefix, part)| self.enter_one(view, prefix, part)));
        for entered in entered.await {
            entered?;
        }
        Ok(())
    }

    /// Has one entry of the directory name a part, unless it names one that is as deep. It may name an ancestor, if who
    /// split that has died.
    async fn enter_one(&self, view: &View, prefix: u64, part: Segment) -> Step<()> {
        let word = self.word(view, self.layout.directory.plus(8 * prefix as u32))?;
        let new = directory_word(part);
        // Entries only grow deeper.
        for _ in 0..=DEPTH_MAX {
            let request = read(view, word.at, 8)?;
            let completions = self.net.post(vec![request.clone()]).await;
            let bytes = bytes_read(&request, completions.first())?;
            let old = bytes.try_into().map_or(0, u64::from_le_bytes);
            if depth_of(old) >= part.label.depth {
                return Ok(());
            }
            let is_won = swap_backups(&self.net, word, old, new).await? == Verdict::Won
                && swap_primary(&self.net, word, old, new).await? == Verdict::Won;
            if is_won {
                return Ok(());
            }
            await_end(&self.net, word, old, POLLS).await?;
        }
        Ok(())
    }
}

/// What a cell holds while a segment is being split.
pub(crate) fn cell_of(segment: Address) -> u64 {
    1 << 63 | segment.bits()
}
