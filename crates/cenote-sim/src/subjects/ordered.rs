//! The ordered map: calls on few keys, and reads of several, written down for the check of linearizability. Nodes are
//! nearly full, so that meanwhile they are split, the splits are posted to parents, and the root rises.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::ordered::OrderedMap;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker, reclaim::collect};
use cenote::{Guidelines, Put, Range, Replace};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::{account, answer, bytes_of, value_of};
use super::holding::Holding;
use super::pool::Member;
use super::{Load, Log, Scenario, below, bulk, random};
use crate::check::spec::map::{Op, Ret};
use crate::check::spec::ordered;
use crate::exec::{Context, SimMemory};

/// What the map is like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One leaf, with room for a key or two.
    Leaf,
    /// Long keys that begin alike: a node is full with four children.
    Tree,
    /// Leaves that have hardly more keys than a leaf that is merged.
    Thin,
    /// The same, with the long keys of a tree.
    ThinTree,
    /// A root and two leaves, the first of them full: calls are about the first.
    Split,
    /// A root and two leaves: any remove from the second one begins a merge.
    Merge,
    /// The same, where calls take keys away from the end and then put as many back: the root gives way to its only
    /// child, and rises again.
    Ends,
    /// A full leaf, and a few keys at the end that come and go, and with them a leaf, each time with another low fence.
    /// Threads have several handles, one of which mostly reads: what it has cached grows old.
    Notes,
    /// A root and two leaves, and calls that write or read several keys, or ask for the neighbours of one.
    Bulk,
}

pub(super) type Map<const C: bool> = OrderedMap<SimMemory<C>>;

const NAME: &str = "map";
/// Keys are this far apart at first; calls are about some of them and of those between.
const STRIDE: u64 = 8;
/// How many different keys calls are about, if leaves are not to be merged.
const WANTED: u64 = 12;
/// How many different keys come and go at the end.
const ENDS: u64 = 100;
/// Calls of a thread that put, after as many that remove.
const TURN: u32 = 8;
/// The first key of the second leaf, where there are two that may be merged.
const SECOND_LEAF: u64 = 15 * STRIDE;
/// Bytes that all keys of a tree begin with.
const ALIKE: usize = 6000;
/// Most bindings that a scan asks for.
const LIMIT: usize = 4;

impl Shape {
    /// Keys that are put before the run.
    fn fillers(self) -> u64 {
        match self {
            Self::Leaf => 27,
            Self::Tree => 69,
            Self::Thin | Self::ThinTree => 70,
            Self::Split => 42,
            Self::Merge | Self::Ends | Self::Bulk => 29,
            Self::Notes => 28,
        }
    }

    /// Whether calls make leaves so small that they are merged.
    fn is_thin(self) -> bool {
        matches!(
            self,
            Self::Thin | Self::ThinTree | Self::Merge | Self::Ends | Self::Bulk
        )
    }

    /// Whether a filler is removed again before the run. Leaves have 14 keys then; this leaves them 8.
    fn is_removed(self, n: u64) -> bool {
        self.is_thin() && n % 7 >= 4
    }

    /// Frames that the pool begins with.
    fn frames(self) -> u64 {
        match self {
            Self::Tree | Self::ThinTree => 96,
            _ => 6,
        }
    }

    /// A key's bytes, in the order of the numbers.
    pub(super) fn bytes(self, key: u64) -> Vec<u8> {
        let mut bytes = match self {
            Self::Tree | Self::ThinTree => vec![7; ALIKE],
            _ => Vec::new(),
        };
        bytes.extend_from_slice(&key.to_be_bytes());
        bytes
    }

    /// A key from its bytes; they must be whole.
    pub(super) fn key(self, bytes: &[u8], log: &Log) -> u64 {
        let key = bytes.last_chunk().map_or(0, |last| u64::from_be_bytes(*last));
        if bytes != self.bytes(key) {
            log.fault(format!("a torn key: {bytes:x?}"));
        }
        key
    }

    /// Some key that calls are about: around the middle, where leaves are split, or any, where leaves are merged.
    pub(super) fn any_key(self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            Self::Merge => SECOND_LEAF + below(random, WANTED / 3) * STRIDE,
            Self::Ends | Self::Bulk => SECOND_LEAF + below(random, ENDS),
            Self::Notes => self.fillers() * STRIDE + below(random, WANTED),
            _ if self.is_thin() => below(random, self.fillers()) * STRIDE,
            _ => (self.fillers() / 2) * STRIDE + below(random, WANTED) * STRIDE / 4,
        }
    }
}

/// What a run's threads share.
struct Shared {
    load: Load,
    shape: Shape,
    log: Log,
    gathering: Gathering,
    /// In [`Shape::Notes`]: the key that comes and goes.
    present: Cell<u64>,
}

pub fn scenario<const C: bool>(load: Load, shape: Shape, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        shape,
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
        present: Cell::new(shape.fillers() * STRIDE),
    };
    let parts = Parts {
        prepare: |context, shared: &Shared| prepare(context, shared.load, shared.shape, &shared.log),
        work,
        audit: |context, shared| audit(context, shared.shape, &shared.log),
    };
    assemble(load, parameters, shape.frames(), log, shared, parts)
}

/// Makes the map, and puts the fillers in descending order: leaves are then split in their middle.
fn prepare<const C: bool>(context: &Context<C>, load: Load, shape: Shape, log: &Log) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, load.guidelines.replicate)?);
        let map = OrderedMap::open_or_create(worker, NAME, load.guidelines)?;
        for n in (0..shape.fillers()).rev() {
            put(context, &map, shape, log, n * STRIDE, 1);
        }
        for n in (0..shape.fillers()).filter(|n| shape.is_removed(*n)) {
            remove(context, &map, shape, log, n * STRIDE);
        }
    }
    member.leave(context);
    Ok(())
}

/// One thread's calls.
fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared {
        load,
        shape,
        log,
        gathering,
        present,
    } = shared;
    let (load, shape) = (*load, *shape);
    let mut random = random(load.seed, context.thread());
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let map = OrderedMap::open_or_create(worker.clone(), NAME, load.guidelines)?;
    let open = || OrderedMap::open_or_create(worker.clone(), NAME, load.guidelines);
    let handles = Handles {
        lazy: open()?.with_unposted(0),
        busy: open()?,
        quiet: open()?,
    };
    gathering.arrive(context);
    let mut holding = Holding::new(load.seed, context);
    for n in 1..=load.operations {
        let value = u64::from(context.thread()) << 32 | u64::from(n);
        match shape {
            Shape::Ends => call_at_end(context, &map, shape, log, (value, n / TURN % 2 == 1), &mut random),
            Shape::Notes => call_of_some(context, &handles, present, shape, log, value, &mut random),
            Shape::Bulk => bulk::call(context, &map, log, value, &mut random),
            _ => one_call(context, &map, shape, log, value, &mut random),
        }
        holding.go_on(context, log, |number| {
            let key = shape.any_key(&mut super::random(number, 0));
            answer(log, map.get(&shape.bytes(key)))?
        });
        match below(&mut random, 8) {
            0 => collect::collect_all(&worker)?,
            1..=4 => collect::collect_now(&worker)?,
            _ => {}
        }
    }
    holding.give_back(context, log);
    Ok(())
}

fn one_call<const C: bool>(
    context: &Context<C>,
    map: &Map<C>,
    shape: Shape,
    log: &Log,
    value: u64,
    random: &mut Xoshiro256PlusPlus,
) {
    let key = shape.any_key(random);
    let bytes = shape.bytes(key);
    match below(random, 12) {
        0..=3 if shape.is_thin() => remove(context, map, shape, log, key),
        0..=2 => put(context, map, shape, log, key, value),
        3 => log.call(context, Op::Insert { key, value }, |_| {
            let inserted = map.insert(&bytes, &bytes_of(value));
            answer(log, inserted).map(|inserted| if inserted { Ret::Inserted } else { Ret::Present })
        }),
        4 => {
            let expected = 1;
            log.call(context, Op::Replace { key, expected, value }, |_| {
                let outcome = map.replace(&bytes, &bytes_of(expected), &bytes_of(value));
                answer(log, outcome).map(|outcome| match outcome {
                    Replace::Replaced => Ret::Replaced,
                    Replace::Differs(found) => Ret::Differs(value_of(log, &found)),
                    Replace::Missing => Ret::Missing,
                })
            });
        }
        5 if shape.is_thin() => put(context, map, shape, log, key, value),
        5 | 6 => remove(context, map, shape, log, key),
        7 => neighbour(context, map, shape, log, key),
        8 => inspect(context, map, shape, log, key),
        _ => get(context, map, shape, log, key),
    }
}

/// Handles of one thread, in [`Shape::Notes`].
struct Handles<const C: bool> {
    /// One that splits nodes and leaves it to others to post them.
    lazy: Map<C>,
    /// One that does what there is to do.
    busy: Map<C>,
    /// One that mostly reads, and sometimes writes elsewhere.
    quiet: Map<C>,
}

/// A call about the one key that is there, as far as threads know: several keys would split the full leaf in its
/// middle.
fn call_of_some<const C: bool>(
    context: &Context<C>,
    handles: &Handles<C>,
    present: &Cell<u64>,
    shape: Shape,
    log: &Log,
    value: u64,
    random: &mut Xoshiro256PlusPlus,
) {
    let Handles { lazy, busy, quiet } = handles;
    let key = present.get();
    match below(random, 16) {
        0..=3 => put(context, lazy, shape, log, key, value),
        4 => put(context, busy, shape, log, key, value),
        5..=9 => {
            remove(context, busy, shape, log, key);
            present.set(shape.any_key(random));
        }
        10 | 11 => put(context, quiet, shape, log, STRIDE * below(random, 2), value),
        _ => get(context, quiet, shape, log, key),
    }
}

/// A call about the end of the map, which grows or is taken away.
fn call_at_end<const C: bool>(
    context: &Context<C>,
    map: &Map<C>,
    shape: Shape,
    log: &Log,
    (value, grows): (u64, bool),
    random: &mut Xoshiro256PlusPlus,
) {
    let key = shape.any_key(random);
    match below(random, 8) {
        0..=4 if grows => put(context, map, shape, log, key, value),
        0..=4 => {
            let last = last(context, map, shape, log).unwrap_or(key);
            remove(context, map, shape, log, last);
        }
        5 => neighbour(context, map, shape, log, key),
        6 => remove(context, map, shape, log, key / STRIDE * STRIDE),
        _ => get(context, map, shape, log, key),
    }
}

/// The greatest key: a scan from there finds it alone.
fn last<const C: bool>(context: &Context<C>, map: &Map<C>, shape: Shape, log: &Log) -> Option<u64> {
    let mut key = None;
    log.read_several(context, || {
        let found = answer(log, map.last())?;
        let pair = found.map(|(key, value)| (shape.key(&key, log), value_of(log, &value)));
        key = pair.map(|(key, _)| key);
        let from = key.unwrap_or(0);
        let limit = u64::MAX;
        let pairs = pair.into_iter().collect();
        Some((ordered::Op::Scan { from, limit }, ordered::Ret::Scan(pairs)))
    });
    key
}

fn put<const C: bool>(context: &Context<C>, map: &Map<C>, shape: Shape, log: &Log, key: u64, value: u64) {
    log.call(context, Op::Put { key, value }, |_| {
        answer(log, map.put(&shape.bytes(key), &bytes_of(value))).map(|put| match put {
            Put::Inserted => Ret::Inserted,
            Put::Replaced => Ret::Replaced,
        })
    });
}

pub(super) fn remove<const C: bool>(context: &Context<C>, map: &Map<C>, shape: Shape, log: &Log, key: u64) {
    log.call(context, Op::Remove { key }, |_| {
        answer(log, map.remove(&shape.bytes(key)))
            .map(|removed| if removed { Ret::Removed } else { Ret::Missing })
    });
}

pub(super) fn get<const C: bool>(context: &Context<C>, map: &Map<C>, shape: Shape, log: &Log, key: u64) {
    log.call(context, Op::Get { key }, |_| {
        let found = answer(log, map.get(&shape.bytes(key)))?;
        Some(found.map_or(Ret::Missing, |value| Ret::Found(value_of(log, &value))))
    });
}

/// The least key from one on: a scan of one binding.
pub(super) fn neighbour<const C: bool>(
    context: &Context<C>,
    map: &Map<C>,
    shape: Shape,
    log: &Log,
    from: u64,
) {
    log.call_any(context, ordered::Op::Scan { from, limit: 1 }, |_| {
        let found = answer(log, map.least_from(&shape.bytes(from)))?;
        let pairs = found.map(|(key, value)| (shape.key(&key, log), value_of(log, &value)));
        Some(ordered::Ret::Scan(pairs.into_iter().collect()))
    });
}

/// What one leaf has from a key on: so many bindings of one moment.
pub(super) fn inspect<const C: bool>(context: &Context<C>, map: &Map<C>, shape: Shape, log: &Log, from: u64) {
    log.read_several(context, || {
        let mut pairs = Vec::new();
        let bytes = shape.bytes(from);
        let range = Range {
            from: &bytes,
            to: None,
        };
        answer(
            log,
            map.step(range, |key, value| {
                pairs.push((shape.key(key, log), value_of(log, value)))
            }),
        )?;
        pairs.truncate(LIMIT);
        let limit = pairs.len() as u64;
        (limit > 0).then_some((ordered::Op::Scan { from, limit }, ordered::Ret::Scan(pairs)))
    });
}

/// Reads everything both ways, and accounts for every byte.
fn audit<const C: bool>(context: &Context<C>, shape: Shape, log: &Log) -> cenote::Result<()> {
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let map = OrderedMap::open_or_create(worker.clone(), NAME, Guidelines::SP)?;
        let (mut pairs, mut back) = (Vec::new(), Vec::new());
        log.read_several(context, || {
            let all = |pairs: &mut Vec<(u64, u64)>, key: &[u8], value: &[u8]| {
                pairs.push((shape.key(key, log), value_of(log, value)))
            };
            answer(log, map.for_each(|key, value| all(&mut pairs, key, value)))?;
            let walked = map.scan_reverse(Range::ALL, |key, value| {
                all(&mut back, key, value);
                true
            });
            answer(log, walked)?;
            let op = ordered::Op::Scan {
                from: 0,
                limit: u64::MAX,
            };
            Some((op, ordered::Ret::Scan(pairs.clone())))
        });
        back.reverse();
        if map.len() != pairs.len() as u64 || back != pairs {
            log.fault(format!(
                "the map counts {} keys, and has {} and {}",
                map.len(),
                pairs.len(),
                back.len()
            ));
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
