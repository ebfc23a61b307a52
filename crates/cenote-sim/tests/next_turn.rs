//! A waiter of a queue lock has left, and recovery of another worker is about to put its slot at rest. Meanwhile the
//! waiter behind does so, and the slot's worker is about to join again. The recoverer is held back before a step,
//! before each in turn, until then. It must end no turn but the one that it saw: else a worker that joins behind owns
//! the lock at once, beside its owner. Draws hardly ever find such a schedule.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::commit::recovery::recover_dead;
use cenote::pod::format::lock_slots::{Slot, SlotState, Turn};
use cenote::pod::names::directory;
use cenote::sync::{QueueLock, Timeout};
use cenote_sim::exec::{Context, Ended, Kind, SimMemory};
use cenote_sim::policy::Candidate;

use crate::directed::{Play, Stage, Stop, first_wrong, until, with_worker};

/// Where the end of a queue lock's queue lies.
const END_AT: u64 = 64;
/// Polls of a waiter. Had it more, it would sleep, and in the simulator no timeout ends such a sleep.
const POLLS: u32 = 64;
/// What the threads know of each other.
#[derive(Default)]
struct Turns {
    /// The end of the queue.
    end: Cell<u64>,
    /// Whether the one that dies has used the lock.
    is_used: Cell<bool>,
    /// What the end is once the owner has the lock.
    owned: Cell<Option<u64>>,
    /// The waiter that leaves and joins again, its turn, and how often it has changed that.
    leaver: Cell<Option<(u32, u64)>>,
    changed: Cell<u32>,
    has_left: Cell<bool>,
    /// It joins again, is about to exchange the end for that, and has done so, or does not join again.
    rejoins: Cell<bool>,
    is_due: Cell<bool>,
    is_through: Cell<bool>,
    /// The thread that waits behind it, and whether it has joined.
    behind: Cell<Option<u32>>,
    is_behind: Cell<bool>,
    /// The thread that recovers, and its stop, before one of its steps since it has first seen the leaver's turn.
    recoverer: Cell<Option<u32>>,
    stop: Stop,
    has_recovered: Cell<bool>,
    /// Whether a newcomer got the lock beside its owner.
    is_granted: Cell<Option<bool>>,
}

impl Turns {
    fn exchanges_end(&self, of: &Candidate) -> bool {
        of.op.kind == Kind::CompareExchange && of.op.at == self.end.get()
    }

    /// Whether the leaver is about to change its turn.
    fn changes_turn(&self, of: &Candidate) -> bool {
        let changes = matches!(of.op.kind, Kind::Store | Kind::StoreSeqCst);
        changes && self.leaver.get() == Some((of.thread, of.op.at))
    }

    /// Whether the leaver is about to join again.
    fn joins_again(&self, of: &Candidate) -> bool {
        let is_leaver = self.leaver.get().is_some_and(|(thread, _)| thread == of.thread);
        is_leaver && self.rejoins.get() && self.exchanges_end(of)
    }

    fn is_waiter_behind(&self, of: &Candidate) -> bool {
        self.behind.get() == Some(of.thread)
    }

    fn is_recoverer(&self, of: &Candidate) -> bool {
        self.recoverer.get() == Some(of.thread)
    }
}

impl Stage for Turns {
    fn look(&self, candidates: &[Candidate]) {
        let is_due = candidates.iter().any(|of| self.joins_again(of));
        self.is_due.set(self.is_due.get() || is_due);
    }

    fn waits(&self, of: &Candidate) -> bool {
        let leaves = self.changes_turn(of) && self.changed.get() == 1;
        let is_freed = self.stop.has_come() || self.has_recovered.get();
        leaves && !self.is_behind.get()
            || self.joins_again(of) && !self.has_recovered.get()
            || self.is_waiter_behind(of) && self.is_behind.get() && !is_freed
            || self.is_recoverer(of) && self.stop.lasts(self.is_due.get())
    }

    fn note(&self, of: &Candidate) {
        if self.changes_turn(of) {
            self.changed.set(self.changed.get() + 1);
        }
        if self.joins_again(of) {
            self.is_through.set(true);
        }
        if self.is_waiter_behind(of) && self.exchanges_end(of) {
            self.is_behind.set(true);
        }
        let sees = self.leaver.get().is_some_and(|(_, turn)| turn == of.op.at);
        let counts = (sees || self.stop.has_begun()) && !self.has_recovered.get();
        self.stop.note(self.is_recoverer(of) && counts);
    }
}

fn play(context: &Context<true>, stage: &Turns, worker: &Rc<Worker<SimMemory<true>>>) {
    let lock = QueueLock::open(worker.clone(), "lock").unwrap();
    match context.process() {
        1 => {
            until(context, || stage.is_used.get());
            let guard = lock.lock().unwrap();
            stage.owned.set(Some(context.peek(stage.end.get())));
            until(context, || stage.is_granted.get().is_some());
            drop(guard);
        }
        2 => leave_and_return(context, stage, worker, &lock),
        3 => {
            until(context, || {
                let owned = stage.owned.get();
                owned.is_some_and(|owned| context.peek(stage.end.get()) != owned)
            });
            stage.behind.set(Some(context.thread()));
            drop(lock.lock().unwrap());
        }
        4 => {
            let end = directory::find(&**worker, "lock").unwrap().unwrap().offset + END_AT;
            stage.end.set(end);
            drop(lock.lock().unwrap());
            stage.is_used.set(true);
            context.die_next();
            context.wait();
        }
        5 => {
            until(context, || stage.has_left.get());
            until(context, || !context.is_alive(4));
            stage.recoverer.set(Some(context.thread()));
            assert_eq!(recover_dead(&**worker).unwrap().failed, 0);
            stage.has_recovered.set(true);
        }
        _ => {
            until(context, || stage.has_recovered.get() && stage.is_through.get());
            let guard = lock.lock_with(Timeout::Polls(POLLS)).unwrap();
            stage.is_granted.set(Some(guard.is_some()));
        }
    }
}

/// Waits, gives up, and joins again if its slot is at rest before the recoverer goes on.
fn leave_and_return(
    context: &Context<true>,
    stage: &Turns,
    worker: &Worker<SimMemory<true>>,
    lock: &QueueLock<SimMemory<true>>,
) {
    until(context, || stage.owned.get().is_some());
    let slot = Slot::new(worker.geometry(), u32::from(worker.me()) - 1, 0);
    let turn = slot.turn().offset();
    stage.leaver.set(Some((context.thread(), turn)));
    assert!(lock.lock_with(Timeout::Polls(POLLS)).unwrap().is_none());
    stage.has_left.set(true);
    let is_at_rest = || Turn(context.peek(turn)).state() == SlotState::Rest;
    until(context, || is_at_rest() || stage.has_recovered.get());
    match stage.has_recovered.get() {
        true => stage.is_through.set(true),
        false => {
            stage.rejoins.set(true);
            drop(lock.lock().unwrap());
        }
    }
}

/// Whether a newcomer gets the lock beside its owner if the recoverer is held back before a step; and whether it was.
fn is_granted(stop_at: u64) -> (Option<()>, bool) {
    let stage = Rc::new(Turns {
        stop: Stop::before(stop_at, 6_000),
        ..Turns::default()
    });
    let ended = Play::of_processes(6).run(
        &stage,
        |worker| drop(QueueLock::open_or_create(worker.clone(), "lock").unwrap()),
        |context: &Context<true>, stage| with_worker(context, |worker| play(context, stage, worker)),
    );
    assert_eq!(ended, Ended::Well);
    (
        stage.is_granted.get().unwrap().then_some(()),
        stage.stop.has_come(),
    )
}

#[test]
fn recovery_ends_no_turn_but_the_one_that_it_saw() {
    choose(None);
    assert_eq!(first_wrong(is_granted), None);
    choose(Some(Mutant::NextTurnRecovered));
    let wrong = first_wrong(is_granted);
    choose(None);
    assert!(wrong.is_some(), "the fault is not seen");
}
