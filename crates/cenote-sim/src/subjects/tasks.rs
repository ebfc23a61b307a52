//! A task list: threads take tasks, lose track of some, commit the others, now and then twice; processes die at any
//! step. Each task must have one result, the one that was acknowledged first. A phase must not begin before the last
//! one is done. The surviving threads must finish everything.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cenote::memory::Memory;
use cenote::pod::format::geometry::{FRAME, Parameters};
use cenote::pod::tasks::{Committed, NextTask, Plan, TaskList, TaskPosition};
use cenote::pod::{Pod, Worker};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};

const NAME: &str = "list";
/// What results are: objects of several classes, and an extent.
const SIZES: [u64; 5] = [8, 40, 120, 600, FRAME / 2];
/// A thread that is told so often to wait, while nothing changes, waits for the dead only.
const WAITS_MAX: u32 = 5_000;

/// What the subject's threads share.
struct Shared {
    load: Load,
    log: Log,
    /// What was acknowledged as a task's first result.
    firsts: RefCell<BTreeMap<u64, u64>>,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        firsts: RefCell::default(),
    };
    let parts = Parts {
        prepare: |context, _: &Shared| {
            // The first process makes the list.
            Member::join(context, !C)?.leave(context);
            Ok(())
        },
        work,
        audit,
    };
    assemble(load, parameters, 4, log, shared, parts)
}

/// The list: a phase that makes results, one that reads them all, one that forgets them.
fn plan(load: Load) -> Plan {
    let tasks = u64::from(load.hosts * load.threads * load.operations).clamp(4, 48);
    Plan {
        phases: vec![tasks / 2, tasks / 4, tasks / 2],
        chunk: 1 + (load.seed % 5) as u32,
    }
}

/// After how many polls a worker takes a living worker's chunk; never, for every other seed.
fn polls_before_takeover(load: Load) -> u64 {
    match load.seed % 2 {
        0 => u64::MAX,
        _ => load.seed / 2 % 4,
    }
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let mut random = random(shared.load.seed, context.thread());
    // A worker leaves now and then, and comes again in whatever place is free.
    while !visit(context, pod, shared, &mut random)? {}
    Ok(())
}

/// A worker's visit; whether there is nothing left to do.
fn visit<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
    random: &mut Xoshiro256PlusPlus,
) -> cenote::Result<bool> {
    let load = shared.load;
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let list = TaskList::open_or_create(worker.clone(), NAME, &plan(load))?;
    let (mut waits, mut done) = (0, 0);
    loop {
        match list.take(polls_before_takeover(load))? {
            NextTask::Task(task) => {
                waits = 0;
                if below(random, 8) > 0 {
                    do_task(context, &list, shared, task, below(random, SIZES.len() as u64))?;
                }
                if below(random, 4) == 0 {
                    return Ok(false);
                }
            }
            NextTask::Wait => {
                let committed = list.committed();
                waits = if committed == done { waits + 1 } else { 0 };
                done = committed;
                if waits == WAITS_MAX {
                    shared.log.fault(format!(
                        "{done} of {} tasks are done, and who is left waits",
                        list.len()
                    ));
                    return Ok(true);
                }
                worker.mem().relax();
            }
            NextTask::Done => return Ok(true),
        }
    }
}

/// Does a task's work and commits its result, and then another.
fn do_task<const C: bool>(
    context: &Context<C>,
    list: &TaskList<SimMemory<C>>,
    shared: &Shared,
    task: u64,
    size: u64,
) -> cenote::Result<()> {
    let log = &shared.log;
    let Some(TaskPosition { phase, number: n }) = list.position(task) else {
        log.fault(format!("task {task} is in no phase"));
        return Ok(());
    };
    let ranges: Vec<_> = list.phases().collect();
    for earlier in ranges[..phase].iter().flat_map(Clone::clone) {
        if !list.has_result(earlier)? {
            log.fault(format!("task {task} begins and task {earlier} has no result"));
        }
    }
    match phase {
        1 => {
            for earlier in ranges[0].clone() {
                // None once it is forgotten: then another thread has done this task.
                if let Some(result) = list.result(earlier)? {
                    check(log, earlier, &result);
                }
            }
        }
        2 => drop(list.forget(n)),
        _ => {}
    }
    for attempt in 0..1 + task % 2 {
        let value = task << 32 | u64::from(context.thread()) << 8 | attempt;
        let bytes: Vec<u8> = value.to_le_bytes().repeat((SIZES[size as usize] / 8) as usize);
        match list.commit(task, &bytes) {
            Ok(Committed::First) => {
                if let Some(before) = shared.firsts.borrow_mut().insert(task, value) {
                    log.fault(format!(
                        "task {task} has two first results, {before:#x} and {value:#x}"
                    ));
                }
            }
            Ok(Committed::Second) => {}
            // Another try needs less room.
            Err(error) if log.is_full(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A result is a word that names its task, over and over. The word.
fn check(log: &Log, task: u64, result: &[u8]) -> u64 {
    let mut word = [0; 8];
    let first = result.first_chunk::<8>().copied().unwrap_or_default();
    word.copy_from_slice(&first);
    let value = u64::from_le_bytes(word);
    let is_whole = !result.is_empty() && result.chunks(8).all(|chunk| chunk == first);
    if !is_whole || value >> 32 != task {
        log.fault(format!(
            "task {task} has a result of {} bytes that nobody wrote: {value:#x}",
            result.len()
        ));
    }
    value
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let (load, log) = (shared.load, &shared.log);
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let list = TaskList::open_or_create(worker.clone(), NAME, &plan(load))?;
        // If no thread survived, tasks are left.
        while let NextTask::Task(task) = list.take(0)? {
            do_task(context, &list, shared, task, 0)?;
        }
        if !list.is_done()? || list.committed() != list.len() {
            log.fault(format!(
                "the list of {} tasks counts {} results",
                list.len(),
                list.committed()
            ));
        }
        for task in 0..list.len() {
            let first = shared.firsts.borrow().get(&task).copied();
            match list.result(task)? {
                Some(result) => {
                    let value = check(log, task, &result);
                    if first.is_some_and(|first| first != value) {
                        log.fault(format!(
                            "task {task} has {value:#x}, and {first:x?} was its first result"
                        ));
                    }
                }
                // Forgotten by the last phase, or by a thread that died before it committed its task.
                None if task < end_of_first(&list) => {}
                None => log.fault(format!("task {task} is done and has no result")),
            }
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}

/// The end of the first phase.
fn end_of_first<const C: bool>(list: &TaskList<SimMemory<C>>) -> u64 {
    list.phases().next().map_or(0, |phase| phase.end)
}
