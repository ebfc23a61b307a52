//! An object store: threads make objects, seal them, replace and delete them, and hold views meanwhile; processes die
//! at any step, or end with what they have in hand. Bytes under a view must not change. In the end, what nobody is
//! answerable for must be gone. In one run of four objects are evicted too; then only the bytes are checked.

use std::rc::Rc;
use std::sync::Arc;

use cenote::index::common::outcome::Put;
use cenote::index::objects::{NewObject, ObjectSettings, ObjectStore, Sealed, Viewed};
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::hash::{LARGE, account, answer, bytes_of, value_of};
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::check::spec::map::{Op, Ret};
use crate::exec::{Context, Held, SimMemory};

const NAME: &str = "store";
/// Ids of objects.
const KEYS: u64 = 3;
/// Views that a thread holds, at most.
const VIEWS_MAX: usize = 3;
/// One of so many runs evicts.
const EVICTIONS: u64 = 4;

type Store<const C: bool> = ObjectStore<SimMemory<C>>;

/// What the subject's threads share.
struct Shared {
    load: Load,
    log: Log,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
    };
    let parts = Parts {
        prepare: |context, _: &Shared| {
            // The first process makes the store.
            Member::join(context, !C)?.leave(context);
            Ok(())
        },
        work,
        audit,
    };
    assemble(load, parameters, 4, log, shared, parts)
}

impl Shared {
    fn evicts(&self) -> bool {
        self.load.seed.is_multiple_of(EVICTIONS)
    }

    fn open<const C: bool>(&self, worker: &Rc<Worker<SimMemory<C>>>) -> cenote::Result<Store<C>> {
        let settings = ObjectSettings {
            evict: self.evicts(),
            ..ObjectSettings::default()
        };
        ObjectStore::open_or_create(worker.clone(), NAME, &settings, self.load.guidelines)
    }

    /// A call whose answer the checker is told, unless objects disappear by themselves.
    fn call<const C: bool>(&self, context: &Context<C>, op: Op, work: impl FnOnce() -> Option<Ret>) {
        match self.evicts() {
            true => drop(work()),
            false => self.log.call(context, op, |_| work()),
        }
    }
}

/// A view that a thread holds.
struct View {
    viewed: Viewed,
    held: Held,
    value: u64,
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let mut random = random(shared.load.seed, context.thread());
    let worker = Rc::new(Worker::attach(pod, shared.load.guidelines.replicate)?);
    let store = shared.open(&worker)?;
    let mut views = Vec::new();
    for n in 0..shared.load.operations {
        let one_in = if shared.evicts() { 2 } else { 8 };
        let large = if below(&mut random, one_in) == 0 { LARGE } else { 0 };
        let value = large | u64::from(context.thread()) << 32 | u64::from(n);
        let key = below(&mut random, KEYS);
        match below(&mut random, 12) {
            0..=3 => put(context, &store, shared, (key, value)),
            4 => replace(context, &store, shared, (key, value)),
            5 => abort(&store, shared, (key, value), below(&mut random, 3) > 0),
            6 | 7 => delete(context, &store, shared, key),
            8 if shared.evicts() => drop(answer(&shared.log, store.evict(1))),
            _ => views.extend(view(context, &store, shared, key)),
        }
        if views.len() > VIEWS_MAX || below(&mut random, 4) == 0 {
            end_one(context, &store, shared, &mut views, &mut random);
        }
    }
    // One in four threads ends with what it views: that is its process's until this ends.
    if below(&mut random, 4) > 0 {
        while !views.is_empty() {
            end_one(context, &store, shared, &mut views, &mut random);
        }
    }
    for View { held, .. } in views {
        context.release(held);
    }
    Ok(())
}

/// Makes and seals an object, unless there is one.
fn put<const C: bool>(context: &Context<C>, store: &Store<C>, shared: &Shared, (key, value): (u64, u64)) {
    let log = &shared.log;
    shared.call(context, Op::Insert { key, value }, || {
        let bytes = bytes_of(value);
        let id = key.to_le_bytes();
        let Some(object) = answer(log, store.make(&id, bytes.len() as u64, &NewObject::default()))? else {
            return Some(Ret::Present);
        };
        store.fill(&object, 0, &bytes);
        let sealed = answer(log, store.seal(object))?;
        Some(match sealed {
            Sealed::HasId => Ret::Inserted,
            Sealed::IdTaken => Ret::Present,
        })
    });
}

/// Makes and seals an object in the place of the one that is there.
fn replace<const C: bool>(context: &Context<C>, store: &Store<C>, shared: &Shared, (key, value): (u64, u64)) {
    let log = &shared.log;
    shared.call(context, Op::Put { key, value }, || {
        let bytes = bytes_of(value);
        let made = store.make_beside(&key.to_le_bytes(), bytes.len() as u64, &NewObject::default());
        let object = answer(log, made)?;
        store.fill(&object, 0, &bytes);
        let replaced = answer(log, store.seal_over(object))?;
        Some(match replaced {
            Put::Replaced => Ret::Replaced,
            Put::Inserted => Ret::Inserted,
        })
    });
}

/// Makes an object, and gives it up, or leaves it to its process.
fn abort<const C: bool>(store: &Store<C>, shared: &Shared, (key, value): (u64, u64), aborts: bool) {
    let bytes = bytes_of(value);
    let made = store.make_beside(&key.to_le_bytes(), bytes.len() as u64, &NewObject::default());
    if let Some(object) = answer(&shared.log, made) {
        store.fill(&object, 0, &bytes);
        match aborts {
            true => store.abort(object),
            false => std::mem::forget(object),
        }
    }
}

fn delete<const C: bool>(context: &Context<C>, store: &Store<C>, shared: &Shared, key: u64) {
    shared.call(context, Op::Remove { key }, || {
        let deleted = answer(&shared.log, store.delete(&key.to_le_bytes()))?;
        Some(if deleted { Ret::Removed } else { Ret::Missing })
    });
}

/// Views an object, and goes on to hold it.
fn view<const C: bool>(context: &Context<C>, store: &Store<C>, shared: &Shared, key: u64) -> Option<View> {
    let mut view = None;
    shared.call(context, Op::Get { key }, || {
        let Some(viewed) = answer(&shared.log, store.view(&key.to_le_bytes()))? else {
            return Some(Ret::Missing);
        };
        let mem = store.worker().mem();
        let held = context.hold(viewed.bytes(mem));
        let value = value_of(&shared.log, viewed.bytes(mem));
        view = Some(View { viewed, held, value });
        Some(Ret::Found(value))
    });
    view
}

/// Ends one of a thread's views, whose bytes are what they were.
fn end_one<const C: bool>(
    context: &Context<C>,
    store: &Store<C>,
    shared: &Shared,
    views: &mut Vec<View>,
    random: &mut Xoshiro256PlusPlus,
) {
    if views.is_empty() {
        return;
    }
    let chosen = below(random, views.len() as u64) as usize;
    let View { viewed, held, value } = views.swap_remove(chosen);
    let now = value_of(&shared.log, viewed.bytes(store.worker().mem()));
    if now != value {
        shared
            .log
            .fault(format!("an object that was viewed as {value:#x} is {now:#x}"));
    }
    context.release(held);
    store.end_view(viewed);
}

/// Reads everything, deletes it, and accounts for every byte.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let store = shared.open(&worker)?;
        for deletes in [false, true] {
            let found = store.audit_objects(|error| log.fault(format!("the store: {error}")))?;
            let may_be_left = shared.evicts() && shared.load.crashes > 0;
            if found.unnamed + found.lost > 0
                || !found.holders.is_empty()
                || found.evicted > 0 && !may_be_left
            {
                log.fault(format!("nobody uses the store any more, and it has {found:?}"));
            }
            account(&worker, log)?;
            for key in (0..KEYS).filter(|_| deletes) {
                delete(context, &store, shared, key);
            }
        }
        if shared.load.crashes > 0 {
            // Some have died while they evicted an object: the next eviction removes it.
            store.evict(u64::MAX)?;
            // Some have died before they subtracted what they removed.
            store.recount()?;
        }
        if store.bytes() != 0 {
            log.fault(format!("an empty store has {} bytes", store.bytes()));
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
