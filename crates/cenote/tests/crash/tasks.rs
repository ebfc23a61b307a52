//! Work on a task list whose workers are killed: what was acknowledged is there, each task has one result, a survivor
//! and another worker finish the rest, and nothing leaks.

use std::path::Path;

use cenote::memory::Mapped;
use cenote::{Committed, NextTask, Plan, Pool, Tasks};

use super::{ACKNOWLEDGED, BEGUN, Case, Journal, Outcome, options, text};

/// At which passing of a point the worker is killed.
pub const PASSINGS: [u64; 2] = [1, 23];
const FIRST: u64 = 90;
const SECOND: u64 = 30;
/// Marks tasks in the journal.
const TASK: u64 = 1 << 42;

fn open<M: Mapped>(pool: &Pool<M>) -> Result<Tasks<M>, String> {
    let plan = Plan {
        phases: vec![FIRST, SECOND],
        chunk: 4,
    };
    pool.tasks("list", &plan).map_err(text)
}

/// A task's result: some of any size, and those of the second phase made from those of the first.
fn result_of<M: Mapped>(tasks: &Tasks<M>, task: u64) -> Result<Vec<u8>, String> {
    if task < FIRST {
        let len = [3, 60, 500, 9_000, 70_000][(task % 5) as usize];
        return Ok(task.to_le_bytes().iter().copied().cycle().take(len).collect());
    }
    let mut sum = task;
    for earlier in 0..FIRST {
        let result = tasks.result(earlier).map_err(text)?;
        let result = result.ok_or_else(|| format!("task {task} began before task {earlier} was done"))?;
        sum += result.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
    Ok(sum.to_le_bytes().to_vec())
}

/// A worker's part, until it is killed or all is done.
pub fn work<M: Mapped>(path: &Path, journal: &Path) -> Outcome {
    let mut journal = Journal::open(journal)?;
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    let tasks = open(&pool)?;
    loop {
        match tasks.take(5).map_err(text)? {
            NextTask::Task(task) => {
                let result = result_of(&tasks, task)?;
                journal.write(BEGUN, task | TASK, 1)?;
                if tasks.commit(task, &result).map_err(text)? == Committed::First {
                    journal.write(ACKNOWLEDGED, task | TASK, 1)?;
                }
                // The same once more, so that there is a second.
                if task % 7 == 0 {
                    tasks.commit(task, b"another").map_err(text)?;
                }
            }
            NextTask::Wait => std::thread::yield_now(),
            NextTask::Done => return Ok(()),
        }
    }
}

/// The survivor begins, so that there is a worker to help; a worker is killed; others finish. Returns whether it was
/// killed.
pub fn kill_and_finish<M: Mapped>(
    case: &Case<'_, M>,
    point: &str,
    passing: u64,
    log: &Path,
) -> Result<bool, String> {
    let tasks = open(case.pool)?;
    if !matches!(tasks.next().map_err(text)?, NextTask::Task(0)) {
        return Err("the first task is not the first".to_owned());
    }
    if point == "tasks.taken-over" {
        case.victim("tasks", "tasks.claimed", 1, log)?;
    }
    let killed = case.victim("tasks", point, passing, log)?;
    // A new worker, before anybody has recovered the dead one; then the survivor.
    case.files.bystander::<M>("tasks", log)?;
    while let NextTask::Task(task) = tasks.take(0).map_err(text)? {
        tasks.commit(task, &result_of(&tasks, task)?).map_err(text)?;
    }
    if !tasks.is_done().is_ok_and(|done| done) || tasks.committed() != FIRST + SECOND {
        return Err(format!("{} tasks are done", tasks.committed()));
    }
    for task in 0..FIRST + SECOND {
        let found = tasks.result(task).map_err(text)?.map(|result| result.to_vec());
        if found != Some(result_of(&tasks, task)?) {
            return Err(format!("task {task} has another result"));
        }
    }
    case.pool.recover().map_err(text)?;
    case.check_memory()?;
    Ok(killed)
}
