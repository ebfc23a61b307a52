//! How one waits for a lock: looks close together first, then sleeps.
//!
//! Whoever waits for one that it knows sleeps until that one wakes it or dies ([`sleep`](super::sleep)). Where nobody wakes anybody, as
//! with the spin lock, it lets others run for a while, then sleeps longer and longer and looks again by itself: it sees a free lock up to
//! [`LONGEST_REST`] late.
//!
//! How often a handle looks before it sleeps depends on how that went of late: where waits last, looks are only work. Where one sleeps for a moment only, because
//! to be woken takes longer than the hold, looks are what ends that.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::memory::Memory;

/// Looks close together of one whom nobody wakes, before others are let run.
pub(super) const SPINS: u32 = 64;
/// At least so many, where one is woken and few of late were rewarded.
const POLLS_LEAST: u32 = 1;
/// Every so manyth wait is worth all looks, as a lock that is held for moments again is not found by fewer.
const HOPEFUL: u32 = 32;
/// Looks between which others are let run, before the first sleep.
const YIELDS: u32 = 256;
/// Looks between two questions whether those in front are alive, before the first sleep.
const POLLS_PER_QUESTION: u32 = 16;
/// The first sleep of one whom nobody wakes.
const SHORTEST_REST: Duration = Duration::from_micros(20);
/// The longest sleep between two polls of one whom nobody wakes.
pub const LONGEST_REST: Duration = Duration::from_millis(1);
/// The longest sleep of one who is woken. Nobody wakes it if somebody dies whom several sleep for, and the one that the kernel wakes dies before it has
/// woken the others.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// For how long somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    None,
    /// Until it has the lock.
    Forever,
    /// Until a moment.
    Until(Instant),
    /// For so many polls; where there is no clock.
    Polls(u32),
}

impl Timeout {
    /// So long from now; for ever if that is beyond all clocks.
    pub fn during(time: Duration) -> Self {
        Instant::now()
            .checked_add(time)
            .map_or(Self::Forever, Self::Until)
    }
}

/// What the next poll shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Only the word.
    Look,
    /// Also whether those in front are alive.
    Question,
    /// Sleep first, not longer than this.
    Sleep(Duration),
    /// None: timeout is at an end.
    GiveUp,
}

/// One wait.
#[derive(Debug)]
pub struct Waiting {
    timeout: Timeout,
    /// Looks close together.
    spins: u32,
    polls: u32,
    /// Looks since the last sleep that ended what was waited for.
    close: u32,
    rest: Duration,
    /// When it fell asleep first, as the kernel's clock has it.
    slept_at: Option<u64>,
}

/// How many looks a wait is worth, as one thread has found.
#[derive(Debug)]
pub(super) struct Worth {
    most: u32,
    polls: Cell<u32>,
    waits: Cell<u32>,
}

impl Worth {
    /// So many at most, and at first.
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            polls: Cell::new(most),
            waits: Cell::new(0),
        }
    }

    /// Begins a wait.
    pub(super) fn wait(&self, timeout: Timeout) -> Waiting {
        let waits = self.waits.get().wrapping_add(1);
        self.waits.set(waits);
        let spins = match waits.is_multiple_of(HOPEFUL) {
            true => self.most,
            false => self.polls.get(),
        };
        Waiting {
            spins: spins.max(1),
            ..Waiting::new(timeout)
        }
    }

    /// Learns from one that is over: looks were in vain if it has slept for so many nanoseconds.
    pub(super) fn learn<M: Memory>(&self, mem: &M, waiting: &Waiting, long_ns: u64) {
        let slept = waiting.slept_at.map(|at| mem.kernel().now().saturating_sub(at));
        if slept.is_some_and(|slept| slept >= long_ns) {
            self.polls.set((self.polls.get() / 2).max(POLLS_LEAST));
        } else if waiting.has_looked() {
            self.polls
                .set((2 * self.polls.get()).max(waiting.spins).min(self.most));
        }
    }
}

impl Waiting {
    /// Begins one.
    #[inline]
    pub fn new(timeout: Timeout) -> Self {
        Self {
            timeout,
            spins: SPINS,
            polls: 0,
            close: 0,
            rest: SHORTEST_REST,
            slept_at: None,
        }
    }

    /// Goes on, for as long as it takes, with one that has looked close together already.
    pub fn after_spins() -> Self {
        Self {
            polls: SPINS - 1,
            close: SPINS - 1,
            ..Self::new(Timeout::Forever)
        }
    }

    /// Whether it shall not wait at all.
    pub(super) fn is_impatient(&self) -> bool {
        self.timeout == Timeout::None
    }

    /// Whether one has looked in vain.
    #[inline]
    pub(super) fn has_looked(&self) -> bool {
        self.polls != 0
    }

    /// Something else is waited for from now on: looks are close together again.
    pub(super) fn begin_anew(&mut self) {
        self.close = 0;
    }

    /// Whether timeout is at an end after one more look.
    fn is_over(&mut self) -> bool {
        self.polls = self.polls.saturating_add(1);
        self.close = self.close.saturating_add(1);
        match self.timeout {
            Timeout::None => true,
            Timeout::Forever => false,
            Timeout::Until(end) => self.close >= self.spins && Instant::now() >= end,
            Timeout::Polls(most) => self.polls > most,
        }
    }

    /// Looks close together.
    fn spin<M: Memory>(&self, mem: &M) -> Next {
        mem.pause();
        // Who has a short time asks early.
        match self.polls == 1 && self.timeout != Timeout::Forever {
            true => Next::Question,
            false => Next::Look,
        }
    }

    /// Looked in vain, and somebody will wake it: waits a moment, or is told for how long to sleep.
    pub(super) fn lose<M: Memory>(&mut self, mem: &M) -> Next {
        if self.is_over() {
            return Next::GiveUp;
        }
        if self.close < self.spins {
            return self.spin(mem);
        }
        if self.slept_at.is_none() {
            self.slept_at = Some(mem.kernel().now());
        }
        Next::Sleep(match self.timeout {
            Timeout::Until(end) => end.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP),
            _ => LONGEST_SLEEP,
        })
    }

    /// Looked in vain, and nobody will wake it: waits a moment.
    pub fn lose_unwoken<M: Memory>(&mut self, mem: &M) -> Next {
        if self.is_over() {
            return Next::GiveUp;
        }
        if self.close < self.spins {
            return self.spin(mem);
        }
        if self.close < self.spins + YIELDS {
            mem.relax();
            return match self.close.is_multiple_of(POLLS_PER_QUESTION) {
                true => Next::Question,
                false => Next::Look,
            };
        }
        mem.rest(self.rest);
        // An eighth longer each time: whoever slept past its turn has lost an eighth of its wait, at most.
        self.rest = (self.rest + self.rest / 8).min(LONGEST_REST);
        Next::Question
    }
}
