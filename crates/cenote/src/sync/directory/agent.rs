//! The agent of a process: a thread that gives directory locks up when another process asks and no thread of this one comes by.

use std::sync::Arc;
use std::time::Duration;

use super::cached::Cohorts;
use super::cohort::Cohort;
use super::drive::Effort;
use crate::memory::{Memory, SLEEPS_BY_MAX};
use crate::pod::Worker;
use crate::pod::instance::event_count;

/// The time between two polls of the locks of a process whose notifications a host of another kernel sends: they wake nobody here.
const BETWEEN_POLLS: Duration = Duration::from_millis(1);
/// The same within one kernel, where a notification may be lost with who was about to send it.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// The time after which it finds a lock that was opened meanwhile.
const UNUSED: Duration = Duration::from_millis(5);

/// An agent's view of its process.
pub struct Agent {
    cohorts: Arc<Cohorts>,
}

impl Agent {
    /// The agent of a process, of which this is a thread.
    pub fn new<M: Memory>(worker: &Worker<M>) -> Self {
        Self {
            cohorts: Cohorts::of(worker),
        }
    }

    /// Does what is due for all locks that the process has open. Damage is reported to the threads that use them.
    ///
    /// Cost: a round trip for each lock that the process has or waits for.
    pub fn tick<M: Memory>(&self, worker: &Worker<M>) {
        for cohort in self.cohorts.all() {
            let _ = cohort.drive(worker, Effort::Search);
        }
    }

    /// [`Agent::tick`], then sleeps until another process asks for a lock, or for some milliseconds.
    pub fn tick_and_sleep<M: Memory>(&self, worker: &Worker<M>) {
        let mem = worker.mem();
        let all = self.cohorts.all();
        let prepared: Vec<(u64, u32)> = all
            .iter()
            .filter_map(|cohort| Some(cohort.layout.event_count(node_of(cohort)?)))
            .take(SLEEPS_BY_MAX)
            .map(|event_count| event_count::prepare_wait(mem, event_count))
            .collect();
        drop(all);
        self.tick(worker);
        let longest = match worker.pod().is_in_pod() || prepared.len() == SLEEPS_BY_MAX {
            true => BETWEEN_POLLS,
            false => LONGEST_SLEEP,
        };
        match prepared.is_empty() {
            true => mem.rest(UNUSED),
            false => mem.kernel().wait(&[], &prepared, longest),
        }
    }
}

fn node_of(cohort: &Cohort) -> Option<super::node::Node> {
    cohort.local().node
}
