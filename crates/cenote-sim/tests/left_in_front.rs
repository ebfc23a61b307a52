//! Two waiters of a mutex give up at the same time: the one in front says so while the other, at the end of the queue,
//! has looked in front for the last time and is about to leave the end. Nobody is behind to go past the first. In this
//! schedule, which draws hardly ever find, each is held back right before that step, until the other is there.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::format::lock_slots::{Slot, SlotState, Turn};
use cenote::pod::names::directory;
use cenote::sync::{Mutex, Timeout};
use cenote_sim::exec::{Context, Ended, Kind, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

/// Where the end of a mutex's queue lies.
const END_AT: u64 = 3 * 64;
/// Polls of a waiter: as many as come before it joins. Had it more, it would sleep, and in the simulator no timeout
/// ends such a sleep.
const POLLS: u32 = 64;

/// A thread, a word that it changes, and how often it has done so. It is held back before the second time.
#[derive(Default)]
struct Step {
    place: Cell<Option<(u32, u64)>>,
    changed: Cell<u32>,
    is_due: Cell<bool>,
}

impl Step {
    /// Whether a thread is about to change the word.
    fn is(&self, of: &Candidate) -> bool {
        let changes = matches!(
            of.op.kind,
            Kind::Store | Kind::StoreSeqCst | Kind::CompareExchange
        );
        changes && self.place.get() == Some((of.thread, of.op.at))
    }

    /// Whether that is the second time: the first is to join.
    fn leaves(&self, of: &Candidate) -> bool {
        self.is(of) && self.changed.get() == 1
    }
}

/// What the threads know of each other.
#[derive(Default)]
struct Stage {
    is_held: Cell<bool>,
    /// The waiter in front changes its turn.
    front: Step,
    /// The one at the end changes the end of the queue.
    end: Step,
    front_is_done: Cell<bool>,
    end_is_done: Cell<bool>,
    /// The state of the slot of the waiter in front, once both have given up.
    state: Cell<Option<SlotState>>,
}

/// Runs all threads in turn, except those that are held back.
struct HeldBack {
    stage: Rc<Stage>,
    steps: u64,
    ran: BTreeMap<u32, u64>,
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let Stage { front, end, .. } = &*self.stage;
        for step in [front, end] {
            let is_due = candidates.iter().any(|of| step.leaves(of));
            step.is_due.set(step.is_due.get() || is_due);
        }
        let waits = |of: &Candidate| {
            front.leaves(of) && !end.is_due.get() || end.leaves(of) && !self.stage.front_is_done.get()
        };
        let chosen = (0..candidates.len())
            .filter(|&n| !waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        for step in [front, end] {
            if step.is(&candidates[chosen]) {
                step.changed.set(step.changed.get() + 1);
            }
        }
        self.steps += 1;
        self.ran.insert(candidates[chosen].thread, self.steps);
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "two held back".to_owned()
    }
}

fn until(context: &Context<true>, is_so: impl Fn() -> bool) {
    while !is_so() {
        context.wait();
    }
}

fn turn(worker: &Worker<SimMemory<true>>) -> u64 {
    Slot::new(worker.geometry(), u32::from(worker.me()) - 1, 0)
        .turn()
        .offset()
}

fn play(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
    let mutex = Mutex::open(worker.clone(), "mutex").unwrap();
    let lock = || mutex.lock_with(Timeout::Polls(POLLS)).unwrap().is_some();
    match context.process() {
        1 => {
            let guard = mutex.lock().unwrap();
            stage.is_held.set(true);
            until(context, || stage.end_is_done.get());
            let (_, turn) = stage.front.place.get().unwrap();
            stage.state.set(Some(Turn(context.peek(turn)).state()));
            drop(guard);
        }
        2 => {
            until(context, || stage.is_held.get());
            stage.front.place.set(Some((context.thread(), turn(&worker))));
            assert!(!lock());
            stage.front_is_done.set(true);
        }
        _ => {
            let end = directory::find(&*worker, "mutex").unwrap().unwrap().offset + END_AT;
            until(context, || context.peek(end) != 0);
            stage.end.place.set(Some((context.thread(), end)));
            assert!(!lock());
            stage.end_is_done.set(true);
        }
    }
    drop((mutex, worker));
    member.leave(context);
}

/// The state of the slot of the waiter in front, once both have given up.
fn left() -> SlotState {
    let parameters = parameters(true, 32);
    let settings = Settings {
        shape: Shape {
            coherent: true,
            hosts: 1,
            bytes: bytes(parameters),
            cache_lines: Capacity::ALL,
            prefetches: false,
            has_membarrier: true,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: vec![0; 3],
        crashes: Vec::new(),
        steps_max: 1_000_000,
        capacity: u64::MAX,
        profile: None,
        checks_order: true,
        traces: false,
        delegated: None,
        limits: None,
    };
    let stage = Rc::new(Stage::default());
    let theirs = stage.clone();
    let outcome = run(
        &settings,
        Box::new(HeldBack {
            stage: stage.clone(),
            steps: 0,
            ran: BTreeMap::new(),
        }),
        Box::new(move |context: Context<true>| {
            format(&context, parameters, 32).unwrap();
            let member = Member::join(&context, false).unwrap();
            let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
            drop(Mutex::open_or_create(worker, "mutex").unwrap());
            member.leave(&context);
        }),
        Rc::new(move |context: Context<true>| play(&context, &theirs)),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
    assert!(stage.front.is_due.get() && stage.end.is_due.get());
    stage.state.get().unwrap()
}

#[test]
fn a_waiter_that_gives_up_takes_those_off_that_left_in_front() {
    assert_eq!(left(), SlotState::Rest);
    choose(Some(Mutant::LeftInFrontKept));
    let state = left();
    choose(None);
    assert_eq!(state, SlotState::Left, "the fault is not seen");
}
