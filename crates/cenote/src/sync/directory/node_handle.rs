//! A directory lock that processes cache, as one thread has it open.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::asked::{self, Asked};
use super::cohort::{Cohort, Step};
use super::driver::Effort;
use super::layout::{Layout, Region};
use super::queue::Permission;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::instance::event_count;
use crate::sync::wait::{Next, Timeout, Waiting};

/// After so many releases by threads of a process one checks whether another node asks for the lock.
const RELEASES_PER_POLL: u32 = 64;
/// The longest sleep between two polls of the entry: a notification may be lost with who was about to send it.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// The directory locks that a process has open, by their [bits](asked::bit).
pub struct Cohorts(Mutex<[Vec<Weak<Cohort>>; asked::BITS]>);

impl Cohorts {
    /// Those of a process.
    pub fn of<M: Memory>(worker: &Worker<M>) -> Arc<Self> {
        // The superblock is no lock.
        worker
            .pod()
            .extension(0, || Self(Mutex::new([const { Vec::new() }; asked::BITS])))
    }

    /// Those that are open and have one of these bits.
    pub fn asked(&self, asked: Asked) -> Vec<Arc<Cohort>> {
        if asked.is_empty() {
            return Vec::new();
        }
        let mut all = self.all();
        asked.bits().flat_map(|bit| open(&mut all[bit])).collect()
    }

    /// At least `most` of those that are open, or all of them, from a bit on, which is counted on.
    pub fn some(&self, from: &mut usize, most: usize) -> Vec<Arc<Cohort>> {
        let mut all = self.all();
        let mut found = Vec::new();
        for _ in 0..asked::BITS {
            found.append(&mut open(&mut all[*from]));
            *from = (*from + 1) % asked::BITS;
            if found.len() >= most {
                break;
            }
        }
        found
    }

    fn all(&self) -> MutexGuard<'_, [Vec<Weak<Cohort>>; asked::BITS]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, cohort: &Arc<Cohort>) {
        let same = &mut self.all()[asked::bit(cohort.layout)];
        if !same
            .iter()
            .any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(cohort)))
        {
            same.push(Arc::downgrade(cohort));
        }
    }
}

/// Those of a list that are still open; the list forgets the others.
fn open(cohorts: &mut Vec<Weak<Cohort>>) -> Vec<Arc<Cohort>> {
    cohorts.retain(|cohort| cohort.strong_count() > 0);
    cohorts.iter().filter_map(Weak::upgrade).collect()
}

/// A directory lock that processes cache, as one thread has it open.
pub struct Cached<M: Memory> {
    pub(super) worker: Rc<Worker<M>>,
    pub(super) cohort: Arc<Cohort>,
    /// Keeps the list in which the process's downconvert thread finds the cohort.
    _cohorts: Arc<Cohorts>,
}

impl<M: Memory> Cached<M> {
    /// Opens a lock.
    pub(super) fn new(worker: Rc<Worker<M>>, layout: Layout, regions: &[Region]) -> Self {
        let cohort = worker
            .pod()
            .extension(layout.offset(), || Cohort::new(layout, regions.to_vec()));
        cohort.local().handles += 1;
        let cohorts = Cohorts::of(&worker);
        cohorts.add(&cohort);
        Self {
            worker,
            cohort,
            _cohorts: cohorts,
        }
    }

    /// Gets the lock, however long that takes, and returns who died writing, or 0.
    #[inline]
    pub(super) fn acquire_for_ever(&self, wants: Permission) -> Result<u64> {
        loop {
            if let Some(former) = self.acquire(wants, Timeout::Forever)? {
                return Ok(former);
            }
        }
    }

    /// Gets the lock, and returns who died writing, or 0; `None` if the timeout ended first.
    #[inline]
    pub(super) fn acquire(&self, wants: Permission, timeout: Timeout) -> Result<Option<u64>> {
        if self.worker.is_forked() {
            return Err(Error::Forked);
        }
        let me = self.worker.identity();
        {
            let mut local = self.cohort.local();
            if local.is_used_by(me) {
                return Err(Error::Deadlock);
            }
            if local.is_open(wants) {
                local.enter(me, wants);
                return Ok(Some(local.former));
            }
            local.wait(me, wants);
        }
        self.acquire_slowly(timeout)
    }

    #[cold]
    fn acquire_slowly(&self, timeout: Timeout) -> Result<Option<u64>> {
        let (worker, me) = (&*self.worker, self.worker.identity());
        let mut waiting = Waiting::new(timeout);
        let mut effort = Effort::Poll;
        let outcome = loop {
            if let Err(error) = self.cohort.drive(worker, effort) {
                break Err(error);
            }
            {
                let mut local = self.cohort.local();
                if local.enter_in_turn(me) {
                    break Ok(Some(local.former));
                }
            }
            effort = match waiting.lose(worker.mem()) {
                // A caller that does not wait looks for the dead once all the same.
                Next::GiveUp if effort == Effort::Search => break Ok(None),
                Next::GiveUp | Next::Question => Effort::Search,
                Next::Look => Effort::Poll,
                Next::Sleep(longest) => {
                    self.sleep(longest.min(LONGEST_SLEEP));
                    Effort::Search
                }
            };
        };
        if !matches!(outcome, Ok(Some(_))) {
            self.cohort.local().withdraw(me);
        }
        // The next one may share the lock, or it is this one's node's turn to give the lock up.
        self.cohort.wake(worker);
        outcome
    }

    /// Sleeps until something may have changed.
    fn sleep(&self, longest: Duration) {
        let (worker, mem) = (&*self.worker, self.worker.mem());
        let Some(node) = self.cohort.local().node else {
            return mem.rest(longest.min(crate::sync::wait::LONGEST_REST));
        };
        let layout = self.cohort.layout;
        let prepared = event_count::prepare_wait(mem, layout.event_count(node));
        let known = {
            let local = self.cohort.local();
            let is_due = local.driver == 0 && local.next_step(false) != Step::Nothing;
            (!is_due && !local.is_served_next(worker.identity())).then_some(local.number)
        };
        // PAIRS WITH: sync::directory::transition::change
        if known == Some(layout.number().load(mem)) {
            mem.kernel().wait(&[], &[prepared], longest);
        } else if !mutant::is(Mutant::DirectoryDriverHeldUp) {
            // Another thread of the process drives, and has yet to learn of a change: it may need this one's processor
            // for that.
            mem.relax();
        }
    }

    /// A thread gives the lock up, which it has.
    #[inline]
    pub(super) fn release(&self, former: Option<u64>) {
        if self.worker.is_forked() {
            return;
        }
        // The next thread of the process sees what this one has written.
        self.worker.mem().tells_own_process();
        let is_quiet = {
            let mut local = self.cohort.local();
            local.leave(self.worker.identity());
            if let Some(former) = former {
                local.former = former;
            }
            local.releases = local.releases.wrapping_add(1);
            let polls =
                local.releases.is_multiple_of(RELEASES_PER_POLL) && !mutant::is(Mutant::DirectoryAskedUnseen);
            !polls && local.next_step(false) == Step::Nothing && !local.is_wanted()
        };
        if !is_quiet {
            self.release_slowly();
        }
    }

    #[cold]
    fn release_slowly(&self) {
        // Damage is reported to who asks for the lock next.
        let _ = self.cohort.drive(&self.worker, Effort::Poll);
        self.cohort.wake(&self.worker);
    }
}

impl<M: Memory> Drop for Cached<M> {
    fn drop(&mut self) {
        if !self.worker.is_forked() {
            // Damage is reported to who asks for the lock next.
            let _ = self.cohort.close(&self.worker);
        }
    }
}
