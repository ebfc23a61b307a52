//! The lease of the server of exchanges, and the failover controllers that move it. Every process is a host with a
//! failover controller and a thread that serves when it may. There is nothing else in the pool. Hosts are slow, die,
//! are fenced, leave in order, and begin anew, in the same generation unless they have left. The host that may act
//! changes at any moment, and sometimes two may. In some runs each process has another thread that belongs to no host,
//! and serves now and then as long as no host has the lease.
//!
//! What is checked: no two hosts serve. Hosts serve again and again, or the run takes too many steps.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::Result;
use cenote::memory::delegated::{ServingLease, Words};
use cenote::memory::{Killer, Liveness, SyncWord};
use cenote::pod::format::geometry::{Geometry, NO_HOST, Parameters};
use cenote::pod::format::host_entry::{HostInstance, HostPhase, HostRecord, HostState};
use cenote::pod::hosts::failover::{FailoverController, Fencer, LeaseElection, Nomination, Nominations};
use cenote::pod::hosts::fence::Fenced;
use cenote::pod::hosts::lease::HostLease;
use cenote::pod::hosts::poll::Poll;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Load, Log, Scenario, below, random};
use crate::check::leak::Account;
use crate::exec::{Context, SimMemory};

/// The numbers of the locks by which a host's server is found; those of living hosts come before.
const SERVERS: u32 = 16;
/// Hosts suspect after at most so many polls without a new heartbeat.
const MISSED_MAX: u64 = 3;
/// With each so many processes the number doubles, at most so often.
const PROCESSES_PER_DOUBLING: u32 = 4;
const TIMEOUT_MAX: u32 = 16;
/// Some agents wait up to so long between two heartbeats.
const SLOWNESS: u64 = 64;
/// In one of so many questions another host becomes the one that may act; in one of so many, this host may act too.
const ELECTIONS: u64 = 16;
/// With each so many elections in which no server had a turn, the next elections are half as frequent; this happens at
/// most so often. A failover controller that may act defers to a named host for many polls in a row, and the named host
/// may be dead for good.
const WAVERING: u32 = 8;
const CALM_MAX: u32 = 7;
/// Of so many turns of a server one is its last: the host leaves in order.
const LEAVES: u64 = 32;
/// In one of so many runs processes serve without a host too, for at most so many turns.
const HOSTLESS: u64 = 3;
const HOSTLESS_TURNS: u64 = 24;
/// Then they wait so long.
const HOSTLESS_REST: u64 = 400;

/// What all processes of a run share, outside of the machine.
struct Pods {
    load: Load,
    log: Log,
    /// What the cluster that decides knows.
    names: RefCell<Nominations>,
    /// The host that may act.
    acts: Cell<u32>,
    /// Elections since a server had a turn.
    elections: Cell<u32>,
    /// The process that serves, or did when it died; and whether as a host's.
    serves: Cell<Option<(u32, bool)>>,
    /// Turns that servers had.
    turns: Cell<u32>,
}

impl Pods {
    /// Whether there was enough of it.
    fn is_over(&self) -> bool {
        self.turns.get() >= self.load.operations * self.load.hosts
    }

    /// A process serves, as a host's or not: nobody else may.
    fn note<const C: bool>(&self, context: &Context<C>, as_host: bool) {
        let me = (context.process(), as_host);
        match self.serves.replace(Some(me)) {
            Some(other) if other != me && context.is_alive(other.0) => self.log.fault(format!(
                "{me:?} (process, as a host) executes exchanges, and {other:?} does"
            )),
            _ => {}
        }
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let pods = Rc::new(Pods {
        load,
        log: log.clone(),
        names: RefCell::default(),
        acts: Cell::new(1),
        elections: Cell::new(0),
        serves: Cell::new(None),
        turns: Cell::new(0),
    });
    Scenario {
        prepare: Box::new(|_| ()),
        body: {
            let log = log.clone();
            Rc::new(move |context: Context<C>| {
                context.is_apart();
                log.check("being a host", host(&context, &pods, Geometry::new(parameters)));
            })
        },
        audit: {
            let log = log.clone();
            // No pool was made.
            Box::new(move |_| log.account(Account::default()))
        },
        log,
    }
}

/// A host in one generation.
struct Host {
    id: u32,
    geometry: Geometry,
    /// Threads besides the one that sends heartbeats.
    running: Rc<Cell<u32>>,
    /// The server wants to make its last write.
    leaves: Cell<bool>,
    /// No thread of the host acts any more.
    is_quiet: Cell<bool>,
}

/// One process: its host, generation after generation.
fn host<const C: bool>(context: &Context<C>, pods: &Rc<Pods>, geometry: Geometry) -> Result<()> {
    let (mem, alive) = (context.memory(), context.liveness());
    let id = context.host() + 1;
    while !alive.try_lock(id)? {
        context.wait();
    }
    let record = HostRecord::new(&geometry, id);
    let mut random = random(pods.load.seed, context.thread());
    let slowness = match below(&mut random, 3) {
        0 => below(&mut random, SLOWNESS),
        _ => 0,
    };
    if pods.load.seed % HOSTLESS == 1 {
        let pods = pods.clone();
        context.spawn(move |context| {
            let log = &pods.log;
            log.check("serving without a host", hostless(&context, &pods, geometry));
        });
    }
    while !pods.is_over() {
        let state = HostState {
            phase: HostPhase::Up,
            agent: 1,
            tag: 0,
            generation: record.read(&mem)?.generation,
        };
        record.state().store_seq_cst(&mem, state.encode());
        let here = Rc::new(Host {
            id,
            geometry,
            running: Rc::new(Cell::new(0)),
            leaves: Cell::new(false),
            is_quiet: Cell::new(false),
        });
        for body in [failover::<C>, server::<C>] {
            let (here, pods) = (here.clone(), pods.clone());
            let running = here.running.clone();
            context.spawn_counted(&running, move |context| {
                pods.log.check("a thread of a host", body(&context, &pods, &here));
            });
        }
        let mut heartbeat = record.heartbeat().load(&mem);
        while here.running.get() > 0 {
            heartbeat += 1;
            record.heartbeat().store_seq_cst(&mem, heartbeat);
            for _ in 0..=slowness {
                context.wait();
            }
        }
    }
    Ok(())
}

/// Serves whenever this host has the lease.
fn server<const C: bool>(context: &Context<C>, pods: &Pods, here: &Host) -> Result<()> {
    let mem = context.memory();
    let (locks, words) = (context.liveness(), Direct(mem));
    let right = HostLease::new(&mem, &here.geometry, here.id, 1)?;
    let mut random = random(pods.load.seed, 1 << 16 | context.thread());
    while !pods.is_over() && !here.leaves.get() {
        if right.may_serve(&words) && locks.try_lock(SERVERS + here.id)? {
            if right.begin(&words) {
                serve(context, pods, here, &mut random)?;
                right.end(&words);
            }
            locks.unlock(SERVERS + here.id)?;
        }
        context.wait();
    }
    here.leaves.set(true);
    Ok(())
}

/// Serves without a host now and then, as one process after another would that has no host's id.
fn hostless<const C: bool>(context: &Context<C>, pods: &Pods, geometry: Geometry) -> Result<()> {
    let mem = context.memory();
    let (locks, words) = (context.liveness(), Direct(mem));
    let right = HostLease::new(&mem, &geometry, NO_HOST, 1)?;
    let mut random = random(pods.load.seed, 1 << 19 | context.thread());
    while !pods.is_over() {
        if right.may_serve(&words) && locks.try_lock(SERVERS)? {
            if right.begin(&words) {
                for _ in 0..=below(&mut random, HOSTLESS_TURNS) {
                    pods.note(context, false);
                    context.wait();
                }
                pods.serves.set(None);
                right.end(&words);
            }
            locks.unlock(SERVERS)?;
            for _ in 0..HOSTLESS_REST {
                context.wait();
            }
        }
        context.wait();
    }
    Ok(())
}

fn serve<const C: bool>(
    context: &Context<C>,
    pods: &Pods,
    here: &Host,
    random: &mut Xoshiro256PlusPlus,
) -> Result<()> {
    while !pods.is_over() {
        pods.note(context, true);
        pods.turns.set(pods.turns.get() + 1);
        pods.elections.set(0);
        context.wait();
        if below(random, LEAVES) == 0 {
            here.leaves.set(true);
            while !here.is_quiet.get() {
                pods.serves.set(Some((context.process(), true)));
                context.wait();
            }
            let mem = context.memory();
            let record = HostRecord::new(&here.geometry, here.id);
            let over = record.read(&mem)?.over();
            pods.serves.set(None);
            record.state().store_seq_cst(&mem, over.encode());
            return Ok(());
        }
    }
    pods.serves.set(None);
    Ok(())
}

/// Has its host serve when no host does.
fn failover<const C: bool>(context: &Context<C>, pods: &Pods, here: &Host) -> Result<()> {
    // A later host has a longer timeout, so that hosts that fence each other again and again come to an end.
    let missed =
        (1 + pods.load.seed % MISSED_MAX) << (context.process() / PROCESSES_PER_DOUBLING).min(TIMEOUT_MAX);
    let mut failover = FailoverController::new(context.memory(), here.geometry, here.id, 1, missed)?;
    let mut election = Cluster {
        context,
        pods,
        host: here.id,
        random: random(pods.load.seed, 1 << 17 | context.thread()),
    };
    let mut fencer = Kills {
        locks: context.liveness(),
        killers: [context.killer(0), context.killer(pods.load.hosts)],
        random: random(pods.load.seed, 1 << 18 | context.thread()),
    };
    while !pods.is_over() && !here.leaves.get() {
        failover.poll(Poll::Punctual, &mut election, &mut fencer, &mut |_| ())?;
        context.wait();
    }
    here.is_quiet.set(true);
    Ok(())
}

/// The pool's words as they are.
struct Direct<const C: bool>(SimMemory<C>);

impl<const C: bool> Words for Direct<C> {
    fn load(&self, word: SyncWord) -> u64 {
        word.load(&self.0)
    }

    fn store(&self, word: SyncWord, value: u64) {
        word.store_seq_cst(&self.0, value)
    }
}

/// What decides outside the pool: never wrong about exchanges, and often wrong about which host may act.
struct Cluster<'r, const C: bool> {
    context: &'r Context<C>,
    pods: &'r Pods,
    host: u32,
    random: Xoshiro256PlusPlus,
}

impl<const C: bool> LeaseElection for Cluster<'_, C> {
    fn may_act(&mut self) -> bool {
        let hosts = u64::from(self.pods.load.hosts);
        let held = self.pods.elections.get();
        match below(&mut self.random, ELECTIONS << (held / WAVERING).min(CALM_MAX)) {
            0 => {
                self.pods.elections.set(held + 1);
                self.pods.acts.set(1 + below(&mut self.random, hosts) as u32);
            }
            1 => return true,
            _ => {}
        }
        self.pods.acts.get() == self.host
    }

    fn nominations(&mut self) -> std::result::Result<Nominations, String> {
        self.context.wait();
        let names = self.pods.names.borrow().clone();
        self.context.wait();
        Ok(names)
    }

    fn nominate(&mut self, since: i64, hosts: &[HostInstance]) -> std::result::Result<Nomination, String> {
        self.context.wait();
        let nomination = {
            let mut names = self.pods.names.borrow_mut();
            match names.revision == since {
                true => {
                    names.revision += 1;
                    names.hosts = hosts.to_vec();
                    Nomination::Accepted {
                        revision: names.revision,
                    }
                }
                false => Nomination::Superseded,
            }
        };
        self.context.wait();
        Ok(nomination)
    }
}

/// Kills a host's process; it begins anew, or does not.
struct Kills {
    locks: Box<dyn Liveness>,
    killers: [Box<dyn Killer>; 2],
    random: Xoshiro256PlusPlus,
}

impl Fencer for Kills {
    fn fence(&mut self, host: HostInstance) -> Fenced {
        match self.locks.is_locked(host.host) {
            Ok(false) => Fenced::Certainly,
            // It may be another host's by now.
            Ok(true) => {
                match self.killers[below(&mut self.random, 2) as usize].kill_holders(host.host, &|| true) {
                    Ok(_) => Fenced::NotYet,
                    Err(error) => Fenced::Failed(error.to_string()),
                }
            }
            Err(error) => Fenced::Failed(error.to_string()),
        }
    }

    fn give_up(&mut self) {}
}
