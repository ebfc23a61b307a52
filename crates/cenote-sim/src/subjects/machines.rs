//! Machines with kernels of their own, and an impostor for each: another machine that was given the id of an existing
//! host. The hosts are those of [`hosts`](super::hosts).
//!
//! An impostor tries to join its host, or to go up as that host's agent. It may claim only a generation that no machine
//! has claimed, and it never joins one that another machine has claimed. So no two machines are the same host in one
//! generation.
//!
//! Monitors ask the fence that kills first. On another machine it proves nothing, and must not claim to: then the host
//! is switched off.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use cenote::index::hooks;
use cenote::pod::format::geometry::Geometry;
use cenote::pod::format::superblock::{HEADER_BYTES, Superblock};
use cenote::pod::hosts::agent::bring_up;
use cenote::pod::hosts::fence::{Fence, Fenced, KillFence};
use cenote::pod::instance::process::Identity;
use cenote::pod::{Pod, Worker};
use cenote::{Error, Result};

use super::Log;
use super::hosts::{MONITORS, Pods};
use super::second_processes::PowerFence;
use crate::exec::{Context, SimMemory};
use cenote::memory::Published;

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Impostors' machines have numbers from this one on.
const IMPOSTORS: u32 = 32;
/// Most attempts of an impostor: a host in whose place it has gone up is fenced before it may go up again.
const ATTEMPTS: u32 = 12;

/// The machine of each generation of a host, as far as any process was let act.
#[derive(Default)]
pub struct Homes(RefCell<BTreeMap<(u32, u32), u32>>);

impl Homes {
    /// A process of a machine was let be a host in a generation.
    pub fn note(&self, (host, generation): (u32, u32), machine: u32, log: &Log) {
        let before = *self.0.borrow_mut().entry((host, generation)).or_insert(machine);
        if before != machine {
            log.fault(format!(
                "machine {machine} is host {host} in generation {generation}, and so is machine {before}"
            ));
        }
    }
}

/// What a process says of itself that runs on one of several machines.
pub fn identity<const C: bool>(context: &Context<C>, host: u32, machine: u32) -> Identity {
    let mut identity = context.identity_on(host);
    identity.name.machine += u64::from(machine);
    identity
}

/// The kernel of a machine. Where a server executes exchanges, all machines share one: processes ask the server by the
/// mailbox of their place, and processes of several kernels would take the same place, as no lease keeps hosts' places
/// apart here.
pub fn kernel<const C: bool>(context: &Context<C>, machine: u32) -> u32 {
    match context.is_delegated() {
        true => 0,
        false => machine,
    }
}

/// A process on a machine that has another host's id.
pub fn impostor<const C: bool>(context: &Context<C>, pods: &Pods) -> Result<()> {
    let (host, machine) = (context.host() + 1, IMPOSTORS + context.host());
    // Where a server executes exchanges, two that go up at the same time would ask it by the same mailboxes.
    let goes_up = pods.work.load.seed.is_multiple_of(2) && host > MONITORS && !context.is_delegated();
    let mut attempts_left = ATTEMPTS;
    while attempts_left > 0 && context.is_manned(context.host()) {
        attempts_left -= 1;
        match attempt(context, (host, machine), goes_up) {
            Ok(generation) => {
                pods.homes.note((host, generation), machine, &pods.work.log);
                return Ok(());
            }
            Err(Error::Host { .. }) => context.wait(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tries to be a host; the generation if it is let.
fn attempt<const C: bool>(context: &Context<C>, (host, machine): (u32, u32), goes_up: bool) -> Result<u32> {
    let memory = context.memory();
    let mut head = [0; HEADER_BYTES];
    head.copy_from_slice(published(0, HEADER_BYTES as u64).bytes(&memory));
    let superblock = Superblock::decode(Path::new("simulated"), &head)?;
    let (identity, liveness) = (
        identity(context, host, machine),
        context.liveness_on(kernel(context, machine)),
    );
    if goes_up {
        let geometry = Geometry::new(superblock.parameters);
        return bring_up(&memory, &geometry, &identity, &*liveness);
    }
    let pod = Pod::join(memory, superblock, identity, liveness, hooks())?;
    let generation = pod.host_generation();
    pod.close();
    Ok(generation)
}

/// Kills hosts on its own machine, and switches others off.
pub struct KillOrPower<const C: bool> {
    kill: KillFence,
    power: PowerFence<C>,
}

impl<const C: bool> KillOrPower<C> {
    pub fn new(context: &Context<C>, pods: &Pods) -> Self {
        let machine = pods.machine(context);
        let name = identity(context, context.host() + 1, machine).name;
        Self {
            kill: KillFence::new(
                context.killer_on(kernel(context, machine), MONITORS),
                name.machine,
            ),
            power: PowerFence::new(context, pods.work.load.seed),
        }
    }
}

impl<const C: bool> Fence<SimMemory<C>> for KillOrPower<C> {
    fn fence(&mut self, worker: &Worker<SimMemory<C>>, host: u32, generation: u32) -> Result<Fenced> {
        match self.kill.fence(worker, host, generation)? {
            Fenced::Certainly => Ok(Fenced::Certainly),
            _ => self.power.fence(worker, host, generation),
        }
    }
}
