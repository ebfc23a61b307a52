//! What a client does in the background: it frees what it has retired, and finds what others have freed in its blocks.

use std::rc::Rc;

use super::{Client, Error, Step, all_written, bytes_read, read, region, writes};
use crate::memory::block::{Cut, FREED};
use crate::memory::heap::Retired;
use crate::mutant::{self, Mutant};
use crate::slot::snapshot::Interrupted;
use crate::verbs::{Completion, Request, Verb, Verbs};
use crate::view::{Control, View};

impl<N: Verbs + Control> Client<N> {
    /// Frees what was retired long enough ago, and takes back what was freed in this client's blocks. Returns how many objects it took back.
    ///
    /// One upkeep at a time. When sessions have ended, it looks for objects that their clients were to free.
    ///
    /// Cost: four round trips for each object that is freed, one for each block, two more for each in which something was freed; after a session has ended, the
    /// transfer of the client's blocks, and a round trip or two for each 64 objects in them.
    pub async fn upkeep(&self) -> Result<usize, Error> {
        let reclaimable = self.heap.borrow_mut().reclaimable(self.net.eras());
        for retired in reclaimable {
            let freed = self
                .under_views(async |view| self.free(view, retired).await)
                .await;
            unless_lost(freed)?;
        }
        let blocks: Vec<Cut> = self.heap.borrow().blocks().collect();
        let mut taken = 0;
        for cut in blocks {
            let taken_back = self
                .under_views(async |view| self.take_back(view, cut).await)
                .await;
            taken += unless_lost(taken_back)?;
        }
        Ok(taken + self.sweep().await?)
    }

    /// Frees an object, unless it has been freed, and perhaps used again: first its own word, then the mark in its block, by which the
    /// block's owner finds it.
    async fn free(&self, view: &View, retired: Retired) -> Step<()> {
        let home = region(view, retired.at.region())?;
        let swap = |node| Request {
            node,
            key: home.key,
            at: retired.at,
            verb: Verb::CompareSwap {
                expected: retired.identity.0,
                new: retired.identity.0 | FREED,
            },
        };
        let completions = self
            .net
            .post(home.nodes.iter().copied().map(swap).collect())
            .await;
        let interrupted = Interrupted {
            region: retired.at.region(),
        };
        let was = |completion: &Completion| match completion {
            Completion::Was(was) => Ok(*was),
            _ => Err(interrupted),
        };
        let first = was(completions.first().unwrap_or(&Completion::Unknown))?;
        for completion in &completions {
            was(completion)?;
        }
        if first != retired.identity.0 && first != retired.identity.0 | FREED {
            return Ok(());
        }
        let Some(mark) = self.mark(view, retired).await? else {
            return Ok(());
        };
        let batch = writes(view, mark, &Rc::from([1]))?;
        let completions = self.net.post(batch.clone()).await;
        Ok(all_written(&batch, &completions)?)
    }

    /// Where the mark of an object is; `None` if it is in no block that is cut for it.
    async fn mark(&self, view: &View, retired: Retired) -> Step<Option<crate::verbs::Address>> {
        let block = retired.at.block(self.layout.block);
        let request = read(view, block, 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let size = bytes_read(&request, completions.first())?;
        let size = size.try_into().map_or(0, u64::from_le_bytes);
        let cut = u32::try_from(size)
            .ok()
            .and_then(|size| Cut::new(block, self.layout.block, size));
        Ok(cut.and_then(|cut| Some(cut.mark(cut.number(retired.at)?))))
    }

    /// Takes back what was freed in a block.
    async fn take_back(&self, view: &View, cut: Cut) -> Step<usize> {
        let request = read(view, cut.map(), cut.count)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let marks = bytes_read(&request, completions.first())?;
        let marked: Vec<u32> = (0..cut.count)
            .zip(marks)
            .filter(|(_, mark)| **mark != 0)
            .map(|(n, _)| n)
            .collect();
        if marked.is_empty() {
            return Ok(0);
        }
        // If this is interrupted, its marks are gone: the blocks have to be looked through.
        let swept = self.swept.replace(None);
        // The marks first: what is freed from now on is marked anew.
        let mut batch = Vec::new();
        for n in &marked {
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
        for n in &marked {
            batch.push(read(view, cut.object(*n), 8)?);
        }
        let completions = self.net.post(batch.clone()).await;
        let mut taken = 0;
        for ((request, completion), was_free) in batch.iter().zip(&completions).zip(was_free) {
            let word = bytes_read(request, Some(completion))?
                .try_into()
                .map_or(0, u64::from_le_bytes);
            let mut heap = self.heap.borrow_mut();
            let is_freed = word & FREED != 0 || mutant::is(Mutant::TakenBackUnfreed);
            let is_free = was_free || heap.is_free(request.at);
            if is_freed && (!is_free || mutant::is(Mutant::MarksTwice)) {
                heap.give_back(request.at);
                taken += 1;
            }
        }
        self.swept.set(swept);
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
