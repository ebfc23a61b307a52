//! A process dies in the middle of making a map, or of dropping one, and others drop it, or make another one in its
//! place, before what it had begun is recovered. In these schedules, which draws hardly ever find, the process is held
//! back right behind the exchange of the directory's entry, and then switched off.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::index::dropping::{drop_named, finish_dropped};
use cenote::index::ordered::OrderedMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::commit::recovery::recover_dead;
use cenote::pod::reclaim::collect::collect_all;
use cenote::pod::tasks::{Plan, TaskList};
use cenote::pod::{Pod, Worker};
use cenote::{Error, Guidelines};
use cenote_sim::exec::{Context, Ended, Kind, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

type Memory = SimMemory<true>;

/// As many as need an extent.
const TASKS: u64 = 4_500;
/// Steps of all others for which the recoverer is stopped, at most: it may hold a lock.
const STOP: u64 = 6_000;

/// In the middle of what the first process dies.
#[derive(Clone, Copy, PartialEq)]
enum Dies {
    /// Making the map: once the entry names it.
    Making,
    /// Dropping it: once the entry is gone.
    Dropping,
}

/// What the threads know of each other.
struct Stage {
    dies: Dies,
    /// The directory's first entry.
    entry: Cell<u64>,
    /// The thread that is to die, and how often it has exchanged the entry.
    first: Cell<Option<u32>>,
    exchanged: Cell<u32>,
    is_held: Cell<bool>,
    is_dead: Cell<bool>,
    /// The thread that recovers it, its steps since, and before which of them it is held back.
    recoverer: Cell<Option<u32>>,
    steps: Cell<u64>,
    stop_at: u64,
    is_stopped: Cell<bool>,
    /// Steps of all since then.
    since: Cell<u64>,
    /// The map was dropped, as far as it could be, and another one was made.
    is_replaced: Cell<bool>,
    has_recovered: Cell<bool>,
    /// What is wrong in the end.
    wrong: RefCell<Option<String>>,
}

impl Stage {
    /// Exchanges of the entry by the process that dies: to the map; or to dropped, and to gone.
    fn exchanges(&self) -> u32 {
        match self.dies {
            Dies::Making => 1,
            Dies::Dropping => 2,
        }
    }
}

/// Runs all threads in turn, except those that are held back.
struct HeldBack {
    stage: Rc<Stage>,
    step: u64,
    ran: BTreeMap<u32, u64>,
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = &self.stage;
        let is_first = |of: &Candidate| Some(of.thread) == stage.first.get();
        let is_recoverer = |of: &Candidate| Some(of.thread) == stage.recoverer.get();
        let waits = |of: &Candidate| {
            let is_stopped = stage.is_stopped.get() && stage.since.get() < STOP && !stage.is_replaced.get();
            is_first(of) && stage.is_held.get() || is_recoverer(of) && is_stopped
        };
        let chosen = (0..candidates.len())
            .filter(|&n| !waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        let of = &candidates[chosen];
        if is_first(of) && of.op.kind == Kind::CompareExchange && of.op.at == stage.entry.get() {
            stage.exchanged.set(stage.exchanged.get() + 1);
            stage.is_held.set(stage.exchanged.get() == stage.exchanges());
        }
        if is_recoverer(of) {
            stage.steps.set(stage.steps.get() + 1);
            stage
                .is_stopped
                .set(stage.is_stopped.get() || stage.steps.get() == stage.stop_at);
        }
        stage
            .since
            .set(stage.since.get() + u64::from(stage.is_stopped.get()));
        self.step += 1;
        self.ran.insert(of.thread, self.step);
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "one dies behind an exchange".to_owned()
    }
}

fn until(context: &Context<true>, is_so: impl Fn() -> bool) {
    while !is_so() {
        context.wait();
    }
}

fn worker(pod: &std::sync::Arc<Pod<Memory>>) -> Rc<Worker<Memory>> {
    Rc::new(Worker::attach(pod, true).unwrap())
}

/// A task list whose header is an extent.
fn make(worker: &Rc<Worker<Memory>>, name: &str) -> Result<(), Error> {
    TaskList::open_or_create(worker.clone(), name, &Plan::single(TASKS)).map(drop)
}

/// The one that dies.
fn first(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let worker = worker(&member.pod);
    stage.first.set(Some(context.thread()));
    match stage.dies {
        Dies::Making => make(&worker, "list").unwrap(),
        Dies::Dropping => drop(drop_named(&worker, "list")),
    }
    panic!("it was not held back");
}

/// Recovers the dead, if they die in the middle of making a map.
fn recover(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    {
        let worker = worker(&member.pod);
        until(context, || stage.is_dead.get());
        stage.recoverer.set(Some(context.thread()));
        if stage.dies == Dies::Making {
            let _ = recover_dead(&*worker).unwrap();
        }
        stage.has_recovered.set(true);
        until(context, || stage.is_replaced.get());
    }
    member.leave(context);
}

/// Switches the first one off, drops what it was at, and makes another map. In the end it accounts for every byte.
fn replace(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let found = {
        let worker = worker(&member.pod);
        until(context, || stage.is_held.get());
        context.power_off(1, false);
        stage.is_dead.set(true);
        until(context, || stage.is_stopped.get() || stage.has_recovered.get());
        let found = replaced(context, stage, &worker);
        stage.is_replaced.set(true);
        found
    };
    if let Err(error) = found {
        stage.wrong.replace(Some(error.to_string()));
    }
    member.leave(context);
}

fn replaced(context: &Context<true>, stage: &Stage, worker: &Rc<Worker<Memory>>) -> Result<(), Error> {
    match stage.dies {
        Dies::Making => drop(drop_named(worker, "list")?),
        Dies::Dropping => drop(finish_dropped(worker)?),
    }
    collect_all(worker)?;
    // It has the entry, so that this says something else by now; the other list has the memory.
    OrderedMap::open_or_create(worker.clone(), "map", Guidelines::P3)?.put(b"key", b"value")?;
    make(worker, "another")?;
    stage.is_replaced.set(true);
    until(context, || stage.has_recovered.get());
    let recovered = recover_dead(&**worker)?;
    finish_dropped(worker)?;
    collect_all(worker)?;
    let report = cenote::store::audit(worker, true, false)?;
    if recovered.failed > 0 || !report.problems.is_empty() || !report.leaked.is_empty() {
        let problems = &report.problems;
        let wrong = format!("{recovered:?}, {problems:?}, unreachable {:?}", report.leaked);
        stage.wrong.replace(Some(wrong));
    }
    let _ = drop_named(worker, "another")?;
    Ok(())
}

/// What goes wrong if the recoverer is stopped before a step; and whether it was.
fn play(dies: Dies, stop_at: u64) -> (Option<String>, bool) {
    let parameters = parameters(true, 32);
    let settings = Settings {
        shape: Shape {
            coherent: true,
            hosts: 3,
            bytes: bytes(parameters),
            cache_lines: Capacity::ALL,
            prefetches: false,
            has_membarrier: true,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: vec![0, 1, 2],
        crashes: Vec::new(),
        steps_max: 10_000_000,
        capacity: u64::MAX,
        profile: None,
        checks_order: true,
        traces: false,
        delegated: None,
        limits: None,
    };
    let stage = Rc::new(Stage {
        dies,
        entry: Cell::default(),
        first: Cell::default(),
        exchanged: Cell::default(),
        is_held: Cell::default(),
        is_dead: Cell::default(),
        recoverer: Cell::default(),
        steps: Cell::default(),
        stop_at,
        is_stopped: Cell::default(),
        since: Cell::default(),
        is_replaced: Cell::default(),
        has_recovered: Cell::default(),
        wrong: RefCell::default(),
    });
    let (before, theirs) = (stage.clone(), stage.clone());
    let outcome = run::<true>(
        &settings,
        Box::new(HeldBack {
            stage: stage.clone(),
            step: 0,
            ran: BTreeMap::new(),
        }),
        Box::new(move |context| {
            format(&context, parameters, 32).unwrap();
            let member = Member::join(&context, false).unwrap();
            {
                let worker = worker(&member.pod);
                before.entry.set(worker.geometry().entry(0));
                if dies == Dies::Dropping {
                    make(&worker, "list").unwrap();
                }
            }
            member.leave(&context);
        }),
        Rc::new(move |context: Context<true>| match context.host() {
            0 => replace(&context, &theirs),
            1 => first(&context, &theirs),
            _ => recover(&context, &theirs),
        }),
        Box::new(|_| {}),
    );
    let wrong = match outcome.ended {
        Ended::Well => stage.wrong.take(),
        ended => Some(format!("{ended:?}")),
    };
    (wrong, stage.is_stopped.get())
}

/// The first step before which a stop of the recoverer has something go wrong, and what.
fn first_wrong(dies: Dies) -> Option<(u64, String)> {
    let mut stop_at = 0;
    loop {
        stop_at += 1;
        match play(dies, stop_at) {
            (Some(wrong), _) => return Some((stop_at, wrong)),
            (None, true) => {}
            (None, false) => return None,
        }
    }
}

#[test]
fn a_map_is_taken_apart_once_its_maker_is_recovered() {
    assert_eq!(first_wrong(Dies::Making), None);
    choose(Some(Mutant::CreatedUnpinned));
    let wrong = first_wrong(Dies::Making);
    choose(None);
    assert!(wrong.is_some(), "the fault is not seen");
}

#[test]
fn a_claim_is_taken_over_once_the_claimant_is_recovered() {
    assert_eq!(play(Dies::Dropping, u64::MAX).0, None);
    choose(Some(Mutant::DropDeadTrusted));
    let (wrong, _) = play(Dies::Dropping, u64::MAX);
    choose(None);
    assert!(wrong.is_some(), "the fault is not seen");
}
