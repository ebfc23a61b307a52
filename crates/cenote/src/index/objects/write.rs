//! Making an object, and filling it. Nobody else can find it meanwhile.

use std::cell::Cell;
use std::time::Duration;

use super::ObjectStore;
use super::layout::{Head, ID_MAX, METADATA_MAX, Named, SIZE_MAX, name_key, now_ms, storage_key};
use super::slots::{NUMBER_MAX, held, releasing};
use crate::causes::Setting;
use crate::error::{Error, Result};
use crate::index::ordered::write::Made;
use crate::memory::checked::{guarded, unpublished};
use crate::memory::{Mapped, Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::instance::crash::{Point, crash_point};

/// What a new object has besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewObject<'a> {
    /// Bytes that say what it is, at most 1 MiB.
    pub metadata: &'a [u8],
    /// How long it lives.
    pub ttl: Ttl,
}

/// How long an object lives, from when it is made. One whose time is over is found by nobody, and is deleted when
/// somebody asks for it, or room is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// As long as the store's settings say.
    #[default]
    StoreDefault,
    /// For ever.
    Never,
    /// So long, in whole milliseconds, rounded up.
    After(Duration),
}

impl Ttl {
    /// When the time of an object is over that is made now, in milliseconds since 1970; 0 for never.
    fn expires(self, now_ms: u64, store_ms: Option<u64>) -> u64 {
        let ttl_ms = match self {
            Self::StoreDefault => store_ms,
            Self::Never => None,
            Self::After(ttl) => Some(u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)),
        };
        ttl_ms.map_or(0, |ttl_ms| now_ms.saturating_add(ttl_ms))
    }
}

/// An object that is being filled. It must be sealed or aborted.
#[must_use]
#[derive(Debug)]
pub struct Unsealed {
    pub(super) named: Named,
    pub(super) slot: SyncWord,
    pub(super) id: Vec<u8>,
}

impl Unsealed {
    /// Bytes of its data.
    pub fn size(&self) -> u64 {
        self.named.size
    }

    /// Where its data begins: a multiple of 64.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn data(&self) -> u64 {
        self.named.data
    }

    /// Its bytes.
    pub(crate) fn as_mut_slice<M: Mapped>(&mut self, mem: &M) -> &mut [u8] {
        let (at, len) = (self.named.data, self.named.size);
        let first = guarded(at, len).pointer(mem);
        // SAFETY: the bytes are mapped as long as `mem` is, which the store keeps as long as it lends itself; nobody
        // else may read or write them before they are sealed, which takes this away.
        unsafe { std::slice::from_raw_parts_mut(first, len as usize) }
    }
}

impl<M: Memory> ObjectStore<M> {
    /// Makes an object of so many bytes, which are undefined; `None` if there is one of this id.
    ///
    /// Cost: that of [`OrderedMap::insert`](crate::OrderedMap::insert), two exchanges, and a sync store.
    pub fn make(&self, id: &[u8], size: u64, new: &NewObject<'_>) -> Result<Option<Unsealed>> {
        check(id, size, new)?;
        if let Some(named) = self.find(&name_key(id))? {
            if !has_expired(self.mem(), named.expires) {
                return Ok(None);
            }
            self.expire(id)?;
        }
        self.make_beside(id, size, new).map(Some)
    }

    /// The same, whether there is one of this id or not.
    ///
    /// Cost: that of [`ObjectStore::make`], without the search.
    pub fn make_beside(&self, id: &[u8], size: u64, new: &NewObject<'_>) -> Result<Unsealed> {
        check(id, size, new)?;
        if self.worker().is_forked() {
            return Err(Error::Forked);
        }
        self.finish_deferred();
        let mem = self.mem();
        let slot = self.take_slot()?;
        let number = match self.hold_number(slot) {
            Ok(number) => number,
            Err(error) => {
                self.slots.give(slot);
                return Err(error);
            }
        };
        let created = now_ms(mem);
        let head = Head {
            number,
            size,
            created,
            expires: new.ttl.expires(created, self.settings.ttl_ms),
            id,
            metadata: new.metadata,
        };
        let made = self.store(&head);
        mutant::also(Mutant::StoredBeforeSlot, || {
            crash_point(Point::ObjectStored);
            // PAIRS WITH: index::objects::slots::for_each_table
            slot.store_seq_cst(mem, held(number));
        });
        crash_point(Point::ObjectStored);
        match made {
            Ok(named) => {
                self.worker().pod().writes(named.data, named.size);
                Ok(Unsealed {
                    named,
                    slot,
                    id: id.to_vec(),
                })
            }
            Err(error) => {
                // PAIRS WITH: index::objects::slots::for_each_table
                slot.store_seq_cst(mem, releasing(number));
                self.slots.give(slot);
                Err(error)
            }
        }
    }

    /// The next number, which a slot holds. From then on the store stays, even if it is dropped.
    fn hold_number(&self, slot: SyncWord) -> Result<u64> {
        let mem = self.mem();
        let _pin = self.map.pin()?;
        // NO PAIR: count
        let number = self.meta.numbers().fetch_add(mem, 1).wrapping_add(1);
        if number == 0 || number > NUMBER_MAX {
            return Err(Error::corrupt("the number of the last object", number));
        }
        if !mutant::is(Mutant::StoredBeforeSlot) {
            // Before the storage: if this process dies, recovery searches for the storage.
            // PAIRS WITH: index::objects::slots::for_each_table
            slot.store_seq_cst(mem, held(number));
        }
        crash_point(Point::ObjectSlot);
        Ok(number)
    }

    /// Makes a storage.
    fn store(&self, head: &Head<'_>) -> Result<Named> {
        let mem = self.mem();
        let len = head.value_len();
        self.keep_quota(len)?;
        let named = Cell::new(None);
        let make = |value| named.set(Some(head.write(mem, value)));
        let made = Made { len, make: &make };
        let key = storage_key(head.number);
        // Before the storage is there: the thread that removes it subtracts.
        // NO PAIR: count
        self.meta.bytes().fetch_add(mem, len);
        crash_point(Point::ObjectCounted);
        let inserted = self.with_room(len, |waits| self.map.insert_made(&key, made, waits));
        match (inserted, named.get()) {
            (Ok(true), Some(named)) => Ok(named),
            (Ok(_), _) => Err(Error::corrupt("a storage of a new number, seen", head.number)),
            (Err(error), _) => {
                // NO PAIR: count
                self.meta.bytes().fetch_add(mem, len.wrapping_neg());
                Err(error)
            }
        }
    }

    /// Writes some of an object's bytes.
    ///
    /// # Panics
    ///
    /// If they go beyond its end.
    pub fn fill(&self, object: &Unsealed, from: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        let ends_inside = from.checked_add(len).is_some_and(|end| end <= object.named.size);
        assert!(
            ends_inside,
            "bytes from {from} on, {len}, of an object of {}",
            object.named.size
        );
        // A forked child has its parent's objects, which are the parent's to fill.
        if !self.worker().is_forked() {
            unpublished(object.named.data + from, len).write(self.mem(), bytes);
        }
    }

    /// Whether there is an object of this id, whose time is not over.
    ///
    /// Cost: that of [`OrderedMap::get`](crate::OrderedMap::get).
    pub fn contains(&self, id: &[u8]) -> Result<bool> {
        check_id(id)?;
        Ok(self
            .find(&name_key(id))?
            .is_some_and(|named| !has_expired(self.mem(), named.expires)))
    }

    /// What a name refers to.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<Named>> {
        let value = self.map.get(key)?;
        value
            .map(|value| Named::decode(self.worker(), &value))
            .transpose()
    }
}

/// Whether an object can have this id.
pub(super) fn check_id(id: &[u8]) -> Result<()> {
    match id.len() <= ID_MAX {
        true => Ok(()),
        false => Err(Error::KeyTooLong {
            len: id.len(),
            max: ID_MAX,
        }),
    }
}

/// Whether the time of an object is over.
pub(super) fn has_expired<M: Memory>(mem: &M, expires: u64) -> bool {
    expires != 0 && now_ms(mem) >= expires
}

fn check(id: &[u8], size: u64, new: &NewObject<'_>) -> Result<()> {
    check_id(id)?;
    if size > SIZE_MAX || new.metadata.len() > METADATA_MAX {
        return Err(Error::InvalidOption {
            option: Setting::ObjectSize,
            value: format!("{size} bytes, {} of metadata", new.metadata.len()),
            why: "an object has at most 2^47 bytes, and its metadata 2^20",
        });
    }
    Ok(())
}
