//! The set of calls that a search has decided, and its short form for the cache.
//!
//! Calls are numbered by their begins, so the set of decided ones is nearly a prefix: all up to a point, some of the
//! few that are concurrent there, none behind. The short form is the number of full words at the beginning, the words
//! up to the last that is not empty, and those of the open calls, which are few and anywhere. So a cached configuration
//! takes a few words, however long the history.

const WORD: usize = u64::BITS as usize;

/// A set of calls.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// Calls that are not open.
    closed: Vec<u64>,
    /// Open ones.
    open: Vec<u64>,
    /// The first open one.
    open_from: usize,
}

/// A set of calls as the cache keeps it.
pub(super) type Key = Box<[u64]>;

impl Taken {
    /// The empty set among `count` calls, of which the first `closed` are not open.
    pub fn new(closed: usize, count: usize) -> Self {
        Taken {
            closed: vec![0; closed.div_ceil(WORD)],
            open: vec![0; (count - closed).div_ceil(WORD)],
            open_from: closed,
        }
    }

    /// Adds a call, or removes it.
    pub fn flip(&mut self, operation: usize) {
        let (words, index) = if operation < self.open_from {
            (&mut self.closed, operation)
        } else {
            (&mut self.open, operation - self.open_from)
        };
        words[index / WORD] ^= 1 << (index % WORD);
    }

    /// Whether a call is in the set.
    pub fn contains(&self, operation: usize) -> bool {
        let (words, index) = if operation < self.open_from {
            (&self.closed, operation)
        } else {
            (&self.open, operation - self.open_from)
        };
        words[index / WORD] >> (index % WORD) & 1 != 0
    }

    /// The short form: equal for equal sets of the same calls, and only for those.
    pub fn key(&self) -> Key {
        let full = self.closed.iter().take_while(|&&word| word == u64::MAX).count();
        let middle = trimmed(&self.closed[full..]);
        let open = trimmed(&self.open);
        [full as u64, middle.len() as u64]
            .iter()
            .chain(middle)
            .chain(open)
            .copied()
            .collect()
    }
}

/// Without the empty words at the end.
fn trimmed(words: &[u64]) -> &[u64] {
    let length = words
        .iter()
        .rposition(|&word| word != 0)
        .map_or(0, |last| last + 1);
    &words[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_and_distinct() {
        let mut taken = Taken::new(10_000, 10_003);
        for operation in 0..5_000 {
            taken.flip(operation);
        }
        let prefix = taken.key();
        assert!(prefix.len() <= 3, "{prefix:?}");
        let mut keys = vec![prefix];
        for operation in [5_001, 5_070, 10_000, 10_002] {
            taken.flip(operation);
            assert!(taken.contains(operation));
            keys.push(taken.key());
            assert!(taken.key().len() <= 5);
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
    }

    #[test]
    fn a_closed_call_is_not_an_open_one() {
        let mut first = Taken::new(64, 128);
        let mut second = first.clone();
        first.flip(0);
        second.flip(64);
        assert_ne!(first.key(), second.key());
        first.flip(0);
        second.flip(64);
        assert_eq!(first.key(), second.key());
    }
}
