//! Recovery looks for a dead worker's new object in the retired lists of all others. In this schedule, which no draw
//! finds, the list that has it is moved meanwhile: from a place that the recoverer has yet to look at to one that it
//! has passed.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::hash::HashMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::commit::recovery::{Recovered, recover_dead};
use cenote::pod::instance::limits::Limits;
use cenote::pod::reclaim::collect::collect_now;
use cenote_sim::exec::{Context, Ended, Kind, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

type Memory = SimMemory<true>;

const KEY: u64 = 7;

/// What the threads know of each other.
#[derive(Default)]
struct Stage {
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

/// Runs all threads in turn, except two: the first putter once it has put, before it writes that down; and the
/// recoverer before it reads the replacer's list, until that is moved.
struct HeldBack {
    stage: Rc<Stage>,
    steps: u64,
    ran: BTreeMap<u32, u64>,
}

impl HeldBack {
    /// Whether the first putter is about to write its operation's word.
    fn writes(&self, of: &Candidate) -> bool {
        self.stage.putter.get() == Some((of.thread, of.op.at)) && of.op.kind == Kind::OwnedStore
    }

    fn reads(&self, of: &Candidate) -> bool {
        let stage = &self.stage;
        Some(of.thread) == stage.recoverer.get()
            && stage.replacer.get().is_some_and(|(_, head)| head == of.op.at)
    }
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = self.stage.clone();
        let has_put = |of: &Candidate| self.writes(of) && stage.written.get() == 1;
        let looks = |of: &Candidate| self.reads(of) && !stage.is_moved.get();
        stage
            .has_put
            .set(stage.has_put.get() || candidates.iter().any(has_put));
        stage
            .is_held_back
            .set(stage.is_held_back.get() || candidates.iter().any(looks));
        let chosen = (0..candidates.len())
            .filter(|&n| !has_put(&candidates[n]) && !looks(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        if self.writes(&candidates[chosen]) {
            stage.written.set(stage.written.get() + 1);
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

fn worker(member: &Member<true>) -> Rc<Worker<Memory>> {
    Rc::new(Worker::attach(&member.pod, true).unwrap())
}

fn put(worker: &Rc<Worker<Memory>>, key: u64, value: u64) {
    let map = HashMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap();
    map.put_u64(key, value).unwrap();
}

/// Takes over the lists of idle workers that it has seen before: those of a lower place than the replacer's.
fn take(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    stage.taker.set(Some(worker.me()));
    until(context, || stage.is_replaced.get());
    collect_now(&worker).unwrap();
    stage.has_looked.set(true);
    until(context, || stage.is_held_back.get());
    collect_now(&worker).unwrap();
    let (_, head) = stage.replacer.get().unwrap();
    stage.is_moved.set(context.peek(head) == 0);
    assert!(stage.is_moved.get());
    until(context, || stage.recovered.get().is_some());
    drop(worker);
    member.leave(context);
}

/// Puts, and dies before that is written down.
fn die(context: &Context<true>, stage: &Rc<Stage>) {
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
fn replace(context: &Context<true>, stage: &Stage) {
    until(context, || stage.taker.get().is_some());
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    stage
        .replacer
        .set(Some((worker.me(), worker.record().head().offset())));
    until(context, || stage.has_put.get());
    put(&worker, KEY, 2);
    stage.is_replaced.set(true);
    until(context, || stage.recovered.get().is_some());
    drop(worker);
    member.leave(context);
}

fn recover(context: &Context<true>, stage: &Stage) {
    until(context, || stage.taker.get().is_some());
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member);
    until(context, || !context.is_alive(2));
    stage.recoverer.set(Some(context.thread()));
    stage.recovered.set(Some(recover_dead(&*worker).unwrap()));
    drop(worker);
    member.leave(context);
}

/// What the recoverer has done.
fn recovered() -> Recovered {
    let parameters = parameters(true, 64);
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
        steps_max: 1_000_000,
        capacity: u64::MAX,
        profile: None,
        checks_order: true,
        traces: false,
        delegated: None,
        // Each scan of the own list comes with one of the lists of others.
        limits: Some(Limits {
            maintain_every: 1,
            ..Limits::usual::<Memory>()
        }),
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
            format(&context, parameters, 64).unwrap();
            let member = Member::join(&context, false).unwrap();
            put(&worker(&member), KEY, 0);
            member.leave(&context);
        }),
        Rc::new(move |context: Context<true>| match context.process() {
            1 => take(&context, &theirs),
            2 => die(&context, &theirs),
            3 => replace(&context, &theirs),
            _ => recover(&context, &theirs),
        }),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
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
