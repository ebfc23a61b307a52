//! Whether a poll of the hosts came in time, late, or in between.

use std::time::Duration;

/// How a poll of the hosts counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It comes in time: a host without a new heartbeat has missed one.
    Punctual,
    /// It comes late: it shows nothing, and all counts of missed heartbeats begin anew.
    Late,
    /// It is an additional one, to see how far fences have come: no host has missed anything.
    Between,
}

impl Poll {
    /// The poll that comes this long after the last one that counted, if there was one, where polls are due every
    /// `poll`.
    pub fn after(since: Option<Duration>, poll: Duration) -> Self {
        match since {
            Some(since) if since < poll => Self::Between,
            Some(since) if since <= 2 * poll => Self::Punctual,
            _ => Self::Late,
        }
    }
}
