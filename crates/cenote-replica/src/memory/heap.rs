//! A client's blocks, its free objects, and those that it has retired.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::block::Cut;
use crate::object::Identity;
use crate::verbs::Address;
use crate::view::Eras;

/// Of objects up to this size, the last free one is kept for a removal.
const KEPT_MAX: u32 = 1_024;

/// An object that is no longer in the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retired {
    /// Where it is.
    pub at: Address,
    /// The change that wrote it: if its first word names another, it has been used again.
    pub identity: Identity,
    era: u64,
}

/// What a client knows of memory. It sends no verbs itself.
#[derive(Debug, Default)]
pub struct Heap {
    /// Free objects, by size.
    free: BTreeMap<u32, Vec<Address>>,
    /// The same.
    listed: BTreeSet<Address>,
    /// Its blocks, by where they are.
    blocks: BTreeMap<Address, Cut>,
    /// In the order in which they were retired.
    retired: VecDeque<Retired>,
    /// How many of late.
    newly_retired: usize,
    /// Whether there was no free object of a size of late.
    ran_out: bool,
    /// Objects that were taken, and may not be written yet: what their memory says is of the time before.
    unwritten: BTreeSet<Address>,
    /// Objects that operations have taken which have not ended.
    busy: BTreeSet<Address>,
    /// Marks of the objects of its blocks that it knows, 0 where it knows none; by block.
    marks: BTreeMap<Address, Vec<u64>>,
    /// How many operations began in each era and have not ended.
    pinned: BTreeMap<u64, u32>,
}

impl Heap {
    /// A free object of a size; `None` if a block is needed. The last of a small size stays for a removal.
    pub fn take(&mut self, size: u32) -> Option<Address> {
        let kept = usize::from(size <= KEPT_MAX);
        let free = self.free.get_mut(&size).filter(|free| free.len() > kept);
        let Some(at) = free.and_then(Vec::pop) else {
            self.ran_out = true;
            return None;
        };
        self.listed.remove(&at);
        self.unwritten.insert(at);
        self.busy.insert(at);
        Some(at)
    }

    /// The same, of this size or any larger one, also the last: for removals.
    pub fn take_any(&mut self, size: u32) -> Option<Address> {
        let at = (self.free.range_mut(size..)).find_map(|(_, free)| free.pop())?;
        self.listed.remove(&at);
        self.unwritten.insert(at);
        self.busy.insert(at);
        Some(at)
    }

    /// An object that was taken is written, at all nodes: its memory says what it is.
    pub fn written(&mut self, at: Address) {
        self.unwritten.remove(&at);
    }

    /// The operation that took an object has ended: the index has the object, or it was retired.
    pub fn end(&mut self, at: Address) {
        self.busy.remove(&at);
    }

    /// Objects of a block of which their words say nothing: those that are free, and those of operations that go on.
    pub fn own(&self, cut: Cut) -> BTreeSet<Address> {
        let inside = cut.object(0)..=cut.object(cut.count - 1);
        let of = |all: &BTreeSet<Address>| all.range(inside.clone()).copied().collect();
        let all: [Vec<Address>; 3] = [&self.listed, &self.unwritten, &self.busy].map(of);
        all.into_iter().flatten().collect()
    }

    /// Goes on with a block that another client has cut, and in which these objects are free.
    pub fn adopt(&mut self, cut: Cut, free: Vec<Address>) {
        self.listed.extend(&free);
        self.free.entry(cut.size).or_default().extend(free);
        self.blocks.insert(cut.at, cut);
    }

    /// Cuts a new block for objects of a size; `None` if it has no room for one.
    pub fn cut(&mut self, at: Address, block: u32, size: u32) -> Option<Cut> {
        let cut = Cut::new(at, block, size)?;
        let free = self.free.entry(cut.size).or_default();
        // Those in front are taken first.
        free.extend((0..cut.count).rev().map(|n| cut.object(n)));
        self.listed.extend((0..cut.count).map(|n| cut.object(n)));
        self.blocks.insert(at, cut);
        Some(cut)
    }

    /// The mark of an object of its own is this one.
    pub fn learn_mark(&mut self, at: Address, mark: u64) {
        let Some(cut) = self.block_of(at) else {
            return;
        };
        let marks = self.marks.entry(cut.at).or_default();
        marks.resize(cut.count as usize, 0);
        let known = cut.number(at).and_then(|n| marks.get_mut(n as usize));
        known.into_iter().for_each(|known| *known = mark);
    }

    /// The marks of the first objects of a block that are known; the others are not.
    pub fn known_marks(&self, cut: Cut) -> &[u64] {
        self.marks.get(&cut.at).map_or(&[], Vec::as_slice)
    }

    /// Gives back an object that nobody has ever seen, or nobody can see any more.
    pub fn give_back(&mut self, at: Address) {
        self.unwritten.remove(&at);
        self.busy.remove(&at);
        if let Some(cut) = self.block_of(at) {
            self.free.entry(cut.size).or_default().push(at);
            self.listed.insert(at);
        }
    }

    /// Whether an object is in its list of free ones, or was taken from it and may not be written yet.
    pub fn is_free(&self, at: Address) -> bool {
        self.unwritten.contains(&at) || self.listed.contains(&at)
    }

    /// The block of its own that an object is in.
    pub fn block_of(&self, object: Address) -> Option<Cut> {
        let (_, cut) = self.blocks.range(..=object).next_back()?;
        cut.number(object).map(|_| *cut)
    }

    /// Its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Cut> {
        self.blocks.values().copied()
    }

    /// Keeps an object that was taken out of the index, until nobody can have its address any more.
    pub fn retire(&mut self, at: Address, identity: Identity, eras: Eras) {
        self.newly_retired += 1;
        self.retired.push_back(Retired {
            at,
            identity,
            era: eras.now,
        });
    }

    /// Those of the retired that are free by now, so many at most.
    pub fn reclaimable(&mut self, eras: Eras, most: usize) -> Vec<Retired> {
        let is_free = |retired: &&Retired| retired.era + 2 <= eras.least;
        let free = self.retired.iter().take(most).take_while(is_free);
        let count = free.count();
        self.retired.drain(..count).collect()
    }

    /// Whether a block was needed since this was asked last.
    pub fn ran_out(&mut self) -> bool {
        std::mem::take(&mut self.ran_out)
    }

    /// How many were retired since this was asked last.
    pub fn newly_retired(&mut self) -> usize {
        std::mem::take(&mut self.newly_retired)
    }

    /// Whether so many were retired since [`Heap::newly_retired`] was asked last.
    pub fn has_retired(&self, count: usize) -> bool {
        self.newly_retired >= count
    }

    /// How many are retired and not yet free.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    /// An operation begins. Returns its era, for [`Heap::unpin`].
    pub fn pin(&mut self, eras: Eras) -> u64 {
        *self.pinned.entry(eras.now).or_default() += 1;
        eras.now
    }

    /// An operation ends.
    pub fn unpin(&mut self, era: u64) {
        if let Some(count) = self.pinned.get_mut(&era) {
            *count -= 1;
            if *count == 0 {
                self.pinned.remove(&era);
            }
        }
    }

    /// The era of its oldest operation: what it says in its heartbeats. The present one if it has none.
    pub fn oldest(&self, eras: Eras) -> u64 {
        self.pinned.keys().next().copied().unwrap_or(eras.now)
    }
}

#[cfg(test)]
mod tests {
    use super::Heap;
    use crate::object::Identity;
    use crate::verbs::Address;
    use crate::view::Eras;

    #[test]
    fn objects_are_given_once() {
        let mut heap = Heap::default();
        assert_eq!((heap.take(128), heap.take_any(64)), (None, None));
        let cut = heap.cut(Address::new(0, 0), 4_096, 128).unwrap();
        let mut taken: Vec<Address> = std::iter::from_fn(|| heap.take(128)).collect();
        assert_eq!(taken.len() + 1, cut.count as usize, "the last is for a removal");
        taken.extend(heap.take_any(64));
        assert_eq!((taken.len(), heap.take_any(64)), (cut.count as usize, None));
        assert_eq!(taken[0], cut.object(0));
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), cut.count as usize);
        assert!(heap.is_free(taken[3]), "its memory says nothing yet");
        heap.written(taken[3]);
        assert!(!heap.is_free(taken[3]));
        heap.give_back(taken[3]);
        assert!(heap.is_free(taken[3]));
        // Not an object of any block.
        heap.give_back(Address::new(0, 3));
        assert!(heap.ran_out() && !heap.ran_out());
        assert_eq!((heap.take(128), heap.take_any(128)), (None, Some(taken[3])));
        assert!(heap.ran_out() && !heap.ran_out());
    }

    #[test]
    fn marks_are_known_of_its_own_objects() {
        let mut heap = Heap::default();
        let cut = heap.cut(Address::new(0, 0), 4_096, 128).unwrap();
        assert!(heap.known_marks(cut).is_empty());
        heap.learn_mark(cut.object(2), 7);
        heap.learn_mark(cut.object(2), 8);
        heap.learn_mark(Address::new(1, 0), 9);
        assert_eq!(heap.known_marks(cut).len(), cut.count as usize);
        assert_eq!(heap.known_marks(cut)[..4], [0, 0, 8, 0]);
    }

    #[test]
    fn what_was_retired_waits_for_all_that_began_before() {
        let mut heap = Heap::default();
        let eras = |now, least| Eras { now, least };
        let (old, new) = (heap.pin(eras(5, 5)), heap.pin(eras(6, 5)));
        assert_eq!(heap.oldest(eras(6, 5)), 5);
        heap.retire(Address::new(0, 64), Identity(1), eras(5, 5));
        heap.retire(Address::new(0, 128), Identity(2), eras(6, 5));
        heap.unpin(old);
        assert_eq!(heap.oldest(eras(7, 6)), 6);
        assert!(heap.reclaimable(eras(7, 6), 9).is_empty());
        assert_eq!(heap.reclaimable(eras(8, 7), 9).len(), 1);
        heap.unpin(new);
        assert_eq!(heap.oldest(eras(8, 7)), 8);
        assert!(heap.reclaimable(eras(9, 8), 0).is_empty());
        assert_eq!(heap.reclaimable(eras(9, 8), 9)[0].identity, Identity(2));
        assert_eq!(
            (heap.retired(), heap.newly_retired(), heap.newly_retired()),
            (0, 2, 0)
        );
    }
}
