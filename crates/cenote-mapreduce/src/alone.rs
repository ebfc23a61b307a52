//! A job without a pool: results and map in memory of this process. The reference for everything else, and what threads
//! of one process do where no worker is killed.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::error::{Error, Result};
use crate::job::{Data, Job, places};

/// Locks among which the map's keys are divided.
const SHARDS: usize = 64;

type Shard = RwLock<HashMap<Vec<u8>, Vec<u8>>>;

/// Results and map of a job in memory of this process. May be shared by threads.
pub struct Alone {
    results: Vec<Vec<OnceLock<Vec<u8>>>>,
    map: Vec<Shard>,
}

impl Alone {
    /// For a job, with nothing done.
    pub fn new(job: &dyn Job) -> Self {
        let phase = |tasks: u64| (0..tasks).map(|_| OnceLock::new()).collect();
        Self {
            results: job.phases().into_iter().map(phase).collect(),
            map: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    /// Does a task.
    pub fn run(&self, job: &dyn Job, phase: usize, task: u64) -> Result<()> {
        let result = job.run(phase, task, self)?;
        let place = self.results.get(phase).and_then(|phase| phase.get(task as usize));
        // A second result of a task is the same.
        let _ = place.ok_or(Error::Result { phase, task })?.set(result);
        Ok(())
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        &self.map[xxhash_rust::xxh3::xxh3_64(key) as usize % SHARDS]
    }
}

impl Data for Alone {
    fn result(&self, phase: usize, task: u64, read: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let place = self.results.get(phase).and_then(|phase| phase.get(task as usize));
        read(
            place
                .and_then(OnceLock::get)
                .ok_or(Error::Result { phase, task })?,
        )
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut shard = self.shard(key).write().unwrap_or_else(PoisonError::into_inner);
        shard.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let shard = self.shard(key).read().unwrap_or_else(PoisonError::into_inner);
        Ok(shard.get(key).cloned())
    }
}

/// Does a job's tasks one after the other, and writes its output.
pub fn alone(job: &dyn Job, output: &mut dyn Write) -> Result<()> {
    let data = Alone::new(job);
    for (phase, task) in places(&job.phases()) {
        data.run(job, phase, task)?;
    }
    job.finish(&data, output)
}
