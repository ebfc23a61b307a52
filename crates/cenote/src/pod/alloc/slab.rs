//! Objects in slab blocks: where an object's cell is, and how cells change.
//!
//! Every object of a slab has a 16-bit cell: live, free, or being freed by a certain worker (FUSEE's free bitmap,
//! section 4.4, with room for the worker's name). A retired object is still live: its entry in a list says that it is
//! retired (see `retire`). Each change has one possible author, so a plain add on the word of four cells makes it, and
//! after a crash the cell shows whether it was made:
//!
//! | change | author |
//! |---|---|
//! | free -> live | the block's owner (into its reserve) |
//! | live -> free | the same, for what it reserved and never used |
//! | live -> freed by w | the worker that has w's retired list and has named the batch in w's record (see `collect`) |
//! | freed by w -> free | the same, or recovery |

use crate::error::{Error, Result};
use crate::memory::checked::{sync_word, unpublished, word_line};
use crate::memory::{LINE, Memory, SyncWord};

use crate::mutant::{self, Mutant};
use crate::pod::format::block::{Block, CELL_FREE, CELL_LIVE, ExtentState};
use crate::pod::format::class::{Class, TABLE, block_start};
use crate::pod::format::geometry::FRAME;
use crate::pod::instance::worker::Worker;

/// The table word of a frame.
#[inline]
pub fn table_word<M: Memory>(worker: &Worker<M>, frame: u64) -> SyncWord {
    sync_word(worker.geometry().block_table + 8 * frame)
}

/// Where a cell is: the offset of its word, with its number among the word's four in the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellAt(u64);

/// One object's cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The first frame of its block.
    pub frame: u64,
    /// Its class.
    pub class: usize,
    /// Its number in the block.
    pub index: u32,
    /// Where it is.
    pub at: CellAt,
}

/// Where an object lies.
#[derive(Clone, Copy, Debug)]
pub enum Location {
    /// In a slab.
    Slab(Cell),
    /// In frames of its own.
    Extent {
        /// The first.
        frame: u64,
        /// How many.
        frames: u32,
        /// Its state.
        state: ExtentState,
        /// Owner or retirer.
        owner: u16,
    },
}

impl CellAt {
    /// Not looked up, or not found by the fast path.
    pub const UNKNOWN: Self = Self(0);

    /// The cell of object `index` in the block that begins at `frame`.
    #[inline]
    fn new<M: Memory>(worker: &Worker<M>, frame: u64, index: u32) -> Self {
        let word = worker.geometry().frame_offset(frame) + u64::from(index / 4) * 8;
        Self(word | u64::from(index % 4))
    }

    #[inline]
    fn word(self) -> SyncWord {
        sync_word(self.0 & !7)
    }

    #[inline]
    fn shift(self) -> u64 {
        (self.0 & 3) * 16
    }

    /// The first frame of its block, which has all of the block's cells.
    #[inline]
    pub fn frame<M: Memory>(self, worker: &Worker<M>) -> u64 {
        worker.geometry().frame_of(self.0)
    }

    /// What it says.
    #[inline]
    pub fn load<M: Memory>(self, mem: &M) -> u16 {
        (self.word().load(mem) >> self.shift()) as u16
    }

    /// A hint that it will be changed soon.
    #[inline]
    pub fn prefetch<M: Memory>(self, mem: &M) {
        mem.prefetch(self.word().offset());
    }

    /// [`CellAt::change`] of a cell that should say `from`, without a load first; `None`, and nothing has changed, if
    /// it does not.
    #[inline]
    pub fn change_from<M: Memory>(self, mem: &M, from: u16, to: u16) -> Option<u64> {
        let before = self.change(mem, from, to);
        if (before >> self.shift()) as u16 == from {
            return Some(before);
        }
        // Of a damaged pool.
        self.change(mem, to, from);
        None
    }

    /// Changes it; the caller is the only author of this change. Returns the whole word as it was.
    #[inline]
    pub fn change<M: Memory>(self, mem: &M, from: u16, to: u16) -> u64 {
        let delta = u64::from(to).wrapping_sub(u64::from(from)) << self.shift();
        // PAIRS WITH: pod::alloc::heap::take_cells, pod::alloc::orphans::orphan
        self.word().fetch_add(mem, delta)
    }
}

impl Cell {
    /// The cell of object `index` in the block that begins at `frame`.
    #[inline]
    pub fn new<M: Memory>(worker: &Worker<M>, frame: u64, class: usize, index: u32) -> Self {
        Self {
            frame,
            class,
            index,
            at: CellAt::new(worker, frame, index),
        }
    }

    /// What it says.
    #[inline]
    pub fn load<M: Memory>(&self, mem: &M) -> u16 {
        self.at.load(mem)
    }

    /// See [`CellAt::change`].
    #[inline]
    pub fn change<M: Memory>(&self, mem: &M, from: u16, to: u16) -> u64 {
        self.at.change(mem, from, to)
    }
}

/// The cells of the block at `base`, a word after another with its number, from one on. They are fetched by the line;
/// none stays in this host's cache beyond the next fence.
pub fn cell_words<'m, M: Memory>(
    mem: &'m M,
    base: u64,
    layout: &'static Class,
    from: u32,
) -> impl Iterator<Item = (u32, u64)> + 'm {
    let mut line = [0; 8];
    (from..layout.words()).map(move |word| {
        let at = base + 8 * u64::from(word);
        if word == from || at.is_multiple_of(LINE) {
            line = word_line(at & !(LINE - 1)).fetch(mem);
            mem.invalidate(at & !(LINE - 1), LINE);
        }
        (word, line[(at % LINE / 8) as usize])
    })
}

/// Finds the place of an object, checking everything that is read on the way.
#[inline]
pub fn locate<M: Memory>(worker: &Worker<M>, object: u64) -> Result<Location> {
    worker.check("an object's offset", object, 16)?;
    let geometry = worker.geometry();
    let mut frame = geometry.frame_of(object);
    // PAIRS WITH: pod::lock::redo::apply, pod::alloc::heap::allocate_slab
    let mut block = Block::decode(table_word(worker, frame).load(worker.mem()));
    if block == Block::Tail {
        frame = block_start(frame, 2);
        block = Block::decode(table_word(worker, frame).load(worker.mem()));
    }
    let within = object - geometry.frame_offset(frame);
    match block {
        Block::Slab {
            class, ready: true, ..
        } => {
            let class = usize::from(class);
            let layout = TABLE
                .get(class)
                .ok_or_else(|| Error::corrupt("a block's size class", object))?;
            worker.check(
                "a block that ends beyond the pool, seen",
                object - within,
                layout.frames() * FRAME,
            )?;
            worker.alloc.classes.remember(geometry.frame_of(object), class);
            match layout.index_of(within) {
                Some(index) => Ok(Location::Slab(Cell::new(worker, frame, class, index))),
                None => Err(Error::corrupt("an offset between objects", object)),
            }
        }
        Block::Extent { frames, state, owner } if within == 0 => {
            worker.check(
                "an extent that ends beyond the pool, seen",
                object,
                u64::from(frames) * FRAME,
            )?;
            Ok(Location::Extent {
                frame,
                frames,
                state,
                owner,
            })
        }
        _ => Err(Error::corrupt("an object in a block that holds none", object)),
    }
}

/// Whether an object has room for the length that it is thought to have; for checks of a pool. A length that reaches
/// into other objects is damage.
pub fn check_fits<M: Memory>(worker: &Worker<M>, what: &'static str, object: u64, len: u64) -> Result<()> {
    match locate(worker, object)?.capacity() >= len || mutant::is(Mutant::LengthUnjudged) {
        true => Ok(()),
        false => Err(Error::corrupt(what, object)),
    }
}

impl Location {
    /// Bytes that the object may use.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Slab(cell) => u64::from(TABLE[cell.class].size),
            Self::Extent { frames, .. } => u64::from(*frames) * FRAME,
        }
    }

    /// The worker that frees it, or has retired it if it is an extent: index plus one; 0 if it is live; `None` if it is
    /// free.
    #[inline]
    pub fn retirer<M: Memory>(&self, mem: &M) -> Option<u16> {
        match self {
            Self::Slab(cell) => match cell.load(mem) {
                CELL_FREE => None,
                mark => Some(mark),
            },
            Self::Extent {
                state: ExtentState::Retired,
                owner,
                ..
            } => Some(*owner),
            Self::Extent { .. } => Some(CELL_LIVE),
        }
    }
}

/// Drops lines that this host has written from its cache, before another may reuse them unseen.
#[cfg_attr(feature = "mutants", track_caller)]
pub(in crate::pod) fn forget_lines<M: Memory>(mem: &M, at: u64, len: u64) {
    if !M::COHERENT {
        mem.invalidate(at, len);
        mem.fence();
    }
}

/// Marks free all cells of a block that was just allocated. They are sync words from now on: the lines are dropped, or
/// this host would read them as data when the block's memory is used otherwise one day.
pub fn initialise_cells<M: Memory>(worker: &Worker<M>, frame: u64, class: &Class) {
    let mem = worker.mem();
    let base = worker.geometry().frame_offset(frame);
    for word in 0..class.words() {
        unpublished(base + 8 * u64::from(word), 8).write_word(mem, full_word(class, word));
    }
    if mutant::is(Mutant::CellsKept) {
        mem.persist(base, 8 * u64::from(class.words()));
    } else {
        forget_lines(mem, base, 8 * u64::from(class.words()));
    }
}

/// A cell word with all of its objects free; cells that belong to no object stay live, and are never taken.
#[inline]
pub fn full_word(class: &Class, word: u32) -> u64 {
    let cells = (class.objects - word * 4).min(4);
    if cells == 4 {
        u64::MAX
    } else {
        (1 << (16 * cells)) - 1
    }
}

/// The lowest bit of each of a word's four cells.
const LANES: u64 = 0x0001_0001_0001_0001;

/// Which of a word's four cells are free: the lowest bit of each.
#[inline]
pub fn free_lanes(word: u64) -> u64 {
    const LOW: u64 = 0x7fff * LANES;
    // A cell's complement is 0 exactly where it is free; adding carries into the highest bit if a lower one is set.
    let live = !word;
    !(((live & LOW) + LOW) | live) >> 15 & LANES
}

/// Lanes as a mask of four bits.
#[inline]
pub fn mask_of(lanes: u64) -> u64 {
    (lanes | lanes >> 15 | lanes >> 30 | lanes >> 45) & 0xf
}

/// How many lanes there are.
#[inline]
pub fn count_of(lanes: u64) -> u32 {
    (lanes.wrapping_mul(LANES) >> 48) as u32
}

/// The cells of lanes, all ones.
#[inline]
pub fn cells_of(lanes: u64) -> u64 {
    lanes * 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_the_free_cells() {
        let cells = [0u64, 1, 0x8000, 0x0180, 0xfffe, 0xffff];
        for n in 0..cells.len().pow(4) {
            let lanes: Vec<u64> = (0..4)
                .map(|lane| cells[n / cells.len().pow(lane) % cells.len()])
                .collect();
            let word = lanes.iter().rev().fold(0, |word, lane| word << 16 | lane);
            let expected = (0..4)
                .filter(|&lane| lanes[lane] == 0xffff)
                .fold(0, |mask, lane| mask | 1 << lane);
            let free = free_lanes(word);
            assert_eq!(mask_of(free), expected, "{word:#x}");
            assert_eq!(count_of(free), expected.count_ones());
            assert_eq!(cells_of(free) & word, cells_of(free), "free cells are all ones");
            assert_eq!(cells_of(free).count_ones(), 16 * count_of(free));
        }
    }
}
