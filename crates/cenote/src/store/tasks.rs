//! Task lists of a pool: see [`TaskList`] for the protocol. This file has the parts that wait by the clock.

use std::ops::Deref;
use std::time::Duration;

use super::pool::Pool;
use crate::error::{Error, Result};
use crate::memory::{Coherent, Memory};
use crate::pod::tasks::{NextTask, Plan, TaskList};

/// The time between two polls of a worker that has found nothing to do.
const POLL: Duration = Duration::from_millis(1);
/// The default time without a change after which a living worker's chunk is taken over.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A named task list, as one thread has it open. See [`TaskList`] for what it can do.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Options, Plan, Pool};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// // Eight squares, and then their sum. Any number of threads and processes may do this at the same time.
/// let tasks = pool.tasks("squares", &Plan::phases(vec![8, 1]))?;
/// tasks.run(|task| {
///     let sum = match task {
///         0..8 => task * task,
///         _ => {
///             let mut sum = 0;
///             for earlier in 0..8 {
///                 let square = tasks.result(earlier)?.unwrap();
///                 sum += u64::from_le_bytes(square[..].try_into().unwrap());
///             }
///             sum
///         }
///     };
///     Ok::<_, cenote::Error>(sum.to_le_bytes().to_vec())
/// })?;
/// assert_eq!(tasks.result(8)?.as_deref(), Some(&140u64.to_le_bytes()[..]));
/// # Ok(())
/// # }
/// ```
pub struct Tasks<M: Memory = Coherent> {
    list: TaskList<M>,
    pool: Pool<M>,
    timeout: u64,
}

impl<M: Memory> Pool<M> {
    /// The task list of a name, created by this plan if there is none. The handle belongs to this thread; each thread
    /// opens its own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::InvalidOption`](crate::Error::InvalidOption), [`Error::OtherPlan`](crate::Error::OtherPlan).
    pub fn tasks(&self, name: &str, plan: &Plan) -> Result<Tasks<M>> {
        self.with(TaskList::open_or_create(self.worker()?, name, plan)?)
    }

    /// The task list of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_tasks(&self, name: &str) -> Result<Tasks<M>> {
        self.with(TaskList::open(self.worker()?, name)?)
    }

    fn with(&self, list: TaskList<M>) -> Result<Tasks<M>> {
        Ok(Tasks {
            list,
            pool: self.clone(),
            timeout: polls(TIMEOUT),
        })
    }
}

/// The number of polls in a time.
fn polls(time: Duration) -> u64 {
    let polls = time.as_millis() / POLL.as_millis();
    u64::try_from(polls).unwrap_or(u64::MAX)
}

impl<M: Memory> Tasks<M> {
    /// The pool that it is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// Sets for how long nothing may change in a living worker's tasks before another worker does them too. Default ten
    /// seconds. It should be longer than any task takes.
    pub fn set_timeout(&mut self, time: Duration) {
        self.timeout = polls(time);
    }

    /// The next task, if there is one to do now; [`TaskList::take`] with the timeout that was set. On
    /// [`NextTask::Wait`], sleep for a millisecond or so and call it again.
    ///
    /// Cost: that of [`TaskList::take`].
    ///
    /// Errors: [`Error::Dropped`](crate::Error::Dropped).
    pub fn next(&self) -> Result<NextTask> {
        self.list.take(self.timeout)
    }

    /// Does tasks until all tasks of all phases have results, whichever workers commit them. Returns how many this call
    /// committed.
    ///
    /// `work` returns a task's result. Two workers may do one task, so `work` must have no effect but its result, or
    /// only effects that may come twice. An error of `work` ends the call; other workers, or a later call, do the task.
    ///
    /// Cost: for each task those of [`TaskList::take`] and [`TaskList::commit`].
    ///
    /// Errors: those of `work`, and of these two: [`Error::Dropped`](crate::Error::Dropped),
    /// [`Error::Full`](crate::Error::Full).
    pub fn run<E: From<Error>>(
        &self,
        mut work: impl FnMut(u64) -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<u64, E> {
        let mut first = 0;
        loop {
            match self.next()? {
                NextTask::Task(task) => {
                    let result = work(task)?;
                    first += u64::from(self.list.commit(task, &result)? == crate::Committed::First);
                }
                NextTask::Wait => std::thread::sleep(POLL),
                NextTask::Done => return Ok(first),
            }
        }
    }

    /// Waits until all tasks have results, for this long at most. Returns whether they have. Does no task itself.
    ///
    /// Cost: that of [`TaskList::is_done`], each millisecond.
    ///
    /// Errors: [`Error::Dropped`](crate::Error::Dropped).
    pub fn wait_all(&self, at_most: Option<Duration>) -> Result<bool> {
        let begun = std::time::Instant::now();
        loop {
            if self.list.is_done()? {
                return Ok(true);
            }
            if at_most.is_some_and(|most| begun.elapsed() >= most) {
                return Ok(false);
            }
            std::thread::sleep(POLL);
        }
    }
}

impl<M: Memory> Deref for Tasks<M> {
    type Target = TaskList<M>;

    fn deref(&self) -> &TaskList<M> {
        &self.list
    }
}
