//! Zipfian ranks of any exponent, drawn without a sum over all ranks.
//!
//! [`Zipfian`](super::Zipfian) is YCSB's method: exponents below 1 only, and a power for every rank beforehand. Caches
//! have exponents up to 2.7 and billions of keys. [`Skewed`] draws by rejection-inversion (Hörmann and Derflinger,
//! "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996): invert
//! the integral of the continuous density `x^-s`, round, and reject what rounding gave too much. The ranks have
//! exactly the probabilities of theory, up to rounding of floating-point numbers; a draw costs a logarithm, an
//! exponential and seldom more.
//!
//! With `t = 1 - s`, the integral of the density from 1 to x is `(x^t - 1) / t`, and `ln x` if t is 0. Both are
//! `ln x` times `expm1(y) / y` with `y = t ln x`, which has no pole.

use rand::Rng;

/// Draws ranks `0..items`; rank r has a probability proportional to `1 / (r + 1)^exponent`.
#[derive(Debug, Clone)]
pub struct Skewed {
    items: f64,
    exponent: f64,
    /// The integral up to the end of the last rank, and from before the first one.
    last: f64,
    first: f64,
    /// What lies no further left of its rank than this is never rejected.
    sure: f64,
}

impl Skewed {
    /// A distribution over `items` ranks. Costs a few powers, however many items there are. An exponent of 0 gives
    /// every rank the same probability.
    ///
    /// # Panics
    /// If `items` is not from 1 to 2^52 or `exponent` is not from 0 to 100.
    pub fn new(items: u64, exponent: f64) -> Self {
        assert!(
            (1..=1 << 52).contains(&items),
            "{items} items; 1 to 2^52 can be drawn from"
        );
        assert!(
            (0.0..=100.0).contains(&exponent),
            "the exponent is {exponent}, but must lie from 0 to 100"
        );
        let mut skewed = Self {
            items: items as f64,
            exponent,
            last: 0.0,
            first: 0.0,
            sure: 0.0,
        };
        skewed.last = skewed.integral(skewed.items + 0.5);
        skewed.first = skewed.integral(1.5) - 1.0;
        skewed.sure = 2.0 - skewed.inverse(skewed.integral(2.5) - skewed.density(2.0));
        skewed
    }

    /// The next rank.
    #[inline]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        loop {
            let area = self.last + rng.random::<f64>() * (self.first - self.last);
            let x = self.inverse(area);
            // Rounding of numbers may leave the range by a little.
            let rank = (x + 0.5).floor().clamp(1.0, self.items);
            if rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        log * over(f64::exp_m1, (1.0 - self.exponent) * log)
    }

    /// The x whose integral is `area`.
    fn inverse(&self, area: f64) -> f64 {
        let y = (area * (1.0 - self.exponent)).max(-1.0);
        (area * over(f64::ln_1p, y)).exp()
    }
}

/// `function(y) / y`, which nears 1 as y nears 0.
fn over(function: impl Fn(f64) -> f64, y: f64) -> f64 {
    if y.abs() < 1e-12 { 1.0 } else { function(y) / y }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    const DRAWS: usize = 400_000;

    #[test]
    fn frequencies_match_theory() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for exponent in [0.0, 0.3, 0.99, 1.0, 1.2, 2.6774, 20.0] {
            for items in [1, 2, 3, 10, 1_000] {
                let skewed = Skewed::new(items, exponent);
                let mut counts = vec![0u32; items as usize];
                for _ in 0..DRAWS {
                    counts[skewed.sample(&mut rng) as usize] += 1;
                }
                let sum: f64 = (1..=items).map(|rank| (rank as f64).powf(-exponent)).sum();
                for (rank, &count) in counts.iter().enumerate() {
                    let expected = DRAWS as f64 * ((rank + 1) as f64).powf(-exponent) / sum;
                    let deviation = (f64::from(count) - expected).abs();
                    // Six standard deviations of a draw of 35,000 counts; and one more for what is rare.
                    assert!(
                        deviation <= 6.0 * expected.sqrt() + 1.5,
                        "rank {rank} of {items} at {exponent}: {count} for {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn many_items_need_no_sum() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        for exponent in [0.0, 0.5, 1.0, 3.0] {
            let skewed = Skewed::new(1 << 52, exponent);
            assert!((0..1_000).all(|_| skewed.sample(&mut rng) < 1 << 52));
        }
        let even = Skewed::new(1 << 52, 0.0);
        let upper = (0..10_000).filter(|_| even.sample(&mut rng) >= 1 << 51).count();
        assert!(upper.abs_diff(5_000) < 300, "{upper}");
    }
}
