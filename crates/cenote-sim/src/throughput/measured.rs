//! What the threads of a run have measured.

use super::{Latency, Throughput};
use crate::clock::Spent;
use crate::exec::{Profiled, Traffic};
use crate::machine::LINE;

/// Of one workload.
#[derive(Default)]
pub struct Measured {
    begin: Option<u64>,
    end: u64,
    times: Vec<u64>,
    traffic: Traffic,
    spent: Spent,
    profiled: Profiled,
}

impl Measured {
    /// A thread's part: when it began and ended, how long each of its operations took, in picoseconds, what they sent,
    /// and where the time went.
    pub fn add(&mut self, begin: u64, end: u64, mut times: Vec<u64>, (traffic, spent): (Traffic, Spent)) {
        self.begin = Some(self.begin.map_or(begin, |first| first.min(begin)));
        self.end = self.end.max(end);
        self.times.append(&mut times);
        self.traffic += traffic;
        self.spent += spent;
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.times.len() as u64
    }

    /// Where in the library the time of all of them went.
    pub fn add_profile(&mut self, profiled: Profiled) {
        self.profiled = profiled;
    }

    /// All of it.
    pub fn summary(mut self) -> Throughput {
        self.times.sort_unstable();
        let times = &self.times;
        let count = times.len().max(1);
        let at = |percent: usize| {
            let nth = (count * percent).div_ceil(100) - 1;
            times.get(nth).copied().unwrap_or(0) as f64 / 1e3
        };
        let span_ns = (self.end - self.begin.unwrap_or(self.end)) as f64 / 1e3;
        Throughput {
            operations: times.len() as u64,
            span_ns,
            mops_per_s: times.len() as f64 * 1e3 / span_ns.max(1e-3),
            latency_ns: Latency {
                mean: times.iter().sum::<u64>() as f64 / count as f64 / 1e3,
                p50: at(50),
                p99: at(99),
            },
            traffic: self.traffic,
            time: self.spent.shares(count as u64),
            links_gib_per_s: (self.spent.lines() * LINE) as f64 / f64::from(1 << 30) * 1e9
                / span_ns.max(1e-3),
            profiled: self.profiled,
        }
    }
}
