//! The YCSB workloads on a cluster: each thread is a client.
//!
//! Workload F reads a value and writes another one, in two operations.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::Instant;

use cenote_cluster::{Map, Options};
use cenote_ycsb::{Action, Operation, Workload, key_of_record};

use super::plan::{ACTIONS, Form, Measured, Plan, place};
use super::{Args, report};
use super::{SAMPLE, histogram};
use crate::commands::cluster::place::ClusterArg;
use crate::failure::Failure;
use crate::map::MapKind;
use crate::output::Output;
use crate::threads::start_all;

/// Measures.
pub fn run(cluster: &ClusterArg, args: Args, out: &Output) -> Result<ExitCode, Failure> {
    if args.processes > 1 || args.count || args.map != MapKind::Hash || args.guidelines != Form::P3 {
        return Err(Failure::misuse(
            "a cluster is measured by threads of one process: leave out --processes, --count, --map and --guidelines",
        ));
    }
    let options = cluster.options()?;
    let workloads = args.workload.0;
    let is_all = workloads.len() > 1;
    if !is_all && workloads.contains(&Workload::E) {
        return Err(Failure::misuse(
            "workload E scans, and a cluster's map has no order: take another one",
        ));
    }
    let mut plan = Plan {
        pool: PathBuf::new(),
        map: MapKind::Hash,
        name: args.name,
        workload: String::new(),
        records: args.records,
        operations: args.ops.unwrap_or(args.records),
        value_size: args.value_size,
        batch: args.batch as usize,
        form: args.guidelines,
        count: false,
        seed: args.seed,
        threads: args.threads,
        first_worker: 0,
        workers: args.threads,
    };
    for (n, workload) in [Workload::Load]
        .into_iter()
        .chain(workloads)
        // It scans; among all, it is left out.
        .filter(|workload| *workload != Workload::E)
        .enumerate()
    {
        plan.workload = workload.name().to_owned();
        let report = report::report(&plan, "cluster", 1, &share(&plan, &options)?)?;
        if n == 0 && !out.json {
            out.line(report.head())?;
        }
        out.result(&report, report::Report::text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What all threads have measured together.
fn share(plan: &Plan, options: &Options) -> Result<Measured, Failure> {
    let barrier = Barrier::new(plan.threads as usize);
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let work = |thread| move || client(plan, options, thread, barrier);
        let threads = start_all(scope, "bench", (0..plan.threads).map(work))?;
        let mut all = Measured::default();
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(measured)) => all.add(measured),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(Failure::failed("a thread of the benchmark panicked")),
            }
        }
        failure.map_or(Ok(all), Err)
    })
}

fn client(plan: &Plan, options: &Options, thread: u64, barrier: &Barrier) -> Result<Measured, Failure> {
    // Whatever goes wrong, the others wait at the barrier.
    let prepared = (|| {
        let stream = plan.spec(thread).map_err(Failure::Misuse)?.stream();
        Ok::<_, Failure>((Map::open(options)?, stream))
    })();
    barrier.wait();
    let (mut map, stream) = prepared?;
    let mut measured = Measured::default();
    let mut histograms = ACTIONS
        .iter()
        .map(|_| histogram())
        .collect::<Result<Vec<_>, _>>()?;
    let mut waiting: Vec<[u8; 8]> = Vec::new();
    let begun = Instant::now();
    for (step, operation) in (1_u64..).zip(stream) {
        measured.operations[place(operation.action)] += 1;
        let key = key_of_record(operation.record).to_le_bytes();
        if plan.batch > 1 && operation.action == Action::Read {
            waiting.push(key);
            if waiting.len() < plan.batch {
                continue;
            }
            measured.misses += read_all(&map, &mut waiting)?;
            continue;
        }
        let begun = Instant::now();
        measured.misses += one(&mut map, plan, &operation, &key, step)?;
        if step.is_multiple_of(SAMPLE) {
            histograms[place(operation.action)].saturating_record(begun.elapsed().as_nanos() as u64);
        }
    }
    measured.misses += read_all(&map, &mut waiting)?;
    measured.seconds = begun.elapsed().as_secs_f64();
    for (latencies, histogram) in measured.latencies.iter_mut().zip(&histograms) {
        let counted = histogram.iter_recorded();
        *latencies = counted
            .map(|at| (at.value_iterated_to(), at.count_at_value().into()))
            .collect();
    }
    Ok(measured)
}

/// Looks up the keys that wait. Returns how many are not there.
fn read_all(map: &Map, waiting: &mut Vec<[u8; 8]>) -> Result<u64, Failure> {
    let keys: Vec<&[u8]> = waiting.iter().map(|key| &key[..]).collect();
    let found = map.get_many(&keys)?;
    waiting.clear();
    Ok(found.iter().filter(|value| value.is_none()).count() as u64)
}

/// One operation. Returns how many keys were not there.
fn one(map: &mut Map, plan: &Plan, operation: &Operation, key: &[u8; 8], step: u64) -> Result<u64, Failure> {
    let value = || {
        let number = key_of_record(step);
        let span = (plan.value_size.most - plan.value_size.least + 1) as u64;
        let mut value = vec![7; plan.value_size.least + (number % span) as usize];
        let marked = value.len().min(8);
        value[..marked].copy_from_slice(&number.to_le_bytes()[..marked]);
        value
    };
    Ok(match operation.action {
        Action::Read => map.get(key)?.is_none().into(),
        Action::Update | Action::Insert => {
            map.put(key, &value())?;
            0
        }
        Action::Modify => match map.get(key)? {
            Some(_) => (!map.update(key, &value())?).into(),
            None => 1,
        },
        // No workload that scans is run.
        Action::Scan => 0,
    })
}
