//! The object store: immutable byte strings that processes share without copying, after P³-Store (pcc-indexes, section
//! 7.4). A writer makes an object, fills it, and *seals* it: only then has it a name. A reader *views* it where it is.
//!
//! One ordered map holds all of it, under four kinds of keys: settings, *names*, *storages*, and each process's
//! *slots*. An object's bytes are the value of its storage, so all memory is the map's, which recovers it. What a crash
//! leaves is in slots, or marked:
//!
//! > Whatever is stored without a name is in the slot of a process that is answerable for it, or is marked as evicted,
//! > and the next eviction removes it.
//!
//! A slot refers to a storage by its number, which never repeats. The writer's does, the deleter's, and that of each
//! view, for which it is a hazard pointer: a storage goes when it has no name any more and is in no slot. The thread
//! that takes a storage out of a slot checks that. When a process has died, others do so for each of its slots.
//!
//! | words | writer | what a crash leaves | who repairs it |
//! |---|---|---|---|
//! | slot (S) | its process | a storage without a name, or one that is not viewed any more | the recoverer of the process |
//! | state of a storage (S) | anyone, bit by bit | a mark that is missing, of a storage in a slot | the same |
//! | data of a storage (P) | its writer, before it is sealed | bytes that nobody can find | the same |
//! | next number (S) | a writer, by an add | a number that nothing has | nobody |
//! | bytes in use (S) | the thread that adds or removes a storage | too high a figure | the recoverer of the process, or a thread that meets the quota |
//! | hand (S) | the evictor | the place of the next candidate | nobody |
//!
//! Protocol, proofs and crash analysis: `docs/protocols/objects.md`.

mod audit;
mod delete;
mod evict;
#[cfg(test)]
mod halfway;
mod layout;
mod list;
mod read;
mod recount;
pub mod recover;
mod seal;
mod settings;
mod slots;
mod write;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::common::guidelines::Guidelines;
use super::common::kind::of_kind;
use super::ordered::OrderedMap;
use crate::causes::Structure;
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::pod::Worker;
use crate::pod::names::directory::{self, KIND_OBJECTS};
use crate::pod::names::dropping::Identity;
use crate::pod::names::open::opened;

pub use audit::{AuditedObjects, ObjectHolder};
pub(crate) use delete::end_view_at;
pub use evict::Evictions;
#[cfg(test)]
pub(crate) use halfway::name_without_settings;
pub use layout::ID_MAX;
pub use list::ObjectInfo;
pub use read::Viewed;
pub use seal::Sealed;
pub use settings::ObjectSettings;
pub use slots::Slots;
pub use write::{NewObject, Ttl, Unsealed};

use layout::Meta;

/// A worker's handle on an object store. Each thread has its own.
pub struct ObjectStore<M: Memory> {
    map: OrderedMap<M>,
    meta: Meta,
    slots: Arc<Slots>,
    settings: ObjectSettings,
    /// The figure of bytes in use, and the pod's processes, when this handle found the figure right.
    recounted: Cell<Option<(u64, u64)>>,
    /// The bytes in use when this handle has found no object whose time was over, and when that of the next one is.
    next_expiry: Cell<Option<(u64, u64)>>,
}

impl<M: Memory> ObjectStore<M> {
    /// Opens the store of a name, or creates it with these settings. An existing one keeps its own.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(
        worker: Rc<Worker<M>>,
        name: &str,
        settings: &ObjectSettings,
        guidelines: Guidelines,
    ) -> Result<Self> {
        let create = || layout::create(&worker);
        let find = || directory::find_or_create(&worker, name, KIND_OBJECTS, create).map(Some);
        let open = |named| Self::of(worker.clone(), named, guidelines);
        let store = loop {
            let mut store = opened(&worker, find, open)?.ok_or(Error::Dropped)?;
            match settings::found_or_made(&store.map, settings) {
                // Meanwhile.
                Err(Error::Dropped) => {}
                found => {
                    store.settings = found?;
                    break store;
                }
            }
        };
        // What cannot be recovered now is noted by `Pool::recover`, and keeps nobody from using the rest.
        let _ = store.sweep_gone();
        Ok(store)
    }

    /// Opens the store of a name, if there is one: it is made once it has its settings.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str, guidelines: Guidelines) -> Result<Self> {
        let open = |named| {
            let mut store = Self::of(worker.clone(), named, guidelines)?;
            // A thread that went by others now would do so for as long as it has the store open.
            let found = settings::found(&store.map)?;
            Ok(found.map(|settings| {
                store.settings = settings;
                store
            }))
        };
        let found = opened(&worker, || directory::find(&worker, name), open)?.flatten();
        let store = found.ok_or_else(|| Error::NoSuch {
            kind: Structure::Objects,
            name: name.to_owned(),
        })?;
        let _ = store.sweep_gone();
        Ok(store)
    }

    /// Opens the store that an entry names, unless it has been dropped. The worker is pinned.
    pub(crate) fn of(worker: Rc<Worker<M>>, named: directory::Named, guidelines: Guidelines) -> Result<Self> {
        let identity = Identity::of(&worker, &named).ok_or(Error::Dropped)?;
        Self::with(worker, of_kind(named, KIND_OBJECTS)?, guidelines, identity)
    }

    /// Opens a store that was open before; `None` if it has been dropped.
    pub(crate) fn again(worker: Rc<Worker<M>>, identity: Identity) -> Result<Option<Self>> {
        let _pin = worker.pin()?;
        match identity.is_there(&worker) {
            true => Self::with(worker.clone(), identity.header(), Guidelines::SP, identity).map(Some),
            false => Ok(None),
        }
    }

    /// Opens the store whose header is at an offset, and that nobody drops meanwhile.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn at(worker: Rc<Worker<M>>, header: u64, guidelines: Guidelines) -> Result<Self> {
        Self::with(worker, header, guidelines, Identity::UNCHECKED)
    }

    fn with(worker: Rc<Worker<M>>, header: u64, guidelines: Guidelines, identity: Identity) -> Result<Self> {
        let meta = Meta::read(&worker, header)?;
        let slots = slots::of_process(worker.pod(), meta.id());
        let map = OrderedMap::with(worker, header, guidelines, identity)?;
        Ok(Self {
            settings: settings::found(&map)?.unwrap_or_default(),
            recounted: Cell::default(),
            next_expiry: Cell::default(),
            map,
            meta,
            slots,
        })
    }

    /// The handle's worker.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn worker(&self) -> &Rc<Worker<M>> {
        self.map.worker()
    }

    /// What it was created with.
    pub fn settings(&self) -> &ObjectSettings {
        &self.settings
    }

    /// Bytes that its objects occupy, with those that are not sealed, and what surrounds them: exact when nobody
    /// writes, else about that.
    ///
    /// 0 of a store that was dropped.
    ///
    /// Cost: a sync load.
    pub fn bytes(&self) -> u64 {
        let Ok(_pin) = self.map.pin() else {
            return 0;
        };
        // What was counted wrongly may be subtracted twice.
        (self.meta.bytes().load(self.mem()) as i64).max(0) as u64
    }

    /// Which store the handle is for.
    pub(crate) fn identity(&self) -> Identity {
        self.map.identity()
    }

    /// Adds to one of the store's figures, unless it has been dropped.
    fn count(&self, figure: impl FnOnce(&Meta) -> SyncWord, more: u64) {
        if let Ok(_pin) = self.map.pin() {
            // NO PAIR: count
            figure(&self.meta).fetch_add(self.mem(), more);
        }
    }

    /// The slots of this process.
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    fn mem(&self) -> &M {
        self.worker().mem()
    }
}
