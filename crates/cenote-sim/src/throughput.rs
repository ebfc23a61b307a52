//! YCSB workloads on the hash map in virtual time: how many operations a second the simulated machine does.
//!
//! One host loads the records and leaves. Then every host's process joins and starts its threads; they wait for each other,
//! and from there on time is taken. Keys and values have 8 bytes. The workload Load begins with an empty map, which
//! grows as it is filled; the others begin with one that was made large enough. There are no checkers, but a
//! lookup that misses its record ends the run.
//!
//! All comes from the seed: the same plan gives the same result.
//!
//! **Limits.** Those of [`clock`](crate::clock). Background threads take part, but what they do is not counted.

use std::cell::RefCell;
use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::hash::HashMap;
use cenote::pod::Worker;
use cenote::pod::geometry::{Parameters, UNIT};
use cenote::pod::superblock::Kind;
use cenote_ycsb::{Action, Spec, Workload, key_of_record};
use serde::Serialize;

use crate::exec::{Context, Ended, Settings, SimMemory, Traffic, run};
use crate::machine::Shape;
use crate::policy::RandomWalk;
use crate::profile::Profile;
use crate::subjects::gathering::Gathering;
use crate::subjects::pool::{self, Member};

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Hosts, each with one process; no more than threads.
    pub hosts: u32,
    /// Threads, dealt to the hosts in turn.
    pub threads: u32,
    /// Whether the hosts' caches are coherent.
    pub coherent: bool,
    /// What the threads do: Load, A, B, C, D or F.
    pub workload: Workload,
    /// Records in the map; for Load, those that are put in.
    pub records: u64,
    /// Operations of all threads together; Load has as many as records.
    pub operations: u64,
    /// Which optimisations the map's handles use.
    pub guidelines: Guidelines,
    /// What things cost.
    pub profile: Profile,
    /// What the operations are drawn from.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Throughput {
    /// Operations done.
    pub operations: u64,
    /// Virtual time from the first thread's begin to the last one's end, in nanoseconds.
    pub span_ns: f64,
    /// Millions of operations a virtual second.
    pub mops_per_s: f64,
    /// Virtual times of operations, in nanoseconds.
    pub latency_ns: Latency,
    /// What the operations sent to memory, all together.
    pub traffic: Traffic,
    /// Simulated memory operations, with those of the preparation.
    pub steps: u64,
    /// A checksum over all that happened.
    pub digest: u64,
}

/// Times of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Their mean.
    pub mean: f64,
    /// Half of them took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThroughputError {
    /// A map without an order has no scans.
    #[error("workload {0} scans, and the map has no order; give load, a, b, c, d or f")]
    Scans(Workload),
    /// Nothing to do, or nobody to do it.
    #[error("{0} must be at least 1")]
    None(&'static str),
    /// A thread found something wrong.
    #[error("{0}")]
    Wrong(String),
    /// The run came to no end.
    #[error("the simulated run ended before its threads: {0:?}")]
    Run(Ended),
}

const NAME: &str = "map";

/// What threads have measured.
#[derive(Default)]
struct Measured {
    begin: Option<u64>,
    end: u64,
    times: Vec<u64>,
    traffic: Traffic,
    fault: Option<String>,
}

/// Runs a plan.
pub fn measure(plan: &Plan) -> Result<Throughput, ThroughputError> {
    let counts = [
        ("hosts", plan.hosts.into()),
        ("threads", plan.threads.into()),
        ("records", plan.records),
        ("operations", plan.operations),
    ];
    if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
        return Err(ThroughputError::None(name));
    }
    if plan.workload == Workload::E {
        return Err(ThroughputError::Scans(plan.workload));
    }
    if plan.coherent {
        measure_on::<true>(plan)
    } else {
        measure_on::<false>(plan)
    }
}

/// Units of 64 KiB that the pool may grow to: generous, for what is not touched costs nothing.
fn units_max(plan: &Plan) -> u64 {
    let records = plan.records + plan.operations;
    64 + u64::from(plan.threads) * 8 + (records * 256).div_ceil(UNIT)
}

fn measure_on<const C: bool>(plan: &Plan) -> Result<Throughput, ThroughputError> {
    let hosts = plan.hosts.min(plan.threads);
    let parameters = Parameters {
        kind: if C { Kind::Coherent } else { Kind::Noncoherent },
        max_units: units_max(plan),
        processes: hosts + 8,
        workers: plan.threads + 2 * hosts + 8,
        entries: 4,
    };
    let settings = Settings {
        shape: Shape {
            coherent: C,
            hosts,
            bytes: pool::bytes(parameters),
            cache_lines: plan.profile.cache_lines(),
            prefetches: false,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: (0..hosts).collect(),
        crashes: Vec::new(),
        steps_max: u64::MAX,
        capacity: u64::MAX,
        profile: Some(plan.profile.clone()),
        traces: false,
    };
    let measured = Rc::new(RefCell::new(Measured::default()));
    let gathering = Gathering::new(plan.threads);
    let prepare = {
        let (plan, measured) = (plan.clone(), measured.clone());
        move |context: Context<C>| note(&measured, prepare(&context, &plan, parameters))
    };
    let body = {
        let (plan, measured) = (plan.clone(), measured.clone());
        move |context: Context<C>| {
            let process = || -> cenote::Result<()> {
                let member = Member::join(&context, !C)?;
                // The first process has prepared.
                for thread in (context.process() - 1..plan.threads).step_by(hosts as usize) {
                    let (plan, measured, gathering) = (plan.clone(), measured.clone(), gathering.clone());
                    member.spawn(&context, move |context, pod| {
                        let done = Worker::attach(&pod, plan.guidelines.replicate).and_then(|worker| {
                            let map = HashMap::open_or_create(Rc::new(worker), NAME, plan.guidelines)?;
                            gathering.arrive(&context);
                            work(&context, &map, &plan, thread, &measured)
                        });
                        note(&measured, done);
                    });
                }
                member.leave(&context);
                Ok(())
            };
            note(&measured, process());
        }
    };
    // With a profile nothing is left to the policy.
    let policy = Box::new(RandomWalk::new(0));
    let outcome = run(
        &settings,
        policy,
        Box::new(prepare),
        Rc::new(body),
        Box::new(|_| {}),
    );
    if let Some(fault) = measured.borrow_mut().fault.take() {
        return Err(ThroughputError::Wrong(fault));
    }
    if outcome.ended != Ended::Well {
        return Err(ThroughputError::Run(outcome.ended));
    }
    Ok(summary(measured.take(), outcome.steps, outcome.digest))
}

fn note(measured: &RefCell<Measured>, done: cenote::Result<()>) {
    if let Err(error) = done {
        measured.borrow_mut().fault.get_or_insert(error.to_string());
    }
}

/// Makes the map, with its records in it unless they are what is measured.
fn prepare<const C: bool>(context: &Context<C>, plan: &Plan, parameters: Parameters) -> cenote::Result<()> {
    pool::format(context, parameters, 4)?;
    let member = Member::join(context, !C)?;
    let worker = Worker::attach(&member.pod, plan.guidelines.replicate);
    let filled = worker.and_then(|worker| fill(worker, plan));
    // Whether or not: else the background thread would never end.
    member.leave(context);
    filled
}

fn fill<const C: bool>(worker: Worker<SimMemory<C>>, plan: &Plan) -> cenote::Result<()> {
    let map = HashMap::open_or_create(Rc::new(worker), NAME, plan.guidelines)?;
    if plan.workload != Workload::Load {
        map.reserve(plan.records)?;
        for record in 0..plan.records {
            map.put_u64(key_of_record(record), record)?;
        }
    }
    Ok(())
}

/// One thread's operations.
fn work<const C: bool>(
    context: &Context<C>,
    map: &HashMap<SimMemory<C>>,
    plan: &Plan,
    thread: u32,
    measured: &RefCell<Measured>,
) -> cenote::Result<()> {
    let (thread, threads) = (u64::from(thread), u64::from(plan.threads));
    let mut spec = Spec {
        seed: plan.seed,
        ..Spec::new(plan.workload, plan.records)
    };
    if plan.workload != Workload::Load {
        // As evenly as possible.
        spec.operations = (plan.operations + threads - 1 - thread) / threads;
    }
    let stream = spec.for_worker(thread, threads).stream();
    let mut times = Vec::new();
    let mut fault = None;
    let (begin, traffic) = (context.now_ps(), context.traffic());
    for operation in stream {
        let key = key_of_record(operation.record);
        let before = context.now_ps();
        let found = match operation.action {
            Action::Read | Action::Scan => map.get_u64(key)?.is_some(),
            Action::Modify => {
                let value = map.get_u64(key)?;
                map.put_u64(key, value.unwrap_or(0) + 1)?;
                value.is_some()
            }
            Action::Update | Action::Insert => {
                map.put_u64(key, operation.record ^ before)?;
                true
            }
        };
        if !found {
            fault.get_or_insert(format!("record {} is not in the map", operation.record));
        }
        times.push(context.now_ps() - before);
    }
    let mut all = measured.borrow_mut();
    all.begin = Some(all.begin.map_or(begin, |first| first.min(begin)));
    all.end = all.end.max(context.now_ps());
    all.times.append(&mut times);
    all.traffic += context.traffic() - traffic;
    all.fault = all.fault.take().or(fault);
    Ok(())
}

fn summary(mut measured: Measured, steps: u64, digest: u64) -> Throughput {
    measured.times.sort_unstable();
    let times = &measured.times;
    let count = times.len().max(1);
    let at = |percent: usize| {
        times
            .get((count * percent).div_ceil(100) - 1)
            .copied()
            .unwrap_or(0) as f64
            / 1e3
    };
    let span_ns = (measured.end - measured.begin.unwrap_or(measured.end)) as f64 / 1e3;
    Throughput {
        operations: times.len() as u64,
        span_ns,
        mops_per_s: times.len() as f64 * 1e3 / span_ns.max(1e-3),
        latency_ns: Latency {
            mean: times.iter().sum::<u64>() as f64 / count as f64 / 1e3,
            p50: at(50),
            p99: at(99),
        },
        traffic: measured.traffic,
        steps,
        digest,
    }
}
