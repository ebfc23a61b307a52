//! A deduplicating compressor: an archive that has each piece of content once.
//!
//! The file is cut into *blocks* of 1 MiB, and these into *chunks* where their content says so ([`chunk`]), so that the
//! same content is cut the same way wherever it is in its block. Phase 0 cuts, and hashes each chunk. Phase 1 finds,
//! for each hash of its part of all hashes, where such a chunk is first, and puts that into the job's map. Phase 2
//! makes a piece of the [archive] of each block: a chunk that is the first of its content is compressed; any other, if
//! the bytes are equal too, is a reference. So the archive depends on the input alone.

mod archive;
mod chunk;

use std::collections::HashMap;
use std::io::Write;

use xxhash_rust::xxh3::xxh3_128;

use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::input::{Input, part};
use crate::job::{Data, Job, damaged};

pub use archive::undedup;

/// Bytes of a block.
const BLOCK: u64 = 1 << 20;

pub struct Dedup {
    input: Input,
    /// Blocks of a task.
    grain: u64,
    parts: u64,
}

impl Dedup {
    pub fn new(input: Input, grain: u64, parts: u64) -> Result<Self> {
        match grain.checked_mul(BLOCK) {
            Some(_) => Ok(Self { input, grain, parts }),
            None => Err(Error::Setting("a task has fewer blocks than that")),
        }
    }

    fn tasks(&self) -> u64 {
        self.input.len().div_ceil(BLOCK).div_ceil(self.grain).max(1)
    }

    /// Where the blocks of a task begin, and their bytes.
    fn blocks(&self, task: u64) -> Result<(u64, Vec<u8>)> {
        let range = part(task, self.grain * BLOCK, self.input.len());
        Ok((range.start, self.input.read(range)?))
    }

    /// Cuts a task's blocks, and hashes the chunks: for each its length, and its hash.
    fn cut(&self, task: u64) -> Result<Vec<u8>> {
        let (_, bytes) = self.blocks(task)?;
        let mut result = Vec::new();
        for chunk in bytes.chunks(BLOCK as usize).flat_map(chunk::chunks) {
            result.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            result.extend_from_slice(&xxh3_128(chunk).to_le_bytes());
        }
        Ok(result)
    }

    /// Puts into the map where each hash of a part occurs first. The result is how many there are.
    fn index(&self, wanted: u64, data: &dyn Data) -> Result<Vec<u8>> {
        let mut firsts: HashMap<u128, u64> = HashMap::new();
        for task in 0..self.tasks() {
            let mut at = task * self.grain * BLOCK;
            data.result(0, task, &mut |result| {
                let mut chunks = Reader(result);
                while !chunks.is_empty() {
                    let (Some(len), Some(hash)) = (chunks.u32(), chunks.u128()) else {
                        return Err(damaged(0, task)());
                    };
                    if (hash >> 64) as u64 % self.parts == wanted {
                        firsts.entry(hash).or_insert(at);
                    }
                    at += u64::from(len);
                }
                Ok(())
            })?;
        }
        for (hash, at) in &firsts {
            data.put(&hash.to_le_bytes(), &at.to_le_bytes())?;
        }
        Ok((firsts.len() as u64).to_le_bytes().to_vec())
    }

    /// A task's part of the archive.
    fn pack(&self, task: u64, data: &dyn Data) -> Result<Vec<u8>> {
        let (mut at, bytes) = self.blocks(task)?;
        let mut records = Vec::new();
        for chunk in bytes.chunks(BLOCK as usize).flat_map(chunk::chunks) {
            let first = data.get(&xxh3_128(chunk).to_le_bytes())?;
            let first = first.and_then(|first| Reader(&first).u64());
            let first = first.ok_or_else(damaged(1, task))?;
            // Two contents may have one hash.
            let is_known = first < at && self.input.read(first..first + chunk.len() as u64)? == chunk;
            match is_known {
                true => archive::put_reference(&mut records, chunk, first),
                false => archive::put_content(&mut records, chunk)?,
            }
            at += chunk.len() as u64;
        }
        Ok(records)
    }
}

impl Job for Dedup {
    fn phases(&self) -> Vec<u64> {
        vec![self.tasks(), self.parts, self.tasks()]
    }

    fn run(&self, phase: usize, task: u64, data: &dyn Data) -> Result<Vec<u8>> {
        match phase {
            0 => self.cut(task),
            1 => self.index(task, data),
            _ => self.pack(task, data),
        }
    }

    fn finish(&self, data: &dyn Data, output: &mut dyn Write) -> Result<()> {
        archive::put_header(output, self.input.len())?;
        for task in 0..self.tasks() {
            data.result(2, task, &mut |records| {
                output.write_all(records).map_err(Error::Output)
            })?;
        }
        Ok(())
    }
}
