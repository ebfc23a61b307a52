//! The cache of inner nodes' words that the threads of a process share (`pod/instance/word_cache.rs`): two schedules
//! that no draw finds.
//!
//! In both, a slow thread caches a word that it has read, and a reader of the same process announces and uses it. A
//! writer on another host that was pinned before the epoch moved unlinks what was read, so that it has an old tag. A
//! collector moves the epoch. What was unlinked is then reused for a second map while the reader's announcement stands.
//! Each schedule must pass, and must fail with its fault planted.
#![cfg(feature = "mutants")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::ordered::OrderedMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::format::superblock::EPOCH;
use cenote::pod::{Worker, names::directory, reclaim::collect};
use cenote_sim::exec::{Context, Ended, Kind, Settings, SimMemory, run};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

type Map = OrderedMap<SimMemory<false>>;

/// A thread's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Reads a word, and caches it late.
    Slow,
    /// Announces meanwhile, and uses what the other thread has cached.
    Reader,
    /// Replaces the page.
    Writer,
    /// Moves the epoch on.
    Collector,
}
use Part::*;

/// Which parts run in each act; all other threads always may.
const ACTS: [&[Part]; 11] = [
    &[Slow, Reader, Writer, Collector],
    &[Writer],
    &[Collector],
    &[Slow],
    &[Writer],
    &[Collector],
    &[Reader],
    &[Slow],
    &[Writer],
    &[Reader],
    &[Slow, Reader, Writer, Collector],
];

#[derive(Default)]
struct Stage {
    act: Cell<usize>,
    parts: RefCell<Vec<(u32, Part)>>,
    root: Cell<u64>,
    has_loaded: Cell<bool>,
    /// The second story.
    is_merge: Cell<bool>,
    /// What the writer loads, if that is noted.
    loads: RefCell<Option<Vec<u64>>>,
    /// A key that is below the second node above the leaves.
    beyond: Cell<u64>,
}

impl Stage {
    fn until(&self, context: &Context<false>, act: usize) {
        while self.act.get() < act {
            context.wait();
        }
    }

    fn next(&self, act: usize) {
        assert_eq!(self.act.replace(act), act - 1);
    }

    fn part_of(&self, thread: u32) -> Option<Part> {
        let parts = self.parts.borrow();
        parts
            .iter()
            .find(|(other, _)| *other == thread)
            .map(|(_, part)| *part)
    }
}

/// Runs the threads whose turn it is, one after the other.
struct Director {
    stage: Rc<Stage>,
    turn: usize,
}

impl Policy for Director {
    fn thread(&mut self, candidates: &[Candidate], _ended: bool) -> usize {
        let stage = &self.stage;
        for candidate in candidates {
            match (stage.act.get(), stage.part_of(candidate.thread)) {
                (1, Some(Writer))
                    if candidate.op.kind == Kind::CompareExchange
                        && (stage.is_merge.get() || candidate.op.at == stage.root.get()) =>
                {
                    stage.next(2);
                }
                (3, Some(Slow)) if !stage.is_merge.get() && stage.has_loaded.get() => stage.next(4),
                _ => {}
            }
        }
        let act = stage.act.get();
        let is_writers = |candidate: &Candidate| stage.part_of(candidate.thread) == Some(Writer);
        // A background thread of its own process may have what the writer needs.
        let writer_waits = candidates
            .iter()
            .any(|candidate| is_writers(candidate) && candidate.op.kind == Kind::Wait);
        let is_held = |host| stage.is_merge.get() && (1..=4).contains(&act) && host == 1 && !writer_waits;
        let may_run = |candidate: &Candidate| {
            stage
                .part_of(candidate.thread)
                .map_or(!is_held(candidate.host), |part| ACTS[act].contains(&part))
        };
        let able: Vec<usize> = (0..candidates.len())
            .filter(|&n| may_run(&candidates[n]))
            .collect();
        self.turn = self
            .turn
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let chosen = able
            .get((self.turn >> 33) % able.len().max(1))
            .copied()
            .unwrap_or(0);
        let candidate = &candidates[chosen];
        if stage.part_of(candidate.thread) == Some(Writer)
            && candidate.op.kind == Kind::Load
            && let Some(loads) = &mut *stage.loads.borrow_mut()
        {
            loads.push(candidate.op.at);
        }
        if act == 3
            && stage.part_of(candidate.thread) == Some(Slow)
            && candidate.op.kind == Kind::Load
            && candidate.op.at == stage.root.get()
        {
            stage.has_loaded.set(true);
        }
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "directed".to_owned()
    }
}

const KEYS: u64 = 42;
const OTHERS: u64 = 1 << 32;

fn fill(worker: &Rc<Worker<SimMemory<false>>>, name: &str, from: u64) {
    let map = Map::open_or_create(worker.clone(), name, Guidelines::P3).unwrap();
    for n in (0..KEYS).rev() {
        map.put_u64(from + 8 * n, n).unwrap();
    }
}

fn root_of(worker: &Worker<SimMemory<false>>, name: &str) -> u64 {
    directory::find(worker, name).unwrap().unwrap().offset
}

fn epoch(context: &Context<false>) -> u64 {
    context.peek(EPOCH.offset()) >> 1
}

/// Takes a part, and waits for the others.
fn come_on(context: &Context<false>, part: Part, stage: &Stage, others: &Cell<u32>) {
    for _ in 0..50 {
        context.wait();
    }
    stage.parts.borrow_mut().push((context.thread(), part));
    others.set(others.get() + 1);
    while others.get() < 4 {
        context.wait();
    }
}

/// Frees what is reclaimable, and gives the other processes time to flush.
fn collect(context: &Context<false>, worker: &Worker<SimMemory<false>>) {
    collect::collect_now(worker).unwrap();
    for _ in 0..20 {
        context.wait();
    }
}

/// The collector's part: the epoch moves on once in the third act, and once in the sixth.
fn collect_between(context: &Context<false>, worker: &Worker<SimMemory<false>>, stage: &Stage) {
    for act in [2, 5] {
        stage.until(context, act);
        let before = epoch(context);
        for _ in 0..100 {
            if epoch(context) == before + 1 {
                break;
            }
            collect(context, worker);
        }
        assert_eq!(epoch(context), before + 1);
        stage.next(act + 1);
    }
    stage.until(context, 10);
}

fn play(
    context: &Context<false>,
    part: Part,
    worker: Rc<Worker<SimMemory<false>>>,
    stage: &Stage,
    others: &Cell<u32>,
) {
    let map = Map::open(worker.clone(), "x", Guidelines::P3).unwrap();
    let other = Map::open(worker.clone(), "y", Guidelines::P3).unwrap();
    let (x, y) = (root_of(&worker, "x"), root_of(&worker, "y"));
    stage.root.set(x);
    come_on(context, part, stage, others);
    match part {
        Writer => {
            stage.act.set(1);
            let page = context.peek(x);
            map.put_u64(4, 100).unwrap();
            assert_ne!(context.peek(x), page);
            stage.next(5);
            stage.until(context, 8);
            let mut key = OTHERS + 1;
            for round in 0..400 {
                if context.peek(y) == page {
                    break;
                }
                other.put_u64(key, 7).unwrap();
                key += if key % 8 == 7 { 2 } else { 1 };
                if round % 8 == 0 {
                    collect(context, &worker);
                }
            }
            stage.next(9);
            stage.until(context, 10);
        }
        Collector => collect_between(context, &worker, stage),
        Slow => {
            stage.until(context, 3);
            assert_eq!(map.get_u64(8).unwrap(), Some(1));
            stage.next(8);
            stage.until(context, 10);
        }
        Reader => {
            stage.until(context, 6);
            let _pin = worker.pin().unwrap();
            stage.next(7);
            stage.until(context, 9);
            for n in 0..KEYS {
                assert_eq!(map.get_u64(8 * n).unwrap(), Some(n), "key {n} of the first map");
            }
            stage.next(10);
        }
    }
}

fn long(key: u64) -> Vec<u8> {
    let mut bytes = vec![7; 6000];
    bytes.extend_from_slice(&key.to_be_bytes());
    bytes
}

const LONGS: u64 = 70;
const FIRST_LONGS: u64 = 110;

fn fill_long(worker: &Rc<Worker<SimMemory<false>>>, name: &str, from: u64) {
    let map = Map::open_or_create(worker.clone(), name, Guidelines::P3).unwrap();
    let count = if name == "x" { FIRST_LONGS } else { LONGS };
    for n in (0..count).rev() {
        map.put(&long(from + 8 * n), &n.to_le_bytes()).unwrap();
    }
    for n in (0..count).filter(|n| name == "x" && n % 7 >= 4) {
        map.remove(&long(from + 8 * n)).unwrap();
    }
}

fn value(map: &Map, key: u64) -> Option<u64> {
    map.get(&long(key))
        .unwrap_or_else(|error| panic!("key {key}: {error}"))
        .map(|value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

fn play_merge(
    context: &Context<false>,
    part: Part,
    worker: Rc<Worker<SimMemory<false>>>,
    stage: &Stage,
    others: &Cell<u32>,
    grown: u64,
) {
    let map = Map::open(worker.clone(), "x", Guidelines::P3).unwrap();
    let other = Map::open(worker.clone(), "y", Guidelines::P3).unwrap();
    come_on(context, part, stage, others);
    let plain = Map::open(worker.clone(), "x", Guidelines::SP).unwrap();
    let way = |map: &Map, key: u64| {
        value(map, key);
        stage.loads.replace(Some(Vec::new()));
        value(map, key);
        stage
            .loads
            .take()
            .unwrap()
            .into_iter()
            .filter(|&at| at >= worker.geometry().data)
            .collect::<Vec<_>>()
    };
    match part {
        Writer => {
            let first = way(&plain, 0);
            let (beyond, node) = (0..FIRST_LONGS)
                .map(|n| (8 * n, way(&plain, 8 * n)))
                .find(|(_, way)| way[1] != first[1])
                .unwrap();
            let node = node[1];
            stage.beyond.set(beyond);
            for _ in 0..100 {
                context.wait();
            }
            stage.act.set(1);
            let mut n = FIRST_LONGS;
            while context.peek(node) & 1 == 0 {
                n -= 1;
                map.remove(&long(8 * n)).unwrap();
            }
            // Nodes that were retired after it are used before it.
            for _ in 0..grown.min(n) {
                n -= 1;
                map.remove(&long(8 * n)).unwrap();
            }
            stage.next(5);
            stage.until(context, 8);
            for _ in 0..4 {
                collect(context, &worker);
            }
            for n in 0..60 {
                other
                    .put(&long(OTHERS + 8 * n + 1), &1_u64.to_le_bytes())
                    .unwrap();
            }
            stage.next(9);
            stage.until(context, 10);
        }
        Collector => collect_between(context, &worker, stage),
        Slow => {
            stage.until(context, 3);
            let pin = worker.pin().unwrap();
            assert_eq!(value(&map, 0), Some(0));
            stage.next(4);
            stage.until(context, 7);
            value(&map, stage.beyond.get());
            drop(pin);
            stage.next(8);
            stage.until(context, 10);
        }
        Reader => {
            stage.until(context, 6);
            let _pin = worker.pin().unwrap();
            stage.next(7);
            stage.until(context, 9);
            for n in 0..LONGS {
                assert_eq!(value(&other, OTHERS + 8 * n), Some(n), "key {n} of the other map");
            }
            stage.next(10);
        }
    }
}

/// Keys that are removed behind the merge, so that the memory of the merged node is used for an inner one. It depends
/// on the order in which memory is reused.
const GROWN: u64 = 14;

fn perform(merge: Option<u64>) -> Ended {
    let parameters = parameters(false, 400);
    let settings = Settings {
        steps_max: 40_000_000,
        ..Settings::untimed(false, bytes(parameters), vec![0, 1, 2])
    };
    let stage = Rc::new(Stage::default());
    stage.is_merge.set(merge.is_some());
    let others = Rc::new(Cell::new(0));
    let policy = Director {
        stage: stage.clone(),
        turn: 0,
    };
    let outcome = run::<false>(
        &settings,
        Box::new(policy),
        Box::new(move |context| {
            format(&context, parameters, if merge.is_some() { 300 } else { 8 }).unwrap();
            let member = Member::join(&context, true).unwrap();
            {
                let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
                let fill = if merge.is_some() { fill_long } else { fill };
                fill(&worker, "x", 0);
                fill(&worker, "y", OTHERS);
            }
            member.leave(&context);
        }),
        Rc::new(move |context: Context<false>| {
            let member = Member::join(&context, true).unwrap();
            let parts: &[Part] = match context.host() {
                0 => &[Slow, Reader],
                1 => &[Writer],
                _ => &[Collector],
            };
            for &part in parts {
                let (stage, others) = (stage.clone(), others.clone());
                member.spawn(&context, move |context, pod| {
                    let worker = Rc::new(Worker::attach(&pod, true).unwrap());
                    match merge {
                        None => play(&context, part, worker, &stage, &others),
                        Some(grown) => play_merge(&context, part, worker, &stage, &others, grown),
                    }
                });
            }
            member.leave(&context);
        }),
        Box::new(|_| {}),
    );
    outcome.ended
}

#[test]
fn a_word_that_was_read_before_an_announcement_is_not_used() {
    assert_eq!(perform(None), Ended::Well);
    choose(Some(Mutant::CachedLate));
    let ended = perform(None);
    choose(None);
    assert_ne!(ended, Ended::Well);
}

#[test]
fn a_frozen_word_is_not_kept() {
    assert_eq!(perform(Some(GROWN)), Ended::Well);
    choose(Some(Mutant::FrozenCached));
    let ended = perform(Some(GROWN));
    choose(None);
    assert_ne!(ended, Ended::Well);
}
