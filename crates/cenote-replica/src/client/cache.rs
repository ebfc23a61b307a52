//! The adaptive index cache: where a client has last seen the objects of keys (section 4.6 of the FUSEE paper).
//!
//! An operation reads an object that it knows of in the same round trip as the key's slots. If a slot of the key names
//! that object, it is the key's, and what was read is its content. **For that the memory must have held the same object
//! whenever it was read**, before the slots or after them. It has, if the object was seen in the era that the operation
//! begins in. Say that this is era *e*. Nobody had taken the object out of the index when it was seen, so the client
//! that does takes it out later, and knows era *e* - 1 at least, as the era is counted on only when all clients know
//! the present one. What was retired then is freed when the least era of all operations is *e* + 1. This operation
//! began in *e*, and goes on.
//!
//! Eras begin anew with a master: clients that have not heard of it know eras of the last one, which are far behind,
//! until it has closed all regions. So an entry also has the number of the view in which it was made: a client that has
//! the view of the closing has the new eras.
//!
//! An older entry says nothing, as its memory may have been freed and used again for the same key: an operation could
//! read the old object and then the slot of the new one. Each use renews an entry, so the keys that are used several
//! times in an era stay.
//!
//! An object of a key that is often changed is read in vain. So an entry counts how often it was asked for, and how
//! often it was out of date; above [`Caching::invalid_max`] nothing is read along with the slots until enough of them
//! have been right again.

use crate::index::layout::Hash;
use crate::mutant::{self, Mutant};
use crate::slot::value::{Content, Slot};
use crate::verbs::Address;

/// How a client caches where objects are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caching {
    /// Entries; each has 32 bytes. Without any nothing is cached.
    pub entries: usize,
    /// Of so many uses of an entry, in percent, the object may have been another one; above that it is not read along
    /// with the slots.
    pub invalid_max: u32,
}

impl Default for Caching {
    /// 16,384 entries, and half of the uses.
    fn default() -> Self {
        Self {
            entries: 1 << 14,
            invalid_max: 50,
        }
    }
}

/// Uses after which the counts are halved, so that they follow the key's present use.
const USES_MAX: u16 = 64;

/// Where a key's object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Its first byte.
    pub at: Address,
    /// Its bytes.
    pub len: u32,
}

/// When an operation began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moment {
    /// The era.
    pub era: u64,
    /// The number of the view.
    pub view: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    prefix: u64,
    place: Place,
    seen: Moment,
    uses: u16,
    invalid: u16,
}

/// The entries, one for each remainder of a key's hash.
#[derive(Debug, Default)]
pub(super) struct Cache {
    caching: Caching,
    entries: Vec<Option<Entry>>,
}

impl Cache {
    /// An empty one.
    pub fn new(caching: Caching) -> Self {
        Self {
            caching,
            entries: Vec::new(),
        }
    }

    /// The object of a key to read along with its slots, by an operation that began then.
    pub fn place(&self, hash: &Hash, now: Moment) -> Option<Place> {
        let entry = self.entry(hash)?;
        let is_present = entry.seen == now || mutant::is(Mutant::CachedForEver);
        let is_worth_it = u32::from(entry.invalid) * 100 <= u32::from(entry.uses) * self.caching.invalid_max;
        (is_present && is_worth_it).then_some(entry.place)
    }

    /// A key's slot had this, as an operation saw that began then.
    pub fn saw(&mut self, hash: &Hash, slot: Slot, now: Moment) {
        let Some(place) = place_of(slot) else { return };
        let (mut uses, mut invalid) = match self.entry(hash) {
            Some(known) => (known.uses + 1, known.invalid + u16::from(known.place != place)),
            None => (0, 0),
        };
        if uses > USES_MAX {
            (uses, invalid) = (uses / 2, invalid / 2);
        }
        self.put(hash, place, now, (uses, invalid));
    }

    /// An operation that began then has put this into a key's slot.
    pub fn wrote(&mut self, hash: &Hash, slot: Slot, now: Moment) {
        let Some(place) = place_of(slot) else { return };
        let counts = self
            .entry(hash)
            .map_or((0, 0), |known| (known.uses, known.invalid));
        self.put(hash, place, now, counts);
    }

    /// A key is bound to nothing.
    pub fn forget(&mut self, hash: &Hash) {
        if self.entry(hash).is_some() {
            let number = self.number(hash);
            self.entries[number] = None;
        }
    }

    fn put(&mut self, hash: &Hash, place: Place, seen: Moment, (uses, invalid): (u16, u16)) {
        if self.caching.entries == 0 {
            return;
        }
        if self.entries.is_empty() {
            self.entries.resize(self.caching.entries, None);
        }
        let number = self.number(hash);
        self.entries[number] = Some(Entry {
            prefix: hash.prefix,
            place,
            seen,
            uses,
            invalid,
        });
    }

    fn entry(&self, hash: &Hash) -> Option<&Entry> {
        let entry = self.entries.get(self.number(hash))?.as_ref()?;
        (entry.prefix == hash.prefix).then_some(entry)
    }

    fn number(&self, hash: &Hash) -> usize {
        hash.prefix as usize % self.caching.entries.max(1)
    }
}

/// Where the object of a slot is, if the slot has one and says how long it is.
fn place_of(slot: Slot) -> Option<Place> {
    match slot.content() {
        Content::Object {
            at, len: Some(len), ..
        } => Some(Place { at, len }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, Caching, Moment, Place};
    use crate::index::layout::Hash;
    use crate::slot::value::Slot;
    use crate::verbs::Address;

    fn at(era: u64) -> Moment {
        Moment { era, view: 1 }
    }

    fn slot(hash: &Hash, granule: u32) -> Slot {
        Slot::object(Address::new(1, 64 * granule), hash.fingerprint, 128)
    }

    #[test]
    fn what_was_seen_in_another_era_says_nothing() {
        let (mut cache, hash) = (Cache::default(), Hash::of(b"key"));
        assert_eq!(cache.place(&hash, at(3)), None);
        cache.saw(&hash, slot(&hash, 5), at(3));
        let place = Place {
            at: Address::new(1, 320),
            len: 128,
        };
        assert_eq!(cache.place(&hash, at(3)), Some(place));
        assert_eq!(cache.place(&hash, at(4)), None);
        assert_eq!(cache.place(&hash, Moment { era: 3, view: 2 }), None);
        assert_eq!(cache.place(&Hash::of(b"other"), at(3)), None);
        cache.saw(&hash, slot(&hash, 5), at(4));
        assert_eq!(cache.place(&hash, at(4)), Some(place));
        cache.saw(&hash, Slot::vacant(1), at(5));
        assert_eq!(cache.place(&hash, at(5)), None);
    }

    #[test]
    fn without_entries_nothing_is_cached() {
        let mut cache = Cache::new(Caching {
            entries: 0,
            ..Caching::default()
        });
        let hash = Hash::of(b"key");
        cache.saw(&hash, slot(&hash, 5), at(1));
        cache.forget(&hash);
        assert_eq!(cache.place(&hash, at(1)), None);
    }

    #[test]
    fn keys_that_change_are_not_read_along() {
        let (mut cache, hash) = (Cache::default(), Hash::of(b"key"));
        for change in 0..20 {
            cache.saw(&hash, slot(&hash, change), at(1));
        }
        assert_eq!(cache.place(&hash, at(1)), None);
        // What the client changes itself is no reason.
        for change in 0..20 {
            cache.wrote(&Hash::of(b"own"), slot(&hash, change), at(1));
        }
        assert!(cache.place(&Hash::of(b"own"), at(1)).is_some());
        for _ in 0..40 {
            cache.saw(&hash, slot(&hash, 19), at(1));
        }
        assert!(cache.place(&hash, at(1)).is_some());
    }
}
