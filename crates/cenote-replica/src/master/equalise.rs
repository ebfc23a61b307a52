//! Completes or undoes what was going on in regions that were closed (FUSEE, section 5.2: the master acts as the
//! representative last writer).
//!
//! All regions are closed, with new keys, which nobody else has: no verb of anybody takes effect any more, on a slot or
//! on a log. All that may differ between copies is named by in-flight cells: the words that a change's key may use, and
//! the words of a segment that is being split. Each word becomes what the first of its nodes holds. If that was the
//! primary, what had not come to the primary is undone. If it was a backup, it holds what the primary held or was about
//! to hold.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::client::known::segment_of;
use crate::client::{Error, Layout, Session, Step, all_written, bytes_read, read, region, writes};
use crate::index::candidates::{Candidates, REQUESTS, Seen, Segment, requests};
use crate::index::layout::{Hash, SIBLING_AT, SUCCESSOR_AT};
use crate::mutant::{self, Mutant};
use crate::object::{Identity, Kind, OUTCOME_AT, Outcome, Record, bytes_of};
use crate::slot::snapshot::Interrupted;
use crate::slot::value::{Content, Slot};
use crate::verbs::{Address, Completion, GRANULE, Request, Verb, Verbs};
use crate::view::View;

/// What was found and done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Changes that were going on, or were the last of their cell.
    pub changes: usize,
    /// Words whose copies differed.
    pub words: usize,
    /// Changes that were taken back as another slot had their key.
    pub twins: usize,
}

/// A change that a cell names.
struct Going {
    at: Address,
    identity: Identity,
    kind: Kind,
    key: Vec<u8>,
    hash: Hash,
    slot: Slot,
    log: Log,
}

/// What the copies of a log say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Log {
    /// The most that any of them says: a client writes to the backups first.
    pub said: Option<Outcome>,
    /// Whether all say so.
    pub is_whole: bool,
}

impl Log {
    /// Of these copies.
    pub fn of(copies: &[Option<Outcome>]) -> Self {
        let rank = |said: &Option<Outcome>| match said {
            None => 0,
            // Of an attempt before, if another copy says something else.
            Some(Outcome::Undone) => 1,
            Some(Outcome::Won { .. } | Outcome::Bound) => 2,
            Some(Outcome::Decided) => 3,
        };
        let said = copies.iter().copied().max_by_key(rank).flatten();
        Self {
            said,
            is_whole: copies.iter().all(|copy| *copy == said),
        }
    }

    /// Whether no other change of the key may be chosen in the place of this one: its slot may have been seen at the
    /// primary.
    fn stays(self) -> bool {
        self.said.is_some_and(Outcome::stays)
    }
}

/// What slots become that a removal without backups has made tentative.
type Removals = BTreeMap<Slot, Slot>;

impl Going {
    /// What its slot holds while it is going on without backups, and is to hold then, if it is a removal.
    fn removal(&self) -> Option<(Slot, Slot)> {
        (self.kind == Kind::Remove).then(|| (self.slot.tentative(), self.wants()))
    }

    /// What it wants in its slot.
    fn wants(&self) -> Slot {
        match self.kind {
            Kind::Remove => Slot::vacant(self.identity.0),
            _ => self.slot,
        }
    }
}

/// All regions, which were closed, and what is needed to make their copies equal.
pub struct Equalise<'a, V> {
    /// How the map lies.
    pub layout: Layout,
    /// The view with the regions' new keys, and the nodes that are left.
    pub view: &'a View,
    /// All sessions, also those that have ended just now.
    pub sessions: &'a [Session],
    /// The network.
    pub verbs: &'a V,
    /// Nonces that nobody else has.
    pub nonce: &'a dyn Fn() -> u64,
}

impl<V: Verbs> Equalise<'_, V> {
    /// Makes the copies equal, and writes to the objects of changes whether the index has them.
    pub async fn run(&self) -> Result<Report, Error> {
        self.steps().await.map_err(|trouble| match trouble {
            crate::client::Trouble::Failed(error) => error,
            crate::client::Trouble::Interrupted(Interrupted { region }) => Error::Lost(region),
        })
    }

    async fn steps(&self) -> Step<Report> {
        let mut report = Report::default();
        let (splits, objects) = self.cells().await?;
        let mut going = Vec::new();
        for slot in objects {
            going.extend(unless_lost(self.change(slot).await)?.flatten());
        }
        let removals: Removals = going.iter().filter_map(Going::removal).collect();
        for at in splits {
            report.words += unless_lost(self.whole_segment(at, &removals).await)?.unwrap_or(0);
        }
        report.changes = going.len();
        let mut seen = BTreeMap::new();
        for change in &going {
            report.words +=
                unless_lost(self.equal(self.entry(&change.hash), 1, &removals).await)?.unwrap_or(0);
            let Some(segment) = unless_lost(self.segment(&change.hash).await)? else {
                continue;
            };
            for at in self.layout.segments.choices(&change.hash) {
                report.words += self
                    .equal(segment.at.plus(at), crate::index::layout::SLOTS as u32, &removals)
                    .await?;
            }
            seen.insert(change.identity, segment);
        }
        for change in &going {
            let Some(segment) = seen.get(&change.identity) else {
                continue;
            };
            let slots = self.candidates(*segment, &change.hash).await?;
            let mine = slots
                .iter()
                .find(|seen| seen.slot.wanted() == change.wants())
                .copied();
            if let Some(mine) = mine
                && unless_lost(self.has_twin(change, mine, &slots).await)?.unwrap_or(false)
            {
                report.twins += 1;
                self.write_word(mine.at, Slot::vacant((self.nonce)()).0).await?;
                unless_lost(self.tell(change, Outcome::Undone).await)?;
                continue;
            }
            let held: Vec<Slot> = slots.iter().map(|seen| seen.slot).collect();
            let outcome = outcome(change.wants(), change.log.said, &held);
            unless_lost(self.tell(change, outcome).await)?;
        }
        Ok(report)
    }

    /// What the cells name: segments that are being split, and objects.
    async fn cells(&self) -> Step<(BTreeSet<Address>, BTreeSet<Slot>)> {
        let (mut splits, mut objects) = (BTreeSet::new(), BTreeSet::new());
        for session in self.sessions {
            let Some(request) = unless_lost(read(self.view, session.cells, 8 * session.count))? else {
                continue;
            };
            let completions = self.verbs.post(vec![request.clone()]).await;
            for word in words(bytes_read(&request, completions.first())?) {
                match Slot(word).content() {
                    _ if word >> 63 == 1 => splits.extend(Address::from_bits(word & !(1 << 63))),
                    Content::Object { .. } => {
                        objects.insert(Slot(word));
                    }
                    _ => {}
                }
            }
        }
        Ok((splits, objects))
    }

    /// The change that wrote an object; `None` if the object is not whole, so that its change had done nothing, or is
    /// another one by now than the cell names: a cell names its last object until it has a next one, and that object's
    /// memory may have been used again.
    async fn change(&self, slot: Slot) -> Step<Option<Going>> {
        let Content::Object { at, len, .. } = slot.content() else {
            return Ok(None);
        };
        let copies = self.copies(at, len).await?;
        let Some(bytes) = copies.first() else {
            return Ok(None);
        };
        let is_named = |record: &Record<'_>| slot_of(at, record).content() == slot.content();
        Ok(Record::decode(bytes).filter(is_named).map(|record| Going {
            at,
            identity: record.identity,
            kind: record.kind,
            key: record.key.to_vec(),
            hash: Hash::of(record.key),
            // Not the cell's: the object may be another one than the cell was written for, and that one have been
            // conditional.
            slot: slot_of(at, &record),
            log: log(&copies, record.identity),
        }))
    }

    /// The bytes of an object at all nodes of its region, which differ in its log at most, once it is whole; none if
    /// there is no object.
    async fn copies(&self, at: Address, len: Option<u32>) -> Step<Vec<Vec<u8>>> {
        let len = match len {
            Some(len) => Some(len),
            None => {
                let request = read(self.view, at, GRANULE)?;
                let completions = self.verbs.post(vec![request.clone()]).await;
                Record::bytes(bytes_read(&request, completions.first())?)
                    .filter(|len| *len < self.layout.block)
            }
        };
        match len {
            Some(len) => self.everywhere(at, len).await,
            None => Ok(Vec::new()),
        }
    }

    /// Bytes at all nodes of their region, the first of them first.
    async fn everywhere(&self, at: Address, len: u32) -> Step<Vec<Vec<u8>>> {
        let home = region(self.view, at.region())?;
        let read = |node| Request {
            node,
            key: home.key,
            at,
            verb: Verb::Read(len),
        };
        let batch: Vec<Request> = home.nodes.iter().copied().map(read).collect();
        let completions = self.verbs.post(batch.clone()).await;
        let mut copies = Vec::with_capacity(batch.len());
        for (n, request) in batch.iter().enumerate() {
            copies.push(bytes_read(request, completions.get(n))?.to_vec());
        }
        Ok(copies)
    }

    /// Where the directory's entry for a hash is.
    fn entry(&self, hash: &Hash) -> Address {
        self.layout
            .directory
            .plus(8 * hash.prefix(self.layout.depth) as u32)
    }

    /// The segment of a key.
    async fn segment(&self, hash: &Hash) -> Step<Segment> {
        let at = self.entry(hash);
        let damaged = |at: Address| Error::Damaged {
            what: "the directory, which leads nowhere",
            at: at.bits(),
        };
        let word = self.words(at, 1).await?[0];
        let mut segment = segment_of(word, hash).ok_or_else(|| damaged(at))?;
        loop {
            self.equal(segment.at.plus(SUCCESSOR_AT), 1, &Removals::new())
                .await?;
            let header = self.words(segment.at, SIBLING_AT / 8).await?;
            let Some(part) = crate::index::layout::successor(header[1]) else {
                return Ok(segment);
            };
            let sibling = self.words(part.plus(SIBLING_AT), 1).await?[0];
            let labels = segment.label.parts().ok_or_else(|| damaged(segment.at))?;
            let sibling = Address::from_bits(sibling).ok_or_else(|| damaged(part))?;
            segment = match labels[0].covers(hash) {
                true => Segment {
                    at: part,
                    label: labels[0],
                },
                false => Segment {
                    at: sibling,
                    label: labels[1],
                },
            };
        }
    }

    /// Words at the first node of their region.
    async fn words(&self, at: Address, count: u32) -> Step<Vec<u64>> {
        let request = read(self.view, at, 8 * count)?;
        let completions = self.verbs.post(vec![request.clone()]).await;
        Ok(words(bytes_read(&request, completions.first())?).collect())
    }

    /// The slots that a key may use.
    async fn candidates(&self, segment: Segment, hash: &Hash) -> Step<Vec<Seen>> {
        let home = region(self.view, segment.at.region())?;
        let node = home.primary().ok_or(Error::Lost(segment.at.region()))?;
        let batch: [Request; REQUESTS] = requests(self.layout.segments, segment, hash, node, home);
        let completions = self.verbs.post(batch.into()).await;
        Ok(Candidates::of(self.layout.segments, segment, hash, &completions)?.slots)
    }

    /// Makes the copies of words equal. Returns how many differed.
    async fn equal(&self, at: Address, count: u32, removals: &Removals) -> Step<usize> {
        let copies: Vec<Vec<u64>> = self
            .everywhere(at, 8 * count)
            .await?
            .iter()
            .map(|bytes| words(bytes).collect())
            .collect();
        let mut differing = 0;
        for n in 0..count as usize {
            let first = copies[0][n];
            // Of a region that had no backups. A removal has come to be, and a change that binds a key has not.
            let is_tentative = Slot(first).content() == Content::Tentative;
            if is_tentative || copies.iter().any(|copy| copy[n] != first) {
                differing += 1;
                let value = match removals.get(&Slot(first)) {
                    Some(removed) => removed.0,
                    None if is_tentative => Slot::vacant((self.nonce)()).0,
                    None => first,
                };
                self.write_word(at.plus(8 * n as u32), value).await?;
            }
        }
        Ok(differing)
    }

    /// Makes all words of a segment equal, and the directory's entries for it.
    async fn whole_segment(&self, at: Address, removals: &Removals) -> Step<usize> {
        // A cell names the last segment that its client split, or was about to.
        let Some(label) = crate::index::layout::Label::of(self.words(at, 1).await?[0]) else {
            return Ok(0);
        };
        let mut differing = self.equal(at.plus(SUCCESSOR_AT), 1, removals).await?;
        differing += self
            .equal(
                at.plus(self.layout.segments.slot_at(0)),
                self.layout.segments.slots(),
                removals,
            )
            .await?;
        if let Some(bits) = self.layout.depth.checked_sub(label.depth) {
            let first = self.layout.directory.plus(8 * (label.prefix << bits) as u32);
            differing += self.equal(first, 1 << bits, removals).await?;
        }
        Ok(differing)
    }

    async fn write_word(&self, at: Address, value: u64) -> Step<()> {
        let batch = writes(self.view, at, &Rc::from(value.to_le_bytes()))?;
        let completions: Vec<Completion> = self.verbs.post(batch.clone()).await;
        Ok(all_written(&batch, &completions)?)
    }

    /// Whether another slot has the key of a change that had no slot before, and came first.
    async fn has_twin(&self, change: &Going, mine: Seen, slots: &[Seen]) -> Step<bool> {
        if stays(mine.slot, change.log) || change.kind == Kind::Remove {
            return Ok(false);
        }
        for seen in slots.iter().filter(|seen| seen.at != mine.at) {
            let Content::Object { at, fingerprint, len } = seen.slot.content() else {
                continue;
            };
            if fingerprint != change.hash.fingerprint {
                continue;
            }
            let copies = self.copies(at, len).await?;
            let Some(bytes) = copies.first() else {
                continue;
            };
            let other = Record::decode(bytes).filter(|record| record.key == change.key);
            if let Some(other) = other
                && gives_way((mine, change.log), (*seen, log(&copies, other.identity)))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes to the log of a change how it has gone.
    async fn tell(&self, change: &Going, outcome: Outcome) -> Step<()> {
        let is_told = change.log.is_whole && change.log.said == Some(outcome);
        if is_told || mutant::is(Mutant::DecisionNotTold) {
            return Ok(());
        }
        let bytes = Rc::from(outcome.encode(change.identity));
        let batch = writes(self.view, change.at.plus(OUTCOME_AT), &bytes)?;
        let completions = self.verbs.post(batch.clone()).await;
        Ok(all_written(&batch, &completions)?)
    }
}

/// The slot that the change wants which wrote an object.
fn slot_of(at: Address, record: &Record<'_>) -> Slot {
    let bytes = bytes_of(record.key.len(), record.value.len()).unwrap_or(0);
    let slot = Slot::object(at, Hash::of(record.key).fingerprint, bytes);
    match record.kind {
        Kind::Replace => slot.conditional(),
        _ => slot,
    }
}

/// What the copies of an object say of the change that wrote it.
fn log(copies: &[Vec<u8>], identity: Identity) -> Log {
    let said: Vec<Option<Outcome>> = copies
        .iter()
        .map(|bytes| Outcome::decode(bytes, identity))
        .collect();
    Log::of(&said)
}

/// Nothing if what it concerns is in a region without nodes: nobody can read it any more.
fn unless_lost<T>(step: Step<T>) -> Step<Option<T>> {
    match step {
        Ok(done) => Ok(Some(done)),
        Err(crate::client::Trouble::Failed(Error::Lost(_))) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// Whether no other slot may be chosen in the place of one. A change of a slot that had the key is nobody's twin,
/// though its log may be empty still: an insert that did not see the key comes after it. Nor is one whose slot was
/// sealed: who did that saw it at the primary.
fn stays(slot: Slot, log: Log) -> bool {
    log.stays() || slot.is_replacing() || slot.is_sealed()
}

/// Whether one slot gives way to another one that has the same key, by what the logs of their changes say.
pub fn gives_way((mine, log): (Seen, Log), (other, of_other): (Seen, Log)) -> bool {
    !stays(mine.slot, log) && (stays(other.slot, of_other) || other.at < mine.at)
}

/// How a change has gone: by the slot that it `wants`, by what its log says, and by what the slots of its key hold, now
/// that their copies are equal.
pub fn outcome(wants: Slot, said: Option<Outcome>, slots: &[Slot]) -> Outcome {
    let has = |slot: Slot| slots.iter().any(|seen| seen.wanted() == slot.wanted());
    let is_shown = match said {
        Some(Outcome::Decided) => true,
        _ if has(wants) => true,
        // It has won, and what it came in the place of is gone: it was shown, and another has come since.
        Some(Outcome::Won { old, .. }) => !has(Slot(old)),
        // Who takes the object of such a change out of its slot writes *decided* first.
        _ => false,
    };
    if is_shown {
        Outcome::Decided
    } else {
        Outcome::Undone
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .chunks_exact(8)
        .map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes))
}
