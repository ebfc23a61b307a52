//! A reader without a place is stopped at each step of its first attempt in turn, until a writer has overwritten what
//! the reader may have reached, and has used that memory again. The reader must find what was written for its key. With
//! the fault planted that leaves out the second read of the epoch, it must find something else at some step.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::Guidelines;
use cenote::Reader;
use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::instance::limits::Limits;
use cenote::pod::{Worker, reclaim::collect};
use cenote_sim::exec::{Context, Ended, SimMemory};
use cenote_sim::policy::Candidate;
use cenote_sim::subjects::pool::Member;

use crate::directed::{Play, Stage, Stop, first_wrong, until, with_worker};

#[derive(Default)]
struct Snapshot {
    /// The reader's thread, once it reads.
    reader: Cell<Option<u32>>,
    /// Its stop, before one of its steps since.
    stop: Stop,
    /// The writer has used again what it could.
    is_changed: Cell<bool>,
    /// What the reader has found: the value, or what went wrong.
    found: RefCell<Option<Result<Option<Vec<u8>>, String>>>,
}

impl Snapshot {
    fn is_reader(&self, of: &Candidate) -> bool {
        Some(of.thread) == self.reader.get()
    }
}

impl Stage for Snapshot {
    fn waits(&self, of: &Candidate) -> bool {
        self.is_reader(of) && self.stop.lasts(self.is_changed.get())
    }

    fn note(&self, of: &Candidate) {
        self.stop.note(self.is_reader(of));
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

fn write<const C: bool>(context: &Context<C>, stage: &Snapshot, is_ordered: bool) {
    with_worker(context, |worker| {
        let map = Map::open(worker, is_ordered);
        let is_over = || stage.stop.has_come() || stage.found.borrow().is_some();
        until(context, is_over);
        for n in 0..12 {
            map.put(KEY, &value(KEY, 100 + n));
            for _ in 0..2 {
                collect::collect_now(worker).unwrap();
                // The other processes flush.
                (0..if C { 0 } else { 20 }).for_each(|_| context.wait());
            }
            map.put(OTHER, &value(OTHER, 200 + n));
        }
        stage.is_changed.set(true);
        until(context, || stage.found.borrow().is_some());
    });
}

fn read<const C: bool>(context: &Context<C>, stage: &Snapshot, is_ordered: bool) {
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

/// What the reader found, if it was not what it should, when it was stopped before a step; and whether it was.
fn wrong<const C: bool>(is_ordered: bool, stop_at: u64) -> (Option<String>, bool) {
    let stage = Rc::new(Snapshot {
        stop: Stop::before(stop_at, u64::MAX),
        ..Snapshot::default()
    });
    let play = Play {
        frames: (64, 16),
        limits: Some(Limits {
            collect_every: 1,
            ..Limits::usual::<SimMemory<C>>()
        }),
        ..Play::on_hosts(vec![0, 1])
    };
    let ended = play.run(
        &stage,
        move |worker| {
            let map = Map::open(worker, is_ordered);
            for n in 0..4 {
                map.put(KEY, &value(KEY, n));
                map.put(OTHER, &value(OTHER, n));
            }
        },
        move |context: &Context<C>, stage| match context.host() {
            0 => read(context, stage, is_ordered),
            _ => write(context, stage, is_ordered),
        },
    );
    assert_eq!(ended, Ended::Well, "stopped at {stop_at}");
    let found = stage.found.take();
    let is_right = matches!(&found, Some(Ok(Some(found))) if is_for(KEY, found));
    assert!(
        stop_at > 20 || stage.stop.has_come(),
        "it has {stop_at} steps only"
    );
    ((!is_right).then(|| format!("{found:?}")), stage.stop.has_come())
}

fn is_believed_only_if_the_epoch_stays<const C: bool>() {
    for is_ordered in [false, true] {
        assert_eq!(first_wrong(|stop_at| wrong::<C>(is_ordered, stop_at)), None);
        choose(Some(Mutant::SnapshotNotValidated));
        let found = first_wrong(|stop_at| wrong::<C>(is_ordered, stop_at));
        choose(None);
        assert!(found.is_some(), "nothing is wrong without the second look");
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
