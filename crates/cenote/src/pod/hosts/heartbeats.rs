//! What a monitor has heard of a host: its heartbeats, and polls without a new one.

use super::poll::Poll;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::Geometry;
use crate::pod::format::host_entry::{HostRecord, HostState};
use crate::pod::format::record::ProcessRecord;

/// How much longer a monitor waits for the first heartbeat of a host whose agent is just starting.
const STARTING: u64 = 64;
/// A late poll alone counts for nothing. But if this many times as many polls in a row as are needed have heard
/// nothing, late ones included, the host has missed its heartbeats: its agent has had as many occasions.
const EVEN_LATE: u64 = 4;
/// The longest timeout that an agent can ask for.
const TIMEOUT_MAX: u64 = 256;

/// What a monitor remembers of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pod) struct Heard {
    /// Whether anything was heard.
    is_known: bool,
    state: u64,
    heartbeat: u64,
    /// Polls in a row that came in time and saw no new heartbeat.
    missed: u64,
    /// Polls in a row that saw none, late ones included.
    unheard: u64,
}

impl Heard {
    /// Polls for a new heartbeat of a host that is in this state. Returns whether it has missed `missed_max`
    /// heartbeats, times the timeout that its agent asks for; or [`EVEN_LATE`] times as many, if not all of the polls
    /// came in time.
    ///
    /// Cost: two round trips.
    pub fn has_missed<M: Memory>(
        &mut self,
        mem: &M,
        geometry: &Geometry,
        (host, state): (u32, HostState),
        how: Poll,
        missed_max: u64,
    ) -> bool {
        let record = HostRecord::new(geometry, host);
        // PAIRS WITH: pod::hosts::agent::take, pod::hosts::agent::Pulse::heartbeat
        let heartbeat = record.heartbeat().load(mem);
        // A new agent counts as a heartbeat: it has not sent one yet.
        let is_new = !self.is_known || self.state != state.encode() || self.heartbeat != heartbeat;
        let timeout = match state.agent {
            0 => STARTING,
            place if place <= geometry.parameters.processes => ProcessRecord::new(geometry, place - 1)
                .timeout()
                .peek(mem)
                .clamp(1, TIMEOUT_MAX),
            // Of a damaged entry.
            _ => 1,
        };
        let missed_max = missed_max.saturating_mul(timeout);
        let missed = match (is_new, how) {
            (true, _) if !self.is_known && mutant::is(Mutant::FirstPollCounts) => missed_max,
            (true, _) if mutant::is(Mutant::MissesKept) => self.missed + 1,
            (true, _) => 0,
            (false, Poll::Punctual) => self.missed + 1,
            (false, Poll::Late) => 0,
            (false, Poll::Between) => self.missed,
        };
        let unheard = match (is_new, how) {
            (true, _) => 0,
            (false, Poll::Between) => self.unheard,
            (false, _) => self.unheard + 1,
        };
        *self = Self {
            is_known: true,
            state: state.encode(),
            heartbeat,
            missed,
            unheard,
        };
        missed >= missed_max
            || unheard >= EVEN_LATE.saturating_mul(missed_max) && !mutant::is(Mutant::LatePollsForgiven)
    }
}
