//! Where everything in a pool is: computed from the parameters in its superblock, never from constants alone.
//!
//! ```text
//! 0        superblock            one page
//!          process table         processes × 256 bytes
//!          worker table          workers × 4 KiB
//!          worker area table     workers × 1 KiB
//!          host table            hosts × 256 bytes
//!          recovery log             8 KiB
//!          directory             entries × 256 bytes
//!          block table           one sync word a frame
//!          hints                 one bit a frame
//!          buddy tree            two bytes a frame, in heap order
//! data     frames of 64 KiB      as many as are committed, up to the maximum
//! ```
//!
//! Everything but the superblock and the first tables is sparse: only what belongs to committed frames is reserved
//! on the file system.

use super::superblock::MemoryKind;
use crate::memory::delegated::{MAILBOX_BYTES, Mailboxes};
use crate::memory::{DeathSlot, LINE};

/// The host id of processes on a machine that is no part of a pod.
pub const NO_HOST: u32 = 0;

/// Bytes of a frame, the smallest block.
pub const FRAME: u64 = 1 << FRAME_SHIFT;
/// Its logarithm.
pub const FRAME_SHIFT: u32 = 16;
/// Bytes of a process entry.
pub const PROCESS_BYTES: u64 = 256;
/// Bytes of a worker record, with the line that has its death slot.
pub const WORKER_BYTES: u64 = 4096;
/// Bytes of it before that line.
pub const RECORD_BYTES: u64 = WORKER_BYTES - LINE;
/// Bytes of a worker area: what a worker shares with workers that wait for it.
pub const WORKER_AREA_BYTES: u64 = 1024;
/// Bytes of a host's entry.
pub const HOST_BYTES: u64 = 256;
/// Bytes of the log of what was recovered.
pub const RECOVERY_LOG_BYTES: u64 = 8192;
/// Bytes of a directory entry.
pub const ENTRY_BYTES: u64 = 256;
/// Most frames a pool may have: 48-bit offsets.
pub const MAX_FRAMES: u64 = 1 << 31;

const PAGE: u64 = 4096;
/// Where a worker area has its mailbox.
const MAILBOX_AT: u64 = 640;
const DATA_ALIGN: u64 = 2 << 20;

/// The parameters of a pool, as its superblock holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Memory kind.
    pub kind: MemoryKind,
    /// Most frames it may grow to.
    pub max_frames: u64,
    /// Places in the process table.
    pub processes: u32,
    /// Places in the worker table.
    pub workers: u32,
    /// Places in the directory.
    pub entries: u32,
    /// Hosts that may share it: ids from 0 to one less.
    pub hosts: u32,
}

/// Offsets of all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// What it was computed from.
    pub parameters: Parameters,
    /// The process table.
    pub process_table: u64,
    /// The worker table.
    pub worker_table: u64,
    /// The worker areas of workers.
    pub worker_area_table: u64,
    /// The host table.
    pub host_table: u64,
    /// The log of what was recovered.
    pub recovery_log: u64,
    /// The directory.
    pub directory: u64,
    /// The block table.
    pub block_table: u64,
    /// The hint bitmap.
    pub hints: u64,
    /// The buddy tree.
    pub tree: u64,
    /// The tree's depth: its leaves are nodes `1 << depth` and up.
    pub depth: u32,
    /// The first frame.
    pub data: u64,
    /// Bytes to map.
    pub mapped: u64,
}

impl Parameters {
    /// Whether a pool can have these; the reason if not.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.max_frames == 0 || self.max_frames > MAX_FRAMES {
            return Err("the maximum size is out of range (64 KiB to 128 TiB)");
        }
        if self.processes == 0 || self.processes > 4096 {
            return Err("the number of processes is out of range (1 to 4096)");
        }
        if self.workers < 2 || self.workers > 32768 {
            return Err("the number of workers is out of range (2 to 32768)");
        }
        if self.entries == 0 || self.entries > 65536 {
            return Err("the number of directory entries is out of range (1 to 65536)");
        }
        if self.hosts == 0 || self.hosts > 4096 {
            return Err("the number of hosts is out of range (1 to 4096)");
        }
        Ok(())
    }
}

impl Geometry {
    /// The layout for checked parameters.
    pub fn new(parameters: Parameters) -> Self {
        let page = |n: u64| n.next_multiple_of(PAGE);
        let depth = parameters.max_frames.next_power_of_two().trailing_zeros();
        let process_table = PAGE;
        let worker_table = process_table + page(u64::from(parameters.processes) * PROCESS_BYTES);
        let worker_area_table = worker_table + u64::from(parameters.workers) * WORKER_BYTES;
        let host_table = worker_area_table + page(u64::from(parameters.workers) * WORKER_AREA_BYTES);
        let recovery_log = host_table + page(u64::from(parameters.hosts) * HOST_BYTES);
        let directory = recovery_log + RECOVERY_LOG_BYTES;
        let block_table = directory + page(u64::from(parameters.entries) * ENTRY_BYTES);
        let hints = block_table + page(parameters.max_frames * 8);
        let tree = hints + page(parameters.max_frames.div_ceil(8));
        let data = (tree + page(2 << depth)).next_multiple_of(DATA_ALIGN);
        let mapped = data + parameters.max_frames * FRAME;
        Self {
            parameters,
            process_table,
            worker_table,
            worker_area_table,
            host_table,
            recovery_log,
            directory,
            block_table,
            hints,
            tree,
            depth,
            data,
            mapped,
        }
    }

    /// The ranges that must be reserved before the first `frames` frames may be used.
    pub fn ranges(&self, frames: u64) -> Vec<(u64, u64)> {
        let mut ranges = vec![
            (0, self.block_table),
            (self.block_table, frames * 8),
            (self.hints, frames.div_ceil(64) * 8),
        ];
        for level in 0..=self.depth {
            let nodes = frames.div_ceil(1 << (self.depth - level)).next_multiple_of(8);
            ranges.push((self.tree + (1 << level), nodes));
        }
        ranges.push((self.data, frames * FRAME));
        ranges
    }

    /// A frame's offset.
    #[inline]
    pub fn frame_offset(&self, frame: u64) -> u64 {
        self.data + (frame << FRAME_SHIFT)
    }

    /// The frame that holds an offset in the data area.
    #[inline]
    pub fn frame_of(&self, offset: u64) -> u64 {
        offset.wrapping_sub(self.data) >> FRAME_SHIFT
    }

    /// A worker's record.
    #[inline]
    pub fn worker(&self, index: u32) -> u64 {
        self.worker_table + u64::from(index) * WORKER_BYTES
    }

    /// A worker's death slot: the last word of a page, so that what follows it can be in memory of the worker's process
    /// alone.
    #[inline]
    pub fn death_slot(&self, index: u32) -> DeathSlot {
        // SAFETY: the last word of a worker's record, and the one before it.
        unsafe { DeathSlot::at(self.worker(index) + WORKER_BYTES - 8) }
    }

    /// A process's entry.
    #[inline]
    pub fn process(&self, index: u32) -> u64 {
        self.process_table + u64::from(index) * PROCESS_BYTES
    }

    /// A worker's area.
    #[inline]
    pub fn worker_area(&self, index: u32) -> u64 {
        self.worker_area_table + u64::from(index) * WORKER_AREA_BYTES
    }

    /// The mailboxes: one in each worker area, dealt out to processes by their places.
    pub fn mailboxes(&self) -> Mailboxes {
        let per_process = (self.parameters.workers / self.parameters.processes).max(1);
        // SAFETY: lines of the worker areas, which the layout gives to mailboxes alone.
        unsafe {
            Mailboxes::new(
                self.worker_area_table + MAILBOX_AT,
                WORKER_AREA_BYTES,
                self.parameters.workers,
                per_process,
            )
        }
    }

    /// The places of the process table that a process of a host may take. Where a server executes exchanges, each host
    /// has places of its own: a process that takes one asks by its mailboxes before a process of another host can know.
    pub fn places_of(&self, host: u32) -> impl Iterator<Item = u32> + use<> {
        let hosts = match self.parameters.kind {
            MemoryKind::Delegated if host != NO_HOST => self.parameters.hosts.max(1),
            _ => 1,
        };
        (0..self.parameters.processes).filter(move |index| index % hosts == host % hosts)
    }

    /// A host's entry.
    #[inline]
    pub fn host(&self, id: u32) -> u64 {
        self.host_table + u64::from(id) * HOST_BYTES
    }

    /// A directory entry.
    #[inline]
    pub fn entry(&self, index: u32) -> u64 {
        self.directory + u64::from(index) * ENTRY_BYTES
    }

    /// Whether a directory entry begins at an offset.
    pub fn is_entry(&self, at: u64) -> bool {
        let within = at.wrapping_sub(self.directory);
        within.is_multiple_of(ENTRY_BYTES) && within / ENTRY_BYTES < u64::from(self.parameters.entries)
    }
}

const _: () = assert!(
    MAILBOX_AT + MAILBOX_BYTES <= WORKER_AREA_BYTES,
    "a mailbox must fit its worker area"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_ranges_stay_inside() {
        for max_frames in [1, 2, 3, 63, 64, 1000, 1 << 14, (1 << 24) + 1] {
            let g = Geometry::new(Parameters {
                kind: MemoryKind::Coherent,
                max_frames,
                processes: 7,
                workers: 9,
                entries: 5,
                hosts: 3,
            });
            let order = [
                0,
                g.process_table,
                g.worker_table,
                g.worker_area_table,
                g.host_table,
                g.recovery_log,
                g.directory,
                g.block_table,
                g.hints,
                g.tree,
                g.data,
                g.mapped,
            ];
            assert!(order.windows(2).all(|w| w[0] < w[1]), "{order:?}");
            for (at, len) in g.ranges(max_frames) {
                assert!(at + len <= g.mapped, "{max_frames}: {at:#x}+{len:#x}");
            }
        }
    }
}
