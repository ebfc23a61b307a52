//! Supervision of worker processes: starts them, restarts them under the same number, moves them to other hosts, and
//! ends them.
//!
//! It needs no pool. A worker is known by its *number*, from 0 on, whatever process runs it: what a process left under
//! its number (a claim, a share, a file) the next process of that number finds again.
//!
//! A [`Supervisor`] does nothing by itself. Its owner calls [`Supervisor::poll`] in a loop, which waits until a worker
//! ends or is due, does what the [policy](Policy) says, and returns what happened. It waits in the kernel and reaps
//! every child. Dropping it kills the workers. If it is killed itself, they go on; a pool's task list allows that.
//!
//! | state of a number | becomes | when |
//! |---|---|---|
//! | due at a time | running | the time has come and the start worked |
//! | due at a time | due later, or over | the start failed |
//! | running | due later | it ended and the policy restarts it |
//! | running | over | it ended and the policy does not restart it, or gives it up, or the supervisor is stopping |
//!
//! **Hosts** are numbers too. The function that makes commands knows what they stand for: a prefix such as `ssh name`,
//! a namespace, a pool's host id.
//!
//! Threads of one process are supervised in the same way: [`run_threads`].

mod policy;
mod threads;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::memory::await_any;
pub use crate::memory::{Signal, WatchedChild};
use policy::{History, Jitter, after};
pub use policy::{Policy, Restart};
pub use threads::{ThreadEnd, ThreadEnded, ThreadFate, ThreadStart, run_threads};

/// A process to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The worker's number.
    pub worker: u32,
    /// How many workers there are.
    pub workers: u32,
    /// How often it was started before.
    pub restarts: u32,
    /// The host.
    pub host: usize,
}

/// How a worker's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It never began.
    NotStarted(String),
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }

    /// Whether the end is a failure.
    pub fn is_failure(&self) -> bool {
        *self != Self::Code(0)
    }

    /// The exit code that a shell would give it.
    pub fn code(&self) -> u8 {
        match self {
            Self::Code(code) => (*code).clamp(0, 255) as u8,
            Self::Signal(signal) => 128u8.wrapping_add(*signal as u8),
            Self::NotStarted(_) => 127,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(0) => write!(f, "ended well"),
            Self::Code(code) => write!(f, "failed with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
        }
    }
}

/// What follows an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Another start, after so long.
    Restart(Duration),
    /// Nothing: the policy does not restart it, or the supervisor is stopping.
    Over,
    /// Nothing: it was restarted too often.
    GivenUp,
}

/// What a poll saw or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker's process began.
    Started {
        /// Which worker, and how often it was started before.
        start: Start,
        /// Its process id.
        process: u32,
    },
    /// A worker's process ended.
    Ended {
        /// Which.
        worker: u32,
        /// Its process id; 0 if it never began.
        process: u32,
        /// How.
        end: End,
        /// What follows.
        then: Then,
    },
    /// A host counts as lost; its workers are started on the others.
    HostLost {
        /// Which.
        host: usize,
    },
}

/// What became of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Its number.
    pub worker: u32,
    /// How often it was started again.
    pub restarts: u32,
    /// How its last process ended, if it has.
    pub end: Option<End>,
}

enum State {
    Due(Instant),
    Running(WatchedChild, Instant),
    Over,
}

struct Slot {
    state: State,
    host: usize,
    starts: u32,
    history: History,
    end: Option<End>,
}

#[derive(Clone, Copy, Default)]
struct Host {
    is_lost: bool,
    failures: u32,
}

/// Workers, and what is known of them.
pub struct Supervisor<F> {
    policy: Policy,
    command: F,
    slots: Vec<Slot>,
    hosts: Vec<Host>,
    jitter: Jitter,
    /// When the processes that still run are killed, if the supervisor is stopping.
    stopping: Option<Instant>,
}

impl<F: FnMut(&Start) -> Command> Supervisor<F> {
    /// So many workers, distributed over so many hosts in turn. The first [`Supervisor::poll`] starts them.
    pub fn new(workers: u32, hosts: usize, policy: Policy, command: F) -> Self {
        let (now, hosts) = (Instant::now(), hosts.max(1));
        let slot = |worker: u32| Slot {
            state: State::Due(now),
            host: worker as usize % hosts,
            starts: 0,
            history: History::default(),
            end: None,
        };
        Self {
            policy,
            command,
            slots: (0..workers).map(slot).collect(),
            hosts: vec![Host::default(); hosts],
            jitter: Jitter::new(),
            stopping: None,
        }
    }

    /// Starts the workers that are due, waits for an end or for the next that is due, for this long at most, and
    /// returns what happened.
    pub fn poll(&mut self, at_most: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        self.start_due(&mut events);
        self.reap(&mut events);
        if events.is_empty() {
            let now = Instant::now();
            let until = |when: &Instant| when.saturating_duration_since(now);
            let due = self.slots.iter().filter_map(|slot| match &slot.state {
                State::Due(when) => Some(until(when)),
                State::Running(..) | State::Over => None,
            });
            let wait = due
                .chain(self.stopping.as_ref().map(until))
                .fold(at_most, Duration::min);
            await_any(self.children(), wait);
            self.reap(&mut events);
            self.start_due(&mut events);
        }
        if self.stopping.is_some_and(|end| Instant::now() >= end) {
            self.signal(Signal::Kill);
            self.stopping = Some(after(self.policy.grace));
        }
        events
    }

    /// Whether no worker runs, and none will.
    pub fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.state, State::Over))
    }

    /// Sends a signal to all processes that run.
    pub fn signal(&self, signal: Signal) {
        for child in self.children() {
            // A process that has ended meanwhile does not need it.
            let _ = child.signal(signal);
        }
    }

    /// Ends all workers: SIGTERM now, SIGKILL after the grace. No worker is started any more.
    pub fn stop(&mut self) {
        if self.stopping.is_none() {
            self.signal(Signal::Terminate);
            self.stopping = Some(after(self.policy.grace));
            for slot in &mut self.slots {
                if matches!(slot.state, State::Due(_)) {
                    slot.state = State::Over;
                }
            }
        }
    }

    /// Counts a host as lost: kills its processes here, and starts its workers on the other hosts. Returns `false`, and
    /// changes nothing, if there are no others.
    pub fn lose_host(&mut self, host: usize) -> bool {
        let is_last = (0..self.hosts.len()).all(|other| other == host || self.hosts[other].is_lost);
        if is_last || self.hosts.get(host).is_none_or(|host| host.is_lost) {
            return false;
        }
        self.hosts[host].is_lost = true;
        for n in 0..self.slots.len() {
            if self.slots[n].host == host {
                self.slots[n].host = self.emptiest_host();
                if let State::Running(child, _) = &self.slots[n].state {
                    let _ = child.signal(Signal::Kill);
                }
            }
        }
        true
    }

    /// Counts a lost host as there again: workers that are started later may go to it.
    pub fn regain_host(&mut self, host: usize) {
        if let Some(host) = self.hosts.get_mut(host) {
            *host = Host::default();
        }
    }

    /// What became of each worker so far.
    pub fn fates(&self) -> Vec<Fate> {
        let fate = |(worker, slot): (usize, &Slot)| Fate {
            worker: worker as u32,
            restarts: slot.starts.saturating_sub(1),
            end: slot.end.clone(),
        };
        self.slots.iter().enumerate().map(fate).collect()
    }

    fn children(&self) -> impl Iterator<Item = &WatchedChild> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Running(child, _) => Some(child),
            State::Due(_) | State::Over => None,
        })
    }

    fn emptiest_host(&self) -> usize {
        let workers = |host: usize| self.slots.iter().filter(|slot| slot.host == host).count();
        (0..self.hosts.len())
            .filter(|host| !self.hosts[*host].is_lost)
            .min_by_key(|host| workers(*host))
            .unwrap_or(0)
    }

    fn start_due(&mut self, events: &mut Vec<Event>) {
        let now = Instant::now();
        for n in 0..self.slots.len() {
            if !matches!(self.slots[n].state, State::Due(when) if when <= now) {
                continue;
            }
            let start = Start {
                worker: n as u32,
                workers: self.slots.len() as u32,
                restarts: self.slots[n].starts,
                host: self.slots[n].host,
            };
            self.slots[n].starts += 1;
            match WatchedChild::start(&mut (self.command)(&start)) {
                Ok(child) => {
                    let process = child.id();
                    self.slots[n].state = State::Running(child, now);
                    events.push(Event::Started { start, process });
                }
                Err(error) => self.ended(n, 0, start.host, End::NotStarted(error.to_string()), now, events),
            }
        }
    }

    fn reap(&mut self, events: &mut Vec<Event>) {
        for n in 0..self.slots.len() {
            let host = self.slots[n].host;
            let State::Running(child, since) = &mut self.slots[n].state else {
                continue;
            };
            let (process, since) = (child.id(), *since);
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => self.ended(n, process, host, End::of(status), since, events),
                Err(error) => self.ended(
                    n,
                    process,
                    host,
                    End::NotStarted(error.to_string()),
                    since,
                    events,
                ),
            }
        }
    }

    /// Decides what follows the end of a worker's process, which ran on `host` since `since`.
    fn ended(
        &mut self,
        n: usize,
        process: u32,
        host: usize,
        end: End,
        since: Instant,
        events: &mut Vec<Event>,
    ) {
        let (now, policy) = (Instant::now(), self.policy);
        let ran = now.duration_since(since);
        let is_bad = end.is_failure() && ran < policy.wait_most;
        self.hosts[host].failures = if is_bad { self.hosts[host].failures + 1 } else { 0 };
        let slot = &mut self.slots[n];
        slot.end = Some(end.clone());
        let then = match self.stopping {
            Some(_) => Then::Over,
            None => slot
                .history
                .follow(&policy, end.is_failure(), ran, &mut self.jitter),
        };
        slot.state = match then {
            Then::Restart(wait) => State::Due(after(wait)),
            Then::Over | Then::GivenUp => State::Over,
        };
        events.push(Event::Ended {
            worker: n as u32,
            process,
            end,
            then,
        });
        let is_lost = policy
            .lost_after
            .is_some_and(|limit| self.hosts[host].failures >= limit);
        if is_lost && self.lose_host(host) {
            events.push(Event::HostLost { host });
        }
    }
}

impl<F> Drop for Supervisor<F> {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if let State::Running(child, _) = &mut slot.state {
                let _ = child.signal(Signal::Kill);
                let _: io::Result<ExitStatus> = child.wait();
            }
        }
    }
}
