//! A cache of an index's sync words, for all threads of a process (incoherent memory).
//!
//! A thread that has just read a word past the caches keeps its value here for the others. What the word led to then is
//! not reused as long as an announcement stands that was in memory before the word was read. So the process has a
//! clock: a worker takes the time right after it has announced, an entry has the time from right before its word was
//! read, and a worker uses no entry that is older than its announcement. `docs/protocols/reclamation.md` has the proof.
//!
//! An entry is three words under a version that is odd while they change. A thread that finds it odd neither reads nor
//! writes the entry.

use crate::memory::{LocalWord, SyncWord, zeroed_words};

/// Words, each with what it held and when.
#[derive(Debug)]
pub struct WordCache {
    clock: LocalWord,
    /// The words of all entries.
    words: Box<[LocalWord]>,
}

/// The words of an entry.
struct Entry<'c> {
    version: &'c LocalWord,
    word: &'c LocalWord,
    held: &'c LocalWord,
    time: &'c LocalWord,
}

const ENTRY_WORDS: usize = 4;

impl WordCache {
    /// An empty cache of this many entries; with 0 it keeps nothing.
    pub fn new(entries: usize) -> Self {
        Self {
            clock: LocalWord::new(1),
            words: zeroed_words(entries * ENTRY_WORDS),
        }
    }

    /// The time now. Words that are read afterwards may be kept under it.
    #[inline]
    pub fn now(&self) -> u64 {
        // PAIRS WITH: pod::instance::word_cache::tick
        self.clock.load()
    }

    /// A time that is later than all before.
    pub fn tick(&self) -> u64 {
        // PAIRS WITH: pod::instance::word_cache::now
        self.clock.add(1) + 1
    }

    /// What a word held at a time or after it, if that is known.
    #[inline]
    pub fn find(&self, word: SyncWord, since: u64) -> Option<u64> {
        let entry = self.entry(word)?;
        // PAIRS WITH: pod::instance::word_cache::change, pod::instance::word_cache::keep, pod::instance::word_cache::forget
        let version = entry.version.load();
        if version & 1 != 0 || entry.word.load() != word.offset() || entry.time.load() < since {
            return None;
        }
        // PAIRS WITH: pod::instance::word_cache::keep
        let held = entry.held.load();
        (entry.version.load() == version).then_some(held)
    }

    /// Keeps what a word held, as it was read after `time`.
    pub fn keep(&self, word: SyncWord, held: u64, time: u64) {
        self.change(word, |entry| {
            if entry.word.load() != word.offset() || entry.time.load() <= time {
                // PAIRS WITH: pod::instance::word_cache::find
                entry.word.store(word.offset());
                // PAIRS WITH: pod::instance::word_cache::find
                entry.held.store(held);
                // PAIRS WITH: pod::instance::word_cache::find
                entry.time.store(time);
            }
        });
    }

    /// Forgets what a word held.
    pub fn forget(&self, word: SyncWord) {
        self.change(word, |entry| {
            if entry.word.load() == word.offset() {
                // PAIRS WITH: pod::instance::word_cache::find
                entry.word.store(0);
            }
        });
    }

    fn change(&self, word: SyncWord, change: impl FnOnce(&Entry<'_>)) {
        let Some(entry) = self.entry(word) else {
            return;
        };
        let version = entry.version.load();
        // PAIRS WITH: pod::instance::word_cache::find, pod::instance::word_cache::change
        if version & 1 == 0 && entry.version.exchange(version, version + 1) {
            change(&entry);
            // PAIRS WITH: pod::instance::word_cache::find, pod::instance::word_cache::change
            entry.version.store(version + 2);
        }
    }

    /// Where a word is kept; neighbours have different places.
    #[inline]
    fn entry(&self, word: SyncWord) -> Option<Entry<'_>> {
        let (entries, _) = self.words.as_chunks::<ENTRY_WORDS>();
        let spread = (word.offset() >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = (spread * entries.len() as u64) >> 32;
        let [version, word, held, time] = entries.get(place as usize)?;
        Some(Entry {
            version,
            word,
            held,
            time,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sync word.
    #[inline(always)]
    fn sync_word(at: u64) -> SyncWord {
        // SAFETY: a sync word of a pool of this test, which uses it in this way.
        unsafe { SyncWord::at(at) }
    }

    #[test]
    fn entries_are_as_old_as_what_was_read() {
        let cache = WordCache::new(64);
        let (word, other) = (sync_word(4096), sync_word(4112));
        let early = cache.now();
        let announced = cache.tick();
        assert_eq!(cache.find(word, early), None);
        cache.keep(word, 7, early);
        assert_eq!(
            (cache.find(word, early), cache.find(word, announced)),
            (Some(7), None)
        );
        let late = cache.now();
        cache.keep(word, 8, late);
        // A word that was read earlier comes late.
        cache.keep(word, 7, early);
        assert_eq!(cache.find(word, announced), Some(8));
        assert_eq!(cache.find(other, early), None);
        cache.forget(other);
        assert_eq!(cache.find(word, announced), Some(8));
        cache.forget(word);
        assert_eq!(cache.find(word, early), None);
    }

    #[test]
    fn a_cache_without_entries_keeps_nothing() {
        let cache = WordCache::new(0);
        cache.keep(sync_word(64), 1, cache.now());
        assert_eq!(cache.find(sync_word(64), 0), None);
    }

    /// Threads that write pairs of words and values that belong together never see others.
    #[test]
    fn entries_are_whole() {
        let cache = WordCache::new(2);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..20_000_u64 {
                        let word = sync_word(16 * (1 + (n * 7 + thread) % 8));
                        let time = cache.tick();
                        cache.keep(word, word.offset() << 32 | time, time);
                        let other = sync_word(16 * (1 + n % 8));
                        if let Some(held) = cache.find(other, time / 2) {
                            assert_eq!(held >> 32, other.offset());
                            assert!(held & 0xffff_ffff >= time / 2);
                        }
                    }
                });
            }
        });
    }
}
