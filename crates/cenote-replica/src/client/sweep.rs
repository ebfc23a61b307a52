//! Objects of a client's own blocks that nobody else will free any more.
//!
//! The client that takes an object out of the index has to free it, and knows of it in its own memory alone. If that
//! client goes before, in order or not, the object stays in somebody else's block. So each client that hears of
//! sessions that have ended looks at its blocks once more, in the background. What it may find is
//!
//! | an object | what becomes of it |
//! |---|---|
//! | free in its list, or taken for a change of its own that goes on | nothing: its words say nothing |
//! | in the index, or an extent of one that is | nothing |
//! | in no slot, not freed | it is retired here, as in a block that is taken over; if another has retired it as well, that does no harm |
//! | free by its mark | it is taken back |
//!
//! Sessions count as ended when what they had begun has been decided, so an object that is in no slot then will be in
//! none later, if its own client has no change that goes on with it. A crash of this client leaves its blocks to
//! others, who [take them over](super::adopt).

use std::collections::BTreeSet;

use super::upkeep::unless_lost;
use super::{Client, Error};
use crate::memory::block::Cut;
use crate::mutant::{self, Mutant};
use crate::verbs::Verbs;
use crate::view::Control;

impl<N: Verbs + Control> Client<N> {
    /// Looks through this client's blocks, if sessions have ended since it did so. Returns how many objects it took
    /// back.
    ///
    /// Cost: nothing if none has; else a round trip for each MiB of its blocks, and one or two for each 64 objects that
    /// are in use.
    pub(super) async fn sweep(&self) -> Result<usize, Error> {
        let ended = self.net.sessions_ended();
        if self.swept.get() == Some(ended) || mutant::is(Mutant::NotSwept) {
            return Ok(0);
        }
        let blocks: Vec<Cut> = self.heap.borrow().blocks().collect();
        let mut taken = 0;
        for cut in blocks {
            taken += unless_lost(self.sweep_block(cut).await)?;
        }
        self.swept.set(Some(ended));
        Ok(taken)
    }

    async fn sweep_block(&self, cut: Cut) -> Result<usize, Error> {
        let era = self.heap.borrow_mut().pin(self.net.eras());
        let found = self
            .under_views(async |view| {
                // Before its words are read: what is taken from now on was its own then.
                let own = match mutant::is(Mutant::BusySwept) {
                    true => BTreeSet::new(),
                    false => self.heap.borrow().own(cut),
                };
                self.findings(view, cut, &own).await
            })
            .await;
        let eras = self.net.eras();
        let mut heap = self.heap.borrow_mut();
        heap.unpin(era);
        let found = found?;
        for (at, identity) in found.lost {
            heap.retire(at, identity, eras);
        }
        for (at, mark) in found.marks {
            heap.learn_mark(at, mark);
        }
        let mut taken = 0;
        for at in found.freed {
            // A mark may have come meanwhile.
            if !heap.is_free(at) {
                heap.give_back(at);
                taken += 1;
            }
        }
        Ok(taken)
    }
}
