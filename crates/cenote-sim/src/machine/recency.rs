//! Which lines of a host's cache make room for others: those that were used longest ago.
//!
//! What threads keep for themselves, their records and lists, has room of its own, which does not grow with the records
//! of a run. A run has fewer records than the one whose cost is asked for, and the room for everything else is smaller
//! by the same ratio.

/// What a line was last used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Something that all threads share.
    Shared,
    /// A word that one thread writes, by that thread.
    Own,
}

/// Lines of a host's cache that there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Of what threads share.
    pub shared: usize,
    /// Of what they keep for themselves.
    pub own: usize,
}

impl Capacity {
    /// Room for everything.
    pub const ALL: Self = Self {
        shared: usize::MAX,
        own: usize::MAX,
    };
}

/// The lines of a cache in the order in which they were last used, for each use.
pub struct Recency {
    rings: [Ring; 2],
    counts: [usize; 2],
    capacity: Capacity,
    /// For each line that is there what it was last used for.
    uses: Vec<Use>,
}

impl Recency {
    /// Of an empty cache.
    pub fn new(capacity: Capacity) -> Self {
        Self {
            rings: [Ring::default(), Ring::default()],
            counts: [0; 2],
            capacity,
            uses: Vec::new(),
        }
    }

    /// Adds a line that is not there.
    pub fn add(&mut self, line: u32, usage: Use) {
        if line as usize >= self.uses.len() {
            let len = (line as usize + 1).next_power_of_two();
            self.uses.resize(len, Use::Shared);
        }
        self.uses[line as usize] = usage;
        self.rings[usage as usize].add(line);
        self.counts[usage as usize] += 1;
    }

    /// Takes out a line that is there.
    pub fn remove(&mut self, line: u32) {
        let usage = self.uses[line as usize] as usize;
        self.rings[usage].remove(line);
        self.counts[usage] -= 1;
    }

    /// A line that is there is used.
    pub fn touch(&mut self, line: u32, usage: Use) {
        self.remove(line);
        self.add(line, usage);
    }

    /// The line that must go before there is room for so many more of a use, if one must.
    pub fn victim(&self, usage: Use, lines: usize) -> Option<u32> {
        let capacity = match usage {
            Use::Shared => self.capacity.shared,
            Use::Own => self.capacity.own,
        };
        let count = self.counts[usage as usize];
        (count > 0 && count.saturating_add(lines) > capacity).then(|| self.rings[usage as usize].oldest())
    }

    /// Lines that are there.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.counts.iter().sum()
    }
}

/// Lines in the order in which they were used: a ring through a place 0, which is the end of both sides; a line is at
/// its number plus one.
struct Ring {
    newer: Vec<u32>,
    older: Vec<u32>,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            newer: vec![0],
            older: vec![0],
        }
    }
}

impl Ring {
    fn add(&mut self, line: u32) {
        let place = line + 1;
        if place as usize >= self.newer.len() {
            let len = (place as usize + 1).next_power_of_two();
            self.newer.resize(len, 0);
            self.older.resize(len, 0);
        }
        let newest = self.older[0];
        (self.older[place as usize], self.newer[place as usize]) = (newest, 0);
        (self.newer[newest as usize], self.older[0]) = (place, place);
    }

    fn remove(&mut self, line: u32) {
        let place = line as usize + 1;
        let (newer, older) = (self.newer[place], self.older[place]);
        (self.older[newer as usize], self.newer[older as usize]) = (older, newer);
    }

    /// Of a ring that is not empty.
    fn oldest(&self) -> u32 {
        self.newer[0] - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_has_room_of_its_own() {
        let mut recency = Recency::new(Capacity { shared: 2, own: 1 });
        recency.add(7, Use::Own);
        recency.add(3, Use::Shared);
        assert_eq!(recency.victim(Use::Shared, 1), None);
        recency.add(5, Use::Shared);
        assert_eq!(recency.victim(Use::Shared, 1), Some(3));
        recency.touch(3, Use::Shared);
        assert_eq!(recency.victim(Use::Shared, 1), Some(5));
        assert_eq!(recency.victim(Use::Own, 1), Some(7));
        recency.touch(7, Use::Shared);
        assert_eq!(recency.victim(Use::Own, 1), None);
        assert_eq!(recency.victim(Use::Shared, 0), Some(5));
        recency.remove(5);
        assert_eq!((recency.victim(Use::Shared, 0), recency.count()), (None, 2));
    }
}
