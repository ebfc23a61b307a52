//! Parts of a pool at which damage is aimed, and which are then used: in a pool with everything in it, the maps take
//! most of the bytes.

use std::ops::Range;

use cenote::Pool;
use cenote::memory::Mapped;
use cenote::pod::names::directory;

/// A part of what [`fill`](crate::fill) makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Everything,
    /// Locks of all kinds, and arrays of them.
    Locks,
    /// A group, its members and its events.
    Groups,
    /// A list of tasks and its results.
    Tasks,
    /// The directory of names.
    Names,
}

/// How much of an object is aimed at, and how much of what it refers to.
const OBJECT: u64 = 512;
const REFERRED: u64 = 256;
/// How many references are followed.
const MANY: usize = 200;

impl Part {
    /// Each of them.
    pub const ALL: [Self; 5] = [
        Self::Everything,
        Self::Locks,
        Self::Groups,
        Self::Tasks,
        Self::Names,
    ];

    /// Its name, as children get it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Locks => "locks",
            Self::Groups => "groups",
            Self::Tasks => "tasks",
            Self::Names => "names",
        }
    }

    /// That of a name; everything, if there is none.
    pub fn of_name(name: &str) -> Self {
        let named = Self::ALL.into_iter().find(|part| part.name() == name);
        named.unwrap_or_default()
    }

    fn has(self, name: &str) -> bool {
        match self {
            Self::Everything | Self::Names => false,
            Self::Locks => crate::content::LOCKS.contains(&name),
            Self::Groups => name == crate::content::GROUP,
            Self::Tasks => name == crate::content::TASKS,
        }
    }

    /// Where it is in a sound pool: its objects, and what they refer to, twice. Parts that are hit too often anyway are
    /// left out.
    pub fn ranges<M: Mapped>(self, pool: &Pool<M>, bytes: &[u8]) -> Vec<Range<u64>> {
        let Ok(worker) = pool.worker() else {
            return Vec::new();
        };
        let geometry = *worker.geometry();
        let names = directory::list(&worker).unwrap_or_default();
        if self == Self::Names {
            let first = geometry.entry(0);
            let size = geometry.entry(1) - first;
            let entries = first..first + size * (names.len() as u64 + 2);
            let headers = names.iter().map(|named| named.offset..named.offset + 16);
            return std::iter::once(entries).chain(headers).collect();
        }
        let objects = names.iter().filter(|named| self.has(&named.name));
        let mut ranges: Vec<_> = objects.map(|named| named.offset..named.offset + OBJECT).collect();
        for _ in 0..2 {
            let offsets = ranges.iter().flat_map(|range| words(bytes, range));
            let referred: Vec<_> = offsets
                .filter(|word| {
                    word % 16 == 0 && (geometry.data..bytes.len() as u64 - REFERRED).contains(word)
                })
                .map(|word| word..word + REFERRED)
                .collect();
            ranges.extend(referred);
            ranges.truncate(MANY);
        }
        ranges
    }
}

fn words(bytes: &[u8], range: &Range<u64>) -> impl Iterator<Item = u64> {
    let bytes = bytes
        .get(range.start as usize..range.end as usize)
        .unwrap_or_default();
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}
