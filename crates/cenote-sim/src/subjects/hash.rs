//! The hash map: calls on few keys, written down for the check of linearizability. Meanwhile processes die and are
//! recovered, and memory is allocated, retired and reused; the account at the end says whether any was lost.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hash::HashMap;
use cenote::index::hash::level::Level;
use cenote::index::ordered::OrderedMap;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker, reclaim::collect};
use cenote::{Error, Guidelines, Put, Replace};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::holding::Holding;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::check::leak::Account;
use crate::check::spec::map::{Op, Ret};
use crate::check::spec::ordered;
use crate::exec::{Context, SimMemory};

/// What the map is like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All keys in one group: a few lines that all threads want.
    Bucket,
    /// So many chain lines that the next ones make it grow.
    Growing,
    /// All moved to the next level but the last groups, in which the keys are.
    Moving,
    /// All moved to a smaller level but the last groups, in which the keys are.
    Shrinking,
    /// All keys in one group, whose slots were all used; for every other seed it has a chain of one line, with a last
    /// free slot or none.
    Removed,
    /// Every thread opens the pool anew for every few calls.
    Visits,
}

const NAME: &str = "map";
/// Maps that visitors open besides, after some calls.
const OTHER: &str = "other map";
const ORDERED: &str = "ordered map";
/// Keys that the calls are about.
const WANTED: usize = 3;
/// Keys that are put before the run so that a map of one frame is about to grow: chain lines of seven keys.
const FILLERS: usize = 15 + 7 * 7;
/// Keys that make it grow.
const NEW: usize = 12;
/// Slots of a group, and of one with a chain of one line.
const GROUP: usize = 15;
const CHAINED: usize = 22;
/// Keys of those that stay in a group of removed ones.
const STAY: usize = 2;
/// Keys for which a level has two frames.
const MANY: u64 = 5000;
/// Parts of a level that are left to move: some writers take another than that of the keys, and go on to write there.
const CHUNKS_LEFT: u64 = 5;
/// Workers of each thread that read the map first: a worker's first read is a special one.
const EARLY: u32 = 5;
/// Up to so many steps pass before, so that some read while the root moves.
const LATE: u64 = 128;
/// Marks values that take a frame: what a level leaves is used for them at once.
pub(super) const LARGE: u64 = 1 << 63;
/// Frames that a pool begins with.
const FRAMES: u64 = 6;

/// What the subject's threads share.
struct Shared {
    load: Load,
    shape: Shape,
    log: Log,
    /// Keys that share a group.
    keys: RefCell<Vec<u64>>,
    gathering: Gathering,
}

pub fn scenario<const C: bool>(load: Load, shape: Shape, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        shape,
        log: log.clone(),
        keys: RefCell::default(),
        gathering: Gathering::new(load.gathers),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, FRAMES, log, shared, parts)
}

/// Makes the map, and finds keys that share a group.
fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let Shared {
        load,
        shape,
        log,
        keys,
        ..
    } = shared;
    let (load, shape) = (*load, *shape);
    if matches!(shape, Shape::Growing | Shape::Moving | Shape::Shrinking) {
        // A thread that frees a level reads it first, perhaps in an operation's own pin.
        context.watch_held_alone();
    }
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, load.guidelines.replicate)?);
        let map = HashMap::open_or_create(worker, NAME, load.guidelines)?;
        if shape != Shape::Shrinking {
            map.reserve(1)?;
        }
        *keys.borrow_mut() = match shape {
            Shape::Bucket | Shape::Visits => sharing(&map, 0, WANTED),
            Shape::Removed => {
                let count = match load.seed % 4 {
                    0 | 1 => GROUP,
                    2 => CHAINED - 1,
                    _ => CHAINED,
                };
                let keys = sharing(&map, 0, WANTED + count);
                for &key in &keys[WANTED..] {
                    put(context, &map, log, key, 1);
                }
                for &key in &keys[WANTED + STAY..] {
                    remove(context, &map, log, key);
                }
                keys
            }
            Shape::Shrinking => shrink_nearly_all(context, &map, log)?,
            Shape::Growing => {
                let keys = sharing(&map, 0, WANTED + FILLERS + NEW);
                for &key in &keys[WANTED..WANTED + FILLERS] {
                    put(context, &map, log, key, 1);
                }
                keys
            }
            Shape::Moving => move_nearly_all(context, &map, log)?,
        };
    }
    member.leave(context);
    Ok(())
}

/// The first keys of a group, in a map of one frame: they are known without reading the map.
fn sharing<const C: bool>(map: &HashMap<SimMemory<C>>, group: u64, count: usize) -> Vec<u64> {
    sharing_in(map, &Level::new(0, 0), group, count)
}

/// The first keys of a group of a level.
fn sharing_in<const C: bool>(
    map: &HashMap<SimMemory<C>>,
    level: &Level,
    group: u64,
    count: usize,
) -> Vec<u64> {
    (0..)
        .filter(|key: &u64| level.group_of(map.hash_of(&key.to_le_bytes())) == group)
        .take(count)
        .collect()
}

/// Puts keys into the last group until the map grows, and removes some of them until only the last groups are left to
/// move. Of the keys that calls will be about, some are in the last group's chain; the new ones go to the group before,
/// where they find a last free slot.
fn move_nearly_all<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    log: &Log,
) -> cenote::Result<Vec<u64>> {
    let last = Level::new(0, 0).groups - 1;
    let mut keys = sharing(map, last, WANTED + 2 * FILLERS);
    let new = sharing(map, last - 1, NEW);
    for &key in &new {
        put(context, map, log, key, 1);
    }
    let (old, worker) = (map.oldest_level()?, map.worker().clone());
    let Some(old) = old else { return Ok(keys) };
    let fillers = &keys[WANTED..];
    let count = (1..=fillers.len()).find(|n| {
        put(context, map, log, fillers[n - 1], 1);
        old.next().load(worker.mem()) != 0
    });
    for &key in &fillers[..count.unwrap_or(0)] {
        if old.cursor().load(worker.mem()) + CHUNKS_LEFT >= old.chunks() {
            break;
        }
        remove(context, map, log, key);
    }
    keys.truncate(WANTED + FILLERS);
    keys.extend(new);
    Ok(keys)
}

/// Puts some keys into the last groups of a level that is far too large, and removes keys until all but the last groups
/// have moved to a smaller one.
fn shrink_nearly_all<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    log: &Log,
) -> cenote::Result<Vec<u64>> {
    map.reserve(MANY)?;
    map.reserve(1)?;
    let worker = map.worker().clone();
    let Some(old) = map.oldest_level()? else {
        return Ok(Vec::new());
    };
    // Of both groups that become the last one of a level of half the size.
    let mut keys = sharing_in(map, &old, old.groups - 1, WANTED + FILLERS);
    keys.extend(sharing_in(map, &old, old.groups - 2, NEW));
    for &key in &keys[WANTED..] {
        put(context, map, log, key, 1);
    }
    for &key in &keys[WANTED..WANTED + FILLERS] {
        if old.cursor().load(worker.mem()) + CHUNKS_LEFT >= old.chunks() {
            break;
        }
        remove(context, map, log, key);
    }
    Ok(keys)
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
        keys,
        gathering,
    } = shared;
    let (load, shape, keys) = (*load, *shape, &keys.borrow()[..]);
    let mut random = random(load.seed, context.thread());
    let mut early = Vec::new();
    if matches!(shape, Shape::Moving | Shape::Shrinking) {
        for _ in 0..load.workers_besides(EARLY) {
            let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
            let map = HashMap::open_or_create(worker.clone(), NAME, load.guidelines)?;
            (0..below(&mut random, LATE)).try_for_each(|_| worker.committed_frames().map(|_| ()))?;
            get(
                context,
                &map,
                log,
                keys[keys.len() - 1 - below(&mut random, NEW as u64) as usize],
            );
            early.push(map);
        }
    }
    let mut left = load.operations;
    while left > 0 {
        let stretch = if shape == Shape::Visits { left.min(2) } else { left };
        let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
        let map = HashMap::open_or_create(worker.clone(), NAME, load.guidelines)?;
        gathering.arrive(context);
        let mut holding = Holding::new(load.seed, context);
        for n in 0..stretch {
            let is_new = match shape {
                Shape::Growing => below(&mut random, 3) == 0,
                // In half of the runs: else there are fewer calls of the same key at a time.
                Shape::Removed => load.seed & 4 != 0 && below(&mut random, 3) == 0,
                Shape::Moving | Shape::Shrinking => below(&mut random, 3) != 0,
                Shape::Bucket | Shape::Visits => false,
            };
            let new = match shape {
                Shape::Removed => &keys[WANTED..],
                _ => keys.get(WANTED + FILLERS..).unwrap_or_default(),
            };
            let key = match is_new {
                true => new[below(&mut random, new.len() as u64) as usize],
                false => keys[below(&mut random, WANTED as u64) as usize],
            };
            let is_large = matches!(shape, Shape::Moving | Shape::Shrinking) && below(&mut random, 8) == 0;
            let large = if is_large { LARGE } else { 0 };
            let value = u64::from(context.thread()) << 32 | u64::from(load.operations - left + n + 1) | large;
            one_call(context, &map, log, &keys[..WANTED], (key, value), &mut random);
            holding.go_on(context, log, |number| {
                let key = keys[(number % WANTED as u64) as usize];
                answer(log, map.get(&key.to_le_bytes()))?
            });
            match below(&mut random, 8) {
                0 => collect::collect_all(&worker)?,
                1..=4 => collect::collect_now(&worker)?,
                _ => {}
            }
        }
        holding.give_back(context, log);
        if shape == Shape::Visits {
            use_others(
                &worker,
                u64::from(context.thread()) << 32 | u64::from(left),
                &mut random,
            )?;
        }
        left -= stretch;
    }
    Ok(())
}

/// Puts a new key into another map, which it opens only now: what the worker has allocated before lets it do so without
/// waiting for anything.
fn use_others<const C: bool>(
    worker: &Rc<Worker<SimMemory<C>>>,
    key: u64,
    random: &mut Xoshiro256PlusPlus,
) -> cenote::Result<()> {
    let (key, value) = (key.to_le_bytes(), bytes_of(0));
    match below(random, 2) {
        0 => HashMap::open_or_create(worker.clone(), OTHER, Guidelines::P3)?
            .put(&key, &value)
            .map(drop),
        _ => OrderedMap::open_or_create(worker.clone(), ORDERED, Guidelines::P3)?
            .put(&key, &value)
            .map(drop),
    }
}

fn one_call<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    log: &Log,
    wanted: &[u64],
    (key, value): (u64, u64),
    random: &mut Xoshiro256PlusPlus,
) {
    match below(random, 10) {
        0..=2 => put(context, map, log, key, value),
        3 => log.call(context, Op::Insert { key, value }, |_| {
            let inserted = map.insert(&key.to_le_bytes(), &bytes_of(value));
            answer(log, inserted).map(|inserted| if inserted { Ret::Inserted } else { Ret::Present })
        }),
        4 => {
            let expected = below(random, value & 0xffff_ffff) + (value & !0xffff_ffff);
            log.call(context, Op::Replace { key, expected, value }, |_| {
                let outcome = map.replace(&key.to_le_bytes(), &bytes_of(expected), &bytes_of(value));
                answer(log, outcome).map(|outcome| match outcome {
                    Replace::Replaced => Ret::Replaced,
                    Replace::Differs(found) => Ret::Differs(value_of(log, &found)),
                    Replace::Missing => Ret::Missing,
                })
            });
        }
        5 | 6 => remove(context, map, log, key),
        7 => get_many(context, map, log, &[key, wanted[0], wanted[1], wanted[2]]),
        _ => get(context, map, log, key),
    }
}

fn get_many<const C: bool>(context: &Context<C>, map: &HashMap<SimMemory<C>>, log: &Log, keys: &[u64]) {
    log.read_each(context, || {
        let wanted: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let mut calls = Vec::new();
        let outcome = map.get_many(&wanted, |n, value| {
            let found = value.map_or(Ret::Missing, |value| Ret::Found(value_of(log, value)));
            calls.push((
                ordered::Op::Point(Op::Get { key: keys[n] }),
                ordered::Ret::Point(found),
            ));
        });
        answer(log, outcome).map_or(Vec::new(), |()| calls)
    });
}

fn put<const C: bool>(context: &Context<C>, map: &HashMap<SimMemory<C>>, log: &Log, key: u64, value: u64) {
    log.call(context, Op::Put { key, value }, |_| {
        answer(log, map.put(&key.to_le_bytes(), &bytes_of(value))).map(|put| match put {
            Put::Inserted => Ret::Inserted,
            Put::Replaced => Ret::Replaced,
        })
    });
}

fn remove<const C: bool>(context: &Context<C>, map: &HashMap<SimMemory<C>>, log: &Log, key: u64) {
    log.call(context, Op::Remove { key }, |_| {
        answer(log, map.remove(&key.to_le_bytes()))
            .map(|removed| if removed { Ret::Removed } else { Ret::Missing })
    });
}

fn get<const C: bool>(context: &Context<C>, map: &HashMap<SimMemory<C>>, log: &Log, key: u64) {
    log.call(context, Op::Get { key }, |_| {
        let found = answer(log, map.get(&key.to_le_bytes()))?;
        Some(found.map_or(Ret::Missing, |value| Ret::Found(value_of(log, &value))))
    });
}

/// A call's answer. That the pool is full, or that a map in place cannot do this, is a right one, and then the call has
/// not happened.
pub(super) fn answer<R>(log: &Log, result: cenote::Result<R>) -> Option<R> {
    match result {
        Ok(result) => Some(result),
        Err(error) => {
            if !log.is_full(&error) && !matches!(error, Error::InPlace { .. }) {
                log.fault(format!("a call: {error}"));
            }
            None
        }
    }
}

/// A value's bytes: some of eight bytes, some of several lines, some that take a frame.
pub(super) fn bytes_of(value: u64) -> Vec<u8> {
    let copies = match value {
        _ if value & LARGE != 0 => 5000,
        _ if value.is_multiple_of(3) => 1 + value as usize % 17,
        _ => 1,
    };
    value.to_le_bytes().repeat(copies)
}

/// A value from its bytes; they must be whole.
pub(super) fn value_of(log: &Log, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let whole = bytes.len() >= 8;
    if whole {
        word.copy_from_slice(&bytes[..8]);
    }
    let value = u64::from_le_bytes(word);
    if !whole || bytes != bytes_of(value) {
        log.fault(format!("a torn value: {bytes:x?}"));
    }
    value
}

/// Reads everything, and accounts for every byte.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let (keys, log) = (&shared.keys.borrow()[..], &shared.log);
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let map = HashMap::open_or_create(worker.clone(), NAME, Guidelines::SP)?;
        let mut count = 0;
        map.for_each(|_, _| count += 1)?;
        if map.len() != count {
            log.fault(format!("the map counts {} keys and has {count}", map.len()));
        }
        for &key in keys {
            get(context, &map, log, key);
        }
        if shared.shape == Shape::Visits {
            count_others(&worker, log)?;
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}

/// Whether the maps that visitors open late count their keys rightly.
fn count_others<const C: bool>(worker: &Rc<Worker<SimMemory<C>>>, log: &Log) -> cenote::Result<()> {
    let mut counts = [0, 0];
    let other = HashMap::open_or_create(worker.clone(), OTHER, Guidelines::SP)?;
    other.for_each(|_, _| counts[0] += 1)?;
    let ordered = OrderedMap::open_or_create(worker.clone(), ORDERED, Guidelines::SP)?;
    ordered.for_each(|_, _| counts[1] += 1)?;
    for (says, has) in [other.len(), ordered.len()].into_iter().zip(counts) {
        if says != has {
            log.fault(format!(
                "a map that was opened late counts {says} keys and has {has}"
            ));
        }
    }
    Ok(())
}

/// Accounts for every byte of a pool that no other process has open. Returns how many are retired.
pub(super) fn account<const C: bool>(worker: &Rc<Worker<SimMemory<C>>>, log: &Log) -> cenote::Result<u64> {
    collect::collect_all(worker)?;
    let report = cenote::store::audit(worker, true, false)?;
    for problem in &report.problems {
        log.fault(format!("the pool: {problem}"));
    }
    log.account(Account {
        reachable: report.reachable_bytes + report.overhead_bytes + report.held_bytes,
        free: report.free_bytes + report.given_back_bytes,
        retired: report.retired_bytes,
        total: report.committed_bytes,
        unreachable: report.leaked.clone(),
    });
    Ok(report.retired_bytes)
}
