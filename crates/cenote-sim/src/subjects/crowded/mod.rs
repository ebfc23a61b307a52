//! A hash map with values of mixed sizes, in a pool that is nearly full. That the pool is full is a right answer only
//! if what is live, plus what is stated here, leaves no room for the write:
//!
//! | what may be in the way | bound |
//! |---|---|
//! | live values, and those being written | the most that there was at a time since the call began |
//! | what is retired | what was retired when the call began, and what was unlinked since. On coherent memory only a part of that: what was unlinked since the begin of the oldest call that was running then, what threads that hold a value may hold back, and the lists of the dead, which are not recovered here |
//! | blocks of small objects, the index | as the pool's table has them at the refusal, without empty blocks that belong to nobody or to the caller; and a few |
//! | extents between which there is no room | at the refusal no run of free frames is twice as long as what is wanted; what is retired counts as free there if no reader can hold it |
//!
//! On incoherent memory what is retired waits for a flush round of all hosts, which may not come while a call waits.
//! But then the call has waited: where only garbage took the room and no process has died, a refusal after fewer waits
//! than [`WAITS`] is wrong, however much is held. Refusals by a file system that does not let the pool grow are not
//! judged.

mod book;
mod snapshot;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use book::{Book, Call};
use cenote::index::hash::HashMap;
use cenote::pod::format::geometry::{FRAME, Parameters};
use cenote::pod::format::superblock::EPOCH;
use cenote::pod::{Pod, Worker};
use cenote::{Error, Put};
use snapshot::Snapshot;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::holding::Holding;
use super::pool::{Member, is_full};
use super::{Load, Log, Scenario, below, random};
use crate::check::spec::map::{Op, Ret};
use crate::exec::{Context, SimMemory};

const NAME: &str = "map";
/// Keys of each thread. Nobody else writes them.
const KEYS: u64 = 4;
/// Bytes of values: small ones of three classes, and extents.
const SIZES: [u64; 8] = [
    8,
    200,
    5_000,
    FRAME / 2 + 1,
    FRAME,
    FRAME + 1,
    3 * FRAME,
    5 * FRAME,
];
/// Frames that live values may take, in parts of the pool.
const LIVE: (u64, u64) = (3, 5);
/// Frames of small objects that may have been given back since the refusal, and of chunks of lists.
const BEGUN: u64 = 8;
/// Frames of the largest block of small objects.
const BLOCK_MAX: u64 = 4;
/// One call in so many comes after so many waits, after which what the thread has retired must be in no other thread's
/// way.
const IDLE: (u64, u32) = (8, 4_000);
/// A write that waits for garbage rests 64 times at least, each for some of these; one that sees too little garbage
/// scans three times.
const WAITS: u64 = 1_000;
/// Frames that a pool begins with.
const FRAMES: u64 = 4;

/// What the subject's threads share.
struct Shared {
    load: Load,
    log: Log,
    frames_max: u64,
    gathering: Gathering,
    book: RefCell<Book>,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        frames_max: parameters.max_frames,
        gathering: Gathering::new(load.gathers),
        book: RefCell::default(),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, FRAMES, log, shared, parts)
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

/// Frames of a value of so many bytes, if it is an extent.
fn frames_of(len: u64) -> u64 {
    match len > FRAME / 2 {
        true => (len + 32).div_ceil(FRAME),
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
    let mut holding = Holding::new(load.seed, context);
    for n in 0..load.operations {
        hold(context, &map, shared, &mut holding);
        if below(&mut random, IDLE.0) == 0 {
            (0..IDLE.1).for_each(|_| context.wait());
        }
        let key = u64::from(context.thread()) << 32 | below(&mut random, KEYS);
        let what = below(&mut random, 10);
        if what < 9 {
            // Otherwise a write would wait in vain for what its own thread holds back.
            let_go(context, shared, &mut holding);
        }
        match what {
            0..=6 => {
                let number = u64::from(context.thread()) << 24 | u64::from(n);
                let value = number * SIZES.len() as u64 + below(&mut random, SIZES.len() as u64);
                put(context, &map, shared, key, value)?;
            }
            7 | 8 => remove(context, &map, shared, key)?,
            _ => get(context, &map, shared, key)?,
        }
    }
    let_go(context, shared, &mut holding);
    Ok(())
}

/// Has the thread hold nothing.
fn let_go<const C: bool>(context: &Context<C>, shared: &Shared, holding: &mut Holding<'_, C>) {
    holding.give_back(context, &shared.log);
    shared.book.borrow_mut().hold(context.thread(), None);
}

/// Has the thread hold one of its values until it writes, now and then.
fn hold<'m, const C: bool>(
    context: &Context<C>,
    map: &'m HashMap<SimMemory<C>>,
    shared: &Shared,
    holding: &mut Holding<'m, C>,
) {
    let thread = context.thread();
    let epoch = epoch(context);
    holding.go_on(context, &shared.log, |number| {
        // Before the search for it: it is held from some moment of the search on.
        shared.book.borrow_mut().hold(thread, Some(epoch));
        let key = (u64::from(thread) << 32) | (number % KEYS);
        map.get(&key.to_le_bytes()).ok().flatten()
    });
    if !holding.holds() {
        shared.book.borrow_mut().hold(thread, None);
    }
}

/// The epoch, or one that is over.
fn epoch<const C: bool>(context: &Context<C>) -> u64 {
    context.peek(EPOCH.offset()) >> 1
}

fn put<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    shared: &Shared,
    key: u64,
    value: u64,
) -> cenote::Result<()> {
    let bytes = bytes_of(value);
    let frames = frames_of(bytes.len() as u64);
    if shared.book.borrow().taken() + frames > shared.frames_max * LIVE.0 / LIVE.1 {
        return remove(context, map, shared, key);
    }
    call(context, map, shared, Op::Put { key, value }, frames, || {
        Ok(match map.put(&key.to_le_bytes(), &bytes)? {
            Put::Inserted => Ret::Inserted,
            Put::Replaced => Ret::Replaced,
        })
    })
}

fn remove<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    shared: &Shared,
    key: u64,
) -> cenote::Result<()> {
    call(context, map, shared, Op::Remove { key }, 0, || {
        Ok(match map.remove(&key.to_le_bytes())? {
            true => Ret::Removed,
            false => Ret::Missing,
        })
    })
}

fn get<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    shared: &Shared,
    key: u64,
) -> cenote::Result<()> {
    call(context, map, shared, Op::Get { key }, 0, || {
        let found = map.get(&key.to_le_bytes())?;
        Ok(found.map_or(Ret::Missing, |value| Ret::Found(value_of(&shared.log, &value))))
    })
}

/// Makes a call that writes a value of so many frames, writes it down, and judges it if it was refused.
fn call<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    shared: &Shared,
    op: Op,
    frames: u64,
    work: impl FnOnce() -> cenote::Result<Ret>,
) -> cenote::Result<()> {
    let Shared {
        log,
        book,
        frames_max,
        ..
    } = shared;
    let thread = context.thread();
    let before = Snapshot::take(context, map.worker(), *frames_max);
    book.borrow_mut().begin(
        thread,
        context.step(),
        frames,
        &before,
        context.refusals(),
        context.waits(),
    );
    let mut outcome = Ok(());
    log.call(context, op.clone(), |_| {
        work().map_err(|error| outcome = Err(error)).ok()
    });
    let mut book = book.borrow_mut();
    match (outcome, op) {
        (Ok(()), Op::Put { key, .. }) => {
            book.end(thread, (context.step(), epoch(context)), key, Some(frames))
        }
        (Ok(()), Op::Remove { key }) => book.end(thread, (context.step(), epoch(context)), key, None),
        (outcome, _) => {
            let call = book.end_unchanged(thread, frames);
            match (outcome, call) {
                (Err(error), Some(call)) if is_full(&error) => {
                    judge(context, map.worker(), shared, &book, &call, &error, frames)
                }
                (outcome, _) => return outcome,
            }
        }
    }
    Ok(())
}

/// Whether there was room for a write that was refused.
fn judge<const C: bool>(
    context: &Context<C>,
    worker: &Worker<SimMemory<C>>,
    shared: &Shared,
    book: &Book,
    call: &Call,
    error: &Error,
    frames: u64,
) {
    let now = Snapshot::take(context, worker, shared.frames_max);
    let held = book.held(call, !C, |thread| context.was_killed(thread));
    // Others may have made room after the call's last attempt: so it must have been there before.
    let (free, with_retired) = now.longest();
    let (free, with_retired) = (free.min(call.longest.0), with_retired.min(call.longest.1));
    let longest = match C && call.began_alone() {
        true => with_retired,
        false => free,
    };
    if context.refusals() != call.refusals {
        return;
    }
    let waited = context.waits() - call.waits;
    let lies_together = with_retired >= 2 * frames.max(BLOCK_MAX);
    if !context.was_anybody_killed()
        && waited < WAITS
        && call.most + now.small + BEGUN <= shared.frames_max
        && lies_together
    {
        shared.log.fault(format!(
            "{error}: {frames} frames were refused of {} after {waited} waits; at most {} were live or being written, {} of small objects, and with what \
             is retired {with_retired} lie together",
            shared.frames_max, call.most, now.small
        ));
    }
    // The most has what was wanted.
    let used = call.most + held + now.small + BEGUN;
    if used <= shared.frames_max && longest >= 2 * frames.max(BLOCK_MAX) {
        shared.log.fault(format!(
            "{error}: {frames} frames were refused of {}; at most {} were live or being written, {held} held, {} of small objects, and \
             {longest} lie together",
            shared.frames_max, call.most, now.small
        ));
    }
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
        let keys: Vec<u64> = shared.book.borrow().keys();
        for key in keys.into_iter().chain(found.into_keys()) {
            get(context, &map, shared, key)?;
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
