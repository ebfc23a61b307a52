//! Zipfian ranks, and the permutation that scatters them over the records.
//!
//! [`Zipfian`] draws ranks by the method that YCSB uses (Gray et al., "Quickly generating billion-record
//! synthetic databases", SIGMOD 1994, section 3.2): one uniform number and one power a draw, no rejection. The sum
//! zeta(n) is computed once and extended when the number of items grows. Ranks 0 and 1 are drawn with their exact
//! probability; the others follow the integral of the density, which is at most a few per cent off for the
//! next few ranks and exact enough after that (the tests say how exact).
//!
//! Deviation from YCSB: it scatters ranks with a hash modulo n, which gives several ranks to one record and leaves
//! about a third of the records without any. [`Scatter`] is a permutation, so that every record has exactly one
//! rank and the frequencies are those of theory.

use rand::Rng;

/// The skew that YCSB uses.
pub const THETA: f64 = 0.99;

/// Draws ranks `0..items`; rank r has a probability proportional to `1 / (r + 1)^theta`.
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    alpha: f64,
    eta: f64,
    zeta_items: f64,
    zeta_two: f64,
}

impl Zipfian {
    /// A distribution over `items` ranks. Costs `items` powers.
    ///
    /// # Panics
    /// If `items` is 0 or `theta` is not strictly between 0 and 1 (the method's range).
    pub fn new(items: u64, theta: f64) -> Self {
        assert!(items > 0, "a zipfian distribution needs an item");
        assert!(
            theta > 0.0 && theta < 1.0,
            "theta is {theta}, but must lie strictly between 0 and 1"
        );
        let mut zipfian = Self {
            items,
            theta,
            alpha: 1.0 / (1.0 - theta),
            eta: 0.0,
            zeta_items: zeta(0, items, theta),
            zeta_two: zeta(0, 2, theta),
        };
        zipfian.set_eta();
        zipfian
    }

    /// The number of ranks.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Extends the distribution to more ranks; fewer change nothing. Costs a power for each new rank.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta_items += zeta(self.items, items, self.theta);
            self.items = items;
            self.set_eta();
        }
    }

    /// The next rank.
    #[inline]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        let uniform: f64 = rng.random();
        let mass = uniform * self.zeta_items;
        if mass < 1.0 {
            return 0;
        }
        if mass < self.zeta_two {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }

    /// The probability of a rank in theory.
    pub fn probability(&self, rank: u64) -> f64 {
        if rank >= self.items {
            return 0.0;
        }
        ((rank + 1) as f64).powf(-self.theta) / self.zeta_items
    }

    fn set_eta(&mut self) {
        // With two items or fewer, `sample` returns before it uses eta.
        if self.items > 2 {
            self.eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta))
                / (1.0 - self.zeta_two / self.zeta_items);
        }
    }
}

/// The terms `from + 1 ..= to` of the sum of `1 / i^theta`.
fn zeta(from: u64, to: u64, theta: f64) -> f64 {
    (from + 1..=to).map(|i| (i as f64).powf(-theta)).sum()
}

/// A fixed permutation of `0..items`, without a table.
///
/// It mixes numbers of just enough bits with steps that can each be undone (an odd factor; a shifted exclusive or)
/// and repeats while the outcome lies outside `0..items` ("cycle walking"), at most about twice on average.
#[derive(Debug, Clone)]
pub struct Scatter {
    items: u64,
    mask: u64,
    shift: u32,
}

impl Scatter {
    /// A permutation of `0..items`.
    ///
    /// # Panics
    /// If `items` is 0.
    pub fn new(items: u64) -> Self {
        assert!(items > 0, "a permutation needs an item");
        let bits = (u64::BITS - (items - 1).leading_zeros()).max(1);
        Self {
            items,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits / 2 + 1,
        }
    }

    /// Where `item` goes.
    ///
    /// # Panics
    /// In debug builds, if `item` is not below the number of items.
    #[inline]
    pub fn apply(&self, item: u64) -> u64 {
        debug_assert!(item < self.items);
        let mut word = item;
        loop {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15) & self.mask;
            word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask;
            word ^= word.checked_shr(self.shift).unwrap_or(0);
            word = word.wrapping_mul(0x94d0_49bb_1331_11eb) & self.mask;
            word ^= word.checked_shr(self.shift).unwrap_or(0);
            if word < self.items {
                return word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    const DRAWS: usize = 1_000_000;

    fn counts(zipfian: &Zipfian, seed: u64) -> Vec<u32> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut counts = vec![0; zipfian.items() as usize];
        for _ in 0..DRAWS {
            counts[zipfian.sample(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn frequencies_match_theory() {
        for (items, theta) in [(1_000, THETA), (100_000, THETA), (10_000, 0.5)] {
            let zipfian = Zipfian::new(items, theta);
            let counts = counts(&zipfian, 1);
            for rank in 0..2 {
                let expected = zipfian.probability(rank) * DRAWS as f64;
                let deviation = (f64::from(counts[rank as usize]) - expected).abs();
                // Five standard deviations: the first two ranks are exact.
                assert!(
                    deviation < 5.0 * expected.sqrt(),
                    "rank {rank} of {items}: off by {deviation}"
                );
            }
            for head in [10, 100, 1_000] {
                let drawn = counts[..head].iter().sum::<u32>() as f64 / DRAWS as f64;
                let expected: f64 = (0..head as u64).map(|rank| zipfian.probability(rank)).sum();
                assert!(
                    (drawn / expected - 1.0).abs() < 0.06,
                    "head {head} of {items} at {theta}: {drawn} for {expected}"
                );
            }
        }
    }

    #[test]
    fn probabilities_sum_to_one() {
        let zipfian = Zipfian::new(5_000, THETA);
        let sum: f64 = (0..6_000).map(|rank| zipfian.probability(rank)).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn growing_equals_starting_large() {
        let mut grown = Zipfian::new(3, THETA);
        (4..=500).for_each(|items| grown.grow(items));
        grown.grow(10);
        let fresh = Zipfian::new(500, THETA);
        assert_eq!(grown.items(), 500);
        assert!((grown.zeta_items - fresh.zeta_items).abs() < 1e-9);
        assert!((grown.eta - fresh.eta).abs() < 1e-9);
    }

    #[test]
    fn few_items_stay_in_range() {
        for items in 1..=5 {
            let counts = counts(&Zipfian::new(items, THETA), 2);
            assert!(counts.iter().all(|&count| count > 0), "{items}: {counts:?}");
        }
    }

    #[test]
    fn scatter_is_a_permutation() {
        for items in (1..=70).chain([255, 256, 257, 1_000, 65_536, 100_000]) {
            let scatter = Scatter::new(items);
            let mut seen = vec![false; items as usize];
            for item in 0..items {
                let place = scatter.apply(item) as usize;
                assert!(!seen[place], "{items} items: {place} twice");
                seen[place] = true;
            }
        }
    }

    #[test]
    fn scatter_parts_neighbours() {
        let scatter = Scatter::new(1_000_000);
        let places: Vec<u64> = (0..1_000).map(|item| scatter.apply(item)).collect();
        let close = places
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 1_000)
            .count();
        assert!(close < 20, "{close} of the thousand hottest lie side by side");
        // The hottest spread evenly: no tenth of the records holds more than a fifth of them.
        for tenth in 0..10 {
            let held = places.iter().filter(|&&place| place / 100_000 == tenth).count();
            assert!((50..200).contains(&held), "tenth {tenth} holds {held}");
        }
    }
}
