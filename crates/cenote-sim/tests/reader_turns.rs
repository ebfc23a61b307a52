//! A writer of a reader-writer lock that finds a dead reader puts the reader's slot at rest by an exchange. In this
//! schedule, which no draw finds, the writer is held back right before that exchange, until the place has another
//! worker, which reads under another lock in the same slot. The new worker's hold must outlast the exchange.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::rc::Rc;

use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::format::lock_slots::Slot;
use cenote::sync::ReadWriteLock;
use cenote_sim::exec::{Context, Ended, Kind, SimMemory};
use cenote_sim::policy::Candidate;
use cenote_sim::subjects::pool::Member;

use crate::directed::{Play, Stage, until, with_worker};

type Lock = ReadWriteLock<SimMemory<true>>;

/// By what the threads wait for each other.
#[derive(Default)]
struct Readers {
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

impl Stage for Readers {
    fn look(&self, candidates: &[Candidate]) {
        let is_held_back = candidates.iter().any(|of| self.waits(of));
        self.is_held_back.set(self.is_held_back.get() || is_held_back);
    }

    fn waits(&self, of: &Candidate) -> bool {
        Some(of.thread) == self.writer.get()
            && of.op.kind == Kind::CompareExchange
            && of.op.at == self.slot.get()
            && !self.newcomer_reads.get()
    }
}

fn worker(member: &Member<true>) -> Rc<Worker<SimMemory<true>>> {
    Rc::new(Worker::attach(&member.pod, true).unwrap())
}

/// Writes under the first lock when its reader is dead.
fn write(context: &Context<true>, stage: &Readers) {
    with_worker(context, |worker| {
        let first = Lock::open(worker.clone(), "first").unwrap();
        until(context, || stage.slot.get() != 0 && !context.is_alive(2));
        stage.writer.set(Some(context.thread()));
        drop(first.write().unwrap());
        stage.writer_is_done.set(true);
        until(context, || stage.other_is_done.get());
    });
}

/// Reads under the first lock, and dies.
fn die(context: &Context<true>, stage: &Readers) {
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
fn come(context: &Context<true>, stage: &Readers) {
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
fn intrude(context: &Context<true>, stage: &Readers) {
    until(context, || {
        stage.newcomer_reads.get() && stage.writer_is_done.get()
    });
    with_worker(context, |worker| {
        let second = Lock::open(worker.clone(), "second").unwrap();
        stage.is_granted.set(Some(second.try_write().unwrap().is_some()));
        stage.other_is_done.set(true);
    });
}

/// Whether a writer was let in while the newcomer read.
fn is_granted() -> bool {
    let stage = Rc::new(Readers::default());
    let ended = Play::of_processes(4).run(
        &stage,
        |worker| {
            for name in ["first", "second"] {
                drop(Lock::open_or_create(worker.clone(), name).unwrap());
            }
        },
        |context: &Context<true>, stage| match context.process() {
            1 => write(context, stage),
            2 => die(context, stage),
            3 => come(context, stage),
            _ => intrude(context, stage),
        },
    );
    assert_eq!(ended, Ended::Well);
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
