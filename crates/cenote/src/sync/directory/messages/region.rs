//! What a lock covers: regions of bytes, and which of them have changed since others saw them.
//!
//! A region travels as a whole, and only if the other side has an older one. Regions are reference counted: what waits
//! to be sent is copied when it is written, and not before.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use once_cell::race::OnceBox;

use crate::mutant::{self, Mutant};

/// The most bytes of all regions of a lock.
pub const DATA_MAX: usize = 1 << 20;
/// The most regions of a lock.
pub const REGIONS_MAX: usize = 1024;

/// Whether a lock can have regions of these lengths.
pub fn is_possible(lens: &[u32]) -> bool {
    let mut all = 0_u64;
    lens.iter().for_each(|len| all += u64::from(*len));
    lens.len() <= REGIONS_MAX && all <= DATA_MAX as u64
}

/// The bytes of a region, at an address that is a multiple of 16.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    words: Vec<u128>,
    len: usize,
}

impl Region {
    /// So many zeroes.
    pub fn zeroed(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(size_of::<u128>())],
            len,
        }
    }

    /// A copy of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut region = Self::zeroed(bytes.len());
        region.copy_from_slice(bytes);
        region
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

/// A region in a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// Which, counted from 0.
    pub region: u16,
    /// Its bytes.
    pub bytes: Arc<Region>,
}

/// All regions of a lock, at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Data {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Piece {
    bytes: Arc<Region>,
    /// Whether a thread of the node may have changed it since the node was granted the lock.
    is_changed: bool,
}

impl Data {
    /// Regions of these lengths, as a new lock has them.
    pub fn zeroed(lens: &[u32]) -> Self {
        let piece = |len: &u32| Piece {
            bytes: Arc::new(Region::zeroed(*len as usize)),
            is_changed: false,
        };
        Self {
            pieces: lens.iter().map(piece).collect(),
        }
    }

    /// No region. Stands where data was taken away.
    pub fn none() -> Arc<Self> {
        static NONE: OnceBox<Arc<Data>> = OnceBox::new();
        NONE.get_or_init(Box::default).clone()
    }

    /// How many there are.
    pub fn regions(&self) -> usize {
        self.pieces.len()
    }

    /// A region's bytes, if there is such a region.
    pub fn region(&self, region: usize) -> Option<&[u8]> {
        Some(&self.pieces.get(region)?.bytes)
    }

    /// A region's bytes, to be changed.
    pub fn region_mut(&mut self, region: usize) -> Option<&mut [u8]> {
        let piece = self.pieces.get_mut(region)?;
        piece.is_changed = true;
        let bytes: &mut Region = Arc::make_mut(&mut piece.bytes);
        Some(bytes)
    }

    /// What was changed.
    pub fn changes(&self) -> Vec<Change> {
        let changed = (0..).zip(&self.pieces).filter(|(_, piece)| piece.is_changed);
        changed
            .map(|(region, piece)| Change {
                region,
                bytes: piece.bytes.clone(),
            })
            .collect()
    }

    /// All of it is as the directory has it.
    pub fn forget_changes(&mut self) {
        for piece in &mut self.pieces {
            piece.is_changed = false;
        }
    }

    /// Takes over what others have changed. Returns whether these can be regions of the lock; else nothing is changed.
    pub fn apply(&mut self, changes: &[Change]) -> bool {
        if !fit(changes, |region| Some(self.pieces.get(region)?.bytes.len())) {
            return false;
        }
        for change in changes {
            self.pieces[usize::from(change.region)].bytes = change.bytes.clone();
        }
        true
    }
}

/// All regions of a lock, at its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    pieces: Vec<(Arc<Region>, u64)>,
}

impl Stored {
    /// Regions of these lengths, all zeroes, which no epoch has changed.
    pub fn zeroed(lens: &[u32]) -> Self {
        let piece = |len: &u32| (Arc::new(Region::zeroed(*len as usize)), 0);
        Self {
            pieces: lens.iter().map(piece).collect(),
        }
    }

    /// Their lengths.
    pub fn lens(&self) -> Vec<u32> {
        let pieces = self.pieces.iter();
        pieces.map(|(bytes, _)| bytes.len() as u32).collect()
    }

    /// A region's bytes, if there is such a region.
    pub fn region(&self, region: usize) -> Option<&[u8]> {
        Some(&self.pieces.get(region)?.0)
    }

    /// Whether these can be changes of the lock's regions.
    pub fn admits(&self, changes: &[Change]) -> bool {
        fit(changes, |region| Some(self.pieces.get(region)?.0.len()))
    }

    /// Keeps changes, if they can be such, as those with which an epoch has begun.
    pub fn keep(&mut self, changes: Vec<Change>, epoch: u64) {
        for Change { region, bytes } in changes {
            if let Some((kept, since)) = self.pieces.get_mut(usize::from(region)) {
                *kept = bytes;
                if !mutant::is(Mutant::RemoteRegionNotStamped) {
                    *since = epoch;
                }
            }
        }
    }

    /// What a node lacks that has all that an epoch began with.
    pub fn changed_since(&self, epoch: u64) -> Vec<Change> {
        let is_newer = |piece: &(u16, &(Arc<Region>, u64))| piece.1.1 > epoch;
        let pieces = (0..).zip(&self.pieces).filter(is_newer);
        pieces
            .map(|(region, (bytes, _))| Change {
                region,
                bytes: bytes.clone(),
            })
            .collect()
    }
}

/// Whether changes are of regions that there are, each once and in order, with as many bytes as these have.
fn fit(changes: &[Change], len: impl Fn(usize) -> Option<usize>) -> bool {
    let in_order = changes.windows(2).all(|two| two[0].region < two[1].region);
    in_order
        && changes
            .iter()
            .all(|change| len(usize::from(change.region)) == Some(change.bytes.len()))
}
