//! Where a pool can be damaged: a choice of offsets that does not spend all damage on values.

use std::ops::Range;

use cenote::MemoryKind;
use cenote::pod::format::geometry::{
    ENTRY_BYTES, FRAME, Geometry, PROCESS_BYTES, Parameters, WORKER_AREA_BYTES, WORKER_BYTES,
};

use crate::options;
use crate::random::Random;

/// The parts of a pool.
#[derive(Clone, Debug)]
pub struct Places {
    geometry: Geometry,
    len: u64,
    aimed: Vec<Range<u64>>,
}

/// One change of some bytes.
#[derive(Clone, Debug)]
pub struct Change {
    /// Where.
    pub at: u64,
    /// What is there then.
    pub bytes: Vec<u8>,
}

impl Places {
    /// Those of a pool made with [`options`], of this many bytes.
    pub fn new(len: u64) -> Self {
        let options = options();
        let geometry = Geometry::new(Parameters {
            kind: MemoryKind::Coherent,
            max_frames: options.max / FRAME,
            processes: options.processes,
            workers: options.workers,
            entries: options.names,
            hosts: options.hosts,
        });
        Self {
            geometry,
            len,
            aimed: Vec::new(),
        }
    }

    /// Has most damage hit some parts.
    pub fn aimed(mut self, at: &[Range<u64>]) -> Self {
        self.aimed = at.to_vec();
        self
    }

    /// Whether an offset is of the data, and not of the tables before it.
    pub fn is_data(&self, at: u64) -> bool {
        at >= self.geometry.data
    }

    /// Parts of tables that are in use.
    fn tables(&self) -> [Range<u64>; 14] {
        let g = &self.geometry;
        let part = |at: u64, len: u64| at..at + len;
        [
            part(0, 640),
            part(g.process_table, 4 * PROCESS_BYTES),
            part(g.worker_table, 1024),
            part(g.worker_table, 4 * WORKER_BYTES),
            part(g.death_slot(0).offset() - 8, 16),
            part(g.death_slot(1).offset() - 8, 16),
            part(g.worker_area_table, 4 * WORKER_AREA_BYTES),
            part(g.host_table, 256),
            part(g.recovery_log, 512),
            part(g.directory, 20 * ENTRY_BYTES),
            part(g.directory, 20 * ENTRY_BYTES),
            part(g.block_table, 64 * 8),
            part(g.hints, 16),
            part(g.tree, 256),
        ]
    }

    /// Some offset where damage is likely to matter.
    pub fn pick(&self, random: &mut Random) -> u64 {
        if !self.aimed.is_empty() && random.below(8) > 0 {
            let range = &self.aimed[random.below(self.aimed.len() as u64) as usize];
            let end = range.end.min(self.len);
            // What is first in an object says what it is.
            let len = [end - range.start, 64][random.below(2) as usize];
            return range.start + random.below(len.min(end - range.start));
        }
        let tables = self.tables();
        let range = match random.below(20) {
            0..9 => tables[random.below(tables.len() as u64) as usize].clone(),
            // The first lines of frames: cells, or the first objects.
            9..12 => {
                let frame = random.below((self.len - self.geometry.data) / FRAME);
                let at = self.geometry.data + frame * FRAME;
                at..at + 2048
            }
            12..17 => self.geometry.data..self.geometry.data + 12 * FRAME,
            _ => 0..self.len,
        };
        range.start + random.below(range.end.min(self.len) - range.start)
    }

    /// Some change of a place; `word` reads an aligned word of the pool.
    pub fn change(&self, random: &mut Random, word: impl Fn(u64) -> u64) -> Change {
        let at = self.pick(random);
        let aligned = at & !7;
        let byte = word(aligned).to_le_bytes()[(at % 8) as usize];
        let whole = |value: u64| Change {
            at: aligned,
            bytes: value.to_le_bytes().to_vec(),
        };
        let one = |value| Change {
            at,
            bytes: vec![value],
        };
        match random.below(12) {
            0..4 => one(byte ^ 1 << random.below(8)),
            4..6 => one(random.draw() as u8),
            6 => one([0, 0xff][random.below(2) as usize]),
            // A whole word from elsewhere: plausible, and wrong.
            7..9 => whole(word(self.pick(random) & !7)),
            // An offset in the pool, or a little behind it.
            9 => whole(random.below(self.len + 4 * FRAME) & !15),
            10 => whole(word(aligned).wrapping_add(random.below(3)).wrapping_sub(1)),
            _ => whole(random.draw() >> random.below(64)),
        }
    }
}
