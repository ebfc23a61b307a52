//! Recovery takes a dead waiter off the end of a mutex's queue, and makes the living waiter in front the end, which
//! gives up meanwhile and relies on those behind it. In this schedule, which draws hardly ever find, the recoverer is
//! held back right before that exchange until the waiter has given up.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::commit::recovery::recover_dead;
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
/// The host that dies, with a process of its own.
const DEAD: u32 = 1;

/// What the threads know of each other.
#[derive(Default)]
struct Leaving {
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

impl Leaving {
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

impl Stage for Leaving {
    fn look(&self, candidates: &[Candidate]) {
        let is_due = candidates.iter().any(|of| self.exchanges_end(of));
        self.is_due.set(self.is_due.get() || is_due);
    }

    fn waits(&self, of: &Candidate) -> bool {
        let leaves = self.changes_turn(of) && self.changed.get() == 1;
        leaves && !self.is_due.get() || self.exchanges_end(of) && !self.has_given_up.get()
    }

    fn note(&self, of: &Candidate) {
        if self.changes_turn(of) {
            self.changed.set(self.changed.get() + 1);
        }
    }
}

fn play(context: &Context<true>, stage: &Leaving, worker: &Rc<Worker<SimMemory<true>>>) {
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
            let end = directory::find(&**worker, "mutex").unwrap().unwrap().offset + END_AT;
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
            assert_eq!(recover_dead(&**worker).unwrap().failed, 0);
            let (_, turn) = stage.waiter.get().unwrap();
            stage.state.set(Some(Turn(context.peek(turn)).state()));
        }
    }
}

/// The state of the slot of the waiter in front, once the one behind it is recovered.
fn left() -> SlotState {
    let stage = Rc::new(Leaving::default());
    let ended = Play::on_hosts(vec![0, 0, 0, DEAD]).run(
        &stage,
        |worker| drop(Mutex::open_or_create(worker.clone(), "mutex").unwrap()),
        |context: &Context<true>, stage| with_worker(context, |worker| play(context, stage, worker)),
    );
    assert_eq!(ended, Ended::Well);
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
