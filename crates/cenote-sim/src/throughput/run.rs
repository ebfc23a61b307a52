//! A plan on the simulated machine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::index::baseline::WordMap;
use cenote::pod::Worker;
use cenote::pod::format::geometry::{FRAME, Parameters};
use cenote::pod::format::superblock::MemoryKind;
use cenote_ycsb::trace::{self, Synthetic, synthetic};
use cenote_ycsb::{Action, Operation, Spec, Workload, key_of_record};

use super::measured::Measured;
use super::parts::Parts;
use super::{Outcome, Plan, ThroughputError};
use crate::exec::{Context, Ended, Settings, SimMemory, run};
use crate::policy::RandomWalk;
use crate::subjects::gathering::Gathering;
use crate::subjects::pool::{self, Member};

/// What all threads of a run share.
struct Shared<const C: bool, W> {
    plan: Plan,
    parts: Parts<C, W>,
    /// Clients that have not ended.
    working: Cell<u32>,
    measured: RefCell<Vec<Measured>>,
    fault: RefCell<Option<String>>,
    /// Where they wait before each workload, and before they leave: a thread that leaves orphans its retired list, and
    /// another thread would adopt it within a measured operation.
    gatherings: Vec<Gathering>,
}

impl<const C: bool, W: WordMap<SimMemory<C>>> Shared<C, W> {
    /// Whether no client is left to serve.
    fn is_over(&self) -> bool {
        self.working.get() == 0 || self.fault.borrow().is_some()
    }

    /// One client's workloads.
    fn work(
        &self,
        context: &Context<C>,
        worker: Rc<Worker<SimMemory<C>>>,
        client: u64,
    ) -> cenote::Result<()> {
        let done = (self.parts.open)(&self.plan, worker).and_then(|map| {
            (0..self.plan.workloads.len()).try_for_each(|n| {
                self.gatherings[n].arrive(context);
                work(context, &map, self, n, client)
            })?;
            self.gatherings[self.plan.workloads.len()].arrive(context);
            Ok(())
        });
        self.working.set(self.working.get() - 1);
        done
    }

    fn note(&self, done: cenote::Result<()>) {
        if let Err(error) = done {
            self.fault.borrow_mut().get_or_insert(error.to_string());
        }
    }
}

/// Runs a plan on a map of this kind.
pub fn measure<const C: bool, W: WordMap<SimMemory<C>> + 'static>(
    plan: &Plan,
    parts: Parts<C, W>,
) -> Result<Outcome, ThroughputError> {
    let hosts = plan.hosts.min(plan.threads);
    let threads = plan.servers() + plan.clients();
    let parameters = Parameters {
        kind: if C {
            MemoryKind::Coherent
        } else {
            MemoryKind::Noncoherent
        },
        max_frames: frames_max(plan),
        processes: hosts + 8,
        workers: threads + 2 * hosts + 8,
        entries: 4 + plan.servers(),
        hosts,
    };
    let settings = Settings::timed(
        &plan.profile,
        C,
        hosts,
        threads.div_ceil(hosts),
        pool::bytes(parameters),
    );
    let shared = Rc::new(Shared {
        measured: RefCell::new(plan.workloads.iter().map(|_| Measured::default()).collect()),
        fault: RefCell::default(),
        gatherings: (0..=plan.workloads.len())
            .map(|_| Gathering::new(plan.clients()))
            .collect(),
        working: Cell::new(plan.clients()),
        plan: plan.clone(),
        parts,
    });
    let prepare = {
        let shared = shared.clone();
        move |context: Context<C>| shared.note(prepare(&context, &shared.plan, parameters, &shared.parts))
    };
    let body = {
        let shared = shared.clone();
        move |context: Context<C>| shared.note(process(&context, &shared, hosts))
    };
    let audit = {
        let shared = shared.clone();
        move |context: Context<C>| {
            for (measured, n) in shared.measured.borrow_mut().iter_mut().zip(0..) {
                let profiled = context.profiled(n, measured.operations());
                measured.add_profile(profiled.unwrap_or_default());
            }
        }
    };
    let outcome = run(
        &settings,
        // With a profile nothing is left to the policy.
        Box::new(RandomWalk::new(0)),
        Box::new(prepare),
        Rc::new(body),
        Box::new(audit),
    );
    if let Some(fault) = shared.fault.take() {
        return Err(ThroughputError::Wrong(fault));
    }
    if outcome.ended != Ended::Well {
        return Err(ThroughputError::Run(outcome.ended));
    }
    let measured = shared.measured.take();
    Ok(Outcome {
        workloads: measured.into_iter().map(Measured::summary).collect(),
        steps: outcome.steps,
        digest: outcome.digest,
    })
}

/// Frames that the pool may grow to: generous, for what is not touched costs nothing.
fn frames_max(plan: &Plan) -> u64 {
    let records = plan.records + plan.operations * plan.workloads.len() as u64;
    64 + u64::from(plan.threads) * 32 + (records * 512).div_ceil(FRAME)
}

/// Makes the pool and the map.
fn prepare<const C: bool, W>(
    context: &Context<C>,
    plan: &Plan,
    parameters: Parameters,
    parts: &Parts<C, W>,
) -> cenote::Result<()> {
    if plan.profiles_regions {
        context.profile_regions();
    }
    pool::format(context, parameters, 4)?;
    let member = Member::join(context, !C)?;
    let worker = Worker::attach(&member.pod, plan.replicates_epoch);
    let prepared = worker.and_then(|worker| (parts.prepare)(plan, Rc::new(worker)));
    // In any case: otherwise the background thread would never end.
    member.leave(context);
    prepared
}

/// One host's process, and its threads.
fn process<const C: bool, W: WordMap<SimMemory<C>> + 'static>(
    context: &Context<C>,
    shared: &Rc<Shared<C, W>>,
    hosts: u32,
) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
    let (servers, clients) = (shared.plan.servers(), shared.plan.clients());
    // The first process has prepared.
    for thread in (context.process() - 1..servers + clients).step_by(hosts as usize) {
        let shared = shared.clone();
        member.spawn(context, move |context, pod| {
            let plan = &shared.plan;
            let done = Worker::attach(&pod, plan.replicates_epoch).and_then(|worker| {
                let worker = Rc::new(worker);
                match thread.checked_sub(servers) {
                    None => (shared.parts.serve)(plan, worker, &|| shared.is_over()),
                    Some(client) => shared.work(&context, worker, client.into()),
                }
            });
            shared.note(done);
        });
    }
    member.leave(context);
    Ok(())
}

/// One thread's operations of the `n`th workload.
fn work<const C: bool, W: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &W,
    shared: &Shared<C, W>,
    n: usize,
    thread: u64,
) -> cenote::Result<()> {
    let (plan, threads) = (&shared.plan, u64::from(shared.plan.clients()));
    let workload = plan.workloads[n];
    if let Some(trace) = &plan.trace {
        return replay(context, map, shared, trace.clone().for_worker(thread, threads));
    }
    let mut spec = Spec {
        seed: plan.seed + n as u64,
        ranks: plan.ranks,
        ..Spec::new(workload, plan.records)
    };
    if workload != Workload::Load {
        // As evenly as possible.
        spec.operations = (plan.operations + threads - 1 - thread) / threads;
    }
    let stream = spec.for_worker(thread, threads).stream();
    let mut times = Vec::new();
    let (begin, traffic, spent) = (context.now_ps(), context.traffic(), context.spent());
    context.measure(Some(n as u32));
    for operation in stream {
        let before = context.now_ps();
        if !one(map, operation, before)? {
            let text = format!("record {} is not in the map", operation.record);
            shared.fault.borrow_mut().get_or_insert(text);
        }
        times.push(context.now_ps() - before);
    }
    context.measure(None);
    let sent = (context.traffic() - traffic, context.spent() - spent);
    shared.measured.borrow_mut()[n].add(begin, context.now_ps(), times, sent);
    Ok(())
}

/// One thread's part of a trace. A key that is not found is a miss, as in a cache.
fn replay<const C: bool, W: WordMap<SimMemory<C>>>(
    context: &Context<C>,
    map: &W,
    shared: &Shared<C, W>,
    trace: Synthetic,
) -> cenote::Result<()> {
    let steps = match synthetic(&trace) {
        Ok(steps) => steps,
        Err(error) => {
            shared.fault.borrow_mut().get_or_insert(error.to_string());
            return Ok(());
        }
    };
    let mut times = Vec::new();
    let (begin, traffic, spent) = (context.now_ps(), context.traffic(), context.spent());
    for step in steps {
        let before = context.now_ps();
        let key = key_of_record(step.key);
        match step.action {
            trace::Action::Read => drop(map.get_u64(key)?),
            trace::Action::Write => drop(map.put_u64(key, before)?),
            trace::Action::Insert => drop(map.insert_u64(key, before)?),
            trace::Action::Delete => drop(map.remove_u64(key)?),
        }
        times.push(context.now_ps() - before);
    }
    let sent = (context.traffic() - traffic, context.spent() - spent);
    shared.measured.borrow_mut()[0].add(begin, context.now_ps(), times, sent);
    Ok(())
}

/// One operation; whether it found what it looked for.
fn one<const C: bool, W: WordMap<SimMemory<C>>>(
    map: &W,
    operation: Operation,
    value: u64,
) -> cenote::Result<bool> {
    let key = key_of_record(operation.record);
    Ok(match operation.action {
        Action::Read => map.get_u64(key)?.is_some(),
        Action::Scan => {
            let mut seen = 0;
            map.scan_u64(key, |_, _| {
                seen += 1;
                seen < operation.length
            })?;
            seen > 0
        }
        Action::Modify => {
            let found = map.get_u64(key)?;
            map.put_u64(key, found.unwrap_or(0) + 1)?;
            found.is_some()
        }
        Action::Update | Action::Insert => {
            map.put_u64(key, operation.record ^ value)?;
            true
        }
    })
}
