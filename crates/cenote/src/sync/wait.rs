//! Waiting for a lock: first frequent polls, then sleep.
//!
//! A waiter that knows which worker it waits for sleeps until that worker wakes it or dies ([`sleep`](super::sleep)).
//! Where nobody wakes waiters, as with the spin lock, a waiter yields for a while, then sleeps longer and longer
//! between polls: it sees a free lock up to [`LONGEST_REST`] late.
//!
//! How often a handle polls before it sleeps depends on its last waits. Where waits are long, polls are wasted. Where
//! sleeps are short, because waking takes longer than the hold, polls avoid them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::memory::Memory;

/// Frequent polls of a waiter that nobody wakes, before it yields.
pub(super) const SPINS: u32 = 64;
/// At least so many polls of a waiter that is woken, where few were rewarded of late.
const POLLS_LEAST: u32 = 1;
/// Every so many waits, one polls as often as allowed: fewer polls would not find that holds are short again.
const HOPEFUL: u32 = 32;
/// Polls with a yield each, before the first sleep.
const YIELDS: u32 = 256;
/// Polls between two checks whether the workers in front are alive, before the first sleep.
const POLLS_PER_QUESTION: u32 = 16;
/// The first sleep of a waiter that nobody wakes.
const SHORTEST_REST: Duration = Duration::from_micros(20);
/// The longest sleep between two polls of a waiter that nobody wakes.
pub const LONGEST_REST: Duration = Duration::from_millis(1);
/// The longest sleep of a waiter that is woken. Nobody wakes it if a worker dies for which several sleep, and the one
/// that the kernel wakes dies before it has woken the others.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    None,
    /// Until it has the lock.
    Forever,
    /// Until a moment.
    Until(Instant),
    /// For so many polls, where there is no clock.
    Polls(u32),
}

impl Timeout {
    /// Until so long from now; for ever if no clock goes that far.
    pub fn during(time: Duration) -> Self {
        Instant::now()
            .checked_add(time)
            .map_or(Self::Forever, Self::Until)
    }
}

/// What to do before or with the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Poll the word only.
    Look,
    /// Poll, and check whether the workers in front are alive.
    Question,
    /// Sleep first, for this long at most.
    Sleep(Duration),
    /// Do not poll: the timeout has ended.
    GiveUp,
}

/// One wait.
#[derive(Debug)]
pub struct Waiting {
    timeout: Timeout,
    /// Frequent polls before the first sleep or yield.
    spins: u32,
    polls: u32,
    /// Polls since the wait began, or since the last [`Self::begin_anew`].
    close: u32,
    rest: Duration,
    /// When it first went to sleep, by the kernel's clock.
    slept_at: Option<u64>,
}

/// How many polls a wait is worth, as one thread has learned.
#[derive(Debug)]
pub(super) struct Worth {
    most: u32,
    polls: Cell<u32>,
    waits: Cell<u32>,
}

impl Worth {
    /// At most, and at first, so many polls.
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

    /// Learns from a wait that is over: its polls were wasted if it then slept for so many nanoseconds.
    pub(super) fn learn<M: Memory>(&self, mem: &M, waiting: &Waiting, long_ns: u64) {
        let slept = waiting.slept_at.map(|at| mem.kernel().now().saturating_sub(at));
        if slept.is_some_and(|slept| slept >= long_ns) {
            self.polls.set((self.polls.get() / 2).max(POLLS_LEAST));
        } else if waiting.has_checked() {
            self.polls
                .set((2 * self.polls.get()).max(waiting.spins).min(self.most));
        }
    }
}

impl Waiting {
    /// Begins a wait.
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

    /// Goes on, without a timeout, with a wait whose frequent polls are over.
    pub fn after_spins() -> Self {
        Self {
            polls: SPINS - 1,
            close: SPINS - 1,
            ..Self::new(Timeout::Forever)
        }
    }

    /// Whether the caller does not wait at all.
    pub(super) fn is_immediate(&self) -> bool {
        self.timeout == Timeout::None
    }

    /// Whether a poll has failed.
    #[inline]
    pub(super) fn has_checked(&self) -> bool {
        self.polls != 0
    }

    /// Something else is waited for from now on: polls are frequent again.
    pub(super) fn begin_anew(&mut self) {
        self.close = 0;
    }

    /// Counts a poll. Returns whether the timeout has ended.
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

    /// One frequent poll.
    fn spin<M: Memory>(&self, mem: &M) -> Next {
        mem.pause();
        // A caller with a timeout checks early.
        match self.polls == 1 && self.timeout != Timeout::Forever {
            true => Next::Question,
            false => Next::Look,
        }
    }

    /// After a failed poll, where another worker will wake the caller: pauses, or returns for how long to sleep.
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

    /// After a failed poll, where nobody will wake the caller: pauses, yields or sleeps.
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
        // An eighth longer each time: a waiter that sleeps too long loses an eighth of its wait, at most.
        self.rest = (self.rest + self.rest / 8).min(LONGEST_REST);
        Next::Question
    }
}
