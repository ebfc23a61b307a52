//! CLHT: a hash table whose buckets are lines; lookups take no lock, writes lock the bucket (pcc-indexes, table 1).
//!
//! | word of a line | |
//! |---|---|
//! | 0 | [word](super::version): its marks say which of the three pairs are there; the word of a bucket's first line is the bucket's lock |
//! | 1 to 6 | three pairs of key and value |
//! | 7 | the bucket's next line, or 0; never changes again |
//!
//! All are sync words: they share a line with a lock, so that nothing of it may be written back through a cache. A line
//! is read whole by one fetch.
//!
//! **Lookup.** Line by line; a pair that is found counts if its line's word is still the same, locked or not. A key
//! that is nowhere is not in the table, as pairs do not move.
//!
//! **Writing.** The bucket is read, then locked by an exchange of its word as it was read. A new pair is stored in a
//! free place, and then the marks; a removal is a change of marks; a value that replaces another is one store. A
//! further line of the bucket is complete before the last line refers to it.
//!
//! **Crash.** Each change takes effect by one store, and a lookup never waits. What a dead writer has locked is
//! released by the next writer. A line that it had allocated and not linked is lost to the arena.
//!
//! The table is not resized: it has a bucket for about two records of those it was created for, and its chains grow.

use std::rc::Rc;

use super::arena::Arena;
use super::{Attempt, Before, WordMap, version};
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::checked::{sync_word, unpublished, word_line};
use crate::memory::{LINE, Memory, SyncWord};

use crate::pod::{Worker, lock};

/// "CLHT".
pub const MAGIC: u64 = u64::from_le_bytes(*b"CLHT\0\0\0\0");

const PAIRS: u64 = 3;
const NEXT: usize = 7;

/// The table, as one thread has it open. See the [module documentation](self).
pub struct Clht<M: Memory> {
    arena: Arena<M>,
    buckets: u64,
    /// What hashes are shifted by.
    shift: u32,
}

/// A line, as it was fetched.
#[derive(Clone, Copy)]
struct Line {
    at: u64,
    words: [u64; 8],
}

impl Line {
    fn word(&self) -> u64 {
        self.words[0]
    }

    fn guard(&self) -> SyncWord {
        sync_word(self.at)
    }

    fn key_at(&self, n: u64) -> u64 {
        self.at + 8 + 16 * n
    }

    /// The pair with a key: its number and its value.
    fn find(&self, key: u64) -> Option<(u64, u64)> {
        let [_, pairs @ .., _] = &self.words;
        let marks = version::marks(self.word());
        (0..PAIRS)
            .zip(pairs.as_chunks::<2>().0)
            .find(|(n, pair)| marks & 1 << n != 0 && pair[0] == key)
            .map(|(n, pair)| (n, pair[1]))
    }
}

/// The result of a search of a bucket.
struct Found {
    head: Line,
    /// The line and the number of the key's pair, and its value.
    pair: Option<(Line, u64, u64)>,
    /// The first line with a free place, and its number.
    free: Option<(Line, u64)>,
    /// The last line that was read.
    last: Line,
}

impl<M: Memory> Clht<M> {
    fn worker(&self) -> &Worker<M> {
        self.arena.worker()
    }

    fn mem(&self) -> &M {
        self.arena.worker().mem()
    }

    /// The first line of a key's bucket.
    fn bucket(&self, key: u64) -> u64 {
        let hash = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.buckets + (hash >> self.shift) * LINE
    }

    fn fetch(&self, at: u64) -> Line {
        let words = word_line(at).fetch(self.mem());
        Line { at, words }
    }

    /// The line after another.
    fn next(&self, line: &Line) -> Result<Option<Line>> {
        match line.words[NEXT] {
            0 => Ok(None),
            at if at.is_multiple_of(LINE) && self.arena.has(at, LINE) => Ok(Some(self.fetch(at))),
            _ => Err(Error::corrupt("a bucket's next line, at", line.at)),
        }
    }

    /// Calls `each` for the lines from `line` on, until it returns something.
    fn walk<T>(&self, mut line: Line, mut each: impl FnMut(&Line) -> Option<T>) -> Result<Option<T>> {
        // No bucket has more lines than the arena.
        for _ in 0..self.arena.bytes() / LINE {
            if let Some(found) = each(&line) {
                return Ok(Some(found));
            }
            match self.next(&line)? {
                Some(next) => line = next,
                None => return Ok(None),
            }
        }
        Err(Error::corrupt("a bucket without end, at", line.at))
    }

    /// Searches a key, and a free place on the way.
    fn find(&self, key: u64) -> Result<Found> {
        let head = self.fetch(self.bucket(key));
        let (mut free, mut last) = (None, head);
        let pair = self.walk(head, |line| {
            last = *line;
            let place = u64::from((!version::marks(line.word())).trailing_zeros());
            if free.is_none() && place < PAIRS {
                free = Some((*line, place));
            }
            line.find(key).map(|(n, value)| (*line, n, value))
        })?;
        Ok(Found {
            head,
            pair,
            free,
            last,
        })
    }

    /// Repeats an attempt to write until others do not disturb it. It takes effect by a store, which no later load of
    /// this thread may overtake.
    fn write<T>(&self, attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let done = self.until_done(attempt)?;
        self.mem().fence();
        Ok(done)
    }

    /// Repeats an attempt until others do not disturb it.
    fn until_done<T>(&self, mut attempt: impl FnMut() -> Result<Attempt<T>>) -> Result<T> {
        if self.worker().is_forked() {
            return Err(Error::Forked);
        }
        loop {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
            self.mem().pause();
        }
    }

    fn is_still(&self, line: &Line) -> bool {
        version::is_still(self.worker(), line.guard(), line.word())
    }

    /// Locks a bucket as it was read; what was read of all its lines then still holds. Waits if the lock is held.
    fn lock(&self, head: &Line) -> Result<Option<version::Held<'_, M>>> {
        if version::is_locked(head.word()) {
            return version::read(self.worker(), head.guard()).map(|_| None);
        }
        Ok(version::lock(self.worker(), head.guard(), head.word()))
    }

    fn try_get(&self, key: u64) -> Result<Attempt<Option<u64>>> {
        let head = self.fetch(self.bucket(key));
        match self.walk(head, |line| line.find(key).map(|(_, value)| (*line, value)))? {
            Some((line, value)) => Ok(self.is_still(&line).then_some(Some(value))),
            None => Ok(Some(None)),
        }
    }

    /// Sets a key's value; without `replaces`, only if it has none. Returns whether it had one.
    fn try_set(&self, key: u64, value: u64, replaces: bool) -> Result<Attempt<Before>> {
        let found = self.find(key)?;
        if let Some((line, ..)) = found.pair
            && !replaces
        {
            return Ok(self.is_still(&line).then_some(Before::Present));
        }
        let Some(held) = self.lock(&found.head)? else {
            return Ok(None);
        };
        let mem = self.mem();
        if let Some((line, n, _)) = found.pair {
            sync_word(line.key_at(n) + 8).store(mem, value);
            return Ok(Some(Before::Present));
        }
        match found.free {
            Some((line, n)) => {
                sync_word(line.key_at(n)).store(mem, key);
                sync_word(line.key_at(n) + 8).store(mem, value);
                self.mark(held, &found.head, &line, version::marks(line.word()) | 1 << n);
            }
            None => {
                let at = self.arena.take(LINE)?;
                for (at, word) in (at..)
                    .step_by(8)
                    .zip([version::fresh(1), key, value, 0, 0, 0, 0, 0])
                {
                    unpublished(at, 8).write_word(mem, word);
                }
                mem.persist(at, LINE);
                sync_word(found.last.at + 8 * NEXT as u64).store(mem, at);
            }
        }
        Ok(Some(Before::Absent))
    }

    fn try_remove(&self, key: u64) -> Result<Attempt<Before>> {
        let found = self.find(key)?;
        let Some((line, n, _)) = found.pair else {
            return Ok(Some(Before::Absent));
        };
        let Some(held) = self.lock(&found.head)? else {
            return Ok(None);
        };
        self.mark(held, &found.head, &line, version::marks(line.word()) & !(1 << n));
        Ok(Some(Before::Present))
    }

    /// Changes the marks of a line in a bucket that is held, and releases.
    fn mark(&self, held: version::Held<'_, M>, head: &Line, line: &Line, marks: u64) {
        if line.at == head.at {
            held.release(marks);
        } else {
            line.guard()
                .store(self.mem(), version::released(line.word(), marks));
        }
    }

    /// Makes a table of empty buckets, if there is none.
    fn table(arena: &Arena<M>) -> Result<u64> {
        let (mem, root) = (arena.worker().mem(), arena.root(0));
        let len = Self::table_bytes(arena);
        if root.load(mem) == 0 {
            let _held = lock::acquire(arena.worker(), arena.root(1))?;
            if root.load(mem) == 0 {
                let at = arena.first(len)?;
                unpublished(at, len).zero(mem);
                mem.persist(at, len);
                root.store(mem, at);
            }
        }
        let at = root.load(mem);
        match at.is_multiple_of(LINE) && arena.has(at, len) {
            true => Ok(at),
            false => Err(Error::corrupt("a table's offset", root.offset())),
        }
    }

    /// Bytes of the buckets: up to half of the arena.
    fn table_bytes(arena: &Arena<M>) -> u64 {
        1 << (arena.bytes() / 2).max(LINE * 2).ilog2()
    }
}

impl<M: Memory> WordMap<M> for Clht<M> {
    const NAME: &'static str = "CLHT";
    const IS_ORDERED: bool = false;

    fn open_or_create(worker: Rc<Worker<M>>, name: &str, _: Guidelines, records: u64) -> Result<Self> {
        let buckets = (records / 2).clamp(1, 1 << 40).next_power_of_two();
        let arena = Arena::open_or_create(worker, name, MAGIC, 2 * buckets * LINE)?;
        Ok(Self {
            buckets: Self::table(&arena)?,
            shift: 64 - (Self::table_bytes(&arena) / LINE).ilog2(),
            arena,
        })
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        self.until_done(|| self.try_get(key))
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        let had = self.write(|| self.try_set(key, value, true))?;
        Ok(had.put())
    }

    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        self.write(|| self.try_set(key, value, false))
            .map(|had| had == Before::Absent)
    }

    fn remove_u64(&self, key: u64) -> Result<bool> {
        Ok(self.write(|| self.try_remove(key))? == Before::Present)
    }

    fn scan_u64(&self, _: u64, _: impl FnMut(u64, u64) -> bool) -> Result<()> {
        Ok(())
    }
}
