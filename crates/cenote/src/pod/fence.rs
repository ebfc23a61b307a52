//! Fences: what makes certain that a host is down, so that its generation may move.
//!
//! A fence is asked again and again until it says that it is certain. It must not say so as long as any process of the
//! host could still write to the pool: everything that the pool promises about hosts rests on that. It may be asked by
//! several monitors, one after the other, also about a host that is down already.
//!
//! [`KillFence`] is for hosts that are processes of one machine. It kills every process that has or is taking a place under
//! the host's generation, and is certain when the kernel has dropped the locks of all these places: a signal that was
//! sent proves nothing. A process that takes a place looks at its host after it has claimed it; the monitor says that the
//! host is being fenced before the fence looks at places. So one that the fence does not see gives its claim back.

use std::collections::BTreeMap;

use super::host;
use super::record::{Phase, ProcessRecord, State};
use super::worker::Worker;
use crate::error::Result;
use crate::memory::{Killer, Memory, ProcessName};
use crate::mutant::{self, Mutant};

/// How far a fence has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Nothing of the host can write any more.
    Certainly,
    /// Ask again soon.
    NotYet,
    /// It did not work, and is being tried again; what was wrong.
    Failed(String),
}

/// See the [module documentation](self).
pub trait Fence<M: Memory> {
    /// Works on fencing a host, in a generation of it, and says how far that has come. Must return at once.
    fn fence(&mut self, worker: &Worker<M>, host: u32, generation: u32) -> Result<Fenced>;

    /// The monitor leads no more: whatever works on fencing hosts beside it ends. Who leads next begins anew.
    fn give_up(&mut self) {}
}

/// After so many looks at a place, whoever holds its lock is looked for in another way; at once if its entry says nothing yet.
const LOOKS_BEFORE_SEARCH: u32 = 64;

/// Kills the processes of a host that is part of this machine.
pub struct KillFence {
    killer: Box<dyn Killer>,
    /// For each host: the generation that is being fenced, and the looks at its places so far.
    looks: BTreeMap<u32, (u32, u32)>,
}

impl KillFence {
    /// Kills by `killer`.
    pub fn new(killer: Box<dyn Killer>) -> Self {
        Self {
            killer,
            looks: BTreeMap::new(),
        }
    }
}

impl<M: Memory> Fence<M> for KillFence {
    fn fence(&mut self, worker: &Worker<M>, host: u32, generation: u32) -> Result<Fenced> {
        let looks = match self.looks.get(&host) {
            Some(&(of, looks)) if of == generation => looks,
            _ => 0,
        };
        let (pod, mem) = (worker.pod(), worker.mem());
        let mut are_left = false;
        for (index, entry) in pod.entries() {
            // PAIRS WITH: pod::process::claim_place
            if !host::is_of(entry, host, generation) || !pod.is_locked(index)? {
                continue;
            }
            are_left = true;
            let record = ProcessRecord::new(worker.geometry(), index);
            let is_same = || State::decode(record.state().load(mem)) == entry;
            let name = named(mem, record);
            // What an entry says of its process is that process's from when it is alive, and until the place changes hands.
            if entry.phase == Phase::Alive && looks == 0 && is_same() {
                self.killer.kill(name)?;
            } else if looks.is_multiple_of(LOOKS_BEFORE_SEARCH) {
                self.killer.kill_holders(index, &is_same)?;
            }
        }
        if are_left && !mutant::is(Mutant::FenceBelieved) {
            self.looks.insert(host, (generation, looks.wrapping_add(1)));
            return Ok(Fenced::NotYet);
        }
        self.looks.remove(&host);
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
