//! Relaying bells: who rings one wakes those who sleep by it under its own kernel. A host's agent looks at the bells of the pool as often as
//! hosts beat, or when another agent says so, and wakes those of its own host who sleep by one that was rung.
//!
//! The bells are the death bell, that of idle background threads, and those of the groups. Locks' bells are not among them: who waits for a lock looks again by itself.
//!
//! Nothing is written but what a rung bell says, here. Who sleeps compares the bell with what it saw before it looked for what it waits for; so a ring
//! before that is seen by itself, and one after that by the relay. Where memory is incoherent the kernel may compare what a cache has kept of the
//! bell: so those by a bell that was rung are woken in some more looks too ([`AGAIN`]).
//!
//! **A crash** of the agent leaves nobody who relays, until its host is fenced. Who sleeps looks at everything every 100 ms ([`watch`](super::watch)).

use crate::memory::{Memory, SyncWord};
use crate::pod::format::superblock::{DEATH_BELL, ROUND_BELL};
use crate::pod::group::Group;
use crate::pod::instance::worker::Worker;

/// In so many looks after a ring those who sleep are woken again.
const AGAIN: u8 = 3;
/// Looks between two searches for groups that were made.
const LOOKS_PER_SEARCH: u32 = 12;

/// A bell, and what it said.
#[derive(Debug)]
struct Heard {
    bell: SyncWord,
    rings: u32,
    /// Looks in which those who sleep by it are to be woken yet.
    again: u8,
}

/// What a relay remembers.
#[derive(Debug, Default)]
pub struct Relay {
    heard: Vec<Heard>,
    /// Looks until the next search.
    until_search: u32,
}

impl Relay {
    /// Finds the groups that there are, if it is time to or somebody has come, and [`look`](Relay::look)s.
    ///
    /// Cost: a load for each bell; now and then one for each entry of the directory.
    pub fn look_everywhere<M: Memory>(&mut self, worker: &Worker<M>) -> bool {
        let mem = worker.mem();
        let has_somebody_come = self
            .heard
            .first()
            .is_none_or(|death| crate::pod::instance::bell::rings(mem, death.bell) != death.rings);
        if has_somebody_come || self.until_search == 0 {
            self.until_search = LOOKS_PER_SEARCH;
            self.search(worker);
        }
        self.until_search -= 1;
        self.look(mem)
    }

    /// A bell that is new may have been rung.
    fn search<M: Memory>(&mut self, worker: &Worker<M>) {
        let groups = Group::bells(worker);
        for bell in [DEATH_BELL, ROUND_BELL].into_iter().chain(groups) {
            if self.heard.iter().all(|heard| heard.bell != bell) {
                self.heard.push(Heard {
                    bell,
                    rings: crate::pod::instance::bell::rings(worker.mem(), bell),
                    again: AGAIN,
                });
            }
        }
    }

    /// Wakes who sleeps under this kernel by a bell that was rung since the last look. Whether one was.
    ///
    /// Cost: a load for each bell; a system call for each that was rung lately.
    pub fn look<M: Memory>(&mut self, mem: &M) -> bool {
        let mut was_rung = false;
        for heard in &mut self.heard {
            let rings = crate::pod::instance::bell::rings(mem, heard.bell);
            if rings != heard.rings {
                heard.rings = rings;
                heard.again = AGAIN + 1;
                was_rung = true;
            }
            if heard.again > 0 {
                heard.again -= 1;
                mem.kernel().rouse(heard.bell.offset());
            }
        }
        was_rung
    }

    /// Says that the caller is about to sleep until one of the bells is rung under this kernel; to be called before a look.
    ///
    /// Cost: as [`attend`](crate::pod::instance::bell::attend), for each bell.
    pub fn attend<M: Memory>(&self, mem: &M) -> Vec<(u64, u32)> {
        let attend = |heard: &Heard| crate::pod::instance::bell::attend(mem, heard.bell);
        self.heard.iter().map(attend).collect()
    }
}
