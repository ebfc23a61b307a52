//! `cenote bench --map near`: the YCSB workloads on a near-memory map, in batches.
//!
//! Each value that is read is compared with what the benchmark has written: a difference counts as a miss, and there
//! should be none.

use std::net::SocketAddr;
use std::ops::Bound;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cenote::MemoryKind;
use cenote_cluster::near::{Nodes, Options as NodesOptions};
use cenote_near::map::{Answer, Config, Map, MapError, Moves, Operation};
use cenote_near::modules::{Counters, Modules, Profile};
use cenote_ycsb::{Action, Spec, Stream, Workload, key_of_record};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::heat::{imbalance, line};
use super::plan::{Form, ValueSize};
use super::{Args, histogram};
use crate::commands::cluster::place::token_of;
use crate::failure::Failure;
use crate::output::{Output, bytes, count};

/// Operations of a batch.
const BATCH: u64 = 65_536;
/// Modules.
const MODULES: u64 = 64;
/// The heat map is drawn so often.
const REDRAW: Duration = Duration::from_millis(100);

/// Arguments for near-memory maps.
#[derive(clap::Args)]
#[command(next_help_heading = "With --map near")]
pub struct NearArgs {
    /// Modules of all worker threads or memory nodes together [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    modules: Option<u64>,
    /// Have these memory nodes execute, instead of --threads worker threads of this process
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    nodes: Vec<SocketAddr>,
    /// Simulate modules by the profile upmem: times are virtual, and nothing is measured
    #[arg(long, conflicts_with = "nodes")]
    simulated: bool,
    /// The exponent of the zipfian distribution, 0 for a uniform one [default: 0.99]
    #[arg(long, value_name = "EXPONENT")]
    alpha: Option<f64>,
    /// Leave keys where they are, in ranges of equal width
    #[arg(long = "static")]
    is_static: bool,
}

impl NearArgs {
    /// Whether any was given.
    pub fn is_given(&self) -> bool {
        let has_number = self.modules.is_some() || self.alpha.is_some();
        has_number || !self.nodes.is_empty() || self.simulated || self.is_static
    }
}

/// One workload's outcome.
#[derive(Serialize)]
struct Report {
    workload: String,
    map: &'static str,
    backend: &'static str,
    modules: usize,
    threads: u64,
    records: u64,
    operations: u64,
    batch: u64,
    alpha: f64,
    seed: u64,
    /// Whether times are those of simulated modules.
    simulated: bool,
    seconds: f64,
    operations_per_second: f64,
    misses: u64,
    full: u64,
    scanned_pairs: u64,
    batch_p50_ns: u64,
    batch_max_ns: u64,
    rounds_per_batch: f64,
    chases_per_operation: f64,
    bytes_per_operation: f64,
    busiest_over_mean: f64,
    splits: u64,
    moves: u64,
    pulls: u64,
    merges: u64,
    memory_bytes: u64,
    host_bytes: u64,
    module_loads: Vec<u64>,
}

impl Report {
    fn text(&self) -> String {
        let clock = if self.simulated { "virtual " } else { "" };
        format!(
            "{:<9} {:>12} {:>9.3} {:>10.3} {:>10.3} {:>10.3} {:>7.2} {:>7.2} {:>7.2}\n  {}  load of each module in the last batch\n",
            self.workload,
            count(self.operations),
            self.seconds,
            self.operations_per_second / 1e6,
            self.batch_p50_ns as f64 / 1e6,
            self.batch_max_ns as f64 / 1e6,
            self.rounds_per_batch,
            self.chases_per_operation,
            self.busiest_over_mean,
            line(&self.module_loads),
        ) + &match self.misses {
            0 => String::new(),
            misses => format!("  {} answers were not what had been written\n", count(misses)),
        } + &match self.full {
            0 => String::new(),
            full => format!("  {} inserts found no room in their module\n", count(full)),
        } + &format!(
            "  {} splits, {} moves, {} pulls, {} merges; {} in modules, {} on the host; {clock}seconds\n",
            self.splits,
            self.moves,
            self.pulls,
            self.merges,
            bytes(self.memory_bytes),
            bytes(self.host_bytes)
        )
    }
}

/// Measures.
pub fn run(args: &Args, out: &Output) -> Result<ExitCode, Failure> {
    let plan = Plan::new(args)?;
    let near = &args.near;
    let config = Config {
        adaptive: !near.is_static,
        repeats: !near.is_static,
        seed: args.seed,
        module_bytes: module_bytes(plan.most_records(), plan.modules),
        ..Config::default()
    };
    if !near.nodes.is_empty() {
        let each = plan.modules.div_ceil(near.nodes.len()) as u32;
        let options = NodesOptions {
            seed: args.seed,
            ..NodesOptions::new(
                each,
                config.module_bytes,
                token_of(args.token.token_file.clone())?,
            )
        };
        let nodes =
            Nodes::connect(&near.nodes, &options).map_err(|error| Failure::failed(error.to_string()))?;
        return plan.run(Map::new(config, nodes).map_err(failed)?, "memory nodes", out);
    }
    if near.simulated {
        let profile = Profile::upmem().map_err(|error| Failure::failed(error.to_string()))?;
        let map = Map::simulated(config, plan.modules, profile).map_err(failed)?;
        return plan.run(map, "simulated", out);
    }
    let map = Map::threads(config, plan.modules, args.threads as usize).map_err(failed)?;
    plan.run(map, "threads", out)
}

fn failed(error: MapError) -> Failure {
    Failure::failed(error.to_string())
}

/// Room for all records four times over: some modules have more than others.
fn module_bytes(records: u64, modules: usize) -> u64 {
    (records * 64 * 4 / modules as u64).clamp(1 << 20, 8 << 30)
}

/// What is measured.
struct Plan {
    workloads: Vec<Workload>,
    modules: usize,
    threads: u64,
    records: u64,
    operations: u64,
    batch: u64,
    alpha: f64,
    seed: u64,
}

impl Plan {
    fn new(args: &Args) -> Result<Self, Failure> {
        let is_default = |size: ValueSize| size.least == 8 && size.most == 8;
        let has_others = args.pool.is_some()
            || args.processes > 1
            || args.count
            || args.guidelines != Form::P3
            || args.memory.kind() != MemoryKind::Coherent
            || !is_default(args.value_size);
        if has_others {
            return Err(Failure::misuse(
                "a near-memory map is in no pool, and has values of 8 bytes: leave out POOL, --processes, --count, --guidelines, --value-size and the kinds of memory",
            ));
        }
        let alpha = args.near.alpha.unwrap_or(0.99);
        if !(0.0..=10.0).contains(&alpha) {
            return Err(Failure::misuse(format!("--alpha {alpha}: 0 to 10 is possible")));
        }
        let least = args.near.nodes.len().max(1) as u64;
        Ok(Self {
            workloads: args.workload.0.clone(),
            modules: args.near.modules.unwrap_or(MODULES).max(least) as usize,
            threads: args.threads,
            records: args.records,
            operations: args.ops.unwrap_or(args.records),
            batch: args.batch.unwrap_or(BATCH),
            alpha,
            seed: args.seed,
        })
    }

    fn run<M: Modules>(&self, map: Map<M>, backend: &'static str, out: &Output) -> Result<ExitCode, Failure> {
        let mut bench = Bench {
            plan: self,
            backend,
            map,
            values: Vec::new(),
            drawn: Instant::now(),
        };
        let mut misses = 0;
        for (n, workload) in [Workload::Load].iter().chain(&self.workloads).enumerate() {
            let report = bench.measure(*workload)?;
            misses += report.misses;
            if n == 0 && !out.json {
                out.line(self.head(bench.map.modules().count(), backend))?;
            }
            out.result(&report, Report::text)?;
        }
        Ok(match misses {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }

    /// Records after all workloads; one operation in twenty of some is an insert.
    fn most_records(&self) -> u64 {
        let inserts = self
            .workloads
            .iter()
            .filter(|workload| matches!(workload, Workload::D | Workload::E));
        self.records + inserts.count() as u64 * self.operations.div_ceil(20)
    }

    fn head(&self, modules: usize, backend: &str) -> String {
        format!(
            "near map, {modules} modules ({backend}), {} records, keys and values of 8 bytes, batches of {}, zipfian {}\n\n\
             {:<9} {:>12} {:>9} {:>10} {:>10} {:>10} {:>7} {:>7} {:>7}",
            count(self.records),
            count(self.batch),
            self.alpha,
            "workload",
            "operations",
            "seconds",
            "Mops/s",
            "batch ms",
            "longest",
            "rounds",
            "chases",
            "busiest",
        )
    }
}

/// What is to be compared with an answer.
enum Expected {
    Value(Option<u64>),
    /// That of the read of a modification, which counts once.
    Read(Option<u64>),
    Pairs,
}

struct Bench<'p, M> {
    plan: &'p Plan,
    backend: &'static str,
    map: Map<M>,
    /// The value of each record.
    values: Vec<u64>,
    /// When the heat map was drawn last.
    drawn: Instant,
}

impl<M: Modules> Bench<'_, M> {
    fn measure(&mut self, workload: Workload) -> Result<Report, Failure> {
        let plan = self.plan;
        let mut spec = Spec::new(workload, plan.records);
        (spec.seed, spec.theta) = (plan.seed, plan.alpha);
        if workload != Workload::Load {
            spec.operations = plan.operations;
        }
        let bar = ProgressBar::with_draw_target(Some(spec.operations), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30.cyan/blue} {percent:>3}%  {prefix}\n{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(workload.name());
        let before = (self.map.counters(), self.map.moves());
        let mut stream = spec.stream();
        let (mut done, mut total) = (0, Totals::default());
        let mut times = histogram()?;
        loop {
            let (operations, expected) = self.draw(&mut stream);
            if operations.is_empty() {
                break;
            }
            let virtual_before = self.map.counters().virtual_ns;
            let began = Instant::now();
            let answers = self.map.execute(&operations).map_err(failed)?;
            let took = match self.map.counters().virtual_ns - virtual_before {
                0 => began.elapsed(),
                nanoseconds => Duration::from_nanos(nanoseconds),
            };
            times.saturating_record(took.as_nanos() as u64);
            total.add(took, &answers, &expected);
            done += whole(&expected);
            bar.set_position(done.min(spec.operations));
            if self.drawn.elapsed() > REDRAW {
                self.drawn = Instant::now();
                bar.set_message(line(self.map.loads()));
            }
        }
        bar.finish_and_clear();
        let mut report = self.report(workload, &total, before);
        (report.batch_p50_ns, report.batch_max_ns) = (times.value_at_quantile(0.5), times.max());
        Ok(report)
    }

    /// A batch, and what answers are to be. Records of a batch are drawn before it is timed.
    fn draw(&mut self, stream: &mut Stream) -> (Vec<Operation>, Vec<Expected>) {
        let (mut operations, mut expected) = (Vec::new(), Vec::new());
        let apart = u64::MAX / self.plan.records.max(1);
        for operation in stream.by_ref().take(self.plan.batch as usize) {
            let (record, key) = (operation.record, key_of_record(operation.record));
            let value = self.values.get(record as usize).copied();
            let update = |value: Option<u64>| Operation::CompareSwap {
                key,
                expected: value.unwrap_or(0),
                value: value.unwrap_or(0) + 1,
            };
            match operation.action {
                Action::Read => operations.push(Operation::Get(key)),
                Action::Update => operations.push(update(value)),
                Action::Insert => operations.push(Operation::Insert(key, record)),
                Action::Scan => {
                    let last = key.saturating_add(apart.saturating_mul(operation.length.into()));
                    operations.push(Operation::Scan(Bound::Included(key), Bound::Included(last)));
                }
                Action::Modify => {
                    operations.push(Operation::Get(key));
                    expected.push(Expected::Read(value));
                    operations.push(update(value));
                }
            }
            expected.push(match operation.action {
                Action::Scan => Expected::Pairs,
                _ => Expected::Value(value),
            });
            match operation.action {
                Action::Insert => {
                    // Records are inserted in their order.
                    self.values
                        .resize(self.values.len().max(record as usize + 1), record);
                }
                Action::Update | Action::Modify => {
                    if let Some(value) = self.values.get_mut(record as usize) {
                        *value += 1;
                    }
                }
                Action::Read | Action::Scan => {}
            }
        }
        (operations, expected)
    }

    fn report(&self, workload: Workload, total: &Totals, before: (Counters, Moves)) -> Report {
        let (now, moves) = (self.map.counters(), self.map.moves());
        let each = |now: u64, then: u64| (now - then) as f64 / total.operations.max(1) as f64;
        let memory = self.map.memory_bytes();
        let loads = self.map.loads().to_vec();
        let seconds = total.time.as_secs_f64();
        Report {
            workload: workload.name().to_owned(),
            map: "near",
            backend: self.backend,
            modules: loads.len(),
            threads: self.plan.threads,
            records: self.plan.records,
            operations: total.operations,
            batch: self.plan.batch,
            alpha: self.plan.alpha,
            seed: self.plan.seed,
            simulated: now.virtual_ns > 0,
            seconds,
            operations_per_second: total.operations as f64 / seconds.max(1e-9),
            misses: total.misses,
            full: total.full,
            scanned_pairs: total.scanned,
            batch_p50_ns: 0,
            batch_max_ns: 0,
            rounds_per_batch: (now.rounds - before.0.rounds) as f64 / total.batches.max(1) as f64,
            chases_per_operation: each(now.chases, before.0.chases),
            bytes_per_operation: each(now.sent + now.received, before.0.sent + before.0.received),
            busiest_over_mean: imbalance(&loads),
            splits: moves.splits - before.1.splits,
            moves: moves.moves - before.1.moves,
            pulls: moves.pulls - before.1.pulls,
            merges: moves.merges - before.1.merges,
            memory_bytes: memory.modules,
            host_bytes: memory.host,
            module_loads: loads,
        }
    }
}

/// What a workload's batches add up to.
#[derive(Default)]
struct Totals {
    time: Duration,
    batches: u64,
    operations: u64,
    misses: u64,
    full: u64,
    scanned: u64,
}

/// How many operations a batch has; a modification is one.
fn whole(expected: &[Expected]) -> u64 {
    expected
        .iter()
        .filter(|expected| !matches!(expected, Expected::Read(_)))
        .count() as u64
}

impl Totals {
    fn add(&mut self, took: Duration, answers: &[Answer], expected: &[Expected]) {
        self.time += took;
        self.batches += 1;
        self.operations += whole(expected);
        for (answer, expected) in answers.iter().zip(expected) {
            match (answer, expected) {
                (
                    Answer::Value(value)
                    | Answer::Insert { existing: value }
                    | Answer::CompareSwap { before: value },
                    Expected::Value(expected) | Expected::Read(expected),
                ) if value == expected => {}
                (Answer::Full, _) => self.full += 1,
                (Answer::Pairs(pairs), Expected::Pairs) => self.scanned += pairs.len() as u64,
                _ => self.misses += 1,
            }
        }
    }
}
