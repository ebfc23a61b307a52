//! Sizes of keys and values in synthetic traces. A key's size and its value's depend on the key alone, so that the same
//! key has the same size whenever it comes, without a table.

use super::error::Error;
use crate::key_of_record;

/// The largest size that is made.
pub const SIZE_MAX: u32 = 1 << 28;

/// How sizes are distributed over keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All have the mean.
    Fixed,
    /// From 1 to what makes the mean, each with the same probability.
    Uniform,
    /// Many small ones and few large ones: exponential, rounded up.
    Exponential,
}

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Their mean over all keys. That over all requests may be another: the few hottest keys decide it.
    pub mean: u32,
    /// Their distribution.
    pub shape: Shape,
}

impl Sizes {
    /// All of one size.
    pub const fn fixed(size: u32) -> Self {
        Self {
            mean: size,
            shape: Shape::Fixed,
        }
    }

    /// Refuses means that cannot be made.
    pub(super) fn check(self, what: &str) -> Result<(), Error> {
        let most = SIZE_MAX / 64;
        if self.mean > most {
            return Err(Error::Unfit(format!(
                "a mean {what} of {} bytes is too large; the largest is {most}",
                self.mean
            )));
        }
        Ok(())
    }

    /// The size that belongs to a number. Different `salt`s give sizes that have nothing to do with each other.
    pub(super) fn of(self, number: u64, salt: u64) -> u32 {
        let mean = f64::from(self.mean);
        // In (0, 1], so that its logarithm is finite.
        let unit = || ((key_of_record(number ^ salt) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let size = match self.shape {
            Shape::Fixed => return self.mean,
            Shape::Uniform => (unit() * (2.0 * mean - 1.0)).ceil(),
            // The mean of what is rounded up is mean if that of the exponential is 1 / ln(mean / (mean - 1)).
            Shape::Exponential if mean <= 1.0 => mean,
            Shape::Exponential => (-unit().ln() / (mean / (mean - 1.0)).ln()).ceil().max(1.0),
        };
        // A conversion from a float is cut to the range.
        (size as u32).min(SIZE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_as_asked() {
        for shape in [Shape::Fixed, Shape::Uniform, Shape::Exponential] {
            for mean in [0, 1, 2, 10, 1_000] {
                let sizes = Sizes { mean, shape };
                let sum: u64 = (0..100_000).map(|n| u64::from(sizes.of(n, 7))).sum();
                let found = sum as f64 / 100_000.0;
                let wanted = f64::from(mean);
                assert!((found - wanted).abs() <= wanted * 0.02, "{sizes:?}: {found}");
            }
        }
        assert!(Sizes::fixed(SIZE_MAX).check("value").is_err());
    }
}
