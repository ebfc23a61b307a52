//! A litmus test: a thread a process, registers for what they find, and all outcomes that were seen.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote_sim::exec::{Context, Crash, Ended, Event, Outcome, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Bounds, Exhaustive, Policy, RandomWalk};

/// Words on lines of their own, all of them past the first line.
pub const X: u64 = 1024;
pub const Y: u64 = 2048;
pub const FLAG: u64 = 3072;
/// The word after `X`, on its line.
pub const NEIGHBOUR: u64 = X + 8;
/// The line after that of `X`.
pub const NEXT_LINE: u64 = X + 64;

/// What a test's threads have found; each test says which register is whose.
pub type Registers = [u64; 4];

/// A thread of a litmus test: which one it is, its memory, and the registers.
pub struct Thread<'a, const C: bool> {
    /// Counted from 0 in the order of `Litmus::hosts`; one that is started after a crash has the next number.
    pub number: u32,
    pub mem: SimMemory<C>,
    found: &'a RefCell<Registers>,
}

impl<const C: bool> Thread<'_, C> {
    pub fn find(&self, register: usize, value: u64) {
        self.found.borrow_mut()[register] = value;
    }
}

/// A test, on a coherent machine or not.
#[derive(Clone)]
pub struct Litmus<const C: bool> {
    /// The host of each thread.
    pub hosts: Vec<u32>,
    pub crashes: Vec<Crash>,
    pub prefetches: bool,
    pub persists_at_crash: bool,
    pub checks_order: bool,
    pub threads: fn(&Thread<'_, C>),
    /// What is found at the end, by a host that has touched nothing.
    pub audit: fn(&Thread<'_, C>),
}

/// A run's outcome.
pub struct Found {
    pub registers: Registers,
    pub outcome: Outcome,
}

/// The outcomes that were seen, each with the number of its first run.
pub type Seen = BTreeMap<Registers, u64>;

impl<const C: bool> Litmus<C> {
    /// Threads on hosts 1, 2, … of their own, with nothing to check in the end.
    pub fn new(count: u32, threads: fn(&Thread<'_, C>)) -> Self {
        Self {
            hosts: (1..=count).collect(),
            crashes: Vec::new(),
            prefetches: false,
            persists_at_crash: false,
            checks_order: false,
            threads,
            audit: |_| {},
        }
    }

    /// The process of thread 0 dies after so many steps.
    pub fn dies_at(mut self, step: u64) -> Self {
        self.crashes = vec![Crash {
            process: 0,
            step,
            restarts: false,
            alone: false,
        }];
        self
    }

    /// A read that does not find what it must see ends a run.
    pub fn checking_order(mut self) -> Self {
        self.checks_order = true;
        self
    }

    /// Runs it once.
    pub fn run(&self, policy: Box<dyn Policy>) -> Found {
        let settings = Settings {
            shape: Shape {
                coherent: C,
                hosts: 1 + self.hosts.iter().copied().max().unwrap_or(0),
                bytes: 4096,
                cache_lines: Capacity { shared: 64, own: 64 },
                prefetches: self.prefetches,
                has_membarrier: true,
                persists_at_crash: self.persists_at_crash,
                coherent_bytes: 0,
                blind_exchanges: false,
            },
            processes: self.hosts.clone(),
            crashes: self.crashes.clone(),
            steps_max: 10_000,
            capacity: u64::MAX,
            profile: None,
            checks_order: self.checks_order,
            traces: true,
            delegated: None,
            limits: None,
        };
        let found = Rc::new(RefCell::new(Registers::default()));
        let body = |threads: fn(&Thread<'_, C>)| {
            let found = found.clone();
            move |context: Context<C>| {
                threads(&Thread {
                    // The first process prepares.
                    number: context.process() - 1,
                    mem: context.memory(),
                    found: &found,
                })
            }
        };
        let (threads, audit) = (body(self.threads), body(self.audit));
        let outcome = run(
            &settings,
            policy,
            Box::new(|_| {}),
            Rc::new(threads),
            Box::new(audit),
        );
        let registers = *found.borrow();
        Found { registers, outcome }
    }

    /// What all schedules with so many preemptions find.
    pub fn all(&self, preemptions: u32) -> Seen {
        let policy = Exhaustive::new(
            Bounds {
                preemptions,
                faults: 0,
            },
            C,
        );
        let mut seen = Seen::new();
        loop {
            let found = self.run(Box::new(policy.clone()));
            assert_eq!(found.outcome.ended, Ended::Well, "{:?}", found.outcome.timeline);
            let schedule = policy.schedules();
            seen.entry(found.registers).or_insert(schedule);
            if !policy.advance() {
                break;
            }
        }
        println!(
            "{} schedules, {} places shared: {seen:?}",
            policy.schedules(),
            policy.shared_places()
        );
        seen
    }

    /// What the random walks from so many seeds find.
    pub fn walks(&self, seeds: u64) -> Seen {
        let mut seen = Seen::new();
        for seed in 1..=seeds {
            let found = self.run(Box::new(RandomWalk::new(seed)));
            assert_eq!(found.outcome.ended, Ended::Well, "seed {seed}");
            seen.entry(found.registers).or_insert(seed);
        }
        println!("{seeds} seeds, with the first of each outcome: {seen:?}");
        seen
    }

    /// The first seed whose run is as `wanted`.
    pub fn first(&self, wanted: impl Fn(&Found) -> bool) -> u64 {
        let is_wanted = |seed: &u64| wanted(&self.run(Box::new(RandomWalk::new(*seed))));
        let seed = (1..=10_000).find(is_wanted);
        println!("first seed: {seed:?}");
        seed.unwrap_or_else(|| panic!("no seed up to 10,000"))
    }
}

impl Found {
    /// Whether no cache lost a line of the memory that tests use.
    pub fn without_evictions(&self) -> bool {
        let is_eviction = |event: &Event| matches!(event, Event::Evicted { line, .. } if *line >= X);
        !self.outcome.timeline.iter().any(|(_, event)| is_eviction(event))
    }
}

/// Outcomes without the numbers of their runs.
pub fn outcomes(seen: &Seen) -> Vec<Registers> {
    seen.keys().copied().collect()
}
