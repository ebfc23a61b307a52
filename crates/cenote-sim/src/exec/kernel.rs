//! The kernel of a simulated machine, as far as threads are concerned: death slots, in which their deaths show, and
//! sleep.

use std::time::Duration;

use cenote::memory::{DeathSlot, Kernel, Memory, Registration};

use super::backend::SimMemory;
use super::futex;
use super::op::{Kind, Op};
use super::order::From;
use super::store_buffer::Data;
use super::world::World;
use crate::machine::{Found, Use};

impl World {
    /// The generation that is registered in a death slot, as the threads of a host see it.
    fn death_slot_says(&mut self, host: u32, death_slot: u64) -> u64 {
        self.reads(death_slot, 8, From::Cache, false);
        self.load_cached(host, death_slot, Use::Shared).0
    }
}

impl<const COHERENT: bool> SimMemory<COHERENT> {
    /// A system call about a death slot.
    fn of_death_slot<R>(&self, death_slot: u64, work: impl FnOnce(&mut World) -> R) -> R {
        self.system_call(Op::word(Kind::Kernel, death_slot, 0), work)
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

/// Threads die at once here, and all see it at once.
impl<const COHERENT: bool> Kernel for SimMemory<COHERENT> {
    unsafe fn register(&self, death_slot: DeathSlot, generation: u32) -> Registration {
        let death_slot = death_slot.offset();
        self.of_death_slot(death_slot, |world| {
            let thread = world.current;
            world.death_slots.insert(death_slot, (generation, thread));
            let process = world.threads[thread as usize].process;
            world.processes[process as usize].attaches = true;
            world.put(death_slot, Data::Word(u64::from(generation)), Self::CACHED);
            world.drain_own();
            // If the host fails, this store is lost with its cache.
            world.is_lazy(death_slot);
        });
        Registration::default()
    }

    unsafe fn unregister(&self, death_slot: DeathSlot, _: Registration) {
        let death_slot = death_slot.offset();
        self.of_death_slot(death_slot, |world| {
            world.death_slots.remove(&death_slot);
            world.wake_one_by(death_slot);
            world.put(death_slot, Data::Word(0), Self::CACHED);
            world.drain_own();
        });
    }

    fn has_died(&self, death_slot: DeathSlot, generation: u32) -> bool {
        let death_slot = death_slot.offset();
        self.of_death_slot(death_slot, |world| {
            let found = world.death_slots.get(&death_slot).copied();
            // A host sees the death slots of its threads through its cache. Those of others are another kernel's.
            let is_own = found.is_some_and(|(_, thread)| world.host_of(thread) == self.host);
            let found = found
                .filter(|_| !is_own || world.death_slot_says(self.host, death_slot) == u64::from(generation));
            let has_died = |&(registered, thread): &(u32, u32)| {
                registered == generation && !world.threads[thread as usize].alive
            };
            let dead = found.filter(has_died);
            if let Some((_, thread)) = dead {
                world.finds_ended(thread);
            }
            dead.is_some()
        })
    }

    fn is_shown(&self, death_slot: DeathSlot, generation: u32) -> bool {
        let death_slot = death_slot.offset();
        self.of_death_slot(death_slot, |world| {
            let found = world.death_slots.get(&death_slot);
            found.is_some_and(|(registered, _)| *registered == generation)
        })
    }

    fn wait(&self, death_slots: &[DeathSlot], event_counts: &[(u64, u32)], time: Duration) {
        if self.world().clock.is_some() && time < futex::TO_BE_WOKEN {
            self.rest(time);
            return;
        }
        let death_slots: Vec<u64> = death_slots.iter().map(|slot| slot.offset()).collect();
        let at = event_counts.first().map_or(0, |&(event_count, _)| event_count);
        if !self.of_death_slot(at, |world| world.falls_asleep(&death_slots, event_counts)) {
            return;
        }
        for _ in 0..futex::waits(time) {
            if !self.world().is_asleep() {
                return;
            }
            self.relax();
        }
        self.world().times_out();
    }

    fn wake(&self, by: u64) {
        self.system_call(futex::waking(by), |world| world.wake(world.current, by));
    }

    fn wake_one(&self, event_count: u64) -> bool {
        self.system_call(futex::waking(event_count), |world| {
            world.wake_one_by_event_count(event_count)
        })
    }

    fn now(&self) -> u64 {
        0
    }
}
