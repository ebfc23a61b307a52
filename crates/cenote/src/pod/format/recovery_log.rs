//! The log of recoveries: a ring in the pool, for people.
//!
//! | bytes of an entry | what |
//! |---|---|
//! | 0 | its number, from 1 on |
//! | 8, 16 | the identities of the dead and of its recoverer |
//! | 24 | nanoseconds since 1970 when recovery began |
//! | 32 | nanoseconds that it took |
//! | 40 | process id (low half) and host (high half) of the dead, as it said |
//! | 48 | steps, a bit for each that had something to do ([`Step`](crate::pod::instance::hooks::Step)s from bit 2 on); bit 0: an operation was finished, bit 1: undone, bit 63: a step failed |
//! | 56 | CRC-32C of the rest |
//!
//! **Who writes.** A recoverer takes a number from a counter in the superblock, and with it an entry, and writes that
//! as a whole. A crash leaves an entry that is old, or whose checksum is wrong; so do two writers that are a whole
//! round apart. Readers skip entries with a wrong checksum. The log decides nothing.

use super::geometry::{Geometry, RECOVERY_LOG_BYTES};
use super::superblock::LOGGED;
use crate::memory::checked::{owned_word, word_line};
use crate::memory::{LINE, Memory};

const ENTRIES: u64 = RECOVERY_LOG_BYTES / LINE;
/// The start value of checksums, so that zeroes are no entry.
const CHECKSUM_START: u32 = 0x6c6f_6773;

/// One recovery of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its number since the pool was created, from 1 on.
    pub number: u64,
    /// The identity of the dead worker: its place plus one in the low half, its generation in the high half.
    pub dead: u64,
    /// The identity of the worker that recovered it.
    pub recoverer: u64,
    /// Nanoseconds since 1970 when it began.
    pub began: u64,
    /// Nanoseconds that it took.
    pub took: u64,
    /// The process id of the dead, in its own namespace.
    pub pid: u32,
    /// The host of the dead.
    pub host: u32,
    /// The steps that had something to do: see the [module documentation](self).
    pub done: u64,
}

/// The operation of the dead had happened, and was finished.
pub const FINISHED: u64 = 1;
/// The operation of the dead had not happened, and was undone.
pub const UNDONE: u64 = 2;
/// A registered step could not be done: the structure is damaged.
pub const FAILED: u64 = 1 << 63;
/// The bit of the first registered step.
pub const FIRST_STEP: u32 = 2;

impl Entry {
    fn words(&self) -> [u64; 7] {
        [
            self.number,
            self.dead,
            self.recoverer,
            self.began,
            self.took,
            u64::from(self.pid) | u64::from(self.host) << 32,
            self.done,
        ]
    }
}

fn checksum(words: &[u64]) -> u64 {
    let sum = words.iter().fold(CHECKSUM_START, |sum, word| {
        crc32c::crc32c_append(sum, &word.to_le_bytes())
    });
    sum.into()
}

fn place(geometry: &Geometry, number: u64) -> u64 {
    geometry.recovery_log + number % ENTRIES * LINE
}

/// Writes an entry; its number is chosen here.
///
/// Cost: one fetch-add, and one line written back and waited for.
pub fn append<M: Memory>(mem: &M, geometry: &Geometry, entry: Entry) {
    // NO PAIR: count
    let number = LOGGED.fetch_add(mem, 1).wrapping_add(1);
    let words = Entry { number, ..entry }.words();
    let at = place(geometry, number);
    for (n, word) in words.into_iter().chain([checksum(&words)]).enumerate() {
        owned_word(at + 8 * n as u64).set(mem, word);
    }
    // Written back before the record is free; and dropped, as the next writer here may be on another host.
    mem.invalidate(at, LINE);
    mem.fence();
}

/// The last recoveries, the latest first; at most as many as there is room for.
///
/// Cost: a line for each.
pub fn read<M: Memory>(mem: &M, geometry: &Geometry) -> Vec<Entry> {
    let last = LOGGED.load(mem);
    (last.saturating_sub(ENTRIES)..last)
        .rev()
        .filter_map(|before| {
            let [number, dead, recoverer, began, took, of, done, sum] =
                word_line(place(geometry, before + 1)).fetch(mem);
            let is_whole = checksum(&[number, dead, recoverer, began, took, of, done]) == sum;
            (is_whole && number == before + 1).then_some(Entry {
                number,
                dead,
                recoverer,
                began,
                took,
                pid: of as u32,
                host: (of >> 32) as u32,
                done,
            })
        })
        .collect()
}
