//! A semaphore. Threads ask for permits, with long and short timeouts, hold several at a time, leave notes, and die
//! anywhere.
//!
//! No two living threads have the same permit. A thread that gets a permit of a dead one is notified, with the note,
//! and no other thread is. In the end all permits can be acquired, and every slot is at rest. In some runs the
//! semaphore's name is removed meanwhile: then no thread waits for ever. In some a thread looks who has permits: of its
//! own it must see each.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};
use cenote::sync::inspect::inspect;
use cenote::sync::object::{LockKind, Object};
use cenote::sync::semaphore::Permit;
use cenote::sync::{Semaphore, Timeout};
use cenote::{Acquired, Error, Owner};

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::slots::all_at_rest;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};

const NAME: &str = "semaphore";
/// Most steps that an owner does nothing.
const PAUSES: u64 = 6;
/// In one of so many runs one thread looks who has permits: it reads all that there may be.
const INSPECTS_EACH: u64 = 16;

/// A permit's holder, as far as is known outside the machine.
#[derive(Clone, Copy)]
struct Holder {
    thread: u32,
    worker: Owner,
    /// The note that it left, and the one that it is about to leave.
    notes: [u64; 2],
    /// Whether it gives the permit back.
    ends: bool,
}

struct Shared {
    load: Load,
    log: Log,
    gathering: Gathering,
    permits: u32,
    holders: RefCell<BTreeMap<u32, Holder>>,
    /// Threads by their workers.
    threads: RefCell<BTreeMap<(u32, u32), u32>>,
    /// Whether its name is being removed.
    is_removed: Cell<bool>,
    /// Whether that was acknowledged.
    is_gone: Cell<bool>,
    /// Whether a thread is still to look who has permits.
    is_to_look: Cell<bool>,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
        permits: 1 + (load.seed / 3 % 3) as u32,
        holders: RefCell::default(),
        threads: RefCell::default(),
        is_removed: Cell::new(false),
        is_gone: Cell::new(false),
        is_to_look: Cell::new(load.seed % INSPECTS_EACH == 3),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        Semaphore::open_or_create(worker, NAME, shared.permits)?;
    }
    member.leave(context);
    Ok(())
}

impl Shared {
    fn begins<const C: bool>(&self, context: &Context<C>, me: Owner, permit: &Permit<'_, SimMemory<C>>) {
        let n = permit.number();
        let before = self.holders.borrow().get(&n).copied();
        if n >= self.permits {
            self.log.fault(format!("permit {n} of {}", self.permits));
        }
        match (before, permit.acquired()) {
            (Some(before), _) if !before.ends && !context.was_killed(before.thread) => self.log.fault(
                format!("permit {n} was given to {me:?} while {:?} has it", before.worker),
            ),
            (Some(before), Acquired::Recovered { from, note })
                if from == before.worker && !before.notes.contains(&note) && !(before.ends && note == 0) =>
            {
                self.log.fault(format!(
                    "the thread that gets permit {n} is notified of {from:?} with note {note}, and it had left {:?}",
                    before.notes
                ));
            }
            (Some(before), Acquired::Clean) if !before.ends => self.log.fault(format!(
                "the thread that gets permit {n} is not notified that {:?} died with it",
                before.worker
            )),
            // A holder that died before it knew that it had the permit.
            (before, Acquired::Recovered { from, .. })
                if before.is_none_or(|before| before.worker != from) && !self.was_killed(context, from) =>
            {
                self.log.fault(format!(
                    "the thread that gets permit {n} is notified of {from:?}, which lives"
                ));
            }
            _ => {}
        }
        self.holders.borrow_mut().insert(
            n,
            Holder {
                thread: context.thread(),
                worker: me,
                notes: match permit.acquired() {
                    Acquired::Recovered { note, .. } => [note; 2],
                    Acquired::Clean => [0; 2],
                },
                ends: false,
            },
        );
    }

    fn was_killed<const C: bool>(&self, context: &Context<C>, who: Owner) -> bool {
        let threads = self.threads.borrow();
        let thread = threads.get(&(who.worker, who.generation));
        thread.is_some_and(|&thread| context.was_killed(thread))
    }

    fn changes(&self, n: u32, change: impl FnOnce(&mut Holder)) {
        if let Some(holder) = self.holders.borrow_mut().get_mut(&n) {
            change(holder);
        }
    }
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let load = shared.load;
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let me = Owner::of(worker.identity());
    shared
        .threads
        .borrow_mut()
        .insert((me.worker, me.generation), context.thread());
    let semaphore = match Semaphore::open(worker.clone(), NAME) {
        // A thread that comes late.
        Err(Error::NoSuch { .. } | Error::LockRemoved) if shared.is_removed.get() => return Ok(()),
        opened => opened?,
    };
    shared.gathering.arrive(context);
    let mut random = random(load.seed, context.thread());
    let mut held: Vec<Permit<'_, SimMemory<C>>> = Vec::new();
    for operation in 0..load.operations {
        // A thread that holds a permit does not wait for another: two of them could wait for each other.
        let removes = load.seed.is_multiple_of(4) && below(&mut random, 24) == 0;
        if removes && !shared.is_removed.replace(true) {
            match Semaphore::open(worker.clone(), NAME).and_then(Semaphore::remove) {
                Ok(()) => shared.is_gone.set(true),
                Err(Error::LockRemoved | Error::NoSuch { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let timeout = match below(&mut random, 4) {
            _ if !held.is_empty() => Timeout::None,
            0 => Timeout::None,
            1 => Timeout::Polls(below(&mut random, 100) as u32),
            _ => Timeout::Forever,
        };
        let was_gone = shared.is_gone.get();
        match semaphore.acquire_with(timeout) {
            Ok(Some(permit)) => {
                if was_gone {
                    shared.log.fault("a permit of a semaphore that was removed");
                }
                shared.begins(context, me, &permit);
                if below(&mut random, 2) == 0 {
                    let note = u64::from(context.thread()) << 32 | u64::from(operation) << 8 | 1;
                    shared.changes(permit.number(), |holder| holder.notes[1] = note);
                    permit.set_note(note);
                    shared.changes(permit.number(), |holder| holder.notes[0] = note);
                }
                held.push(permit);
            }
            Ok(None) => {}
            Err(Error::LockRemoved) if shared.is_removed.get() => {}
            Err(other) => return Err(other),
        }
        if !held.is_empty() && shared.is_to_look.replace(false) {
            check_holds(&worker, held.len(), &shared.log)?;
        }
        for _ in 0..below(&mut random, PAUSES) {
            context.wait();
        }
        while held.len() > below(&mut random, 3) as usize || operation + 1 == load.operations {
            let Some(permit) = held.pop() else { break };
            let n = permit.number();
            shared.changes(n, |holder| holder.ends = true);
            drop(permit);
            let mut holders = shared.holders.borrow_mut();
            // Another thread may have it already.
            if holders
                .get(&n)
                .is_some_and(|holder| holder.worker == me && holder.ends)
            {
                holders.remove(&n);
            }
        }
    }
    Ok(())
}

/// Looks who has permits, as a worker that has so many.
fn check_holds<const C: bool>(worker: &Worker<SimMemory<C>>, held: usize, log: &Log) -> cenote::Result<()> {
    let me = Owner::of(worker.identity());
    let (object, _) = Object::open(worker, NAME, LockKind::Semaphore)?;
    let seen = inspect(worker, object)?;
    if seen.readers.iter().filter(|holder| holder.who == me).count() != held {
        log.fault(format!("{me:?} has {held} permits, and sees {:?}", seen.readers));
    }
    Ok(())
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let me = Owner::of(worker.identity());
        match Semaphore::open(worker.clone(), NAME) {
            Err(Error::NoSuch { .. }) if shared.is_removed.get() => {
                // Another semaphore of the same name: nothing of the first is left.
                let again = Semaphore::open_or_create(worker.clone(), NAME, 1)?;
                let permit = again.try_acquire()?;
                if permit.is_none_or(|permit| permit.acquired() != Acquired::Clean) {
                    log.fault("a new semaphore's permit cannot be had, or was somebody's");
                }
            }
            opened => {
                let semaphore = opened?;
                let mut all = Vec::new();
                for n in 0..shared.permits {
                    match semaphore.try_acquire()? {
                        Some(permit) => {
                            shared.begins(context, me, &permit);
                            all.push(permit);
                        }
                        None => log.fault(format!("nobody runs, and only {n} permits can be had")),
                    }
                }
                if semaphore.try_acquire()?.is_some() {
                    log.fault("there are more permits than there shall be");
                }
            }
        }
        all_at_rest(&worker, log);
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
