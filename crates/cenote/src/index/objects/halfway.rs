//! For tests: operations that stop halfway.

use std::rc::Rc;

use super::ObjectStore;
use super::layout::{self, name_key};
use super::read::Holding;
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::names::directory::{self, KIND_OBJECTS};

/// A store that has its name, and no settings yet.
pub(crate) fn name_without_settings<M: Memory>(worker: &Rc<Worker<M>>, name: &str) {
    directory::find_or_create(worker, name, KIND_OBJECTS, || layout::create(worker)).unwrap();
}

impl<M: Memory> ObjectStore<M> {
    /// Holds an object, as one does that is about to delete it; releases it after `meanwhile`.
    pub(crate) fn hold_meanwhile(&self, id: &[u8], meanwhile: impl FnOnce()) {
        let held = self.hold(&name_key(id), |_| true, |named| self.is_there(named));
        let Ok(Some(Holding::Held(named, slot))) = held else {
            panic!("the object is not there");
        };
        meanwhile();
        self.release(slot, named);
    }
}
