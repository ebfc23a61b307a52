//! A host's agent: the process that answers for its host.
//!
//! **It alone writes** its host's heartbeat and timeout, the declarations of its host's dead processes, and its host's
//! state except for the steps of monitors. A host has one agent at a time: its place in the process table is in the
//! host's state.
//!
//! **Starting.** The host goes up without an agent; the process joins as any other; it exchanges itself into the state,
//! if there is no agent or the kernel's lock shows the last one dead. So an agent that is restarted before its host was
//! fenced goes on in the same generation: the host has not failed. An agent whose start stalls for long is fenced. An
//! agent that finds its host being fenced ends the generation itself, if the kernel says that nothing of it lives: two
//! monitors may have fenced each other. The kernel's locks count for this only on the same boot of the same machine; a
//! rebooted machine, or another one with the same id, waits for a fence. An agent that finds its host leaving, and the
//! leaving agent dead, goes on as well. An agent that finds its host down, and its generation claimed by another
//! machine, ends that generation if the server lease is elsewhere: that machine was given the lease, and has failed
//! before it went up.
//!
//! **Leaving.** The state says leaving, so that no process joins; if the process table has no other process of the
//! host, the agent gives its own place back, and its last write ends the generation. A process that joins claims a
//! place first and checks the host then, the agent the other way round: one of the two sees the other.

use std::time::Duration;

use super::lease;
use crate::causes::{HostError, Table};
use crate::error::{Error, Result};
use crate::memory::{Liveness, Memory};
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::{Geometry, NO_HOST};
use crate::pod::format::host_entry::{self, Home, HostPhase, HostRecord, HostState};
use crate::pod::format::record::{Phase, ProcessRecord, State};
use crate::pod::format::superblock::HOSTS_HIGH;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::drain;
use crate::pod::instance::process::{Identity, Pod};
use crate::pod::instance::repair;

/// The time between two heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(8);

/// Brings a host up, if it is down; returns its generation. A few round trips.
pub fn bring_up<M: Memory>(
    mem: &M,
    geometry: &Geometry,
    identity: &Identity,
    liveness: &dyn Liveness,
) -> Result<u32> {
    let host = identity.host;
    host_entry::check_id(&geometry.parameters, host)?;
    if host == NO_HOST {
        return Err(Error::Host {
            host,
            source: HostError::NoPod,
        });
    }
    if identity.name.machine == 0 {
        return Err(Error::Host {
            host,
            source: HostError::Unidentified,
        });
    }
    repair::refuse_host(mem, geometry, identity.name.machine, liveness)?;
    // Before it makes an exchange: where a server executes exchanges, two machines with the same id would ask by the
    // same mailboxes.
    let record = HostRecord::new(geometry, host);
    let state = record.read(mem)?;
    let home = Home::decode(record.home().load(mem));
    let is_elsewhere =
        home.is_of(state.generation) && home != Home::new(state.generation, identity.name.machine);
    if is_elsewhere && !is_superseded(mem, geometry, host, state) && !mutant::is(Mutant::HomeMoved) {
        return Err(Error::Host {
            host,
            source: HostError::Elsewhere,
        });
    }
    // This process has no place yet, so it asks by the mailboxes of a place that no other process can take.
    let borrowed = match mem.is_delegated() {
        true => Some(borrow_place(mem, geometry, host, liveness)?),
        false => None,
    };
    let generation = bring_up_now(mem, geometry, identity, liveness);
    if let Some(place) = borrowed {
        liveness.unlock(place)?;
    }
    generation
}

/// Takes the lock of any place of a host that no living process has, and enters it.
fn borrow_place<M: Memory>(mem: &M, geometry: &Geometry, host: u32, liveness: &dyn Liveness) -> Result<u32> {
    for place in geometry.places_of(host) {
        if liveness.try_lock(place)? {
            if mem.enter(place) {
                return Ok(place);
            }
            liveness.unlock(place)?;
        }
    }
    Err(Error::TooMany {
        what: Table::Processes,
        limit: geometry.places_of(host).count() as u32,
    })
}

fn bring_up_now<M: Memory>(
    mem: &M,
    geometry: &Geometry,
    identity: &Identity,
    liveness: &dyn Liveness,
) -> Result<u32> {
    let host = identity.host;
    let mut high = HOSTS_HIGH.load(mem);
    while high <= u64::from(host) {
        // NO PAIR: claim
        match HOSTS_HIGH.compare_exchange_acquire(mem, high, u64::from(host) + 1) {
            Ok(_) => break,
            Err(found) => high = found,
        }
    }
    let record = HostRecord::new(geometry, host);
    loop {
        let state = record.read(mem)?;
        match state.phase {
            // PAIRS WITH: pod::hosts::fence::fence
            HostPhase::Up if host_entry::claim_home(mem, record, state.generation, identity.name.machine) => {
                crash_point(Point::HomeClaimed);
                return Ok(state.generation);
            }
            // Its generation may just have ended.
            HostPhase::Up if record.read(mem)? != state => {}
            HostPhase::Up => {
                return Err(Error::Host {
                    host,
                    source: HostError::Elsewhere,
                });
            }
            HostPhase::Down => {
                // With an old one the host goes up here too, and is refused then: its home decides, by an exchange.
                let home = Home::decode(record.home().load_speculative(mem));
                let is_here = home == Home::new(state.generation, identity.name.machine);
                let next = match home.is_of(state.generation) && !is_here {
                    true if is_superseded(mem, geometry, host, state) => state.over(),
                    true => {
                        return Err(Error::Host {
                            host,
                            source: HostError::Elsewhere,
                        });
                    }
                    false => state.with(HostPhase::Up),
                };
                record.exchange(mem, state, next);
                crash_point(Point::HostUp);
            }
            HostPhase::Leaving if is_left_behind(mem, geometry, identity, state, liveness)? => {
                record.exchange(mem, state, state.with(HostPhase::Up));
            }
            // A host that has the lease executes this process's exchanges, perhaps in this process, and would go on
            // after its end. So would a host from which the lease is just being taken: the taker fences nobody whose
            // generation is over. Checked last: no living process could give the lease to this generation then.
            HostPhase::Fencing
                if is_all_dead(mem, geometry, identity, state, liveness)?
                    && lease::is_elsewhere(mem, geometry, host, state.generation) =>
            {
                // Its cache is not lost, unlike that of a host that was fenced.
                drain::drop_cached(mem, geometry);
                record.exchange(mem, state, state.over());
            }
            _ => {
                return Err(Error::Host {
                    host,
                    source: HostError::Ending,
                });
            }
        }
    }
}

/// Whether nothing of a host's generation can write any more although a machine has claimed it: the host never went up
/// there, so no process has joined, and another host has the lease that this one was given, and has had this one
/// fenced.
fn is_superseded<M: Memory>(mem: &M, geometry: &Geometry, host: u32, state: HostState) -> bool {
    state.phase == HostPhase::Down && lease::is_elsewhere(mem, geometry, host, state.generation)
}

/// Whether this machine's kernel knows that the agent of a leaving host is dead, or has left its place: then the host
/// has not failed, and another agent may go on. If the last one is just about to end the generation, one of the two
/// wins.
fn is_left_behind<M: Memory>(
    mem: &M,
    geometry: &Geometry,
    identity: &Identity,
    state: HostState,
    liveness: &dyn Liveness,
) -> Result<bool> {
    let is_agent = |index: u32| index < geometry.parameters.processes;
    Ok(is_same_machine(mem, geometry, identity, state)
        && match state.agent.checked_sub(1).filter(|&index| is_agent(index)) {
            Some(index) => !liveness.is_locked(index)?,
            None => true,
        })
}

/// Whether a host is on the same boot of the same machine as when it went up. Only then do its kernel's locks say
/// anything.
fn is_same_machine<M: Memory>(mem: &M, geometry: &Geometry, identity: &Identity, state: HostState) -> bool {
    let record = HostRecord::new(geometry, identity.host);
    let machine = identity.name.machine;
    machine != 0 && host_entry::is_home(mem, record, state.generation, machine)
}

/// Whether this machine's kernel knows that nothing of a host's generation lives.
fn is_all_dead<M: Memory>(
    mem: &M,
    geometry: &Geometry,
    identity: &Identity,
    state: HostState,
    liveness: &dyn Liveness,
) -> Result<bool> {
    let home = Home::decode(HostRecord::new(geometry, identity.host).home().load(mem));
    if !home.is_of(state.generation) {
        // No process has joined: one that does claims a place after it has claimed the home, and checks the host again.
        return Ok(true);
    }
    if !is_same_machine(mem, geometry, identity, state) {
        return Ok(false);
    }
    for index in 0..geometry.parameters.processes {
        let entry = State::decode(ProcessRecord::new(geometry, index).state().load(mem));
        // PAIRS WITH: pod::instance::join::claim_place
        if host_entry::is_of(entry, identity.host, state.generation) && liveness.is_locked(index)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The role of the agent of a host.
#[derive(Debug)]
pub struct AgentRole {
    host: u32,
    state: HostState,
    record: HostRecord,
}

impl AgentRole {
    /// Makes this process its host's agent. It must have joined as one ([`Pod::join_as_agent`]).
    pub fn take<M: Memory>(pod: &Pod<M>, timeout: u64) -> Result<Self> {
        let (mem, geometry) = (pod.mem(), pod.geometry());
        let host = pod.host();
        let record = HostRecord::new(geometry, host);
        let found = record.read(mem)?;
        if found.phase != HostPhase::Up || found.generation != pod.host_generation() {
            return Err(Error::Host {
                host,
                source: HostError::FencedMeanwhile,
            });
        }
        if found.agent != 0 && agent_lives(pod, found)? {
            return Err(Error::Host {
                host,
                source: HostError::HasAgent,
            });
        }
        // Before a monitor waits for a heartbeat of this agent.
        let asked = ProcessRecord::new(geometry, pod.index()).timeout();
        asked.set(mem, timeout.max(1));
        mem.persist(asked.offset(), 8);
        let state = HostState {
            agent: pod.index() + 1,
            tag: pod.generation() as u8,
            ..found
        };
        if !record.exchange(mem, found, state) {
            return Err(Error::Host {
                host,
                source: HostError::AgentWasFaster,
            });
        }
        // A process that lost the exchange above must not touch it.
        // PAIRS WITH: pod::hosts::heartbeats::has_missed
        record.heartbeat().fetch_add(mem, 1);
        crash_point(Point::AgentTaken);
        Ok(Self { host, state, record })
    }

    /// The host.
    pub fn host(&self) -> u32 {
        self.host
    }

    /// The host's generation.
    pub fn generation(&self) -> u32 {
        self.state.generation
    }

    /// What increments the host's heartbeat.
    pub fn pulse<M: Memory>(&self, mem: &M) -> Pulse {
        Pulse {
            record: self.record,
            count: self.record.heartbeat().load(mem),
        }
    }

    /// Declares the dead processes of this host dead, so that other hosts need not wait until they are recovered;
    /// returns whether there are any. Not while the host is being fenced: then they die with it. On incoherent memory,
    /// what they have left in this host's cache reaches memory first (`drain`). Never waits. One round trip for each
    /// place, and one system call for each process of the host.
    ///
    /// An agent calls this before it attaches a worker: attaching may wait for a lock of dead workers that a monitor is
    /// fencing, and that monitor may have been this host's agent before and be dead too.
    pub fn declare_dead<M: Memory>(&self, pod: &Pod<M>) -> Result<bool> {
        let mut found = false;
        for (index, entry) in of_host(pod) {
            if index != pod.index() && !pod.is_locked(index)? && pod.may_recover()? {
                match M::COHERENT {
                    true => declare(pod, index, entry),
                    false => drain::drain(pod, index, entry)?,
                }
                found = true;
            }
        }
        Ok(found)
    }

    /// Begins to leave; `None` if processes of this host have the pool open: then nothing has changed. Otherwise no
    /// process of this host can join any more; the caller gives the pool back and calls [`Leaving::finish`].
    pub fn leave<M: Memory>(&self, pod: &Pod<M>) -> Result<Option<Leaving>> {
        let mem = pod.mem();
        let leaving = self.state.with(HostPhase::Leaving);
        if !self.record.exchange(mem, self.state, leaving) {
            return Err(Error::Host {
                host: self.host,
                source: HostError::Fenced,
            });
        }
        crash_point(Point::HostLeaving);
        // PAIRS WITH: pod::instance::join::claim_place
        let others = of_host(pod).any(|(index, _)| index != pod.index());
        if !others {
            return Ok(Some(Leaving {
                host: self.host,
                record: self.record,
                state: leaving,
            }));
        }
        self.record.exchange(mem, leaving, self.state);
        Ok(None)
    }
}

/// A host that no process can join any more.
#[derive(Debug)]
pub struct Leaving {
    host: u32,
    record: HostRecord,
    state: HostState,
}

impl Leaving {
    /// Ends the host's generation: the last write of the host. Its agent's place must be free before.
    pub fn finish<M: Memory>(self, mem: &M, geometry: &Geometry) {
        let (from, to) = (self.state, self.state.over());
        // If it fails, a monitor was faster.
        if lease::is_of(mem, geometry, self.host, from.generation) {
            // PAIRS WITH: pod::format::host_entry::HostRecord::read
            self.record
                .state()
                .exchange_as_last_server(mem, from.encode(), to.encode());
        } else {
            self.record.exchange(mem, from, to);
        }
    }
}

/// What increments a host's heartbeat. For one thread.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    record: HostRecord,
    count: u64,
}

impl Pulse {
    /// One heartbeat: one sync store.
    pub fn heartbeat<M: Memory>(&mut self, mem: &M) {
        self.count = self.count.wrapping_add(1);
        // Nobody else writes it, and it is no exchange: the server that executes exchanges may be dead.
        // PAIRS WITH: pod::hosts::heartbeats::has_missed
        self.record.heartbeat().store_seq_cst(mem, self.count);
    }
}

/// Declares a death to other hosts.
fn declare<M: Memory>(pod: &Pod<M>, index: u32, entry: State) {
    // PAIRS WITH: pod::format::host_entry::is_declared
    ProcessRecord::new(pod.geometry(), index)
        .declared()
        .store(pod.mem(), host_entry::declaration(entry.generation));
    crash_point(Point::Declared);
}

/// Whether a host's agent lives, for processes of that host.
fn agent_lives<M: Memory>(pod: &Pod<M>, state: HostState) -> Result<bool> {
    let index = state.agent - 1;
    if index >= pod.geometry().parameters.processes {
        return Err(Error::corrupt(
            "the place of a host's agent",
            HostRecord::new(pod.geometry(), pod.host()).state().offset(),
        ));
    }
    let entry = State::decode(ProcessRecord::new(pod.geometry(), index).state().load(pod.mem()));
    let same = entry.phase == Phase::Alive
        && entry.generation as u8 == state.tag
        && host_entry::is_of(entry, pod.host(), state.generation);
    Ok(same && pod.is_locked(index)?)
}

/// The places of this host's processes.
fn of_host<M: Memory>(pod: &Pod<M>) -> impl Iterator<Item = (u32, State)> + '_ {
    pod.entries()
        .filter(move |(_, entry)| host_entry::is_of(*entry, pod.host(), pod.host_generation()))
}
