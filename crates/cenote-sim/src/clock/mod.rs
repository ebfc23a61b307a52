//! Virtual time: every thread has a clock, an operation moves it on by what the operation costs, and the thread whose
//! clock is least runs next. So operations reach shared resources in the order of time, and each resource needs no more
//! state than when it is free again.
//!
//! | operation | what it costs |
//! |---|---|
//! | lines fetched afresh at once | a miss; they pass the host's link and the device's one after another |
//! | lines of the process's own memory, where the program says so | a hit for each |
//! | sync load, sync store, line fetched afresh | its latency; a line passes both links; one at a time for each line (pcc-indexes, section 5.2) |
//! | compare-exchange, read-modify-write | its latency; a line passes both links; one at a time in each of so many queues, of which a hash of the address chooses one (section 7.1) |
//! | cached access, all lines present | a hit for each line, at the price for what threads share unless only this thread writes it, or has just written it |
//! | cached access, lines absent | a miss; its lines pass the host's link and the device's one after another |
//! | write-back, flush, prefetch hint | nothing for the thread; it is complete after its latency, a write-back's line has passed both links |
//! | fence | itself, and the wait for all that the thread has begun |
//! | a pause between two polls of a word | what the instruction takes |
//! | system call, letting others run | a system call |
//!
//! To each of them the thread's computing between two operations is added.
//!
//! **Whole numbers.** All of the running state is in whole picoseconds, so that a run comes out the same on every
//! machine.
//!
//! **Effects.** A sync operation takes effect when it is done: a load that waits in a queue returns what is there
//! when it is served, and an exchange that fails has lost before its thread tries again.
//!
//! **Limits.** Flushes take no bandwidth. A store that misses waits for its line, where hardware has a store
//! buffer. A write-back of a clean line costs what one of a dirty line does. A prefetch hint hides no latency. A
//! compare-exchange does not wait for loads of the same line, nor they for it.
//!
//! **A coherent machine** has caches that cost what [`coherence`] says: every operation is a cached access, at the
//! price of a hit, of a miss, or of a line's transfer from another host's cache; transfers of a line are one after
//! another, but readers of a line that several caches have keep each other waiting for a hit's time only. A locked
//! operation on a line that the host has alone costs a hit: that favours the coherent machine.

mod coherence;
mod costs;
mod resources;
mod spent;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::exec::{Kind, Op};
use crate::machine::{Found, LINE, Shape, Use};
use crate::profile::Profile;
use coherence::{Coherence, Source};
use costs::Costs;
use resources::{Links, Queues, Turns};
use spent::Part;
pub use spent::{Share, Spent};

/// The clocks of a run's threads, and the resources that they share.
pub struct Clock {
    costs: Costs,
    threads: Vec<Thread>,
    /// Threads that live.
    alive: u32,
    /// Threads that wait for their turn, the least clock first; some may have ended meanwhile.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// The time up to which everything has happened.
    reached: u64,
    turns: Turns,
    queues: Queues,
    links: Links,
    /// Whose caches have which lines, where hardware keeps them coherent.
    coherence: Option<Coherence>,
    /// From which is drawn how long lines stay.
    draws: Xoshiro256PlusPlus,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    now: u64,
    /// When the last of the write-backs and flushes that it began is complete.
    complete: u64,
    /// By how much others have delayed them, at most.
    delay: u64,
    /// The line that has come last to be written, and until when it may be there.
    arrived: Option<(u64, u64)>,
    spent: Spent,
    alive: bool,
}

impl Clock {
    /// Clocks at zero, for a machine of this shape.
    pub fn new(profile: &Profile, shape: &Shape) -> Self {
        let costs = Costs::new(profile);
        let caches = || Coherence::new(shape.hosts, shape.cache_lines);
        Self {
            costs,
            threads: Vec::new(),
            alive: 0,
            waiting: BinaryHeap::new(),
            reached: 0,
            turns: Turns::default(),
            queues: Queues::new(profile.exchange_queues),
            links: Links::new(&costs, shape.hosts, profile.devices),
            coherence: shape.coherent.then(caches),
            draws: Xoshiro256PlusPlus::seed_from_u64(0),
        }
    }

    /// A thread begins: at its parent's time, or now if the parent has ended.
    pub fn begin(&mut self, thread: u32, parent: u32) {
        if self.alive == 0 {
            self.reached = self.latest_ps();
        }
        let now = match self.threads.get(parent as usize) {
            Some(parent) if parent.alive => parent.now,
            _ => self.reached,
        };
        let count = self.threads.len().max(thread as usize + 1);
        self.threads.resize(count, Thread::default());
        self.threads[thread as usize] = Thread {
            now,
            complete: now,
            alive: true,
            ..Thread::default()
        };
        self.alive += 1;
        self.waiting.push(Reverse((now, thread)));
    }

    /// A thread has ended.
    pub fn end(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        self.alive -= u32::from(std::mem::replace(&mut thread.alive, false));
    }

    /// The thread whose clock is least. The one that ran last is preferred to its equals, if it `goes_on`.
    pub fn first(&mut self, current: u32, goes_on: bool) -> Option<u32> {
        let running = goes_on.then(|| self.threads[current as usize].now);
        let chosen = loop {
            let Some(mut least) = self.waiting.peek_mut() else {
                running?;
                break current;
            };
            let Reverse((now, thread)) = *least;
            if !self.threads[thread as usize].alive {
                PeekMut::pop(least);
                continue;
            }
            match running {
                Some(running) if running <= now => break current,
                Some(running) => *least = Reverse((running, current)),
                None => {
                    PeekMut::pop(least);
                }
            }
            break thread;
        };
        self.reached = self.threads[chosen as usize].now;
        Some(chosen)
    }

    /// Charges an operation: the thread's clock moves to where it is done. What it found in its host's cache.
    pub fn charge(&mut self, thread: u32, host: u32, op: Op, found: Found) -> Found {
        let n = thread as usize;
        let before = self.threads[n].now;
        let (found, alone) = self.advance(thread, host, op, found);
        let thread = &mut self.threads[n];
        let all = thread.now - before;
        let queued = match op.kind {
            Kind::Fence => all.min(std::mem::take(&mut thread.delay)),
            _ => all.saturating_sub(alone + self.costs.compute),
        };
        thread.spent.add(Part::of(op, found), all, queued);
        let lines = match (op.kind, found) {
            (Kind::WriteBack, _) => lines(op),
            (Kind::FetchLine, _) if self.coherence.is_none() => lines(op),
            (kind, _) if self.coherence.is_none() && is_sync(kind) => 1,
            (_, Found::Missed(lines)) if op.kind != Kind::Fence => lines.into(),
            _ => 0,
        };
        thread.spent.add_lines(lines);
        found
    }

    /// Moves a thread's clock to where an operation is done. Returns what it found, and what it takes if no other
    /// thread uses anything.
    fn advance(&mut self, thread: u32, host: u32, op: Op, found: Found) -> (Found, u64) {
        if let Some(writes) = access(op.kind)
            && self.coherence.is_some()
        {
            return self.advance_coherent(thread, host, op, writes);
        }
        let costs = &self.costs;
        let alone = costs.alone(op, found);
        let thread = &mut self.threads[thread as usize];
        let mut now = thread.now + costs.compute;
        if is_sync(op.kind) && op.len <= LINE {
            now = self.links.reach(host, op.at, now);
        }
        thread.now = match op.kind {
            Kind::Start => now,
            Kind::Load => self.turns.take(op.at, now, costs.sync_load),
            Kind::Store | Kind::StoreSeqCst => self.turns.take(op.at, now, costs.sync_store),
            Kind::FetchLine if op.len > LINE => {
                let begun = now.max(thread.complete);
                self.links.pass(host, op.at, lines(op), begun, costs.miss)
            }
            Kind::FetchLine => self.turns.take(op.at, now.max(thread.complete), costs.sync_load),
            Kind::CompareExchange | Kind::FetchModify => self.queues.take(op.at, now, costs.exchange),
            Kind::Speculate | Kind::OwnedStore | Kind::OwnedLoad | Kind::Read | Kind::Write => match found {
                Found::Hit => now + lines(op) * costs.of_hit(op.kind),
                Found::Missed(lines) => self.links.pass(host, op.at, u64::from(lines), now, costs.miss),
            },
            Kind::WriteBack => {
                let complete = self.links.pass(host, op.at, lines(op), now, costs.write_back);
                thread.complete = thread.complete.max(complete);
                let late = complete - now - costs.lines_alone(lines(op), costs.write_back);
                thread.delay = thread.delay.max(late);
                now
            }
            Kind::Invalidate | Kind::Prefetch => {
                thread.complete = thread.complete.max(now + costs.flush);
                now
            }
            Kind::Fence => match found {
                Found::Missed(1..) => now.max(thread.complete) + costs.fence,
                _ => now + costs.fence,
            },
            Kind::Wait | Kind::Kernel => now + costs.kernel,
        };
        (found, alone)
    }

    /// The same for an access through coherent caches. The lines are the host's from now on: other hosts that want them
    /// wait behind it, even those that have had them.
    fn advance_coherent(&mut self, thread: u32, host: u32, op: Op, writes: bool) -> (Found, u64) {
        let Some(caches) = &mut self.coherence else {
            return (Found::Hit, 0);
        };
        let usage = match op.kind {
            Kind::OwnedLoad | Kind::OwnedStore => Use::Own,
            _ => Use::Shared,
        };
        let costs = &self.costs;
        let thread = &mut self.threads[thread as usize];
        let now = thread.now + costs.compute;
        let source = caches.source(host, op.at, op.len, writes);
        let line = op.at / LINE;
        if source != Source::Here
            && lines(op) == 1
            && thread
                .arrived
                .is_some_and(|(arrived, leaves)| arrived == line && now <= leaves)
        {
            // It is another host's already, which has to wait for it a little longer.
            let hit = costs.of_hit(op.kind);
            self.turns.delay(op.at, costs.compute + hit);
            thread.now = now + hit;
            return (Found::Hit, hit);
        }
        let found = caches.access(host, op.at, op.len, writes, usage);
        let (done, alone) = match (source, found) {
            (Source::Another, _) => (
                self.turns.take(op.at, now, costs.transfer),
                costs.transfer.latency(),
            ),
            (Source::Several, _) => (
                self.turns.take(op.at, now, costs.shared_transfer),
                costs.shared_transfer.latency(),
            ),
            (Source::Memory, Found::Missed(lines)) => (
                self.links.pass(host, op.at, lines.into(), now, costs.miss),
                costs.lines_alone(lines.into(), costs.miss),
            ),
            _ => {
                let hits = lines(op) * costs.of_hit(op.kind);
                (now + hits, hits)
            }
        };
        thread.now = done;
        if writes && source == Source::Another {
            // A locked operation computes with the line that has come; a store is done then.
            let computes = match op.kind {
                Kind::CompareExchange | Kind::FetchModify => costs.shared_hit,
                _ => 0,
            };
            let stays = (u64::from(self.draws.next_u32()) * costs.retention) >> 32;
            thread.arrived = Some((line, (done + stays).saturating_sub(computes)));
        }
        (found, alone)
    }

    /// A thread pauses between two polls.
    pub fn pause(&mut self, thread: u32) {
        self.spend(thread, Part::Waits, self.costs.compute + self.costs.pause);
    }

    /// Lets time pass.
    pub fn spend_ps(&mut self, thread: u32, time: u64) {
        self.spend(thread, Part::Waits, time);
    }

    /// A thread reads so many lines of memory of its process.
    pub fn spend_hits(&mut self, thread: u32, lines: u64) {
        self.spend(thread, Part::Hits, lines * self.costs.shared_hit);
    }

    fn spend(&mut self, thread: u32, part: Part, time: u64) {
        let thread = &mut self.threads[thread as usize];
        thread.now += time;
        thread.spent.add(part, time, 0);
    }

    /// Where a thread's time went.
    pub fn spent(&self, thread: u32) -> Spent {
        self.threads[thread as usize].spent
    }

    /// A thread's time.
    pub fn now_ps(&self, thread: u32) -> u64 {
        self.threads[thread as usize].now
    }

    /// The latest time.
    pub fn latest_ps(&self) -> u64 {
        self.threads.iter().map(|thread| thread.now).max().unwrap_or(0)
    }
}

/// Whether an operation goes past the caches, to memory and back: a line's worth, whatever its length.
fn is_sync(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Load
            | Kind::Store
            | Kind::StoreSeqCst
            | Kind::FetchLine
            | Kind::CompareExchange
            | Kind::FetchModify
    )
}

/// Whether an operation reads or writes lines through caches, where all are coherent; whether it writes.
fn access(kind: Kind) -> Option<bool> {
    match kind {
        Kind::Load | Kind::Speculate | Kind::OwnedLoad | Kind::Read | Kind::FetchLine => Some(false),
        Kind::Store | Kind::StoreSeqCst | Kind::CompareExchange | Kind::FetchModify => Some(true),
        Kind::OwnedStore | Kind::Write => Some(true),
        Kind::WriteBack | Kind::Invalidate | Kind::Prefetch | Kind::Fence => None,
        Kind::Start | Kind::Wait | Kind::Kernel => None,
    }
}

/// Lines that an operation touches.
fn lines(op: Op) -> u64 {
    (op.at % LINE + op.len.max(1)).div_ceil(LINE)
}
