//! The YCSB workloads on a cluster: each thread is a client.
//!
//! Workload F reads a value and writes another one, in two operations.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::Instant;

use cenote_cluster::{Map, Options, OrderedMap};
use cenote_ycsb::{Action, Operation, Workload, key_of_record};

use super::plan::{ACTIONS, Form, Measured, Plan, place};
use super::{Args, report};
use super::{SAMPLE, histogram};
use crate::collection::CollectionKind;
use crate::commands::cluster::place::ClusterArg;
use crate::failure::Failure;
use crate::output::Output;
use crate::threads::start_all;

/// A map of a cluster, with the session of one thread.
enum Target {
    Hash(Map),
    Ordered(OrderedMap),
}

impl Target {
    fn open(plan: &Plan, options: &Options) -> Result<Self, Failure> {
        Ok(match plan.map {
            CollectionKind::Hash => Self::Hash(Map::open(options)?),
            CollectionKind::Ordered => Self::Ordered(OrderedMap::open(options, plan.name.as_bytes())?),
            CollectionKind::Objects => return Err(Failure::misuse("a cluster has no object stores")),
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match self {
            Self::Hash(map) => map.get(key)?,
            Self::Ordered(map) => map.get(key)?,
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Hash(map) => map.put(key, value)?,
            Self::Ordered(map) => drop(map.put(key, value)?),
        }
        Ok(())
    }

    /// Returns whether the key was bound.
    fn update(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        Ok(match self {
            Self::Hash(map) => map.replace_existing(key, value)?,
            Self::Ordered(map) => map.put(key, value)?,
        })
    }

    /// Returns how many pairs there were.
    fn scan(&self, from: &[u8], limit: u32) -> Result<usize, Failure> {
        match self {
            // No workload that scans is run.
            Self::Hash(_) => Ok(0),
            Self::Ordered(map) => Ok(map.scan(from, None, limit as usize)?.len()),
        }
    }

    /// Looks up the keys that wait. Returns how many are not there.
    fn read_all(&self, waiting: &mut Vec<[u8; 8]>) -> Result<u64, Failure> {
        let found = match self {
            Self::Hash(map) => {
                let keys: Vec<&[u8]> = waiting.iter().map(|key| &key[..]).collect();
                map.get_many(&keys)?
            }
            Self::Ordered(map) => {
                let each = waiting.iter().map(|key| map.get(key));
                each.collect::<Result<_, _>>()?
            }
        };
        waiting.clear();
        Ok(found.iter().filter(|value| value.is_none()).count() as u64)
    }
}

/// Measures.
pub fn run(cluster: &ClusterArg, args: Args, out: &Output) -> Result<ExitCode, Failure> {
    if args.processes > 1 || args.count || args.guidelines != Form::P3 {
        return Err(Failure::misuse(
            "a cluster is measured by threads of one process: leave out --processes, --count and --guidelines",
        ));
    }
    let options = cluster.options()?;
    let (map, batch) = (args.kind_of_map()?, args.batch());
    let workloads = args.workload.0;
    let is_all = workloads.len() > 1;
    let has_order = map == CollectionKind::Ordered;
    if !is_all && workloads.contains(&Workload::E) && !has_order {
        return Err(Failure::misuse(
            "workload E scans, and a cluster's hash map has no order: add --map ordered",
        ));
    }
    let mut plan = Plan {
        pool: PathBuf::new(),
        map,
        batch,
        name: args.name,
        workload: String::new(),
        records: args.records,
        operations: args.ops.unwrap_or(args.records),
        value_size: args.value_size,
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
        // It scans; among all, it is left out where there is no order.
        .filter(|workload| *workload != Workload::E || has_order)
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
        Ok::<_, Failure>((Target::open(plan, options)?, stream))
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
            measured.misses += map.read_all(&mut waiting)?;
            continue;
        }
        let begun = Instant::now();
        measured.misses += one(&mut map, plan, &operation, &key, step)?;
        if step.is_multiple_of(SAMPLE) {
            histograms[place(operation.action)].saturating_record(begun.elapsed().as_nanos() as u64);
        }
    }
    measured.misses += map.read_all(&mut waiting)?;
    measured.seconds = begun.elapsed().as_secs_f64();
    for (latencies, histogram) in measured.latencies.iter_mut().zip(&histograms) {
        let counted = histogram.iter_recorded();
        *latencies = counted
            .map(|at| (at.value_iterated_to(), at.count_at_value().into()))
            .collect();
    }
    Ok(measured)
}

/// One operation. Returns how many keys were not there.
fn one(
    map: &mut Target,
    plan: &Plan,
    operation: &Operation,
    key: &[u8; 8],
    step: u64,
) -> Result<u64, Failure> {
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
        Action::Scan => (map.scan(key, operation.length)? == 0).into(),
    })
}
