//! Two clients that insert one key at once, in different slots.
//!
//! Each shows its value where the other looks: at the first backup, or without backups at the primary, as tentative.
//! Each shows it before it looks. So at least one sees the other. Who sees a twin that is bound, or in a smaller slot,
//! gives up; who sees one in a greater slot waits: that one has seen it and gives up, or has not and is bound.

use super::{Client, POLLS, Step, bytes_read, read, region};
use crate::index::candidates::{Candidates, REQUESTS, Segment, requests};
use crate::mutant::{self, Mutant};
use crate::object::Record;
use crate::slot::snapshot::{Interrupted, Verdict, Word, swap_primary};
use crate::slot::value::{Content, Slot};
use crate::verbs::{Address, Completion, GRANULE, Request, Verb, Verbs};
use crate::view::{Control, View};

use super::pending::Pending;

impl<N: Verbs + Control> Client<N> {
    /// Whether a change has to give up the slot that it has won, as another slot has the key.
    ///
    /// Cost: one round trip; another for each fingerprint that is alike, and more while another client inserts the same
    /// key.
    pub(super) async fn is_twin(
        &self,
        view: &View,
        pending: &Pending<'_>,
        segment: Segment,
        mine: Address,
    ) -> Step<bool> {
        let home = region(view, segment.at.region())?;
        let interrupted = Interrupted {
            region: segment.at.region(),
        };
        let primary = home.primary().ok_or(interrupted)?;
        if mutant::is(Mutant::TwinsIgnored) {
            return Ok(false);
        }
        let shown = home.backups().first().copied().unwrap_or(primary);
        for attempt in 0..POLLS {
            let requests = |node| requests(self.layout.segments, segment, &pending.hash, node, home);
            let mut batch = Vec::from(requests(shown));
            if shown != primary {
                batch.extend(requests(primary));
            }
            let completions = self.net.post(batch).await;
            let (there, bound) = completions.split_at(REQUESTS.min(completions.len()));
            let of = |completions: &[Completion]| {
                Candidates::of(self.layout.segments, segment, &pending.hash, completions)
            };
            let there = of(there)?;
            let bound = if shown == primary {
                there.clone()
            } else {
                of(bound)?
            };
            let mut twins = Vec::new();
            for seen in there.slots.iter().filter(|seen| seen.at != mine) {
                if self.has_key(view, seen.slot, pending).await? {
                    twins.push(seen.at);
                }
            }
            let is_bound = |at: &Address| {
                let slot = bound
                    .slots
                    .iter()
                    .find(|seen| seen.at == *at)
                    .map(|seen| seen.slot.content());
                matches!(slot, Some(Content::Object { .. }))
            };
            let passes = !mutant::is(Mutant::RemovalPassed)
                && is_passing(&there, &bound, mine, pending.hash.fingerprint);
            if twins.is_empty() && !passes {
                return Ok(false);
            }
            let comes_first = |at: &Address| *at < mine && !mutant::is(Mutant::TwinsBothStay);
            if twins.iter().any(|at| comes_first(at) || is_bound(at)) {
                return Ok(true);
            }
            if mutant::is(Mutant::TwinsBothStay) {
                return Ok(false);
            }
            self.net.pause(attempt).await;
        }
        Err(interrupted.into())
    }

    /// Whether a slot has, or is to have, an object with the key of a change.
    async fn has_key(&self, view: &View, slot: Slot, pending: &Pending<'_>) -> Step<bool> {
        let Content::Object { at, fingerprint, len } = slot.confirmed().content() else {
            return Ok(false);
        };
        if fingerprint != pending.hash.fingerprint {
            return Ok(false);
        }
        let request = read(view, at, len.unwrap_or(GRANULE))?;
        let completions = self.net.post(vec![request.clone()]).await;
        let bytes = bytes_read(&request, completions.first())?;
        let long;
        let bytes = match len {
            Some(_) => bytes,
            None => {
                long = self.long(view, at, bytes).await?;
                &long
            }
        };
        Ok(Record::decode(bytes).is_some_and(|record| record.key == pending.key))
    }

    /// Ends the round of a slot that a change has won with a vacant value in the place of its own. `before` is what the
    /// primary holds.
    pub(super) async fn give_up(&self, word: Word<'_>, before: u64, mine: Slot) -> Step<()> {
        let vacant = Slot::vacant(self.identity()?.0);
        let interrupted = Interrupted {
            region: word.at.region(),
        };
        let swap = |node| Request {
            node,
            key: word.region.key,
            at: word.at,
            verb: Verb::CompareSwap {
                expected: mine.0,
                new: vacant.0,
            },
        };
        let backups: Vec<Request> = word.region.backups().iter().copied().map(swap).collect();
        if !backups.is_empty() {
            let completions = self.net.post(backups).await;
            if !completions
                .iter()
                .all(|completion| matches!(completion, Completion::Was(_)))
            {
                return Err(interrupted.into());
            }
        }
        match swap_primary(&self.net, word, before, vacant.0).await? {
            Verdict::Won => Ok(()),
            Verdict::Lost => Err(interrupted.into()),
        }
    }
}

/// Whether another slot is being emptied that may have the key: it is vacant at the backup, and not yet at the primary.
fn is_passing(there: &Candidates, bound: &Candidates, mine: Address, fingerprint: u8) -> bool {
    there.slots.iter().zip(&bound.slots).any(|(backup, primary)| {
        let is_other = match primary.slot.content() {
            Content::Object { fingerprint: of, .. } => of != fingerprint,
            _ => primary.slot.unsealed() == backup.slot.unsealed(),
        };
        backup.at != mine && backup.slot.is_vacant() && !is_other
    })
}
