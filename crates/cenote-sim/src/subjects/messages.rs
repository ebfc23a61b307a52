//! Maps by messages: the first thread of each process is a server, the others are clients. With one thread a process,
//! the first process serves.
//!
//! Servers end when all clients have ended. A client that died never counts as ended; then a server ends when no
//! request has come for long, and a client that comes later has no answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cenote::index::baseline::WordMap;
use cenote::index::baseline::messages::{Client, Server, Shape, part_name, part_of};
use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote::memory::Memory;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};
use cenote::{Error, Guidelines};

use super::assemble::{Parts, assemble};
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random, words};
use crate::exec::{Context, SimMemory};

const NAME: &str = "map";
/// Keys that the calls are about.
const WANTED: u64 = 5;
/// Rounds without a request after which a server ends.
const IDLE: u32 = 4000;
/// Attempts of a server to have a place.
const TRIES: u32 = 1000;
/// Frames that a pool begins with.
const FRAMES: u64 = 12;

/// What the subject's threads share.
struct Shared {
    load: Load,
    log: Log,
    /// Clients that have not ended.
    clients: Cell<u32>,
    /// Processes that have a server.
    serving: RefCell<BTreeSet<u32>>,
}

impl Shared {
    fn shape(&self) -> Shape {
        let Load { hosts, threads, .. } = self.load;
        Shape {
            servers: if threads > 1 { hosts } else { 1 },
            // Twice: processes that died begin again.
            clients: 2 * hosts * threads,
        }
    }

    /// Whether a thread that begins in a process is its server.
    fn serves(&self, process: u32) -> bool {
        let mut serving = self.serving.borrow_mut();
        (self.load.threads > 1 || serving.is_empty()) && serving.insert(process)
    }

    /// Whether the servers' maps are ordered ones.
    fn is_ordered(&self) -> bool {
        self.load.seed % 2 == 1
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let servers = if load.threads > 1 { load.hosts } else { 1 };
    let shared = Shared {
        load,
        log: log.clone(),
        clients: Cell::new(load.hosts * load.threads - servers),
        serving: RefCell::default(),
    };
    let parts = Parts {
        prepare: |_, _: &Shared| Ok(()),
        work,
        audit,
    };
    assemble(load, parameters, FRAMES, log, shared, parts)
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let worker = Rc::new(Worker::attach(pod, shared.load.guidelines.replicate)?);
    match (shared.serves(context.process()), shared.is_ordered()) {
        (true, false) => serve::<C, HashMap<SimMemory<C>>>(worker, shared),
        (true, true) => serve::<C, OrderedMap<SimMemory<C>>>(worker, shared),
        (false, _) => ask(context, worker, shared),
    }
}

fn serve<const C: bool, W: WordMap<SimMemory<C>>>(
    worker: Rc<Worker<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let server = open::<C, W>(worker, shared)?;
    let mut idle = 0;
    while shared.clients.get() > 0 && idle < IDLE {
        idle = match server.serve_once()? {
            0 => idle + 1,
            _ => 0,
        };
    }
    Ok(())
}

/// A dead server's place is not free before its death is known: its replacement tries again.
fn open<const C: bool, W: WordMap<SimMemory<C>>>(
    worker: Rc<Worker<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<Server<SimMemory<C>, W>> {
    let mut tries = 0;
    loop {
        let opened = Server::open(worker.clone(), NAME, shared.shape(), shared.load.guidelines, 1);
        match opened {
            Err(Error::TooMany { .. }) if tries < TRIES => tries += 1,
            opened => return opened,
        }
        worker.mem().rest(Duration::from_millis(1));
    }
}

/// One client's calls.
fn ask<const C: bool>(
    context: &Context<C>,
    worker: Rc<Worker<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared { load, log, .. } = shared;
    let mut random = random(load.seed, context.thread());
    let client = Client::open(worker, NAME, shared.shape())?;
    for n in 1..=load.operations {
        let value = u64::from(context.thread()) << 32 | u64::from(n);
        words::one_call(
            context,
            &client,
            log,
            below(&mut random, WANTED),
            value,
            &mut random,
        );
    }
    shared.clients.set(shared.clients.get().saturating_sub(1));
    Ok(())
}

/// Reads the servers' maps, and accounts for every byte.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        for key in 0..WANTED {
            let name = part_name(NAME, part_of(key, shared.shape().servers));
            let worker = worker.clone();
            match shared.is_ordered() {
                true => inspect::<C, OrderedMap<_>>(context, worker, &name, &shared.log, key)?,
                false => inspect::<C, HashMap<_>>(context, worker, &name, &shared.log, key)?,
            }
        }
        account(&worker, &shared.log)?;
    }
    member.leave(context);
    Ok(())
}

fn inspect<const C: bool, W: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    worker: Rc<Worker<SimMemory<C>>>,
    name: &str,
    log: &Log,
    key: u64,
) -> cenote::Result<()> {
    let map = W::open_or_create(worker, name, Guidelines::SP, 0)?;
    words::get(context, &map, log, key);
    Ok(())
}
