//! A task list's part of `fsck`: every result is named once, and lies in an object of its own that is long enough.

use super::TaskList;
use super::result::{HEADER, Slot};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::alloc::slab::check_fits;

/// What the audit found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// Tasks that have or had a result.
    pub done: u64,
    /// Results that are present.
    pub results: u64,
}

impl<M: Memory> TaskList<M> {
    /// Walks the list: calls `reached` for each object that it refers to, and `suspect` for each error found.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn audit(
        &self,
        mut reached: impl FnMut(u64),
        mut suspect: impl FnMut(Error),
    ) -> Result<Audited> {
        let _pin = self.pin()?;
        let mut audited = Audited::default();
        reached(self.layout.header());
        check_fits(
            &self.worker,
            "the number of a task list's tasks",
            self.layout.header(),
            self.layout.bytes(),
        )?;
        for task in 0..self.len() {
            let slot = self.layout.slot(task);
            match Slot::decode(slot.load(self.worker.mem())) {
                Slot::Open => continue,
                Slot::Forgotten => {}
                Slot::Damaged => suspect(Error::corrupt("a task's slot", slot.offset())),
                Slot::Result(object) => {
                    audited.results += 1;
                    match self.check_result(object) {
                        Ok(()) => reached(object),
                        Err(error) => suspect(error),
                    }
                }
            }
            audited.done += 1;
        }
        Ok(audited)
    }

    fn check_result(&self, object: u64) -> Result<()> {
        let len = self.bytes_of(object)?.len() as u64;
        check_fits(
            &self.worker,
            "the length of a task's result",
            object,
            HEADER + len,
        )
    }
}
