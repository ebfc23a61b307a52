//! The machine that is simulated: hosts with private write-back caches over one shared memory.
//!
//! | what happens | what it does |
//! |---|---|
//! | sync operation | goes to memory, atomically; the caches are left as they are |
//! | cached load | reads the host's line, fetching it if it is absent: a line that is present may be stale |
//! | cached store | changes the host's line and marks the word dirty |
//! | write-back | a dirty line is written whole, its neighbours on the line with it; it stays, clean |
//! | flush | the same, and the line is dropped; a clean line is dropped without a write |
//! | eviction | a flush of any line at any time |
//! | fence | completes the write-backs and flushes that the thread has begun; each may complete before it, at any time |
//! | crash of a process | its stores stay in its host's cache |
//! | crash of a host | its cache is lost; of its dirty lines, any subset reaches memory |
//!
//! On a coherent machine there are no caches: everything goes to memory.
//!
//! **Mixed use.** A word is coordinated by sync operations or it is written through caches, never both at once. A sync
//! operation on a word that some cache holds dirty is reported as a fault of the program: the write-back is about to
//! overwrite what it reads or writes.
//!
//! **Orders.** Here operations take effect in the order in which they come. `exec` buffers stores and transfers lines
//! word by word.
//!
//! **What is not simulated.** Memory orders weaker than the contract's; words that tear; devices that fail.

mod cache;
mod recency;
mod words;

pub use cache::{Cache, Found};
pub use recency::{Capacity, Recency, Use};
pub use words::Words;

/// Bytes of a line.
pub const LINE: u64 = 64;

/// What a machine is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether hardware keeps all caches coherent.
    pub coherent: bool,
    /// Hosts.
    pub hosts: u32,
    /// Bytes of shared memory.
    pub bytes: u64,
    /// Lines that there is room for in each host's cache.
    pub cache_lines: Capacity,
    /// Whether a miss brings the next line in too (an adversary; the paper switches prefetchers off).
    pub prefetches: bool,
    /// Whether the kernels have the asymmetric barrier (`membarrier`); else every announcement has a barrier of its
    /// own.
    pub has_membarrier: bool,
    /// Whether all dirty lines of a host reach memory when it, or a process on it, crashes (Lupin, section 2).
    pub persists_at_crash: bool,
    /// Bytes at the start that hardware keeps coherent even so (pcc-indexes, section 8).
    pub coherent_bytes: u64,
    /// A planted fault, to see that it is found: compare-exchanges succeed whatever they find.
    pub blind_exchanges: bool,
}

/// A write-back or flush that a thread has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The line.
    pub line: u64,
    /// Whether the line is dropped too.
    pub drops: bool,
}

/// A fault of the program under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixedUse {
    /// The word.
    pub at: u64,
    /// The host whose cache holds it dirty.
    pub host: u32,
}

/// The machine.
pub struct Machine {
    shape: Shape,
    memory: Words,
    caches: Vec<Cache>,
}

impl Machine {
    /// A machine whose memory is all zeroes.
    pub fn new(shape: Shape) -> Self {
        let caches = if shape.coherent { 0 } else { shape.hosts };
        Self {
            shape,
            memory: Words::new(shape.bytes),
            caches: (0..caches)
                .map(|_| Cache::new(shape.bytes, shape.cache_lines))
                .collect(),
        }
    }

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What the devices hold.
    pub fn memory(&self) -> &Words {
        &self.memory
    }

    /// A host's cache; `None` on a coherent machine.
    pub fn cache(&self, host: u32) -> Option<&Cache> {
        self.caches.get(host as usize)
    }

    /// The cache through which a host sees an offset, if it does.
    fn cache_for(&mut self, host: u32, at: u64) -> Option<(&mut Cache, &Words)> {
        if at < self.shape.coherent_bytes {
            return None;
        }
        let cache = self.caches.get_mut(host as usize)?;
        Some((cache, &self.memory))
    }

    /// Whether some cache holds the word around an offset dirty: then a sync operation on it is a fault.
    pub fn mixed_use(&self, at: u64) -> Option<MixedUse> {
        let bit = 1 << (at % LINE / 8);
        let host = self
            .caches
            .iter()
            .position(|cache| cache.dirty_words(at) & bit != 0)?;
        Some(MixedUse {
            at,
            host: host as u32,
        })
    }

    /// Whether a host's cache holds a word dirty, and memory holds something else there.
    pub fn is_unwritten(&self, host: u32, at: u64) -> bool {
        let bit = 1 << (at % LINE / 8);
        self.cache(host)
            .is_some_and(|cache| cache.dirty_words(at) & bit != 0 && cache.get(at) != self.memory.get(at))
    }

    /// A word in memory, past the caches.
    pub fn load(&self, at: u64) -> u64 {
        self.memory.get(at)
    }

    /// Sets a word in memory, past the caches.
    pub fn store(&self, at: u64, value: u64) {
        self.memory.set(at, value);
    }

    /// Sets bytes in memory, past the caches.
    pub fn store_bytes(&self, at: u64, data: &[u8]) {
        self.memory.write(at, data);
    }

    /// A word as a host sees it through its cache.
    pub fn load_cached(&mut self, host: u32, at: u64, usage: Use) -> (u64, Found) {
        let found = self.fetch(host, at, 8, usage);
        let value = match self.cache_for(host, at) {
            Some((cache, _)) => cache.get(at),
            None => self.memory.get(at),
        };
        (value, found)
    }

    /// Sets a word through a host's cache.
    pub fn store_cached(&mut self, host: u32, at: u64, value: u64) -> Found {
        let found = self.fetch(host, at, 8, Use::Own);
        match self.cache_for(host, at) {
            Some((cache, _)) => cache.set(at, value),
            None => self.memory.set(at, value),
        }
        found
    }

    /// Makes the lines of a range readable in a host's cache.
    pub fn fetch(&mut self, host: u32, at: u64, len: u64, usage: Use) -> Found {
        let (prefetches, end) = (self.shape.prefetches, self.shape.bytes);
        let Some((cache, memory)) = self.cache_for(host, at) else {
            return Found::Hit;
        };
        let found = cache.fetch(memory, at, len, usage);
        let next = ((at + len.max(1) - 1) & !(LINE - 1)) + LINE;
        if prefetches && found != Found::Hit && next < end {
            cache.fetch(memory, next, 1, usage);
        }
        found
    }

    /// Makes the bytes of a range what a host would see now, without having its cache fetch any.
    pub fn show(&mut self, host: u32, at: u64, len: u64) {
        if let Some((cache, memory)) = self.cache_for(host, at) {
            cache.show(memory, at, len);
        }
    }

    /// The bytes of a range as a host sees them; it must have been fetched, or [shown](Self::show).
    pub fn bytes(&self, host: u32, at: u64, len: u64) -> &[u8] {
        match self.caches.get(host as usize) {
            Some(cache) if at >= self.shape.coherent_bytes => cache.bytes(at, len),
            _ => self.memory.bytes(at, len),
        }
    }

    /// Where bytes are that a host was given, if they are simulated memory.
    pub fn offset_of(&self, host: u32, bytes: &[u8]) -> Option<u64> {
        let cached = self
            .caches
            .get(host as usize)
            .and_then(|cache| cache.offset_of(bytes));
        cached.or_else(|| self.memory.offset_of(bytes))
    }

    /// Writes bytes through a host's cache.
    pub fn write(&mut self, host: u32, at: u64, data: &[u8]) -> Found {
        let found = self.fetch(host, at, data.len() as u64, Use::Shared);
        match self.cache_for(host, at) {
            Some((cache, _)) => cache.write(at, data),
            None => self.memory.write(at, data),
        }
        found
    }

    /// Completes a write-back or flush.
    pub fn complete(&mut self, host: u32, pending: Pending) {
        if let Some((cache, memory)) = self.cache_for(host, pending.line) {
            if pending.drops {
                cache.flush(memory, pending.line);
            } else {
                cache.write_back(memory, pending.line);
            }
        }
    }

    /// Evicts the `n`th line of a host's cache; its offset.
    pub fn evict(&mut self, host: u32, n: usize) -> Option<u64> {
        let cache = self.caches.get_mut(host as usize)?;
        let line = cache.resident(n % cache.len().max(1));
        cache.flush(&self.memory, line);
        Some(line)
    }

    /// A host's cache is lost. `reaches_memory` is asked for each dirty line whether it is written first.
    pub fn lose_cache(&mut self, host: u32, mut reaches_memory: impl FnMut(u64) -> bool) {
        let persists = self.shape.persists_at_crash;
        let Some(cache) = self.caches.get_mut(host as usize) else {
            return;
        };
        for line in cache.dirty() {
            if persists || reaches_memory(line) {
                cache.write_back(&self.memory, line);
            }
        }
        while !cache.is_empty() {
            let line = cache.resident(0);
            cache.drop_line(line);
        }
    }

    /// All dirty lines of a host reach memory; the cache stays.
    pub fn persist(&mut self, host: u32) {
        if let Some(cache) = self.caches.get_mut(host as usize) {
            for line in cache.dirty() {
                cache.write_back(&self.memory, line);
            }
        }
    }
}
