//! What a thread has open and holds.
//!
//! **State.** A value on the heap for each thread, made when the thread first needs it. A key of pthread's ends it with
//! the thread; unlike a destructor of a thread-local value it does not run in the main thread at the end of the
//! process, where destructors of a program's static objects still use locks. The kernel tells others of that end.
//!
//! **A thread that ends** with a lock leaves it as a death would: the next owner is told. **A fork** leaves the child a
//! copy that gets nothing: every call is refused, until the child has opened the pool itself.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;

use cenote::memory::ThreadKey;
use cenote::pod::Worker;
use cenote::{Acquired, Coherent, Error};

use crate::cancel::uncancelled;
use crate::deadline::Wait;
use crate::entry::{Access, Entry};
use crate::pool::{Lock, OpenPool, closed};
use crate::refusal::Refusal;

thread_local! {
    // Has no destructor, so that it is there as long as the thread.
    static CURRENT: Current = const { Current { thread: Cell::new(null_mut()), within: Cell::new(false) } };
}

/// Where the calling thread's value is, and whether a call uses it.
struct Current {
    thread: Cell<*mut Thread>,
    within: Cell<bool>,
}

/// What one thread has open and holds.
#[derive(Default)]
pub struct Thread {
    entries: Vec<(u64, Entry)>,
    /// Where the entry of a number is.
    index: HashMap<u64, usize, BuildHasherDefault<Number>>,
    /// Where the entry used last is.
    last: usize,
    pools: Vec<PoolWorkers>,
    /// How many locks had been closed when it last forgot closed ones.
    closed: u64,
    /// How often its end has been put off.
    put_off: u32,
}

/// A thread's workers in one pool.
struct PoolWorkers {
    workers: Vec<Rc<Worker<Coherent>>>,
    /// The one that had a slot free last.
    hint: usize,
    pool: Arc<OpenPool>,
}

/// Numbers of locks are hashes already: they are counted.
#[derive(Default)]
struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The table takes the lowest and the highest bits.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Calls with what this thread has.
#[inline]
pub fn with<T>(call: impl FnOnce(&mut Thread) -> Result<T, Refusal>) -> Result<T, Refusal> {
    struct Left<'c>(&'c Cell<bool>);
    impl Drop for Left<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    CURRENT.with(|current| {
        if current.within.replace(true) {
            return Err(Refusal::Within);
        }
        let _left = Left(&current.within);
        let mut thread = current.thread.get();
        if thread.is_null() {
            thread = begin(current);
        }
        // SAFETY: it is this thread's own, lives until the thread's end or `forget`, and `within` says that nobody else
        // refers to it.
        call(unsafe { &mut *thread })
    })
}

/// Forgets what this thread has, without giving anything back: for the child of a fork, whose copies are nobody's.
pub fn forget() {
    CURRENT.with(|current| {
        current.thread.set(null_mut());
        current.within.set(false);
    });
    if let Some(key) = KEY.known() {
        // SAFETY: the key is never deleted.
        unsafe { libc::pthread_setspecific(key, null_mut()) };
    }
}

/// Its function ends a thread's value. If pthread has no key left, what threads have is kept until the process ends.
static KEY: ThreadKey = ThreadKey::new(end);

/// How often the end of a thread's value is put off, so that other destructors of the thread, which may use locks, come
/// first. POSIX runs destructors four times at least.
const PUT_OFF: u32 = 2;

extern "C" fn end(thread: *mut c_void) {
    let thread = thread.cast::<Thread>();
    // SAFETY: `begin` made it, and this thread is in no other call.
    let put_off = unsafe { &mut (*thread).put_off };
    *put_off += 1;
    if let Some(key) = KEY.known()
        && *put_off <= PUT_OFF
    {
        // SAFETY: the key is never deleted.
        unsafe { libc::pthread_setspecific(key, thread.cast()) };
        return;
    }
    CURRENT.with(|current| current.thread.set(null_mut()));
    // SAFETY: `begin` made it of a box, and nothing refers to it any more.
    let thread = unsafe { Box::from_raw(thread) };
    let _ = catch_unwind(AssertUnwindSafe(|| uncancelled(|| drop(thread))));
}

#[cold]
fn begin(current: &Current) -> *mut Thread {
    let thread = Box::into_raw(Box::<Thread>::default());
    if let Ok(key) = KEY.get() {
        // SAFETY: the key is never deleted.
        unsafe { libc::pthread_setspecific(key, thread.cast()) };
    }
    current.thread.set(thread);
    thread
}

impl Thread {
    /// Takes a lock. `lock` says which lock it is that has this number in the process; it is asked once a thread.
    ///
    /// A thread that reads may ask to read again, and must release as often. Else one that has the lock is refused.
    ///
    /// Cost: that of the library's lock, and a search in a table of the thread's own. The first time also that of
    /// opening it.
    #[inline]
    pub fn acquire(
        &mut self,
        number: u64,
        lock: impl FnOnce() -> Arc<Lock>,
        access: Access,
        wait: Wait,
    ) -> Result<Acquired, Refusal> {
        if let Some(entry) = self.find(number) {
            if let Some(again) = entry.again(access, wait) {
                return again;
            }
            match entry.take(access, wait) {
                Err(Refusal::Pool(Error::TooManyLocks { .. })) => {}
                taken => return taken,
            }
        }
        uncancelled(|| self.acquire_anew(number, lock, access, wait))
    }

    /// The first time, or by another worker.
    #[cold]
    fn acquire_anew(
        &mut self,
        number: u64,
        lock: impl FnOnce() -> Arc<Lock>,
        access: Access,
        wait: Wait,
    ) -> Result<Acquired, Refusal> {
        self.open(number, lock)?;
        let Self {
            entries, pools, last, ..
        } = self;
        let (_, entry) = &mut entries[*last];
        let mine = workers_of(pools, entry.lock.pool())?;
        for after in 0.. {
            match entry.take(access, wait) {
                Err(Refusal::Pool(Error::TooManyLocks { .. })) => {}
                taken => return taken,
            }
            // This one's worker holds as many locks as it can.
            let worker = match after < mine.workers.len() {
                true => (mine.hint + after) % mine.workers.len(),
                false => mine.add()?,
            };
            entry.reopen(entry.lock.open(mine.workers[worker].clone())?);
            mine.hint = worker;
        }
        unreachable!("a worker is added in each round")
    }

    /// A lock that is open.
    #[inline]
    fn find(&mut self, number: u64) -> Option<&mut Entry> {
        if self.entries.get(self.last).is_none_or(|&(of, _)| of != number) {
            self.last = *self.index.get(&number)?;
        }
        self.entries.get_mut(self.last).map(|(_, entry)| entry)
    }

    /// Opens a lock, so that it is known whether that can be. It is the one used last then.
    pub fn open(&mut self, number: u64, lock: impl FnOnce() -> Arc<Lock>) -> Result<(), Refusal> {
        if self.find(number).is_some() {
            return Ok(());
        }
        uncancelled(|| {
            let opened = self.open_anew(number, lock());
            if opened.is_err() {
                self.leave_pools();
            }
            opened
        })
    }

    fn open_anew(&mut self, number: u64, lock: Arc<Lock>) -> Result<(), Refusal> {
        self.forget_closed();
        let mut entry = Entry::new(lock);
        if entry.lock.pool().is_forked() {
            return Err(Error::Forked.into());
        }
        let mine = workers_of(&mut self.pools, entry.lock.pool())?;
        let worker = mine.workers[mine.hint].clone();
        entry.reopen(entry.lock.open(worker)?);
        self.last = self.entries.len();
        self.index.insert(number, self.last);
        self.entries.push((number, entry));
        Ok(())
    }

    /// Releases a lock. If its last owner had died and [`Thread::mend`] was not called since, the next owner is told as
    /// this one was.
    #[inline]
    pub fn release(&mut self, number: u64) -> Result<(), Refusal> {
        let entry = self.held(number)?;
        entry.release()
    }

    /// Says that what a lock protects is whole again, after its last owner had died.
    pub fn mend(&mut self, number: u64) -> Result<(), Refusal> {
        self.held(number)?.mend()
    }

    /// Leaves a note for the next owner, should this one die.
    pub fn note(&mut self, number: u64, note: u64) -> Result<(), Refusal> {
        self.held(number)?.note(note)
    }

    /// How a lock that this thread holds was acquired.
    pub fn acquired(&mut self, number: u64) -> Result<Acquired, Refusal> {
        self.held(number)?.acquired()
    }

    /// Bytes of each region that a lock covers, which this thread has open; none of a lock without regions.
    pub fn region_lens(&mut self, number: u64) -> Vec<u64> {
        self.find(number).map_or(Vec::new(), |entry| entry.region_lens())
    }

    /// Where this process has a region of a lock that this thread holds, counted from 0. It is the thread's until it
    /// releases the lock: to be read, or to be changed if it holds the lock for writing.
    #[inline]
    pub fn region(&mut self, number: u64, region: usize) -> Result<*mut u8, Refusal> {
        self.held(number)?.region(region)
    }

    /// Whether this thread holds a lock.
    pub fn holds(&mut self, number: u64) -> bool {
        self.find(number).is_some_and(|entry| entry.is_held())
    }

    /// Any of this thread's workers in a pool.
    pub fn worker(&mut self, pool: &Arc<OpenPool>) -> Result<Rc<Worker<Coherent>>, Refusal> {
        Ok(workers_of(&mut self.pools, pool)?.workers[0].clone())
    }

    #[inline]
    fn held(&mut self, number: u64) -> Result<&mut Entry, Refusal> {
        let entry = self.find(number).ok_or(Refusal::NotHeld)?;
        match entry.lock.pool().is_forked() {
            true => Err(Error::Forked.into()),
            false => Ok(entry),
        }
    }

    /// Forgets locks that have been closed, and pools of which it then has none.
    pub fn forget_closed(&mut self) {
        let closed = closed();
        if closed == self.closed {
            return;
        }
        self.closed = closed;
        self.entries.retain(|(_, entry)| {
            !entry.lock.is_closed() || entry.is_held() && !entry.lock.pool().is_forked()
        });
        let numbers = self.entries.iter().map(|&(number, _)| number);
        self.index = numbers.zip(0..).collect();
        self.leave_pools();
    }

    /// Gives up its places in pools of which it has no lock open.
    fn leave_pools(&mut self) {
        let entries = &self.entries;
        self.pools.retain(|pool| {
            entries
                .iter()
                .any(|(_, entry)| Arc::ptr_eq(entry.lock.pool(), &pool.pool))
        });
    }
}

impl PoolWorkers {
    /// Has one more worker; returns which.
    fn add(&mut self) -> Result<usize, Refusal> {
        self.workers.push(self.pool.attach()?);
        Ok(self.workers.len() - 1)
    }
}

/// A thread's workers in a pool: at least one.
fn workers_of<'s>(
    pools: &'s mut Vec<PoolWorkers>,
    pool: &Arc<OpenPool>,
) -> Result<&'s mut PoolWorkers, Refusal> {
    let at = pools.iter().position(|one| Arc::ptr_eq(&one.pool, pool));
    let at = match at {
        Some(at) => at,
        None => {
            let mut one = PoolWorkers {
                workers: Vec::new(),
                hint: 0,
                pool: pool.clone(),
            };
            one.add()?;
            pools.push(one);
            pools.len() - 1
        }
    };
    Ok(&mut pools[at])
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
