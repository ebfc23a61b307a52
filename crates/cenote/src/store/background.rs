//! The background thread of a process that has a pool open. There is one if the memory needs it, or the user asks for
//! it.
//!
//! On incoherent memory it is the flush server: it serves flush rounds and withdraws the announcements of idle workers;
//! without it memory would never be reused. If asked to, it [watches](crate::pod::death::watch): it sleeps until a
//! worker dies, recovers the dead and reports the deaths to their groups. If asked to, it gives back memory that stays
//! free. And it wakes the tasks of this process that wait for events of groups.
//!
//! It catches panics of tasks' wakers. If it dies all the same, alone, the next handle that is opened restarts it;
//! until then other threads of the process serve [flush rounds](crate::pod::reclaim::flush).
//!
//! It sleeps on the death event count, and on that of the groups while tasks wait for them. A thread that adds work for
//! it notifies one of them after that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::trim::Trimmer;
use crate::error::{Error, Result};
use crate::index::dropping::Finisher;
use crate::index::objects::recover::recover_objects;
use crate::memory::{LocalWord, Memory};
use crate::pod::death::watch::Watch;
use crate::pod::format::superblock::DEATH_EVENTS;
use crate::pod::group::{self, Group};
use crate::pod::reclaim::collect::collect_adopted;
use crate::pod::reclaim::flush::FlushServer;
use crate::pod::{Pod, Worker, instance::event_count};

/// The time between two polls on incoherent memory.
const TICK: Duration = Duration::from_millis(1);
/// The same once it has found nothing to do for a while: it is woken when there is something.
const IDLE_TICK: Duration = Duration::from_millis(100);

/// What the background thread and the handles of this process share.
#[derive(Default)]
pub(super) struct BackgroundWork {
    /// Not 0 if it watches for deaths.
    watches: LocalWord,
    /// Milliseconds after which free memory is given back; 0 for never.
    trims_after: LocalWord,
    /// The tasks that wait for events.
    sleepers: Mutex<Vec<Sleeper>>,
}

/// A task that waits until a group has had more events than it has read.
pub(super) struct Sleeper {
    /// The group.
    pub group: Group,
    /// The member's place, which tells it from others.
    pub place: u64,
    /// Events that it has read.
    pub read: u64,
    /// What wakes it.
    pub waker: Waker,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BackgroundWork {
    /// Wakes a task when there is an event for it. After this call the task polls once itself.
    pub(super) fn sleep<M: Memory>(&self, mem: &M, sleeper: Sleeper) {
        let mut sleepers = locked(&self.sleepers);
        let is_first = sleepers.is_empty();
        sleepers.retain(|other| (other.group, other.place) != (sleeper.group, sleeper.place));
        sleepers.push(sleeper);
        drop(sleepers);
        if is_first {
            // The thread sleeps on the groups' event count too from now on.
            event_count::notify_all(mem, DEATH_EVENTS);
        }
    }

    /// Makes the thread watch from now on.
    fn watch<M: Memory>(&self, mem: &M) {
        if self.watches.exchange(0, 1) {
            event_count::notify_all(mem, DEATH_EVENTS);
        }
    }

    /// Makes the thread give back memory that stays free for so long.
    pub(super) fn trim_after(&self, after: Duration) {
        self.trims_after
            .store(u64::try_from(after.as_millis()).unwrap_or(u64::MAX).max(1));
    }

    fn prepare_wait<M: Memory>(&self, worker: &Worker<M>) -> Vec<(u64, u32)> {
        let mut event_counts = vec![Watch::prepare_wait(worker)];
        if !locked(&self.sleepers).is_empty() {
            event_counts.push(group::prepare_wait(worker.mem()));
        }
        event_counts
    }

    fn wake<M: Memory>(&self, worker: &Worker<M>) {
        let Ok(pin) = worker.pin() else {
            return;
        };
        let is_due = |sleeper: &mut Sleeper| {
            !sleeper.group.is_there(worker) || sleeper.group.counted(worker) > sleeper.read
        };
        let due: Vec<Sleeper> = locked(&self.sleepers).extract_if(.., is_due).collect();
        drop(pin);
        due.into_iter().for_each(|sleeper| wake(sleeper.waker));
    }
}

/// Wakes a task. The waker is foreign code: its panics end here, as flush rounds and the other tasks depend on
/// this thread.
fn wake(waker: Waker) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Dropping it may panic again.
        std::mem::forget(thrown);
    }
}

/// A running background thread, which ends when this is dropped.
pub(super) struct BackgroundThread {
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
    has_died: Arc<dyn Fn() -> bool + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts the thread, if this memory needs it.
    pub(super) fn start_if_needed<M: Memory>(
        pod: &Arc<Pod<M>>,
        background_work: &Arc<BackgroundWork>,
    ) -> Result<Option<Self>> {
        match M::COHERENT {
            true => Ok(None),
            false => Self::start(pod, background_work).map(Some),
        }
    }

    /// Makes the thread watch, and starts it if it does not run.
    pub(super) fn watch<M: Memory>(
        background_thread: &mut Option<Self>,
        pod: &Arc<Pod<M>>,
        background_work: &Arc<BackgroundWork>,
    ) -> Result<()> {
        background_work.watch(pod.mem());
        if background_thread.is_none() {
            *background_thread = Some(Self::start(pod, background_work)?);
        }
        Ok(())
    }

    fn start<M: Memory>(pod: &Arc<Pod<M>>, background_work: &Arc<BackgroundWork>) -> Result<Self> {
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let (its_pod, background_work) = (pod.clone(), background_work.clone());
        // A worker belongs to the thread that attaches it.
        let work = move || match Worker::attach(&its_pod, true) {
            Ok(worker) => {
                drop(its_pod);
                let worker = Rc::new(worker);
                // Before `start` returns: until then the process counts as one that has lost its flush server.
                let flush_server = FlushServer::begin(&worker);
                let _ = begun.send(Ok(()));
                run(&worker, flush_server, &background_work);
            }
            Err(error) => drop(begun.send(Err(error))),
        };
        let thread = std::thread::Builder::new()
            .name("cenote-bgthread".to_owned())
            .spawn(work)
            .map_err(|source| Error::Io {
                path: pod.path().to_owned(),
                source,
            })?;
        begins.recv().unwrap_or(Err(Error::Forked))?;
        let ours = pod.clone();
        let stop = Arc::new(move || {
            ours.close();
            let is_ours = !ours.is_forked();
            if is_ours {
                event_count::notify_all(ours.mem(), DEATH_EVENTS);
            }
            is_ours
        });
        let its_pod = pod.clone();
        Ok(Self {
            stop,
            has_died: Arc::new(move || its_pod.has_lost_flush_server()),
            thread: Some(thread),
        })
    }

    /// Restarts the thread if it has died alone.
    pub(super) fn revive<M: Memory>(
        background_thread: &mut Option<Self>,
        pod: &Arc<Pod<M>>,
        background_work: &Arc<BackgroundWork>,
    ) -> Result<()> {
        if let Some(found) = background_thread
            && (found.has_died)()
        {
            let dead = std::mem::replace(found, Self::start(pod, background_work)?);
            dead.forget();
        }
        Ok(())
    }

    /// Forgets a thread that has died: a thread that has not returned cannot be joined.
    fn forget(mut self) {
        std::mem::forget(self.thread.take());
        std::mem::forget(self);
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        let thread = self.thread.take();
        let has_died = (self.has_died)();
        if (self.stop)() && !has_died {
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        } else {
            // A forked child has no such thread, and one that died alone cannot be joined.
            std::mem::forget(thread);
        }
    }
}

fn run<M: Memory>(worker: &Rc<Worker<M>>, mut flush_server: FlushServer, background_work: &BackgroundWork) {
    let mut watch = Watch::default();
    let (mut trimmer, mut finisher) = (Trimmer::default(), Finisher::default());
    // Processes have died whose objects were not looked after since.
    let mut has_deaths = false;
    let mut looked = Instant::now();
    let mut ticked = Instant::now();
    loop {
        // First: whatever happens from here on wakes it at once.
        let mut event_counts = background_work.prepare_wait(worker);
        let mut longest = Duration::MAX;
        if !M::COHERENT {
            let rounds = flush_server.prepare_wait(worker);
            event_counts.extend(rounds);
            longest = if rounds.is_some() { IDLE_TICK } else { TICK };
            // Damage is reported to the threads that use the pool; there is nobody to report it to here.
            let ticks = ticked.elapsed().as_millis() / TICK.as_millis();
            ticked = Instant::now();
            flush_server.tick(worker, u32::try_from(ticks).unwrap_or(u32::MAX).max(1));
        }
        let _ = collect_adopted(worker);
        let watches = background_work.watches.load() != 0;
        if watches {
            let is_due = looked.elapsed() >= watch.timeout();
            if is_due {
                looked = Instant::now();
            }
            has_deaths |= watch.poll(worker, is_due).processes > 0;
            // Not while a thread of this process accounts for every byte.
            if (has_deaths || is_due)
                && let Some(_permission) = worker.pod().may_reclaim(worker)
            {
                if std::mem::take(&mut has_deaths) {
                    recover_objects(worker);
                }
                if is_due {
                    finisher.tick(worker);
                }
            }
            longest = longest.min(watch.timeout());
        }
        if background_work.trims_after.load() != 0 {
            let after = Duration::from_millis(background_work.trims_after.load());
            longest = longest.min(Trimmer::interval(after));
            // Not while a thread of this process accounts for every byte.
            if let Some(_permission) = worker.pod().may_reclaim(worker) {
                let _ = trimmer.tick(worker, after);
            }
        }
        background_work.wake(worker);
        if worker.pod().is_closing() {
            FlushServer::end(worker);
            return;
        }
        watch.wait(worker, &event_counts, longest);
    }
}
