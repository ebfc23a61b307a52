//! What an application said was acknowledged, beside what is in the pool.
//!
//! Each thread of each run of the application on each host writes numbers from 0 on, one after the other. So the
//! highest number says what was acknowledged, and the highest number and the count say what is in the pool.

use std::collections::BTreeMap;

/// What a thread writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Records of its own.
    Own,
    /// Entries that all threads make, under a lock.
    Entry,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "own" => Some(Self::Own),
            "entry" => Some(Self::Entry),
            _ => None,
        }
    }
}

/// A thread: what it writes, its host, its run.
pub type Writer = (Kind, u32, u64);

/// What was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    /// How many of each thread's.
    pub counts: BTreeMap<Writer, u64>,
    /// Entries that were made twice under one lock.
    pub conflicts: u64,
}

impl Acknowledged {
    /// Takes down a line of an application. One that was cut off counts for nothing.
    pub fn hear(&mut self, host: u32, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["conflict", _, "."] => self.conflicts += 1,
            [kind, run, n, "."] => {
                if let (Some(kind), Ok(run), Ok(n)) = (Kind::named(kind), run.parse(), n.parse::<u64>()) {
                    let count = self.counts.entry((kind, host, run)).or_default();
                    *count = (*count).max(n + 1);
                }
            }
            _ => {}
        }
    }

    /// How many of one thread's writes were acknowledged.
    pub fn of(&self, writer: Writer) -> u64 {
        self.counts.get(&writer).copied().unwrap_or(0)
    }

    /// How many of a host's.
    pub fn of_host(&self, host: u32) -> u64 {
        let ours = self.counts.iter().filter(|((_, of, _), _)| *of == host);
        ours.map(|(_, count)| count).sum()
    }

    /// How many in all.
    pub fn all(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many of these are not there.
    pub fn missing_in(&self, found: &Found) -> u64 {
        let of = |(writer, acknowledged): (&Writer, &u64)| {
            let (count, numbers) = found.counts.get(writer).copied().unwrap_or((0, 0));
            // If fewer are there than the highest number says, any of them may be missing.
            acknowledged.saturating_sub(numbers) + numbers.saturating_sub(count)
        };
        self.counts.iter().map(of).sum()
    }
}

/// What a guest finds in the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Of each thread's: how many there are, and one more than the highest number.
    pub counts: BTreeMap<Writer, (u64, u64)>,
    /// What is torn, or out of order.
    pub wrong: u64,
}

impl Found {
    /// Reads what the application prints of the pool; `None` if the text is incomplete.
    pub fn read(lines: &[String]) -> Option<Self> {
        let mut found = Self::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["end", "."] => return Some(found),
                ["wrong", count, "."] => found.wrong = count.parse().ok()?,
                [kind, host, run, count, highest, "."] => {
                    let writer = (Kind::named(kind)?, host.parse().ok()?, run.parse().ok()?);
                    let numbers = highest.parse::<u64>().ok()? + 1;
                    found.counts.insert(writer, (count.parse().ok()?, numbers));
                }
                _ => return None,
            }
        }
        None
    }

    /// By how much the writes of a host's run have grown since, or shrunk.
    pub fn written_since(&self, before: &Self, host: u32, run: u64) -> u64 {
        let of = |found: &Self, kind| found.counts.get(&(kind, host, run)).map_or(0, |found| found.0);
        let changed = |kind| of(self, kind).abs_diff(of(before, kind));
        changed(Kind::Own) + changed(Kind::Entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<Found> {
        Found::read(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    fn acknowledged(lines: &str) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        lines.lines().for_each(|line| acknowledged.hear(1, line));
        acknowledged
    }

    #[test]
    fn what_was_acknowledged_and_is_not_there_is_missing() {
        let said = acknowledged("own 1 0 .\nown 1 1 .\nown 1 2 .\nentry 1 0 .\nown 1 39");
        assert_eq!(
            (said.all(), said.of((Kind::Own, 1, 1)), said.of_host(2)),
            (4, 3, 0)
        );
        let missing = |text| said.missing_in(&found(text).unwrap());
        assert_eq!(missing("own 1 1 3 2 .\nentry 1 1 1 0 .\nwrong 0 .\nend ."), 0);
        // One more than was acknowledged may be there.
        assert_eq!(missing("own 1 1 4 3 .\nentry 1 1 1 0 .\nwrong 0 .\nend ."), 0);
        // The last one is gone; one in between; all entries.
        assert_eq!(missing("own 1 1 2 1 .\nentry 1 1 1 0 .\nend ."), 1);
        assert_eq!(missing("own 1 1 2 2 .\nentry 1 1 1 0 .\nend ."), 1);
        assert_eq!(missing("own 1 1 3 2 .\nend ."), 1);
    }

    #[test]
    fn two_who_had_the_lock_are_counted() {
        assert_eq!(acknowledged("conflict 7 .\nconflict 8").conflicts, 1);
    }

    #[test]
    fn what_is_written_after_a_fence_is_seen() {
        let before = found("own 1 1 3 2 .\nown 2 1 9 8 .\nend .").unwrap();
        let after = found("own 1 1 4 3 .\nown 2 1 19 18 .\nentry 1 1 1 0 .\nend .").unwrap();
        assert_eq!(after.written_since(&before, 1, 1), 2);
        assert_eq!(before.written_since(&before, 1, 1), 0);
    }

    #[test]
    fn an_answer_that_was_cut_off_is_none() {
        assert_eq!(found("own 1 1 3 2 .\nwrong 0 ."), None);
        assert_eq!(found("own 1 1 3 2\nend ."), None);
        assert_eq!(found("wrong 3 .\nend .").unwrap().wrong, 3);
    }
}
