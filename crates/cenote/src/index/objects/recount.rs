//! The figure of bytes in use, put right.
//!
//! A thread that stores an object adds its bytes before that; one that removes an object subtracts them after it. A
//! process that dies between the two leaves the figure too high, for as long as the store lives: a store with a quota
//! would hold less and less. So the objects are counted when the slots of a dead process have been recovered, and
//! before a quota refuses something.
//!
//! Others may write meanwhile. If the figure has changed, it is left as it is. What another thread is about to store or
//! remove all the time that the counting takes is counted wrongly, until objects are counted again.

use super::ObjectStore;
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};

/// What counting has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recount {
    /// The figure is what was counted.
    Exact,
    /// It was another.
    Corrected,
    /// It has changed meanwhile, and says nothing of what was counted.
    Raced,
}

impl<M: Memory> ObjectStore<M> {
    /// Counts the bytes of all objects, unless this handle has found the figure right, it is the same since, and no
    /// process has come or gone since. (A process that dies after it has removed an object, and before it has
    /// subtracted its bytes, leaves the same figure, and it is wrong.)
    ///
    /// Cost: a load for each process; a scan of all storages, and an exchange.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn recount(&self) -> Result<Recount> {
        let (mem, figure) = (self.mem(), self.meta.bytes());
        let processes = self.worker().pod().processes_seen();
        let before = {
            let _pin = self.map.pin()?;
            figure.load(mem)
        };
        if self.recounted.get() == Some((before, processes)) || mutant::is(Mutant::BytesNotRecounted) {
            return Ok(Recount::Exact);
        }
        let mut bytes = 0_u64;
        self.for_each_storage(|_, storage| {
            if let Ok(storage) = storage {
                bytes = bytes.saturating_add(storage.len);
            }
        })?;
        let _pin = self.map.pin()?;
        // NO PAIR: count
        if figure.compare_exchange_acquire(mem, before, bytes).is_err() {
            return Ok(Recount::Raced);
        }
        // One that was another may have been so by what others did meanwhile: it is counted once more.
        self.recounted
            .set((bytes == before).then_some((bytes, processes)));
        Ok(match bytes == before {
            true => Recount::Exact,
            false => Recount::Corrected,
        })
    }
}
