//! Monitors: they watch the hosts, and fence one that has missed its heartbeats.
//!
//! A monitor has a host id of its own and is that host's agent. One monitor leads: it has the recoverable lock
//! [`MONITOR_LOCK`], as long as its own host's generation lasts. It polls all hosts; the others poll only the leader's
//! host, and take over when that is down.
//!
//! An election outside of the pool may decide who leads (`may_lead`). A monitor that may not lead gives the lock
//! back, polls no host and suspects none; one that may still needs the lock.
//!
//! A host without a new heartbeat in a given number of polls in a row is *suspected*: its state becomes fencing. From
//! there it cannot come back in this generation. Its generation moves only when a fence is certain that it is down.
//!
//! **Who writes:** states of hosts, by compare-exchange; `fencer`, the leader. Counts of missed polls are in the memory
//! of the monitor alone: a monitor that takes over begins to count with its own first poll, so the death of a monitor
//! may delay a detection and never makes one up. A late poll begins all counts anew: what kept the monitor from its
//! processor may have kept the agent from its own. If polls come late again and again, the monitor reports it, and
//! needs more of them: a host that is silent all the while is still suspected.
//!
//! **What a crash leaves:** a host that is fencing (`monitor.suspected`, `monitor.fenced`): the next leader fences it
//! again, as it cannot know how far the fence had come. A generation that has moved (`monitor.moved`): every process
//! sees that, and recovers what it is held back by; the next leader recovers all.

use std::collections::BTreeMap;

use super::fence::{Fence, Fenced};
use super::heartbeats::Heard;
use super::poll::Poll;
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::NO_HOST;
use crate::pod::format::host_entry::{self, HostPhase, HostRecord, HostState};
use crate::pod::format::record::{ProcessRecord, State, WorkerRecord};
use crate::pod::format::superblock::MONITOR_LOCK;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Worker;
use crate::pod::lock;

/// What a monitor reports.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// It leads from now on.
    Leads,
    /// Another monitor leads.
    Follows,
    /// It may not lead, and watches no host until it may.
    StandsBy,
    /// A host missed its heartbeats, and is being fenced.
    Suspected {
        /// The host.
        host: u32,
        /// Its generation.
        generation: u32,
    },
    /// A fence has not worked so far, or what the pool says of the host is damaged.
    FenceFailed {
        /// The host.
        host: u32,
        /// Its generation.
        generation: u32,
        /// What was wrong.
        why: String,
    },
    /// Many of its last polls came late: it waits longer for heartbeats than configured, as it gets no processor, or
    /// its polls take too long.
    PollsLate {
        /// Late polls.
        late: u32,
        /// All polls.
        polls: u32,
    },
    /// Its polls come in time again.
    PollsPunctual,
    /// Something could not be recovered. It is tried again with each recovery.
    NotRecovered {
        /// The recovery that it was a part of.
        what: String,
        /// What was in the way.
        why: String,
    },
    /// A host is certainly down, and its generation has moved: what it held can be recovered.
    Moved {
        /// The host.
        host: u32,
        /// The generation that is over.
        generation: u32,
    },
}

/// What a monitor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It has the lock, and polls all hosts.
    Leads,
    /// It polls the leader's host.
    Follows,
    /// It may not lead.
    StandsBy,
}

/// A monitor.
#[derive(Debug)]
pub struct Monitor {
    /// Polls without a new heartbeat after which a host is suspected.
    missed_max: u64,
    /// Seconds since 1970.
    clock: fn() -> u64,
    /// Its role in the last poll.
    role: Option<Role>,
    heard: Vec<Heard>,
    /// The last trouble reported of each host.
    wrong: BTreeMap<u32, String>,
    punctuality: Punctuality,
}

/// How many of a monitor's polls come late.
#[derive(Debug, Default)]
struct Punctuality {
    /// Polls of this stretch, and late ones among them.
    polls: u32,
    late: u32,
    /// Stretches in a row in which none did.
    punctual: u32,
    /// Whether late polls were reported.
    is_told: bool,
}

impl Punctuality {
    /// Polls of a stretch, and the number of late ones that is reported.
    const STRETCH: u32 = 16;
    const MANY: u32 = 4;
    /// Punctual stretches in a row after which polls count as in time again.
    const OVER: u32 = 8;

    /// Counts a poll; returns what to report.
    fn count(&mut self, how: Poll) -> Option<Event> {
        if how == Poll::Between {
            return None;
        }
        self.polls += 1;
        self.late += u32::from(how == Poll::Late);
        if self.polls < Self::STRETCH {
            return None;
        }
        let (polls, late) = (std::mem::take(&mut self.polls), std::mem::take(&mut self.late));
        self.punctual = if late == 0 { self.punctual + 1 } else { 0 };
        let (is_told, event) = match self.is_told {
            false if late >= Self::MANY => (true, Event::PollsLate { late, polls }),
            true if self.punctual >= Self::OVER => (false, Event::PollsPunctual),
            _ => return None,
        };
        self.is_told = is_told;
        Some(event)
    }
}

impl Monitor {
    /// A monitor that suspects a host after `missed_max` polls in a row without a new heartbeat, at least one. The
    /// clock counts seconds since 1970.
    pub fn new(missed_max: u64, clock: fn() -> u64) -> Self {
        Self {
            missed_max: missed_max.max(1),
            clock,
            role: None,
            heard: Vec::new(),
            wrong: BTreeMap::new(),
            punctuality: Punctuality::default(),
        }
    }

    /// Whether it led in the last poll.
    pub fn leads(&self) -> bool {
        self.role == Some(Role::Leads)
    }

    /// Stops leading, if it does; another one may lead at once.
    pub fn resign<M: Memory>(&mut self, worker: &Worker<M>) {
        lock::let_go(worker, MONITOR_LOCK);
        self.role = None;
        self.heard.clear();
        self.wrong.clear();
    }

    /// Gives up what only a monitor that may lead has: the lock, its counts, and fences that it has begun.
    fn stand_by<M: Memory>(
        &mut self,
        worker: &Worker<M>,
        fence: &mut dyn Fence<M>,
        tell: &mut dyn FnMut(Event),
    ) {
        if self.role != Some(Role::StandsBy) {
            self.resign(worker);
            fence.give_up();
            self.role = Some(Role::StandsBy);
            tell(Event::StandsBy);
        }
    }

    /// Polls once the hosts of its role. Returns whether a host is being fenced: then poll again soon.
    ///
    /// `may_lead` is asked before every host, and again before a host is suspected; as soon as it says no, this monitor
    /// stands by.
    ///
    /// Cost: one round trip for the lock, and two or three for each host.
    pub fn poll<M: Memory>(
        &mut self,
        worker: &Worker<M>,
        fence: &mut dyn Fence<M>,
        how: Poll,
        may_lead: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<bool> {
        let (mem, geometry) = (worker.mem(), worker.geometry());
        let may_lead = &|| may_lead() || mutant::is(Mutant::ElectionIgnored);
        if !may_lead() {
            self.stand_by(worker, fence, tell);
            return Ok(false);
        }
        if let Some(event) = self.punctuality.count(how) {
            tell(event);
        }
        let leads = self.take_role(worker, tell);
        let only = match leads {
            true => None,
            false => leader_host(worker),
        };
        let high = host_entry::hosts_high(mem, geometry);
        self.heard.resize_with(high as usize, Heard::default);
        let mut is_fencing = false;
        for id in (1..high).filter(|&id| id != worker.pod().host()) {
            if !may_lead() {
                self.stand_by(worker, fence, tell);
                return Ok(false);
            }
            if !leads && only != Some(id) {
                self.heard[id as usize] = Heard::default();
                continue;
            }
            let state = match HostRecord::new(geometry, id).read(mem) {
                Ok(state) => state,
                // The others are watched all the same.
                Err(error) => {
                    self.say_wrong((id, 0), error.to_string(), tell);
                    continue;
                }
            };
            is_fencing |= match state.phase {
                HostPhase::Up | HostPhase::Leaving
                    if self.heard[id as usize].has_missed(
                        mem,
                        geometry,
                        (id, state),
                        how,
                        self.missed_max,
                    ) =>
                {
                    if !may_lead() {
                        self.stand_by(worker, fence, tell);
                        return Ok(false);
                    }
                    suspect(worker, id, state, self.clock, tell)
                }
                HostPhase::Up | HostPhase::Leaving => {
                    self.wrong.remove(&id);
                    false
                }
                HostPhase::Fencing => match pursue(worker, id, state, fence, tell) {
                    Ok(is_left) => is_left,
                    // It is tried again, and the others are watched all the same.
                    Err(error) => {
                        self.say_wrong((id, state.generation), error.to_string(), tell);
                        true
                    }
                },
                _ => {
                    self.heard[id as usize] = Heard::default();
                    self.wrong.remove(&id);
                    false
                }
            };
        }
        Ok(is_fencing)
    }

    /// Takes the lock if it can be had. Returns whether this monitor leads.
    fn take_role<M: Memory>(&mut self, worker: &Worker<M>, tell: &mut dyn FnMut(Event)) -> bool {
        let leads = match lock::hold(worker, MONITOR_LOCK) {
            _ if mutant::is(Mutant::LeadsUnasked) => true,
            Ok(leads) => leads,
            // If the entry of the leader's host is damaged, the leader counts as living.
            Err(error) => {
                let of = leader_host(worker).unwrap_or(NO_HOST);
                self.say_wrong((of, 0), error.to_string(), tell);
                false
            }
        };
        let (role, event) = match leads {
            true => (Role::Leads, Event::Leads),
            false => (Role::Follows, Event::Follows),
        };
        if self.role != Some(role) {
            self.role = Some(role);
            tell(event);
            if leads {
                crash_point(Point::MonitorLeads);
            }
        }
        leads
    }

    /// Reports what is wrong with a host, unless that was its last report.
    fn say_wrong(&mut self, (host, generation): (u32, u32), why: String, tell: &mut dyn FnMut(Event)) {
        if self.wrong.get(&host) != Some(&why) {
            self.wrong.insert(host, why.clone());
            tell(Event::FenceFailed {
                host,
                generation,
                why,
            });
        }
    }
}

/// Marks a host as to be fenced, if it is still in the state that was seen. The next leader may find `fencer` as it was
/// before, or see it change once more: then it fences again.
fn suspect<M: Memory>(
    worker: &Worker<M>,
    id: u32,
    state: HostState,
    clock: fn() -> u64,
    tell: &mut dyn FnMut(Event),
) -> bool {
    let mem = worker.mem();
    let record = HostRecord::new(worker.geometry(), id);
    let next = match mutant::is(Mutant::GenerationBeforeFence) {
        true => state.over(),
        false => state.with(HostPhase::Fencing),
    };
    if !record.exchange(mem, state, next) {
        return false;
    }
    // NO PAIR: hint
    record.fencer().store(mem, worker.identity());
    // NO PAIR: count
    record.fenced_at().store(mem, clock());
    tell(Event::Suspected {
        host: id,
        generation: state.generation,
    });
    crash_point(Point::MonitorSuspected);
    true
}

/// Goes on fencing a host; moves its generation when it is certainly down. Returns whether it is not yet.
fn pursue<M: Memory>(
    worker: &Worker<M>,
    id: u32,
    state: HostState,
    fence: &mut dyn Fence<M>,
    tell: &mut dyn FnMut(Event),
) -> Result<bool> {
    let mem = worker.mem();
    let (host, generation) = (id, state.generation);
    let record = HostRecord::new(worker.geometry(), id);
    let is_mine = record.fencer().load(mem) == worker.identity();
    if !is_mine {
        // NO PAIR: hint
        record.fencer().store(mem, worker.identity());
    }
    if is_mine || !mutant::is(Mutant::FenceAdopted) {
        match fence.fence(worker, host, generation)? {
            Fenced::Certainly => {}
            Fenced::NotYet => return Ok(true),
            Fenced::Failed(why) => {
                tell(Event::FenceFailed {
                    host,
                    generation,
                    why,
                });
                return Ok(true);
            }
        }
    }
    crash_point(Point::MonitorFenced);
    if record.exchange(mem, state, state.over()) {
        tell(Event::Moved { host, generation });
        crash_point(Point::MonitorMoved);
    }
    Ok(false)
}

/// The host of the monitor that leads, as far as that can be told.
fn leader_host<M: Memory>(worker: &Worker<M>) -> Option<u32> {
    let (mem, geometry) = (worker.mem(), worker.geometry());
    let owner = MONITOR_LOCK.load(mem);
    let place = u32::from(owner as u16);
    if place == 0 || place > geometry.parameters.workers {
        return None;
    }
    let process = State::decode(WorkerRecord::new(geometry, place - 1).state().load(mem)).process;
    if process >= geometry.parameters.processes {
        return None;
    }
    let entry = State::decode(ProcessRecord::new(geometry, process).state().load(mem));
    Some(entry.process)
}
