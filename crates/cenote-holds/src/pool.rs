//! A pool that the process has open, and a lock in it. Threads share both.
#![allow(clippy::disallowed_types)] // counters and flags of the process, no words of a pool

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cenote::locks::{LockArray, ReadWriteLock};
use cenote::pod::{Pod, Worker};
use cenote::sync::directory::DirectoryLock;
use cenote::{Coherent, Pool, Result};

use crate::entry::Opened;
use crate::refusal::Refusal;

/// A pool that the process has open. Threads take their places in it by themselves.
pub struct OpenPool {
    pod: Arc<Pod<Coherent>>,
    pool: Pool,
}

impl OpenPool {
    /// For threads that use locks of this pool. Needs a place in it for a moment.
    pub fn new(pool: Pool) -> Result<Arc<Self>> {
        let pod = pool.worker()?.pod().clone();
        Ok(Arc::new(Self { pod, pool }))
    }

    /// The pool, for what is no lock.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether this process was forked from the one that opened it.
    pub fn is_forked(&self) -> bool {
        self.pod.is_forked()
    }

    /// One more place in it for this thread.
    pub(crate) fn attach(&self) -> Result<Rc<Worker<Coherent>>> {
        Ok(Rc::new(Worker::attach(&self.pod, false)?))
    }
}

/// Which lock of a pool it is.
#[derive(Clone, Debug)]
pub enum Which {
    /// The lock of this name.
    Named(String),
    /// The lock of this number in the array of this name.
    Numbered(&'static str, u32),
    /// The lock of this name that covers regions.
    Regions(String),
    /// The same, which is made if there is none. It covers regions of these lengths, and is refused if it covers
    /// others.
    RegionsOf(String, Vec<u64>),
}

/// Processes that may use a lock with regions at a time, where hardware does not keep caches coherent.
const NODES: u8 = 16;

/// How many locks have been closed in this process.
static CLOSED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn closed() -> u64 {
    CLOSED.load(Ordering::Relaxed)
}

/// A lock of a pool, as the process has it open.
pub struct Lock {
    pool: Arc<OpenPool>,
    which: Which,
    closed: AtomicBool,
}

impl Lock {
    /// A lock of a pool; it is opened, or made, by the first thread that asks for it.
    pub fn new(pool: Arc<OpenPool>, which: Which) -> Self {
        let closed = AtomicBool::new(false);
        Self { pool, which, closed }
    }

    /// The pool that it is in.
    pub fn pool(&self) -> &Arc<OpenPool> {
        &self.pool
    }

    /// Lets threads forget it: each does so with the next lock that is new to it.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        CLOSED.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A worker's handle on it.
    pub(crate) fn open(&self, worker: Rc<Worker<Coherent>>) -> std::result::Result<Opened, Refusal> {
        Ok(match &self.which {
            Which::Named(name) => Opened::Rw(ReadWriteLock::open_or_create(worker, name)?),
            Which::Numbered(array, number) => {
                let array = LockArray::<Coherent, ReadWriteLock<Coherent>>::open(worker, array)?;
                Opened::Rw(array.at(*number)?)
            }
            Which::Regions(name) => Opened::Directory(DirectoryLock::open(worker, name)?),
            Which::RegionsOf(name, lens) => {
                let lock = DirectoryLock::open_or_create(worker, name, NODES, lens)?;
                if !lock.regions().iter().map(|region| &region.len).eq(lens) {
                    return Err(Refusal::Invalid(
                        "the lock of this name covers regions of other lengths",
                    ));
                }
                Opened::Directory(lock)
            }
        })
    }
}
