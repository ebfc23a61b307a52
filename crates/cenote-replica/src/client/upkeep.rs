//! What a client does in the background: it frees what it has retired, and finds what others have freed in its blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Client, Error, Step, all_written, bytes_read, read, region, writes};
use crate::memory::block::{Cut, FREED};
use crate::memory::heap::Retired;
use crate::mutant::{self, Mutant};
use crate::slot::snapshot::Interrupted;
use crate::verbs::{Address, Completion, Request, Verb, Verbs};
use crate::view::{Control, View};

/// Objects that are freed, and blocks whose marks are read, in one round trip.
const BATCH: usize = 128;

/// Objects that are freed at least by who goes on.
const LEAST: usize = 32;

/// A block, and which of its objects are marked.
type Marked = (Cut, Vec<u32>);

impl<N: Verbs + Control> Client<N> {
    /// Frees what was retired long enough ago, and takes back what was freed in this client's blocks. Returns how many
    /// objects it took back.
    ///
    /// One upkeep at a time. When sessions have ended, it looks for objects that their clients were to free.
    ///
    /// Cost: one round trip if a key was bound since the last change; one for each split of its own that was
    /// interrupted; one for each 128 objects that are freed, two more if some of them are in others' blocks; one for
    /// each 128 blocks, two for each block in which others have freed something; after a session has ended, the
    /// transfer of the client's blocks, and a round trip or two for each 64 objects in them.
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
            taken += self.under_views(async |view| self.free(view, some).await).await?;
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
        for some in blocks.chunks(BATCH) {
            let marked = self
                .under_views(async |view| self.marked(view, some).await)
                .await?;
            for (cut, marked) in marked {
                let taken_back = self
                    .under_views(async |view| self.take_back(view, cut, &marked).await)
                    .await;
                taken += unless_lost(taken_back)?;
            }
        }
        Ok(taken)
    }

    /// Frees objects, unless they have been freed, and perhaps used again: first their own words, then the marks in
    /// their blocks, by which the blocks' owners find them. Returns how many were this client's own: it takes those
    /// back. What is in regions that are lost stays so.
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
        let (mut batch, mut of) = (Vec::new(), Vec::new());
        for object in retired {
            let Ok(home) = region(view, object.at.region()) else {
                continue;
            };
            let swap = |node| Request {
                node,
                key: home.key,
                at: object.at,
                verb: Verb::CompareSwap {
                    expected: object.identity.0,
                    new: object.identity.0 | FREED,
                },
            };
            of.push((*object, batch.len()));
            batch.extend(home.nodes.iter().copied().map(swap));
        }
        let completions = self.net.post(batch.clone()).await;
        let mut words = Vec::with_capacity(batch.len());
        for (n, request) in batch.iter().enumerate() {
            match completions.get(n) {
                Some(Completion::Was(was)) => words.push(*was),
                _ => {
                    return Err(Interrupted {
                        region: request.at.region(),
                    }
                    .into());
                }
            }
        }
        let is_freed = |(object, first): &&(Retired, usize)| words[*first] & !FREED == object.identity.0;
        let freed: Vec<Retired> = of.iter().filter(is_freed).map(|(object, _)| *object).collect();
        let mut others = Vec::new();
        let mut taken = 0;
        {
            let mut heap = self.heap.borrow_mut();
            for object in freed {
                let is_own = was_own.contains(&object.at)
                    || mutant::is(Mutant::AdoptedFreed) && heap.block_of(object.at).is_some();
                if !is_own {
                    others.push(object.at);
                } else if !was_free.contains(&object.at) && !heap.is_free(object.at) {
                    heap.give_back(object.at);
                    taken += 1;
                }
            }
        }
        if !others.is_empty() {
            self.mark(view, &others).await?;
        }
        Ok(taken)
    }

    /// Marks objects that are in others' blocks, if these are cut for them.
    async fn mark(&self, view: &View, objects: &[Address]) -> Step<()> {
        let blocks: BTreeSet<Address> = objects.iter().map(|at| at.block(self.layout.block)).collect();
        let mut batch = Vec::with_capacity(blocks.len());
        for block in &blocks {
            batch.push(read(view, *block, 8)?);
        }
        let completions = self.net.post(batch.clone()).await;
        let mut cuts = BTreeMap::new();
        for (n, (block, request)) in blocks.iter().zip(&batch).enumerate() {
            let size = bytes_read(request, completions.get(n))?;
            let size = size.try_into().map_or(0, u64::from_le_bytes);
            let cut = u32::try_from(size)
                .ok()
                .and_then(|size| Cut::new(*block, self.layout.block, size));
            cuts.extend(cut.map(|cut| (*block, cut)));
        }
        let mut batch = Vec::new();
        for at in objects {
            let cut = cuts.get(&at.block(self.layout.block));
            if let Some((cut, n)) = cut.and_then(|cut| Some((cut, cut.number(*at)?))) {
                batch.extend(writes(view, cut.mark(n), &Rc::from([1]))?);
            }
        }
        let completions = self.net.post(batch.clone()).await;
        Ok(all_written(&batch, &completions)?)
    }

    /// Which objects of blocks are marked.
    async fn marked(&self, view: &View, cuts: &[Cut]) -> Step<Vec<Marked>> {
        let (mut batch, mut of) = (Vec::new(), Vec::new());
        for cut in cuts {
            // What is in a region that is lost stays so.
            if let Ok(request) = read(view, cut.map(), cut.count) {
                batch.push(request);
                of.push(*cut);
            }
        }
        let completions = self.net.post(batch.clone()).await;
        let mut marked = Vec::new();
        for (n, (cut, request)) in of.iter().zip(&batch).enumerate() {
            let marks = bytes_read(request, completions.get(n))?;
            let set = (0..cut.count).zip(marks).filter(|(_, mark)| **mark != 0);
            let set: Vec<u32> = set.map(|(n, _)| n).collect();
            if !set.is_empty() {
                marked.push((*cut, set));
            }
        }
        Ok(marked)
    }

    /// Takes back what is marked in a block. After an interruption it begins again with the same marks.
    async fn take_back(&self, view: &View, cut: Cut, marked: &[u32]) -> Step<usize> {
        // The marks first: what is freed from now on is marked anew.
        let mut batch = Vec::new();
        for n in marked {
            batch.extend(writes(view, cut.mark(*n), &Rc::from([0]))?);
        }
        let completions = self.net.post(batch.clone()).await;
        all_written(&batch, &completions)?;
        // One that is free already was marked twice, and may be taken before its word is read.
        let was_free: Vec<bool> = marked
            .iter()
            .map(|n| self.heap.borrow().is_free(cut.object(*n)))
            .collect();
        let mut batch = Vec::new();
        for n in marked {
            batch.push(read(view, cut.object(*n), 8)?);
        }
        let completions = self.net.post(batch.clone()).await;
        let mut freed = Vec::new();
        for ((request, completion), was_free) in batch.iter().zip(&completions).zip(was_free) {
            let word = bytes_read(request, Some(completion))?
                .try_into()
                .map_or(0, u64::from_le_bytes);
            if word & FREED != 0 || mutant::is(Mutant::TakenBackUnfreed) {
                freed.push((request.at, was_free));
            }
        }
        let mut heap = self.heap.borrow_mut();
        let mut taken = 0;
        for (at, was_free) in freed {
            if !(was_free || heap.is_free(at)) || mutant::is(Mutant::MarksTwice) {
                heap.give_back(at);
                taken += 1;
            }
        }
        Ok(taken)
    }
}

/// What is in a region that is lost stays so, and keeps nothing else.
pub(super) fn unless_lost<T: Default>(done: Result<T, Error>) -> Result<T, Error> {
    match done {
        Err(Error::Lost(_)) => Ok(T::default()),
        done => done,
    }
}
