//! A writer of a reader-writer lock that finds a dead reader puts the reader's slot at rest by an exchange. In this
//! schedule, which no draw finds, the writer is held back right before that exchange, until the place has another
//! worker, which reads under another lock in the same slot. The new worker's hold must outlast the exchange.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::format::lock_slots::Slot;
use cenote::sync::ReadWriteLock;
use cenote_sim::exec::{Context, Ended, Kind, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

type Lock = ReadWriteLock<SimMemory<true>>;

/// By what the threads wait for each other.
#[derive(Default)]
struct Stage {
    /// The turn of the dead reader's slot, once it reads.
    slot: Cell<u64>,
    /// The thread that writes under the first lock.
    writer: Cell<Option<u32>>,
    is_held_back: Cell<bool>,
    newcomer_reads: Cell<bool>,
    writer_is_done: Cell<bool>,
    other_is_done: Cell<bool>,
    /// Whether a thread may write under the second lock while the newcomer reads.
    is_granted: Cell<Option<bool>>,
}

/// Runs the thread that has not run for longest, except the writer before its exchange of the slot.
struct HeldBack {
    stage: Rc<Stage>,
    step: u64,
    /// When each thread ran last.
    ran: BTreeMap<u32, u64>,
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = &self.stage;
        let waits = |candidate: &Candidate| {
            Some(candidate.thread) == stage.writer.get()
                && candidate.op.kind == Kind::CompareExchange
                && candidate.op.at == stage.slot.get()
                && !stage.newcomer_reads.get()
        };
        if candidates.iter().any(waits) {
            stage.is_held_back.set(true);
        }
        let chosen = (0..candidates.len())
            .filter(|&n| !waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        self.step += 1;
        self.ran.insert(candidates[chosen].thread, self.step);
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

/// Writes under the first lock when its reader is dead.
fn write(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    let first = Lock::open(worker, "first").unwrap();
    until(context, || stage.slot.get() != 0 && !context.is_alive(2));
    stage.writer.set(Some(context.thread()));
    drop(first.write().unwrap());
    stage.writer_is_done.set(true);
    until(context, || stage.other_is_done.get());
    drop(first);
    member.leave(context);
}

/// Reads under the first lock, and dies.
fn die(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    let first = Lock::open(worker.clone(), "first").unwrap();
    let _guard = first.read().unwrap();
    let slot = Slot::new(worker.geometry(), u32::from(worker.me()) - 1, 0);
    stage.slot.set(slot.turn().offset());
    context.die_next();
    context.wait();
}

/// Has the dead one's place, and reads under the second lock.
fn come(context: &Context<true>, stage: &Stage) {
    until(context, || stage.is_held_back.get());
    let member = Member::join(context, false).unwrap();
    let mut others = Vec::new();
    let worker = loop {
        let worker = worker(&member);
        let slot = Slot::new(worker.geometry(), u32::from(worker.me()) - 1, 0);
        if slot.turn().offset() == stage.slot.get() {
            break worker;
        }
        others.push(worker);
    };
    let second = Lock::open(worker, "second").unwrap();
    let guard = second.read().unwrap();
    stage.newcomer_reads.set(true);
    until(context, || stage.other_is_done.get());
    drop(guard);
    drop((second, others));
    member.leave(context);
}

/// Tries to write under the second lock.
fn intrude(context: &Context<true>, stage: &Stage) {
    until(context, || {
        stage.newcomer_reads.get() && stage.writer_is_done.get()
    });
    let member = Member::join(context, false).unwrap();
    let second = Lock::open(worker(&member), "second").unwrap();
    stage.is_granted.set(Some(second.try_write().unwrap().is_some()));
    stage.other_is_done.set(true);
    drop(second);
    member.leave(context);
}

/// Whether a writer was let in while the newcomer read.
fn is_granted() -> bool {
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
        processes: vec![0; 4],
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
            step: 0,
            ran: BTreeMap::new(),
        }),
        Box::new(move |context: Context<true>| {
            format(&context, parameters, 32).unwrap();
            let member = Member::join(&context, false).unwrap();
            let worker = worker(&member);
            for name in ["first", "second"] {
                drop(Lock::open_or_create(worker.clone(), name).unwrap());
            }
            drop(worker);
            member.leave(&context);
        }),
        Rc::new(move |context: Context<true>| match context.process() {
            1 => write(&context, &theirs),
            2 => die(&context, &theirs),
            3 => come(&context, &theirs),
            _ => intrude(&context, &theirs),
        }),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
    assert!(stage.is_held_back.get());
    stage.is_granted.get().unwrap()
}

#[test]
fn a_late_exchange_ends_no_hold_of_the_next_in_the_place() {
    assert!(!is_granted());
    choose(Some(Mutant::ReadInOneTurn));
    let granted = is_granted();
    choose(None);
    assert!(granted, "the fault is not seen");
}
