//! Kernel locks of the simulated machine, which a process holds until it dies, and signals that end processes.

use std::ptr::NonNull;

use cenote::memory::{Killer, Liveness, MappingError, ProcessName};

use super::backend::arrive;
use super::crash::Crash;
use super::op::{Kind, Op};
use super::world::{Life, World};
use crate::machine::Found;

/// Locks of one kernel: those of the next one follow.
pub(super) const LOCKS: u32 = 1 << 10;

pub(super) struct SimLiveness {
    pub world: NonNull<World>,
    pub process: u32,
    /// The machine whose kernel it asks: 0 where machines are not distinguished.
    pub kernel: u32,
}

// SAFETY: as for `SimMemory`: one operating system thread.
unsafe impl Send for SimLiveness {}
// SAFETY: as for `Send`.
unsafe impl Sync for SimLiveness {}

impl SimLiveness {
    /// A system call about a lock: what `work` makes of its holder.
    fn call<R>(&self, number: u32, work: impl FnOnce(&mut Option<u32>) -> R) -> R {
        let number = self.kernel * LOCKS + number;
        let op = Op::word(Kind::Kernel, u64::from(number), 0);
        arrive(self.world, op);
        // SAFETY: as in `SimMemory::world`.
        let world = unsafe { &mut *self.world.as_ptr() };
        world.drain_own();
        if world.locks.len() <= number as usize {
            world.locks.resize(number as usize + 1, None);
        }
        if world.locks[number as usize].is_none_or(|holder| holder == self.process) {
            world.finds_free(number);
        }
        let result = work(&mut world.locks[number as usize]);
        world.done(op, 0);
        world.charge(op, Found::Hit);
        result
    }
}

pub(super) struct SimKiller {
    pub world: NonNull<World>,
    /// Processes of hosts below this one begin anew.
    pub restarts: u32,
    /// The machine on which it kills.
    pub kernel: u32,
}

// SAFETY: as for `SimLiveness`.
unsafe impl Send for SimKiller {}

/// Steps that a process takes after it was killed: a signal arrives late.
const LAST_STEPS: u64 = 6;

impl SimKiller {
    fn kill_process(&mut self, process: u32) -> bool {
        let op = Op::word(Kind::Kernel, u64::from(process), 1);
        arrive(self.world, op);
        // SAFETY: as in `SimMemory::world`.
        let world = unsafe { &mut *self.world.as_ptr() };
        world.drain_own();
        let found = world.processes.get_mut(process as usize);
        let is_killed = found.is_some_and(|found| {
            let lives = found.life == Life::Alive;
            if lives {
                found.restarts |= found.host < self.restarts;
                let step = found.steps + LAST_STEPS;
                let is_later = found.crash.is_none_or(|crash| crash.step > step);
                if is_later {
                    found.crash = Some(Crash {
                        process,
                        step,
                        restarts: found.restarts,
                        alone: false,
                    });
                }
            }
            lives
        });
        world.done(op, u64::from(is_killed));
        world.charge(op, Found::Hit);
        is_killed
    }
}

impl Killer for SimKiller {
    fn kill(&mut self, who: ProcessName, number: u32) -> Result<bool, MappingError> {
        // SAFETY: as in `SimMemory::world`.
        let world = unsafe { &mut *self.world.as_ptr() };
        let number = self.kernel * LOCKS + number;
        let holder = world.locks.get(number as usize).copied().flatten();
        Ok(holder == Some(who.pid) && self.kill_process(who.pid))
    }

    fn kill_holders(&mut self, number: u32, is_meant: &dyn Fn() -> bool) -> Result<bool, MappingError> {
        // SAFETY: as in `SimMemory::world`.
        let world = unsafe { &mut *self.world.as_ptr() };
        let number = self.kernel * LOCKS + number;
        let holder = world.locks.get(number as usize).copied().flatten();
        Ok(holder.is_some_and(|holder| is_meant() && self.kill_process(holder)))
    }
}

impl Liveness for SimLiveness {
    fn try_lock(&self, number: u32) -> Result<bool, MappingError> {
        Ok(self.call(number, |holder| {
            let is_free = holder.is_none() || *holder == Some(self.process);
            if is_free {
                *holder = Some(self.process);
            }
            is_free
        }))
    }

    fn unlock(&self, number: u32) -> Result<(), MappingError> {
        self.call(number, |holder| *holder = None);
        // SAFETY: as in `SimMemory::world`.
        let world = unsafe { &mut *self.world.as_ptr() };
        world.drops_lock(world.current, self.kernel * LOCKS + number);
        Ok(())
    }

    fn is_locked(&self, number: u32) -> Result<bool, MappingError> {
        Ok(self.call(number, |holder| holder.is_some_and(|other| other != self.process)))
    }
}
