//! Histograms of nanoseconds, as words that lie in a file: eight buckets for each power of two.

/// Words of a histogram.
pub const BUCKETS: usize = 40 * 8;

/// The time within which a share of the operations was done, in nanoseconds; 0 if there were none.
pub fn quantile(histogram: &[u64], share: f64) -> u64 {
    let all: u64 = histogram.iter().sum();
    let wanted = (all as f64 * share).ceil() as u64;
    let mut sum = 0;
    for (bucket, count) in histogram.iter().enumerate() {
        sum += count;
        if sum >= wanted && sum > 0 {
            return upper_bound(bucket);
        }
    }
    0
}

/// The bucket of a time.
pub fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds < 8 {
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2() as usize;
    ((power - 2) * 8 + (nanoseconds >> (power - 3)) as usize % 8).min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let power = bucket / 8 + 2;
    ((8 + bucket as u64 % 8 + 1) << (power - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for nanoseconds in (0..10_000).chain([1 << 20, (1 << 20) - 1, 123_456_789]) {
            let bucket = bucket_of(nanoseconds);
            assert!(nanoseconds <= upper_bound(bucket), "{nanoseconds} in {bucket}");
            assert!(
                bucket == 0 || nanoseconds > upper_bound(bucket - 1),
                "{nanoseconds} in {bucket}"
            );
        }
    }

    #[test]
    fn quantiles_are_found() {
        let mut words = vec![0; BUCKETS];
        words[bucket_of(100)] = 999;
        words[bucket_of(1_000_000)] = 1;
        assert_eq!(quantile(&words, 0.5), upper_bound(bucket_of(100)));
        assert_eq!(quantile(&words, 1.0), upper_bound(bucket_of(1_000_000)));
    }
}
