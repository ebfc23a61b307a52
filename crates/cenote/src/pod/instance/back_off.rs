//! Back-off: waiting after a lost compare-exchange. A worker that loses repeatedly waits longer (exponentially), at
//! random, so that one of many that want the same word gets through while the others leave its line alone.
//!
//! Its worker alone knows of it: nothing is in the pool. No worker waits for a particular other, so a death delays
//! nobody. Losses count for some time: a contended word stays contended, and most of the worker's other writes meet
//! nobody.

use std::cell::Cell;

use crate::memory::Memory;

/// Losses after which the wait grows no further: it is less than this power of two of pauses.
const LOSSES_MAX: u32 = 11;
/// Wins in a row, without a loss, that take one loss back.
const WINS: u32 = 64;

/// How often a worker has lost lately.
#[derive(Debug)]
pub struct BackOff {
    losses: Cell<u32>,
    /// Wins since the last loss.
    wins: Cell<u32>,
    /// The state of the random generator; never 0.
    draw: Cell<u64>,
}

impl BackOff {
    /// No losses yet. Workers with different seeds wait differently.
    pub fn new(seed: u64) -> Self {
        Self {
            losses: Cell::new(0),
            wins: Cell::new(0),
            draw: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        }
    }

    /// The exchange succeeded.
    #[inline]
    pub fn won(&self) {
        if self.losses.get() != 0 {
            self.won_after_losses();
        }
    }

    #[cold]
    fn won_after_losses(&self) {
        let wins = self.wins.get() + 1;
        self.wins.set(wins % WINS);
        // The first win after losses shows that the wait was long enough, perhaps too long.
        if wins == 1 || wins == WINS {
            self.losses.set(self.losses.get() - 1);
        }
    }

    /// The exchange failed: waits. Not at all the first time, then for less than 2, 4 and so on to 2,048 pauses.
    /// Returns whether it has waited, so that the value found is old.
    #[cold]
    pub fn lost<M: Memory>(&self, mem: &M) -> bool {
        let losses = self.losses.get();
        self.losses.set((losses + 1).min(LOSSES_MAX));
        self.wins.set(0);
        // Xorshift (Marsaglia, 2003).
        let mut draw = self.draw.get();
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        self.draw.set(draw);
        let pauses = draw % (1 << losses);
        for _ in 0..pauses {
            mem.pause();
        }
        pauses > 0
    }
}
