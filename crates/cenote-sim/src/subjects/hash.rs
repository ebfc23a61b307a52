//! The hash map: calls on few keys, written down for the check of linearizability. Who dies and is recovered, what is
//! allocated, retired and reused, is along with it; the account at the end says whether anything was lost on the way.

use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hash::HashMap;
use cenote::index::hash::level::Level;
use cenote::pod::{Pod, Worker, retire};
use cenote::{Guidelines, Put, Replace};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::pool::{Member, format, is_full, parameters};
use super::{Load, Log, Scenario, below, random};
use crate::check::leak::Account;
use crate::check::spec::map::{Op, Ret};
use crate::exec::{Context, SimMemory};

/// What the map is like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All keys in one group: a few lines that everybody wants.
    Bucket,
    /// So many chain lines that the next ones make it grow.
    Growing,
    /// Every thread opens the pool anew for every few calls.
    Visits,
}

const NAME: &str = "map";
/// Keys that the calls are about.
const WANTED: usize = 3;
/// Keys that are put before the run so that a map of one unit is about to grow: chain lines of seven keys.
const FILLERS: usize = 15 + 7 * 7;
/// Keys that make it grow.
const NEW: usize = 12;
/// Units that a pool begins with.
const UNITS: u64 = 6;

pub fn scenario<const C: bool>(load: Load, shape: Shape, units_max: u64) -> Scenario<C> {
    let log = Log::default();
    let keys = Rc::new(std::cell::RefCell::new(Vec::new()));
    let parameters = parameters(C, units_max);
    Scenario {
        prepare: {
            let (log, keys) = (log.clone(), keys.clone());
            Box::new(move |context| {
                log.check("formatting", format(&context, parameters, UNITS));
                log.check("preparing", prepare(&context, load, shape, &log, &keys));
            })
        },
        body: {
            let (log, keys) = (log.clone(), keys.clone());
            Rc::new(move |context: Context<C>| {
                let Some(member) = log.check("joining", Member::join(&context, !C)) else {
                    return;
                };
                for _ in 0..load.threads {
                    let (log, keys) = (log.clone(), keys.borrow().clone());
                    member.spawn(&context, move |context, pod| {
                        log.check("working", work(&context, &pod, load, shape, &keys, &log));
                    });
                }
                member.leave(&context);
            })
        },
        audit: {
            let log = log.clone();
            Box::new(move |context| {
                log.check("auditing", audit(&context, &keys.borrow(), &log));
            })
        },
        log,
    }
}

/// Makes the map, and finds keys that share a group.
fn prepare<const C: bool>(
    context: &Context<C>,
    load: Load,
    shape: Shape,
    log: &Log,
    keys: &std::cell::RefCell<Vec<u64>>,
) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, load.guidelines.replicate)?);
        let map = HashMap::open_or_create(worker, NAME, load.guidelines)?;
        map.reserve(1)?;
        // A map of one unit: which keys share a group of it can be told without looking.
        let level = Level::new(0, 0);
        let sharing: Vec<u64> = (0..)
            .filter(|key: &u64| level.group_of(map.hash_of(&key.to_le_bytes())) == 0)
            .take(WANTED + FILLERS + NEW)
            .collect();
        if shape == Shape::Growing {
            for &key in &sharing[WANTED..WANTED + FILLERS] {
                put(context, &map, log, key, 1);
            }
        }
        *keys.borrow_mut() = sharing;
    }
    member.leave(context);
    Ok(())
}

/// One thread's calls.
fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    load: Load,
    shape: Shape,
    keys: &[u64],
    log: &Log,
) -> cenote::Result<()> {
    let mut random = random(load.seed, context.thread());
    let mut left = load.operations;
    while left > 0 {
        let stretch = if shape == Shape::Visits { left.min(2) } else { left };
        let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
        let map = HashMap::open_or_create(worker.clone(), NAME, load.guidelines)?;
        for n in 0..stretch {
            let is_new = shape == Shape::Growing && below(&mut random, 3) == 0;
            let key = match is_new {
                true => keys[WANTED + FILLERS + below(&mut random, NEW as u64) as usize],
                false => keys[below(&mut random, WANTED as u64) as usize],
            };
            let value = u64::from(context.thread()) << 32 | u64::from(load.operations - left + n + 1);
            one_call(context, &map, log, key, value, &mut random);
            if below(&mut random, 8) == 0 {
                retire::collect_all(&worker)?;
            }
        }
        left -= stretch;
    }
    Ok(())
}

fn one_call<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    log: &Log,
    key: u64,
    value: u64,
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
        5 | 6 => log.call(context, Op::Remove { key }, |_| {
            answer(log, map.remove(&key.to_le_bytes()))
                .map(|removed| if removed { Ret::Removed } else { Ret::Missing })
        }),
        7 => log.call(context, Op::Get { key }, |_| {
            let mut found = None;
            answer(
                log,
                map.get_many(&[key.to_le_bytes()], |_, value| {
                    found = value.map(|value| value_of(log, value))
                }),
            )?;
            Some(found.map_or(Ret::Missing, Ret::Found))
        }),
        _ => get(context, map, log, key),
    }
}

fn put<const C: bool>(context: &Context<C>, map: &HashMap<SimMemory<C>>, log: &Log, key: u64, value: u64) {
    log.call(context, Op::Put { key, value }, |_| {
        answer(log, map.put(&key.to_le_bytes(), &bytes_of(value))).map(|put| match put {
            Put::Inserted => Ret::Inserted,
            Put::Replaced => Ret::Replaced,
        })
    });
}

fn get<const C: bool>(context: &Context<C>, map: &HashMap<SimMemory<C>>, log: &Log, key: u64) {
    log.call(context, Op::Get { key }, |_| {
        let found = answer(log, map.get(&key.to_le_bytes()))?;
        Some(found.map_or(Ret::Missing, |value| Ret::Found(value_of(log, &value))))
    });
}

/// A call's answer; a full pool is one of the right ones, and then the call has not happened.
fn answer<R>(log: &Log, result: cenote::Result<R>) -> Option<R> {
    match result {
        Ok(result) => Some(result),
        Err(error) => {
            if !is_full(&error) {
                log.fault(format!("a call: {error}"));
            }
            None
        }
    }
}

/// A value's bytes: some of eight bytes, some of several lines.
fn bytes_of(value: u64) -> Vec<u8> {
    let copies = if value.is_multiple_of(3) {
        1 + value as usize % 17
    } else {
        1
    };
    value.to_le_bytes().repeat(copies)
}

/// A value from its bytes; they must be whole.
fn value_of(log: &Log, bytes: &[u8]) -> u64 {
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
fn audit<const C: bool>(context: &Context<C>, keys: &[u64], log: &Log) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
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
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}

/// Accounts for every byte of a pool that nobody else has open.
pub(super) fn account<const C: bool>(worker: &Rc<Worker<SimMemory<C>>>, log: &Log) -> cenote::Result<()> {
    retire::collect_all(worker)?;
    let report = cenote::store::audit(worker, false)?;
    for problem in &report.problems {
        log.fault(format!("the pool: {problem}"));
    }
    log.account(Account {
        reachable: report.reachable_bytes + report.overhead_bytes + report.held_bytes,
        free: report.free_bytes,
        retired: report.retired_bytes,
        total: report.committed_bytes,
        unreachable: report.leaked.clone(),
    });
    Ok(())
}
