//! A host's agent, as a process runs it: a thread that sends heartbeats, one that looks after this host's dead, one that [relays](super::relaying) event counts, and on
//! request a monitor of the other hosts.
//!
//! The thread that sends heartbeats does nothing else, under the highest priority that it is granted; where that is not real time,
//! it asks monitors for a longer timeout. Recovery has a thread of its own, from the start: it may wait for a lock that a host
//! held which has failed, and that nobody can take before a monitor has fenced that host. So neither starting nor beats nor
//! looks may wait for it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::fence_command::CommandFence;
use super::options::Options;
use super::pool::Pool;
use super::relaying::{Peers, Relaying};
use crate::error::{Error, Result};
use crate::memory::{Coherent, LocalWord, Mapped, Memory, Priority, Sigkill, raise_priority};
use crate::pod::commit::recovery::recover_dead;
use crate::pod::format::host::{HostPhase, HostRecord, HostState};
use crate::pod::group::hosts_died;
use crate::pod::hosts::agent::AgentRole;
use crate::pod::hosts::fence::{Fence, KillFence};
use crate::pod::hosts::monitor::{Event, Monitor, Poll};
use crate::pod::instance::failures::{Failure, Task};
use crate::pod::instance::process::seconds_since_1970;
use crate::pod::{Pod, Worker};

/// Between two heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(8);
/// By how much longer monitors wait for heartbeats of a thread that has to share its processor.
const TIMEOUT_SHARED: u64 = 16;
/// Between two looks for this host's dead.
const MIND: Duration = Duration::from_millis(8);
/// Between two looks at how far a fence has come.
const FENCING: Duration = Duration::from_millis(1);

/// How a monitor watches, and how it fences.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    /// Between two looks at the hosts. Default 8 ms.
    pub poll: Duration,
    /// Looks in a row without a new heartbeat after which a host is fenced. Default 3.
    pub missed: u64,
    /// The program that fences, run by a shell with the host's id and generation behind its arguments; it must exit with 0
    /// when the host is certainly down, and only then. `None` stands for hosts that are processes of this machine: they are
    /// killed.
    pub fence: Option<String>,
    /// How long the program may take. Default 60 s.
    pub fence_time_out: Duration,
}

impl Default for MonitorOptions {
    fn default() -> Self {
        Self {
            poll: HEARTBEAT,
            missed: 3,
            fence: None,
            fence_time_out: Duration::from_secs(60),
        }
    }
}

/// What an agent says of itself.
#[derive(Clone, Debug, serde::Serialize)]
pub struct AgentStatus {
    /// The host.
    pub host: u32,
    /// Its generation.
    pub generation: u32,
    /// What the pool says that it is in, in its present generation.
    pub phase: HostPhase,
    /// That generation; another one if the agent's is over.
    pub now: u32,
    /// Beats since the agent started.
    pub heartbeats: u64,
    /// What the thread that sends heartbeats runs under.
    pub priority: Priority,
    /// Dead processes that this agent has recovered, of any host.
    pub recovered_processes: u64,
    /// Their workers.
    pub recovered_workers: u64,
    /// Whether it is a monitor, and if so whether it leads.
    pub leads: Option<bool>,
    /// What its process could not recover, and has not found mended since.
    pub failures: Vec<Failure>,
}

/// What an agent's threads share.
#[derive(Default)]
struct Shared {
    /// Set to end the thread that looks after the dead.
    minding_ends: LocalWord,
    /// Set to end the thread that sends heartbeats.
    heartbeats_end: LocalWord,
    heartbeats: LocalWord,
    /// Set when somebody has died that other hosts may know of.
    wanted: LocalWord,
    /// What could not be recovered.
    failures: Mutex<Vec<Failure>>,
    processes: LocalWord,
    workers: LocalWord,
    /// 0 no monitor, 1 one that follows, 2 one that leads.
    leads: LocalWord,
}

impl Shared {
    fn failures(&self) -> Vec<Failure> {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The agent of this host. Dropped, it leaves the pod if it can; if processes of its host have the pool open then, the host
/// is about to be fenced.
pub struct HostAgent<M: Memory = Coherent> {
    /// `None` once it has left.
    pool: Option<Pool<M>>,
    mem: M,
    agent: Arc<AgentRole>,
    shared: Arc<Shared>,
    priority: Priority,
    heartbeats: Option<JoinHandle<()>>,
    minding: Option<JoinHandle<()>>,
    relaying: Option<Relaying>,
}

impl<M: Mapped> HostAgent<M> {
    /// Opens a pool as the agent of host `options.host`, and begins to send heartbeats.
    ///
    /// It is an error if the host has an agent, is being fenced, or if processes without a host have the pool open.
    pub fn start(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        let pod = Pool::<M>::join_as_agent(path, options)?;
        let shared = Arc::<Shared>::default();
        let (heartbeats, agent, priority) = heartbeat(&pod, &shared)?;
        let mut agent = Self {
            pool: None,
            mem: pod.mem().clone(),
            agent: Arc::new(agent),
            shared,
            priority,
            heartbeats: Some(heartbeats),
            minding: None,
            relaying: None,
        };
        agent.shared.wanted.store(1);
        agent.agent.declare_dead(&pod)?;
        let pool = Pool::begin(pod, options)?;
        let hostless = hostless(pool.pod())?;
        agent.pool = Some(pool);
        if hostless {
            // Dropping the agent has the host leave.
            return Err(Error::Host {
                host: options.host,
                why: "processes without a host's id have the pool open; end them, or start them anew with --host",
            });
        }
        agent.minding = Some(agent.mind()?);
        agent.relaying = Some(Relaying::start(agent.pool()?.pod())?);
        Ok(agent)
    }
}

impl<M: Memory> HostAgent<M> {
    fn pool(&self) -> Result<&Pool<M>> {
        self.pool.as_ref().ok_or(Error::Host {
            host: self.agent.host(),
            why: "its agent has left",
        })
    }

    /// The random number that tells its pool from others.
    pub fn pool_id(&self) -> Result<u64> {
        Ok(self.pool()?.pod().superblock().id)
    }

    /// Has the agents of other hosts told at once when an event count is notified on this one, and hears them: members of groups there then wake up as soon as a
    /// datagram has come, else within a heartbeat. To be called once.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the address cannot be listened on.
    pub fn tell_peers(&mut self, peers: &Peers) -> Result<()> {
        let pod = self.pool()?.pod().clone();
        match &mut self.relaying {
            Some(relaying) => relaying.tell(&pod, peers),
            None => Ok(()),
        }
    }

    /// What it says of itself. One round trip.
    pub fn status(&self) -> Result<AgentStatus> {
        self.reporter()?.status()
    }

    /// Something that says the same from any thread, as long as the agent has not left.
    pub fn reporter(&self) -> Result<Reporter<M>> {
        let geometry = *self.pool()?.pod().geometry();
        Ok(Reporter {
            mem: self.mem.clone(),
            record: HostRecord::new(&geometry, self.agent.host()),
            host: self.agent.host(),
            generation: self.agent.generation(),
            priority: self.priority,
            shared: self.shared.clone(),
        })
    }

    /// Starts the thread that looks after the dead.
    fn mind(&self) -> Result<JoinHandle<()>> {
        let pod = self.pool()?.pod().clone();
        let path = pod.path().to_owned();
        let (agent, shared) = (self.agent.clone(), self.shared.clone());
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        // A worker's thread is the one that attaches it.
        let work = move || match Worker::attach(&pod, false) {
            Ok(worker) => {
                drop(pod);
                let _ = begun.send(Ok(()));
                mind(&worker, &agent, &shared);
            }
            Err(error) => drop(begun.send(Err(error))),
        };
        let thread = std::thread::Builder::new()
            .name("cenote-mind".to_owned())
            .spawn(work)
            .map_err(|source| Error::Io { path, source })?;
        begins.recv().unwrap_or(Err(Error::Forked))?;
        Ok(thread)
    }

    /// Watches the other hosts on this thread, as one of the pod's monitors, until `stops` says so. `tell` learns what is seen
    /// and done.
    ///
    /// `may_lead` says whether this monitor may stand for the pool's lock of monitors, or keep it: always, where that lock
    /// alone decides who leads, or as an election outside of the pool says. It is asked at every look and must answer at once.
    pub fn watch(
        &self,
        watch: &MonitorOptions,
        may_lead: &dyn Fn() -> bool,
        stops: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let worker = Worker::attach(self.pool()?.pod(), false)?;
        let mut fence: Box<dyn Fence<M>> = match &watch.fence {
            Some(command) => Box::new(CommandFence::new(command.clone(), watch.fence_time_out)),
            None => Box::new(KillFence::new(
                Box::new(Sigkill::new(
                    worker.pod().lock_file()?,
                    worker.mem().kernel().mapped_file().unwrap_or_default(),
                )),
                worker.pod().identity().name.machine,
            )),
        };
        raise_priority();
        let mut monitor = Monitor::new(watch.missed, seconds_since_1970);
        // Whatever ends it: a leader that is no more must not be waited for.
        let watched = self.look_on(watch, &worker, &mut monitor, &mut *fence, [may_lead, stops], tell);
        monitor.resign(&worker);
        watched
    }

    /// [`HostAgent::watch`], until it is told to stop, or fails.
    fn look_on(
        &self,
        watch: &MonitorOptions,
        worker: &Worker<M>,
        monitor: &mut Monitor,
        fence: &mut dyn Fence<M>,
        [may_lead, stops]: [&dyn Fn() -> bool; 2],
        tell: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let mut last: Option<Instant> = None;
        // Of those that there are still.
        let mut told: Vec<Failure> = Vec::new();
        while !stops() {
            let now = Instant::now();
            let how = Poll::after(last.map(|last| now.duration_since(last)), watch.poll);
            if how != Poll::Between {
                last = Some(now);
            }
            let is_fencing = monitor.look(worker, fence, how, may_lead, &mut |event| {
                if matches!(event, Event::Leads | Event::Moved { .. }) {
                    self.recover_soon();
                }
                tell(&event);
            })?;
            self.shared.leads.store(1 + u64::from(monitor.leads()));
            // Looks wait for nobody.
            if let Ok(known) = self.shared.failures.try_lock().map(|known| known.clone()) {
                let is_new = |failure: &&Failure| !told.contains(failure);
                for Failure { what, why } in known.iter().filter(is_new).cloned() {
                    tell(&Event::NotRecovered { what, why });
                }
                told = known;
            }
            let due = last.map_or(now, |last| last + watch.poll);
            let pause = due.saturating_duration_since(Instant::now());
            std::thread::sleep(if is_fencing { pause.min(FENCING) } else { pause });
        }
        Ok(())
    }

    /// Has the thread that looks after the dead look at once, for dead of other hosts too.
    fn recover_soon(&self) {
        self.shared.wanted.store(1);
        if let Some(minding) = &self.minding {
            minding.thread().unpark();
        }
    }

    /// Leaves the pod. `false` if other processes of this host have the pool open: then nothing has changed, and the agent goes
    /// on; ask again when they have ended.
    pub fn leave(&mut self) -> Result<bool> {
        let Some(pool) = &self.pool else {
            return Ok(true);
        };
        let Some(leaving) = self.agent.leave(pool.pod())? else {
            return Ok(false);
        };
        let geometry = *pool.pod().geometry();
        self.stop_minding();
        self.pool = None;
        self.stop_heartbeats();
        leaving.finish(&self.mem, &geometry);
        Ok(true)
    }

    fn stop_minding(&mut self) {
        self.relaying = None;
        self.shared.minding_ends.store(1);
        if let Some(minding) = self.minding.take() {
            minding.thread().unpark();
            // A thread that panicked has nothing to say here.
            let _ = minding.join();
        }
    }

    fn stop_heartbeats(&mut self) {
        self.shared.heartbeats_end.store(1);
        if let Some(heartbeats) = self.heartbeats.take() {
            let _ = heartbeats.join();
        }
    }
}

impl<M: Memory> Drop for HostAgent<M> {
    fn drop(&mut self) {
        // What cannot be left in peace is fenced.
        let _ = self.leave();
        self.stop_minding();
        self.pool = None;
        self.stop_heartbeats();
    }
}

/// Says how an agent is, from any thread.
pub struct Reporter<M: Memory> {
    mem: M,
    record: HostRecord,
    host: u32,
    generation: u32,
    priority: Priority,
    shared: Arc<Shared>,
}

impl<M: Memory> Reporter<M> {
    /// See [`HostAgent::status`].
    pub fn status(&self) -> Result<AgentStatus> {
        let state = HostState::decode(self.record.state().load(&self.mem));
        Ok(AgentStatus {
            host: self.host,
            generation: self.generation,
            phase: state.phase,
            now: state.generation,
            heartbeats: self.shared.heartbeats.load(),
            priority: self.priority,
            recovered_processes: self.shared.processes.load(),
            recovered_workers: self.shared.workers.load(),
            leads: match self.shared.leads.load() {
                0 => None,
                leads => Some(leads == 2),
            },
            failures: self.shared.failures(),
        })
    }
}

/// Starts the thread that sends heartbeats. The host has an agent only once that runs, under the priority that decides how patient
/// monitors must be.
fn heartbeat<M: Memory>(
    pod: &Arc<Pod<M>>,
    shared: &Arc<Shared>,
) -> Result<(JoinHandle<()>, AgentRole, Priority)> {
    let (taken, agent) = std::sync::mpsc::channel();
    let (pod, theirs) = (Arc::downgrade(pod), shared.clone());
    let path = std::path::PathBuf::from("the thread that sends heartbeats");
    let io = |source| Error::Io { path, source };
    let thread = std::thread::Builder::new()
        .name("cenote-heartbeat".to_owned())
        .spawn(move || {
            let priority = raise_priority();
            let timeout = match priority {
                Priority::Realtime => 1,
                _ => TIMEOUT_SHARED,
            };
            // The one who waits for the answer has the pool open.
            let Some(pod) = pod.upgrade() else { return };
            let mem = pod.mem().clone();
            let agent = AgentRole::take(&pod, timeout);
            drop(pod);
            let pulse = agent.as_ref().ok().map(|agent| agent.pulse(&mem));
            let is_heard = taken.send((agent, priority)).is_ok();
            let Some(mut pulse) = pulse.filter(|_| is_heard) else {
                return;
            };
            let mut next = Instant::now();
            while theirs.heartbeats_end.load() == 0 {
                pulse.heartbeat(&mem);
                theirs.heartbeats.store(theirs.heartbeats.load() + 1);
                // Heartbeats that were missed are not made up for.
                next = (next + HEARTBEAT).max(Instant::now());
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        })
        .map_err(io)?;
    match agent.recv() {
        Ok((agent, priority)) => Ok((thread, agent?, priority)),
        Err(_) => Err(Error::Forked),
    }
}

/// What the thread that looks after the dead does.
fn mind<M: Memory>(worker: &Worker<M>, agent: &AgentRole, shared: &Shared) {
    while shared.minding_ends.load() == 0 {
        let pod = worker.pod();
        let began = pod.begin_task();
        let has_found = match agent.declare_dead(pod) {
            Ok(has_found) => {
                pod.end_task(Task::Declaring, began);
                has_found
            }
            Err(error) => {
                pod.note_failure(Task::Declaring, "declaring this host's dead", &error);
                false
            }
        };
        let is_wanted = shared.wanted.exchange(1, 0);
        if is_wanted {
            // What it misses is made up for by who recovers the host's workers.
            match hosts_died(worker) {
                Ok(()) => pod.end_task(Task::Hosts, began),
                Err(error) => pod.note_failure(Task::Hosts, "telling groups of hosts that died", &error),
            }
        }
        if (has_found || is_wanted)
            && let Ok(recovered) = recover_dead(worker)
        {
            shared.processes.add(u64::from(recovered.processes));
            shared.workers.add(u64::from(recovered.workers));
        }
        *shared.failures.lock().unwrap_or_else(PoisonError::into_inner) = pod.failures();
        std::thread::park_timeout(MIND);
    }
}

/// Whether a process of this machine that has no host's id has the pool open.
fn hostless<M: Memory>(pod: &Pod<M>) -> Result<bool> {
    for (index, entry) in pod.entries() {
        let is_hostless = entry.phase != crate::pod::format::record::Phase::Free && entry.process == 0;
        if is_hostless && pod.is_locked(index)? {
            return Ok(true);
        }
    }
    Ok(false)
}
