//! Figures of a pool, as `cenote stat` shows them.

use std::rc::Rc;

use super::pool::Pool;
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::hash::HashMap;
use crate::index::objects::{Evictions, ObjectSettings, ObjectStore};
use crate::index::ordered::OrderedMap;
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::alloc::holes;
use crate::pod::format::geometry::FRAME;
use crate::pod::format::host_entry::{self, HostPhase, HostRecord, HostState};
use crate::pod::format::record::{Phase, ProcessRecord, State};
use crate::pod::format::recovery_log::{self, Entry};
use crate::pod::format::superblock::{EPOCH, EPOCH_FIRST, MemoryKind, RECOVERIES};
use crate::pod::group::Group;
use crate::pod::hosts::lease;
use crate::pod::instance::failures::Failure;
use crate::pod::names::directory::{
    self, KIND_DIRECTORY_LOCK, KIND_GROUP, KIND_HASH, KIND_LOCK, KIND_LOCKS, KIND_OBJECTS, KIND_ORDERED,
    KIND_TASKS, Named,
};
use crate::pod::reclaim::backlog::{self, Amount, Backlog};
use crate::pod::tasks::TaskList;
use crate::sync::array::Array;
use crate::sync::directory::inspect;
use crate::sync::inspect::{LockState, inspect as inspect_lock};
use crate::sync::object::Object;

/// A pool's figures. Those of a pool in use may not fit together.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Stat {
    /// Its file.
    pub path: std::path::PathBuf,
    /// The memory that it is for.
    pub kind: MemoryKind,
    /// Its identity.
    pub id: String,
    /// Seconds since 1970 when it was created.
    pub created_s: u64,
    /// Bytes for data that are reserved now.
    pub committed_bytes: u64,
    /// Free bytes of these that were given back to the file system, or are about to be.
    pub given_back_bytes: u64,
    /// Bytes that the file takes on its file system, tables included; `None` if it has lost its name.
    pub file_bytes: Option<u64>,
    /// Bytes that it may grow to.
    pub max_bytes: u64,
    /// Its maps.
    pub maps: Vec<MapStat>,
    /// Its object stores.
    pub objects: Vec<ObjectsStat>,
    /// Its task lists.
    pub tasks: Vec<TasksStat>,
    /// Its locks.
    pub locks: Vec<LockStat>,
    /// The processes that have it open.
    pub processes: Vec<InstanceStat>,
    /// The hosts that have ever had an agent on it.
    pub hosts: Vec<HostStat>,
    /// Workers attached.
    pub workers: u32,
    /// The epoch.
    pub epoch: u64,
    /// Retired objects: most wait until no reader can hold them.
    pub retired_objects: u64,
    /// Their bytes.
    pub retired_bytes: u64,
    /// How readers hold back reclamation, if they do.
    pub held_back: Option<HeldBackStat>,
    /// The workers that hold it back.
    pub laggards: Vec<LaggardStat>,
    /// Dead processes recovered since the pool was created.
    pub recoveries: u64,
    /// The last recoveries of workers, the latest first.
    pub recent: Vec<RecoveryStat>,
    /// Groups.
    pub groups: Vec<GroupStat>,
    /// Structures that were dropped, and whose memory has not come back yet.
    pub dropped: u64,
    /// Damaged things, of which there are no figures.
    pub damaged: Vec<DamagedStat>,
    /// What this process could not recover of dead processes.
    pub failures: Vec<Failure>,
    /// Whether a reader without a place in the pool made this. The figures may be of different moments.
    pub without_place: bool,
}

/// Something in the pool that is damaged.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DamagedStat {
    /// What it is.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
}

/// A recovery of a worker that died.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RecoveryStat {
    /// Its number, counted since the pool was created.
    pub number: u64,
    /// The place of the dead worker.
    pub worker: u32,
    /// The generation of the dead worker.
    pub generation: u32,
    /// The process id of the dead worker in its own namespace.
    pub pid: u32,
    /// Its host.
    pub host: u32,
    /// The place of the worker that recovered it.
    pub recoverer: u32,
    /// When the recovery began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// Nanoseconds that it took.
    pub took_ns: u64,
    /// What it did: `finished` or `undone` for an operation, and the registered steps that found something to do;
    /// `failed` if one of them could not be done.
    pub done: Vec<&'static str>,
}

/// A group's figures.
#[derive(Clone, Debug, serde::Serialize)]
pub struct GroupStat {
    /// Its name.
    pub name: String,
    /// Its living members.
    pub members: u64,
    /// Its events so far.
    pub events: u64,
}

/// A map's figures.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MapStat {
    /// Its name.
    pub name: String,
    /// Its keys.
    pub keys: u64,
}

/// An object store's figures.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ObjectsStat {
    /// Its name.
    pub name: String,
    /// Bytes that its objects occupy, with what surrounds them.
    pub bytes: u64,
    /// What it was created with.
    pub settings: ObjectSettings,
    /// What was evicted since.
    pub evictions: Evictions,
}

/// A task list's figures.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TasksStat {
    /// Its name.
    pub name: String,
    /// Its tasks, of all phases.
    pub tasks: u64,
    /// The tasks that have a result.
    pub done: u64,
}
/// A lock's figures.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LockStat {
    /// Its name.
    pub name: String,
    /// Its number in the array of that name. Locks of an array that nobody holds or waits for are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Who holds it, and who waits for it.
    #[serde(flatten)]
    pub seen: LockState,
}

/// A process that has the pool open.
#[derive(Clone, Debug, serde::Serialize)]
pub struct InstanceStat {
    /// Its place.
    pub index: u32,
    /// Its generation.
    pub generation: u32,
    /// Its process id in its own namespace.
    pub pid: u64,
    /// Its host.
    pub host: u64,
    /// Seconds since 1970 when it opened the pool.
    pub since_s: u64,
    /// Whether it lives. If not, it is to be recovered.
    pub is_alive: bool,
}

/// A host of a pod.
#[derive(Clone, Debug, serde::Serialize)]
pub struct HostStat {
    /// Its id.
    pub host: u32,
    /// Its phase.
    pub phase: HostPhase,
    /// Its generation: how often it has left or been fenced.
    pub generation: u32,
    /// The place of its agent among the processes.
    pub agent: Option<u32>,
    /// Its agents' heartbeats so far.
    pub heartbeats: u64,
    /// How many times as long as usual monitors wait for a heartbeat.
    pub timeout_factor: u64,
    /// When a monitor last began to fence it, in seconds since 1970; 0 for never.
    pub fenced_at_s: u64,
    /// Whether it has the server lease, where a server executes exchanges.
    pub has_lease: bool,
}

/// What readers hold back.
#[derive(Clone, Debug, serde::Serialize)]
pub struct HeldBackStat {
    /// Since when, in seconds since 1970, as far as it was noticed.
    pub since_s: u64,
    /// The retired objects that wait for the readers.
    #[serde(flatten)]
    pub waiting: Amount,
}

/// A worker that holds back reclamation by reading: it began before the present epoch.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LaggardStat {
    /// Its place.
    pub worker: u32,
    /// Its process's id.
    pub pid: u64,
}

impl<M: Memory> Pool<M> {
    /// Reads the pool's figures.
    ///
    /// Cost: some loads for each entry of the directory, each place, each chunk of the retired lists, and each map,
    /// lock, task list and group, and a peek for each worker and map.
    pub fn stat(&self) -> Result<Stat> {
        stat(&self.worker()?, self.file_bytes())
    }
}

/// [`Pool::stat`] with a worker; `file_bytes` is what the pool's file takes.
pub fn stat<M: Memory>(worker: &Rc<Worker<M>>, file_bytes: Option<u64>) -> Result<Stat> {
    let (pod, mem, geometry) = (worker.pod(), worker.mem(), worker.geometry());
    let mut damage = Damage::default();
    let processes = processes(worker, &mut damage);
    let attached = pod.attached_workers();
    let backlog = backlog::inspect(worker)?;
    let laggards = laggards(worker, &backlog);
    let Things {
        maps,
        objects,
        tasks,
        locks,
        groups,
        dropped,
    } = Things::of_directory(worker, &mut damage);
    let hosts = hosts(worker, &mut damage);
    Ok(Stat {
        path: pod.path().to_owned(),
        kind: geometry.parameters.kind,
        id: format!("{:016x}", pod.superblock().id),
        created_s: pod.superblock().created,
        committed_bytes: worker.committed_frames()? * FRAME,
        given_back_bytes: holes::frames_in_holes(mem) * FRAME,
        file_bytes,
        max_bytes: geometry.parameters.max_frames * FRAME,
        maps,
        objects,
        tasks,
        locks,
        processes,
        hosts,
        workers: attached.len() as u32,
        epoch: (EPOCH.load(mem) >> 1).max(EPOCH_FIRST),
        retired_objects: backlog.retired.objects,
        retired_bytes: backlog.retired.bytes,
        held_back: backlog.since.map(|since| HeldBackStat {
            since_s: since,
            waiting: backlog.unreclaimable,
        }),
        laggards,
        recoveries: RECOVERIES.load(mem),
        recent: recent(worker),
        groups,
        dropped,
        damaged: damage.0,
        failures: pod.failures(),
        without_place: false,
    })
}

/// What is damaged.
#[derive(Default)]
struct Damage(Vec<DamagedStat>);

impl Damage {
    fn note(&mut self, what: String, error: Error) {
        let why = error.to_string();
        self.0.push(DamagedStat { what, why });
    }
}

/// The processes that have the pool open.
fn processes<M: Memory>(worker: &Worker<M>, damage: &mut Damage) -> Vec<InstanceStat> {
    let (mem, geometry) = (worker.mem(), worker.geometry());
    let mut processes = Vec::new();
    for index in 0..geometry.parameters.processes {
        let record = ProcessRecord::new(geometry, index);
        let state = State::decode(record.state().load(mem));
        if state.phase != Phase::Free {
            processes.push(InstanceStat {
                index,
                generation: state.generation,
                pid: record.pid().peek(mem),
                host: record.host().peek(mem),
                since_s: record.since().peek(mem),
                // A process whose state is unknown must not be recovered.
                is_alive: state.phase == Phase::Alive
                    && worker.pod().process_lives(index).unwrap_or_else(|error| {
                        damage.note(format!("the process at place {index}"), error);
                        true
                    }),
            });
        }
    }
    processes
}

/// The workers that hold reclamation back.
fn laggards<M: Memory>(worker: &Worker<M>, backlog: &Backlog) -> Vec<LaggardStat> {
    let (mem, geometry) = (worker.mem(), worker.geometry());
    let pid = |state: State| {
        let process = state.process.min(geometry.parameters.processes - 1);
        ProcessRecord::new(geometry, process).pid().peek(mem)
    };
    let laggards = backlog.laggards.iter().map(|laggard| LaggardStat {
        worker: laggard.index,
        pid: pid(laggard.state),
    });
    laggards.collect()
}

/// The hosts that have ever had an agent on the pool.
fn hosts<M: Memory>(worker: &Worker<M>, damage: &mut Damage) -> Vec<HostStat> {
    let (mem, geometry) = (worker.mem(), worker.geometry());
    let mut hosts = Vec::new();
    for id in 1..host_entry::hosts_high(mem, geometry) {
        let record = HostRecord::new(geometry, id);
        let state = HostState::decode(record.state().load(mem));
        if let Err(error) = record.read(mem) {
            damage.note(format!("host {id}"), error);
        }
        hosts.push(HostStat {
            host: id,
            phase: state.phase,
            generation: state.generation,
            agent: state.agent.checked_sub(1),
            heartbeats: record.heartbeat().load(mem),
            timeout_factor: match state.agent {
                place if (1..=geometry.parameters.processes).contains(&place) => {
                    ProcessRecord::new(geometry, place - 1).timeout().peek(mem)
                }
                _ => 0,
            },
            fenced_at_s: record.fenced_at().load(mem),
            has_lease: lease::is_of(mem, geometry, id, state.generation),
        });
    }
    hosts
}

/// What has a name in the pool.
#[derive(Default)]
struct Things {
    maps: Vec<MapStat>,
    objects: Vec<ObjectsStat>,
    tasks: Vec<TasksStat>,
    locks: Vec<LockStat>,
    groups: Vec<GroupStat>,
    dropped: u64,
}

impl Things {
    fn of_directory<M: Memory>(worker: &Rc<Worker<M>>, damage: &mut Damage) -> Self {
        let mut things = Self::default();
        for entry in directory::entries(&**worker) {
            let (index, named) = (entry.index, entry.unnamed());
            let looked = match entry.name {
                Ok(name) => things
                    .add(worker, &name, named)
                    .map_err(|error| (format!("{name:?}"), error)),
                Err(error) => Err((format!("entry {index} of the directory"), error)),
            };
            match looked {
                // Meanwhile.
                Ok(()) | Err((_, Error::Dropped)) => {}
                Err((what, error)) => damage.note(what, error),
            }
        }
        things.dropped = directory::dropped(worker).count() as u64;
        things
    }

    fn add<M: Memory>(&mut self, worker: &Rc<Worker<M>>, name: &str, named: Named) -> Result<()> {
        let (name, kind, at) = (name.to_owned(), named.kind, named.offset);
        let pin = worker.pin()?;
        let keys = match kind {
            KIND_HASH => HashMap::of(worker.clone(), named, Guidelines::SP)?.len(),
            KIND_ORDERED => OrderedMap::of(worker.clone(), named, kind, Guidelines::SP)?.len(),
            KIND_OBJECTS => {
                let store = ObjectStore::of(worker.clone(), named, Guidelines::SP)?;
                drop(pin);
                self.objects.push(ObjectsStat {
                    name,
                    bytes: store.bytes(),
                    settings: *store.settings(),
                    evictions: store.evictions(),
                });
                return Ok(());
            }
            KIND_TASKS => {
                let list = TaskList::of(worker.clone(), named)?;
                self.tasks.push(TasksStat {
                    name,
                    tasks: list.len(),
                    done: list.committed(),
                });
                return Ok(());
            }
            KIND_LOCK => {
                let seen = inspect_lock(worker, Object::at(worker, at)?)?;
                self.locks.push(LockStat {
                    name,
                    index: None,
                    seen,
                });
                return Ok(());
            }
            KIND_DIRECTORY_LOCK => {
                self.locks.push(LockStat {
                    name,
                    index: None,
                    seen: inspect::inspect(worker, at)?,
                });
                return Ok(());
            }
            KIND_LOCKS => {
                let array = Array::at(worker, at)?;
                for index in array.named_by_slots(worker) {
                    let seen = inspect_lock(worker, array.lock(worker, index)?)?;
                    if seen.owner.is_some() || !seen.readers.is_empty() || !seen.waiting.is_empty() {
                        self.locks.push(LockStat {
                            name: name.clone(),
                            index: Some(index),
                            seen,
                        });
                    }
                }
                return Ok(());
            }
            KIND_GROUP => {
                let group = Group::of(worker, &named)?;
                self.groups.push(GroupStat {
                    name,
                    members: group.joined(worker)?,
                    events: group.counted(worker),
                });
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.maps.push(MapStat { name, keys });
        Ok(())
    }
}

/// The log of recoveries.
fn recent<M: Memory>(worker: &Worker<M>) -> Vec<RecoveryStat> {
    let steps = worker.pod().hooks().steps;
    let name = |entry: &Entry| -> Vec<&'static str> {
        let operation = [
            (recovery_log::FINISHED, "finished"),
            (recovery_log::UNDONE, "undone"),
            (recovery_log::FAILED, "failed"),
        ];
        let steps = steps.iter().enumerate();
        let steps = steps.map(|(n, step)| (1 << (recovery_log::FIRST_STEP + n as u32), step.name));
        let all = operation.into_iter().chain(steps);
        all.filter(|(bit, _)| entry.done & bit != 0)
            .map(|(_, name)| name)
            .collect()
    };
    recovery_log::read(worker.mem(), worker.geometry())
        .into_iter()
        .map(|entry| RecoveryStat {
            number: entry.number,
            worker: (entry.dead as u32).wrapping_sub(1),
            generation: (entry.dead >> 32) as u32,
            pid: entry.pid,
            host: entry.host,
            recoverer: (entry.recoverer as u32).wrapping_sub(1),
            began_ns: entry.began,
            took_ns: entry.took,
            done: name(&entry),
        })
        .collect()
}
