//! Many runs of one subject, each from a seed; the first that fails is repeated, shrunk and reported.

mod failure;
mod judge;
mod trial;

pub use failure::Failure;
pub use trial::Passed;

use cenote::Guidelines;
use cenote::pod::format::geometry::Geometry;
use cenote::pod::instance::limits::{CHUNK_ENTRIES_MIN, Limits};

use crate::check::linear::Durability;
use crate::check::spec::ordered::{Op, Ret};
use crate::exec::{Crash, Delegation, Outcome, Settings, run};
use crate::history::History;
use crate::machine::{Capacity, Shape};
use crate::policy::{Bounds, Exhaustive, Pct, Policy, RandomWalk, Replay};
use crate::profile::Profile;
use crate::subjects::{Load, Makes, OwnIndex, Subject, below, pool, random};
use crate::sweep::Moment;

/// After so many steps a run counts as stuck, unless it is told otherwise, for each [`OPERATIONS`] operations of its
/// threads.
pub const STEPS_MAX: u64 = 4_000_000;
/// See [`STEPS_MAX`].
const OPERATIONS: u64 = 128;

/// A few steps: fewer than 2 to the power of this; enough until what was left in disorder is used again.
const SOON: u64 = 11;
/// So many of the moments of a run are its last ones.
const LAST_MOMENTS: usize = 4;

/// Steps in which a buffered store takes effect at most, where a server executes exchanges.
const DRAIN: u32 = 16;

/// Which policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// [`RandomWalk`].
    Random,
    /// [`Pct`] with this depth.
    Pct(u32),
    /// [`Exhaustive`] within these bounds.
    Exhaustive(Bounds),
}

/// Which thresholds the processes of a run have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsKind {
    /// Those of users.
    Usual,
    /// Small ones, drawn from the seed.
    Small,
    /// Small ones for every other seed or so.
    Drawn,
}

/// What a campaign runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The part of the library.
    pub subject: Subject,
    /// Whether the machine is coherent.
    pub coherent: bool,
    /// Whether a server executes read-modify-writes.
    pub delegated: bool,
    /// Hosts, each with one process.
    pub hosts: u32,
    /// Threads of each process.
    pub threads: u32,
    /// Operations of each thread.
    pub operations: u32,
    /// Most processes that die in a run.
    pub crashes: u32,
    /// Whether all guidelines are drawn too; else it is P³.
    pub draws_guidelines: bool,
    /// Whether misses bring the next line in too.
    pub prefetches: bool,
    /// Whether the kernels have the asymmetric barrier (`membarrier`); else every announcement has a barrier of its
    /// own.
    pub has_membarrier: bool,
    /// A planted fault, to see that it is found: compare-exchanges succeed whatever they find.
    pub blind_exchanges: bool,
    /// Which thresholds processes have.
    pub limits: LimitsKind,
    /// Which policy decides.
    pub policy: PolicyKind,
    /// With it, threads run in the order of virtual clocks, and the policy has nothing to decide.
    pub profile: Option<Profile>,
    /// After so many steps a run is stuck; eight times as many where a server executes exchanges.
    pub steps_max: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Result {
    /// Nothing was found.
    Passed,
    /// Something is not as it must be; the checker that saw it, and what it says.
    Wrong(&'static str, String),
    /// A thread waits for ever.
    Stuck(String),
    /// The code panicked.
    Crashed(String),
}

/// A run, judged.
#[derive(Debug)]
pub struct Run {
    /// How it ended.
    pub result: Result,
    /// What it left.
    pub outcome: Outcome,
    /// What its threads called, where the subject writes that down.
    pub history: Option<History<Op, Ret>>,
    /// Whether its history has too many orders to search; then only what it says of each key was found to fit some
    /// order.
    pub is_by_key: bool,
    /// The deaths, as they were drawn.
    pub crashes: Vec<Crash>,
}

/// What an exploration came to.
#[derive(Debug)]
pub struct Explored {
    /// The last run: the one that failed, if one did.
    pub last: Run,
    /// How many schedules were run since the last new shared place was found.
    pub schedules: u64,
    /// How many were run in all: the exploration begins anew when a new shared place is found.
    pub runs: u64,
    /// Whether these were all.
    pub has_ended: bool,
    /// Words of coherent memory, or lines, whose order of accesses matters.
    pub shared_places: usize,
    /// Points of the first schedule at which a thread could be preempted.
    pub points: u64,
    /// What it was bounded by.
    pub bounds: Bounds,
}

impl std::fmt::Display for Explored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.has_ended { "all" } else { "the first" };
        let Self {
            schedules,
            bounds,
            points,
            shared_places,
            ..
        } = self;
        write!(f, "{what} {schedules} schedules with {bounds}; ")?;
        write!(f, "{points} points and {shared_places} shared places")
    }
}

impl Plan {
    /// A plan as `cenote sim` has it unless it is told otherwise: two hosts of two threads with ten operations each, of
    /// which one may die.
    pub const fn new(subject: Subject, coherent: bool) -> Self {
        Self {
            subject,
            coherent,
            delegated: false,
            hosts: 2,
            threads: 2,
            operations: 10,
            crashes: 1,
            draws_guidelines: true,
            prefetches: false,
            has_membarrier: true,
            blind_exchanges: false,
            limits: LimitsKind::Drawn,
            policy: PolicyKind::Random,
            profile: None,
            steps_max: STEPS_MAX,
        }
    }

    /// The machine's name on the command line.
    pub fn memory(&self) -> &'static str {
        match (self.coherent, self.delegated) {
            (true, _) => "coherent",
            (false, false) => "noncoherent",
            (false, true) => "delegated",
        }
    }

    /// What is drawn from a seed, for people.
    pub fn drawn(&self, seed: u64) -> String {
        let (load, crashes) = (self.load(seed), self.crashes(seed));
        let crashes: Vec<String> = crashes
            .iter()
            .map(|crash| {
                let then = if crash.restarts { ", restarts" } else { "" };
                format!("process {} dies at its step {}{then}", crash.process, crash.step)
            })
            .collect();
        let limits = self
            .limits(seed)
            .map_or_else(String::new, |limits| format!("{limits:?}; "));
        format!(
            "{:?}; {limits}{}",
            load.guidelines,
            if crashes.is_empty() {
                "nobody dies".to_owned()
            } else {
                crashes.join("; ")
            }
        )
    }

    fn load(&self, seed: u64) -> Load {
        let mut random = random(seed, 1 << 20);
        let overwrites = |random: &mut _| self.coherent && below(random, 2) == 1;
        let guidelines = match below(&mut random, 4) {
            0 if self.draws_guidelines && overwrites(&mut random) => Guidelines {
                out_of_place: false,
                ..Guidelines::P3
            },
            1 if self.draws_guidelines => Guidelines::SP,
            2 if self.draws_guidelines => Guidelines {
                speculate: false,
                ..Guidelines::P3
            },
            3 if self.draws_guidelines && self.coherent => Guidelines::IN_PLACE,
            _ => Guidelines::P3,
        };
        Load {
            hosts: self.hosts,
            threads: self.threads,
            operations: self.operations,
            guidelines,
            seed,
            crashes: self.crashes,
            gathers: if self.gathers() {
                self.hosts * self.threads
            } else {
                0
            },
        }
    }

    /// The thresholds of a run's processes, if not the usual ones: so small that a short run goes beyond them.
    fn limits(&self, seed: u64) -> Option<Limits> {
        let mut random = random(seed, 1 << 22);
        let is_small = match self.limits {
            LimitsKind::Usual => false,
            LimitsKind::Small => true,
            LimitsKind::Drawn => below(&mut random, 2) == 1,
        };
        let mut draw = |from: u64, to: u64| from + below(&mut random, to - from + 1);
        is_small.then(|| Limits {
            collect_every: draw(1, 8) as u32,
            collect_bytes: 64 << draw(0, 10),
            collect_chunks: draw(1, 2),
            chunk_entries: draw(CHUNK_ENTRIES_MIN, CHUNK_ENTRIES_MIN + 4),
            maintain_every: draw(1, 4) as u32,
            trim_order: 0,
            removals: 0,
            magazine_bytes: 32 << draw(0, 8),
            unposted: draw(1, 2) as usize,
            quiet_ticks: draw(1, 16) as u32,
            cached_words: 1 << draw(0, 8),
            drain_links: 1 << draw(0, 10),
            spins: 1 << draw(0, 6),
            // There is no clock: every hold is long, or none.
            long_hold_ns: draw(0, 2),
        })
    }

    /// After so many steps a run is stuck: each exchange of a server's client takes those of both, while all others
    /// wait.
    fn steps_of_a_run(&self) -> u64 {
        let operations = u64::from(self.hosts) * u64::from(self.threads) * u64::from(self.operations);
        let mut parts = operations.div_ceil(OPERATIONS).max(1);
        // In long runs of these an operation takes more steps.
        if self.subject == Subject::Objects {
            parts = parts.saturating_mul(parts);
        }
        self.steps_of_128_operations().saturating_mul(parts)
    }

    fn steps_of_128_operations(&self) -> u64 {
        self.steps_max.saturating_mul(if self.delegated { 8 } else { 1 })
    }

    /// Steps at which processes die: short distances and long ones are equally likely.
    fn crashes(&self, seed: u64) -> Vec<Crash> {
        let mut random = random(seed, 1 << 21);
        let mut victims: Vec<u32> = (0..self.subject.processes(self.hosts).len() as u32).collect();
        (0..self.crashes.min(self.hosts))
            .map(|_| {
                let process = victims.swap_remove(below(&mut random, victims.len() as u64) as usize);
                // A server takes many steps.
                let magnitude = 4 + below(&mut random, if self.delegated { 14 } else { 11 });
                Crash {
                    process,
                    step: (1 << magnitude) + below(&mut random, 1 << magnitude),
                    restarts: below(&mut random, 2) == 0 || self.subject.restarts(process),
                    // On incoherent memory only its own process may recover it, and here no thread of that process
                    // does.
                    alone: self.subject == Subject::Group && self.coherent && seed.is_multiple_of(3),
                }
            })
            .collect()
    }

    /// The deaths of a seed, with one process dying a few steps after one of its moments instead. The draws depend on
    /// `death` too.
    pub fn dies_soon(&self, seed: u64, moments: &[Moment], death: u32) -> Vec<Crash> {
        let mut random = random(seed, 1 << 23 | death);
        // The last ones as often as all: a process that passes there does not pass again and make up for it.
        let from = match below(&mut random, 2) {
            0 => 0,
            _ => moments.len().saturating_sub(LAST_MOMENTS),
        };
        let Moment { process, step } =
            moments[from + below(&mut random, (moments.len() - from) as u64) as usize];
        let soon = below(&mut random, SOON + 1);
        let dies = Crash {
            process,
            step: step + below(&mut random, 1 << soon),
            restarts: below(&mut random, 2) == 0 || self.subject.restarts(process),
            alone: false,
        };
        let others = self
            .crashes(seed)
            .into_iter()
            .filter(|crash| crash.process != process);
        others.chain([dies]).collect()
    }

    fn policy(&self, seed: u64) -> Box<dyn Policy> {
        match self.policy {
            // This baseline shares words within a process outside the simulated memory, which knows no order between
            // the two.
            PolicyKind::Random if self.subject == Subject::Sherman => {
                Box::new(RandomWalk::new(seed).without_buffers())
            }
            PolicyKind::Pct(depth) if self.subject == Subject::Sherman => {
                Box::new(Pct::new(seed, depth, self.subject.steps()).without_buffers())
            }
            PolicyKind::Random if self.delegated => {
                Box::new(RandomWalk::new(seed).draining_within(DRAIN).serving())
            }
            PolicyKind::Random => Box::new(RandomWalk::new(seed)),
            PolicyKind::Pct(depth) if self.delegated => {
                Box::new(Pct::new(seed, depth, self.subject.steps()).draining_within(DRAIN))
            }
            PolicyKind::Pct(depth) => Box::new(Pct::new(seed, depth, self.subject.steps())),
            PolicyKind::Exhaustive(bounds) => Box::new(self.exhaustive(bounds)),
        }
    }

    /// Runs one seed.
    pub fn run(&self, seed: u64) -> Run {
        self.run_with(seed, self.policy(seed), false)
    }

    /// Runs a seed with other deaths than its own.
    pub fn run_dying(&self, seed: u64, crashes: Vec<Crash>) -> Run {
        let policy = self.policy(seed);
        if self.coherent {
            self.run_on::<true>(seed, policy, false, crashes)
        } else {
            self.run_on::<false>(seed, policy, false, crashes)
        }
    }

    /// Runs a seed's processes and crashes by other decisions than its own, and keeps a timeline.
    pub fn replay(&self, seed: u64, decisions: Vec<u32>) -> Run {
        self.run_with(seed, Box::new(Replay::new(decisions)), true)
    }

    /// Runs all schedules of a seed's processes within bounds, until one fails.
    pub fn explore(&self, seed: u64, bounds: Bounds, schedules_max: u64) -> Explored {
        let policy = self.exhaustive(bounds);
        loop {
            let last = self.run_with(seed, Box::new(policy.clone()), false);
            let has_ended = !policy.advance();
            if last.result != Result::Passed || has_ended || policy.schedules() >= schedules_max {
                return Explored {
                    last,
                    schedules: policy.schedules(),
                    runs: policy.runs(),
                    has_ended,
                    shared_places: policy.shared_places(),
                    points: policy.points(),
                    bounds,
                };
            }
        }
    }

    /// Whether threads wait for each other before their first operation: then all that comes before is the same in
    /// every schedule. Not where threads may die: the others would wait in vain.
    fn gathers(&self) -> bool {
        matches!(self.policy, PolicyKind::Exhaustive(_)) && self.crashes == 0
    }

    fn exhaustive(&self, bounds: Bounds) -> Exhaustive {
        if self.gathers() {
            Exhaustive::once_gathered(bounds, self.coherent)
        } else {
            Exhaustive::new(bounds, self.coherent)
        }
    }

    fn run_with(&self, seed: u64, policy: Box<dyn Policy>, traces: bool) -> Run {
        let crashes = self.crashes(seed);
        if self.coherent {
            self.run_on::<true>(seed, policy, traces, crashes)
        } else {
            self.run_on::<false>(seed, policy, traces, crashes)
        }
    }

    fn run_on<const C: bool>(
        &self,
        seed: u64,
        policy: Box<dyn Policy>,
        traces: bool,
        crashes: Vec<Crash>,
    ) -> Run
    where
        OwnIndex: Makes<C>,
    {
        let parameters = self.subject.parameters(C, self.hosts, self.threads);
        let settings = Settings {
            shape: Shape {
                coherent: C,
                hosts: self.hosts,
                bytes: pool::bytes(parameters),
                cache_lines: self
                    .profile
                    .as_ref()
                    .map_or(Capacity::ALL, |profile| profile.cache_lines(self.threads)),
                prefetches: self.prefetches,
                has_membarrier: self.has_membarrier,
                persists_at_crash: false,
                coherent_bytes: 0,
                blind_exchanges: self.blind_exchanges,
            },
            processes: self.subject.processes(self.hosts),
            crashes: crashes.clone(),
            steps_max: self.steps_of_a_run(),
            capacity: u64::MAX,
            profile: self.profile.clone(),
            checks_order: true,
            traces,
            delegated: self.delegated.then(|| {
                let geometry = Geometry::new(parameters);
                Delegation {
                    boxes: geometry.mailboxes(),
                    lock: parameters.processes,
                    limit: geometry.mapped,
                }
            }),
            limits: self.limits(seed),
        };
        let scenario = self.subject.scenario::<C>(self.load(seed), parameters);
        let log = scenario.log.clone();
        let outcome = run(&settings, policy, scenario.prepare, scenario.body, scenario.audit);
        let (result, history, is_by_key) = self.judge(&outcome, log.take());
        Run {
            result,
            outcome,
            history,
            is_by_key,
            crashes,
        }
    }

    /// Until when a call may take effect whose process died in it. The server executes requests of dead processes too.
    fn durability(&self) -> Durability {
        match self.delegated {
            true => Durability::Durable,
            false => self.subject.durability(),
        }
    }

    /// Makes a failing run's decisions fewer and duller, as long as it fails in the same way. At most `runs_max` runs.
    ///
    /// Those of a stuck run stay as they are: with duller ones a thread that polls would run for ever while the one
    /// that it waits for has no turn, which is another way of being stuck.
    pub fn shrink(&self, seed: u64, decisions: Vec<u32>, result: &Result, runs_max: u32) -> Vec<u32> {
        if matches!(result, Result::Stuck(_)) {
            return decisions;
        }
        let mut best = decisions;
        let mut runs = 0;
        let mut fails = |decisions: &[u32]| {
            runs += 1;
            let replay = Box::new(Replay::new(decisions.to_vec()));
            let same = same_way(&self.run_with(seed, replay, false).result, result);
            (same, runs < runs_max)
        };
        let mut size = best.len().next_power_of_two() / 2;
        'shrinking: while size > 0 {
            let mut from = 0;
            while from < best.len() {
                let to = (from + size).min(best.len());
                if best[from..to].iter().any(|&decision| decision != 0) {
                    let mut duller = best.clone();
                    duller[from..to].fill(0);
                    let (same, goes_on) = fails(&duller);
                    if same {
                        best = duller;
                    }
                    if !goes_on {
                        break 'shrinking;
                    }
                }
                from = to;
            }
            size /= 2;
        }
        // Past the end of a schedule a thread that waits lets others run; a zero at the end may have it wait on.
        let short = trimmed(best.clone());
        match fails(&short).0 {
            true => short,
            false => best,
        }
    }

    /// The arguments of `cenote sim` that run a seed of this plan. It does not know an index of somebody's own.
    pub fn arguments(&self, seed: u64) -> String {
        let mut text = format!(
            "{} --memory {} --hosts {} --threads {} --operations {} --crashes {} --seed {seed}",
            self.subject.name(),
            self.memory(),
            self.hosts,
            self.threads,
            self.operations,
            self.crashes,
        );
        if let Some(profile) = &self.profile {
            text += &format!(" --profile {}", profile.name);
        }
        match self.policy {
            PolicyKind::Random => {}
            PolicyKind::Pct(depth) => text += &format!(" --policy pct --depth {depth}"),
            PolicyKind::Exhaustive(Bounds { preemptions, faults }) => {
                text += &format!(" --policy exhaustive --preemptions {preemptions} --faults {faults}");
            }
        }
        match self.limits {
            LimitsKind::Usual => text += " --limits usual",
            LimitsKind::Small => text += " --limits small",
            LimitsKind::Drawn => {}
        }
        if self.prefetches {
            text += " --prefetch";
        }
        if !self.has_membarrier {
            text += " --no-membarrier";
        }
        if self.steps_max != STEPS_MAX {
            text += &format!(" --steps-max {}", self.steps_max);
        }
        text
    }
}

fn trimmed(mut decisions: Vec<u32>) -> Vec<u32> {
    while decisions.pop_if(|decision| *decision == 0).is_some() {}
    decisions
}

fn same_way(a: &Result, b: &Result) -> bool {
    match (a, b) {
        (Result::Wrong(a, _), Result::Wrong(b, _)) => a == b,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}
