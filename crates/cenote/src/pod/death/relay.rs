//! Relaying event counts between kernels. Notifying an event count wakes only sleepers under the same kernel. So a
//! host's agent polls the pool's event counts with each heartbeat, or when another agent says so, and wakes its own
//! host's sleepers by those that were notified.
//!
//! It relays the death event count, that of idle background threads, and those of the groups; not those of locks, whose
//! waiters poll by themselves.
//!
//! The relay writes nothing to the pool. A sleeper compares the event count with what it was before the sleeper checked
//! its condition: so the sleeper sees a notification before that itself, and the relay sees one after that. On
//! incoherent memory the kernel may compare a cached event count: so the relay wakes sleepers in a few more polls too
//! ([`AGAIN`]).
//!
//! **A crash** of the agent leaves no relay until its host is fenced. Sleepers scan everything every 100 ms anyway
//! ([`watch`](super::watch)).

use crate::memory::{Memory, SyncWord};
use crate::pod::format::superblock::{DEATH_EVENTS, ROUND_EVENTS};
use crate::pod::group::Group;
use crate::pod::instance::event_count;
use crate::pod::instance::worker::Worker;

/// Polls after a notification in which sleepers are woken again.
const AGAIN: u8 = 3;
/// Polls between two searches for new groups.
const POLLS_PER_SEARCH: u32 = 12;

/// An event count, and its value in the last poll.
#[derive(Debug)]
struct Heard {
    event_count: SyncWord,
    /// The group that it is of.
    group: Option<Group>,
    notifications: u32,
    /// Polls left in which its sleepers are woken.
    again: u8,
}

/// What a relay remembers.
#[derive(Debug, Default)]
pub struct Relay {
    heard: Vec<Heard>,
    /// Polls until the next search.
    until_search: u32,
}

impl Relay {
    /// Searches for groups, if it is time to or the death event count was notified; then [`poll`](Relay::poll)s.
    ///
    /// Cost: a load for each event count; now and then one for each entry of the directory.
    pub fn search_and_poll<M: Memory>(&mut self, worker: &Worker<M>) -> bool {
        let mem = worker.mem();
        let has_somebody_come = self
            .heard
            .first()
            .is_none_or(|death| event_count::notifications(mem, death.event_count) != death.notifications);
        if has_somebody_come || self.until_search == 0 {
            self.until_search = POLLS_PER_SEARCH;
            self.search(worker);
        }
        self.until_search -= 1;
        self.poll(worker)
    }

    /// A new event count may have been notified already.
    fn search<M: Memory>(&mut self, worker: &Worker<M>) {
        let Ok(_pin) = worker.pin() else {
            return;
        };
        let groups = Group::every(worker).into_iter();
        let groups = groups.map(|group| (group.event_count(), Some(group)));
        for (event_count, group) in [(DEATH_EVENTS, None), (ROUND_EVENTS, None)]
            .into_iter()
            .chain(groups)
        {
            let is_heard = |heard: &Heard| (heard.event_count, heard.group) == (event_count, group);
            if !self.heard.iter().any(is_heard) {
                self.heard.push(Heard {
                    event_count,
                    group,
                    notifications: event_count::notifications(worker.mem(), event_count),
                    again: AGAIN,
                });
            }
        }
    }

    /// Forgets groups that were dropped. The worker is pinned, and the others stay in place until that ends.
    fn forget_dropped<M: Memory>(&mut self, worker: &Worker<M>) {
        let is_there = |heard: &Heard| heard.group.is_none_or(|group| group.is_there(worker));
        self.heard.retain(is_there);
    }

    /// Wakes sleepers under this kernel by event counts that were notified since the last poll. Returns whether one
    /// was.
    ///
    /// Cost: three loads for each group; a system call for each event count that was notified lately.
    pub fn poll<M: Memory>(&mut self, worker: &Worker<M>) -> bool {
        let mem = worker.mem();
        let Ok(_pin) = worker.pin() else {
            return false;
        };
        self.forget_dropped(worker);
        let mut was_notified = false;
        for heard in &mut self.heard {
            let notifications = event_count::notifications(mem, heard.event_count);
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

    /// The caller is about to sleep until an event count is notified under this kernel; to be called before a poll.
    ///
    /// Cost: as [`prepare_wait`](event_count::prepare_wait) for each event count, and two loads more for each group.
    pub fn prepare_wait<M: Memory>(&mut self, worker: &Worker<M>) -> Vec<(u64, u32)> {
        let Ok(_pin) = worker.pin() else {
            return Vec::new();
        };
        self.forget_dropped(worker);
        let heard = self.heard.iter();
        heard
            .map(|heard| event_count::prepare_wait(worker.mem(), heard.event_count))
            .collect()
    }
}
