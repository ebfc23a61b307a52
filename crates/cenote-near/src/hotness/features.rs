//! What the model sees of a subrange: the paper's five features, by hexadecimal digits (section V-A).

use std::collections::VecDeque;

/// Batches that the model looks back on.
pub(super) const STEPS: usize = 8;
/// Digits of each feature: hotness, left, right, lifetime, keys. What has more is all 15s.
const DIGITS: [u32; 5] = [6, 1, 1, 2, 6];
/// Inputs of the model for one batch.
pub(super) const INPUTS: usize = 16;

/// A subrange in one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Operations that asked for it.
    pub hotness: u32,
    /// Whether the subranges that end and begin beside it were asked for.
    pub left: bool,
    pub right: bool,
    /// Batches between this one and the last one before it that asked for the subrange.
    pub lifetime: u32,
    /// Its keys.
    pub keys: u32,
}

impl Step {
    /// Appends its digits, each from 0 to 1.
    pub fn write(&self, to: &mut Vec<f32>) {
        let features = [
            self.hotness,
            self.left.into(),
            self.right.into(),
            self.lifetime,
            self.keys,
        ];
        for (feature, digits) in features.into_iter().zip(DIGITS) {
            let feature = feature.min((1 << (4 * digits)) - 1);
            to.extend(
                (0..digits)
                    .rev()
                    .map(|digit| scaled((feature >> (4 * digit)) & 15)),
            );
        }
    }
}

/// A digit as an input: by its logarithm, since hotness is told apart by factors.
fn scaled(digit: u32) -> f32 {
    (1.0 + digit as f32).log2() / 4.0
}

/// The last batches of a subrange: those of a window, and those that the model sees before it.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<Step>);

impl History {
    /// Adds a batch, and forgets what a window of so many has no use for.
    pub fn push(&mut self, step: Step, window: usize) {
        self.0.push_back(step);
        while self.0.len() > STEPS + window {
            self.0.pop_front();
        }
    }

    pub fn latest(&self) -> Step {
        self.0.back().copied().unwrap_or_default()
    }

    /// Hotness in the last batches, as many as a window has.
    pub fn hotness(&self, window: usize) -> u32 {
        let last = self.0.iter().rev().take(window);
        last.fold(0, |sum, step| sum.saturating_add(step.hotness))
    }

    /// What the model sees so many batches ago: the steps up to then. What was before the first one is empty.
    pub fn write(&self, ago: usize, to: &mut Vec<f32>) {
        let seen = self.0.len().saturating_sub(ago);
        for at in 0..STEPS {
            let step = (seen + at).checked_sub(STEPS).and_then(|at| self.0.get(at));
            step.copied().unwrap_or_default().write(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_hexadecimal_digits() {
        assert_eq!(DIGITS.iter().sum::<u32>() as usize, INPUTS);
        let step = Step {
            hotness: 0x1f,
            left: true,
            right: false,
            lifetime: 0xfff,
            keys: 0x20_0003,
        };
        let mut digits = Vec::new();
        step.write(&mut digits);
        let numbers = [0, 0, 0, 0, 1, 15, 1, 0, 15, 15, 2, 0, 0, 0, 0, 3];
        assert_eq!(digits, numbers.map(scaled));
    }

    #[test]
    fn the_latest_batch_comes_last() {
        let mut history = History::default();
        for hotness in 1..=9 + STEPS as u32 {
            let step = Step {
                hotness,
                ..Step::default()
            };
            history.push(step, 2);
        }
        assert_eq!(history.latest().hotness, 17);
        assert_eq!(history.hotness(2), 33);
        let seen = |ago| {
            let mut inputs = Vec::new();
            history.write(ago, &mut inputs);
            // The last two of hotness's six digits.
            inputs
                .chunks(INPUTS)
                .map(|step| [step[4], step[5]])
                .collect::<Vec<_>>()
        };
        let expected =
            |hotness: [u32; 8]| hotness.map(|hotness| [scaled(hotness / 16), scaled(hotness % 16)]);
        assert_eq!(seen(0), expected([10, 11, 12, 13, 14, 15, 16, 17]));
        assert_eq!(seen(2), expected([8, 9, 10, 11, 12, 13, 14, 15]));
        assert_eq!(seen(4), expected([0, 0, 8, 9, 10, 11, 12, 13]));
    }
}
