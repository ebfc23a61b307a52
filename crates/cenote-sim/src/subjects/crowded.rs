//! A hash map with values of mixed sizes, in a pool that is nearly full. That the pool is full is a right answer only if what is live, plus what is
//! stated here, leaves no room for the write:
//!
//! | what may be in the way | bound |
//! |---|---|
//! | live values, and those being written | the most that there was at a time since the call began |
//! | what a reader may hold | all that was unlinked since the oldest of those calls began that were not over when this one began; a call whose thread died never is |
//! | lists of the dead, whom nobody recovers here | all that they have unlinked |
//! | blocks of small objects, the index | as the pool's table has them after the refusal, and a few |
//! | ranges between which there is no room | after the refusal there is no run of twice what is wanted; what is retired counts as free there |
//!
//! Refusals of a file system that does not let the pool grow are not judged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hash::HashMap;
use cenote::pod::block::{Block, RangeState};
use cenote::pod::geometry::{Parameters, UNIT};
use cenote::pod::slab::table_word;
use cenote::pod::{Pod, Worker};
use cenote::{Error, Put};

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::{Member, is_full};
use super::{Load, Log, Scenario, below, random};
use crate::check::spec::map::{Op, Ret};
use crate::exec::{Context, SimMemory};

const NAME: &str = "map";
/// Keys of each thread. Nobody else writes them.
const KEYS: u64 = 4;
/// Bytes of values: small ones of three classes, and ranges.
const SIZES: [u64; 8] = [8, 200, 5_000, UNIT / 2 + 1, UNIT, UNIT + 1, 3 * UNIT, 5 * UNIT];
/// Units that live values may take, in parts of the pool.
const LIVE: (u64, u64) = (3, 5);
/// Blocks of small objects that others may have begun since the look at the table.
const BEGUN: u64 = 8;
/// Units that a pool begins with.
const UNITS: u64 = 4;

/// What the subject's threads share.
struct Shared {
    load: Load,
    log: Log,
    units_max: u64,
    gathering: Gathering,
    book: RefCell<Book>,
}

/// What is known of all values from outside the pool, in units.
#[derive(Default)]
struct Book {
    /// The value of each key, with what it takes.
    live: BTreeMap<u64, (u64, u64)>,
    /// What those take, and those that are being written.
    taken: u64,
    /// What was unlinked, when at the latest, and by whom.
    unlinked: Vec<(u64, u64, u32)>,
    /// Calls that are not over, by thread: when each began, and the most that was taken since then.
    calls: BTreeMap<u32, (u64, u64)>,
}

impl Book {
    fn begin(&mut self, thread: u32, step: u64, units: u64) -> u64 {
        let oldest = self.calls.values().map(|call| call.0).min().unwrap_or(step);
        self.taken += units;
        self.calls.insert(thread, (step, self.taken));
        for call in self.calls.values_mut() {
            call.1 = call.1.max(self.taken);
        }
        oldest
    }

    /// A call is over, and has left a value in the place of another; or none, or as it was. The most that was taken meanwhile.
    fn end(&mut self, thread: u32, step: u64, key: u64, units: u64, value: Option<Option<u64>>) -> u64 {
        match value {
            None => self.taken -= units,
            Some(value) => {
                let old = match value {
                    Some(value) => self.live.insert(key, (value, units)),
                    None => self.live.remove(&key),
                };
                let unlinked = old.map_or(0, |(_, units)| units);
                self.taken -= unlinked;
                self.unlinked.push((step, unlinked, thread));
            }
        }
        self.calls.remove(&thread).map_or(0, |(_, most)| most)
    }

    /// What waits for those who were in a call at some step, and for the dead.
    fn held(&self, since: u64, is_dead: impl Fn(u32) -> bool) -> u64 {
        let waits = |&&(step, _, thread): &&(u64, u64, u32)| step >= since || is_dead(thread);
        self.unlinked
            .iter()
            .filter(waits)
            .map(|&(_, units, _)| units)
            .sum()
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        units_max: parameters.max_units,
        gathering: Gathering::new(load.gathers),
        book: RefCell::default(),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, UNITS, log, shared, parts)
}

fn open<const C: bool>(
    worker: &Rc<Worker<SimMemory<C>>>,
    load: Load,
) -> cenote::Result<HashMap<SimMemory<C>>> {
    HashMap::open_or_create(worker.clone(), NAME, load.guidelines)
}

fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, shared.load.guidelines.replicate)?);
        open(&worker, shared.load)?.reserve(1)?;
    }
    member.leave(context);
    Ok(())
}

/// Units of a value of so many bytes, if it is a range.
fn units_of(len: u64) -> u64 {
    match len > UNIT / 2 {
        true => (len + 32).div_ceil(UNIT),
        false => 0,
    }
}

/// A value's bytes; the number says how many.
fn bytes_of(value: u64) -> Vec<u8> {
    let len = SIZES[(value % SIZES.len() as u64) as usize] as usize;
    let mut bytes = value.to_le_bytes().repeat(len.div_ceil(8));
    bytes.truncate(len);
    bytes
}

fn value_of(log: &Log, bytes: &[u8]) -> u64 {
    let word = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if bytes != bytes_of(word) {
        log.fault(format!(
            "a torn value of {} bytes that begins with {word:#x}",
            bytes.len()
        ));
    }
    word
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared { load, gathering, .. } = shared;
    let mut random = random(load.seed, context.thread());
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let map = open(&worker, *load)?;
    gathering.arrive(context);
    for n in 0..load.operations {
        let key = u64::from(context.thread()) << 32 | below(&mut random, KEYS);
        match below(&mut random, 10) {
            0..=6 => {
                let number = u64::from(context.thread()) << 24 | u64::from(n);
                let value = number * SIZES.len() as u64 + below(&mut random, SIZES.len() as u64);
                put(context, &map, shared, key, value)?;
            }
            7 | 8 => remove(context, &map, shared, key)?,
            _ => get(context, &map, shared, key)?,
        }
    }
    Ok(())
}

fn put<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    shared: &Shared,
    key: u64,
    value: u64,
) -> cenote::Result<()> {
    let Shared {
        log, book, units_max, ..
    } = shared;
    let bytes = bytes_of(value);
    let units = units_of(bytes.len() as u64);
    if book.borrow().taken + units > units_max * LIVE.0 / LIVE.1 {
        return remove(context, map, shared, key);
    }
    let thread = context.thread();
    let oldest = book.borrow_mut().begin(thread, context.step(), units);
    let mut outcome = Ok(());
    log.call(context, Op::Put { key, value }, |_| {
        match map.put(&key.to_le_bytes(), &bytes) {
            Ok(Put::Inserted) => Some(Ret::Inserted),
            Ok(Put::Replaced) => Some(Ret::Replaced),
            Err(error) => {
                outcome = Err(error);
                None
            }
        }
    });
    let step = context.step();
    let value = outcome.is_ok().then_some(Some(value));
    let most = book.borrow_mut().end(thread, step, key, units, value);
    match outcome {
        Err(error) if is_full(&error) => judge(context, map.worker(), shared, &error, units, (oldest, most)),
        outcome => outcome,
    }
}

/// Whether there was room for a write that was refused.
fn judge<const C: bool>(
    context: &Context<C>,
    worker: &Worker<SimMemory<C>>,
    shared: &Shared,
    error: &Error,
    units: u64,
    (oldest, most): (u64, u64),
) -> cenote::Result<()> {
    let held = shared
        .book
        .borrow()
        .held(oldest, |thread| context.was_killed(thread));
    let (small, longest) = look(worker, shared.units_max)?;
    // `most` has what was wanted.
    let used = most + held + small + BEGUN;
    let wanted = units.max(4);
    if context.refusals() == 0 && used <= shared.units_max && longest >= 2 * wanted {
        shared.log.fault(format!(
            "{error}: {units} units were refused of {}; at most {most} were live or being written, {held} held, {small} of small objects, \
             and {longest} lie together",
            shared.units_max
        ));
    }
    Ok(())
}

/// Units of blocks of small objects, and of the longest run of others in which nothing has to stay.
fn look<const C: bool>(worker: &Worker<SimMemory<C>>, units_max: u64) -> cenote::Result<(u64, u64)> {
    let units = worker.committed_units()?;
    let (mut unit, mut run, mut longest, mut small) = (0, units_max - units, 0, 0);
    longest = longest.max(run);
    run = 0;
    while unit < units {
        let block = Block::decode(table_word(worker, unit).load(worker.mem()));
        let (len, is_free) = match block {
            Block::Free => (1, true),
            Block::Hole { order, .. } => (1 << order, true),
            Block::Range { units, state, .. } => (u64::from(units).max(1), state == RangeState::Retired),
            _ => {
                small += 1;
                (1, false)
            }
        };
        unit += len;
        run = if is_free { run + len } else { 0 };
        longest = longest.max(run);
    }
    Ok((small, longest))
}

fn remove<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    shared: &Shared,
    key: u64,
) -> cenote::Result<()> {
    let Shared { log, book, .. } = shared;
    let thread = context.thread();
    book.borrow_mut().begin(thread, context.step(), 0);
    let mut outcome = Ok(());
    log.call(context, Op::Remove { key }, |_| {
        match map.remove(&key.to_le_bytes()) {
            Ok(true) => Some(Ret::Removed),
            Ok(false) => Some(Ret::Missing),
            Err(error) => {
                outcome = Err(error);
                None
            }
        }
    });
    let value = outcome.is_ok().then_some(None);
    book.borrow_mut().end(thread, context.step(), key, 0, value);
    outcome
}

fn get<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    shared: &Shared,
    key: u64,
) -> cenote::Result<()> {
    let Shared { log, book, .. } = shared;
    let thread = context.thread();
    book.borrow_mut().begin(thread, context.step(), 0);
    let mut outcome = Ok(());
    log.call(context, Op::Get { key }, |_| match map.get(&key.to_le_bytes()) {
        Ok(found) => Some(found.map_or(Ret::Missing, |value| Ret::Found(value_of(log, &value)))),
        Err(error) => {
            outcome = Err(error);
            None
        }
    });
    book.borrow_mut().end(thread, context.step(), key, 0, None);
    outcome
}

/// Reads everything, and accounts for every byte.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let map = open(&worker, shared.load)?;
        let mut found = BTreeMap::new();
        map.for_each(|key, value| {
            let key = key.first_chunk().map_or(0, |key| u64::from_le_bytes(*key));
            found.insert(key, value_of(log, value));
        })?;
        let keys: Vec<u64> = shared.book.borrow().live.keys().copied().collect();
        for key in keys.into_iter().chain(found.into_keys()) {
            get(context, &map, shared, key)?;
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
