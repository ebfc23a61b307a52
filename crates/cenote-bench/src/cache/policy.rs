//! Caches of one process that only count: which requests hit, with so many bytes at most.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// A cache that holds sizes and no values.
pub trait Policy {
    /// Whether a key is there.
    fn has(&self, key: u64) -> bool;
    /// Asks for a key. Whether it is there.
    fn get(&mut self, key: u64) -> bool;
    /// A key's new value, of so many bytes.
    fn put(&mut self, key: u64, bytes: u64);
    /// A key goes.
    fn delete(&mut self, key: u64);
}

/// What a cache holds, in an order of numbers that grow.
struct Order<T> {
    limit: u64,
    bytes: u64,
    next: u64,
    numbers: HashMap<u64, u64>,
    all: BTreeMap<u64, Held<T>>,
}

struct Held<T> {
    key: u64,
    bytes: u64,
    mark: T,
}

impl<T> Order<T> {
    fn new(limit: u64) -> Self {
        Self {
            limit,
            bytes: 0,
            next: 0,
            numbers: HashMap::new(),
            all: BTreeMap::new(),
        }
    }

    fn remove(&mut self, key: u64) -> Option<Held<T>> {
        let held = self.all.remove(&self.numbers.remove(&key)?)?;
        self.bytes -= held.bytes;
        Some(held)
    }

    fn add(&mut self, key: u64, bytes: u64, mark: T) {
        self.bytes += bytes;
        self.numbers.insert(key, self.next);
        self.all.insert(self.next, Held { key, bytes, mark });
        self.next += 1;
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.bytes + bytes <= self.limit
    }
}

/// SIEVE (Zhang et al., NSDI '24): the hand goes from the oldest to the newest; what was asked for since it came by
/// last loses its mark, the next one without goes.
pub struct Sieve {
    order: Order<bool>,
    hand: u64,
}

impl Sieve {
    /// With so many bytes at most.
    pub fn new(limit: u64) -> Self {
        Self {
            order: Order::new(limit),
            hand: 0,
        }
    }

    fn evict(&mut self) {
        loop {
            let mut behind = self
                .order
                .all
                .range_mut((Bound::Included(self.hand), Bound::Unbounded));
            match behind.next() {
                Some((number, held)) => {
                    self.hand = number + 1;
                    if !std::mem::take(&mut held.mark) {
                        let key = held.key;
                        self.order.remove(key);
                        return;
                    }
                }
                None => self.hand = 0,
            }
        }
    }
}

impl Policy for Sieve {
    fn has(&self, key: u64) -> bool {
        self.order.numbers.contains_key(&key)
    }

    fn get(&mut self, key: u64) -> bool {
        let number = self.order.numbers.get(&key);
        let held = number.and_then(|number| self.order.all.get_mut(number));
        held.map(|held| held.mark = true).is_some()
    }

    fn put(&mut self, key: u64, bytes: u64) {
        self.order.remove(key);
        if bytes <= self.order.limit {
            while !self.order.has_room(bytes) {
                self.evict();
            }
            self.order.add(key, bytes, false);
        }
    }

    fn delete(&mut self, key: u64) {
        self.order.remove(key);
    }
}

/// The least recently used goes.
pub struct Lru(Order<()>);

impl Lru {
    /// With so many bytes at most.
    pub fn new(limit: u64) -> Self {
        Self(Order::new(limit))
    }
}

impl Policy for Lru {
    fn has(&self, key: u64) -> bool {
        self.0.numbers.contains_key(&key)
    }

    fn get(&mut self, key: u64) -> bool {
        let held = self.0.remove(key);
        held.map(|held| self.0.add(key, held.bytes, ())).is_some()
    }

    fn put(&mut self, key: u64, bytes: u64) {
        self.0.remove(key);
        if bytes <= self.0.limit {
            while !self.0.has_room(bytes) {
                let oldest = self.0.all.first_key_value().map(|(_, held)| held.key);
                oldest.and_then(|key| self.0.remove(key));
            }
            self.0.add(key, bytes, ());
        }
    }

    fn delete(&mut self, key: u64) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of one byte each that are there, of those below 10.
    fn there(policy: &impl Policy) -> Vec<u64> {
        (0..10).filter(|key| policy.has(*key)).collect()
    }

    #[test]
    fn sieve_keeps_what_was_asked_for_since_the_hand_came_by() {
        let mut sieve = Sieve::new(3);
        (0..3).for_each(|key| sieve.put(key, 1));
        assert!(sieve.get(0));
        sieve.put(3, 1);
        assert_eq!(there(&sieve), [0, 2, 3], "1 is the oldest without a mark");
        sieve.put(4, 1);
        assert_eq!(there(&sieve), [0, 3, 4], "the hand goes on behind 1");
        sieve.put(5, 3);
        assert_eq!(there(&sieve), [5]);
        sieve.put(6, 4);
        assert_eq!(there(&sieve), [5], "larger than the cache");
    }

    #[test]
    fn lru_keeps_what_was_asked_for_last() {
        let mut lru = Lru::new(3);
        (0..3).for_each(|key| lru.put(key, 1));
        assert!(lru.get(0));
        lru.put(3, 1);
        assert_eq!(there(&lru), [0, 2, 3]);
        lru.put(4, 2);
        assert_eq!(there(&lru), [3, 4]);
        assert!(!lru.get(0));
    }
}
