//! Two waiters of a mutex give up at the same time: the one in front says so while the other, at the end of the queue,
//! has looked in front for the last time and is about to leave the end. Nobody is behind to go past the first. In this
//! schedule, which draws hardly ever find, each is held back right before that step, until the other is there.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::format::lock_slots::{Slot, SlotState, Turn};
use cenote::pod::names::directory;
use cenote::sync::{Mutex, Timeout};
use cenote_sim::exec::{Context, Ended, Kind, SimMemory};
use cenote_sim::policy::Candidate;

use crate::directed::{Play, Stage, until, with_worker};

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
struct Waiters {
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

impl Stage for Waiters {
    fn look(&self, candidates: &[Candidate]) {
        for step in [&self.front, &self.end] {
            let is_due = candidates.iter().any(|of| step.leaves(of));
            step.is_due.set(step.is_due.get() || is_due);
        }
    }

    fn waits(&self, of: &Candidate) -> bool {
        let Self { front, end, .. } = self;
        front.leaves(of) && !end.is_due.get() || end.leaves(of) && !self.front_is_done.get()
    }

    fn note(&self, of: &Candidate) {
        for step in [&self.front, &self.end] {
            if step.is(of) {
                step.changed.set(step.changed.get() + 1);
            }
        }
    }
}

fn turn(worker: &Worker<SimMemory<true>>) -> u64 {
    Slot::new(worker.geometry(), u32::from(worker.me()) - 1, 0)
        .turn()
        .offset()
}

fn play(context: &Context<true>, stage: &Waiters, worker: &Rc<Worker<SimMemory<true>>>) {
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
            stage.front.place.set(Some((context.thread(), turn(worker))));
            assert!(!lock());
            stage.front_is_done.set(true);
        }
        _ => {
            let end = directory::find(&**worker, "mutex").unwrap().unwrap().offset + END_AT;
            until(context, || context.peek(end) != 0);
            stage.end.place.set(Some((context.thread(), end)));
            assert!(!lock());
            stage.end_is_done.set(true);
        }
    }
}

/// The state of the slot of the waiter in front, once both have given up.
fn left() -> SlotState {
    let stage = Rc::new(Waiters::default());
    let ended = Play::of_processes(3).run(
        &stage,
        |worker| drop(Mutex::open_or_create(worker.clone(), "mutex").unwrap()),
        |context: &Context<true>, stage| with_worker(context, |worker| play(context, stage, worker)),
    );
    assert_eq!(ended, Ended::Well);
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
