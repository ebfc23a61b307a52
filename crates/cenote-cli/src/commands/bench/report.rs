//! What a benchmark prints: throughput, latencies, and operations on memory.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::plan::{ACTIONS, COUNTS, Measured, Plan};
use super::share::{SAMPLE, histogram};
use crate::collection::CollectionKind;
use crate::failure::Failure;
use crate::output::count;

/// One workload's outcome.
#[derive(Serialize)]
pub struct Report {
    workload: String,
    operations: u64,
    seconds: f64,
    operations_per_second: f64,
    processes: u64,
    threads: u64,
    batch: usize,
    kind: &'static str,
    map: CollectionKind,
    /// None of a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    guidelines: Option<super::plan::Form>,
    records: u64,
    value_size: super::plan::ValueSize,
    seed: u64,
    misses: u64,
    retries: u64,
    scanned_pairs: u64,
    latency_sampled_one_in: u64,
    latencies: Vec<Latency>,
    /// Operations on memory per operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_operations: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Nanoseconds that an action takes.
#[derive(Serialize)]
struct Latency {
    action: &'static str,
    operations: u64,
    samples: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

/// Makes a report of what all workers have measured.
pub fn report(
    plan: &Plan,
    kind: &'static str,
    processes: u64,
    measured: &Measured,
) -> Result<Report, Failure> {
    let operations: u64 = measured.operations.iter().sum();
    let mut latencies = Vec::new();
    for (n, (_, action)) in ACTIONS.iter().enumerate() {
        let mut times = histogram()?;
        for (nanoseconds, times_seen) in &measured.latencies[n] {
            times.saturating_record_n(*nanoseconds, u32::try_from(*times_seen).unwrap_or(u32::MAX));
        }
        if measured.operations[n] > 0 {
            latencies.push(Latency {
                action,
                operations: measured.operations[n],
                samples: times.len(),
                p50_ns: times.value_at_quantile(0.5),
                p90_ns: times.value_at_quantile(0.9),
                p99_ns: times.value_at_quantile(0.99),
                p999_ns: times.value_at_quantile(0.999),
                max_ns: times.max(),
            });
        }
    }
    let per_operation = |count: u64| json!((count as f64 / operations.max(1) as f64 * 1e4).round() / 1e4);
    let memory_operations = plan.count.then(|| {
        COUNTS
            .iter()
            .zip(measured.counts)
            .map(|(name, count)| ((*name).to_owned(), per_operation(count)))
            .collect()
    });
    let note = (plan.workload == "e" && plan.map == CollectionKind::Hash).then_some(
        "the map has no order: a scan reads the next pairs of a walk of the whole map, not a range of keys",
    );
    Ok(Report {
        workload: plan.workload.clone(),
        operations,
        seconds: measured.seconds,
        operations_per_second: operations as f64 / measured.seconds.max(1e-9),
        processes,
        threads: plan.threads,
        batch: plan.batch,
        kind,
        map: plan.map,
        guidelines: (kind != "cluster").then_some(plan.form),
        records: plan.records,
        value_size: plan.value_size,
        seed: plan.seed,
        misses: measured.misses,
        retries: measured.retries,
        scanned_pairs: measured.scanned,
        latency_sampled_one_in: SAMPLE,
        latencies,
        memory_operations,
        note,
    })
}

impl Report {
    fn where_it_is(&self) -> String {
        match self.guidelines {
            Some(form) => format!(
                "{}, {} memory, guidelines {}",
                self.map.noun(),
                self.kind,
                form.name()
            ),
            None => self.kind.to_owned(),
        }
    }

    /// Above the first report.
    pub fn head(&self) -> String {
        format!(
            "{}, {} records, keys of 8 bytes, values of {} bytes\n\
             {} process{} of {} thread{}; one operation in {SAMPLE} is timed, in nanoseconds\n\n\
             {:<9} {:>12} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10}",
            self.where_it_is(),
            count(self.records),
            self.value_size,
            self.processes,
            if self.processes == 1 { "" } else { "es" },
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            "workload",
            "operations",
            "seconds",
            "Mops/s",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
        )
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:<9} {:>12} {:>9.3} {:>10.3}\n",
            self.workload,
            count(self.operations),
            self.seconds,
            self.operations_per_second / 1e6
        );
        // Writing to a string does not fail.
        for times in &self.latencies {
            let _ = writeln!(
                text,
                "  {:<7} {:>12} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10}",
                times.action,
                count(times.operations),
                "",
                "",
                times.p50_ns,
                times.p90_ns,
                times.p99_ns,
                times.p999_ns,
                times.max_ns
            );
        }
        if let Some(counts) = &self.memory_operations {
            let shown: Vec<_> = counts
                .iter()
                .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
                .collect();
            let _ = writeln!(text, "  memory operations an operation: {}", shown.join(", "));
        }
        if self.misses > 0 {
            let _ = writeln!(text, "  {} keys were not found", count(self.misses));
        }
        if self.retries > 0 {
            let _ = writeln!(text, "  {} replacements were tried again", count(self.retries));
        }
        if self.scanned_pairs > 0 {
            let _ = writeln!(text, "  scans read {} pairs", count(self.scanned_pairs));
        }
        if let Some(note) = self.note {
            let _ = writeln!(text, "  {note}");
        }
        text
    }
}
