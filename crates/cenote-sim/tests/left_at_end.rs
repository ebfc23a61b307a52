//! Recovery takes a dead waiter off the end of a mutex's queue, and makes the living waiter in front the end, which
//! gives up meanwhile and relies on those behind it. In this schedule, which draws hardly ever find, the recoverer is
//! held back right before that exchange until the waiter has given up.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::commit::recovery::recover_dead;
use cenote::pod::format::lock_slots::{Slot, SlotState, Turn};
use cenote::pod::names::directory;
use cenote::sync::{Mutex, Timeout};
use cenote_sim::exec::{Context, Ended, Kind, Settings, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

/// Where the end of a mutex's queue lies.
const END_AT: u64 = 3 * 64;
/// Polls of a waiter: as many as come before it joins. Had it more, it would sleep, and in the simulator no timeout
/// ends such a sleep.
const POLLS: u32 = 64;
/// The host that dies, with a process of its own.
const DEAD: u32 = 1;

/// What the threads know of each other.
#[derive(Default)]
struct Stage {
    /// The end of the queue.
    end: Cell<u64>,
    is_held: Cell<bool>,
    /// The waiter that gives up, and its turn, which it changes first when it joins.
    waiter: Cell<Option<(u32, u64)>>,
    changed: Cell<u32>,
    has_given_up: Cell<bool>,
    /// The thread that recovers, and whether it is about to exchange the end.
    recoverer: Cell<Option<u32>>,
    is_due: Cell<bool>,
    /// The state of the waiter's slot, once the dead one is recovered.
    state: Cell<Option<SlotState>>,
}

impl Stage {
    /// Whether the waiter is about to change its turn.
    fn changes_turn(&self, of: &Candidate) -> bool {
        let changes = matches!(of.op.kind, Kind::Store | Kind::StoreSeqCst);
        changes && self.waiter.get() == Some((of.thread, of.op.at))
    }

    /// Whether the recoverer is about to exchange the end.
    fn exchanges_end(&self, of: &Candidate) -> bool {
        let exchanges = of.op.kind == Kind::CompareExchange && of.op.at == self.end.get();
        exchanges && self.recoverer.get() == Some(of.thread)
    }
}

/// Runs all threads in turn, except those that are held back.
struct HeldBack {
    stage: Rc<Stage>,
    steps: u64,
    ran: BTreeMap<u32, u64>,
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = &self.stage;
        let is_due = candidates.iter().any(|of| stage.exchanges_end(of));
        stage.is_due.set(stage.is_due.get() || is_due);
        let waits = |of: &Candidate| {
            let leaves = stage.changes_turn(of) && stage.changed.get() == 1;
            leaves && !stage.is_due.get() || stage.exchanges_end(of) && !stage.has_given_up.get()
        };
        let chosen = (0..candidates.len())
            .filter(|&n| !waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        if stage.changes_turn(&candidates[chosen]) {
            stage.changed.set(stage.changed.get() + 1);
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

fn play(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
    let mutex = Mutex::open(worker.clone(), "mutex").unwrap();
    match context.process() {
        _ if context.host() == DEAD => {
            until(context, || {
                stage.is_held.get() && context.peek(stage.end.get()) != 0
            });
            drop(mutex.lock());
            panic!("it was not switched off");
        }
        1 => {
            let end = directory::find(&*worker, "mutex").unwrap().unwrap().offset + END_AT;
            stage.end.set(end);
            let guard = mutex.lock().unwrap();
            stage.is_held.set(true);
            until(context, || stage.state.get().is_some());
            drop(guard);
        }
        2 => {
            until(context, || stage.is_held.get());
            let slot = Slot::new(worker.geometry(), u32::from(worker.me()) - 1, 0);
            stage.waiter.set(Some((context.thread(), slot.turn().offset())));
            assert!(mutex.lock_with(Timeout::Polls(POLLS)).unwrap().is_none());
            stage.has_given_up.set(true);
        }
        _ => {
            until(context, || {
                stage.is_held.get() && context.peek(stage.end.get()) != 0
            });
            let first = context.peek(stage.end.get());
            until(context, || context.peek(stage.end.get()) != first);
            context.power_off(DEAD, false);
            stage.recoverer.set(Some(context.thread()));
            assert_eq!(recover_dead(&*worker).unwrap().failed, 0);
            let (_, turn) = stage.waiter.get().unwrap();
            stage.state.set(Some(Turn(context.peek(turn)).state()));
        }
    }
    drop((mutex, worker));
    member.leave(context);
}

/// The state of the slot of the waiter in front, once the one behind it is recovered.
fn left() -> SlotState {
    let parameters = parameters(true, 32);
    let settings = Settings {
        shape: Shape {
            coherent: true,
            hosts: 2,
            bytes: bytes(parameters),
            cache_lines: Capacity::ALL,
            prefetches: false,
            has_membarrier: true,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: vec![0, 0, 0, DEAD],
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
    assert!(stage.is_due.get());
    stage.state.get().unwrap()
}

#[test]
fn recovery_takes_a_waiter_off_the_end_that_has_left_meanwhile() {
    assert_eq!(left(), SlotState::Rest);
    choose(Some(Mutant::LeftAtEndKept));
    let state = left();
    choose(None);
    assert_eq!(state, SlotState::Left, "the fault is not seen");
}
