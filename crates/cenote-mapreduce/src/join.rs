//! A job in a pool: its task list, its map, and a thread's part in it.
//!
//! The list has the job's name, the map is `NAME.map`, and if workers shall die, the map of their deaths is
//! `NAME.killed`. Everything that a worker needs to go on is there. It may be killed at any instruction; its successor
//! joins, and goes on.

use cenote::{Backend, Map, Pool, TaskPosition, Tasks};

use crate::error::{Error, Result};
use crate::job::{Data, Job, plan};

/// Opens the task list of a job in a pool, or makes it.
pub fn list_of<M: Backend>(pool: &Pool<M>, name: &str, job: &dyn Job) -> Result<Tasks<M>> {
    Ok(pool.tasks(name, &plan(job))?)
}

/// A job in a pool, as a thread has it open.
pub struct Joined<M: Backend> {
    tasks: Tasks<M>,
    map: Map<M>,
    phases: Vec<u64>,
}

impl<M: Backend> Joined<M> {
    /// Opens a job's list and map, or makes them.
    pub fn new(pool: &Pool<M>, name: &str, job: &dyn Job) -> Result<Self> {
        let tasks = list_of(pool, name, job)?;
        Ok(Self {
            map: pool.map(&format!("{name}.map"))?,
            phases: tasks.phases().map(|tasks| tasks.start).collect(),
            tasks,
        })
    }

    /// The task list.
    pub fn tasks(&self) -> &Tasks<M> {
        &self.tasks
    }
}

impl<M: Backend> Data for Joined<M> {
    fn result(&self, phase: usize, task: u64, read: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let missing = || Error::Result { phase, task };
        let first = self.phases.get(phase).ok_or_else(missing)?;
        let result = self.tasks.result(first + task)?.ok_or_else(missing)?;
        read(&result)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.map.put(key, value)?;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.map.get(key)?.map(|value| value.to_vec()))
    }
}

/// Does a job's tasks in a pool, together with all other workers of the job, until all are done. Returns how many tasks
/// this thread committed first.
///
/// `crashes` is for tests: so many of all the job's workers kill themselves, evenly spaced over the tasks, each with a
/// result that it has not committed. Each of these deaths happens once, whichever worker dies.
pub fn join<M: Backend>(pool: &Pool<M>, name: &str, job: &dyn Job, crashes: u64) -> Result<u64> {
    let joined = Joined::new(pool, name, job)?;
    let killed = match crashes {
        0 => None,
        _ => Some(pool.map(&format!("{name}.killed"))?),
    };
    let mut died = 0;
    joined.tasks.run(|task| {
        let Some(TaskPosition { phase, number: n }) = joined.tasks.position(task) else {
            return Err(Error::Result { phase: 0, task });
        };
        let result = job.run(phase, n, &joined)?;
        if let Some(killed) = &killed {
            die_if_due(&joined.tasks, killed, crashes, &mut died)?;
        }
        Ok(result)
    })
}

/// Kills this process, if so many results are there that the next death is due, and no other worker has died for it.
fn die_if_due<M: Backend>(tasks: &Tasks<M>, killed: &Map<M>, crashes: u64, died: &mut u64) -> Result<()> {
    while *died < crashes {
        if tasks.committed() < (*died + 1) * tasks.len() / (crashes + 1) {
            return Ok(());
        }
        *died += 1;
        if killed.insert(&died.to_le_bytes(), b"")? {
            // What no handler sees, and nothing of this process outlives.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
    Ok(())
}
