//! A host's agent: a thread that sends heartbeats, one that recovers this host's dead, one that
//! [relays](super::relay_threads) event counts, and on request a monitor of the other hosts.
//!
//! The heartbeat thread does nothing else, and runs under the highest priority that it is granted; where that is not
//! real time, it asks monitors for a longer timeout. Recovery has a thread of its own from the start: it may wait for a
//! lock that a failed host held, and that nobody can take before a monitor has fenced that host. So neither the start,
//! nor heartbeats, nor polls may wait for recovery.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::fence_command::CommandFence;
use super::monitor_options::{MonitorHandler, MonitorOptions};
use super::options::Options;
use super::pool::Pool;
use super::relay_threads::{Peers, Relaying};
use crate::causes::HostError;
use crate::error::{Error, Result};
use crate::memory::{Coherent, LocalWord, Mapped, Memory, Priority, Sigkill, raise_priority};
use crate::pod::commit::recovery::recover_dead;
use crate::pod::format::host_entry::{HostPhase, HostRecord, HostState};
use crate::pod::group::hosts_died;
use crate::pod::hosts::agent::{AgentRole, HEARTBEAT};
use crate::pod::hosts::fence::{Fence, KillFence};
use crate::pod::hosts::monitor::{Event, Monitor};
use crate::pod::hosts::poll::Poll;
use crate::pod::instance::failures::{Failure, Task};
use crate::pod::instance::process::seconds_since_1970;
use crate::pod::{Pod, Worker};

/// How many times as long monitors wait for heartbeats of a thread that has to share its processor.
const TIMEOUT_SHARED: u64 = 16;
/// The time between two checks for this host's dead.
const RECOVERY_INTERVAL: Duration = Duration::from_millis(8);
/// The time between two polls of a fence that is under way.
const FENCING: Duration = Duration::from_millis(1);

/// Whether a host's agent is also a monitor of the other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MonitorRole {
    /// No monitor.
    None,
    /// A monitor, while another one leads, or none.
    Follows,
    /// The monitor that leads.
    Leads,
}

/// How [`HostAgent::leave`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Leave {
    /// The host has left the pod.
    Left,
    /// Other processes of the host have the pool open: nothing has changed, and the agent goes on.
    InUse,
}

/// The state of an agent.
#[derive(Clone, Debug, serde::Serialize)]
pub struct AgentStatus {
    /// The host.
    pub host: u32,
    /// Its generation.
    pub generation: u32,
    /// The phase of the host's present generation, as the pool says.
    pub phase: HostPhase,
    /// The host's present generation: another one if the agent's is over.
    pub current_generation: u32,
    /// Heartbeats since the agent started.
    pub heartbeats: u64,
    /// The priority of the heartbeat thread.
    pub priority: Priority,
    /// Dead processes, of any host, that this agent has recovered.
    pub recovered_processes: u64,
    /// Dead workers that it has recovered.
    pub recovered_workers: u64,
    /// Whether it is a monitor, and if so whether it leads.
    pub monitor: MonitorRole,
    /// What its process could not recover, and has not found repaired since.
    pub failures: Vec<Failure>,
}

/// What an agent's threads share.
#[derive(Default)]
struct Shared {
    /// Set to end the recovery thread.
    recovery_ends: LocalWord,
    /// Set to end the heartbeat thread.
    heartbeats_end: LocalWord,
    heartbeats: LocalWord,
    /// Set when dead instances of other hosts are to be recovered too.
    wanted: LocalWord,
    /// What could not be recovered.
    failures: Mutex<Vec<Failure>>,
    processes: LocalWord,
    workers: LocalWord,
    /// 0: no monitor; 1: a monitor that follows; 2: a monitor that leads.
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

/// The agent of this host. When dropped, it leaves the pod if it can; if processes of its host still have the pool
/// open, the host will be fenced.
pub struct HostAgent<M: Memory = Coherent> {
    /// `None` once it has left.
    pool: Option<Pool<M>>,
    mem: M,
    agent: Arc<AgentRole>,
    shared: Arc<Shared>,
    priority: Priority,
    heartbeats: Option<JoinHandle<()>>,
    recovering: Option<JoinHandle<()>>,
    relaying: Option<Relaying>,
}

impl<M: Mapped> HostAgent<M> {
    /// Opens a pool as the agent of host `options.host`, and begins to send heartbeats.
    ///
    /// It is an error if the host has an agent, if it is being fenced, or if processes without a host's id have the
    /// pool open.
    ///
    /// Errors: those of [`Pool::open`], and [`Error::Host`](crate::Error::Host) with
    /// [`Elsewhere`](crate::causes::HostError::Elsewhere), [`Unidentified`](crate::causes::HostError::Unidentified),
    /// [`Ending`](crate::causes::HostError::Ending), [`HasAgent`](crate::causes::HostError::HasAgent),
    /// [`AgentWasFaster`](crate::causes::HostError::AgentWasFaster),
    /// [`FencedMeanwhile`](crate::causes::HostError::FencedMeanwhile), [`NoPod`](crate::causes::HostError::NoPod),
    /// [`OthersWithoutId`](crate::causes::HostError::OthersWithoutId).
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
            recovering: None,
            relaying: None,
        };
        agent.shared.wanted.store(1);
        agent.agent.declare_dead(&pod)?;
        let pool = Pool::begin(pod, options)?;
        let hostless = hostless(pool.pod())?;
        agent.pool = Some(pool);
        if hostless {
            // Dropping the agent makes the host leave.
            return Err(Error::Host {
                host: options.host,
                source: HostError::OthersWithoutId,
            });
        }
        agent.recovering = Some(agent.recover_loop()?);
        agent.relaying = Some(Relaying::start(agent.pool()?.pod())?);
        Ok(agent)
    }
}

impl<M: Memory> HostAgent<M> {
    fn pool(&self) -> Result<&Pool<M>> {
        self.pool.as_ref().ok_or(Error::Host {
            host: self.agent.host(),
            source: HostError::AgentLeft,
        })
    }

    /// The random number that tells its pool from others.
    pub fn pool_id(&self) -> Result<u64> {
        Ok(self.pool()?.pod().superblock().id)
    }

    /// Tells the agents of other hosts at once when an event count is notified on this one, and listens to them:
    /// members of groups there then wake when a datagram comes, else within a heartbeat. To be called once.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot listen on the address.
    pub fn tell_peers(&mut self, peers: &Peers) -> Result<()> {
        let pod = self.pool()?.pod().clone();
        match &mut self.relaying {
            Some(relaying) => relaying.tell(&pod, peers),
            None => Ok(()),
        }
    }

    /// The agent's state. Cost: one round trip.
    ///
    /// Errors: [`Error::Host`](crate::Error::Host) with [`AgentLeft`](crate::causes::HostError::AgentLeft).
    pub fn status(&self) -> Result<AgentStatus> {
        self.reporter()?.status()
    }

    /// A [`Reporter`] of the same for any thread. It is an error if the agent has left.
    ///
    /// Errors: [`Error::Host`](crate::Error::Host) with [`AgentLeft`](crate::causes::HostError::AgentLeft).
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

    /// Starts the recovery thread.
    fn recover_loop(&self) -> Result<JoinHandle<()>> {
        let pod = self.pool()?.pod().clone();
        let path = pod.path().to_owned();
        let (agent, shared) = (self.agent.clone(), self.shared.clone());
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        // A worker belongs to the thread that attaches it.
        let work = move || match Worker::attach(&pod, false) {
            Ok(worker) => {
                drop(pod);
                let _ = begun.send(Ok(()));
                recover_loop(&worker, &agent, &shared);
            }
            Err(error) => drop(begun.send(Err(error))),
        };
        let thread = std::thread::Builder::new()
            .name("cenote-recover".to_owned())
            .spawn(work)
            .map_err(|source| Error::Io { path, source })?;
        begins.recv().unwrap_or(Err(Error::Forked))?;
        Ok(thread)
    }

    /// Runs a monitor of the other hosts on this thread, until `handler` ends it.
    pub fn watch(&self, watch: &MonitorOptions, handler: &dyn MonitorHandler) -> Result<()> {
        let worker = Worker::attach(self.pool()?.pod(), false)?;
        let mut fence: Box<dyn Fence<M>> = match &watch.fence {
            Some(command) => Box::new(CommandFence::new(command.clone(), watch.fence_timeout)),
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
        // Whatever ended it: other monitors must not wait for a leader that has ended.
        let watched = self.poll_hosts(watch, &worker, &mut monitor, &mut *fence, handler);
        monitor.resign(&worker);
        watched
    }

    /// The loop of [`HostAgent::watch`].
    fn poll_hosts(
        &self,
        watch: &MonitorOptions,
        worker: &Worker<M>,
        monitor: &mut Monitor,
        fence: &mut dyn Fence<M>,
        handler: &dyn MonitorHandler,
    ) -> Result<()> {
        let mut last: Option<Instant> = None;
        // Failures that still exist and were reported.
        let mut told: Vec<Failure> = Vec::new();
        while !handler.is_over() {
            let now = Instant::now();
            let how = Poll::after(last.map(|last| now.duration_since(last)), watch.poll);
            if how != Poll::Between {
                last = Some(now);
            }
            let is_fencing = monitor.poll(worker, fence, how, &|| handler.may_lead(), &mut |event| {
                if matches!(event, Event::Leads | Event::Moved { .. }) {
                    self.recover_soon();
                }
                handler.on_event(&event);
            })?;
            self.shared.leads.store(1 + u64::from(monitor.leads()));
            // Polls do not wait for the lock.
            if let Ok(known) = self.shared.failures.try_lock().map(|known| known.clone()) {
                let is_new = |failure: &&Failure| !told.contains(failure);
                for Failure { what, why } in known.iter().filter(is_new).cloned() {
                    handler.on_event(&Event::NotRecovered { what, why });
                }
                told = known;
            }
            let due = last.map_or(now, |last| last + watch.poll);
            let pause = due.saturating_duration_since(Instant::now());
            std::thread::sleep(if is_fencing { pause.min(FENCING) } else { pause });
        }
        Ok(())
    }

    /// Wakes the recovery thread, to recover the dead of other hosts too.
    fn recover_soon(&self) {
        self.shared.wanted.store(1);
        if let Some(recovering) = &self.recovering {
            recovering.thread().unpark();
        }
    }

    /// Leaves the pod. If other processes of this host have the pool open, nothing changes, and the agent goes on; call
    /// it again when they have ended.
    ///
    /// Errors: [`Error::Host`] with [`Fenced`](crate::causes::HostError::Fenced).
    pub fn leave(&mut self) -> Result<Leave> {
        let Some(pool) = &self.pool else {
            return Ok(Leave::Left);
        };
        let Some(leaving) = self.agent.leave(pool.pod())? else {
            return Ok(Leave::InUse);
        };
        let geometry = *pool.pod().geometry();
        self.stop_recovery();
        self.pool = None;
        self.stop_heartbeats();
        leaving.finish(&self.mem, &geometry);
        Ok(Leave::Left)
    }

    fn stop_recovery(&mut self) {
        self.relaying = None;
        self.shared.recovery_ends.store(1);
        if let Some(recovering) = self.recovering.take() {
            recovering.thread().unpark();
            // A panic of the thread does not matter here.
            let _ = recovering.join();
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
        // If it cannot leave, the host will be fenced.
        let _ = self.leave();
        self.stop_recovery();
        self.pool = None;
        self.stop_heartbeats();
    }
}

/// Reports the state of an agent, from any thread.
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
    ///
    /// Errors: [`Error::Host`](crate::Error::Host) with [`AgentLeft`](crate::causes::HostError::AgentLeft).
    pub fn status(&self) -> Result<AgentStatus> {
        let state = HostState::decode(self.record.state().load(&self.mem));
        Ok(AgentStatus {
            host: self.host,
            generation: self.generation,
            phase: state.phase,
            current_generation: state.generation,
            heartbeats: self.shared.heartbeats.load(),
            priority: self.priority,
            recovered_processes: self.shared.processes.load(),
            recovered_workers: self.shared.workers.load(),
            monitor: match self.shared.leads.load() {
                0 => MonitorRole::None,
                1 => MonitorRole::Follows,
                _ => MonitorRole::Leads,
            },
            failures: self.shared.failures(),
        })
    }
}

/// Starts the heartbeat thread. That thread makes this process the agent once it knows its priority, which decides how
/// long monitors must wait.
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
            // The thread that waits for the answer keeps the pool open.
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
                // Missed heartbeats are not sent later.
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

/// The recovery thread.
fn recover_loop<M: Memory>(worker: &Worker<M>, agent: &AgentRole, shared: &Shared) {
    while shared.recovery_ends.load() == 0 {
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
            // A death that it misses is reported by the recoverer of the host's workers.
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
        std::thread::park_timeout(RECOVERY_INTERVAL);
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
