//! Lodgers: processes that run on a host beside its agent, and a fence for hosts that have them. The hosts are those of
//! [`hosts`](super::hosts).
//!
//! A lodger that dies alone leaves its lines in a cache that its host goes on using: they reach memory at any time
//! later. So a host is not down when all its processes are dead: its cache must be lost. This fence switches the host
//! off.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hooks;
use cenote::pod::format::host_entry::HostRecord;
use cenote::pod::format::superblock::{HEADER_BYTES, Superblock};
use cenote::pod::hosts::agent::AgentRole;
use cenote::pod::hosts::fence::{Fence, Fenced};
use cenote::pod::{Pod, Worker};
use cenote::{Error, Result};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::hosts::{MONITORS, Pods, start_flush_server, work};
use super::{below, random};
use crate::exec::{Context, SimMemory};
use cenote::memory::Published;

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// A fence takes fewer than so many polls.
const POLLS: u64 = 8;

/// One process that works on its host, as long as that has an agent.
pub fn lodger<const C: bool>(context: &Context<C>, pods: &Rc<Pods>) -> Result<()> {
    let pod = loop {
        if !context.is_manned(context.host()) {
            return Ok(());
        }
        match open(context) {
            // The host is not up yet, or not any more.
            Err(Error::Host { .. }) => context.wait(),
            other => break Arc::new(other?),
        }
    };
    if pods.work.load.seed.is_multiple_of(2) {
        try_to_be_agent(context, pods, &pod)?;
    }
    let serving = start_flush_server(context, &pod)?;
    let working = Rc::new(Cell::new(0));
    for _ in 0..pods.work.load.threads {
        let (pods, pod) = (pods.clone(), pod.clone());
        context.spawn_counted(&working, move |context| {
            pods.work.log.check("working", work(&context, &pod, &pods));
        });
    }
    context.wait_for(&working);
    pod.close();
    context.wait_for(&serving);
    Ok(())
}

/// Tries to become the agent of a host whose first agent lives, and must be refused.
fn try_to_be_agent<const C: bool>(
    context: &Context<C>,
    pods: &Rc<Pods>,
    pod: &Pod<SimMemory<C>>,
) -> Result<()> {
    let (agent, log) = (1 + context.host(), &pods.work.log);
    let found = HostRecord::new(pod.geometry(), pod.host()).read(pod.mem())?;
    if found.agent != 0 && context.is_alive(agent) {
        let outcome = AgentRole::take(pod, 1);
        if outcome.is_ok() && context.is_alive(agent) {
            log.fault("a second agent of a host whose first one lives");
        }
    }
    Ok(())
}

fn open<const C: bool>(context: &Context<C>) -> Result<Pod<SimMemory<C>>> {
    let memory = context.memory();
    let mut head = [0; HEADER_BYTES];
    head.copy_from_slice(published(0, HEADER_BYTES as u64).bytes(&memory));
    let superblock = Superblock::decode(Path::new("simulated"), &head)?;
    let identity = context.identity_on(context.host() + 1);
    Pod::join(memory, superblock, identity, context.liveness(), hooks())
}

/// Switches a host off, after some polls.
pub struct PowerFence<const C: bool> {
    context: Context<C>,
    random: Xoshiro256PlusPlus,
    /// Polls that are left, by host and generation.
    polls: BTreeMap<(u32, u32), u64>,
}

impl<const C: bool> PowerFence<C> {
    pub fn new(context: &Context<C>, seed: u64) -> Self {
        Self {
            context: context.clone(),
            random: random(seed, 1 << 18 | context.thread()),
            polls: BTreeMap::new(),
        }
    }
}

impl<const C: bool> Fence<SimMemory<C>> for PowerFence<C> {
    fn fence(&mut self, _worker: &Worker<SimMemory<C>>, host: u32, generation: u32) -> Result<Fenced> {
        let drawn = below(&mut self.random, POLLS);
        let left = self.polls.entry((host, generation)).or_insert(drawn);
        if *left > 0 {
            *left -= 1;
            return Ok(Fenced::NotYet);
        }
        self.context.power_off(host - 1, host <= MONITORS);
        Ok(Fenced::Certainly)
    }
}
