//! A profile in whole picoseconds.

use super::lines;
use crate::exec::{Kind, Op};
use crate::machine::{Found, LINE};
use crate::profile::Profile;

/// An operation that keeps others waiting for a part of its time: it travels to what serves it, then is served.
#[derive(Clone, Copy)]
pub struct Served {
    pub travel: u64,
    pub service: u64,
}

/// What things cost, in picoseconds.
#[derive(Clone, Copy)]
pub struct Costs {
    pub hit: u64,
    pub shared_hit: u64,
    pub miss: u64,
    pub sync_load: Served,
    pub sync_store: Served,
    pub exchange: Served,
    /// A line that comes from another host's cache.
    pub transfer: Served,
    /// One that several caches have, for a reader: they do not wait for each other as long.
    pub shared_transfer: Served,
    /// A line that has come to be written stays for less, though others wait for it.
    pub retention: u64,
    pub write_back: u64,
    pub flush: u64,
    pub fence: u64,
    /// At least 1, so that every operation takes time.
    pub compute: u64,
    pub kernel: u64,
    pub pause: u64,
    /// A line's way through its host's link.
    pub host_line: u64,
    /// A line's way through its device's link.
    pub device_line: u64,
}

impl Costs {
    pub fn new(profile: &Profile) -> Self {
        Self {
            hit: ps(profile.hit_ns),
            shared_hit: ps(profile.shared_hit_ns),
            miss: ps(profile.miss_ns),
            sync_load: served(profile.sync_load_ns, profile.same_address_service_ns),
            sync_store: served(profile.sync_store_ns, profile.same_address_service_ns),
            exchange: served(profile.exchange_ns, profile.exchange_service_ns),
            transfer: served(profile.transfer_ns, profile.transfer_ns),
            shared_transfer: served(profile.transfer_ns, profile.hit_ns),
            retention: ps(profile.retention_ns),
            write_back: ps(profile.write_back_ns),
            flush: ps(profile.flush_ns),
            fence: ps(profile.fence_ns),
            compute: ps(profile.compute_ns).max(1),
            kernel: ps(profile.kernel_ns),
            pause: ps(profile.pause_ns),
            host_line: line_ps(profile.host_bandwidth_gib_per_s),
            device_line: line_ps(profile.device_bandwidth_gib_per_s),
        }
    }
}

impl Served {
    /// What it takes if no other thread is served.
    pub fn latency(&self) -> u64 {
        self.travel + self.service
    }
}

impl Costs {
    /// So many lines at once, if no other thread uses the links.
    pub fn lines_alone(&self, lines: u64, latency: u64) -> u64 {
        let line = self.host_line.max(self.device_line);
        lines * line + latency.saturating_sub(line)
    }

    /// What an operation on incoherent memory takes if no other thread uses anything, without its thread's computing.
    pub fn alone(&self, op: Op, found: Found) -> u64 {
        match op.kind {
            Kind::Start | Kind::WriteBack | Kind::Invalidate | Kind::Prefetch | Kind::Fence => 0,
            Kind::Load => self.sync_load.latency(),
            Kind::Store | Kind::StoreSeqCst => self.sync_store.latency(),
            Kind::FetchLine if op.len > LINE => self.lines_alone(lines(op), self.miss),
            Kind::FetchLine => self.sync_load.latency(),
            Kind::CompareExchange | Kind::FetchModify => self.exchange.latency(),
            Kind::Speculate | Kind::OwnedStore | Kind::OwnedLoad | Kind::Read | Kind::Write => match found {
                Found::Hit => lines(op) * self.of_hit(op.kind),
                Found::Missed(lines) => self.lines_alone(lines.into(), self.miss),
            },
            Kind::Wait | Kind::Kernel => self.kernel,
        }
    }

    /// A line that is present.
    pub fn of_hit(&self, kind: Kind) -> u64 {
        match kind {
            Kind::OwnedLoad | Kind::OwnedStore | Kind::Write => self.hit,
            _ => self.shared_hit,
        }
    }
}

fn ps(ns: f64) -> u64 {
    (ns * 1e3).round() as u64
}

fn line_ps(gib_per_s: f64) -> u64 {
    (LINE as f64 * 1e12 / (gib_per_s * f64::from(1 << 30))).round() as u64
}

fn served(latency_ns: f64, service_ns: f64) -> Served {
    Served {
        travel: ps(latency_ns).saturating_sub(ps(service_ns)),
        service: ps(service_ns),
    }
}
