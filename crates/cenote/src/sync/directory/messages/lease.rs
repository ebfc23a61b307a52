//! A node's lease: until when nobody can have declared the node dead, as far as the node knows.
//!
//! The directory declares a node dead if it has heard nothing of it for so long. The node sends heartbeats, each with
//! the time at which it was sent, and the directory sends them back. A heartbeat that was answered was heard after it
//! was sent. So the directory waits for a full lease from the moment at which the heartbeat was *sent*; the moment at
//! which the answer arrives does not matter.
//!
//! Both clocks only count time that passes. Their rates may differ: the node counts on seven eighths of the lease. A
//! session that has ended does not begin again. So a late answer renews a lease that had run out.

use super::instant::Moment;
use crate::mutant::{self, Mutant};

/// So many heartbeats are sent in the time of a lease.
const HEARTBEATS: u64 = 5;

/// What a node knows of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Microseconds for which the directory waits for a node.
    length: u64,
    /// The last heartbeat, by the time at which it was sent.
    sent: u64,
    /// The latest heartbeat that was answered.
    answered: u64,
    /// From when on the lease counts.
    from: Moment,
}

impl Lease {
    /// A lease of so many microseconds, of a node that said at a moment that it joins, and was let in.
    pub fn new(length: u64, joined: Moment) -> Self {
        Self {
            length,
            sent: joined.0,
            answered: joined.0,
            from: joined,
        }
    }

    /// Until when the node is certainly not declared dead.
    pub fn until(&self) -> Moment {
        self.from.after(self.length - self.length / 8)
    }

    /// When the next heartbeat is due.
    pub fn next_heartbeat(&self) -> Moment {
        Moment(self.sent).after(self.length / HEARTBEATS)
    }

    /// A heartbeat is sent. Each one has a number of its own.
    pub fn send_heartbeat(&mut self, now: Moment) -> u64 {
        self.sent = now.0.max(self.sent.saturating_add(1));
        self.sent
    }

    /// The latest heartbeat that was answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// A heartbeat was answered.
    pub fn hear(&mut self, heartbeat: u64, now: Moment) {
        // A directory that answers what was not sent yet is none.
        if heartbeat > self.sent || heartbeat <= self.answered {
            return;
        }
        self.answered = heartbeat;
        self.from = match mutant::is(Mutant::RemoteLeaseFromAnswer) {
            true => now,
            false => Moment(heartbeat.min(now.0)),
        };
    }
}
