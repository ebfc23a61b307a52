//! Calls on maps of words, written down for the check of linearizability: what subjects of compared indexes share.

use std::cell::Cell;

use cenote::index::baseline::WordMap;
use cenote::{Error, Put};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Log, below, hash};
use crate::check::spec::map::{Op, Ret};
use crate::exec::{Context, SimMemory};

/// A call about a key, drawn. Whether it had an answer.
pub fn one_call<const C: bool, W: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &W,
    log: &Log,
    key: u64,
    value: u64,
    random: &mut Xoshiro256PlusPlus,
) -> bool {
    let is_lost = Cell::new(false);
    let lost = &is_lost;
    match below(random, 10) {
        0..=2 => put_or_lose(context, map, log, key, value, lost),
        3 => log.call(context, Op::Insert { key, value }, |_| {
            answer(log, map.insert_u64(key, value), lost)
                .map(|inserted| if inserted { Ret::Inserted } else { Ret::Present })
        }),
        4..=5 => log.call(context, Op::Remove { key }, |_| {
            answer(log, map.remove_u64(key), lost)
                .map(|removed| if removed { Ret::Removed } else { Ret::Missing })
        }),
        _ => get_or_lose(context, map, log, key, lost),
    }
    !is_lost.get()
}

/// Puts a key.
pub fn put<const C: bool, W: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &W,
    log: &Log,
    key: u64,
    value: u64,
) {
    put_or_lose(context, map, log, key, value, &Cell::default());
}

fn put_or_lose<const C: bool, W: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &W,
    log: &Log,
    key: u64,
    value: u64,
    lost: &Cell<bool>,
) {
    log.call(context, Op::Put { key, value }, |_| {
        answer(log, map.put_u64(key, value), lost).map(|put| match put {
            Put::Inserted => Ret::Inserted,
            Put::Replaced => Ret::Replaced,
        })
    });
}

/// Gets a key.
pub fn get<const C: bool, W: WordMap<SimMemory<C>>>(context: &Context<C>, map: &W, log: &Log, key: u64) {
    get_or_lose(context, map, log, key, &Cell::default());
}

fn get_or_lose<const C: bool, W: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &W,
    log: &Log,
    key: u64,
    lost: &Cell<bool>,
) {
    log.call(context, Op::Get { key }, |_| {
        let found = answer(log, map.get_u64(key), lost)?;
        Some(found.map_or(Ret::Missing, Ret::Found))
    });
}

/// A call's answer. That there is none is a right one where servers die: the call has happened or it has not.
fn answer<R>(log: &Log, result: cenote::Result<R>, lost: &Cell<bool>) -> Option<R> {
    match result {
        Err(Error::Unanswered) => {
            lost.set(true);
            None
        }
        other => hash::answer(log, other),
    }
}
