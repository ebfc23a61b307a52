//! What a client does in the background: it frees what it has retired, and finds what others have freed in its blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use super::{Client, Error, Step, all_written, bytes_read, read, writes};
use crate::memory::block::{Cut, MARK};
use crate::memory::heap::Retired;
use crate::mutant::{self, Mutant};
use crate::verbs::{Address, Verbs};
use crate::view::{Control, View};

/// Objects that are freed, and parts of blocks whose marks are read, in one round trip.
const BATCH: usize = 128;

/// Marks that are read in one round trip: a MiB of them.
const MARKS: u32 = 1 << 17;

/// Objects whose words are read in one round trip: far fewer than a way over libfabric may have open.
const WORDS: usize = 1_024;

/// Objects that are freed at least by who goes on.
const LEAST: usize = 32;

/// Some of the objects of a block.
type Part = (Cut, Range<u32>);

/// A block, and which of its objects have which marks.
type Marked = (Cut, Vec<(u32, u64)>);

impl<N: Verbs + Control> Client<N> {
    /// Frees what was retired long enough ago, and takes back what was freed in this client's blocks. Returns how many
    /// objects it took back.
    ///
    /// One upkeep at a time. When sessions have ended, it looks for objects that their clients were to free.
    ///
    /// Cost: one round trip if a key was bound since the last change; one for each split of its own that was
    /// interrupted; two for each 128 objects that are freed; one for each 128 blocks, or 131,072 objects of blocks, and
    /// one for each block in which others have freed something; after a session has ended, the transfer of the client's
    /// blocks, and a round trip or two for each 64 objects in them.
    pub async fn upkeep(&self) -> Result<usize, Error> {
        self.keep_up(usize::MAX, true).await
    }

    /// The same for a client that goes on: of what was retired long enough ago it frees no more than half as many again
    /// as were retired since the last upkeep, or 32, or an eighth of them all if it ran out of free objects; and it
    /// reads the marks of its blocks only if it ran out of free objects of some size.
    ///
    /// What an era has left becomes free at once: if all clients freed it then, memory nodes would do little else for
    /// as long as that takes.
    ///
    /// Cost: that of [`Client::upkeep`], for fewer objects.
    pub async fn upkeep_in_part(&self) -> Result<usize, Error> {
        let (newly, ran_out, backlog) = {
            let mut heap = self.heap.borrow_mut();
            (heap.newly_retired(), heap.ran_out(), heap.retired())
        };
        let most = (newly + newly / 2).max(LEAST);
        // A backlog goes although nothing is added to it: else blocks are asked for while it lies there.
        let most = if ran_out { most.max(backlog / 8) } else { most };
        self.keep_up(most, ran_out).await
    }

    async fn keep_up(&self, most: usize, takes_back: bool) -> Result<usize, Error> {
        self.write_late().await?;
        self.end_offers().await?;
        let reclaimable = self.heap.borrow_mut().reclaimable(self.net.eras(), most);
        let mut taken = 0;
        for some in reclaimable.chunks(BATCH) {
            // While marks are on their way, what they are of may be used again, but not freed again.
            let era = self.heap.borrow_mut().pin(self.net.eras());
            if mutant::is(Mutant::FreedUnpinned) {
                self.heap.borrow_mut().unpin(era);
            }
            let freed = self.under_views(async |view| self.free(view, some).await).await;
            if !mutant::is(Mutant::FreedUnpinned) {
                self.heap.borrow_mut().unpin(era);
            }
            taken += freed?;
        }
        if takes_back {
            taken += self.take_back_all().await?;
        }
        Ok(taken + self.sweep().await?)
    }

    /// Takes back what others have freed in this client's blocks.
    async fn take_back_all(&self) -> Result<usize, Error> {
        let mut taken = 0;
        let blocks: Vec<Cut> = self.heap.borrow().blocks().collect();
        for parts in at_once(&blocks) {
            let marked = self
                .under_views(async |view| self.marked(view, &parts).await)
                .await?;
            for (cut, marks) in marked {
                for marks in marks.chunks(WORDS) {
                    let taken_back = self
                        .under_views(async |view| self.take_back(view, cut, marks).await)
                        .await;
                    taken += unless_lost(taken_back)?;
                }
            }
        }
        Ok(taken)
    }

    /// Frees objects, unless they have been used again: marks them in their blocks, by which the blocks' owners find
    /// them. Returns how many were this client's own: it takes those back. What is in regions that are lost stays so.
    async fn free(&self, view: &View, retired: &[Retired]) -> Step<usize> {
        // One that is free already was retired twice, and may be taken and written before its word is known. One in a
        // block that is taken over meanwhile was found to be free there.
        let (was_free, was_own): (BTreeSet<Address>, BTreeSet<Address>) = {
            let heap = self.heap.borrow();
            let all = || retired.iter().map(|object| object.at);
            let is_free = |at: &Address| heap.is_free(*at) && !mutant::is(Mutant::FreedTwice);
            let is_own = |at: &Address| heap.block_of(*at).is_some();
            (all().filter(is_free).collect(), all().filter(is_own).collect())
        };
        let (freed, cuts) = self.still_retired(view, retired).await?;
        let mut batch = Vec::new();
        for object in &freed {
            let cut = cuts.get(&object.at.block(self.layout.block));
            if let Some((cut, n)) = cut.and_then(|cut| Some((cut, cut.number(object.at)?))) {
                let mark = object.identity.0.to_le_bytes();
                batch.extend(writes(view, cut.mark(n), &Rc::from(mark))?);
            }
        }
        let completions = self.net.post(batch.clone()).await;
        all_written(&batch, &completions)?;
        let mut heap = self.heap.borrow_mut();
        let mut taken = 0;
        for object in freed {
            let is_own = was_own.contains(&object.at)
                || mutant::is(Mutant::AdoptedFreed) && heap.block_of(object.at).is_some();
            if is_own {
                heap.learn_mark(object.at, object.identity.0);
            }
            if is_own && !was_free.contains(&object.at) && !heap.is_free(object.at) {
                heap.give_back(object.at);
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Those objects that have not been used again, and how their blocks are cut.
    async fn still_retired(
        &self,
        view: &View,
        retired: &[Retired],
    ) -> Step<(Vec<Retired>, BTreeMap<Address, Cut>)> {
        let (mut batch, mut of) = (Vec::new(), Vec::new());
        for object in retired {
            if let Ok(request) = read(view, object.at, 8) {
                batch.push(request);
                of.push(*object);
            }
        }
        let blocks: BTreeSet<Address> = of
            .iter()
            .map(|object| object.at.block(self.layout.block))
            .collect();
        for block in &blocks {
            batch.push(read(view, *block, 8)?);
        }
        let completions = self.net.post(batch.clone()).await;
        let mut words = Vec::with_capacity(batch.len());
        for (n, request) in batch.iter().enumerate() {
            let bytes = bytes_read(request, completions.get(n))?;
            words.push(bytes.try_into().map_or(0, u64::from_le_bytes));
        }
        let (objects, sizes) = words.split_at(of.len());
        let is_it = |(object, word): &(&Retired, &u64)| object.identity.0 == **word;
        let still = of.iter().zip(objects).filter(is_it).map(|(object, _)| *object);
        let cut_of = |(block, size): (&Address, &u64)| {
            let size = u32::try_from(*size).ok()?;
            Some((*block, Cut::new(*block, self.layout.block, size)?))
        };
        Ok((
            still.collect(),
            blocks.iter().zip(sizes).filter_map(cut_of).collect(),
        ))
    }

    /// Which objects of parts of blocks have a mark that this client does not know.
    async fn marked(&self, view: &View, parts: &[Part]) -> Step<Vec<Marked>> {
        let (mut batch, mut of) = (Vec::new(), Vec::new());
        for (cut, numbers) in parts {
            // What is in a region that is lost stays so.
            if let Ok(request) = read(view, cut.mark(numbers.start), numbers.len() as u32 * MARK) {
                batch.push(request);
                of.push((*cut, numbers.clone()));
            }
        }
        let completions = self.net.post(batch.clone()).await;
        let mut marked = Vec::new();
        let heap = self.heap.borrow();
        for (n, ((cut, numbers), request)) in of.into_iter().zip(&batch).enumerate() {
            let marks = bytes_read(request, completions.get(n))?.chunks_exact(MARK as usize);
            let words = marks.map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
            let known = heap.known_marks(cut);
            let is_new = |(n, mark): &(u32, u64)| {
                let known = known.get(*n as usize).copied().unwrap_or(0);
                *mark != 0 && *mark != known
            };
            let new: Vec<(u32, u64)> = numbers.zip(words).filter(is_new).collect();
            if !new.is_empty() {
                marked.push((cut, new));
            }
        }
        Ok(marked)
    }

    /// Takes back what is free by marks in a block. Other marks are of a time before: they have come late, or twice.
    async fn take_back(&self, view: &View, cut: Cut, marks: &[(u32, u64)]) -> Step<usize> {
        // One that is free already was marked twice, and may be taken before its word is read.
        let was_free: Vec<bool> = marks
            .iter()
            .map(|(n, _)| self.heap.borrow().is_free(cut.object(*n)))
            .collect();
        let mut batch = Vec::new();
        for (n, _) in marks {
            batch.push(read(view, cut.object(*n), 8)?);
        }
        let completions = self.net.post(batch.clone()).await;
        let mut words = Vec::with_capacity(batch.len());
        for (request, completion) in batch.iter().zip(&completions) {
            let bytes = bytes_read(request, Some(completion))?;
            words.push(bytes.try_into().map_or(0, u64::from_le_bytes));
        }
        let mut heap = self.heap.borrow_mut();
        let mut taken = 0;
        for (((n, mark), word), was_free) in marks.iter().zip(words).zip(was_free) {
            let at = cut.object(*n);
            heap.learn_mark(at, *mark);
            let is_freed = *mark == word || mutant::is(Mutant::TakenBackUnfreed);
            if is_freed && !was_free && !heap.is_free(at) {
                heap.give_back(at);
                taken += 1;
            }
        }
        Ok(taken)
    }
}

/// Parts of blocks whose marks are read at once, one round trip after the other.
fn at_once(blocks: &[Cut]) -> Vec<Vec<Part>> {
    let mut trips = Vec::new();
    let (mut trip, mut left) = (Vec::new(), MARKS);
    for cut in blocks {
        let mut from = 0;
        while from < cut.count {
            if left == 0 || trip.len() == BATCH {
                trips.push(std::mem::take(&mut trip));
                left = MARKS;
            }
            let to = cut.count.min(from + left);
            trip.push((*cut, from..to));
            left -= to - from;
            from = to;
        }
    }
    trips.push(trip);
    trips
}

/// What is in a region that is lost stays so, and keeps nothing else.
pub(super) fn unless_lost<T: Default>(done: Result<T, Error>) -> Result<T, Error> {
    match done {
        Err(Error::Lost(_)) => Ok(T::default()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, MARKS, at_once};
    use crate::memory::block::Cut;
    use crate::verbs::Address;

    /// More would be no frame of a network.
    #[test]
    fn marks_of_large_blocks_are_read_in_parts() {
        for (block, size, count) in [
            (4_096, 64, 300),
            (1 << 18, 64, 200),
            (64 << 20, 64, 3),
            (64 << 20, 4_096, 140),
        ] {
            let at = |n: u32| Address::new(n as u16, 0);
            let blocks: Vec<Cut> = (0..count)
                .map(|n| Cut::new(at(n), block, size).unwrap())
                .collect();
            let trips = at_once(&blocks);
            let marks = |trip: &Vec<_>| {
                trip.iter()
                    .map(|(_, numbers): &(Cut, std::ops::Range<u32>)| numbers.len() as u32)
                    .sum::<u32>()
            };
            assert!(
                trips
                    .iter()
                    .all(|trip| trip.len() <= BATCH && marks(trip) <= MARKS)
            );
            let mut parts = trips.into_iter().flatten();
            for cut in blocks {
                let mut next = 0;
                while next < cut.count {
                    let (of, numbers) = parts.next().unwrap();
                    assert_eq!((of, numbers.start), (cut, next));
                    next = numbers.end;
                }
            }
            assert_eq!(parts.next(), None);
        }
    }
}
