//! A lock service and its nodes: the library's cores, on a network that loses, delays, repeats and reorders messages,
//! and cuts nodes off; with clocks that differ, processes that die at any step, that hang, and that leave.
//!
//! Each process is a node, and joins anew when it was declared dead. Its threads visit locks, and drive the network
//! between their steps; nothing of it is in the simulated machine's memory. The directory does not die, but it is
//! stopped now and then. [`World`] has what is checked.

mod ends;
mod hash;
mod network;
mod peers;
mod visits;
mod world;

pub use hash::hash_of;
pub use network::{Draw, Weather, round, step};
pub use peers::{Op, Packet, Peer, RATE, Thread};
pub use world::{Fault, LEASE, World};

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use cenote::pod::format::geometry::Parameters;
use cenote::sync::directory::messages::message::{LockId, Session};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Load, Log, Scenario, below, random};
use crate::check::leak::Account;
use crate::exec::Context;

/// Locks that a run has.
const LOCKS: usize = 2;
/// After so many events the weather is fair: in a storm for ever, no node may ever have a lease that is good.
const STORM: u32 = 1 << 12;
/// So many times, once losses have ended, all messages arrive and all nodes send again, at most.
const ROUNDS: usize = 400;

struct Shared {
    load: Load,
    log: Log,
    world: RefCell<World>,
    /// The process that is the node in each place.
    processes: RefCell<Vec<Option<u32>>>,
    /// Sessions of dead processes, of which the directory may be told.
    cuts: RefCell<Vec<Session>>,
    weather: Cell<Weather>,
    /// What has happened between threads' steps.
    events: Cell<u32>,
    has_failed: Cell<bool>,
}

impl Shared {
    fn check(&self, outcome: Result<(), Fault>) {
        if let Err(fault) = outcome
            && !self.has_failed.replace(true)
        {
            self.log.fault(fault);
        }
    }

    /// Finds processes that have died or ended.
    fn reap<const C: bool>(&self, context: &Context<C>) {
        let (mut processes, mut world) = (self.processes.borrow_mut(), self.world.borrow_mut());
        for (n, process) in processes.iter_mut().enumerate() {
            if process.is_some_and(|process| !context.is_alive(process)) {
                *process = None;
                self.cuts.borrow_mut().extend(world.crash(n));
            }
        }
    }

    /// Something happens between two steps of a thread.
    fn step(&self, random: &mut Xoshiro256PlusPlus) {
        let mut world = self.world.borrow_mut();
        let mut draw = |bound| below(random, bound);
        let mut cuts = self.cuts.borrow_mut();
        if !cuts.is_empty() && draw(20) == 0 {
            let at = draw(cuts.len() as u64) as usize;
            let session = cuts.swap_remove(at);
            // A host that has lost its power tells nobody.
            if draw(3) > 0 {
                self.check(world.cut(session));
            }
        }
        self.events.set(self.events.get() + 1);
        if self.events.get() == STORM {
            self.weather.set(Weather::fair());
            world
                .peers
                .iter_mut()
                .flatten()
                .for_each(|peer| peer.is_apart = false);
        }
        self.check(step(&mut world, &mut draw, &self.weather.get()));
    }

    /// Has a process be a node, if it is none (any more).
    fn join(&self, n: usize, process: u32, random: &mut Xoshiro256PlusPlus) {
        let mut world = self.world.borrow_mut();
        if world.peers[n].is_some() {
            return;
        }
        let threads = vec![VecDeque::new(); self.load.threads as usize];
        let clock = (below(random, 1000), RATE - 1 + below(random, 3));
        world.join(n, threads, clock);
        self.processes.borrow_mut()[n] = Some(process);
    }
}

pub(super) fn scenario<const C: bool>(load: Load, _: Parameters) -> Scenario<C> {
    let log = Log::default();
    let mut world = World::new(LOCKS);
    (0..load.hosts).for_each(|_| _ = world.add_place());
    let mut draws = random(load.seed, 1 << 16);
    let shared = Rc::new(Shared {
        load,
        log: log.clone(),
        world: RefCell::new(world),
        processes: RefCell::new(vec![None; load.hosts as usize]),
        cuts: RefCell::default(),
        weather: Cell::new(Weather::drawn(&mut |bound| below(&mut draws, bound))),
        events: Cell::new(0),
        has_failed: Cell::new(false),
    });
    Scenario {
        prepare: Box::new(|_| ()),
        body: {
            let shared = shared.clone();
            Rc::new(move |context: Context<C>| {
                let running = Rc::new(Cell::new(0));
                for t in 0..load.threads as usize {
                    let shared = shared.clone();
                    context.spawn_counted(&running, move |context| work(&context, &shared, t));
                }
                leave_in_the_end(&context, &shared, &running);
            })
        },
        audit: Box::new(move |_| audit(&shared)),
        log,
    }
}

/// One thread's visits.
fn work<const C: bool>(context: &Context<C>, shared: &Shared, t: usize) {
    let mut random = random(shared.load.seed, context.thread());
    let n = context.origin() as usize;
    let mut left = shared.load.operations;
    while !shared.has_failed.get() {
        context.wait();
        shared.reap(context);
        shared.join(n, context.process(), &mut random);
        let draw = below(&mut random, 4);
        {
            let mut world = shared.world.borrow_mut();
            let (holds, waits) = (world.holds(n, t), world.waits(n, t));
            if !holds && !waits && left == 0 {
                return;
            }
            if holds && draw == 0 {
                shared.check(world.finish(n, t));
            } else if !holds && !waits && draw > 1 {
                left -= 1;
                visit(&mut world, n, t, &mut random);
                shared.check(world.start(n, t));
            }
        }
        shared.step(&mut random);
    }
}

/// Has a thread ask for a lock next.
fn visit(world: &mut World, n: usize, t: usize, random: &mut Xoshiro256PlusPlus) {
    let lock: LockId = match below(random, 4) {
        0 => 2,
        _ => 1,
    };
    let op = match below(random, 10) {
        0..4 => Op::Read,
        4..6 => Op::Write,
        6..8 => Op::WriteNoted,
        8 => Op::Commit,
        _ => Op::Panic,
    };
    if let Some(peer) = &mut world.peers[n] {
        peer.threads[t].script.push_back((lock, op));
    }
}

/// A process whose threads have ended leaves, or ends without that; some leave while their threads work.
fn leave_in_the_end<const C: bool>(context: &Context<C>, shared: &Shared, running: &Cell<u32>) {
    let mut random = random(shared.load.seed, context.thread());
    let n = context.origin() as usize;
    let (leaves, pauses) = (below(&mut random, 3), below(&mut random, 1 << 10));
    let mut waited = 0;
    while running.get() > 0 && !shared.has_failed.get() {
        context.wait();
        waited += 1;
        if leaves == 0 && waited == pauses {
            shared.check(shared.world.borrow_mut().close(n));
        }
    }
    if leaves < 2 {
        let outcome = shared.world.borrow_mut().close(n);
        shared.check(outcome);
        while !shared.world.borrow().is_over(n) && !shared.has_failed.get() {
            context.wait();
            shared.reap(context);
            shared.step(&mut random);
        }
    }
}

/// Everything that is left to be done can be done, and the locks are as they must be.
fn audit(shared: &Shared) {
    // No pool was made.
    shared.log.account(Account::default());
    let mut world = shared.world.borrow_mut();
    for n in 0..world.peers.len() {
        shared.cuts.borrow_mut().extend(world.crash(n));
    }
    let n = world.add_place();
    let visits = [Op::Read, Op::Write, Op::Read, Op::Write];
    let script = |lock| visits.iter().map(move |op| (lock, *op)).collect();
    let scripts: Vec<VecDeque<_>> = (1..=LOCKS as LockId).map(script).collect();
    let is_in = world.join(n, scripts, (0, RATE));
    if !is_in && !shared.has_failed.get() {
        shared.log.fault("there is no number for another node");
    }
    for _ in 0..ROUNDS {
        if shared.has_failed.get() || world.is_done() {
            return;
        }
        for t in 0..LOCKS {
            if world.can_start(n, t) {
                shared.check(world.start(n, t));
            }
            if world.holds(n, t) {
                shared.check(world.finish(n, t));
            }
        }
        shared.check(round(&mut world));
    }
    shared.log.fault("threads wait for ever");
}
