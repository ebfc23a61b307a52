//! Hosts of a pod: every process is a host, its own agent and a worker on the allocator; the processes of the first
//! hosts are monitors too. Hosts are slow, die and begin anew; monitors die in the middle of what they do.
//!
//! What is checked besides what the allocator's subject checks:
//!
//! - no process runs in a generation of its host that is over, or under a worker's place that was taken for dead;
//! - no monitor suspects a host before it has polled it often enough itself, or although it saw a new heartbeat;
//! - no two monitors lead;
//! - a monitor whose polls are late, as all are in some runs, suspects a silent host too, after more polls;
//! - no monitor leads or suspects after it was told that it may not; then it starts counting anew. An election outside
//!   the pool ends a monitor's lead now and then, in the middle of a poll too.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hooks;
use cenote::pod::format::geometry::{Geometry, Parameters};
use cenote::pod::format::host_entry::{HostPhase, HostRecord, hosts_high};
use cenote::pod::format::record::{Phase, State};
use cenote::pod::format::superblock::{HEADER_BYTES, Superblock};
use cenote::pod::hosts::agent::{AgentRole, bring_up};
use cenote::pod::hosts::fence::{Fence, KillFence};
use cenote::pod::hosts::monitor::{Event, Monitor};
use cenote::pod::hosts::poll::Poll;
use cenote::pod::reclaim::collect::{self, collect_adopted};
use cenote::pod::reclaim::flush::FlushServer;
use cenote::pod::{Pod, Worker, commit::recovery};
use cenote::{Error, Result};

use super::allocator::{self, SIZES, Shared, WORDS, exchange, word};
use super::death_notices::DeathNotices;
use super::machines::{self, Homes, KillOrPower};
use super::pool::{Member, format, limited, space_is_out};
use super::second_processes::{self, PowerFence};
use super::shared_lock::SharedLock;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};
use cenote::memory::Published;

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// So many of the first hosts have monitors.
pub const MONITORS: u32 = 2;
/// The first monitors suspect a host after at most so many polls without a new heartbeat.
const MISSED_MAX: u64 = 3;
/// For each so many processes that began before a monitor, it waits for one poll more.
const PROCESSES_PER_POLL: u64 = 3;
/// Some of the first agents wait up to so long between two heartbeats.
const SLOWNESS: u64 = 96;
/// In one of so many runs all polls are late.
const LATENESS: u64 = 8;
/// A monitor whose polls are late needs so many times as many.
const LATE_POLLS: u64 = 4;
/// In one of so many polls a monitor is told that it may not lead.
const ELECTIONS: u64 = 16;
/// But no more often than this: a monitor with a long timeout would never have enough polls in a row.
const ELECTIONS_MAX: u32 = 4;
/// It is told so when it has asked up to so many times.
const QUESTIONS: u64 = 4;

/// What there is besides hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Alone,
    /// A group of all their workers, and a lock that these share.
    DeathNotices,
    /// A second process on each.
    SecondProcesses,
    /// Each on a machine of its own, and other machines that have the ids of some of them.
    Machines,
}

/// What all processes of a run share, outside the machine.
pub(super) struct Pods {
    pub work: Shared,
    /// The process that leads the monitors, as far as it knows.
    leader: Cell<Option<u32>>,
    /// A group, if all workers shall be in one.
    death_notices: Option<DeathNotices>,
    /// A lock, if they share one.
    shared_lock: Option<SharedLock>,
    shape: Shape,
    pub homes: Homes,
}

impl Pods {
    /// The machine of a host's processes; 0 if all share one.
    pub fn machine<const C: bool>(&self, context: &Context<C>) -> u32 {
        match self.shape {
            Shape::Machines => 1 + context.host(),
            _ => 0,
        }
    }
}

/// Hosts.
pub fn scenario<const C: bool>(load: Load, parameters: Parameters, shape: Shape) -> Scenario<C> {
    let log = Log::default();
    let pods = Rc::new(Pods {
        work: Shared::new(load, &log),
        leader: Cell::new(None),
        death_notices: (shape == Shape::DeathNotices).then(|| DeathNotices::new(&log)),
        shared_lock: (shape == Shape::DeathNotices).then(|| SharedLock::new(load.seed, &log)),
        shape,
        homes: Homes::default(),
    });
    Scenario {
        prepare: {
            let (log, pods) = (log.clone(), pods.clone());
            Box::new(move |context| {
                log.may_be_full_if(space_is_out(&context, parameters));
                log.check("formatting", format(&context, parameters, 4));
                log.check("preparing", allocator::prepare(&context, &pods.work));
                let with = |death_notices: &DeathNotices, worker: &_| death_notices.prepare(worker);
                log.check("making the group", once(&context, &pods, with));
                if let Some(shared_lock) = &pods.shared_lock {
                    log.check(
                        "making the lock",
                        lone(&context, |worker| shared_lock.prepare(worker)),
                    );
                }
            })
        },
        body: {
            let (log, pods) = (log.clone(), pods.clone());
            Rc::new(move |context: Context<C>| {
                context.is_apart();
                match context.origin() < load.hosts {
                    true => log.check("being a host", host(&context, &pods)),
                    false if shape == Shape::Machines => {
                        log.check("being an impostor", machines::impostor(&context, &pods))
                    }
                    false => log.check("being a lodger", second_processes::lodger(&context, &pods)),
                };
            })
        },
        audit: {
            let log = log.clone();
            Box::new(move |context| {
                let with = |death_notices: &DeathNotices, worker: &_| death_notices.audit(worker);
                log.check("looking at the group", once(&context, &pods, with));
                log.check("auditing", allocator::audit(&context, &pods.work));
            })
        },
        log,
    }
}

/// Does something with the group, if there is one, before or after all hosts.
fn once<const C: bool>(
    context: &Context<C>,
    pods: &Pods,
    with: impl FnOnce(&DeathNotices, &Worker<SimMemory<C>>) -> Result<()>,
) -> Result<()> {
    match &pods.death_notices {
        Some(death_notices) => lone(context, |worker| with(death_notices, worker)),
        None => Ok(()),
    }
}

/// Does something as the only process.
fn lone<const C: bool>(
    context: &Context<C>,
    with: impl FnOnce(&Rc<Worker<SimMemory<C>>>) -> Result<()>,
) -> Result<()> {
    let member = Member::join(context, !C)?;
    let done = with(&Rc::new(Worker::attach(&member.pod, true)?));
    member.leave(context);
    done
}

/// A pool as a host's agent has it open.
type Opened<const C: bool> = (Arc<Pod<SimMemory<C>>>, AgentRole);

/// One process: a host from when it goes up until it leaves.
fn host<const C: bool>(context: &Context<C>, pods: &Rc<Pods>) -> Result<()> {
    let (pod, agent) = loop {
        match open(context, pods) {
            // Its last generation is being fenced, or this one was before it had begun.
            Err(Error::Host { .. }) => context.wait(),
            other => break other?,
        }
    };
    let agent = Rc::new(agent);
    let (heartbeats, working) = (Rc::new(Cell::new(1)), Rc::new(Cell::new(0)));
    start_heartbeats(context, pods, &pod, &agent, &heartbeats);
    agent.declare_dead(&pod)?;
    let serving = start_flush_server(context, &pod)?;
    let mind = start_minding(context, pods, &pod, &agent)?;
    for _ in 0..pods.work.load.threads {
        working.set(working.get() + 1);
        let (pods, pod, working) = (pods.clone(), pod.clone(), working.clone());
        context.spawn(move |context| {
            let log = pods.work.log.clone();
            log.check("working", work(&context, &pod, &pods));
            drop(pod);
            working.set(working.get() - 1);
        });
    }
    if context.host() < MONITORS {
        monitor(context, pods, &pod, &mind, &working)?;
    }
    context.wait_for(&working);
    let leaving = loop {
        match agent.leave(&pod) {
            Ok(Some(leaving)) => break leaving,
            Ok(None) => context.wait(),
            // It is being fenced, and this process is about to be killed.
            Err(Error::Host { .. }) => loop {
                context.wait();
            },
            Err(error) => return Err(error),
        }
    };
    mind.ends.set(true);
    context.wait_for(&mind.running);
    pod.close();
    context.wait_for(&serving);
    heartbeats.set(0);
    let (mem, geometry) = (*pod.mem(), *pod.geometry());
    drop(pod);
    leaving.finish(&mem, &geometry);
    Ok(())
}

fn open<const C: bool>(context: &Context<C>, pods: &Pods) -> Result<Opened<C>> {
    let memory = context.memory();
    let mut head = [0; HEADER_BYTES];
    head.copy_from_slice(published(0, HEADER_BYTES as u64).bytes(&memory));
    let superblock = Superblock::decode(Path::new("simulated"), &head)?;
    let machine = pods.machine(context);
    let identity = machines::identity(context, context.host() + 1, machine);
    let liveness = context.liveness_on(machines::kernel(context, machine));
    let geometry = Geometry::new(superblock.parameters);
    let generation = bring_up(&memory, &geometry, &identity, &*liveness)?;
    pods.homes
        .note((identity.host, generation), machine, &pods.work.log);
    let pod = limited(
        context,
        Pod::join_as_agent(memory, superblock, identity, liveness, hooks())?,
    );
    // Where work takes long, for a group's lock, for many threads or for a server of exchanges, long-lived monitors
    // would for ever fence hosts that begin again and again.
    let timeout = match pods.shape != Shape::Alone || context.is_delegated() {
        true => 1 + u64::from(context.process()) / PROCESSES_PER_POLL,
        false => 1,
    };
    let agent = AgentRole::take(&pod, timeout)?;
    Ok((Arc::new(pod), agent))
}

/// The thread that sends heartbeats; some are slow.
fn start_heartbeats<const C: bool>(
    context: &Context<C>,
    pods: &Rc<Pods>,
    pod: &Arc<Pod<SimMemory<C>>>,
    agent: &Rc<AgentRole>,
    heartbeats: &Rc<Cell<u32>>,
) {
    let (mem, mut pulse, heartbeats) = (*pod.mem(), agent.pulse(pod.mem()), heartbeats.clone());
    let mut random = random(pods.work.load.seed, 1 << 16 | context.thread());
    let is_first = context.process() <= pods.work.load.hosts;
    let slowness = match below(&mut random, 4) {
        0 if is_first => below(&mut random, SLOWNESS),
        _ => 0,
    };
    context.spawn(move |context| {
        while heartbeats.get() > 0 {
            pulse.heartbeat(&mem);
            for _ in 0..=slowness {
                context.wait();
            }
        }
    });
}

/// On incoherent memory, the thread that serves flush rounds; what it returns is zero when that has ended.
pub(super) fn start_flush_server<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
) -> Result<Rc<Cell<u32>>> {
    let running = Rc::new(Cell::new(u32::from(!C)));
    if !C {
        let (worker, running) = (Worker::attach(pod, true)?, running.clone());
        context.spawn(move |context| {
            let mut flush_server = FlushServer::begin(&worker);
            while !worker.pod().is_closing() {
                flush_server.tick(&worker, 1);
                let _ = collect_adopted(&worker);
                context.wait();
            }
            FlushServer::end(&worker);
            drop(worker);
            running.set(0);
        });
    }
    Ok(running)
}

pub(super) fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    pods: &Pods,
) -> Result<()> {
    let Shared { load, log, words, .. } = &pods.work;
    let mut random = random(load.seed, context.thread());
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let mut handle = match &pods.death_notices {
        Some(death_notices) => death_notices.join(context, &worker)?,
        None => None,
    };
    for n in 0..load.operations {
        if let Some(death_notices) = &pods.death_notices {
            death_notices.read(&worker, &mut handle)?;
        }
        if let Some(shared_lock) = &pods.shared_lock
            && below(&mut random, 2) == 0
        {
            shared_lock.pass(context, &worker, below(&mut random, u64::from(u32::MAX)) as u32)?;
        }
        let slot = word(words.get(), below(&mut random, WORDS));
        let len = SIZES[below(&mut random, SIZES.len() as u64) as usize];
        let value = u64::from(context.thread()) << 32 | u64::from(n);
        match exchange(&worker, slot, Some((len, value)), log) {
            Err(error) if !log.is_full(&error) => return Err(error),
            _ => {}
        }
        if below(&mut random, 2) == 0 {
            collect::collect_all(&worker)?;
        }
        check_alive(&worker, log);
    }
    match &pods.death_notices {
        Some(death_notices) => death_notices.leave(&worker, handle),
        None => Ok(()),
    }
}

/// A running worker must not be taken for dead.
fn check_alive<const C: bool>(worker: &Worker<SimMemory<C>>, log: &Log) {
    let (mem, pod) = (worker.mem(), worker.pod());
    let host = pod.host();
    let record = HostRecord::new(worker.geometry(), host);
    match record.read(mem) {
        Ok(state) if state.generation == pod.host_generation() && state.phase != HostPhase::Down => {}
        found => log.fault(format!(
            "host {host} runs in generation {}, and the pool says {found:?}",
            pod.host_generation()
        )),
    }
    let state = State::decode(worker.record().state().load(mem));
    if state.phase != Phase::Alive || state.generation != worker.generation() {
        log.fault(format!(
            "worker {} of host {host} runs, and its place says {state:?}",
            worker.me() - 1
        ));
    }
}

/// The thread that recovers the dead: it may wait for what only a monitor can free.
struct Recoverer {
    /// Set when a process of another host may have died.
    wanted: Cell<bool>,
    ends: Cell<bool>,
    /// Zero when it has ended.
    running: Rc<Cell<u32>>,
}

fn start_minding<const C: bool>(
    context: &Context<C>,
    pods: &Rc<Pods>,
    pod: &Arc<Pod<SimMemory<C>>>,
    agent: &Rc<AgentRole>,
) -> Result<Rc<Recoverer>> {
    let mind = Rc::new(Recoverer {
        wanted: Cell::new(true),
        ends: Cell::new(false),
        running: Rc::new(Cell::new(1)),
    });
    let (pods, agent, theirs) = (pods.clone(), agent.clone(), mind.clone());
    let worker = Worker::attach(pod, false)?;
    context.spawn(move |context| {
        let log = &pods.work.log;
        let death_notices = pods.death_notices.as_ref();
        let mut handle = death_notices
            .and_then(|death_notices| log.check("observing", death_notices.observe(&worker)))
            .flatten();
        while !theirs.ends.get() {
            let has_found = log.check("declaring", agent.declare_dead(worker.pod()));
            let is_wanted = theirs.wanted.take();
            if let Some(death_notices) = death_notices {
                log.check("reading", death_notices.read(&worker, &mut handle));
                if is_wanted {
                    log.check("telling", death_notices.tell(&worker));
                }
            }
            if is_wanted || has_found == Some(true) {
                log.check("recovering", recovery::recover_dead(&worker));
                log.check_recovered(worker.pod());
            }
            check_alive(&worker, log);
            context.wait();
        }
        if let Some(death_notices) = death_notices {
            log.check("reading", death_notices.read(&worker, &mut handle));
            log.check("leaving", death_notices.leave(&worker, handle));
        }
        drop(worker);
        theirs.running.set(0);
    });
    Ok(mind)
}

/// A monitor's work, until no host needs it any more.
fn monitor<const C: bool>(
    context: &Context<C>,
    pods: &Pods,
    pod: &Arc<Pod<SimMemory<C>>>,
    mind: &Recoverer,
    working: &Cell<u32>,
) -> Result<()> {
    let log = &pods.work.log;
    let worker = Worker::attach(pod, false)?;
    let mut fence: Box<dyn Fence<SimMemory<C>>> = match pods.shape {
        Shape::SecondProcesses => Box::new(PowerFence::new(context, pods.work.load.seed)),
        Shape::Machines => Box::new(KillOrPower::new(context, pods)),
        _ => Box::new(KillFence::new(
            context.killer(MONITORS),
            context.identity().name.machine,
        )),
    };
    // A later monitor has a longer timeout, so that hosts that fence each other again and again come to an end.
    let missed = 1 + pods.work.load.seed % MISSED_MAX + u64::from(context.process()) / PROCESSES_PER_POLL;
    let mut monitor = Monitor::new(missed, || 0);
    let (how, needed) = match pods.work.load.seed % LATENESS {
        1 => (Poll::Late, missed * LATE_POLLS),
        _ => (Poll::Punctual, missed),
    };
    let mut witness = Witness::new(needed);
    let mut random = random(pods.work.load.seed, 1 << 17 | context.thread());
    let mut elections = 0;
    while working.get() > 0 || is_needed(context, &worker)? {
        let before = witness.heartbeats(&worker)?;
        let events = RefCell::new(Vec::new());
        let questions = Cell::new(match below(&mut random, ELECTIONS) {
            0 if elections < ELECTIONS_MAX => below(&mut random, QUESTIONS),
            _ => u64::MAX,
        });
        let is_told = Cell::new(false);
        let may_lead = || {
            is_told.set(questions.get() == 0);
            questions.set(questions.get().saturating_sub(1));
            if is_told.get() && pods.leader.get() == Some(context.process()) {
                // From now on it gives the lock back; another one may have it before this one knows that it has.
                pods.leader.set(None);
            }
            !is_told.get()
        };
        monitor.poll(&worker, &mut *fence, how, &may_lead, &mut |event| {
            if let Event::Suspected { host, generation } = event {
                witness.check(&before, host, generation, log);
                if is_told.get() {
                    log.fault(format!("host {host} is suspected by a monitor that may not lead"));
                }
            }
            events.borrow_mut().push(event);
        })?;
        if is_told.get() {
            elections += 1;
            witness.forget();
            if monitor.leads() {
                log.fault(format!("{:?} leads, and may not", context.process()));
            }
        } else {
            witness.remember(before);
        }
        check_leader(context, pods, monitor.leads());
        let events = events.take();
        for event in &events {
            if let (Event::Moved { host, generation }, Some(death_notices)) = (event, &pods.death_notices) {
                death_notices.fenced(&worker, *host, *generation)?;
            }
        }
        let is_over = |event: &Event| matches!(event, Event::Leads | Event::Moved { .. });
        if events.iter().any(is_over) {
            mind.wanted.set(true);
        }
        check_alive(&worker, log);
        context.wait();
    }
    if pods.leader.get() == Some(context.process()) {
        pods.leader.set(None);
    }
    monitor.resign(&worker);
    Ok(())
}

fn check_leader<const C: bool>(context: &Context<C>, pods: &Pods, leads: bool) {
    let me = Some(context.process());
    match pods.leader.get() {
        Some(other) if leads && Some(other) != me && context.is_alive(other) => {
            pods.work
                .log
                .fault(format!("process {other} leads the monitors, and {me:?} does"));
        }
        _ if leads => pods.leader.set(me),
        leader if leader == me => pods.leader.set(None),
        _ => {}
    }
}

/// Whether a process may wait for a host that is not down yet.
fn is_needed<const C: bool>(context: &Context<C>, worker: &Worker<SimMemory<C>>) -> Result<bool> {
    if context.is_anybody_alive(MONITORS) {
        return Ok(true);
    }
    let (mem, geometry) = (worker.mem(), worker.geometry());
    for host in (1..hosts_high(mem, geometry)).filter(|&host| host != worker.pod().host()) {
        let phase = HostRecord::new(geometry, host).read(mem)?.phase;
        if phase == HostPhase::Fencing || (host > MONITORS && phase != HostPhase::Down) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a monitor could have seen, written down beside it.
struct Witness {
    missed: u64,
    /// For each host its generations and heartbeats at this monitor's last polls.
    seen: BTreeMap<u32, VecDeque<(u32, u64)>>,
    /// Polls that count.
    polls: u64,
    /// Hosts that were not there before the first of them. The monitor may have seen each of them one poll earlier than
    /// the witness did.
    late: BTreeSet<u32>,
}

impl Witness {
    fn new(missed: u64) -> Self {
        Self {
            missed,
            seen: BTreeMap::new(),
            polls: 0,
            late: BTreeSet::new(),
        }
    }

    fn heartbeats<const C: bool>(&self, worker: &Worker<SimMemory<C>>) -> Result<BTreeMap<u32, (u32, u64)>> {
        let (mem, geometry) = (worker.mem(), worker.geometry());
        (1..hosts_high(mem, geometry))
            .map(|host| {
                let record = HostRecord::new(geometry, host);
                Ok((host, (record.read(mem)?.generation, record.heartbeat().load(mem))))
            })
            .collect()
    }

    fn remember(&mut self, heartbeats: BTreeMap<u32, (u32, u64)>) {
        for (host, heartbeat) in heartbeats {
            if self.polls > 0 && !self.seen.contains_key(&host) {
                self.late.insert(host);
            }
            let seen = self.seen.entry(host).or_default();
            seen.push_back(heartbeat);
            if seen.len() as u64 > self.missed {
                seen.pop_front();
            }
        }
        self.polls += 1;
    }

    /// The monitor stands by: what it saw before counts for nothing.
    fn forget(&mut self) {
        self.seen.clear();
        self.late.clear();
        self.polls = 0;
    }

    /// A suspected host must have been polled before, and been silent: a new heartbeat may have come only since the
    /// poll before this one.
    fn check(&self, before: &BTreeMap<u32, (u32, u64)>, host: u32, generation: u32, log: &Log) {
        let seen = self.seen.get(&host).cloned().unwrap_or_default();
        let is_silent = seen
            .iter()
            .skip(1)
            .all(|heartbeat| Some(heartbeat) == seen.back());
        let is_late = self.late.contains(&host) || self.polls > 0 && !self.seen.contains_key(&host);
        if seen.len() as u64 + u64::from(is_late) < self.missed || !is_silent {
            let now = before.get(&host);
            log.fault(format!(
                "host {host} is suspected in generation {generation} after {seen:?}, and now {now:?}"
            ));
        }
    }
}
