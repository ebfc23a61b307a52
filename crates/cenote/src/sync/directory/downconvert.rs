//! The downconvert thread of a process (as in distributed lock managers): it gives directory locks up when another
//! process asks and no thread of this one comes by.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::asked;
use super::cohort::Cohort;
use super::driver::Effort;
use super::node_handle::Cohorts;
use crate::memory::Memory;
use crate::pod::Worker;

/// The longest sleep of the downconvert thread of a process whose notifications a host of another kernel sends: they
/// wake nobody here.
const BETWEEN_POLLS: Duration = Duration::from_millis(1);
/// The time between two scans of the locks, and so the longest sleep: a notification may be lost with the thread that
/// was about to send it, and a thread of this process may have died alone.
const BETWEEN_SCANS: Duration = Duration::from_millis(20);
/// About how many locks are polled in one scan; the next scan goes on from there.
const LOCKS_PER_SCAN: usize = 1024;

/// What a downconvert thread knows of its process.
pub struct Downconverter {
    cohorts: Arc<Cohorts>,
    scanned: Instant,
    /// Where the next scan begins.
    next: usize,
}

impl Downconverter {
    /// That of the process of which this is a thread.
    pub fn new<M: Memory>(worker: &Worker<M>) -> Self {
        Self {
            cohorts: Cohorts::of(worker),
            scanned: Instant::now(),
            next: 0,
        }
    }

    /// Does what is due for the locks that other processes ask for; if there are none, sleeps until one is asked for,
    /// or for some milliseconds. Damage is reported to the threads that use a lock.
    ///
    /// Cost: six round trips, and those of [`Cohort::drive`] for each lock that is asked for; now and then a round trip
    /// for each lock that the process has or waits for.
    pub fn tick_and_sleep<M: Memory>(&mut self, worker: &Worker<M>) {
        let prepared = asked::prepare_wait(worker);
        if self.answer(worker) {
            return;
        }
        if self.scanned.elapsed() >= BETWEEN_SCANS {
            self.scan(worker);
            self.scanned = Instant::now();
        }
        let longest = match worker.pod().is_in_pod() {
            true => BETWEEN_POLLS,
            false => BETWEEN_SCANS,
        };
        worker.mem().kernel().wait(&[], &[prepared], longest);
    }

    /// Does what is due for the next locks that the process has open, whether or not it is asked for them.
    ///
    /// Cost: a round trip for each lock that the process has or waits for.
    pub fn scan<M: Memory>(&mut self, worker: &Worker<M>) {
        drive(worker, &self.cohorts.some(&mut self.next, LOCKS_PER_SCAN));
    }

    /// Does what is due for the locks that other processes ask for. Returns whether there are any.
    ///
    /// Cost: as [`Downconverter::tick_and_sleep`], without the scan.
    pub fn answer<M: Memory>(&self, worker: &Worker<M>) -> bool {
        let asked = asked::take(worker);
        drive(worker, &self.cohorts.asked(asked));
        !asked.is_empty()
    }
}

fn drive<M: Memory>(worker: &Worker<M>, cohorts: &[Arc<Cohort>]) {
    for cohort in cohorts {
        let _ = cohort.drive(worker, Effort::Search);
    }
}
