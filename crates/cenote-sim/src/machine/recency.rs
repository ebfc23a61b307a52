//! In which order a cache's lines were last used: the one that was used longest ago makes room.

/// Lines in that order: a ring through a place 0, which is the end of both sides; a line is at its number plus one.
pub struct Recency {
    newer: Vec<u32>,
    older: Vec<u32>,
}

impl Default for Recency {
    fn default() -> Self {
        Self {
            newer: vec![0],
            older: vec![0],
        }
    }
}

impl Recency {
    /// Adds a line that is not there, as the one that was used last.
    pub fn add(&mut self, line: u32) {
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

    /// Takes out a line that is there.
    pub fn remove(&mut self, line: u32) {
        let place = line as usize + 1;
        let (newer, older) = (self.newer[place], self.older[place]);
        (self.older[newer as usize], self.newer[older as usize]) = (older, newer);
    }

    /// A line that is there is used.
    pub fn touch(&mut self, line: u32) {
        self.remove(line);
        self.add(line);
    }

    /// The line that was used longest ago; there is one.
    pub fn oldest(&self) -> u32 {
        self.newer[0] - 1
    }
}
