//! The ordered map: a B-link tree of nodes whose pages are replaced as a whole, after the Bw-tree as the paper converts
//! it (pcc-indexes, section 6.2), with the P³ guidelines.
//!
//! A *node* is a sync word that refers to the node's *page*, which is written once. A change makes a new page and
//! exchanges the word: one compare-exchange, by `pod::commit::publish`, for a write, a split, a separator, a new root
//! alike. A node that is split keeps the lower part and refers to a new node behind it; a worker that comes by later
//! tells its parent. A node's lower bound never changes. So every path to a leaf leads to the right leaf, or to one
//! left of it, or to one that was merged into the leaf before it, and is marked as such.
//!
//! Differences from the paper, and why:
//! - no delta records: a page of a few lines is copied, so that a lookup loads one word and reads two lines;
//! - the words of nodes are objects like all others, not entries of a table that must grow;
//! - a leaf says which keys it holds: a miss on a path that is out of date is as good as any other, and needs no retry;
//! - nodes are cached under the announcement, so nobody must be told before a page is freed.
//!
//! Protocol, proofs and crash analysis: `docs/protocols/ordered.md`.

mod ahead;
pub mod audit;
mod build;
mod clear;
mod fast_path;
mod find;
mod get;
mod grow;
mod key;
mod load;
mod lower;
mod merge;
mod page;
pub mod range;
mod records;
mod replacement;
pub(in crate::index) mod write;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::causes::Structure;
use crate::error::{Error, Result};
use crate::index::common::count;
use crate::index::common::guidelines::Guidelines;
use crate::index::common::kind::of_kind;
use crate::memory::checked::{owned_word, published, sync_word, unpublished, word_line};
use crate::memory::{Memory, OwnedWord, SyncWord};
use crate::pod::Worker;
use crate::pod::alloc::heap;
use crate::pod::instance::worker::Pin;
use crate::pod::names::directory::{self, KIND_ORDERED, Named};
use crate::pod::names::dropping::{self, Check, Identity};
use crate::pod::names::open::opened;

pub use crate::index::common::pair::KEY_MAX;

pub use page::{INNER_MAX, LEAF_MAX};

/// Bytes of a map's header before the shares.
const HEADER_BYTES: u64 = 128;
/// Bytes of each worker's share: a line for its count.
const SHARE_BYTES: u64 = 64;
const MAGIC: u64 = u64::from_le_bytes(*b"ORDERED\x01");

/// Set in the word of a node that is being merged into the one before it, or that takes the root's place, or did so:
/// the node has its last page.
const FROZEN: u64 = 1;

/// A note that a node's parent may not know it. It outlives the pin under which the node was seen, so it does not say
/// where the node is: another may be there by then. The node is found by its low fence.
#[derive(Clone, Debug)]
struct Unposted {
    /// The parent's level.
    level: u8,
    /// The node's low fence.
    separator: Vec<u8>,
    /// Where the node's word was. Only a mutant relies on it.
    was_at: u64,
}

/// A worker's handle on an ordered map. Each thread has its own.
pub struct OrderedMap<M: Memory> {
    worker: Rc<Worker<M>>,
    header: u64,
    check: Check,
    guidelines: Guidelines,
    count: OwnedWord,
    /// Pages that were cached before this time are not used, by the clock of the process's cache of words.
    read_since: Cell<u64>,
    /// Steps to the right of searches that were led too far left.
    detours: Cell<u32>,
    unposted: RefCell<Vec<Unposted>>,
    notes_max: usize,
    /// Posts that the present write has made before splits.
    posts: Cell<u32>,
    merging: RefCell<Option<merge::InnerNode>>,
    /// The low fence of an empty leaf that this handle has read. The next write merges it, if it can: the worker that
    /// emptied it could not, or died.
    empty: RefCell<Option<Vec<u8>>>,
    scratch: Cell<Scratch>,
}

/// Memory in which pages are built, kept from write to write.
#[derive(Default)]
struct Scratch {
    entries: Vec<u8>,
    page: Vec<u8>,
}

impl<M: Memory> OrderedMap<M> {
    /// Opens the map of a name, or creates it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str, guidelines: Guidelines) -> Result<Self> {
        let find = || directory::find_or_create(&worker, name, KIND_ORDERED, || create(&worker)).map(Some);
        opened(&worker, find, |named| {
            Self::of(worker.clone(), named, KIND_ORDERED, guidelines)
        })?
        .ok_or(Error::Dropped)
    }

    /// Opens the map of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str, guidelines: Guidelines) -> Result<Self> {
        let find = || directory::find(&worker, name);
        let open = |named| Self::of(worker.clone(), named, KIND_ORDERED, guidelines);
        opened(&worker, find, open)?.ok_or_else(|| Error::NoSuch {
            kind: Structure::Map,
            name: name.to_owned(),
        })
    }

    /// Opens the map that an entry of this kind names, unless it has been dropped. The worker is pinned.
    pub(crate) fn of(worker: Rc<Worker<M>>, named: Named, kind: u64, guidelines: Guidelines) -> Result<Self> {
        let identity = Identity::of(&worker, &named).ok_or(Error::Dropped)?;
        Self::with(worker, of_kind(named, kind)?, guidelines, identity)
    }

    /// Opens a map that was open before, unless it has been dropped. The worker is pinned.
    pub(crate) fn again(worker: Rc<Worker<M>>, identity: Identity, guidelines: Guidelines) -> Result<Self> {
        match identity.is_there(&worker) {
            true => Self::with(worker, identity.header(), guidelines, identity),
            false => Err(Error::Dropped),
        }
    }

    /// Opens the map whose header is at an offset, and that nobody drops meanwhile.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn at(worker: Rc<Worker<M>>, header: u64, guidelines: Guidelines) -> Result<Self> {
        Self::with(worker, header, guidelines, Identity::UNCHECKED)
    }

    pub(in crate::index) fn with(
        worker: Rc<Worker<M>>,
        header: u64,
        guidelines: Guidelines,
        identity: Identity,
    ) -> Result<Self> {
        let workers = u64::from(worker.geometry().parameters.workers);
        worker.check("an ordered map's header", header, share(0, workers))?;
        let mem = worker.mem();
        let is_header = header.is_multiple_of(64)
            && published(header + 64, 8).read_word(mem) == MAGIC
            && published(header + 72, 8).read_word(mem) == workers;
        if !is_header {
            return Err(Error::corrupt("an ordered map's header", header));
        }
        let share = share(header, u64::from(worker.me() - 1));
        // The place may have been used from another host since this one read it.
        if !M::COHERENT {
            word_line(share).fetch(mem);
        }
        Ok(Self {
            header,
            check: Check::new(identity),
            guidelines,
            count: owned_word(share),
            read_since: Cell::new(0),
            detours: Cell::new(0),
            unposted: RefCell::default(),
            notes_max: worker.limits().unposted,
            posts: Cell::new(0),
            merging: RefCell::default(),
            empty: RefCell::default(),
            scratch: Cell::default(),
            worker,
        })
    }

    /// The same handle with room for so many notes of nodes that their parents may not know. Any number is correct:
    /// other writers post what this one does not.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn with_unposted(mut self, most: usize) -> Self {
        self.notes_max = most;
        self
    }

    /// Notes a node that this handle made. It replaces an older note: a worker that comes by that node notes it again.
    fn note_own(&self, unposted: Unposted) {
        let mut notes = self.unposted.borrow_mut();
        if self.notes_max > 0 {
            notes.truncate(self.notes_max - 1);
            notes.push(unposted);
        }
    }

    /// The handle's worker.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn worker(&self) -> &Rc<Worker<M>> {
        &self.worker
    }

    /// Pins the worker. Fails if the map was dropped.
    #[inline(always)]
    pub(in crate::index) fn pin(&self) -> Result<Pin<'_, M>> {
        let pin = self.worker.pin()?;
        self.check.confirm(&self.worker)?;
        Ok(pin)
    }

    /// Pins the worker, which is about to wait: fails if the map was dropped just now, on any memory.
    pub(in crate::index) fn pin_to_wait(&self) -> Result<Pin<'_, M>> {
        let pin = self.worker.pin()?;
        self.check.confirm_now(&self.worker)?;
        Ok(pin)
    }

    /// Which structure the handle is for.
    pub(in crate::index) fn identity(&self) -> Identity {
        self.check.identity()
    }

    /// Where its header is.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn header(&self) -> u64 {
        self.header
    }

    fn root(&self) -> SyncWord {
        sync_word(self.header)
    }

    /// The number of keys: exact when nobody writes, else a number that it had during the call, give or take the writes
    /// in flight; 0 of a map that was dropped. Cost: one peek for each worker.
    pub fn len(&self) -> u64 {
        let pin = self.pin();
        if matches!(pin, Err(Error::Dropped)) {
            return 0;
        }
        count::total(&self.worker, |worker| owned_word(share(self.header, worker)))
    }

    /// Whether it has no keys; see [`OrderedMap::len`].
    ///
    /// Cost: that of [`OrderedMap::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A worker's share of the map whose header is at `header`.
fn share(header: u64, worker: u64) -> u64 {
    header + HEADER_BYTES + worker * SHARE_BYTES
}

/// Bytes of a map's header with all shares: whole lines.
pub(in crate::index) fn header_bytes<M: Memory>(worker: &Worker<M>) -> u64 {
    share(0, u64::from(worker.geometry().parameters.workers))
}

/// Allocates and writes a map's header as the worker's auxiliary object. It is written back with the next fence, before
/// it is published.
fn create<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    create_with(worker, 0)
}

/// The same, with so many bytes behind the header, which the caller writes, and writes back. They begin at
/// [`header_bytes`].
pub(in crate::index) fn create_with<M: Memory>(worker: &Worker<M>, more: u64) -> Result<u64> {
    let workers = u64::from(worker.geometry().parameters.workers);
    let len = header_bytes(worker);
    let header = heap::allocate_for(
        worker,
        worker.actor(),
        len + more,
        worker.record().aux_object(),
        0,
    )?;
    let mem = worker.mem();
    unpublished(header, len).zero(mem);
    unpublished(header + 64, 8).write_word(mem, MAGIC);
    unpublished(header + 72, 8).write_word(mem, workers);
    dropping::write_created(worker, header, KIND_ORDERED);
    mem.write_back(header, len);
    Ok(header)
}
