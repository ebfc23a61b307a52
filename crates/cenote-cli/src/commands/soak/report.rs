//! The report at the end: the verdict with its reasons, the figures, the curves.

use std::path::PathBuf;

use cenote_sim::reproduce::curves::{self, Curve, Panel};
use serde::Serialize;

use super::checkpoint::{Checkpoint, MemoryFigures};
use super::full::Refusal;
use super::meter::{Counter, Kind, Spike};
use super::plan::Plan;
use super::supervisor::Supervisor;
use super::trend::{self, Trend};
use crate::failure::Failure;
use crate::output::{bytes, count};
use crate::trial::fault::{self, Fault};

/// Lines of a list that are shown to people.
const SHOWN: usize = 8;
const MIB: f64 = (1 << 20) as f64;

/// What came out.
#[derive(Debug, Serialize)]
pub struct Report {
    seed: u64,
    workers: u32,
    memory: &'static str,
    max_bytes: u64,
    seconds: f64,
    kills: u64,
    restarts: u64,
    stops: u64,
    writes: u64,
    reads: u64,
    in_flight: u64,
    guards: u64,
    lost: usize,
    torn: usize,
    phantom: usize,
    problems: usize,
    leaked_bytes: u64,
    refused: u64,
    falsely_refused: u64,
    faults: Vec<Fault>,
    false_refusals: Vec<Refusal>,
    trends: Vec<Trend>,
    /// The longest operations of the run.
    spikes: Vec<Spike>,
    /// Why it failed; empty if it did not.
    pub reasons: Vec<String>,
    checkpoints: Vec<Checkpoint>,
    /// Where the pool and the journals are, if they are kept.
    pub kept: Option<PathBuf>,
}

/// The report of a run that has ended.
pub fn of(plan: &Plan, supervisor: Supervisor<'_>, seconds: f64) -> Report {
    let checkpoints = &supervisor.checkpoints;
    let of_kind = |kind| {
        supervisor
            .faults
            .iter()
            .filter(|fault| fault.kind == kind)
            .count()
    };
    let mut spikes: Vec<Spike> = checkpoints.iter().flat_map(|at| at.spikes.clone()).collect();
    spikes.sort_by(|left, right| right.own().total_cmp(&left.own()));
    spikes.truncate(2 * SHOWN);
    let leaked = checkpoints.iter().map(|at| at.memory.leaked_bytes).max();
    let mut report = Report {
        seed: plan.seed,
        workers: plan.workers,
        memory: plan.memory.name(),
        max_bytes: plan.max,
        seconds,
        kills: supervisor.counts.kills,
        restarts: supervisor.counts.restarts,
        stops: supervisor.counts.stops,
        writes: supervisor.count(Counter::Writes),
        reads: supervisor.count(Counter::Reads),
        in_flight: supervisor.count(Counter::InFlight),
        guards: supervisor.count(Counter::Guards),
        lost: of_kind(fault::Kind::Lost),
        torn: of_kind(fault::Kind::Torn),
        phantom: of_kind(fault::Kind::Phantom),
        problems: of_kind(fault::Kind::Problem),
        leaked_bytes: leaked.unwrap_or(0),
        refused: supervisor.count(Counter::Refused),
        falsely_refused: supervisor.count(Counter::FalselyRefused),
        false_refusals: supervisor.false_refusals(),
        trends: trend::of(checkpoints),
        spikes,
        reasons: Vec::new(),
        faults: supervisor.faults,
        checkpoints: supervisor.checkpoints,
        kept: None,
    };
    report.reasons = reasons(&report);
    report
}

fn reasons(report: &Report) -> Vec<String> {
    let counts = [
        (report.lost as u64, "acknowledged writes lost"),
        (report.torn as u64, "values torn"),
        (report.phantom as u64, "keys there that were removed"),
        (report.problems as u64, "problems"),
        (report.leaked_bytes, "bytes leaked"),
        (report.falsely_refused, "writes refused though there was room"),
    ];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let mut reasons: Vec<String> = counts
        .map(|(number, what)| format!("{} {what}", count(number)))
        .collect();
    let rising = report.trends.iter().filter(|trend| trend.rises == Some(true));
    reasons.extend(rising.map(|trend| {
        format!(
            "{} rises by {:.1} {} over the run; {:.1} are allowed",
            trend.name, trend.rise, trend.unit, trend.bound
        )
    }));
    if report.checkpoints.is_empty() {
        reasons.push("it came to no checkpoint".to_owned());
    }
    reasons
}

/// For people.
pub fn text(report: &Report) -> String {
    let mut lines = vec![
        format!(
            "{} memory: {} writes, {} checked reads and {} held values in {:.0} s; {} kills, {} restarts, {} stops, {} in flight",
            report.memory,
            count(report.writes),
            count(report.reads),
            count(report.guards),
            report.seconds,
            report.kills,
            report.restarts,
            report.stops,
            report.in_flight
        ),
        format!(
            "lost {}, torn {}, phantom {}, leaked {}, problems {}; refused {}, falsely {}",
            report.lost,
            report.torn,
            report.phantom,
            bytes(report.leaked_bytes),
            report.problems,
            count(report.refused),
            count(report.falsely_refused)
        ),
    ];
    if let Some(last) = report.checkpoints.last() {
        let MemoryFigures {
            committed_bytes,
            reachable_bytes,
            retired_bytes,
            ..
        } = last.memory;
        lines.push(format!(
            "{} checkpoints; at the last one {} of {} committed, {} reachable, {} retired; {} keys verified",
            report.checkpoints.len(),
            bytes(committed_bytes),
            bytes(report.max_bytes),
            bytes(reachable_bytes),
            bytes(retired_bytes),
            count(last.verified)
        ));
    }
    lines.push(format!(
        "{:<22}{:>12}{:>14}{:>12}{:>12}  verdict",
        "", "median", "slope an hour", "rise", "allowed"
    ));
    for trend in &report.trends {
        let verdict = match trend.rises {
            None => "too few checkpoints to tell",
            Some(true) => "RISES",
            Some(false) => "flat",
        };
        lines.push(format!(
            "{:<22}{:>12.2}{:>14.2}{:>12.2}{:>12.2}  {verdict}",
            format!("{}, {}", trend.name, trend.unit),
            trend.median,
            trend.slope_per_hour,
            trend.rise,
            trend.bound
        ));
    }
    if !report.spikes.is_empty() {
        lines.push("longest operations:".to_owned());
    }
    for spike in report.spikes.iter().take(SHOWN) {
        lines.push(format!(
            "  {:.1} ms, a {} of {} in phase {} ({:.1} ms of it without a processor, {:.0} ms stolen by the host)",
            spike.milliseconds,
            spike.operation,
            bytes(spike.bytes),
            spike.phase,
            spike.waited_for_cpu_ms,
            spike.stolen_by_host_ms
        ));
    }
    for fault in report.faults.iter().take(SHOWN) {
        lines.push(format!("{:?} ({}): {}", fault.kind, fault.found_by, fault.text));
    }
    for refusal in report.false_refusals.iter().take(SHOWN) {
        lines.push(format!(
            "refused falsely at {:.1} s, worker {} in phase {}: {}, {} needed; {} live, {} garbage, {} fragments, {} allowed for, of {}",
            refusal.at_ms as f64 / 1e3,
            refusal.worker,
            refusal.phase.name(),
            refusal.operation,
            bytes(refusal.needed),
            bytes(refusal.live),
            bytes(refusal.garbage),
            bytes(refusal.fragments),
            bytes(refusal.allowance),
            bytes(refusal.max)
        ));
    }
    if let Some(kept) = &report.kept {
        lines.push(format!("pool and journals are kept in {}", kept.display()));
    }
    if report.reasons.is_empty() {
        lines.push("clean".to_owned());
    } else {
        lines.push(format!("FAILED: {}", report.reasons.join("; ")));
        lines.push(format!(
            "again: cenote soak --memory {} --workers {} --seconds {:.0} --max {} --seed {}",
            report.memory,
            report.workers,
            report.seconds.ceil(),
            report.max_bytes,
            report.seed
        ));
    }
    lines.join("\n")
}

/// The curves, as a drawing.
pub fn svg(report: &Report) -> Result<String, Failure> {
    let curve = |name: &str, of: &dyn Fn(&Checkpoint) -> Option<f64>| Curve {
        name: name.to_owned(),
        points: report
            .checkpoints
            .iter()
            .filter_map(|at| Some((at.seconds / 60.0, of(at)?)))
            .collect(),
    };
    let memory =
        |name: &str, of: fn(&MemoryFigures) -> u64| curve(name, &|at| Some(of(&at.memory) as f64 / MIB));
    let latency = |kind: Kind| {
        let quantile = |name: &str, of: fn(&super::checkpoint::Latency) -> f64| {
            curve(name, &|at| at.latency(kind).map(of))
        };
        Panel {
            title: format!("{} by the checkpoint's interval", kind.name()),
            unit: "us".to_owned(),
            is_logarithmic: true,
            curves: vec![
                quantile("p50", |latency| latency.p50_us),
                quantile("p99", |latency| latency.p99_us),
                quantile("p99.9", |latency| latency.p999_us),
                quantile("max", |latency| latency.max_us),
            ],
        }
    };
    let mut panels = vec![
        Panel {
            title: "the pool's bytes".to_owned(),
            unit: "MiB".to_owned(),
            is_logarithmic: false,
            curves: vec![
                memory("committed", |at| at.committed_bytes),
                memory("file", |at| at.file_bytes),
                memory("reachable", |at| at.reachable_bytes),
                memory("live by the journals", |at| at.live_bytes),
                memory("free", |at| at.free_bytes),
                memory("retired", |at| at.retired_bytes),
            ],
        },
        Panel {
            title: "refusals so far".to_owned(),
            unit: "writes".to_owned(),
            is_logarithmic: false,
            curves: vec![
                curve("refused", &|at| Some(at.refused as f64)),
                curve("falsely", &|at| Some(at.falsely_refused as f64)),
            ],
        },
        Panel {
            title: "ordered maps".to_owned(),
            unit: "nodes a 1,000 keys".to_owned(),
            is_logarithmic: false,
            curves: vec![curve("nodes", &|at| {
                let (nodes, keys) = at.nodes_and_keys();
                (keys > 0).then(|| nodes as f64 * 1e3 / keys as f64)
            })],
        },
        Panel {
            title: "the hash maps' levels".to_owned(),
            unit: "slots".to_owned(),
            is_logarithmic: false,
            curves: vec![curve("slots", &|at| {
                Some(at.maps.iter().map(|map| map.slots as f64).sum())
            })],
        },
    ];
    panels.extend(Kind::ALL.into_iter().map(latency));
    let title = format!(
        "cenote soak: {} memory, {} workers, {:.0} min, seed {}",
        report.memory,
        report.workers,
        report.seconds / 60.0,
        report.seed
    );
    curves::svg(&title, "minutes", &panels).map_err(|error| Failure::failed(error.to_string()))
}
