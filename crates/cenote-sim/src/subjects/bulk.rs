//! Calls on the ordered map that are about several keys: pairs that are put together, and searches for the neighbours
//! of a key, both ways, while leaves are split and merged.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::hash::{answer, value_of};
use super::ordered::{Map, Shape, get, inspect, neighbour, remove};
use super::{Log, below};
use crate::check::spec::ordered::{Op, Ret};
use crate::exec::Context;

const SHAPE: Shape = Shape::Bulk;
/// Pairs that are put together, at most. More at a time would leave the checker too many orders.
const TOGETHER: u64 = 3;

/// One call.
pub fn call<const C: bool>(
    context: &Context<C>,
    map: &Map<C>,
    log: &Log,
    value: u64,
    random: &mut Xoshiro256PlusPlus,
) {
    let key = SHAPE.any_key(random);
    match below(random, 12) {
        0..=2 => put_all(context, map, log, (key, value), random),
        3..=5 => remove(context, map, SHAPE, log, key),
        6 => {
            // What is there: a leaf becomes empty sooner.
            if let Some(last) = before(context, map, log, u64::MAX) {
                remove(context, map, SHAPE, log, last);
            }
        }
        7 | 8 => drop(before(context, map, log, key)),
        9 => neighbour(context, map, SHAPE, log, key),
        10 => inspect(context, map, SHAPE, log, key),
        _ => get(context, map, SHAPE, log, key),
    }
}

/// Puts pairs from a key on, some of them behind gaps; most of 8 bytes, which are put together.
fn put_all<const C: bool>(
    context: &Context<C>,
    map: &Map<C>,
    log: &Log,
    (key, value): (u64, u64),
    random: &mut Xoshiro256PlusPlus,
) {
    let count = 1 + below(random, TOGETHER);
    let step = 1 + below(random, 8);
    let pairs: Vec<(u64, u64)> = (0..count).map(|n| (key + n * step, value)).collect();
    log.write_each(context, &pairs, || {
        let bytes = pairs
            .iter()
            .map(|(key, value)| (SHAPE.bytes(*key), super::hash::bytes_of(*value)));
        let new = answer(log, map.put_all(bytes));
        if new.is_some_and(|new| new > count) {
            log.fault(format!("{new:?} new keys of {count}"));
        }
        new.is_some()
    });
}

/// The greatest key below one.
fn before<const C: bool>(context: &Context<C>, map: &Map<C>, log: &Log, key: u64) -> Option<u64> {
    let mut greatest = None;
    log.call_any(context, Op::Before { key }, |_| {
        let found = answer(log, map.predecessor(&SHAPE.bytes(key)))?;
        let pair = found.map(|(key, value)| (SHAPE.key(&key, log), value_of(log, &value)));
        greatest = pair.map(|(key, _)| key);
        Some(Ret::Scan(pair.into_iter().collect()))
    });
    greatest
}
