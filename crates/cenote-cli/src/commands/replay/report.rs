//! What a replay prints.

use std::fmt::Write;

use cenote_ycsb::trace::Action;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::thread::Tally;
use crate::commands::bench::SAMPLE;
use crate::map::MapKind;
use crate::output::{bytes, count};

/// The outcome of a replay.
#[derive(Serialize)]
pub struct Report {
    /// Where it came from.
    pub file: String,
    /// The trace's format.
    pub format: &'static str,
    /// The map's kind.
    pub map: MapKind,
    /// The pool's memory.
    pub memory: &'static str,
    /// Threads.
    pub threads: u64,
    /// Requests that were replayed.
    pub operations: u64,
    /// Seconds that this took, without reading the trace.
    pub seconds: f64,
    /// The ratio of the two.
    pub operations_per_second: f64,
    reads: u64,
    hits: u64,
    misses: u64,
    /// Reads whose value was compared with what was written; a wrong one ends the replay.
    verified_reads: u64,
    writes: u64,
    inserts: u64,
    inserted: u64,
    deletes: u64,
    deleted: u64,
    fills: u64,
    refused_fills: u64,
    bytes_read: u64,
    bytes_written: u64,
    /// Values that were longer than wanted.
    pub cut_values: u64,
    /// Records that could not be read.
    pub bad_records: u64,
    /// In the map at the end.
    pub keys: u64,
    latency_sampled_one_in: u64,
    latencies: Vec<Latency>,
}

/// Nanoseconds that an action takes.
#[derive(Serialize)]
struct Latency {
    action: &'static str,
    operations: u64,
    samples: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// What is known besides what the threads found.
pub struct Frame {
    /// Where the trace came from.
    pub file: String,
    /// Its format.
    pub format: &'static str,
    /// The map's kind.
    pub map: MapKind,
    /// The pool's memory.
    pub memory: &'static str,
    /// Threads.
    pub threads: u64,
    /// Seconds of replaying.
    pub seconds: f64,
    /// Values that were cut.
    pub cut_values: u64,
    /// Records that were left out.
    pub bad_records: u64,
    /// Keys in the map at the end.
    pub keys: u64,
}

impl Report {
    /// Of what all threads found.
    pub fn new(frame: Frame, tally: &Tally, times: &[Histogram<u32>]) -> Self {
        let [reads, writes, inserts, deletes] = tally.actions;
        let operations = tally.actions.iter().sum();
        let latencies = Action::ALL
            .iter()
            .zip(times)
            .zip(tally.actions)
            .filter(|(_, operations)| *operations > 0)
            .map(|((action, times), operations)| Latency {
                action: action.name(),
                operations,
                samples: times.len(),
                p50_ns: times.value_at_quantile(0.5),
                p99_ns: times.value_at_quantile(0.99),
                max_ns: times.max(),
            })
            .collect();
        Self {
            file: frame.file,
            format: frame.format,
            map: frame.map,
            memory: frame.memory,
            threads: frame.threads,
            operations,
            seconds: frame.seconds,
            operations_per_second: operations as f64 / frame.seconds.max(1e-9),
            reads,
            hits: tally.hits,
            misses: reads - tally.hits,
            verified_reads: tally.hits,
            writes,
            inserts,
            inserted: tally.inserted,
            deletes,
            deleted: tally.deleted,
            fills: tally.fills,
            refused_fills: tally.refused_fills,
            bytes_read: tally.bytes_read,
            bytes_written: tally.bytes_written,
            cut_values: frame.cut_values,
            bad_records: frame.bad_records,
            keys: frame.keys,
            latency_sampled_one_in: SAMPLE,
            latencies,
        }
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "replayed {} requests in {:.3} s ({} a second): {} map, {} memory, {} thread{}\n",
            count(self.operations),
            self.seconds,
            count(self.operations_per_second as u64),
            self.map.name(),
            self.memory,
            self.threads,
            if self.threads == 1 { "" } else { "s" },
        );
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} reads: {} hits, {} misses; every value that was read is one that was written for its key",
            count(self.reads),
            count(self.hits),
            count(self.misses)
        );
        let _ = writeln!(
            text,
            "{} writes; {} inserts, {} of new keys; {} deletes, {} of keys that were there",
            count(self.writes),
            count(self.inserts),
            count(self.inserted),
            count(self.deletes),
            count(self.deleted)
        );
        if self.fills > 0 {
            let _ = writeln!(text, "{} misses were followed by a write", count(self.fills));
        }
        if self.refused_fills > 0 {
            let _ = writeln!(
                text,
                "{} misses were not: the pool was full",
                count(self.refused_fills)
            );
        }
        let _ = writeln!(
            text,
            "{} of values read, {} written; the map has {} keys",
            bytes(self.bytes_read),
            bytes(self.bytes_written),
            count(self.keys)
        );
        if self.cut_values > 0 {
            let _ = writeln!(
                text,
                "{} requests had values cut to --value-max",
                count(self.cut_values)
            );
        }
        if self.bad_records > 0 {
            let _ = writeln!(text, "skipped {} bad records", count(self.bad_records));
        }
        let _ = writeln!(text, "one request in {SAMPLE} is timed, in nanoseconds:");
        let _ = writeln!(
            text,
            "  {:<7} {:>12} {:>8} {:>8} {:>10}",
            "", "requests", "p50", "p99", "max"
        );
        for times in &self.latencies {
            let _ = writeln!(
                text,
                "  {:<7} {:>12} {:>8} {:>8} {:>10}",
                times.action,
                count(times.operations),
                times.p50_ns,
                times.p99_ns,
                times.max_ns
            );
        }
        text
    }
}
