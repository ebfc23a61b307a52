//! Relaying event counts: who notifies one wakes those who sleep by it under its own kernel. A host's agent looks at the event counts of the pool as often as
//! hosts beat, or when another agent says so, and wakes those of its own host who sleep by one that was notified.
//!
//! The event counts are the death event count, that of idle background threads, and those of the groups. Locks' event counts are not among them: who waits for a lock looks again by itself.
//!
//! Nothing is written but what a notified event count says, here. Who sleeps compares the event count with what it saw before it looked for what it waits for; so a ring
//! before that is seen by itself, and one after that by the relay. Where memory is incoherent the kernel may compare what a cache has kept of the
//! event count: so those by an event count that was notified are woken in some more polls too ([`AGAIN`]).
//!
//! **A crash** of the agent leaves nobody who relays, until its host is fenced. Who sleeps looks at everything every 100 ms ([`watch`](super::watch)).

use crate::memory::{Memory, SyncWord};
use crate::pod::format::superblock::{DEATH_EVENTS, ROUND_EVENTS};
use crate::pod::group::Group;
use crate::pod::instance::worker::Worker;

/// In so many polls after a ring those who sleep are woken again.
const AGAIN: u8 = 3;
/// Looks between two searches for groups that were made.
const POLLS_PER_SEARCH: u32 = 12;

/// An event count, and what it said.
#[derive(Debug)]
struct Heard {
    event_count: SyncWord,
    notifications: u32,
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
    /// Cost: a load for each event count; now and then one for each entry of the directory.
    pub fn look_everywhere<M: Memory>(&mut self, worker: &Worker<M>) -> bool {
        let mem = worker.mem();
        let has_somebody_come = self.heard.first().is_none_or(|death| {
            crate::pod::instance::event_count::notifications(mem, death.event_count) != death.notifications
        });
        if has_somebody_come || self.until_search == 0 {
            self.until_search = POLLS_PER_SEARCH;
            self.search(worker);
        }
        self.until_search -= 1;
        self.look(mem)
    }

    /// An event count that is new may have been notified.
    fn search<M: Memory>(&mut self, worker: &Worker<M>) {
        let groups = Group::event_counts(worker);
        for event_count in [DEATH_EVENTS, ROUND_EVENTS].into_iter().chain(groups) {
            if self.heard.iter().all(|heard| heard.event_count != event_count) {
                self.heard.push(Heard {
                    event_count,
                    notifications: crate::pod::instance::event_count::notifications(
                        worker.mem(),
                        event_count,
                    ),
                    again: AGAIN,
                });
            }
        }
    }

    /// Wakes who sleeps under this kernel by an event count that was notified since the last poll. Whether one was.
    ///
    /// Cost: a load for each event count; a system call for each that was notified lately.
    pub fn look<M: Memory>(&mut self, mem: &M) -> bool {
        let mut was_notified = false;
        for heard in &mut self.heard {
            let notifications = crate::pod::instance::event_count::notifications(mem, heard.event_count);
            if notifications != heard.notifications {
                heard.notifications = notifications;
                heard.again = AGAIN + 1;
                was_notified = true;
            }
            if heard.again > 0 {
                heard.again -= 1;
                mem.kernel().wake(heard.event_count.offset());
            }
        }
        was_notified
    }

    /// Says that the caller is about to sleep until one of the event counts is notified under this kernel; to be called before a look.
    ///
    /// Cost: as [`prepare_wait`](crate::pod::instance::event_count::prepare_wait), for each event count.
    pub fn prepare_wait<M: Memory>(&self, mem: &M) -> Vec<(u64, u32)> {
        let prepare_wait =
            |heard: &Heard| crate::pod::instance::event_count::prepare_wait(mem, heard.event_count);
        self.heard.iter().map(prepare_wait).collect()
    }
}
