//! The state of a run: the machine, its processes and threads, the running thread, and the decisions so far.
//!
//! All of it lives in one place that coroutines reach by a pointer. It is only ever touched between two switches, for
//! the length of one method; no reference into it is held while another coroutine runs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use cenote::memory::delegated::Client;
use cenote::pod::instance::limits::Limits;
use corosensei::Yielder;

use super::crash::Crash;
use super::delegation::Delegation;
use super::held::Slices;
use super::op::{Kind, Op};
use super::order::Order;
use super::regions::Regions;
use super::sleeper::{Owed, Sleeper};
use super::stop::Stop;
use super::store_buffer::StoreBuffer;
use super::traffic::Traffic;
use crate::clock::Clock;
use crate::machine::{Found, Machine, Pending};
use crate::policy::{Candidate, Fault, Phase, Policy};
use crate::sweep::{self, Moment};

/// Bytes of a page of the file system.
const PAGE: u64 = 4096;

/// One step of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread's operation, with the word that it read, or that was there.
    Done {
        /// The thread.
        thread: u32,
        /// What it did.
        op: Op,
        /// What it found.
        found: u64,
    },
    /// A line was evicted from a host's cache.
    Evicted {
        /// The host.
        host: u32,
        /// The line.
        line: u64,
    },
    /// A thread's oldest store came out of its buffer.
    Drained {
        /// The thread.
        thread: u32,
        /// Where it had stored.
        at: u64,
    },
    /// A process died.
    Killed {
        /// The process.
        process: u32,
    },
    /// A thread died, and its process did not.
    KilledThread {
        /// The thread.
        thread: u32,
    },
}

pub(super) struct Thread {
    pub process: u32,
    pub alive: bool,
    pub next: Op,
    /// The word of the exchange that it has asked a server for.
    pub exchanging: Option<u64>,
    /// Whether its last sleep ended with its time.
    pub overslept: bool,
    pub pending: Vec<Pending>,
    pub yielder: *const Yielder<(), ()>,
    pub steps: u64,
    /// What it waits for: that this is zero.
    pub until: Option<Rc<Cell<u32>>>,
    /// Counts it among the threads that are waited for, until it ends or dies.
    pub counted: Option<Rc<Cell<u32>>>,
    /// What reached memory, in runs that keep time.
    pub traffic: Traffic,
    /// What it does is measured as a part of this.
    pub measured: Option<u32>,
    /// How often it has waited for something.
    pub waits: u64,
    /// What it has stored and others do not see.
    pub stores: StoreBuffer,
    /// What it was given to read.
    pub slices: Slices,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    /// All its threads have ended.
    Left,
    Killed,
}

pub(super) struct Process {
    pub host: u32,
    pub life: Life,
    /// Steps of all its threads.
    pub steps: u64,
    /// When it is killed, if it is.
    pub crash: Option<Crash>,
    /// Its mailboxes, where a server executes read-modify-writes.
    pub client: Option<Arc<Client>>,
    /// Whether another one begins in its place once it is killed.
    pub restarts: bool,
    /// Which of the processes that the run begins with it is, or began in the place of.
    pub origin: u32,
    /// Whether it has had a worker: then it has joined.
    pub attaches: bool,
}

pub(super) struct World {
    pub machine: Machine,
    /// Which stores threads must see, if that is checked.
    pub order: Option<Order>,
    pub policy: Box<dyn Policy>,
    pub clock: Option<Clock>,
    pub processes: Vec<Process>,
    pub threads: Vec<Thread>,
    /// Threads that can run, in order of their numbers.
    pub runnable: Vec<u32>,
    pub current: u32,
    /// Whether the thread that ran last cannot go on.
    pub ended: bool,
    pub steps: u64,
    pub steps_max: u64,
    pub stop: Option<Stop>,
    /// Locks that say who lives: the process that holds each.
    pub locks: Vec<Option<u32>>,
    /// Processes that were killed and whose locks the kernel has not dropped yet, each with the step in which it does.
    pub dying: Vec<(u32, u64)>,
    /// Death slots: the generation and the thread that is registered there.
    pub death_slots: BTreeMap<u64, (u32, u32)>,
    /// Whether each host has a kernel of its own, which wakes no thread of another host.
    pub is_apart: bool,
    /// Threads that sleep by death slots and event counts.
    pub sleepers: Vec<Sleeper>,
    /// For a death slot or an event count that has woken one sleeper: that thread, until it wakes the other sleepers.
    pub woken_by: BTreeMap<u64, u32>,
    /// Calls that wake, which the server of exchanges has yet to make.
    pub owed: Owed,
    pub recording: bool,
    pub decisions: Vec<u32>,
    pub timeline: Option<Vec<(u64, Event)>>,
    /// Lines that the dead have left dirty in the caches of hosts that go on, each with its host.
    pub left: Vec<(u32, u64)>,
    /// Bytes that the file system has.
    pub capacity: u64,
    /// Pages that were given back to the file system and not reserved since.
    pub holes: BTreeSet<u64>,
    /// Whether the file system refuses to reserve bytes now and then.
    pub is_space_scarce: bool,
    /// How read-modify-writes are executed, if not by the machine.
    pub delegation: Option<Delegation>,
    /// The thread that executes exchanges now, or did until it was killed.
    pub server: Option<u32>,
    /// Whether the server reads all mailboxes in one step in this pass.
    pub reads_at_once: bool,
    /// The threads that were killed, and when.
    pub deaths: Vec<(u32, u64)>,
    /// The threads whose store buffers are not empty.
    pub buffering: Vec<u32>,
    /// Whether what pinned threads were given is watched.
    pub watches_given: bool,
    /// The threads that hold slices.
    pub reading: Vec<u32>,
    /// How often the file system said that it has no space, although it has.
    pub refusals: u64,
    /// The thresholds of processes, if not the usual ones.
    pub limits: Option<Limits>,
    /// Where in the library time goes, if that is asked.
    pub regions: Option<Regions>,
    /// Whether threads let others run instead of sleeping.
    pub never_sleeps: bool,
    pub phase: Phase,
    /// A checksum over all events, to compare runs by.
    pub digest: u64,
    candidates: Vec<Candidate>,
}

impl World {
    pub fn new(machine: Machine, policy: Box<dyn Policy>, clock: Option<Clock>, steps_max: u64) -> Self {
        Self {
            order: None,
            machine,
            policy,
            recording: clock.is_none(),
            clock,
            processes: Vec::new(),
            threads: Vec::new(),
            runnable: Vec::new(),
            current: 0,
            ended: true,
            steps: 0,
            steps_max,
            stop: None,
            locks: Vec::new(),
            dying: Vec::new(),
            death_slots: BTreeMap::new(),
            is_apart: false,
            sleepers: Vec::new(),
            woken_by: BTreeMap::new(),
            owed: Owed::default(),
            decisions: Vec::new(),
            timeline: None,
            left: Vec::new(),
            capacity: u64::MAX,
            holes: BTreeSet::new(),
            is_space_scarce: false,
            delegation: None,
            server: None,
            reads_at_once: false,
            deaths: Vec::new(),
            buffering: Vec::new(),
            watches_given: true,
            reading: Vec::new(),
            refusals: 0,
            limits: None,
            regions: None,
            never_sleeps: false,
            phase: Phase::Prepare,
            digest: 0,
            candidates: Vec::new(),
        }
    }

    /// A part of the run begins.
    pub fn enter(&mut self, phase: Phase) {
        self.drop_locks_of_the_dead(u64::MAX);
        self.phase = phase;
        self.policy.enter(phase);
        if phase == Phase::Run && sweep::weakens_loads() {
            self.machine.memory().keep_past();
        }
    }

    /// What a host that has not got a line may have had of it since the processes began, for a load that is weakened:
    /// something older than what memory holds, half of the time; or always the oldest.
    pub fn old_copy(&self, host: u32, at: u64) -> Option<u64> {
        if self.machine.cache(host)?.holds(at) {
            return None;
        }
        let draw = (self.digest ^ self.steps).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let past = self.machine.memory().past(at);
        if sweep::is_stubborn() {
            return past.first().copied();
        }
        (draw & 1 == 1).then(|| past.get((draw >> 1) as usize % past.len().max(1)).copied())?
    }

    /// Whether the file system claims now to have no space, although it has: at times, while the processes run.
    pub fn refuses(&mut self) -> bool {
        let may = self.clock.is_none() && matches!(self.phase, Phase::Run | Phase::Gathered);
        let refuses = may && self.fault(Fault::NoSpace, 2) == 1;
        self.refusals += u64::from(refuses);
        refuses
    }

    pub fn host_of(&self, thread: u32) -> u32 {
        self.processes[self.threads[thread as usize].process as usize].host
    }

    fn candidate(&self, thread: u32) -> Candidate {
        let Thread { next, until, .. } = &self.threads[thread as usize];
        let waits = next.kind == Kind::Wait;
        Candidate {
            thread,
            host: self.host_of(thread),
            op: *next,
            waits,
            blocked: waits && until.as_ref().is_some_and(|until| until.get() > 0),
        }
    }

    pub fn fault(&mut self, fault: Fault, bound: u32) -> u32 {
        let outcome = self.policy.fault(fault, bound);
        self.record(outcome)
    }

    fn record(&mut self, outcome: u32) -> u32 {
        if self.recording {
            self.decisions.push(outcome);
        }
        outcome
    }

    pub fn note(&mut self, event: Event) {
        if let Some(timeline) = &mut self.timeline {
            timeline.push((self.steps, event));
        }
    }

    /// The running thread is about to do `op`. Whether it may: else it must give way.
    pub fn arrive(&mut self, op: Op) -> bool {
        let current = self.current as usize;
        let has_stored = std::mem::replace(&mut self.threads[current].next, op)
            .kind
            .changes_cache();
        self.steps += 1;
        self.threads[current].waits += u64::from(op.kind == Kind::Wait);
        #[cfg(feature = "mutants")]
        if cenote::mutant::was_passed() {
            sweep::passed(self.moment(), true);
        }
        if self.steps > self.steps_max {
            self.stop.get_or_insert(Stop::Stuck);
        }
        let process = self.threads[current].process;
        if let Some(crash) = self.processes[process as usize].crash
            && self.is_due(process, crash, has_stored)
        {
            self.processes[process as usize].crash = None;
            match crash.alone {
                true => self.kill_thread(self.current),
                false => self.kill(process),
            }
        }
        if self.stop.is_some() {
            return false;
        }
        if !self.dying.is_empty() {
            self.drop_locks_of_the_dead(self.steps);
        }
        self.disturb_buffers();
        self.disturb();
        self.pick();
        self.current as usize == current && self.threads[current].alive
    }

    /// Chooses the thread that runs next; none if none can run.
    pub fn pick(&mut self) {
        if let Some(clock) = &mut self.clock {
            if let Some(thread) = clock.first(self.current, !self.ended) {
                self.current = thread;
            }
            self.ended = false;
            return;
        }
        if !self.ended && self.runnable.len() > 1 {
            let running = self.candidate(self.current);
            if self.policy.stays(&running) {
                self.record(0);
                return;
            }
        }
        let last = (!self.ended).then_some(self.current);
        if self.runnable.len() > 1
            && let Some(choice) = self.policy.thread_among(self.runnable.len())
        {
            let choice = self.servers_number(last).unwrap_or(choice);
            self.record(choice as u32);
            self.current = self.nth_candidate(last, choice);
            self.ended = false;
            return;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let others = self
            .runnable
            .iter()
            .copied()
            .filter(|&thread| Some(thread) != last);
        candidates.extend(
            last.into_iter()
                .chain(others)
                .map(|thread| self.candidate(thread)),
        );
        if !candidates.is_empty() {
            let choice = self.choose(&candidates);
            self.current = candidates[choice].thread;
            self.ended = false;
        }
        self.candidates = candidates;
    }

    /// The candidate of a number: the thread that ran last is the first, if it can go on; the others follow in order.
    fn nth_candidate(&self, last: Option<u32>, n: usize) -> u32 {
        let Some(last) = last else {
            return self.runnable[n];
        };
        let own = self.runnable.iter().position(|&thread| thread == last);
        match (n, own) {
            (0, _) => last,
            (n, Some(own)) if n > own => self.runnable[n],
            (n, _) => self.runnable[n - 1],
        }
    }

    /// The server's number as a candidate, if it is its turn.
    fn servers_number(&mut self, last: Option<u32>) -> Option<usize> {
        let server = self.server?;
        let at = |thread| self.runnable.iter().position(|&other| other == thread);
        let (place, own) = (at(server)?, last.and_then(at));
        if !self.policy.is_servers_turn() {
            return None;
        }
        Some(match (last, own) {
            (Some(_), Some(own)) if own == place => 0,
            (Some(_), Some(own)) if own < place => place,
            (Some(_), _) => place + 1,
            (None, _) => place,
        })
    }

    /// Asks the policy, if there is anything to choose.
    fn choose(&mut self, candidates: &[Candidate]) -> usize {
        if let [candidate] = candidates {
            self.policy.alone(candidate);
            return 0;
        }
        let choice = self
            .policy
            .thread(candidates, self.ended)
            .min(candidates.len() - 1);
        if self.recording {
            self.decisions.push(choice as u32);
        }
        choice
    }

    /// What happens to caches by itself.
    fn disturb(&mut self) {
        if self.clock.is_some() || self.machine.shape().coherent {
            return;
        }
        if !self.left.is_empty() {
            self.write_back_late();
        }
        let host = self.host_of(self.current);
        let running = self.candidate(self.current);
        if let Some(cache) = self.machine.cache(host).filter(|cache| !cache.is_empty()) {
            let chosen = self.policy.evict(&running, cache, self.machine.memory());
            let chosen = self.record(chosen);
            if chosen > 0
                && let Some(line) = self.evict_line(host, chosen as usize - 1)
            {
                self.note(Event::Evicted { host, line });
            }
        }
        if let Some(&pending) = self.threads[self.current as usize].pending.first()
            && {
                let outcome = self.policy.complete_early(&running, pending.line);
                self.record(outcome) == 1
            }
        {
            self.threads[self.current as usize].pending.remove(0);
            self.completed(host, pending);
        }
    }

    /// A line that a dead process has left may be written back at any time, whichever thread runs.
    fn write_back_late(&mut self) {
        let chosen = self.fault(Fault::WriteBackLate, self.left.len() as u32 + 1) as usize;
        if chosen > 0 {
            let (host, line) = self.left.swap_remove(chosen - 1);
            if self
                .machine
                .cache(host)
                .is_some_and(|cache| cache.dirty_words(line) != 0)
            {
                self.completed(host, Pending { line, drops: true });
                self.note(Event::Evicted { host, line });
            }
        }
    }

    /// Gives pages back to the file system, or reserves them.
    pub fn set_holes(&mut self, at: u64, len: u64, are_holes: bool) {
        for page in at / PAGE..(at + len).div_ceil(PAGE) {
            match are_holes {
                true => self.holes.insert(page),
                false => self.holes.remove(&page),
            };
        }
    }

    /// Whether the file system refuses to reserve bytes now.
    pub fn refuses_space(&self) -> bool {
        self.is_space_scarce && self.digest.is_multiple_of(4)
    }

    /// Reports an operation on bytes that have gone. Hints touch nothing.
    fn check_holes(&mut self, op: Op) {
        let touches = !matches!(op.kind, Kind::Prefetch | Kind::WriteBack | Kind::Invalidate);
        if touches && op.lines().is_some() {
            let (first, last) = (op.at / PAGE, (op.at + op.len.max(1) - 1) / PAGE);
            if self.holes.range(first..=last).next().is_some() {
                self.stop.get_or_insert(Stop::Hole(op));
            }
        }
    }

    /// Counts and notes an operation that has just happened.
    pub fn done(&mut self, op: Op, found: u64) {
        if !self.holes.is_empty() {
            self.check_holes(op);
        }
        let thread = self.current;
        let state = &mut self.threads[thread as usize];
        state.steps += 1;
        self.processes[state.process as usize].steps += 1;
        for word in [u64::from(thread) << 8 | op.kind as u64, op.at, op.value, found] {
            self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        self.note(Event::Done { thread, op, found });
    }

    /// Charges the running thread for an operation that has just happened, in runs that keep time.
    pub fn charge(&mut self, op: Op, found: Found) {
        let host = self.host_of(self.current);
        let found = self.passes(op.kind, |clock, thread| clock.charge(thread, host, op, found));
        if let Some(found) = found {
            self.threads[self.current as usize].traffic.count(op, found);
        }
    }

    /// Lets the running thread's time pass, in runs that keep time.
    pub fn passes<T>(&mut self, kind: Kind, pass: impl FnOnce(&mut Clock, u32) -> T) -> Option<T> {
        let clock = self.clock.as_mut()?;
        let before = clock.now_ps(self.current);
        let done = pass(clock, self.current);
        let measured = self.threads[self.current as usize].measured;
        if let (Some(regions), Some(measured)) = (&mut self.regions, measured) {
            regions.add(self.current, measured, kind, clock.now_ps(self.current) - before);
        }
        Some(done)
    }

    /// Reports a sync store that a cache holds dirty when it comes out of its buffer.
    pub fn check_word(&mut self, at: u64) {
        self.check_use(Op::word(Kind::Store, at, 0));
    }

    /// Reports a sync operation on a word that a cache holds dirty.
    pub fn check_use(&mut self, op: Op) {
        if let Some(mixed) = self.machine.mixed_use(op.at) {
            self.stop.get_or_insert(Stop::MixedUse(mixed, op));
        }
    }

    /// Begins a write-back or flush of each line of a range. Of one that is absent there is nothing to do.
    pub fn begin(&mut self, at: u64, len: u64, drops: bool) {
        let host = self.host_of(self.current);
        self.begins(at, len);
        if let Some(cache) = self.machine.cache(host) {
            let lines = cache.resident_in(at, len);
            let pending = lines.into_iter().map(|line| Pending { line, drops });
            self.threads[self.current as usize].pending.extend(pending);
        }
    }

    /// Whether the running thread's host has changed lines of a range.
    pub fn has_dirty(&self, at: u64, len: u64) -> bool {
        let cache = self.machine.cache(self.host_of(self.current));
        self.has_buffered()
            || cache.is_some_and(|cache| {
                let mut lines = cache.resident_in(at, len).into_iter();
                lines.any(|line| cache.dirty_words(line) != 0)
            })
    }

    /// Whether the running thread's host has lines of a range in its cache.
    pub fn has_lines(&self, at: u64, len: u64) -> bool {
        let cache = self.machine.cache(self.host_of(self.current));
        self.has_buffered() || cache.is_some_and(|cache| !cache.resident_in(at, len).is_empty())
    }

    /// Where the running thread's process is, if it is the first of its origin.
    pub fn moment(&self) -> Option<Moment> {
        let process = self.threads[self.current as usize].process;
        let Process { steps, origin, .. } = self.processes[process as usize];
        let first = self.processes.iter().position(|other| other.origin == origin);
        (first == Some(process as usize)).then_some(Moment {
            process: origin,
            step: steps,
        })
    }

    /// Whether something that the running thread has stored or begun may not be done.
    pub fn has_begun(&self) -> bool {
        self.has_buffered() || !self.threads[self.current as usize].pending.is_empty()
    }

    /// Completes what the running thread has begun.
    pub fn complete(&mut self) -> usize {
        let host = self.host_of(self.current);
        let mut pending = std::mem::take(&mut self.threads[self.current as usize].pending);
        let count = pending.len();
        for one in pending.drain(..) {
            self.completed(host, one);
        }
        self.threads[self.current as usize].pending = pending;
        self.goes_on(true);
        count
    }
}
