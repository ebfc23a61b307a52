//! Fences: what makes certain that a host is down, so that its generation may move.
//!
//! A fence is called again and again until it is certain. It must not report so as long as any process of the host
//! could still write to the pool: everything that the pool promises about hosts rests on that. Several monitors may
//! call it, one after the other, also about a host that is down already.
//!
//! [`KillFence`] is for hosts that are processes of one machine. It kills every process that has or is taking a place
//! under the host's generation, and is certain when the kernel has dropped the locks of all these places: a signal that
//! was sent proves nothing. What the pool says of a process only leads to it: a process is signalled only if the kernel
//! says that it holds the lock of its place. So no process that has not opened the pool is ever signalled, whatever is
//! written there. The fence knows nothing of hosts on other machines, and refuses them: their kernels have locks of
//! their own. A process that takes a place checks its host after it has claimed the place; the monitor marks the host
//! as being fenced before the fence reads places. So a process that the fence does not see gives its claim back.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::memory::{Killer, Memory, ProcessName};
use crate::mutant::{self, Mutant};
use crate::pod::format::host_entry::{self, Home, HostRecord};
use crate::pod::format::record::{Phase, ProcessRecord, State};
use crate::pod::instance::worker::Worker;

/// How far a fence has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Nothing of the host can write any more.
    Certainly,
    /// Ask again soon.
    NotYet,
    /// It did not work, and is being tried again; what went wrong.
    Failed(String),
}

/// See the [module documentation](self).
pub trait Fence<M: Memory> {
    /// Works on fencing a host, in a generation of it, and returns how far that has come. Must return at once.
    fn fence(&mut self, worker: &Worker<M>, host: u32, generation: u32) -> Result<Fenced>;

    /// The monitor leads no more: all work on fencing hosts ends. The next leader begins anew.
    fn give_up(&mut self) {}
}

/// Polls of a place after which the holder of its lock is searched for in another way; at once if its entry says
/// nothing yet.
const POLLS_BEFORE_SEARCH: u32 = 64;
/// Polls after which the trouble is reported again.
const POLLS_BEFORE_REPORT: u32 = 1 << 14;

/// Kills the processes of a host that is part of this machine.
pub struct KillFence {
    killer: Box<dyn Killer>,
    /// The machine that it kills on.
    machine: u64,
    /// For each host: the generation that is being fenced, and the polls of its places so far.
    polls: BTreeMap<u32, (u32, u32)>,
}

impl KillFence {
    /// Kills by `killer` processes that run on a machine ([`ProcessName::machine`]).
    pub fn new(killer: Box<dyn Killer>, machine: u64) -> Self {
        Self {
            killer,
            machine,
            polls: BTreeMap::new(),
        }
    }
}

impl<M: Memory> Fence<M> for KillFence {
    fn fence(&mut self, worker: &Worker<M>, host: u32, generation: u32) -> Result<Fenced> {
        let polls = match self.polls.get(&host) {
            Some(&(of, polls)) if of == generation => polls,
            _ => 0,
        };
        let (pod, mem) = (worker.pod(), worker.mem());
        // PAIRS WITH: pod::hosts::agent::bring_up_now
        let home = Home::decode(HostRecord::new(worker.geometry(), host).home().load(mem));
        let is_here = home == Home::new(generation, self.machine) || !home.is_of(generation);
        if !is_here && !mutant::is(Mutant::KilledElsewhere) {
            self.polls.insert(host, (generation, polls.wrapping_add(1)));
            if !polls.is_multiple_of(POLLS_BEFORE_REPORT) {
                return Ok(Fenced::NotYet);
            }
            return Ok(Fenced::Failed(
                "the host is on another machine, or its processes use another lock file, so killing proves nothing; give this monitor a program that \
                 fences (--fence)"
                    .to_owned(),
            ));
        }
        let (mut are_left, mut not_found) = (false, None);
        for (index, entry) in pod.entries() {
            // PAIRS WITH: pod::instance::join::claim_place
            if !host_entry::is_of(entry, host, generation) || !pod.is_locked(index)? {
                continue;
            }
            are_left = true;
            let record = ProcessRecord::new(worker.geometry(), index);
            let is_same = || State::decode(record.state().load(mem)) == entry;
            // An entry's name is that of its process from when it is alive until the place changes hands.
            if entry.phase == Phase::Alive && polls == 0 && is_same() {
                self.killer.kill(named(mem, record), index)?;
            } else if polls.is_multiple_of(POLLS_BEFORE_SEARCH) {
                let were_found = self.killer.kill_holders(index, &is_same)?;
                if !were_found && polls % POLLS_BEFORE_REPORT == POLLS_BEFORE_SEARCH {
                    // For a message only: another process may be about to write the entry.
                    not_found = Some((index, record.pid().peek_speculative(mem) as u32));
                }
            }
        }
        if let Some((index, pid)) = not_found {
            self.polls.insert(host, (generation, polls.wrapping_add(1)));
            return Ok(Fenced::Failed(format!(
                "the lock of place {index} (process {pid}) is held, and no process of the pool that holds it can be found and killed (of other users' processes \
                 it takes CAP_SYS_PTRACE to find out, and CAP_KILL); end it, or give this monitor a program that fences (--fence)"
            )));
        }
        if are_left && !mutant::is(Mutant::FenceBelieved) {
            self.polls.insert(host, (generation, polls.wrapping_add(1)));
            return Ok(Fenced::NotYet);
        }
        self.polls.remove(&host);
        Ok(Fenced::Certainly)
    }
}

fn named<M: Memory>(mem: &M, record: ProcessRecord) -> ProcessName {
    let [started, namespace] = record.name().map(|word| word.peek(mem));
    ProcessName {
        pid: record.pid().peek(mem) as u32,
        started,
        namespace,
        machine: 0,
    }
}
