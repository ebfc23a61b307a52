//! The pool, as this process has it open: opened by the first lock that needs it, and kept until the process ends.
//!
//! **A fork.** The child opens the pool itself, with the first lock that it uses; what it has copied of its parent's is
//! never touched again. A lock that the parent had is the parent's: the child does not have it. A child that was made
//! past the handlers of `fork` finds out by its first call that is refused. A thread of the parent that was about to
//! open the pool is not there in the child: who opens it leaves its process's id, and that of another process counts
//! for nothing.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use cenote::locks::{LockArray, ReadWriteLock};
use cenote::{Coherent, Error, Options, Pool, pool_id};
use cenote_holds::{Lock, OpenPool, Refusal, Which, forget, uncancelled, with};

use crate::log;
use crate::settings::settings;

/// The array's name in the pool.
pub const ARRAY: &str = "preload";

/// A pool that is open, with its array of locks.
pub struct State {
    /// The pool.
    pub pool: Arc<OpenPool>,
    /// Its random number.
    pub id: u64,
    /// How many locks its array has.
    pub count: u32,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());
/// The process of the thread that opens it, or 0. No mutex, as one that a thread has when another one forks is never
/// unlocked in the child.
static OPENING: AtomicU32 = AtomicU32::new(0);

/// The thread that opens it.
struct Opening;

impl Opening {
    fn begin() -> Self {
        let this = std::process::id();
        loop {
            let found = OPENING.load(Ordering::Relaxed);
            // A parent's thread is not in this process.
            if found != this
                && OPENING
                    .compare_exchange(found, this, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                return Self;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        OPENING.store(0, Ordering::Release);
    }
}

impl State {
    /// One of its locks.
    pub fn lock(&self, number: u64) -> Arc<Lock> {
        // A number that is too large is refused when the lock is opened.
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        Arc::new(Lock::new(self.pool.clone(), Which::Numbered(ARRAY, number)))
    }
}

/// The pool of this process; opened now if it is not yet.
#[inline]
fn state() -> Result<&'static State, Refusal> {
    match known() {
        Some(state) => Ok(state),
        None => uncancelled(open),
    }
}

/// The pool of this process, if it has opened it. A child that was made past the handlers of `fork` finds its parent's.
#[inline]
pub fn known() -> Option<&'static State> {
    // SAFETY: it was leaked by `open`, or is null.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

/// Calls what uses the pool. A child that was made past the handlers of `fork` finds its parent's: then it opens its
/// own, and calls again.
#[inline]
pub fn with_state<T>(call: impl Fn(&'static State) -> Result<T, Refusal>) -> Result<T, Refusal> {
    match call(state()?) {
        Err(Refusal::Pool(Error::Forked)) => {
            if known().is_some_and(|state| state.pool.is_forked()) {
                STATE.store(null_mut(), Ordering::Release);
                forget();
            }
            call(state()?)
        }
        done => done,
    }
}

#[cold]
fn open() -> Result<&'static State, Refusal> {
    let _only = Opening::begin();
    if let Some(state) = known() {
        return Ok(state);
    }
    for complaint in &settings().complaints {
        log::line(complaint);
    }
    let Some(path) = &settings().pool else {
        return Err(Refusal::Invalid("CENOTE_POOL names no pool"));
    };
    let options = Options {
        // An array of so many locks, and room for which of them are in use.
        size: (u64::from(settings().locks) * (384 + u64::from(settings().threads) / 8)).max(16 << 20),
        max: 8 << 30,
        workers: settings().threads,
        ..Options::default()
    };
    let pool: Pool = Pool::open_or_create(path, &options)?;
    let id = pool_id(path)?;
    let pool = OpenPool::new(pool)?;
    let worker = with(|thread| thread.worker(&pool))?;
    type Array = LockArray<Coherent, ReadWriteLock<Coherent>>;
    let array = match Array::open(worker.clone(), ARRAY) {
        Err(Error::NoSuch { .. }) => match Array::open_or_create(worker.clone(), ARRAY, settings().locks) {
            // Another process was faster, with another number.
            Err(Error::OtherArray { .. }) => Array::open(worker, ARRAY),
            made => made,
        },
        opened => opened,
    }?;
    let count = array.count();
    drop(array);
    handle_forks();
    let state = Box::leak(Box::new(State { pool, id, count }));
    STATE.store(state, Ordering::Release);
    Ok(state)
}

extern "C" fn in_child() {
    STATE.store(null_mut(), Ordering::Release);
    forget();
}

fn handle_forks() {
    static HANDLED: AtomicBool = AtomicBool::new(false);
    if HANDLED.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: plain functions that live as long as this library, which is never unloaded.
    let handled = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if handled != 0 {
        log::line("cannot watch for forks: locks will be refused in children");
    }
}
