//! A thread views an object that another one deletes meanwhile, and whose memory is used again once that is possible.
//! The viewer is held back before a step, before each in turn, until the object is deleted. Few draws stop it for so
//! long at the only step that matters: between the check that the object is there and the slot that holds it.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::index::objects::{NewObject, ObjectSettings, ObjectStore};
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::reclaim::collect::collect_all;
use cenote::{Error, Guidelines};
use cenote_sim::exec::{Context, Ended, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

type Store = ObjectStore<SimMemory<true>>;

/// Bytes of an object.
const SIZE: usize = 200;
/// Objects that are made where the deleted one was.
const OTHERS: u64 = 8;
/// Steps of all others for which the viewer is stopped, at most.
const STOP: u64 = 6_000;

/// What the threads know of each other.
#[derive(Default)]
struct Stage {
    /// Whether both have the store open.
    is_ready: Cell<bool>,
    /// The thread that views, its steps since it began to, and before which of them it is held back.
    viewer: Cell<Option<u32>>,
    steps: Cell<u64>,
    stop_at: u64,
    is_stopped: Cell<bool>,
    /// Steps of all since then.
    since: Cell<u64>,
    is_deleted: Cell<bool>,
    has_view: Cell<bool>,
    is_reused: Cell<bool>,
    /// What was viewed in the end.
    seen: RefCell<Option<Vec<u8>>>,
}

/// Runs all threads in turn, except the one that is held back.
struct HeldBack {
    stage: Rc<Stage>,
    step: u64,
    ran: BTreeMap<u32, u64>,
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = &self.stage;
        let is_viewer = |of: &Candidate| Some(of.thread) == stage.viewer.get();
        let waits = |of: &Candidate| {
            let is_over = stage.is_deleted.get() || stage.since.get() >= STOP;
            is_viewer(of) && stage.is_stopped.get() && !is_over
        };
        let chosen = (0..candidates.len())
            .filter(|&n| !waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        if is_viewer(&candidates[chosen]) && !stage.has_view.get() {
            stage.steps.set(stage.steps.get() + 1);
            let is_stopped = stage.is_stopped.get() || stage.steps.get() == stage.stop_at;
            stage.is_stopped.set(is_stopped);
        }
        stage
            .since
            .set(stage.since.get() + u64::from(stage.is_stopped.get()));
        self.step += 1;
        self.ran.insert(candidates[chosen].thread, self.step);
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "the viewer is held back".to_owned()
    }
}

fn until(context: &Context<true>, is_so: impl Fn() -> bool) {
    while !is_so() {
        context.wait();
    }
}

fn open(member: &Member<true>) -> (Rc<Worker<SimMemory<true>>>, Store) {
    let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
    let settings = ObjectSettings::default();
    let store = Store::open_or_create(worker.clone(), "store", &settings, Guidelines::P3).unwrap();
    (worker, store)
}

fn make(store: &Store, id: u64, byte: u8) -> Result<(), Error> {
    let id = id.to_le_bytes();
    let object = store.make(&id, SIZE as u64, &NewObject::default())?.unwrap();
    store.fill(&object, 0, &[byte; SIZE]);
    store.seal(object).map(drop)
}

fn view(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    {
        let (worker, store) = open(&member);
        // It has slots now.
        let viewed = store.view(&1_u64.to_le_bytes()).unwrap().unwrap();
        store.end_view(viewed);
        stage.is_ready.set(true);
        stage.viewer.set(Some(context.thread()));
        let viewed = store.view(&0_u64.to_le_bytes()).unwrap();
        stage.has_view.set(true);
        until(context, || stage.is_reused.get());
        stage
            .seen
            .replace(viewed.map(|viewed| viewed.copied(worker.mem())));
        viewed.into_iter().for_each(|viewed| store.end_view(viewed));
    }
    member.leave(context);
}

fn delete(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    {
        let (worker, store) = open(&member);
        until(context, || stage.is_ready.get());
        until(context, || stage.is_stopped.get() || stage.has_view.get());
        assert!(store.delete(&0_u64.to_le_bytes()).unwrap());
        stage.is_deleted.set(true);
        until(context, || stage.has_view.get());
        collect_all(&worker).unwrap();
        (2..2 + OTHERS).for_each(|id| make(&store, id, 2).unwrap());
        stage.is_reused.set(true);
    }
    member.leave(context);
}

/// What the viewer sees at last, if it is held back before a step; and whether it was.
fn seen(stop_at: u64) -> (Result<Option<Vec<u8>>, String>, bool) {
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
        processes: vec![0; 2],
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
        stop_at,
        ..Stage::default()
    });
    let theirs = stage.clone();
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
            let (worker, store) = open(&member);
            (0..2).for_each(|id| make(&store, id, 1).unwrap());
            drop((store, worker));
            member.leave(&context);
        }),
        Rc::new(move |context: Context<true>| match context.process() {
            1 => view(&context, &theirs),
            _ => delete(&context, &theirs),
        }),
        Box::new(|_| {}),
    );
    let seen = match outcome.ended {
        Ended::Well => Ok(stage.seen.take()),
        ended => Err(format!("{ended:?}")),
    };
    (seen, stage.is_stopped.get())
}

/// The first step before which a stop has the viewer see something else than what it views, or nothing.
fn first_wrong() -> Option<(u64, String)> {
    for stop_at in 1.. {
        let (seen, is_stopped) = seen(stop_at);
        let is_right = |seen: &Option<Vec<u8>>| seen.as_ref().is_none_or(|seen| *seen == [1; SIZE]);
        if !seen.as_ref().is_ok_and(is_right) {
            return Some((stop_at, format!("{seen:?}")));
        }
        if !is_stopped {
            break;
        }
    }
    None
}

#[test]
fn a_view_holds_an_object_before_it_checks_that_it_is_there() {
    choose(None);
    assert_eq!(first_wrong(), None);
    choose(Some(Mutant::HeldLate));
    let wrong = first_wrong();
    choose(None);
    assert!(wrong.is_some(), "the fault is not seen");
}
