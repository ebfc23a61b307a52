//! A map with an order of keys, whose pages are the values of keys of the replicated map: placement, copies, recovery
//! and memory are that map's.
//!
//! The protocol is in `docs/protocols/replicated-ordered.md`. In short: a page is replaced on the condition that it is
//! the one that was read ([`replace_if`](super::Client::replace_if)). A page that is full is replaced by itself with a
//! *division*, which names the page that its upper half goes to; the next client that meets it completes it. So no page
//! is ever in the map that no other one names, whichever client dies. Pages have fences and links to the right, as in a
//! B-link tree (Lehman and Yao, 1981); pages above are hints.
//!
//! | file | |
//! |---|---|
//! | here | a map, and what its keys are in the replicated map |
//! | `page` | a page's bytes |
//! | `find` | from the root to a page |
//! | `change` | binding and unbinding a key |
//! | `divide` | pages that are full |
//! | `scan` | many keys in order |
//! | `shape` | how large it is, and whether its pages fit together |

mod change;
mod divide;
mod find;
mod page;
mod scan;
mod shape;

pub use scan::Pairs;
pub use shape::Shape;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Client, Error};
use crate::mutant::{self, Mutant};
use crate::object::Identity;
use crate::verbs::Verbs;
use crate::view::Control;
use find::{Freshness, Goal};
use page::{Page, PageId};

/// What keys of ordered maps begin with; no other key may.
pub(super) const RESERVED: &[u8] = b"\0cenote/ordered\0";
const ROOT: u8 = 0;
const PAGE: u8 = 1;
/// Bytes of a page's entries above which it is divided, at most.
const PAGE_BYTES: usize = 4_096;
/// A block has room for so many pages of that size, as a page that is about to be divided has another entry, fences and
/// separators.
const PAGES_PER_BLOCK: usize = 8;
/// Pages that a map remembers.
const REMEMBERED: usize = 1_024;

/// A page, as it was read.
#[derive(Clone, Debug)]
struct Seen {
    id: PageId,
    version: Identity,
    page: Rc<Page>,
}

/// An ordered map, as one client has it. Its operations may run side by side in one thread.
#[derive(Debug)]
pub struct OrderedMap<N> {
    client: Rc<Client<N>>,
    name: Vec<u8>,
    /// Pages as this client has seen them last.
    seen: RefCell<BTreeMap<PageId, Seen>>,
    /// How often a page was replaced by another client first.
    conflicts: Cell<u64>,
}

impl<N: Verbs + Control> OrderedMap<N> {
    /// The map of a name, which is empty if nobody has put a key into it. Nothing is read or written yet.
    ///
    /// Errors: [`Error::NameTooLong`] if the name has more than 255 bytes.
    pub fn new(client: Rc<Client<N>>, name: &[u8]) -> Result<Self, Error> {
        if name.len() > 255 {
            return Err(Error::NameTooLong(name.len()));
        }
        Ok(Self {
            client,
            name: name.to_vec(),
            seen: RefCell::default(),
            conflicts: Cell::new(0),
        })
    }

    /// How often a change found that another client had replaced its page first, and began again.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.get()
    }

    /// Bytes of entries above which a page is divided.
    fn page_bytes(&self) -> usize {
        PAGE_BYTES.min(self.client.layout.block as usize / PAGES_PER_BLOCK)
    }

    /// The longest key: a quarter of a page.
    pub fn key_max(&self) -> usize {
        self.page_bytes() / 4
    }

    /// The most bytes of a key and its value together: a page.
    pub fn entry_max(&self) -> usize {
        self.page_bytes()
    }

    /// The key of a page in the replicated map.
    fn key(&self, id: PageId) -> Vec<u8> {
        match id {
            PageId::ROOT => [RESERVED, &[ROOT], &self.name].concat(),
            PageId(number) => [RESERVED, &[PAGE], &number.to_le_bytes()].concat(),
        }
    }

    /// The number of a new page.
    fn new_id(&self) -> Result<PageId, Error> {
        Ok(PageId(self.client.identity()?.0))
    }

    fn damaged(&self, what: &'static str, id: PageId) -> Error {
        Error::Damaged { what, at: id.0 }
    }

    /// Reads a page; `None` if there is none of this number.
    ///
    /// Cost: as [`Client::get`].
    async fn read(&self, id: PageId) -> Result<Option<Seen>, Error> {
        match self.client.found(&self.key(id)).await? {
            Some(found) => self.take_in(id, found.identity, &found.value).map(Some),
            None => Ok(None),
        }
    }

    /// Remembers a page that was read.
    fn take_in(&self, id: PageId, version: Identity, bytes: &[u8]) -> Result<Seen, Error> {
        let page = Page::decode(bytes).ok_or_else(|| self.damaged("a page of an ordered map", id))?;
        Ok(self.remember(id, version, page))
    }

    fn remember(&self, id: PageId, version: Identity, page: Page) -> Seen {
        let page = Rc::new(page);
        let seen = Seen { id, version, page };
        let mut known = self.seen.borrow_mut();
        if known.len() >= REMEMBERED && !known.contains_key(&id) {
            // What is left is what leads to the others.
            known.retain(|_, seen| seen.page.level > 0);
            if known.len() >= REMEMBERED {
                known.clear();
            }
        }
        known.insert(id, seen.clone());
        seen
    }

    fn remembered(&self, id: PageId) -> Option<Seen> {
        self.seen.borrow().get(&id).cloned()
    }

    fn forget(&self, id: PageId) {
        self.seen.borrow_mut().remove(&id);
    }

    /// The value of a key; `None` if it is bound to none.
    ///
    /// Cost: that of one [`Client::get`], one or two round trips, if the pages above are known; the same again for each
    /// page that is not.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let freshness = match mutant::is(Mutant::LeafBelieved) {
            true => Freshness::Remembered,
            false => Freshness::Read,
        };
        let found = self.find(Goal::At(key), 0, freshness).await?;
        Ok(found.and_then(|found| found.seen.page.get(key).map(<[u8]>::to_vec)))
    }
}
