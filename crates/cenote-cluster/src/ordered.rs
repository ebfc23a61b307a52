//! The ordered map for users: one call at a time, from one thread.
//!
//! The protocol, what scans promise and what contention costs are in `docs/protocols/replicated-ordered.md`.

use std::rc::Rc;

use cenote_replica::client::{OrderedMap as Pages, Pairs, Shape};

use crate::session::Port;
use crate::{Error, Map, Options};

/// A map with an order of keys, on memory nodes, as one client has it.
pub struct OrderedMap {
    map: Map,
    pages: Pages<Port>,
}

impl OrderedMap {
    /// Joins a cluster, for the ordered map of a name. It is made with its first key.
    ///
    /// Errors: [`Error::Master`], [`Error::Refused`]; [`Error::Map`] if the name has more than 255 bytes.
    pub fn open(options: &Options, name: &[u8]) -> Result<Self, Error> {
        let map = Map::open(options)?;
        let pages = Pages::new(Rc::clone(&map.client), name)?;
        Ok(Self { map, pages })
    }

    /// The number of this client's session.
    pub fn session(&self) -> u32 {
        self.map.session()
    }

    /// Whether the session has ended: the master took this client for dead. Open the map again.
    pub fn has_ended(&self) -> bool {
        self.map.has_ended()
    }

    /// The longest key, in bytes.
    pub fn key_max(&self) -> usize {
        self.pages.key_max()
    }

    /// The most bytes of a key and its value together.
    pub fn entry_max(&self) -> usize {
        self.pages.entry_max()
    }

    /// How often a change had to begin again, as another client had changed its page.
    pub fn conflicts(&self) -> u64 {
        self.pages.conflicts()
    }

    /// The value of a key.
    ///
    /// Cost: two round trips; one if its page was used in the same era.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.map.run(async |_| self.pages.get(key).await)
    }

    /// Binds a key to a value. Returns whether it was bound before.
    ///
    /// Cost: four or five round trips, and more while others change keys of the same page.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.map.change(value, async |_| self.pages.put(key, value).await)
    }

    /// Unbinds a key. Returns whether it was bound.
    ///
    /// Cost: as [`OrderedMap::put`].
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.map.change(&[], async |_| self.pages.remove(key).await)
    }

    /// The least keys from `from` on and below `to`, ascending, at most `limit` of them, with their values. Each page
    /// is read at one moment, all of them one after the other: a key that is bound all the time comes once, and all
    /// come in order.
    ///
    /// Cost: one or two round trips for the first page, and one or two for each sixteen after it.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>, limit: usize) -> Result<Pairs, Error> {
        self.map.run(async |_| self.pages.scan(from, to, limit).await)
    }

    /// The greatest keys below `to` and not below `from`, descending, at most `limit` of them, with their values.
    /// Otherwise as [`OrderedMap::scan`].
    pub fn scan_back(&self, from: &[u8], to: Option<&[u8]>, limit: usize) -> Result<Pairs, Error> {
        self.map
            .run(async |_| self.pages.scan_back(from, to, limit).await)
    }

    /// How many pages and keys it has, while nobody changes it.
    ///
    /// Cost: one or two round trips for each page.
    pub fn shape(&self) -> Result<Shape, Error> {
        self.map.run(async |_| self.pages.shape().await)
    }

    /// Leaves the cluster in order.
    pub fn close(self) {
        // The port leaves when it is dropped.
    }
}
