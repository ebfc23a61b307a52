//! Which hotness makes which class (section V-A).
//!
//! Classes are levels of L2. In a perfect skiplist half of the nodes are in one level alone, a quarter in two, and so
//! on: so the coldest half are of class 0, the next quarter of class 1. To sort all subranges in each batch is too
//! much, so a sample is sorted, and a curve is fitted to it by least squares: the logarithm of the hotness as a
//! polynomial of the second degree of the logarithm of the rank. The curve says where classes end in the next window,
//! however many there are then.

/// The curve: hotness that a share of all subranges has at least.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Thresholds([f64; 3]);

impl Thresholds {
    /// Fits the curve to a sample of hotness. None if there are fewer than eight.
    pub fn fit(mut sample: Vec<u32>) -> Option<Self> {
        if sample.len() < 8 {
            return None;
        }
        sample.sort_unstable_by(|one, other| other.cmp(one));
        let count = sample.len() as f64;
        let mut matrix = [[0.0f64; 4]; 3];
        for (rank, hotness) in sample.iter().enumerate() {
            let x = ((rank as f64 + 0.5) / count).ln();
            let y = (1.0 + f64::from(*hotness)).ln();
            // Each class counts for as much as any other, though each next one has half as many.
            let weight = (-x).exp();
            let powers = [1.0, x, x * x];
            for (row, at) in matrix.iter_mut().zip(powers) {
                for (cell, other) in row.iter_mut().zip(powers) {
                    *cell += weight * at * other;
                }
                row[3] += weight * at * y;
            }
        }
        Some(Self(solve(matrix)))
    }

    /// The hotness that a share, above 0 and up to 1, has at least.
    pub fn at(&self, share: f64) -> f64 {
        let x = share.ln();
        let [a, b, c] = self.0;
        (a + b * x + c * x * x).exp() - 1.0
    }

    /// The class of a hotness, of so many classes.
    pub fn class(&self, hotness: u32, classes: u8) -> u8 {
        let mut class = 0;
        let mut share = 0.5;
        while class + 1 < classes && f64::from(hotness) >= self.at(share) {
            class += 1;
            share /= 2.0;
        }
        class
    }
}

/// Three equations, by elimination; what they leave open is 0.
fn solve(mut rows: [[f64; 4]; 3]) -> [f64; 3] {
    for pivot in 0..3 {
        let best =
            (pivot..3).max_by(|one, other| rows[*one][pivot].abs().total_cmp(&rows[*other][pivot].abs()));
        rows.swap(pivot, best.unwrap_or(pivot));
        let first = rows[pivot];
        if first[pivot].abs() < 1e-9 {
            continue;
        }
        for row in &mut rows[pivot + 1..] {
            let factor = row[pivot] / first[pivot];
            for (cell, above) in row.iter_mut().zip(first) {
                *cell -= factor * above;
            }
        }
    }
    let mut solved = [0.0; 3];
    for at in (0..3).rev() {
        let row = rows[at];
        if row[at].abs() >= 1e-9 {
            let known: f64 = (at + 1..3).map(|other| row[other] * solved[other]).sum();
            solved[at] = (row[3] - known) / row[at];
        }
    }
    solved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_finds_the_classes_of_a_zipfian_sample() {
        let sample: Vec<u32> = (1..=4096).map(|rank| 1_000_000 / rank).collect();
        let fitted = Thresholds::fit(sample.clone()).unwrap();
        let mut count = [0u32; 6];
        for hotness in sample {
            count[usize::from(fitted.class(hotness, 6))] += 1;
        }
        for (class, (found, expected)) in count
            .into_iter()
            .zip([2048u32, 1024, 512, 256, 128, 128])
            .enumerate()
        {
            assert!(
                found.abs_diff(expected) * 8 <= expected,
                "class {class}: {found} for {expected}"
            );
        }
    }

    #[test]
    fn what_is_all_alike_and_what_is_too_little_are_no_trouble() {
        assert_eq!(Thresholds::fit(vec![1; 7]), None);
        let alike = Thresholds::fit(vec![10; 64]).unwrap();
        assert!((alike.at(0.5) - 10.0).abs() < 1e-6, "{}", alike.at(0.5));
        assert_eq!(alike.class(9, 4), 0);
    }
}
