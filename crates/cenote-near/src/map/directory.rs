//! Where subranges are: hash tables by shifts, and an ordered index of starts.
//!
//! Level 0 has the coarsest shift. Subranges are disjoint, so of the tables that have a key's prefix, one at most has
//! an entry. Entries have numbers, which stay while their subrange does. No hash table is ever gone through, so what
//! the host does depends on the operations alone.
//!
//! Beyond the paper, an array says of each region of the coarsest shift which tables have entries there: one that was
//! never split takes no probe of a table.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};

/// Where a subrange's keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Module(u32),
    Host(BTreeMap<u64, u64>),
}

/// What the host knows of a subrange.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub start: u64,
    pub level: u8,
    pub place: Place,
    pub keys: u64,
    /// The least key, before the batch.
    pub least: Option<u64>,
    /// Keys that it has for certain at this point of the batch.
    pub sure: u64,
    /// The least key may be deleted by now.
    pub least_in_doubt: bool,
    /// An insert of this batch goes here, so it may have keys though it had none.
    pub grows: bool,
    /// Its module had no room for it.
    pub absent: bool,
    /// Operations of the batch that is prepared.
    pub load: u64,
    /// Batches in a row with little load, for pulled ones.
    pub cold: u32,
}

impl Entry {
    pub fn new(start: u64, level: u8, place: Place, keys: u64, least: Option<u64>) -> Self {
        Self {
            start,
            level,
            place,
            keys,
            least,
            sure: keys,
            least_in_doubt: false,
            grows: false,
            absent: false,
            load: 0,
            cold: 0,
        }
    }

    pub fn module(&self) -> Option<u32> {
        match self.place {
            Place::Module(module) => Some(module),
            Place::Host(_) => None,
        }
    }

    /// Whether it has, for certain, a key that is no greater than this one; its last key is given.
    pub fn surely_has_up_to(&self, key: u64, last: u64) -> bool {
        let least_is = !self.least_in_doubt && self.least.is_some_and(|least| least <= key);
        least_is || (self.sure > 0 && last <= key)
    }
}

/// Has tables hash by a number that is drawn: who chooses keys cannot choose those that fall together.
#[derive(Clone)]
pub(super) struct Drawn(u64);

impl Drawn {
    pub fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Drawn {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(self.0)
    }
}

/// Mixes a key's bits: tables are probed by prefixes, whose low bits are alike.
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = self.0.rotate_left(8) ^ u64::from(byte);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }
}

/// The finaliser of SplitMix64.
pub(crate) fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// What is in a region of the coarsest shift.
#[derive(Clone, Copy, Default)]
struct Region {
    /// A bit for each level that has had entries since there was none.
    levels: u64,
    entries: u32,
    /// The entry of level 0, if there is one: then it is the only one.
    whole: u32,
}

/// All subranges.
pub(super) struct Directory {
    shifts: Vec<u8>,
    regions: Vec<Region>,
    tables: Vec<HashMap<u64, u32, Drawn>>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    order: BTreeMap<u64, u32>,
    version: u64,
}

impl Directory {
    /// None yet; the shifts descend.
    pub fn new(shifts: Vec<u8>) -> Self {
        let regions = shifts.first().map_or(0, |shift| 64 - shift);
        Self {
            regions: vec![Region::default(); 1 << regions],
            tables: vec![HashMap::with_hasher(Drawn::new()); shifts.len()],
            shifts,
            entries: Vec::new(),
            free: Vec::new(),
            order: BTreeMap::new(),
            version: 0,
        }
    }

    /// Another one whenever a subrange has come, gone, or moved.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A subrange is elsewhere from now on.
    pub fn set_place(&mut self, id: u32, place: Place) {
        self.version += 1;
        self.entry_mut(id).place = place;
    }

    pub fn levels(&self) -> u8 {
        self.shifts.len() as u8
    }

    pub fn shift(&self, level: u8) -> u8 {
        self.shifts[usize::from(level)]
    }

    /// The start and the last key of the subrange of a level that has a key.
    pub fn ends(&self, level: u8, key: u64) -> (u64, u64) {
        let inner = u64::MAX
            .checked_shr(64 - u32::from(self.shift(level)))
            .unwrap_or(0);
        (key & !inner, key | inner)
    }

    pub fn last(&self, id: u32) -> u64 {
        let entry = self.entry(id);
        self.ends(entry.level, entry.start).1
    }

    fn prefix(&self, level: u8, key: u64) -> u64 {
        key.checked_shr(self.shift(level).into()).unwrap_or(0)
    }

    /// The subrange of a key, and how many probes that took: of the region, and if that is split, of the tables that
    /// have entries there, from fine to coarse.
    pub fn locate(&self, key: u64) -> (Option<u32>, u64) {
        let region = self.regions[self.prefix(0, key) as usize];
        if region.levels == 1 {
            return (Some(region.whole), 1);
        }
        let (mut probes, mut levels) = (1, region.levels);
        while let Some(level) = levels.checked_ilog2() {
            levels ^= 1 << level;
            probes += 1;
            let prefix = self.prefix(level as u8, key);
            if let Some(id) = self.tables[level as usize].get(&prefix) {
                return (Some(*id), probes);
            }
        }
        (None, probes)
    }

    pub fn entry(&self, id: u32) -> &Entry {
        &self.entries[id as usize]
    }

    pub fn entry_mut(&mut self, id: u32) -> &mut Entry {
        &mut self.entries[id as usize]
    }

    /// The subrange that has this start.
    pub fn starting(&self, start: u64) -> Option<u32> {
        self.order.get(&start).copied()
    }

    /// Subranges that have a key from the first to the last, in order.
    pub fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = u32> {
        let before = self.order.range(..first).next_back().map(|(_, id)| *id);
        let before = before.filter(|&id| self.last(id) >= first);
        before
            .into_iter()
            .chain(self.order.range(first..=last).map(|(_, id)| *id))
    }

    /// Subranges that start at or before a key, from the last one back.
    pub fn back_from(&self, key: u64) -> impl Iterator<Item = u32> {
        self.order.range(..=key).rev().map(|(_, id)| *id)
    }

    /// All, by their starts.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.order.values().copied()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn add(&mut self, entry: Entry) -> u32 {
        self.version += 1;
        let (start, level) = (entry.start, entry.level);
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        let prefix = self.prefix(level, start);
        self.tables[usize::from(level)].insert(prefix, id);
        self.order.insert(start, id);
        let region = self.region_mut(start);
        region.levels |= 1 << level;
        region.entries += 1;
        if level == 0 {
            region.whole = id;
        }
        id
    }

    pub fn remove(&mut self, id: u32) -> Entry {
        self.version += 1;
        let gone = Entry::new(0, 0, Place::Module(0), 0, None);
        let entry = std::mem::replace(&mut self.entries[id as usize], gone);
        let prefix = self.prefix(entry.level, entry.start);
        self.tables[usize::from(entry.level)].remove(&prefix);
        self.order.remove(&entry.start);
        self.free.push(id);
        let region = self.region_mut(entry.start);
        region.entries -= 1;
        if region.entries == 0 {
            region.levels = 0;
        }
        entry
    }

    fn region_mut(&mut self, key: u64) -> &mut Region {
        let region = self.prefix(0, key) as usize;
        &mut self.regions[region]
    }

    /// The level of a new subrange for a key that none has: the coarsest that is free, which is what the splits around
    /// it have left; or the finest.
    pub fn gap(&self, key: u64, finest: bool) -> u8 {
        let free = |level: &u8| {
            let (start, last) = self.ends(*level, key);
            self.order.range(start..=last).next().is_none()
        };
        let most = self.levels() - 1;
        if finest {
            most
        } else {
            (0..most).find(free).unwrap_or(most)
        }
    }

    /// Bytes of the host's memory that it takes, about: entries, tables at seven eighths, the index, regions, and
    /// pulled pairs.
    pub fn memory_bytes(&self, pulled_keys: u64) -> u64 {
        let each = std::mem::size_of::<Entry>() + 16 * 8 / 7 + 24;
        let regions = self.regions.len() * std::mem::size_of::<Region>();
        (self.len() * each + regions) as u64 + pulled_keys * 24
    }
}
