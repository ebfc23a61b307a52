//! How a monitor of hosts watches, and what it asks and tells the program that runs it.

use std::time::Duration;

use crate::pod::hosts::agent::HEARTBEAT;
use crate::pod::hosts::monitor::Event;

/// How a monitor watches, and how it fences.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    /// The time between two polls of the hosts. Default 8 ms.
    pub poll: Duration,
    /// Polls in a row without a new heartbeat after which a host is suspected and fenced. Default 3.
    pub missed: u64,
    /// The fence: a program that a shell runs with the host's id and generation after its own arguments. It must exit
    /// with 0 when the host is certainly down, and only then. `None` is for hosts that are processes of this machine:
    /// they are killed.
    pub fence: Option<String>,
    /// How long the program may take. Default 60 s.
    pub fence_timeout: Duration,
}

impl Default for MonitorOptions {
    fn default() -> Self {
        Self {
            poll: HEARTBEAT,
            missed: 3,
            fence: None,
            fence_timeout: Duration::from_secs(60),
        }
    }
}

/// What a [monitor](super::HostAgent::watch) asks the program that runs it, and tells it. It calls all of these on its
/// own thread, between polls of the hosts: each must return at once.
pub trait MonitorHandler {
    /// Whether this monitor may take the pool's lock of monitors, or keep it: always, where that lock alone decides
    /// which monitor leads (the default), or as an election outside the pool says. Asked at every poll, more than once.
    fn may_lead(&self) -> bool {
        true
    }

    /// Whether the monitor is to end. Asked before every poll.
    fn is_over(&self) -> bool;

    /// What the monitor has seen, or has done.
    fn on_event(&self, event: &Event);
}
