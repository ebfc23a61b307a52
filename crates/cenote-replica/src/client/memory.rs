//! Memory for objects: from blocks of this client, or one more of the master's.

use std::rc::Rc;

use super::{Client, Error, Step, all_written, writes};
use crate::memory::block::Cut;
use crate::object::{Identity, Kind};
use crate::verbs::{Address, Verbs};
use crate::view::{Control, View};

impl<N: Verbs + Control> Client<N> {
    /// Memory for an object that nobody else has. A removal gets the last one of a size, too, and a larger one: else a
    /// full map could not be emptied.
    pub(super) async fn allocate(&self, kind: Kind, bytes: u32, too_long: Error) -> Result<Address, Error> {
        let (block, size) = (self.layout.block, self.class(bytes, too_long)?);
        loop {
            let at = match kind {
                Kind::Remove => self.heap.borrow_mut().take_any(size),
                _ => self.heap.borrow_mut().take(size),
            };
            if let Some(at) = at {
                return Ok(at);
            }
            let at = self.net.block(size).await?.ok_or(Error::Full(block))?;
            if self.take_over(at).await? {
                continue;
            }
            let cut = Cut::new(at, block, size).ok_or(too_long)?;
            self.write_size(cut).await?;
            // Not before: another change of this client would use it, and the client that takes it over would find that
            // it is not cut.
            self.heap.borrow_mut().cut(at, block, size);
        }
    }

    /// Writes to all nodes how a block is cut.
    pub(super) async fn write_size(&self, cut: Cut) -> Result<(), Error> {
        self.under_views(async |view| {
            let size = Rc::from(u64::from(cut.size).to_le_bytes());
            let batch = writes(view, cut.at, &size)?;
            let completions = self.net.post(batch.clone()).await;
            Ok(all_written(&batch, &completions)?)
        })
        .await
    }

    /// How a block is cut that was given; `None` if it is new.
    pub(super) async fn cut_of(&self, view: &View, at: Address) -> Step<Option<Cut>> {
        let request = super::read(view, at, 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let size = super::bytes_read(&request, completions.first())?;
        let size = size.try_into().map_or(0, u64::from_le_bytes);
        let damaged = Error::Damaged {
            what: "a block's size of objects",
            at: at.bits(),
        };
        match size {
            0 => Ok(None),
            _ => {
                let cut = u32::try_from(size)
                    .ok()
                    .and_then(|size| Cut::new(at, self.layout.block, size));
                Ok(Some(cut.ok_or(damaged)?))
            }
        }
    }

    /// Keeps an object until nobody can have its address.
    pub(super) fn retire(&self, at: Address, identity: Identity) {
        self.heap.borrow_mut().retire(at, identity, self.net.eras());
    }
}
