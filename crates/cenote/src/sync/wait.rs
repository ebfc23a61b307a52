//! How one waits for a lock: looks close together first, then lets others run, then sleeps longer and longer. Nobody wakes
//! anybody: a waiter looks again by itself, so no wake-up is lost, and a death in the middle of an unlock cannot swallow one.
//! The price is that who has waited for long sees a free lock up to [`LONGEST_SLEEP`] late.

use std::time::{Duration, Instant};

use crate::memory::Memory;

/// Looks before others are let run.
pub(super) const SPINS: u32 = 64;
/// Looks between which others are let run, before the first sleep.
const YIELDS: u32 = 256;
/// Looks between two questions whether those in front are alive, before the first sleep.
const LOOKS_PER_QUESTION: u32 = 16;
/// The first sleep.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
/// The longest sleep between two looks.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// For how long somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// Until it has the lock.
    Forever,
    /// Until a moment.
    Until(Instant),
    /// For so many looks; where there is no clock.
    Looks(u32),
}

impl Patience {
    /// So long from now; for ever if that is beyond all clocks.
    pub fn during(time: Duration) -> Self {
        Instant::now()
            .checked_add(time)
            .map_or(Self::Forever, Self::Until)
    }
}

/// What the next look shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Only the word.
    Look,
    /// Also whether those in front are alive.
    Question,
    /// None: patience is at an end.
    GiveUp,
}

/// One wait.
#[derive(Debug)]
pub struct Waiting {
    patience: Patience,
    looks: u32,
    sleep: Duration,
}

impl Waiting {
    /// Begins one.
    #[inline]
    pub fn new(patience: Patience) -> Self {
        Self {
            patience,
            looks: 0,
            sleep: SHORTEST_SLEEP,
        }
    }

    /// Goes on, for as long as it takes, with one that has looked close together already.
    pub fn after_spins() -> Self {
        Self {
            looks: SPINS - 1,
            ..Self::new(Patience::Forever)
        }
    }

    /// Whether one has looked in vain.
    #[inline]
    pub(super) fn has_looked(&self) -> bool {
        self.looks != 0
    }

    /// Looked in vain: waits a moment.
    pub fn lose<M: Memory>(&mut self, mem: &M) -> Next {
        self.looks = self.looks.saturating_add(1);
        let is_over = match self.patience {
            Patience::None => true,
            Patience::Forever => false,
            Patience::Until(end) => self.looks >= SPINS && Instant::now() >= end,
            Patience::Looks(most) => self.looks > most,
        };
        if is_over {
            return Next::GiveUp;
        }
        if self.looks < SPINS {
            mem.pause();
            // Who has a short time asks early.
            return match self.looks == 1 && self.patience != Patience::Forever {
                true => Next::Question,
                false => Next::Look,
            };
        }
        if self.looks < SPINS + YIELDS {
            mem.relax();
            return match self.looks.is_multiple_of(LOOKS_PER_QUESTION) {
                true => Next::Question,
                false => Next::Look,
            };
        }
        mem.rest(self.sleep);
        // An eighth longer each time: whoever slept past its turn has lost an eighth of its wait, at most.
        self.sleep = (self.sleep + self.sleep / 8).min(LONGEST_SLEEP);
        Next::Question
    }
}
