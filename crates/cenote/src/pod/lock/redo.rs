//! The redo log that makes a change of several words one (Lupin, section 3.6).
//!
//! A [`Transaction`] collects writes under the allocator's lock. `commit` writes them to the log in the worker's
//! record, then a commit word that carries their number and checksum, then applies them, clears the commit word and
//! leaves the lock to its holder. A crash before the commit word leaves nothing to do; after it, the worker that takes
//! the lock over applies the log again. Entries are absolute values, so applying twice is applying once.
//!
//! Under the lock nobody else changes a word that is read here. So where a read costs a round trip, each word is read
//! from memory once; and a word that is written with its old value needs no entry.

use crate::error::{Error, Result};
use crate::memory::checked::{owned_word, sync_word, word_line};
use crate::memory::{Memory, OwnedWord};

use crate::mutant::{self, Mutant};
use crate::pod::format::record::{REDO_ENTRIES, WorkerRecord};
use crate::pod::instance::crash::{Point, crash_point};

/// Marks an entry's offset as that of a single-writer word.
const OWNED: u64 = 1;
/// Entries that a line of the log holds.
const ENTRIES_PER_LINE: usize = 4;

/// Writes that happen together or not at all.
pub struct Transaction<'m, M: Memory> {
    mem: &'m M,
    log: WorkerRecord,
    words: Vec<Word>,
}

/// A word that was read or written.
#[derive(Clone, Copy)]
struct Word {
    at: u64,
    value: u64,
    is_changed: bool,
}

impl<'m, M: Memory> Transaction<'m, M> {
    /// An empty transaction that will be logged in `log`. The caller holds the lock that guards what it writes.
    pub fn new(mem: &'m M, log: WorkerRecord) -> Self {
        Self {
            mem,
            log,
            words: Vec::with_capacity(64),
        }
    }

    /// The memory.
    pub fn mem(&self) -> &'m M {
        self.mem
    }

    /// A word as this transaction would leave it.
    ///
    /// Cost: a sync load, on incoherent memory the first time.
    pub fn read(&mut self, at: u64) -> u64 {
        // Words read last are read again first, as trees are walked down and up.
        if let Some(word) = self.words.iter().rev().find(|word| word.at == at) {
            return word.value;
        }
        // PAIRS WITH: pod::lock::redo::apply
        let value = sync_word(at).load(self.mem);
        if !M::COHERENT {
            self.words.push(Word {
                at,
                value,
                is_changed: false,
            });
        }
        value
    }

    /// Adds a write of a word that depends on what it was.
    pub fn update(&mut self, at: u64, change: impl FnOnce(u64) -> u64) {
        if let Some(word) = self.words.iter_mut().rev().find(|word| word.at == at) {
            let value = change(word.value);
            word.is_changed |= word.value != value;
            word.value = value;
            return;
        }
        let before = sync_word(at).load(self.mem);
        let value = change(before);
        if value != before || !M::COHERENT {
            self.words.push(Word {
                at,
                value,
                is_changed: value != before,
            });
        }
    }

    /// Adds a write.
    pub fn write(&mut self, at: u64, value: u64) {
        match self.words.iter_mut().rev().find(|word| word.at == at) {
            Some(word) => {
                word.is_changed |= word.value != value;
                word.value = value;
            }
            None => self.words.push(Word {
                at,
                value,
                is_changed: !M::COHERENT || at & OWNED != 0 || sync_word(at).load(self.mem) != value,
            }),
        }
    }

    /// Adds a write of a single-writer word, whose owner the caller acts for.
    pub fn write_owned(&mut self, word: OwnedWord, value: u64) {
        self.write(word.offset() | OWNED, value);
    }

    /// Makes all writes happen.
    pub fn commit(self) -> Result<()> {
        let changed = self.words.iter().filter(|word| word.is_changed);
        let writes: Vec<(u64, u64)> = changed.map(|word| (word.at, word.value)).collect();
        let count = writes.len() as u64;
        if count > REDO_ENTRIES {
            return Err(Error::corrupt(
                "a buddy tree that needs more writes than any can, seen",
                self.log.state().offset(),
            ));
        }
        for (index, (at, value)) in writes.iter().enumerate() {
            let (offset_word, value_word) = self.log.redo_entry(index as u64);
            offset_word.set(self.mem, *at);
            value_word.set(self.mem, *value);
        }
        let (first, _) = self.log.redo_entry(0);
        // Complete with the commit word. The commit word may reach memory first: without its entries it is no commit.
        if !mutant::is(Mutant::LogNotWrittenBack) {
            self.mem.write_back(first.offset(), 16 * count);
        }
        crash_point(Point::RedoWritten);
        set_commit(self.mem, self.log, commit_word(&writes));
        crash_point(Point::RedoCommitted);
        apply_committed(self.mem, self.log, &writes);
        crash_point(Point::RedoApplied);
        set_commit(self.mem, self.log, 0);
        crash_point(Point::RedoCleared);
        Ok(())
    }
}

fn set_commit<M: Memory>(mem: &M, log: WorkerRecord, value: u64) {
    log.redo_commit().set(mem, value);
    mem.write_back(log.redo_commit().offset(), 8);
    mem.fence();
}

/// The word that makes a log of these writes count.
fn commit_word(writes: &[(u64, u64)]) -> u64 {
    let sum = match mutant::is(Mutant::CommitWithoutChecksum) {
        true => checksum(&[]),
        false => checksum(writes),
    };
    writes.len() as u64 | u64::from(sum) << 32
}

/// Applies the writes of a log that counts until they are applied.
fn apply_committed<M: Memory>(mem: &M, log: WorkerRecord, writes: &[(u64, u64)]) {
    mutant::also(Mutant::ClearedEarly, || set_commit(mem, log, 0));
    apply(mem, writes);
}

fn apply<M: Memory>(mem: &M, writes: &[(u64, u64)]) {
    for (index, (at, value)) in writes.iter().enumerate() {
        if index == 1 {
            crash_point(Point::RedoHalfApplied);
        }
        if *at & OWNED != 0 {
            owned_word(*at & !OWNED).set(mem, *value);
            if !mutant::is(Mutant::AppliedNotWrittenBack) {
                mem.persist(*at & !OWNED, 8);
            }
        } else {
            // PAIRS WITH: pod::lock::redo::Transaction::read, pod::alloc::slab::locate
            sync_word(*at).store(mem, *value);
        }
    }
}

fn checksum(writes: &[(u64, u64)]) -> u32 {
    writes.iter().fold(0x9e37_79b9, |sum, (at, value)| {
        let sum = crc32c::crc32c_append(sum, &at.to_le_bytes());
        crc32c::crc32c_append(sum, &value.to_le_bytes())
    })
}

/// What a log says is committed, and whether that is whole; `None` if it says nothing.
fn committed<M: Memory>(mem: &M, log: WorkerRecord) -> Option<(Vec<(u64, u64)>, bool)> {
    let commit = log.redo_commit().peek(mem);
    let count = commit & 0xffff_ffff;
    if count == 0 {
        return None;
    }
    let count = count.min(REDO_ENTRIES);
    let mut writes = Vec::new();
    for first in (0..count).step_by(ENTRIES_PER_LINE) {
        let line = word_line(log.redo_entry(first).0.offset()).fetch(mem);
        writes.extend(line.chunks_exact(2).map(|entry| (entry[0], entry[1])));
    }
    writes.truncate(count as usize);
    // A commit word that reached memory without all of its entries is no commit.
    let is_whole = u64::from(checksum(&writes)) == commit >> 32 || mutant::is(Mutant::ChecksumIgnored);
    Some((writes, is_whole))
}

/// Whether a log says that something was committed, of which perhaps not all is applied.
pub fn is_committed<M: Memory>(mem: &M, log: WorkerRecord) -> bool {
    committed(mem, log).is_some_and(|(_, is_whole)| is_whole)
}

/// Finishes what a dead holder of the lock had committed; the caller has taken the lock over. `limit` is the end of
/// what may be written: a log that points elsewhere is damaged, and is dropped.
pub fn replay<M: Memory>(mem: &M, log: WorkerRecord, limit: u64) -> bool {
    let Some((writes, whole)) = committed(mem, log) else {
        return false;
    };
    if !whole || writes.iter().any(|(at, _)| *at & 6 != 0 || *at >= limit) {
        set_commit(mem, log, 0);
        return false;
    }
    // The worker that wrote these words did so on another host: this host's cached lines are old, and would be written
    // back with them.
    for (at, _) in writes.iter().filter(|(at, _)| at & OWNED != 0) {
        mem.invalidate(at & !OWNED, 8);
    }
    mem.fence();
    apply(mem, &writes);
    set_commit(mem, log, 0);
    true
}
