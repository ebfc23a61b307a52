//! An estimate of the zipf exponent from how often keys occurred.
//!
//! Keys are ranked by their counts. Ranks are trusted down to the last key that occurred at least [`LEAST`] times:
//! below that, order is mostly chance. Given that a request is for one of these R keys, a zipfian distribution of
//! exponent s asks for rank r with the probability `r^-s / (1^-s + … + R^-s)`; the estimate is the s that makes the
//! counts most likely. That is where the mean of `ln r` over the requests equals its expectation, which falls as s
//! grows, so bisection finds it.
//!
//! It differs from the estimates published with the Twitter traces, which are slopes of a line through the logarithms
//! of ranks and counts: likelihood weighs a rank by its requests, a line weighs all ranks alike. On data that is
//! zipfian both agree. For other data it gives a number all the same: look at the counts.

/// The fewest occurrences of a key whose rank is trusted.
pub const LEAST: u64 = 16;
/// The fewest ranks that an estimate is made from.
const RANKS_MIN: usize = 8;
/// Estimates lie from 0 to this.
const EXPONENT_MAX: f64 = 20.0;

/// What was estimated, and from how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The exponent.
    pub exponent: f64,
    /// Ranks that it was estimated from.
    pub ranks: usize,
    /// Requests for them.
    pub requests: u64,
}

/// The exponent that makes the counts most likely; none if too few keys occurred often enough to tell.
pub fn fit(counts: impl IntoIterator<Item = u64>) -> Option<Fit> {
    let mut counts: Vec<u64> = counts.into_iter().filter(|&count| count >= LEAST).collect();
    if counts.len() < RANKS_MIN {
        return None;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
    let requests: u64 = counts.iter().sum();
    let seen: f64 = counts
        .iter()
        .zip(&logs)
        .map(|(&count, log)| count as f64 * log)
        .sum();
    let mean = seen / requests as f64;
    let (mut low, mut high) = (0.0, EXPONENT_MAX);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if expected(&logs, middle) > mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(Fit {
        exponent: (low + high) / 2.0,
        ranks: counts.len(),
        requests,
    })
}

/// The mean of the logarithms if ranks have an exponent.
fn expected(logs: &[f64], exponent: f64) -> f64 {
    let (mut weights, mut sum) = (0.0, 0.0);
    for log in logs {
        let weight = (-exponent * log).exp();
        weights += weight;
        sum += weight * log;
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_counts_give_their_exponent() {
        for exponent in [0.0, 0.5, 1.0, 2.0] {
            let counts = (1..=200).map(|rank| (1e7 * f64::from(rank).powf(-exponent)) as u64);
            let found = fit(counts).unwrap();
            assert!((found.exponent - exponent).abs() < 0.01, "{exponent}: {found:?}");
            assert_eq!(found.ranks, 200);
        }
    }

    #[test]
    fn too_little_to_tell() {
        assert_eq!(fit([]), None);
        assert_eq!(fit([1_000; 7]), None);
        assert_eq!(fit([LEAST - 1; 1_000]), None);
        assert!(fit([LEAST; 8]).unwrap().exponent < 1e-6);
    }
}
