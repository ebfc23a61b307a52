//! Schedules that a test directs: all threads run in turn, except those that the test's stage holds back. For what
//! draws hardly ever find, since it takes a long stop at the one step that matters.
// Most of those that use it need planted faults.
#![cfg_attr(not(feature = "mutants"), allow(dead_code))]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::pod::Worker;
use cenote::pod::instance::limits::Limits;
use cenote_sim::exec::{Context, Ended, Settings, SimMemory, run};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

/// What the threads of a test know of each other, and whom it holds back.
pub trait Stage: 'static {
    /// Looks at what the threads are about to do, before each step.
    fn look(&self, _: &[Candidate]) {}

    /// Whether a thread is held back for now.
    fn waits(&self, of: &Candidate) -> bool;

    /// A thread is about to take a step.
    fn note(&self, _: &Candidate) {}
}

/// What a directed run is made of.
pub struct Play {
    /// The host of each process.
    pub processes: Vec<u32>,
    /// Frames that the pool may have, and has at first.
    pub frames: (u64, u64),
    /// The thresholds of processes, if not the usual ones.
    pub limits: Option<Limits>,
}

impl Play {
    /// So many processes on one host.
    pub fn of_processes(count: usize) -> Self {
        Self::on_hosts(vec![0; count])
    }

    /// A process on each of these hosts.
    pub fn on_hosts(processes: Vec<u32>) -> Self {
        Self {
            processes,
            frames: (32, 32),
            limits: None,
        }
    }

    /// Runs it: `set_up` by a worker before, then `body` by the first thread of each process.
    pub fn run<const C: bool, S: Stage>(
        self,
        stage: &Rc<S>,
        set_up: impl FnOnce(&Rc<Worker<SimMemory<C>>>) + 'static,
        body: impl Fn(&Context<C>, &Rc<S>) + 'static,
    ) -> Ended {
        let (frames, at_first) = self.frames;
        let parameters = parameters(C, frames);
        let settings = Settings {
            limits: self.limits,
            ..Settings::untimed(C, bytes(parameters), self.processes)
        };
        let (theirs, director) = (stage.clone(), Director::new(stage.clone()));
        let outcome = run::<C>(
            &settings,
            Box::new(director),
            Box::new(move |context| {
                format(&context, parameters, at_first).unwrap();
                with_worker(&context, set_up);
            }),
            Rc::new(move |context| body(&context, &theirs)),
            Box::new(|_| {}),
        );
        outcome.ended
    }
}

/// Runs the thread that has not run for longest, except those that the stage holds back.
struct Director<S> {
    stage: Rc<S>,
    step: u64,
    /// When each thread ran last.
    ran: BTreeMap<u32, u64>,
}

impl<S> Director<S> {
    fn new(stage: Rc<S>) -> Self {
        let (step, ran) = (0, BTreeMap::new());
        Self { stage, step, ran }
    }
}

impl<S: Stage> Policy for Director<S> {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        self.stage.look(candidates);
        let chosen = (0..candidates.len())
            .filter(|&n| !self.stage.waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        self.stage.note(&candidates[chosen]);
        self.step += 1;
        self.ran.insert(candidates[chosen].thread, self.step);
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "directed".to_owned()
    }
}

/// Waits until it is so.
pub fn until<const C: bool>(context: &Context<C>, is_so: impl Fn() -> bool) {
    while !is_so() {
        context.wait();
    }
}

/// Has a process join the pool, and leave it when a worker of it has acted.
pub fn with_worker<const C: bool, R>(
    context: &Context<C>,
    act: impl FnOnce(&Rc<Worker<SimMemory<C>>>) -> R,
) -> R {
    let member = Member::join(context, !C).unwrap();
    let result = act(&Rc::new(Worker::attach(&member.pod, true).unwrap()));
    member.leave(context);
    result
}

/// A stop of one thread before one of its steps.
#[derive(Default)]
pub struct Stop {
    /// Before which of its steps it is stopped, and for how many of all others at most: it may hold a lock.
    at: u64,
    most: u64,
    /// The steps that it has taken.
    steps: Cell<u64>,
    is_stopped: Cell<bool>,
    /// Steps of all since then.
    since: Cell<u64>,
}

impl Stop {
    /// Before a step, for so many steps of all others at most.
    pub fn before(at: u64, most: u64) -> Self {
        Self {
            at,
            most,
            ..Self::default()
        }
    }

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        self.is_stopped.get()
    }

    /// Whether it lasts, unless what it waits for `is_over`.
    pub fn lasts(&self, is_over: bool) -> bool {
        self.is_stopped.get() && !is_over && self.since.get() < self.most
    }

    /// Some thread takes a step; whether it is the one, and the step one of those that count.
    pub fn note(&self, is_its: bool) {
        if is_its {
            self.steps.set(self.steps.get() + 1);
            self.is_stopped
                .set(self.is_stopped.get() || self.steps.get() == self.at);
        }
        self.since
            .set(self.since.get() + u64::from(self.is_stopped.get()));
    }

    /// Whether the thread has taken a step that counts.
    pub fn has_begun(&self) -> bool {
        self.steps.get() > 0
    }
}

/// The first step before which a stop has something go wrong, and what. `play` says what went wrong, and whether the
/// thread was stopped: once it was not, it had fewer steps.
pub fn first_wrong<W>(mut play: impl FnMut(u64) -> (Option<W>, bool)) -> Option<(u64, W)> {
    let mut at = 0;
    loop {
        at += 1;
        match play(at) {
            (Some(wrong), _) => return Some((at, wrong)),
            (None, true) => {}
            (None, false) => return None,
        }
    }
}
