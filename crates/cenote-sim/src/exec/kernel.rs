//! The kernel of a simulated machine, as far as threads are concerned: beds, in which their deaths show, and sleep.

use std::time::Duration;

use cenote::memory::{Kernel, Lying, Memory};

use super::backend::SimMemory;
use super::buffer::Data;
use super::futex;
use super::op::{Kind, Op};
use super::order::From;
use super::world::World;
use crate::machine::{Found, Use};

impl World {
    /// The generation that lies in a bed, as the threads of a host see it.
    fn bed_says(&mut self, host: u32, bed: u64) -> u64 {
        self.reads(bed, 8, From::Cache, false);
        self.load_cached(host, bed, Use::Shared).0
    }
}

impl<const COHERENT: bool> SimMemory<COHERENT> {
    /// A system call about a bed.
    fn of_bed<R>(&self, bed: u64, work: impl FnOnce(&mut World) -> R) -> R {
        self.system_call(Op::word(Kind::Kernel, bed, 0), work)
    }

    fn system_call<R>(&self, op: Op, work: impl FnOnce(&mut World) -> R) -> R {
        self.arrive(op);
        let world = self.world();
        world.drain_own();
        let result = work(world);
        world.done(op, 0);
        self.spend(op, Found::Hit);
        result
    }
}

/// Threads die at once here, and everybody sees it at once.
impl<const COHERENT: bool> Kernel for SimMemory<COHERENT> {
    fn lie_down(&self, bed: u64, generation: u32) -> Lying {
        self.of_bed(bed, |world| {
            let thread = world.current;
            world.beds.insert(bed, (generation, thread));
            let process = world.threads[thread as usize].process;
            world.processes[process as usize].attaches = true;
            world.put(bed, Data::Word(u64::from(generation)), Self::CACHED);
            world.drain_own();
            // A host that fails takes it with it.
            world.is_lazy(bed);
        });
        Lying::default()
    }

    fn get_up(&self, bed: u64, _: Lying) {
        self.of_bed(bed, |world| {
            world.beds.remove(&bed);
            world.rouse_one_by(bed);
            world.put(bed, Data::Word(0), Self::CACHED);
            world.drain_own();
        });
    }

    fn has_died(&self, bed: u64, generation: u32) -> bool {
        self.of_bed(bed, |world| {
            let found = world.beds.get(&bed).copied();
            // A host sees the beds of its threads through its cache. Those of others are another kernel's.
            let is_own = found.is_some_and(|(_, thread)| world.host_of(thread) == self.host);
            let found = found.filter(|_| !is_own || world.bed_says(self.host, bed) == u64::from(generation));
            let has_died =
                |&(lay, thread): &(u32, u32)| lay == generation && !world.threads[thread as usize].alive;
            let dead = found.filter(has_died);
            if let Some((_, thread)) = dead {
                world.finds_ended(thread);
            }
            dead.is_some()
        })
    }

    fn is_shown(&self, bed: u64, generation: u32) -> bool {
        self.of_bed(bed, |world| {
            let found = world.beds.get(&bed);
            found.is_some_and(|(lay, _)| *lay == generation)
        })
    }

    fn doze(&self, beds: &[u64], bells: &[(u64, u32)], time: Duration) {
        if self.world().clock.is_some() && time < futex::TO_BE_WOKEN {
            self.rest(time);
            return;
        }
        let at = bells.first().map_or(0, |&(bell, _)| bell);
        if !self.of_bed(at, |world| world.falls_asleep(beds, bells)) {
            return;
        }
        for _ in 0..futex::waits(time) {
            if !self.world().is_asleep() {
                return;
            }
            self.relax();
        }
        self.world().oversleeps();
    }

    fn rouse(&self, by: u64) {
        self.system_call(futex::rousing(by), |world| world.rouse(world.current, by));
    }

    fn rouse_one(&self, bell: u64) -> bool {
        self.system_call(futex::rousing(bell), |world| world.rouse_one_by_bell(bell))
    }

    fn now(&self) -> u64 {
        0
    }
}
