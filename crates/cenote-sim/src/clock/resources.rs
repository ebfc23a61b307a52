//! What threads wait for. Each resource serves in the order of arrival, and threads arrive in the order of time; so all
//! that is kept of a resource is when it is free again.

use super::costs::{Costs, Served};
use crate::machine::LINE;

/// When a request is done, that reaches a resource at some time and keeps it busy for so long.
fn serve(free: &mut u64, arrival: u64, service: u64) -> u64 {
    *free = arrival.max(*free) + service;
    *free
}

/// Lines of a table's page.
const PAGE_LINES: usize = 1024;

type Page = [u64; PAGE_LINES];

/// Memory controllers, as far as they serve sync operations: one at a time for each line.
#[derive(Default)]
pub struct Turns {
    /// When each line is free, by pages that exist once they are touched.
    pages: Vec<Option<Box<Page>>>,
}

impl Turns {
    /// When an operation on a word is done that begins now.
    pub fn take(&mut self, at: u64, now: u64, cost: Served) -> u64 {
        serve(self.free(at), now + cost.travel, cost.service)
    }

    /// The next access to a word's line waits longer.
    pub fn delay(&mut self, at: u64, time: u64) {
        *self.free(at) += time;
    }

    /// When a word's line is free.
    fn free(&mut self, at: u64) -> &mut u64 {
        let line = (at / LINE) as usize;
        let page = line / PAGE_LINES;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE_LINES]));
        &mut page[line % PAGE_LINES]
    }
}

/// Queues for compare-exchanges.
pub struct Queues {
    free: Vec<u64>,
}

impl Queues {
    pub fn new(count: u32) -> Self {
        Self {
            free: vec![0; count as usize],
        }
    }

    /// When an operation on a word is done that begins now.
    pub fn take(&mut self, at: u64, now: u64, cost: Served) -> u64 {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, section 6.4), then a range reduction.
        let hash = (at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let queue = (hash * self.free.len() as u64) >> 32;
        serve(&mut self.free[queue as usize], now + cost.travel, cost.service)
    }
}

/// Bytes after which another device follows.
const INTERLEAVE_BYTES: u64 = 4096;

/// The links of hosts and devices, through which lines pass on their way into caches and out of them.
pub struct Links {
    host_free: Vec<u64>,
    device_free: Vec<u64>,
    host_line: u64,
    device_line: u64,
}

impl Links {
    pub fn new(costs: &Costs, hosts: u32, devices: u32) -> Self {
        Self {
            host_free: vec![0; hosts as usize],
            device_free: vec![0; devices as usize],
            host_line: costs.host_line,
            device_line: costs.device_line,
        }
    }

    /// When a request that sends one line has passed all that is before it on the links; its own way through them is a
    /// part of its latency.
    pub fn reach(&mut self, host: u32, at: u64, now: u64) -> u64 {
        self.pass(host, at, 1, now, 0) - self.host_line.max(self.device_line)
    }

    /// When so many lines are there that are asked for now. `latency` is one line's if nobody else uses the links; its
    /// way through them is a part of it. The lines are taken to be the first of a range.
    pub fn pass(&mut self, host: u32, at: u64, lines: u64, now: u64, latency: u64) -> u64 {
        let host_free = &mut self.host_free[host as usize];
        let mut passed = now;
        for n in 0..lines {
            let device = (at + n * LINE) / INTERLEAVE_BYTES % self.device_free.len() as u64;
            let device_passed = serve(&mut self.device_free[device as usize], now, self.device_line);
            passed = passed
                .max(serve(host_free, now, self.host_line))
                .max(device_passed);
        }
        passed + latency.saturating_sub(self.host_line.max(self.device_line))
    }
}
