//! Caches that hardware keeps coherent, as far as they cost time: which host has which lines.
//!
//! A host reads a line that it has, and writes a line that no other host has, at the price of a hit. Otherwise the line
//! is fetched from another host that has it, or from memory. A write takes it from the others. A host that has no room
//! drops the least recently used line.
//!
//! **Limits.** Caches within a host are not modelled: a line that moves between its cores costs a hit. That favours the
//! coherent machine.

use crate::machine::{Capacity, Found, LINE, Recency, Use};

/// Lines of a table's page.
const PAGE_LINES: usize = 1024;

type Page = [u64; PAGE_LINES];

/// Where the lines are that an access needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the host's cache, and in no other one if it writes.
    Here,
    /// The first of them that is not here is in another host's cache, or a write takes it from others.
    Another,
    /// It is to be read, and several other hosts have it.
    Several,
    /// It is in no cache.
    Memory,
}

/// The caches of all hosts; at most 64.
pub struct Coherence {
    /// For each line the hosts that have it, one bit each, by pages that exist once they are touched.
    pages: Vec<Option<Box<Page>>>,
    /// The lines that each host has.
    hosts: Vec<Recency>,
}

impl Coherence {
    /// Empty caches with room for so many lines each.
    pub fn new(hosts: u32, capacity: Capacity) -> Self {
        Self {
            pages: Vec::new(),
            hosts: (0..hosts).map(|_| Recency::new(capacity)).collect(),
        }
    }

    fn sharers(&mut self, line: u64) -> &mut u64 {
        let page = line as usize / PAGE_LINES;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE_LINES]));
        &mut page[line as usize % PAGE_LINES]
    }

    /// Where the lines of a range are, for a host that reads or writes them.
    pub fn source(&mut self, host: u32, at: u64, len: u64, writes: bool) -> Source {
        let mine = 1 << host;
        for line in at / LINE..=(at + len.max(1) - 1) / LINE {
            let sharers = *self.sharers(line);
            let is_here = if writes {
                sharers == mine
            } else {
                sharers & mine != 0
            };
            if !is_here {
                return match sharers.count_ones() {
                    0 => Source::Memory,
                    2.. if !writes => Source::Several,
                    _ => Source::Another,
                };
            }
        }
        Source::Here
    }

    /// A host reads or writes the lines of a range. Those that it had to fetch.
    pub fn access(&mut self, host: u32, at: u64, len: u64, writes: bool, usage: Use) -> Found {
        let (first, last) = (at / LINE, (at + len.max(1) - 1) / LINE);
        let fetched = (first..=last)
            .filter(|&line| self.access_line(host, line, writes, usage))
            .count();
        match fetched {
            0 => Found::Hit,
            fetched => Found::Missed(fetched as u32),
        }
    }

    /// Whether the line had to be fetched.
    fn access_line(&mut self, host: u32, line: u64, writes: bool, usage: Use) -> bool {
        let mine = 1 << host;
        let before = *self.sharers(line);
        let is_enough = if writes {
            before == mine
        } else {
            before & mine != 0
        };
        if before & mine != 0 {
            self.hosts[host as usize].touch(line as u32, usage);
        }
        if is_enough {
            return false;
        }
        *self.sharers(line) = if writes { mine } else { before | mine };
        if writes {
            let mut others = before & !mine;
            while others != 0 {
                self.hosts[others.trailing_zeros() as usize].remove(line as u32);
                others &= others - 1;
            }
        }
        if before & mine == 0 {
            self.make_room(host, usage);
            self.hosts[host as usize].add(line as u32, usage);
        }
        true
    }

    /// Drops lines of a host until one more fits.
    fn make_room(&mut self, host: u32, usage: Use) {
        while let Some(line) = self.hosts[host as usize].victim(usage, 1) {
            self.hosts[host as usize].remove(line);
            *self.sharers(line.into()) &= !(1 << host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_takes_the_line_from_others() {
        let mut caches = Coherence::new(2, Capacity { shared: 10, own: 0 });
        assert_eq!(caches.access(0, 8, 8, false, Use::Shared), Found::Missed(1));
        assert_eq!(caches.access(0, 16, 8, true, Use::Shared), Found::Hit);
        assert_eq!(caches.access(1, 0, 128, false, Use::Shared), Found::Missed(2));
        assert_eq!(caches.access(1, 0, 8, false, Use::Shared), Found::Hit);
        assert_eq!(caches.access(1, 0, 8, true, Use::Shared), Found::Missed(1));
        assert_eq!(caches.access(1, 0, 8, true, Use::Shared), Found::Hit);
        assert_eq!(caches.access(0, 0, 8, false, Use::Shared), Found::Missed(1));
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut caches = Coherence::new(2, Capacity { shared: 3, own: 0 });
        let read = |caches: &mut Coherence, line: u64| caches.access(0, line * LINE, 8, false, Use::Shared);
        for line in [1, 2, 3, 1, 4] {
            read(&mut caches, line);
        }
        // Another writes one of them: there is room for one more.
        caches.access(1, 3 * LINE, 8, true, Use::Shared);
        assert_eq!(read(&mut caches, 5), Found::Missed(1));
        for line in [1, 4, 5] {
            assert_eq!(read(&mut caches, line), Found::Hit, "{line}");
        }
        assert_eq!(read(&mut caches, 2), Found::Missed(1));
        assert_eq!(read(&mut caches, 1), Found::Missed(1));
    }

    #[test]
    fn a_full_cache_drops_lines() {
        let mut caches = Coherence::new(2, Capacity { shared: 4, own: 0 });
        for round in 0..3 {
            for line in 0..5000 {
                let found = caches.access(0, line * LINE, 8, round == 1, Use::Shared);
                assert!(round > 0 || found != Found::Hit);
                assert!(caches.hosts[0].count() <= 4);
                caches.access(1, line * LINE, 8, line % 3 == 0, Use::Shared);
            }
        }
    }
}
