//! Which lines an access has touched, in the order of first touch: what a simulator can replay.

use std::cell::RefCell;
use std::collections::HashMap;

use super::{Load, Store};
use crate::error::Result;

/// Words of a line of 64 bytes.
pub const LINE_WORDS: u64 = 8;

/// A line that was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Its number: the word of the touch by [`LINE_WORDS`].
    pub line: u32,
    /// Whether it was written. A line that is read and then written is touched twice.
    pub writes: bool,
}

#[derive(Default)]
struct Noted {
    touches: Vec<Touch>,
    /// For each line, whether it was written.
    lines: HashMap<u64, bool>,
}

/// Words whose touches are noted.
pub struct Recorder<W> {
    words: W,
    noted: RefCell<Noted>,
}

impl<W> Recorder<W> {
    /// Nothing was touched yet.
    pub fn new(words: W) -> Self {
        Self {
            words,
            noted: RefCell::default(),
        }
    }

    /// What was touched since the last call, or the beginning.
    pub fn take(&self) -> Vec<Touch> {
        std::mem::take(&mut *self.noted.borrow_mut()).touches
    }

    /// The words, without notes.
    pub fn inner(&self) -> &W {
        &self.words
    }

    fn note(&self, at: u64, writes: bool) {
        let Noted { touches, lines } = &mut *self.noted.borrow_mut();
        let line = at / LINE_WORDS;
        let known = lines.get(&line).copied();
        if known.is_some_and(|written| written || !writes) {
            return;
        }
        lines.insert(line, writes);
        // Numbers of lines fit: what is recorded lies in memory, and has less than 256 GiB.
        touches.push(Touch {
            line: line as u32,
            writes,
        });
    }
}

impl<W: Load> Load for Recorder<W> {
    fn covered(&self) -> u64 {
        self.words.covered()
    }

    fn load(&self, at: u64) -> Result<u64> {
        self.note(at, false);
        self.words.load(at)
    }

    fn words(&self, at: u64, len: u64) -> Result<&[u64]> {
        let found = self.words.words(at, len)?;
        for line in at / LINE_WORDS..(at + len).div_ceil(LINE_WORDS) {
            self.note(line * LINE_WORDS, false);
        }
        Ok(found)
    }
}

impl<W: Store> Store for Recorder<W> {
    fn store(&mut self, at: u64, value: u64) -> Result<()> {
        self.note(at, true);
        self.words.store(at, value)
    }
}
