//! One host's write-back cache, shared by its threads.
//!
//! Each line is absent, clean or dirty. An absent line that is read or written is fetched whole from memory. A dirty
//! line that is written back overwrites its whole line in memory, whatever others have stored beside the words that
//! were written here. A clean line may be out of date by any amount.

use super::LINE;
use super::recency::{Capacity, Recency, Use};
use super::words::Words;

/// A host's cache.
pub struct Cache {
    mirror: Words,
    /// For each line: 0 if it is absent, else one more than its place in `resident`.
    place: Vec<u32>,
    /// For each line: which of its words were written here and not written back.
    dirty: Vec<u8>,
    /// The lines that are present.
    resident: Vec<u32>,
    /// How many of them are dirty.
    dirty_lines: usize,
    /// Which line was used longest ago, where there is not room for all.
    recency: Option<Recency>,
}

/// What an access found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All lines were present.
    Hit,
    /// So many lines were fetched.
    Missed(u32),
}

impl Cache {
    /// An empty cache over `len` bytes of memory.
    pub fn new(len: u64, capacity: Capacity) -> Self {
        let lines = (len / LINE) as usize;
        Self {
            mirror: Words::new(len),
            place: vec![0; lines],
            dirty: vec![0; lines],
            resident: Vec::new(),
            dirty_lines: 0,
            recency: (capacity != Capacity::ALL).then(|| Recency::new(capacity)),
        }
    }

    /// Whether the line around an offset is present.
    pub fn holds(&self, at: u64) -> bool {
        self.place[(at / LINE) as usize] != 0
    }

    /// Which words of the line around an offset were written here and not written back.
    pub fn dirty_words(&self, at: u64) -> u8 {
        self.dirty[(at / LINE) as usize]
    }

    /// Lines present.
    pub fn len(&self) -> usize {
        self.resident.len()
    }

    /// Whether none is present.
    pub fn is_empty(&self) -> bool {
        self.resident.is_empty()
    }

    /// The `n`th line present, as an offset; the order is arbitrary and repeatable.
    pub fn resident(&self, n: usize) -> u64 {
        u64::from(self.resident[n]) * LINE
    }

    /// The number of the line around an offset among those present.
    pub fn number_of(&self, at: u64) -> Option<usize> {
        (self.place[(at / LINE) as usize] as usize).checked_sub(1)
    }

    /// The lines present that a range touches, as offsets in a repeatable order.
    pub fn resident_in(&self, at: u64, len: u64) -> Vec<u64> {
        let (first, end) = (at & !(LINE - 1), at.saturating_add(len));
        if (end - first) / LINE <= self.resident.len() as u64 {
            return (first..end)
                .step_by(LINE as usize)
                .filter(|&line| self.holds(line))
                .collect();
        }
        let lines = self.resident.iter().map(|&line| u64::from(line) * LINE);
        lines.filter(|line| (first..end).contains(line)).collect()
    }

    /// The dirty lines, as offsets in a repeatable order.
    pub fn dirty(&self) -> Vec<u64> {
        if self.dirty_lines == 0 {
            return Vec::new();
        }
        let is_dirty = |line: &&u32| self.dirty[**line as usize] != 0;
        self.resident
            .iter()
            .filter(is_dirty)
            .map(|&line| u64::from(line) * LINE)
            .collect()
    }

    /// Makes room for so many lines, by evicting those that were used longest ago.
    fn make_room(&mut self, memory: &Words, lines: usize, usage: Use) {
        while let Some(recency) = &self.recency
            && let Some(victim) = recency.victim(usage, lines)
        {
            self.flush(memory, u64::from(victim) * LINE);
        }
    }

    /// Brings the lines of a range in; first others make room for those that are absent.
    pub fn fetch(&mut self, memory: &Words, at: u64, len: u64, usage: Use) -> Found {
        let lines = (at & !(LINE - 1)..at + len.max(1)).step_by(LINE as usize);
        let mut absent = 0;
        for line in lines.clone() {
            match (self.holds(line), &mut self.recency) {
                (false, _) => absent += 1,
                (true, Some(recency)) => recency.touch((line / LINE) as u32, usage),
                (true, None) => {}
            }
        }
        if absent == 0 {
            return Found::Hit;
        }
        self.make_room(memory, absent, usage);
        let mut missed = 0;
        for line in lines {
            if !self.holds(line) {
                self.mirror.set_line(line, memory.line(line));
                self.resident.push((line / LINE) as u32);
                self.place[(line / LINE) as usize] = self.resident.len() as u32;
                if let Some(recency) = &mut self.recency {
                    recency.add((line / LINE) as u32, usage);
                }
                missed += 1;
            }
        }
        Found::Missed(missed)
    }

    /// Shows what memory holds of the lines of a range that are absent. They stay so.
    pub fn show(&self, memory: &Words, at: u64, len: u64) {
        for line in (at & !(LINE - 1)..at + len.max(1)).step_by(LINE as usize) {
            if !self.holds(line) {
                self.mirror.set_line(line, memory.line(line));
            }
        }
    }

    /// A word of a line that is present.
    pub fn get(&self, at: u64) -> u64 {
        self.mirror.get(at)
    }

    /// The bytes of lines that are present.
    pub fn bytes(&self, at: u64, len: u64) -> &[u8] {
        self.mirror.bytes(at, len)
    }

    /// Where bytes are that were given out.
    pub fn offset_of(&self, bytes: &[u8]) -> Option<u64> {
        self.mirror.offset_of(bytes)
    }

    /// Writes a word of a line that is present.
    pub fn set(&mut self, at: u64, value: u64) {
        self.mirror.set(at, value);
        self.mark_dirty(at, 8);
    }

    /// Writes bytes of lines that are present.
    pub fn write(&mut self, at: u64, data: &[u8]) {
        self.mirror.write(at, data);
        self.mark_dirty(at, data.len() as u64);
    }

    fn mark_dirty(&mut self, at: u64, len: u64) {
        let mut word = at & !7;
        while word < at + len {
            let dirty = &mut self.dirty[(word / LINE) as usize];
            self.dirty_lines += usize::from(*dirty == 0);
            *dirty |= 1 << (word % LINE / 8);
            word += 8;
        }
    }

    /// Writes the line around an offset back, if it is dirty; it stays. Whether it was.
    pub fn write_back(&mut self, memory: &Words, at: u64) -> bool {
        let line = (at / LINE) as usize;
        if self.dirty[line] == 0 {
            return false;
        }
        memory.set_line(at, self.mirror.line(at));
        self.dirty[line] = 0;
        self.dirty_lines -= 1;
        true
    }

    /// Drops the line around an offset without writing it.
    pub fn drop_line(&mut self, at: u64) {
        let line = (at / LINE) as usize;
        let place = self.place[line];
        if place == 0 {
            return;
        }
        self.dirty_lines -= usize::from(self.dirty[line] != 0);
        self.dirty[line] = 0;
        self.place[line] = 0;
        if let Some(recency) = &mut self.recency {
            recency.remove(line as u32);
        }
        self.resident.swap_remove(place as usize - 1);
        if let Some(&other) = self.resident.get(place as usize - 1) {
            self.place[other as usize] = place;
        }
    }

    /// Writes the line around an offset back if it is dirty, and drops it: a flush, or an eviction.
    pub fn flush(&mut self, memory: &Words, at: u64) {
        self.write_back(memory, at);
        self.drop_line(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_evicts_and_loses_nothing() {
        let memory = Words::new(64 * LINE);
        let mut cache = Cache::new(64 * LINE, Capacity { shared: 4, own: 0 });
        for line in 0..64 {
            cache.fetch(&memory, line * LINE, 8, Use::Shared);
            cache.set(line * LINE, line + 1);
            assert!(cache.len() <= 4);
        }
        for line in cache.dirty() {
            cache.flush(&memory, line);
        }
        assert!((0..64).all(|line| memory.get(line * LINE) == line + 1));
        assert_eq!(cache.fetch(&memory, 0, LINE, Use::Shared), Found::Missed(1));
        assert_eq!(cache.fetch(&memory, 0, LINE, Use::Shared), Found::Hit);
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let memory = Words::new(64 * LINE);
        let mut cache = Cache::new(64 * LINE, Capacity { shared: 4, own: 0 });
        let fetch = |line: u64, cache: &mut Cache| cache.fetch(&memory, line * LINE, 8, Use::Shared);
        for line in [1, 2, 3, 4, 1, 3, 5] {
            fetch(line, &mut cache);
        }
        cache.drop_line(4 * LINE);
        assert_eq!(fetch(6, &mut cache), Found::Missed(1));
        for line in [6, 1, 5, 3] {
            assert_eq!(fetch(line, &mut cache), Found::Hit, "{line}");
        }
        for (line, victim) in [(2, 6), (4, 1), (6, 5)] {
            assert_eq!(fetch(line, &mut cache), Found::Missed(1), "{line}");
            assert!(!cache.holds(victim * LINE), "{victim}");
        }
    }
}
