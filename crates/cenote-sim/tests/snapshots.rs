//! A reader without a place is stopped at each step of its first attempt in turn, until a writer has overwritten what
//! the reader may have reached, and has used that memory again. The reader must find what was written for its key. With
//! the fault planted that leaves out the second read of the epoch, it must find something else at some step.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::Guidelines;
use cenote::Reader;
use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::instance::limits::Limits;
use cenote::pod::{Worker, reclaim::collect};
use cenote_sim::exec::{Context, Ended, Settings, SimMemory, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

#[derive(Default)]
struct Stage {
    /// The reader's thread, once it reads.
    reader: Cell<Option<u32>>,
    /// Its steps since.
    steps: Cell<u64>,
    /// Before which of them it is stopped.
    stop_at: u64,
    is_stopped: Cell<bool>,
    /// The writer has used again what it could.
    is_changed: Cell<bool>,
    /// What the reader has found: the value, or what went wrong.
    found: RefCell<Option<Result<Option<Vec<u8>>, String>>>,
}

/// Runs the thread that has not run for longest, except the reader while it is stopped.
struct Stopped {
    stage: Rc<Stage>,
    step: u64,
    /// When each thread ran last.
    ran: BTreeMap<u32, u64>,
}

impl Policy for Stopped {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = &self.stage;
        let is_reader = |candidate: &Candidate| Some(candidate.thread) == stage.reader.get();
        let is_held = stage.is_stopped.get() && !stage.is_changed.get();
        let chosen = (0..candidates.len())
            .filter(|&n| !is_held || !is_reader(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        if is_reader(&candidates[chosen]) {
            stage.steps.set(stage.steps.get() + 1);
            if stage.steps.get() == stage.stop_at {
                stage.is_stopped.set(true);
            }
        }
        self.step += 1;
        self.ran.insert(candidates[chosen].thread, self.step);
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "a reader is stopped".to_owned()
    }
}

const KEY: &[u8] = b"a key of some bytes";
/// Another one, whose values take the memory of the first one's.
const OTHER: &[u8] = b"b key of some bytes";

/// More than a line.
fn value(key: &[u8], n: u8) -> Vec<u8> {
    let mut value = vec![n; 40];
    value.extend_from_slice(key);
    value.extend([n; 12]);
    value
}

fn is_for(key: &[u8], found: &[u8]) -> bool {
    found.first().is_some_and(|&n| found == value(key, n))
}

/// A map of either kind.
enum Map<const C: bool> {
    Hash(HashMap<SimMemory<C>>),
    Ordered(OrderedMap<SimMemory<C>>),
}

impl<const C: bool> Map<C> {
    fn open(worker: &Rc<Worker<SimMemory<C>>>, is_ordered: bool) -> Self {
        match is_ordered {
            true => Self::Ordered(OrderedMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap()),
            false => Self::Hash(HashMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap()),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        match self {
            Self::Hash(map) => map.put(key, value).unwrap(),
            Self::Ordered(map) => map.put(key, value).unwrap(),
        };
    }
}

fn until<const C: bool>(context: &Context<C>, is_so: impl Fn() -> bool) {
    while !is_so() {
        context.wait();
    }
}

fn write<const C: bool>(context: &Context<C>, stage: &Stage, is_ordered: bool) {
    let member = Member::join(context, !C).unwrap();
    {
        let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
        let map = Map::open(&worker, is_ordered);
        let is_over = || stage.is_stopped.get() || stage.found.borrow().is_some();
        until(context, is_over);
        for n in 0..12 {
            map.put(KEY, &value(KEY, 100 + n));
            for _ in 0..2 {
                collect::collect_now(&worker).unwrap();
                // The other processes flush.
                (0..if C { 0 } else { 20 }).for_each(|_| context.wait());
            }
            map.put(OTHER, &value(OTHER, 200 + n));
        }
        stage.is_changed.set(true);
        until(context, || stage.found.borrow().is_some());
    }
    member.leave(context);
}

fn read<const C: bool>(context: &Context<C>, stage: &Stage, is_ordered: bool) {
    let member = Member::join(context, !C).unwrap();
    let superblock = *member.pod.superblock();
    let reader = Reader::over(context.memory(), superblock, context.identity());
    let get = |key: &[u8]| match is_ordered {
        true => reader.ordered("map")?.get(key),
        false => reader.map("map")?.get(key),
    };
    // While it must retry, others go on.
    stage.reader.set(Some(context.thread()));
    let found = get(KEY).map_err(|error| error.to_string());
    stage.found.replace(Some(found));
    member.leave(context);
}

/// Whether the reader, stopped before a step, found what it should; `None` if it was done before.
fn reads_right<const C: bool>(is_ordered: bool, stop_at: u64) -> Option<bool> {
    let parameters = parameters(C, 64);
    let settings = Settings {
        shape: Shape {
            coherent: C,
            hosts: 2,
            bytes: bytes(parameters),
            cache_lines: Capacity::ALL,
            prefetches: false,
            has_membarrier: true,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: vec![0, 1],
        crashes: Vec::new(),
        steps_max: 10_000_000,
        capacity: u64::MAX,
        profile: None,
        checks_order: true,
        traces: false,
        delegated: None,
        limits: Some(Limits {
            collect_every: 1,
            ..Limits::usual::<SimMemory<C>>()
        }),
    };
    let stage = Rc::new(Stage {
        stop_at,
        ..Stage::default()
    });
    let theirs = stage.clone();
    let policy = Stopped {
        stage: stage.clone(),
        step: 0,
        ran: BTreeMap::new(),
    };
    let outcome = run::<C>(
        &settings,
        Box::new(policy),
        Box::new(move |context| {
            format(&context, parameters, 16).unwrap();
            let member = Member::join(&context, !C).unwrap();
            {
                let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
                let map = Map::open(&worker, is_ordered);
                for n in 0..4 {
                    map.put(KEY, &value(KEY, n));
                    map.put(OTHER, &value(OTHER, n));
                }
            }
            member.leave(&context);
        }),
        Rc::new(move |context: Context<C>| match context.host() {
            0 => read(&context, &theirs, is_ordered),
            _ => write(&context, &theirs, is_ordered),
        }),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well, "stopped at {stop_at}");
    let found = stage.found.take();
    let is_right = matches!(found, Some(Ok(Some(found))) if is_for(KEY, &found));
    stage.is_stopped.get().then_some(is_right)
}

/// The first step before which a stop has the reader find something wrong.
fn first_wrong<const C: bool>(is_ordered: bool) -> Option<u64> {
    let mut stop_at = 0;
    loop {
        stop_at += 1;
        match reads_right::<C>(is_ordered, stop_at) {
            Some(true) => {}
            Some(false) => return Some(stop_at),
            None => {
                assert!(stop_at > 20, "it takes more steps than {stop_at}");
                return None;
            }
        }
    }
}

fn is_believed_only_if_the_epoch_stays<const C: bool>() {
    for is_ordered in [false, true] {
        assert_eq!(first_wrong::<C>(is_ordered), None);
        choose(Some(Mutant::SnapshotNotValidated));
        let wrong = first_wrong::<C>(is_ordered);
        choose(None);
        assert!(wrong.is_some(), "nothing is wrong without the second look");
    }
}

#[test]
fn what_is_used_again_meanwhile_is_not_believed() {
    is_believed_only_if_the_epoch_stays::<true>();
}

#[test]
fn what_is_used_again_meanwhile_is_not_believed_on_incoherent_memory() {
    is_believed_only_if_the_epoch_stays::<false>();
}
