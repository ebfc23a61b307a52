//! The clock of nodes and directories.

use std::time::Duration;

use crate::memory::time_since_boot;
use crate::sync::directory::messages::instant::Moment;

/// Now: microseconds since this machine was started. Time in which it was suspended counts.
pub fn now() -> Moment {
    Moment(micros(time_since_boot()))
}

/// A time in microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
