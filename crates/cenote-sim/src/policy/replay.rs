//! A run again: the numbers that another policy answered. Where they end, every answer is zero.

use super::{Candidate, Fault, Policy};

/// See the [module documentation](self).
pub struct Replay {
    decisions: Vec<u32>,
    next: usize,
}

impl Replay {
    /// A replay of decisions.
    pub fn new(decisions: Vec<u32>) -> Self {
        Self { decisions, next: 0 }
    }

    fn take(&mut self) -> u32 {
        let decision = self.decisions.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        decision
    }
}

impl Policy for Replay {
    fn thread(&mut self, candidates: &[Candidate], _ended: bool) -> usize {
        let decision = self.take() as usize % candidates.len();
        // Past the end, or in a schedule that was cut: a waiting thread lets the next one run.
        if candidates[decision].waits
            && candidates.len() > 1
            && decision == 0
            && self.next > self.decisions.len()
        {
            return 1 + self.next % (candidates.len() - 1);
        }
        decision
    }

    fn fault(&mut self, _fault: Fault, bound: u32) -> u32 {
        self.take() % bound
    }

    fn parameters(&self) -> String {
        format!("replay of {} decisions", self.decisions.len())
    }
}
