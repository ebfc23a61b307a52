//! Reading and writing one replicated word: SNAPSHOT (FUSEE, section 4.3, algorithm 1).
//!
//! A write is made of parts, so that a change of the index can do its own work in the same round trips:
//! [`swap_backups`], what the change does before the word shows, [`swap_primary`]; for who has lost, [`await_end`].
//!
//! Each part is for one view. [`Interrupted`] says that a verb was refused, or that nobody knows what it did; then the
//! caller asks for a later view, under which all copies of the word are equal, and looks at it again.

use crate::mutant::{self, Mutant};
use crate::slot::rules::{Judgement, judge};
use crate::verbs::{Address, Completion, Request, Verb, Verbs};
use crate::view::{Access, NodeId, Region};

/// A verb was refused, or its effect is unknown, or the region is closed or lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// The region of it.
    pub region: u16,
}

/// How a round has gone for a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It has won: all backups hold its value.
    Won,
    /// Another has won, or will.
    Lost,
}

/// A replicated word, and who holds it in a view.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    /// Its first byte, a multiple of 8.
    pub at: Address,
    /// Its region.
    pub region: &'a Region,
}

impl Word<'_> {
    fn interrupted(&self) -> Interrupted {
        Interrupted {
            region: self.at.region(),
        }
    }

    fn request(&self, node: NodeId, verb: Verb) -> Request {
        Request {
            node,
            key: self.region.key,
            at: self.at,
            verb,
        }
    }

    fn primary(&self) -> Result<NodeId, Interrupted> {
        self.region.primary().ok_or_else(|| self.interrupted())
    }

    /// The request that reads its value.
    pub fn read(&self) -> Result<Request, Interrupted> {
        Ok(self.request(self.primary()?, Verb::Read(8)))
    }

    fn swap(&self, node: NodeId, expected: u64, new: u64) -> Request {
        self.request(node, Verb::CompareSwap { expected, new })
    }

    /// What a word was, if its verb was done.
    fn was(&self, completion: &Completion) -> Result<u64, Interrupted> {
        match completion {
            Completion::Was(word) => Ok(*word),
            Completion::Read(bytes) => word_of(bytes).ok_or_else(|| self.interrupted()),
            _ => Err(self.interrupted()),
        }
    }
}

/// The word that was read.
fn word_of(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Reads a word. Cost: one round trip.
pub async fn read(verbs: &impl Verbs, word: Word<'_>) -> Result<u64, Interrupted> {
    let completions = verbs.post(vec![word.read()?]).await;
    word.was(completions.first().unwrap_or(&Completion::Unknown))
}

/// Puts `new` in the place of `old`, which the primary held a moment ago, at all backups; or finds that another is
/// quicker.
///
/// Nobody else may ever write `new` to this word, except who wants the very same, and then both win.
///
/// Cost: one round trip; two more if writers are in each other's way.
pub async fn swap_backups(
    verbs: &impl Verbs,
    word: Word<'_>,
    old: u64,
    new: u64,
) -> Result<Verdict, Interrupted> {
    if word.region.access == Access::Closed {
        return Err(word.interrupted());
    }
    let backups = word.region.backups();
    if backups.is_empty() {
        return Ok(Verdict::Won);
    }
    let batch = backups.iter().map(|node| word.swap(*node, old, new)).collect();
    let mut held = Vec::with_capacity(backups.len());
    for completion in verbs.post(batch).await {
        let was = word.was(&completion)?;
        held.push(if was == old { new } else { was });
    }
    match judge(&held, new) {
        Judgement::All => return Ok(Verdict::Won),
        Judgement::Lost => return Ok(Verdict::Lost),
        Judgement::Majority => {}
        // A writer that has won by now has shown the primary; else nobody can win but the smallest.
        Judgement::Smallest if read(verbs, word).await? != old => return Ok(Verdict::Lost),
        Judgement::Smallest => {}
    }
    if mutant::is(Mutant::MinorityKept) {
        return Ok(Verdict::Won);
    }
    let others = backups.iter().zip(&held).filter(|(_, held)| **held != new);
    let batch = others.map(|(node, held)| word.swap(*node, *held, new)).collect();
    for completion in verbs.post(batch).await {
        word.was(&completion)?;
    }
    Ok(Verdict::Won)
}

/// Ends the round of who has won: puts `new` in the place of `old` at the primary. Without backups this decides who has
/// won.
///
/// Cost: one round trip.
pub async fn swap_primary(
    verbs: &impl Verbs,
    word: Word<'_>,
    old: u64,
    new: u64,
) -> Result<Verdict, Interrupted> {
    let swap = word.swap(word.primary()?, old, new);
    let completions = verbs.post(vec![swap]).await;
    let was = word.was(completions.first().unwrap_or(&Completion::Unknown))?;
    // Who seals what another seals finds it sealed.
    Ok(if was == old || was == new {
        Verdict::Won
    } else {
        Verdict::Lost
    })
}

/// Waits until the round that began with `old` is over. Returns what the word is then.
///
/// Cost: one round trip for each look, with growing pauses.
pub async fn await_end(verbs: &impl Verbs, word: Word<'_>, old: u64, looks: u32) -> Result<u64, Interrupted> {
    for attempt in 0..looks {
        let seen = read(verbs, word).await?;
        if seen != old {
            return Ok(seen);
        }
        verbs.pause(attempt).await;
    }
    // The winner is dead, or slow; a later view ends its round.
    Err(word.interrupted())
}
