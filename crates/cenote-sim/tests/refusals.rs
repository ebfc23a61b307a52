//! Schedules in which a thread with a short timeout asks for what a dead thread has, and must not be refused.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::format::lock_slots::{Slot, SlotState, Turn};
use cenote::sync::{Mutex, Semaphore, Timeout};
use cenote_sim::exec::{Context, Ended, Kind, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

/// Where the word of a mutex lies, and the first permit of a semaphore.
const WORD_AT: u64 = 64;
const PERMIT_AT: u64 = 4 * 64;
/// Frequent polls of a waiter that nobody wakes. They come before its first sleep.
const SPINS: u32 = 64;

#[derive(Clone, Copy, PartialEq)]
enum LockKind {
    Mutex,
    Semaphore,
}

/// What the threads know of each other.
#[derive(Default)]
struct Stage {
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

/// Runs all threads in turn, except the one that is held back.
struct HeldBack {
    stage: Rc<Stage>,
    steps: u64,
    ran: BTreeMap<u32, u64>,
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = &self.stage;
        let waits = |of: &Candidate| {
            Some(of.thread) == stage.tryer.get()
                && of.op.kind == Kind::CompareExchange
                && of.op.at == stage.word.get()
                && !stage.is_recovered.get()
        };
        if candidates.iter().any(waits) {
            stage.is_held_back.set(true);
        }
        let chosen = (0..candidates.len())
            .filter(|&n| !waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        self.steps += 1;
        self.ran.insert(candidates[chosen].thread, self.steps);
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "one held back".to_owned()
    }
}

fn until(context: &Context<true>, is_so: impl Fn() -> bool) {
    while !is_so() {
        context.wait();
    }
}

fn worker(member: &Member<true>) -> Rc<Worker<SimMemory<true>>> {
    Rc::new(Worker::attach(&member.pod, true).unwrap())
}

/// Takes it, and dies: at once, or soon after the other one has joined the queue.
fn die(context: &Context<true>, stage: &Stage, form: LockKind, timeout: Timeout) {
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    let mutex = Mutex::open(worker.clone(), "mutex").unwrap();
    let semaphore = Semaphore::open(worker.clone(), "semaphore").unwrap();
    let _guard = mutex.lock().unwrap();
    let _permit = semaphore.acquire().unwrap();
    let offset = |name| {
        cenote::pod::names::directory::find(&*worker, name)
            .unwrap()
            .unwrap()
            .offset
    };
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
fn ask(context: &Context<true>, stage: &Stage, form: LockKind, timeout: Timeout) {
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    let mutex = Mutex::open(worker.clone(), "mutex").unwrap();
    let semaphore = Semaphore::open(worker.clone(), "semaphore").unwrap();
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
    drop((mutex, semaphore, worker));
    member.leave(context);
}

/// Recovers the dead, once the thread that asks has been held back.
fn recover(context: &Context<true>, stage: &Stage, timeout: Timeout) {
    if timeout != Timeout::None {
        return;
    }
    until(context, || stage.is_held_back.get());
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    cenote::pod::commit::recovery::recover_dead(&*worker).unwrap();
    stage.is_recovered.set(true);
    drop(worker);
    member.leave(context);
}

/// Whether one of this timeout is granted what the dead one had.
fn is_granted(form: LockKind, timeout: Timeout) -> bool {
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
        steps_max: 10_000_000,
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
            let worker = worker(&member);
            drop(Mutex::open_or_create(worker.clone(), "mutex").unwrap());
            drop(Semaphore::open_or_create(worker.clone(), "semaphore", 1).unwrap());
            drop(worker);
            member.leave(&context);
        }),
        Rc::new(move |context: Context<true>| match context.process() {
            1 => die(&context, &theirs, form, timeout),
            2 => ask(&context, &theirs, form, timeout),
            _ => recover(&context, &theirs, timeout),
        }),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
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
