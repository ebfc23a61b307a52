//! What is known of all values from outside the pool, in frames.

use std::collections::BTreeMap;

use super::snapshot::Snapshot;

/// The value of each key, and every call that is not over.
#[derive(Default)]
pub struct Book {
    live: BTreeMap<u64, u64>,
    /// What the live values take, and those that are being written.
    taken: u64,
    unlinked: Vec<Unlinked>,
    calls: BTreeMap<u32, Call>,
    /// Of each thread that holds a value, the epoch in which it began to, at the earliest.
    holding: BTreeMap<u32, u64>,
}

/// What a call left behind, if it did.
struct Unlinked {
    /// When at the latest.
    step: u64,
    /// And in which epoch, at the latest.
    epoch: u64,
    frames: u64,
    thread: u32,
}

/// A call, and what bounds what may have been in its way.
#[derive(Clone, Copy)]
pub struct Call {
    /// When it began.
    since: u64,
    /// When the oldest call began that was running then.
    oldest: u64,
    /// The least epoch in which a thread began to hold a value that it held when the call began, or has held since.
    holding: u64,
    /// The most that live values have taken since, with those that were being written.
    pub most: u64,
    /// What was retired when it began.
    retired: u64,
    /// The least of the longest runs when it and later calls began: free, and free or retired.
    pub longest: (u64, u64),
    /// How often the file system had refused space.
    pub refusals: u64,
    /// How often the thread had waited.
    pub waits: u64,
}

impl Call {
    /// Whether no thread was in a call when this one began, or held anything meanwhile.
    pub fn began_alone(&self) -> bool {
        self.oldest == self.since && self.holding == u64::MAX
    }
}

impl Book {
    /// What live values take, and those that are being written.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Keys that have a value.
    pub fn keys(&self) -> Vec<u64> {
        self.live.keys().copied().collect()
    }

    /// A thread begins a call that writes so many frames.
    pub fn begin(
        &mut self,
        thread: u32,
        step: u64,
        frames: u64,
        before: &Snapshot,
        refusals: u64,
        waits: u64,
    ) {
        self.taken += frames;
        let call = Call {
            since: step,
            oldest: self.calls.values().map(|call| call.since).min().unwrap_or(step),
            holding: self.holding.values().copied().min().unwrap_or(u64::MAX),
            most: self.taken,
            retired: before.retired,
            longest: before.longest(),
            refusals,
            waits,
        };
        self.calls.insert(thread, call);
        for call in self.calls.values_mut() {
            call.most = call.most.max(self.taken);
            let (free, with_retired) = before.longest();
            call.longest = (call.longest.0.min(free), call.longest.1.min(with_retired));
        }
    }

    /// A thread holds a value from now on, or from a little earlier, when it was this epoch; or it holds none.
    pub fn hold(&mut self, thread: u32, since: Option<u64>) {
        match since {
            Some(epoch) => {
                self.holding.insert(thread, epoch);
                for call in self.calls.values_mut() {
                    call.holding = call.holding.min(epoch);
                }
            }
            None => drop(self.holding.remove(&thread)),
        }
    }

    /// The thread's call is over; it has changed nothing.
    pub fn end_unchanged(&mut self, thread: u32, frames: u64) -> Option<Call> {
        self.taken -= frames;
        self.calls.remove(&thread)
    }

    /// The thread's call is over: the key's value takes so many frames now, or it has none.
    pub fn end(&mut self, thread: u32, (step, epoch): (u64, u64), key: u64, frames: Option<u64>) {
        let old = match frames {
            Some(frames) => self.live.insert(key, frames),
            None => self.live.remove(&key),
        };
        let frames = old.unwrap_or(0);
        self.taken -= frames;
        self.unlinked.push(Unlinked {
            step,
            epoch,
            frames,
            thread,
        });
        self.calls.remove(&thread);
    }

    /// What may have waited during a call to become free: what was retired before, and what was unlinked since. Where
    /// only readers and the dead are waited for, a part of that: what threads may hold that were in a call when it
    /// began or held a value, and the lists of the dead.
    pub fn held(&self, call: &Call, waits_for_hosts: bool, is_dead: impl Fn(u32) -> bool) -> u64 {
        let sum = |counts: &dyn Fn(&Unlinked) -> bool| -> u64 {
            let counted = self.unlinked.iter().filter(|unlinked| counts(unlinked));
            counted.map(|unlinked| unlinked.frames).sum()
        };
        let was_there = call.retired + sum(&|unlinked| unlinked.step >= call.since);
        if waits_for_hosts {
            return was_there;
        }
        let may_be_read = sum(&|unlinked| {
            // A replica may be one behind the epoch, and the rule for reuse takes one more.
            let is_held = unlinked.epoch.saturating_add(2) >= call.holding;
            unlinked.step >= call.oldest || is_held || is_dead(unlinked.thread)
        });
        was_there.min(may_be_read)
    }
}
