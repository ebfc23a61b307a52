//! The hash map: CLevelHash (pcc-indexes, section 6.1) with the P³ guidelines, and beyond them.
//!
//! A map is a list of [levels](level), oldest first; normally there is one. A key belongs to one group of two lines.
//! All bindings are in [slots](slot), changed by single compare-exchanges; [objects](object) are written once. To
//! grow, a next level is linked, and all writers help to move groups to it: slots are frozen, copied and
//! marked moved, one by one, so that a helper may die after any step.
//!
//! Differences from the paper, and why:
//! - one group of two adjacent lines instead of two buckets per level, so that one flush and one fence fetch a
//!   bucket, and moving and iterating are local;
//! - chains instead of resizing when a bucket is full: growth blocks nobody;
//! - slots never become empty again, and those of removed keys are [claimed](claim) before they bind another key. That
//!   makes insertion unique without locks and without duplicates to clean up;
//! - a slot itself says whether it is still valid (`moved`), so that a stale root is harmless: a lookup that
//!   speculates on a cached root need not check it, neither for a hit nor for a miss.
//!
//! Protocol, proofs and crash analysis: `docs/protocols/hash.md`.

pub mod audit;
pub mod batch;
mod claim;
mod clear;
pub mod iter;
pub mod level;
pub mod line;
pub mod object;
pub mod probe;
pub mod resize;
pub mod slot;
pub mod update;

use std::cell::Cell;
use std::rc::Rc;

use level::Level;

use crate::causes::Structure;
use crate::error::{Error, Result};
use crate::index::common::count;
use crate::index::common::guidelines::Guidelines;
use crate::index::common::kind::of_kind;
use crate::index::common::value::Value;
use crate::memory::checked::{owned_word, published, sync_word, unpublished, word_line};
use crate::memory::{Memory, OwnedWord, SyncWord};
use crate::pod::names::open::opened;

use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::alloc::heap;
use crate::pod::instance::worker::Pin;
use crate::pod::names::directory::{self, KIND_HASH, Named};
use crate::pod::names::dropping::{self, Check, Identity};

pub use crate::index::common::pair::KEY_MAX;

/// Bytes of a map's header before the replicas.
const HEADER_BYTES: u64 = 128;
/// Bytes of each worker's share: a line for its replica of the root, one for its count.
const SHARE_BYTES: u64 = 128;
const MAGIC: u64 = u64::from_le_bytes(*b"CLEVEL\x01\x00");
const FLAG_IN_PLACE: u64 = 1;
/// A value that no replica ever holds.
const NEVER: u64 = u64::MAX;

/// What a check of the root finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The level that was used last.
    Same,
    /// Another level, by its reference.
    Other(u64),
    /// No level: nothing was ever put into the map.
    None,
}

/// A worker's handle on a map. Each thread has its own.
pub struct HashMap<M: Memory> {
    worker: Rc<Worker<M>>,
    header: u64,
    check: Check,
    seed: u64,
    in_place: bool,
    guidelines: Guidelines,
    replica: SyncWord,
    count: OwnedWord,
    /// The reference of the level last used; 0 if there is none.
    cached: Cell<u64>,
    /// That level.
    cached_level: Cell<Level>,
    /// The worker's stamp when the reference was read from the pool.
    cached_stamp: Cell<u64>,
    /// The replica's value while that level is the one to begin with; [`NEVER`] if lookups have no fast path.
    current: Cell<u64>,
    /// Whether the last write replaced a value: the next one is likely to.
    has_replaced: Cell<bool>,
}

impl<M: Memory> HashMap<M> {
    /// Opens the map of a name, or creates it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str, guidelines: Guidelines) -> Result<Self> {
        let make = || create(&worker, guidelines);
        let find = || directory::find_or_create(&worker, name, KIND_HASH, make).map(Some);
        opened(&worker, find, |named| Self::of(worker.clone(), named, guidelines))?.ok_or(Error::Dropped)
    }

    /// Opens the map of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str, guidelines: Guidelines) -> Result<Self> {
        let find = || directory::find(&worker, name);
        opened(&worker, find, |named| Self::of(worker.clone(), named, guidelines))?.ok_or_else(|| {
            Error::NoSuch {
                kind: Structure::Map,
                name: name.to_owned(),
            }
        })
    }

    /// Opens the map that an entry names, unless it has been dropped. The worker is pinned.
    pub(crate) fn of(worker: Rc<Worker<M>>, named: Named, guidelines: Guidelines) -> Result<Self> {
        let identity = Identity::of(&worker, &named).ok_or(Error::Dropped)?;
        Self::with(worker, of_kind(named, KIND_HASH)?, guidelines, identity)
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

    fn with(worker: Rc<Worker<M>>, header: u64, guidelines: Guidelines, identity: Identity) -> Result<Self> {
        let workers = u64::from(worker.geometry().parameters.workers);
        worker.check("a map's header", header, HEADER_BYTES + workers * SHARE_BYTES)?;
        let mem = worker.mem();
        let mut words = [0; 32];
        published(header + 64, 32).copy_to(mem, &mut words);
        let word = |n: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&words[n * 8..n * 8 + 8]);
            u64::from_le_bytes(word)
        };
        if !header.is_multiple_of(64) || word(0) != MAGIC || word(3) != workers {
            return Err(Error::corrupt("a map's header", header));
        }
        let share = share(header, u64::from(worker.me() - 1));
        // The place may have been used from another host since this one read it.
        if !M::COHERENT && !mutant::is(Mutant::CountNotDropped) {
            word_line(share + 64).fetch(mem);
        }
        Ok(Self {
            header,
            check: Check::new(identity),
            seed: word(1),
            in_place: word(2) & FLAG_IN_PLACE != 0,
            guidelines,
            replica: sync_word(share),
            count: owned_word(share + 64),
            cached: Cell::new(0),
            cached_level: Cell::new(Level::new(0, 0)),
            has_replaced: Cell::new(false),
            cached_stamp: Cell::new(0),
            current: Cell::new(NEVER),
            worker,
        })
    }

    /// The handle's worker.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn worker(&self) -> &Rc<Worker<M>> {
        &self.worker
    }

    /// Pins the worker. Fails if the map was dropped.
    #[inline(always)]
    pub(super) fn pin(&self) -> Result<Pin<'_, M>> {
        let pin = self.worker.pin()?;
        self.check.confirm(&self.worker)?;
        Ok(pin)
    }

    /// Where its header is.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn header(&self) -> u64 {
        self.header
    }

    /// Whether small values are overwritten in place.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    fn root(&self) -> SyncWord {
        sync_word(self.header)
    }

    /// The order of the first level; no level has a lower one.
    fn floor(&self) -> SyncWord {
        sync_word(self.header + 8)
    }

    /// A key's hash, which determines its group; see [`level::Level::group_of`].
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn hash_of(&self, key: &[u8]) -> u64 {
        self.hash(key)
    }

    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        match <[u8; 8]>::try_from(key) {
            Ok(key) => hash_word(u64::from_le_bytes(key) ^ self.seed),
            Err(_) => xxhash_rust::xxh3::xxh3_64_with_seed(key, self.seed),
        }
    }

    /// The level to begin with; `None` while the map has none. The worker is pinned.
    #[inline]
    fn oldest(&self) -> Result<Option<Level>> {
        match self.check_root() {
            Root::Same => Ok(Some(self.cached_level.get())),
            Root::Other(reference) => self.decode_oldest(reference),
            Root::None => Ok(None),
        }
    }

    /// Checks whether the level to begin with is the one that was used last.
    #[inline(always)]
    fn check_root(&self) -> Root {
        let worker = &*self.worker;
        if !M::COHERENT && self.guidelines.speculate && self.cached_stamp.get() == worker.stamp() {
            return Root::Same;
        }
        let reference = if self.guidelines.replicate {
            match self.replica.load(worker.mem()) {
                unset if unset == 0 || unset & level::TENTATIVE != 0 => {
                    resize::adopt_replica(worker, self.header, self.replica, unset)
                }
                reference => reference,
            }
        } else {
            // PAIRS WITH: pod::commit::publish::publish_auxiliary
            self.root().load(worker.mem()) & !level::UPDATING
        };
        if reference == 0 {
            return Root::None;
        }
        if reference != self.cached.get() {
            return Root::Other(reference);
        }
        self.cached_stamp.set(worker.stamp());
        Root::Same
    }

    #[cold]
    fn decode_oldest(&self, reference: u64) -> Result<Option<Level>> {
        let level = Level::decode(&self.worker, reference)?;
        if let Some(level) = level {
            self.cached.set(reference);
            self.cached_level.set(level);
            self.cached_stamp.set(self.worker.stamp());
            let has_fast_path = self.guidelines.replicate;
            self.current.set(if has_fast_path { reference } else { NEVER });
        }
        Ok(level)
    }

    /// Makes the next use of the oldest level read the root.
    fn forget_cached(&self) {
        self.cached_stamp.set(0);
    }

    /// The number of keys: exact when nobody writes, else a number that it had during the call, give or take the writes
    /// in flight; 0 of a map that was dropped. Cost: one peek for each worker.
    pub fn len(&self) -> u64 {
        let pin = self.pin();
        if matches!(pin, Err(Error::Dropped)) {
            return 0;
        }
        count::total(&self.worker, |worker| owned_word(share(self.header, worker) + 64))
    }

    /// Whether it has no keys; see [`HashMap::len`].
    ///
    /// Cost: that of [`HashMap::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key. Nothing is copied: the bytes stay in place while the [`Value`] lives.
    ///
    /// Cost on incoherent memory, with all guidelines: one line fetch, and one miss for the object if this host has
    /// not read it before; without speculation one sync load more, without replication that is a load of a shared word.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_, M>>> {
        let pin = self.pin()?;
        let hash = self.hash(key);
        let found = match self
            .likely_object(&self.worker, hash)
            .and_then(|at| self.small_value(at, key))
        {
            Some(value) => Some(value),
            None => self.find(hash, key)?,
        };
        Ok(found.map(|bytes| Value::new(bytes, pin)))
    }

    /// A copy of the value of a key, made by atomic loads: no reference to its bytes exists. For programs that do not
    /// trust every process that may write to the pool: if one of them changes the value meanwhile, the copy is torn,
    /// and nothing else happens. Keys are compared in place.
    ///
    /// Cost: that of [`HashMap::get`] without its fast path, and the copy.
    pub fn get_copied(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let _pin = self.pin()?;
        match self.slot_of(self.hash(key), key)? {
            Some(slot) => self.copy_of(slot).map(Some),
            None => Ok(None),
        }
    }

    /// A copy of the value of an 8-byte key, if it has 8 bytes. See [`HashMap::get`].
    ///
    /// Cost: as of [`HashMap::get`].
    #[inline(always)]
    pub fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        let hash = self.hash(&key.to_le_bytes());
        let worker = &*self.worker;
        let quickly = worker.briefly(|| {
            if !self.check.is_fresh(worker) {
                return None;
            }
            let (mem, at) = (worker.mem(), self.likely_object(worker, hash)?);
            // PAIRS WITH: index::hash::update::overwrite_likely, index::hash::update::overwrite
            (published(at, 8).read_word(mem) == key).then(|| sync_word(at + 8).load(mem))
        });
        match quickly {
            Some(value) => Ok(Some(value)),
            None => self.get_u64_slowly(hash, key),
        }
    }

    #[inline(never)]
    fn get_u64_slowly(&self, hash: u64, key: u64) -> Result<Option<u64>> {
        let _pin = self.pin()?;
        let found = self.find(hash, &key.to_le_bytes())?;
        Ok(found.and_then(|bytes| bytes.as_bytes().try_into().ok().map(u64::from_le_bytes)))
    }
}

/// The hash of an 8-byte key: two folded multiplications. Part of the pool format.
#[inline]
fn hash_word(word: u64) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    fold(
        fold(word, 0x9e37_79b9_7f4a_7c15) ^ word.rotate_left(32),
        0xd6e8_feb8_6659_fd93,
    )
}

/// A worker's share of the map whose header is at `header`.
fn share(header: u64, worker: u64) -> u64 {
    header + HEADER_BYTES + worker * SHARE_BYTES
}

/// The level after `level`, which has a moved slot. The word that links it is set once and never changes, so a value in
/// this host's cache is right unless it is 0.
fn next_level<M: Memory>(worker: &Worker<M>, level: &Level, speculate: bool) -> Result<Level> {
    let mem = worker.mem();
    let cached = if speculate {
        level.next().load_speculative(mem)
    } else {
        0
    };
    let next = if cached != 0 {
        cached
    } else {
        // The whole line, for the writes that follow: they look into the cache for whether the level moves.
        // PAIRS WITH: pod::commit::publish::publish_auxiliary
        word_line(level.next().offset()).fetch(mem)[0]
    };
    Level::decode(worker, next)?
        .ok_or_else(|| Error::corrupt("a level that moves nowhere, seen", level.offset))
}

/// Allocates and writes a map's header as the worker's auxiliary object. It is written back with the next fence, before
/// it is published.
fn create<M: Memory>(worker: &Worker<M>, guidelines: Guidelines) -> Result<u64> {
    let workers = u64::from(worker.geometry().parameters.workers);
    let len = HEADER_BYTES + workers * SHARE_BYTES;
    let header = heap::allocate_for(worker, worker.actor(), len, worker.record().aux_object(), 0)?;
    let mem = worker.mem();
    unpublished(header, len).zero(mem);
    let id = worker.pod().superblock().id;
    let seed = xxhash_rust::xxh3::xxh3_64_with_seed(&header.to_le_bytes(), id);
    let flags = if guidelines.out_of_place { 0 } else { FLAG_IN_PLACE };
    for (n, value) in [MAGIC, seed, flags, workers].into_iter().enumerate() {
        unpublished(header + 64 + 8 * n as u64, 8).write_word(mem, value);
    }
    dropping::write_created(worker, header, KIND_HASH);
    mem.write_back(header, len);
    Ok(header)
}
