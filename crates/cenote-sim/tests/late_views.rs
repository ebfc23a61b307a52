//! A thread views an object that another one deletes meanwhile, and whose memory is used again once that is possible.
//! The viewer is held back before a step, before each in turn, until the object is deleted. Few draws stop it for so
//! long at the only step that matters: between the check that the object is there and the slot that holds it.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::index::objects::{NewObject, ObjectSettings, ObjectStore};
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::reclaim::collect::collect_all;
use cenote::{Error, Guidelines};
use cenote_sim::exec::{Context, Ended, SimMemory};
use cenote_sim::policy::Candidate;

use crate::directed::{Play, Stage, Stop, first_wrong, until, with_worker};

type Store = ObjectStore<SimMemory<true>>;

/// Bytes of an object.
const SIZE: usize = 200;
/// Objects that are made where the deleted one was.
const OTHERS: u64 = 8;
/// What the threads know of each other.
#[derive(Default)]
struct Views {
    /// Whether both have the store open.
    is_ready: Cell<bool>,
    /// The thread that views.
    viewer: Cell<Option<u32>>,
    /// Its stop, before one of its steps since it began to view.
    stop: Stop,
    is_deleted: Cell<bool>,
    has_view: Cell<bool>,
    is_reused: Cell<bool>,
    /// What was viewed in the end.
    seen: RefCell<Option<Vec<u8>>>,
}

impl Views {
    fn is_viewer(&self, of: &Candidate) -> bool {
        Some(of.thread) == self.viewer.get()
    }
}

impl Stage for Views {
    fn waits(&self, of: &Candidate) -> bool {
        self.is_viewer(of) && self.stop.lasts(self.is_deleted.get())
    }

    fn note(&self, of: &Candidate) {
        self.stop.note(self.is_viewer(of) && !self.has_view.get());
    }
}

fn open(worker: &Rc<Worker<SimMemory<true>>>) -> Store {
    let settings = ObjectSettings::default();
    Store::open_or_create(worker.clone(), "store", &settings, Guidelines::P3).unwrap()
}

fn make(store: &Store, id: u64, byte: u8) -> Result<(), Error> {
    let id = id.to_le_bytes();
    let object = store.make(&id, SIZE as u64, &NewObject::default())?.unwrap();
    store.fill(&object, 0, &[byte; SIZE]);
    store.seal(object).map(drop)
}

fn view(context: &Context<true>, stage: &Views) {
    with_worker(context, |worker| {
        let store = open(worker);
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
    });
}

fn delete(context: &Context<true>, stage: &Views) {
    with_worker(context, |worker| {
        let store = open(worker);
        until(context, || stage.is_ready.get());
        until(context, || stage.stop.has_come() || stage.has_view.get());
        assert!(store.delete(&0_u64.to_le_bytes()).unwrap());
        stage.is_deleted.set(true);
        until(context, || stage.has_view.get());
        collect_all(worker).unwrap();
        (2..2 + OTHERS).for_each(|id| make(&store, id, 2).unwrap());
        stage.is_reused.set(true);
    });
}

/// What is wrong with what the viewer sees at last, if it is held back before a step; and whether it was.
fn wrong(stop_at: u64) -> (Option<String>, bool) {
    let stage = Rc::new(Views {
        stop: Stop::before(stop_at, 6_000),
        ..Views::default()
    });
    let ended = Play::of_processes(2).run::<true, _>(
        &stage,
        |worker| {
            let store = open(worker);
            (0..2).for_each(|id| make(&store, id, 1).unwrap());
        },
        |context, stage| match context.process() {
            1 => view(context, stage),
            _ => delete(context, stage),
        },
    );
    let seen = match ended {
        Ended::Well => Ok(stage.seen.take()),
        ended => Err(ended),
    };
    // It may come too late to view it.
    let is_right = |seen: &Option<Vec<u8>>| seen.as_ref().is_none_or(|seen| *seen == [1; SIZE]);
    let wrong = (!seen.as_ref().is_ok_and(is_right)).then(|| format!("{seen:?}"));
    (wrong, stage.stop.has_come())
}

#[test]
fn a_view_holds_an_object_before_it_checks_that_it_is_there() {
    choose(None);
    assert_eq!(first_wrong(wrong), None);
    choose(Some(Mutant::HeldLate));
    let found = first_wrong(wrong);
    choose(None);
    assert!(found.is_some(), "the fault is not seen");
}
