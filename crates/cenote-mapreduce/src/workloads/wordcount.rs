//! Word count. A word is letters, digits and bytes that are not ASCII, one after the other; upper case counts as lower
//! case.
//!
//! Phase 0 counts the words that begin in a part of the text, in partitions by their hash. Phase 1 adds up a partition.
//! The output has a line for each word, in the order of their bytes: the word, a space, how often.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Write;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::codec::{Reader, put_counted};
use crate::error::{Error, Result};
use crate::input::{Input, part};
use crate::job::{Data, Job, copied, damaged};

pub struct WordCount {
    input: Input,
    grain: u64,
    parts: u64,
}

/// Hashes a word at once.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Counts<W> = HashMap<W, u64, BuildHasherDefault<WordHasher>>;

fn is_inside(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

impl WordCount {
    pub fn new(input: Input, grain: u64, parts: u64) -> Result<Self> {
        Ok(Self { input, grain, parts })
    }

    fn tasks(&self) -> u64 {
        self.input.len().div_ceil(self.grain).max(1)
    }

    /// Counts the words of a part of the text.
    fn count(&self, task: u64) -> Result<Vec<u8>> {
        let (mut text, _) = self
            .input
            .pieces(part(task, self.grain, self.input.len()), is_inside)?;
        text.make_ascii_lowercase();
        let mut counts = Counts::<&[u8]>::default();
        for word in text.split(|byte| !is_inside(*byte)) {
            if !word.is_empty() {
                *counts.entry(word).or_default() += 1;
            }
        }
        let mut parts = vec![Vec::new(); self.parts as usize];
        for (word, count) in counts {
            let part = &mut parts[(xxh3_64(word) % self.parts) as usize];
            put_counted(part, word);
            part.extend_from_slice(&count.to_le_bytes());
        }
        let mut result = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
        for part in &parts {
            result.extend_from_slice(&(part.len() as u64).to_le_bytes());
        }
        parts.iter().for_each(|part| result.extend_from_slice(part));
        Ok(result)
    }

    /// The entries of a partition in a result of the first phase.
    fn partition<'b>(&self, result: &'b [u8], wanted: u64) -> Option<&'b [u8]> {
        let mut lengths = Reader(result);
        let mut rest = Reader(result.get(8 * self.parts as usize..)?);
        for _ in 0..wanted {
            rest.bytes(usize::try_from(lengths.u64()?).ok()?)?;
        }
        rest.bytes(usize::try_from(lengths.u64()?).ok()?)
    }

    /// Adds a partition up; its words come in order.
    fn add_up(&self, wanted: u64, data: &dyn Data) -> Result<Vec<u8>> {
        let mut counts = Counts::<Vec<u8>>::default();
        for task in 0..self.tasks() {
            data.result(0, task, &mut |result| {
                let damaged = damaged(0, task);
                let mut entries = Reader(self.partition(result, wanted).ok_or_else(&damaged)?);
                while !entries.is_empty() {
                    let word = entries.counted().ok_or_else(&damaged)?;
                    let count = entries.u64().ok_or_else(&damaged)?;
                    match counts.get_mut(word) {
                        Some(sum) => *sum += count,
                        None => drop(counts.insert(word.to_vec(), count)),
                    }
                }
                Ok(())
            })?;
        }
        let mut sorted: Vec<_> = counts.into_iter().collect();
        sorted.sort_unstable();
        let mut result = Vec::new();
        for (word, count) in sorted {
            put_counted(&mut result, &word);
            result.extend_from_slice(&count.to_le_bytes());
        }
        Ok(result)
    }
}

impl Job for WordCount {
    fn phases(&self) -> Vec<u64> {
        vec![self.tasks(), self.parts]
    }

    fn run(&self, phase: usize, task: u64, data: &dyn Data) -> Result<Vec<u8>> {
        match phase {
            0 => self.count(task),
            _ => self.add_up(task, data),
        }
    }

    fn finish(&self, data: &dyn Data, output: &mut dyn Write) -> Result<()> {
        let mut parts = Vec::new();
        for task in 0..self.parts {
            parts.push(copied(data, 1, task)?);
        }
        let mut words = Vec::new();
        for (task, part) in (0..).zip(&parts) {
            let damaged = damaged(1, task);
            let mut entries = Reader(part);
            while !entries.is_empty() {
                let word = entries.counted().ok_or_else(&damaged)?;
                words.push((word, entries.u64().ok_or_else(&damaged)?));
            }
        }
        words.sort_unstable();
        for (word, count) in words {
            output
                .write_all(word)
                .and_then(|()| writeln!(output, " {count}"))
                .map_err(Error::Output)?;
        }
        Ok(())
    }
}
