//! Kernel locks of the simulated machine: a process holds them until it dies.

use std::ptr::NonNull;

use cenote::memory::{Liveness, MapError};

use super::backend::arrive;
use super::op::{Kind, Op};
use super::world::World;
use crate::machine::Found;

pub(super) struct SimLiveness {
    pub world: NonNull<World>,
    pub process: u32,
}

// SAFETY: as for `SimMemory`: one operating system thread.
unsafe impl Send for SimLiveness {}
// SAFETY: as for `Send`.
unsafe impl Sync for SimLiveness {}

impl SimLiveness {
    /// A system call about a lock: what `work` makes of its holder.
    fn call<R>(&self, number: u32, work: impl FnOnce(&mut Option<u32>) -> R) -> R {
        let op = Op::word(Kind::Kernel, u64::from(number), 0);
        arrive(self.world, op);
        // SAFETY: as in `SimMemory::world`.
        let world = unsafe { &mut *self.world.as_ptr() };
        if world.locks.len() <= number as usize {
            world.locks.resize(number as usize + 1, None);
        }
        let result = work(&mut world.locks[number as usize]);
        world.done(op, 0);
        world.charge(op, Found::Hit);
        result
    }
}

impl Liveness for SimLiveness {
    fn try_lock(&self, number: u32) -> Result<bool, MapError> {
        Ok(self.call(number, |holder| {
            let is_free = holder.is_none() || *holder == Some(self.process);
            if is_free {
                *holder = Some(self.process);
            }
            is_free
        }))
    }

    fn unlock(&self, number: u32) -> Result<(), MapError> {
        self.call(number, |holder| *holder = None);
        Ok(())
    }

    fn is_locked(&self, number: u32) -> Result<bool, MapError> {
        Ok(self.call(number, |holder| holder.is_some_and(|other| other != self.process)))
    }
}
