//! A process dies in the middle of making a map, or of dropping one, and others drop it, or make another one in its
//! place, before what it had begun is recovered. In these schedules, which draws hardly ever find, the process is held
//! back right behind the exchange of the directory's entry, and then switched off.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::index::dropping::{drop_named, finish_dropped};
use cenote::index::ordered::OrderedMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::commit::recovery::recover_dead;
use cenote::pod::reclaim::collect::collect_all;
use cenote::pod::tasks::{Plan, TaskList};
use cenote::{Error, Guidelines};
use cenote_sim::exec::{Context, Ended, Kind, SimMemory};
use cenote_sim::policy::Candidate;

use crate::directed::{Play, Stage, Stop, first_wrong, until, with_worker};

type Memory = SimMemory<true>;

/// As many as need an extent.
const TASKS: u64 = 4_500;
/// In the middle of what the first process dies.
#[derive(Clone, Copy, Default, PartialEq)]
enum Dies {
    /// Making the map: once the entry names it.
    #[default]
    Making,
    /// Dropping it: once the entry is gone.
    Dropping,
}

/// What the threads know of each other.
#[derive(Default)]
struct Drops {
    dies: Dies,
    /// The directory's first entry.
    entry: Cell<u64>,
    /// The thread that is to die, and how often it has exchanged the entry.
    first: Cell<Option<u32>>,
    exchanged: Cell<u32>,
    is_held: Cell<bool>,
    is_dead: Cell<bool>,
    /// The thread that recovers it, and its stop.
    recoverer: Cell<Option<u32>>,
    stop: Stop,
    /// The map was dropped, as far as it could be, and another one was made.
    is_replaced: Cell<bool>,
    has_recovered: Cell<bool>,
    /// What is wrong in the end.
    wrong: RefCell<Option<String>>,
}

impl Drops {
    fn is_first(&self, of: &Candidate) -> bool {
        Some(of.thread) == self.first.get()
    }

    fn is_recoverer(&self, of: &Candidate) -> bool {
        Some(of.thread) == self.recoverer.get()
    }

    /// Exchanges of the entry by the process that dies: to the map; or to dropped, and to gone.
    fn exchanges(&self) -> u32 {
        match self.dies {
            Dies::Making => 1,
            Dies::Dropping => 2,
        }
    }
}

impl Stage for Drops {
    fn waits(&self, of: &Candidate) -> bool {
        self.is_first(of) && self.is_held.get()
            || self.is_recoverer(of) && self.stop.lasts(self.is_replaced.get())
    }

    fn note(&self, of: &Candidate) {
        let exchanges = of.op.kind == Kind::CompareExchange && of.op.at == self.entry.get();
        if self.is_first(of) && exchanges {
            self.exchanged.set(self.exchanged.get() + 1);
            self.is_held.set(self.exchanged.get() == self.exchanges());
        }
        self.stop.note(self.is_recoverer(of));
    }
}

/// A task list whose header is an extent.
fn make(worker: &Rc<Worker<Memory>>, name: &str) -> Result<(), Error> {
    TaskList::open_or_create(worker.clone(), name, &Plan::single(TASKS)).map(drop)
}

/// The one that dies.
fn first(context: &Context<true>, stage: &Drops) {
    with_worker(context, |worker| {
        stage.first.set(Some(context.thread()));
        match stage.dies {
            Dies::Making => make(worker, "list").unwrap(),
            Dies::Dropping => drop(drop_named(worker, "list")),
        }
        panic!("it was not held back");
    });
}

/// Recovers the dead, if they die in the middle of making a map.
fn recover(context: &Context<true>, stage: &Drops) {
    with_worker(context, |worker| {
        until(context, || stage.is_dead.get());
        stage.recoverer.set(Some(context.thread()));
        if stage.dies == Dies::Making {
            let _ = recover_dead(&**worker).unwrap();
        }
        stage.has_recovered.set(true);
        until(context, || stage.is_replaced.get());
    });
}

/// Switches the first one off, drops what it was at, and makes another map. In the end it accounts for every byte.
fn replace(context: &Context<true>, stage: &Drops) {
    with_worker(context, |worker| {
        until(context, || stage.is_held.get());
        context.power_off(1, false);
        stage.is_dead.set(true);
        until(context, || stage.stop.has_come() || stage.has_recovered.get());
        if let Err(error) = replaced(context, stage, worker) {
            stage.wrong.replace(Some(error.to_string()));
        }
        stage.is_replaced.set(true);
    });
}

fn replaced(context: &Context<true>, stage: &Drops, worker: &Rc<Worker<Memory>>) -> Result<(), Error> {
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
    let stage = Rc::new(Drops {
        dies,
        stop: Stop::before(stop_at, 6_000),
        ..Drops::default()
    });
    let before = stage.clone();
    let ended = Play::on_hosts(vec![0, 1, 2]).run(
        &stage,
        move |worker| {
            before.entry.set(worker.geometry().entry(0));
            if dies == Dies::Dropping {
                make(worker, "list").unwrap();
            }
        },
        |context: &Context<true>, stage| match context.host() {
            0 => replace(context, stage),
            1 => first(context, stage),
            _ => recover(context, stage),
        },
    );
    let wrong = match ended {
        Ended::Well => stage.wrong.take(),
        ended => Some(format!("{ended:?}")),
    };
    (wrong, stage.stop.has_come())
}

#[test]
fn a_map_is_taken_apart_once_its_maker_is_recovered() {
    assert_eq!(first_wrong(|stop_at| play(Dies::Making, stop_at)), None);
    choose(Some(Mutant::CreatedUnpinned));
    let wrong = first_wrong(|stop_at| play(Dies::Making, stop_at));
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
