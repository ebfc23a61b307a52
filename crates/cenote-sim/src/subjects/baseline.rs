//! Indexes made for comparison, and indexes of others' own: calls on few keys, written down for the check of
//! linearizability, with nodes that are nearly full when the threads begin.

use std::rc::Rc;
use std::sync::Arc;

use cenote::index::baseline::WordMap;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};
use cenote::{Error, Put};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::check::spec::map::{Op, Ret};
use crate::check::spec::ordered;
use crate::exec::{Context, SimMemory};

const NAME: &str = "map";
/// Records that an index is made for.
const RECORDS: u64 = 64;
/// Frames that the pool begins with: an arena's spare chunks are four.
const FRAMES: u64 = 8;
/// Keys that are put before the run: some next to each other, some that differ in their highest bytes.
const FILLERS: u64 = 18;
/// How many different keys calls are about.
const WANTED: u64 = 10;

/// A key by its number: even ones are there at first.
fn key_of(n: u64) -> u64 {
    match n % 4 {
        0 | 1 => n << 1,
        2 => n << 57,
        _ => n << 30 | 1,
    }
}

/// What all threads of a run share.
struct Shared {
    load: Load,
    log: Log,
    gathering: Gathering,
}

pub fn scenario<const C: bool, I: WordMap<SimMemory<C>> + 'static>(
    load: Load,
    parameters: Parameters,
) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
    };
    let parts = Parts {
        prepare: |context, shared: &Shared| prepare::<C, I>(context, shared.load, &shared.log),
        work: work::<C, I>,
        audit: |context, shared| audit::<C, I>(context, shared.load, &shared.log),
    };
    assemble(load, parameters, FRAMES, log, shared, parts)
}

fn open<const C: bool, I: WordMap<SimMemory<C>>>(
    pod: &Arc<Pod<SimMemory<C>>>,
    load: Load,
) -> cenote::Result<(Rc<Worker<SimMemory<C>>>, I)> {
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let map = I::open_or_create(worker.clone(), NAME, load.guidelines, RECORDS)?;
    Ok((worker, map))
}

fn prepare<const C: bool, I: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    load: Load,
    log: &Log,
) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
    {
        let (_, map) = open::<C, I>(&member.pod, load)?;
        for n in 0..FILLERS {
            put(context, &map, log, key_of(2 * n), 1);
        }
    }
    member.leave(context);
    Ok(())
}

fn work<const C: bool, I: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared { load, log, gathering } = shared;
    let mut random = random(load.seed, context.thread());
    // Where the calls are, so that it is not always the same node that is full.
    let first = load.seed % (2 * FILLERS);
    let (_, map) = open::<C, I>(pod, *load)?;
    gathering.arrive(context);
    for n in 1..=load.operations {
        let value = u64::from(context.thread()) << 32 | u64::from(n);
        let key = key_of(first + below(&mut random, WANTED));
        one_call(context, &map, log, key, value, &mut random);
    }
    Ok(())
}

fn one_call<const C: bool, I: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &I,
    log: &Log,
    key: u64,
    value: u64,
    random: &mut Xoshiro256PlusPlus,
) {
    match below(random, 10) {
        0..=2 => put(context, map, log, key, value),
        3 | 4 => log.call(context, Op::Insert { key, value }, |_| {
            let inserted = answer(log, map.insert_u64(key, value))?;
            Some(if inserted { Ret::Inserted } else { Ret::Present })
        }),
        5 | 6 => log.call(context, Op::Remove { key }, |_| {
            let removed = answer(log, map.remove_u64(key))?;
            Some(if removed { Ret::Removed } else { Ret::Missing })
        }),
        _ => get(context, map, log, key),
    }
}

fn put<const C: bool, I: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &I,
    log: &Log,
    key: u64,
    value: u64,
) {
    log.call(context, Op::Put { key, value }, |_| {
        Some(match answer(log, map.put_u64(key, value))? {
            Put::Inserted => Ret::Inserted,
            Put::Replaced => Ret::Replaced,
        })
    });
}

fn get<const C: bool, I: WordMap<SimMemory<C>>>(context: &Context<C>, map: &I, log: &Log, key: u64) {
    log.call(context, Op::Get { key }, |_| {
        Some(answer(log, map.get_u64(key))?.map_or(Ret::Missing, Ret::Found))
    });
}

/// A call's answer. An arena that is full is a right one, and then the call has not happened.
fn answer<R>(log: &Log, result: cenote::Result<R>) -> Option<R> {
    match result {
        Ok(result) => return Some(result),
        Err(Error::Full { .. }) => {}
        Err(error) => log.fault(format!("a call: {error}")),
    }
    None
}

/// Reads everything, and accounts for every byte of the pool.
fn audit<const C: bool, I: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    load: Load,
    log: &Log,
) -> cenote::Result<()> {
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let (worker, map) = open::<C, I>(&member.pod, load)?;
        if I::IS_ORDERED {
            log.read_several(context, || {
                let mut pairs = Vec::new();
                let scanned = map.scan_u64(0, |key, value| {
                    pairs.push((key, value));
                    true
                });
                answer(log, scanned)?;
                let (from, limit) = (0, u64::MAX);
                Some((ordered::Op::Scan { from, limit }, ordered::Ret::Scan(pairs)))
            });
        }
        // Writes too: they finish what others have left.
        for n in 0..2 * FILLERS + WANTED {
            get(context, &map, log, key_of(n));
            put(context, &map, log, key_of(n), n);
            get(context, &map, log, key_of(n));
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
