//! Recovery looks for a dead worker's new object in the retired lists of all others. In this schedule, which no draw
//! finds, the list that has it is moved meanwhile: from a place that the recoverer has yet to look at to one that it
//! has passed.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::hash::HashMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::commit::recovery::{Recovered, recover_dead};
use cenote::pod::instance::limits::Limits;
use cenote::pod::reclaim::collect::collect_now;
use cenote_sim::exec::{Context, Ended, Kind, SimMemory};
use cenote_sim::policy::Candidate;
use cenote_sim::subjects::pool::Member;

use crate::directed::{Play, Stage, until, with_worker};

type Memory = SimMemory<true>;

const KEY: u64 = 7;

/// What the threads know of each other.
#[derive(Default)]
struct Lists {
    /// The thread that puts first, and its operation's word.
    putter: Cell<Option<(u32, u64)>>,
    /// How often it has written that word.
    written: Cell<u32>,
    has_put: Cell<bool>,
    taker: Cell<Option<u16>>,
    /// The place of the worker that replaces what was put, and where the head of its list lies.
    replacer: Cell<Option<(u16, u64)>>,
    is_replaced: Cell<bool>,
    has_looked: Cell<bool>,
    recoverer: Cell<Option<u32>>,
    is_held_back: Cell<bool>,
    is_moved: Cell<bool>,
    recovered: Cell<Option<Recovered>>,
}

impl Lists {
    /// Whether the first putter is about to write its operation's word.
    fn writes(&self, of: &Candidate) -> bool {
        self.putter.get() == Some((of.thread, of.op.at)) && of.op.kind == Kind::OwnedStore
    }

    /// Whether it has put, and is about to write that down.
    fn has_put(&self, of: &Candidate) -> bool {
        self.writes(of) && self.written.get() == 1
    }

    /// Whether the recoverer is about to read the replacer's list, which is not moved yet.
    fn looks(&self, of: &Candidate) -> bool {
        let reads = |(_, head)| head == of.op.at;
        let reads = Some(of.thread) == self.recoverer.get() && self.replacer.get().is_some_and(reads);
        reads && !self.is_moved.get()
    }
}

impl Stage for Lists {
    fn look(&self, candidates: &[Candidate]) {
        let has_put = candidates.iter().any(|of| self.has_put(of));
        let looks = candidates.iter().any(|of| self.looks(of));
        self.has_put.set(self.has_put.get() || has_put);
        self.is_held_back.set(self.is_held_back.get() || looks);
    }

    fn waits(&self, of: &Candidate) -> bool {
        self.has_put(of) || self.looks(of)
    }

    fn note(&self, of: &Candidate) {
        if self.writes(of) {
            self.written.set(self.written.get() + 1);
        }
    }
}

fn put(worker: &Rc<Worker<Memory>>, key: u64, value: u64) {
    let map = HashMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap();
    map.put_u64(key, value).unwrap();
}

/// Takes over the lists of idle workers that it has seen before: those of a lower place than the replacer's.
fn take(context: &Context<true>, stage: &Lists) {
    with_worker(context, |worker| {
        stage.taker.set(Some(worker.me()));
        until(context, || stage.is_replaced.get());
        collect_now(worker).unwrap();
        stage.has_looked.set(true);
        until(context, || stage.is_held_back.get());
        collect_now(worker).unwrap();
        let (_, head) = stage.replacer.get().unwrap();
        stage.is_moved.set(context.peek(head) == 0);
        assert!(stage.is_moved.get());
        until(context, || stage.recovered.get().is_some());
    });
}

/// Puts, and dies before that is written down.
fn die(context: &Context<true>, stage: &Rc<Lists>) {
    until(context, || stage.taker.get().is_some());
    let member = Member::join(context, false).unwrap();
    let theirs = stage.clone();
    member.spawn(context, move |context, pod| {
        let worker = Rc::new(Worker::attach(&pod, true).unwrap());
        let operation = worker.record().operation().offset();
        // The first write brings the record into order, and so writes that word too.
        put(&worker, KEY + 1, 0);
        theirs.putter.set(Some((context.thread(), operation)));
        put(&worker, KEY, 1);
    });
    until(context, || stage.has_looked.get());
    context.die_next();
    context.wait();
}

/// Replaces what the other has put, and has it in its list.
fn replace(context: &Context<true>, stage: &Lists) {
    until(context, || stage.taker.get().is_some());
    with_worker(context, |worker| {
        let head = worker.record().head().offset();
        stage.replacer.set(Some((worker.me(), head)));
        until(context, || stage.has_put.get());
        put(worker, KEY, 2);
        stage.is_replaced.set(true);
        until(context, || stage.recovered.get().is_some());
    });
}

fn recover(context: &Context<true>, stage: &Lists) {
    until(context, || stage.taker.get().is_some());
    with_worker(context, |worker| {
        until(context, || !context.is_alive(2));
        stage.recoverer.set(Some(context.thread()));
        stage.recovered.set(Some(recover_dead(&**worker).unwrap()));
    });
}

/// What the recoverer has done.
fn recovered() -> Recovered {
    let stage = Rc::new(Lists::default());
    let play = Play {
        frames: (64, 64),
        // Each scan of the own list comes with one of the lists of others.
        limits: Some(Limits {
            maintain_every: 1,
            ..Limits::usual::<Memory>()
        }),
        ..Play::of_processes(4)
    };
    let ended = play.run(
        &stage,
        |worker| put(worker, KEY, 0),
        |context: &Context<true>, stage| match context.process() {
            1 => take(context, stage),
            2 => die(context, stage),
            3 => replace(context, stage),
            _ => recover(context, stage),
        },
    );
    assert_eq!(ended, Ended::Well);
    assert!(stage.is_held_back.get());
    assert!(stage.taker.get() < stage.replacer.get().map(|(place, _)| place));
    stage.recovered.get().unwrap()
}

#[test]
fn a_list_that_is_moved_while_recovery_looks_is_not_missed() {
    let outcome = |recovered: Recovered| (recovered.finished, recovered.undone);
    assert_eq!(outcome(recovered()), (1, 0));
    choose(Some(Mutant::MoveNotCounted));
    let found = outcome(recovered());
    choose(None);
    assert_eq!(found, (0, 1), "the fault is not seen");
}
