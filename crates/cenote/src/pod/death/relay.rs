//! Relaying event counts between kernels. Notifying an event count wakes only sleepers under the same kernel. So a
//! host's agent polls the pool's event counts with each heartbeat, or when another agent says so, and wakes its own
//! host's sleepers by those that were notified.
//!
//! It relays the death event count, that of idle background threads, and that of the groups; not those of locks, whose
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
use crate::pod::format::superblock::{DEATH_EVENTS, GROUP_EVENTS, ROUND_EVENTS};
use crate::pod::instance::event_count;

/// Polls after a notification in which sleepers are woken again.
const AGAIN: u8 = 3;

/// An event count, and its value in the last poll.
#[derive(Debug)]
struct Heard {
    event_count: SyncWord,
    notifications: u32,
    /// Polls left in which its sleepers are woken.
    again: u8,
}

/// What a relay remembers.
#[derive(Debug)]
pub struct Relay {
    heard: [Heard; 3],
    /// Whether an event count was notified of which other hosts were not told.
    is_news: bool,
}

impl Default for Relay {
    /// Event counts may have been notified already: their sleepers are woken in the first polls.
    fn default() -> Self {
        Self {
            heard: [DEATH_EVENTS, ROUND_EVENTS, GROUP_EVENTS].map(|event_count| Heard {
                event_count,
                notifications: 0,
                again: AGAIN,
            }),
            is_news: false,
        }
    }
}

impl Relay {
    /// Wakes sleepers under this kernel by event counts that were notified since the last poll. Returns whether one
    /// was.
    ///
    /// Cost: a load for each event count; a system call for each that was notified lately.
    pub fn poll<M: Memory>(&mut self, mem: &M) -> bool {
        self.look(mem, true)
    }

    /// The same between two heartbeats: does not count as one of the polls in which sleepers are woken again, which are
    /// to be some time apart.
    pub fn poll_between<M: Memory>(&mut self, mem: &M) -> bool {
        self.look(mem, false)
    }

    fn look<M: Memory>(&mut self, mem: &M, is_heartbeat: bool) -> bool {
        let mut was_notified = false;
        for heard in &mut self.heard {
            let notifications = event_count::notifications(mem, heard.event_count);
            if notifications != heard.notifications {
                heard.notifications = notifications;
                heard.again = AGAIN + 1;
                was_notified = true;
            }
            if heard.again > 0 {
                heard.again -= u8::from(is_heartbeat);
                mem.kernel().wake(heard.event_count.offset());
            }
        }
        self.is_news |= was_notified;
        was_notified
    }

    /// Whether an event count was notified since this was last asked, whichever thread has polled.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// The caller is about to sleep until an event count is notified under this kernel; to be called before a poll.
    ///
    /// Cost: as [`prepare_wait`](event_count::prepare_wait), for each event count.
    pub fn prepare_wait<M: Memory>(&self, mem: &M) -> Vec<(u64, u32)> {
        let heard = self.heard.iter();
        heard
            .map(|heard| event_count::prepare_wait(mem, heard.event_count))
            .collect()
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
