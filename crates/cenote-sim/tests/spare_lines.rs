//! A level's spare lines are used where a chain is copied and the pool is full: no draw comes by that. Here keys whose
//! hashes begin alike, all in one group of any level, make a map grow; other values fill the pool; and removals copy
//! the chain. A check on another host, whose cache has the count of spare lines from before, must not use that.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::index::hash::HashMap;
use cenote::index::hash::level::Level;
use cenote::memory::SyncWord;
use cenote::pod::Worker;
use cenote::pod::names::directory;
use cenote::{Error, Guidelines};
use cenote_sim::exec::{Context, Ended, SimMemory};
use cenote_sim::sweep::{Site, Touch, be_stubborn, sites_of, weaken};

use crate::directed::{Play, Stage, until, with_worker};

type Memory = SimMemory<false>;

/// Hashes begin alike in so many bits: there are fewer groups.
const ALIKE: u32 = 14;
/// Keys with such hashes: a chain of so many makes a map move.
const KEYS: usize = 100;

/// What the processes know of each other.
#[derive(Default)]
struct Spares {
    are_used: Cell<bool>,
    problems: RefCell<Option<Vec<String>>>,
}

impl Stage for Spares {
    fn waits(&self, _: &cenote_sim::policy::Candidate) -> bool {
        false
    }
}

/// Keys whose hashes begin alike.
fn keys(map: &HashMap<Memory>) -> Vec<u64> {
    let begins_so = |key: &u64| map.hash_of(&key.to_le_bytes()) >> (64 - ALIKE) == 1;
    (0..).filter(begins_so).take(KEYS).collect()
}

/// The first level of a map, and the one that it moves to, if it moves.
fn levels(worker: &Worker<Memory>) -> (Level, Option<Level>) {
    let mem = worker.mem();
    let header = directory::find(worker, "map").unwrap().unwrap().offset;
    // SAFETY: a sync word of the pool: the root is the first of a map's header.
    let root = unsafe { SyncWord::at(header) }.load(mem);
    let level = Level::decode(worker, root & !1).unwrap().unwrap();
    let next = Level::decode(worker, level.next().load(mem)).unwrap();
    (level, next)
}

/// Fills the pool until it has no line left.
fn fill(worker: &Rc<Worker<Memory>>) {
    let other = HashMap::open_or_create(worker.clone(), "other", Guidelines::P3).unwrap();
    let mut key = 0_u64;
    for len in [60_000, 4_000, 500, 100, 40, 20] {
        loop {
            key += 1;
            match other.put(&key.to_le_bytes(), &vec![1; len]) {
                Ok(_) => {}
                Err(Error::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn use_spares(worker: &Rc<Worker<Memory>>) {
    let map = HashMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap();
    let keys = keys(&map);
    for key in &keys {
        map.put_u64(*key, 1).unwrap();
        if levels(worker).1.is_some() {
            break;
        }
    }
    let (_, next) = levels(worker);
    let next = next.expect("the map does not grow");
    fill(worker);
    for key in &keys {
        map.remove(&key.to_le_bytes()).unwrap();
        if next.spares_taken().load(worker.mem()) > 0 {
            return;
        }
    }
    panic!("no spare line was used");
}

/// What a check of the pool finds, on another host than the one that has used spare lines.
fn found() -> Vec<String> {
    let stage = Rc::new(Spares::default());
    let ended = Play::on_hosts(vec![0, 1]).run(
        &stage,
        |worker| drop(HashMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap()),
        |context: &Context<false>, stage| {
            if context.process() == 1 {
                with_worker(context, use_spares);
                stage.are_used.set(true);
                return;
            }
            with_worker(context, |worker| {
                // What the other process has in its host's cache cannot be checked.
                until(context, || stage.are_used.get());
                let report = cenote::store::audit(worker, true, false).unwrap();
                let problems = report.problems.iter().map(|problem| format!("{problem:?}"));
                *stage.problems.borrow_mut() = Some(problems.collect());
            });
        },
    );
    assert_eq!(ended, Ended::Well);
    stage.problems.take().unwrap()
}

/// The load of the count.
fn site() -> Site {
    let source = include_str!("../../cenote/src/index/hash/audit.rs");
    let line = source
        .lines()
        .position(|line| line.contains("spares_taken().load"))
        .unwrap() as u32
        + 1;
    let is_it = |site: &Site| {
        site.touch == Touch::Load && site.line == line && site.file.ends_with("index/hash/audit.rs")
    };
    sites_of(|| drop(found()))
        .into_iter()
        .find(is_it)
        .expect("no such site")
}

#[test]
fn a_check_counts_spare_lines_past_its_cache() {
    assert_eq!(found(), Vec::<String>::new());
    let site = site();
    weaken(Some(site));
    be_stubborn(true);
    let problems = found();
    be_stubborn(false);
    weaken(None);
    let is_seen = problems.iter().any(|problem| problem.contains("than were taken"));
    assert!(is_seen, "the weakened load is not seen: {problems:?}");
}
