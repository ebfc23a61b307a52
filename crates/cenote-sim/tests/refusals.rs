//! Schedules in which a thread with a short timeout asks for what a dead thread has, and must not be refused.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::commit::recovery::recover_dead;
use cenote::pod::format::lock_slots::{Slot, SlotState, Turn};
use cenote::pod::names::directory;
use cenote::sync::{Mutex, Semaphore, Timeout};
use cenote_sim::exec::{Context, Ended, Kind, SimMemory};
use cenote_sim::policy::Candidate;
use cenote_sim::subjects::pool::Member;

use crate::directed::{Play, Stage, until, with_worker};

/// Where the word of a mutex lies, and the first permit of a semaphore.
const WORD_AT: u64 = 64;
const PERMIT_AT: u64 = 4 * 64;
/// Frequent polls of a waiter that nobody wakes. They come before its first sleep.
const SPINS: u32 = 64;

type Memory = SimMemory<true>;

#[derive(Clone, Copy, PartialEq)]
enum LockKind {
    Mutex,
    Semaphore,
}

/// What the threads know of each other.
#[derive(Default)]
struct Asking {
    /// The word that decides.
    word: Cell<u64>,
    is_had: Cell<bool>,
    /// The thread that is held back before it exchanges the word, until recovery is over.
    tryer: Cell<Option<u32>>,
    is_held_back: Cell<bool>,
    is_recovered: Cell<bool>,
    /// The turn of the waiter.
    turn: Cell<Option<u64>>,
    is_granted: Cell<Option<bool>>,
}

impl Stage for Asking {
    fn look(&self, candidates: &[Candidate]) {
        let is_held_back = candidates.iter().any(|of| self.waits(of));
        self.is_held_back.set(self.is_held_back.get() || is_held_back);
    }

    fn waits(&self, of: &Candidate) -> bool {
        Some(of.thread) == self.tryer.get()
            && of.op.kind == Kind::CompareExchange
            && of.op.at == self.word.get()
            && !self.is_recovered.get()
    }
}

fn open(worker: &Rc<Worker<Memory>>) -> (Mutex<Memory>, Semaphore<Memory>) {
    let mutex = Mutex::open(worker.clone(), "mutex").unwrap();
    (mutex, Semaphore::open(worker.clone(), "semaphore").unwrap())
}

/// Takes it, and dies: at once, or soon after the other one has joined the queue.
fn die(context: &Context<true>, stage: &Asking, form: LockKind, timeout: Timeout) {
    let member = Member::join(context, false).unwrap();
    let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
    let (mutex, semaphore) = open(&worker);
    let _guard = mutex.lock().unwrap();
    let _permit = semaphore.acquire().unwrap();
    let offset = |name| directory::find(&*worker, name).unwrap().unwrap().offset;
    stage.word.set(match form {
        LockKind::Mutex => offset("mutex") + WORD_AT,
        LockKind::Semaphore => offset("semaphore") + PERMIT_AT,
    });
    stage.is_had.set(true);
    if timeout != Timeout::None {
        until(context, || {
            let turn = stage.turn.get().map(|at| Turn(context.peek(at)));
            turn.is_some_and(|turn| turn.state() == SlotState::Queued)
        });
        for _ in 0..12 {
            context.wait();
        }
    }
    context.die_next();
    context.wait();
}

/// Asks for it.
fn ask(context: &Context<true>, stage: &Asking, form: LockKind, timeout: Timeout) {
    with_worker(context, |worker| {
        let (mutex, semaphore) = open(worker);
        until(context, || stage.is_had.get());
        if timeout == Timeout::None {
            until(context, || !context.is_alive(1));
            stage.tryer.set(Some(context.thread()));
        }
        let slot = Slot::new(worker.geometry(), u32::from(worker.me()) - 1, 0);
        stage.turn.set(Some(slot.turn().offset()));
        let is_granted = match form {
            LockKind::Mutex => mutex.lock_with(timeout).unwrap().is_some(),
            LockKind::Semaphore => semaphore.acquire_with(timeout).unwrap().is_some(),
        };
        stage.is_granted.set(Some(is_granted));
    });
}

/// Recovers the dead, once the thread that asks has been held back.
fn recover(context: &Context<true>, stage: &Asking, timeout: Timeout) {
    if timeout != Timeout::None {
        return;
    }
    until(context, || stage.is_held_back.get());
    with_worker(context, |worker| {
        recover_dead(&**worker).unwrap();
        stage.is_recovered.set(true);
    });
}

/// Whether one of this timeout is granted what the dead one had.
fn is_granted(form: LockKind, timeout: Timeout) -> bool {
    let stage = Rc::new(Asking::default());
    let ended = Play::of_processes(3).run(
        &stage,
        |worker| {
            drop(Mutex::open_or_create(worker.clone(), "mutex").unwrap());
            drop(Semaphore::open_or_create(worker.clone(), "semaphore", 1).unwrap());
        },
        move |context: &Context<true>, stage| match context.process() {
            1 => die(context, stage, form, timeout),
            2 => ask(context, stage, form, timeout),
            _ => recover(context, stage, timeout),
        },
    );
    assert_eq!(ended, Ended::Well);
    stage.is_granted.get().unwrap()
}

#[test]
fn who_tries_beside_recovery_is_not_refused() {
    for form in [LockKind::Mutex, LockKind::Semaphore] {
        choose(None);
        assert!(is_granted(form, Timeout::None));
        choose(Some(Mutant::RecoveryTakenForRival));
        assert!(!is_granted(form, Timeout::None));
        choose(None);
    }
}

#[test]
fn the_first_waiter_asks_before_it_gives_up() {
    for form in [LockKind::Mutex, LockKind::Semaphore] {
        let timeout = |polls| Timeout::Polls(SPINS + polls);
        choose(None);
        assert!((6..=76).step_by(10).all(|polls| is_granted(form, timeout(polls))));
        choose(Some(Mutant::GivenUpUnasked));
        assert!(
            (6..=56)
                .step_by(10)
                .any(|polls| !is_granted(form, timeout(polls)))
        );
        choose(None);
    }
}
