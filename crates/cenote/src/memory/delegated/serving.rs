//! Which process serves: a thread of each one stands by, and the thread that holds a certain lock is the server.
//!
//! The kernel gives the lock back when the thread that holds it has made its last access. So the processes of one
//! kernel never have more than one server, and a stopped server keeps everybody waiting until it goes on or is killed.
//! The lock is the thread's own ([`Liveness::of_this_thread`]): before a process is gone, all its threads need a
//! processor to die on, and its address space is torn down. Hosts that share no kernel exclude each other by a
//! [`ServingLease`]: see `docs/protocols/exchange.md`.
//!
//! A thread that stands by sleeps and polls now and then; it polls at once when a client of its process has waited for
//! long ([`Serving::poll`]).

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::mailbox::Mailboxes;
use super::server::Server;
use crate::memory::time_slice::ask_for_short_slice;
use crate::memory::{ForkWatch, Liveness, LocalWord, MappingError, Memory, SyncWord, forked};

/// Between two polls of a thread that stands by, while no client of its process misses a server.
const STANDBY: Duration = Duration::from_millis(10);
/// How long a server polls without a pause after the last request. One that polls for longer has used its share of a
/// processor up when the next request comes, where several threads want the processor.
const BUSY: Duration = Duration::from_micros(200);
/// Polls between two readings of the clock.
const POLLS: u32 = 16;
/// Between two polls of a server that has had nothing to do for longer than that.
const IDLE: Duration = Duration::from_micros(100);

/// What the thread is orders: go on; end; make one more exchange as the server, and end.
const GO_ON: u64 = 0;
const END: u64 = 1;
const END_WITH_ONE: u64 = 2;

/// Words of the pool, loaded from memory and stored past the cache, without the server.
pub trait Words {
    /// A load from memory.
    fn load(&self, word: SyncWord) -> u64;

    /// A store that is in memory before whatever comes next.
    fn store(&self, word: SyncWord, value: u64);
}

/// What a process needs besides the lock, so that no process of another kernel serves at the same time.
pub trait ServingLease: Send {
    /// Whether it may serve, as far as can be orders without the lock.
    fn may_serve(&self, words: &dyn Words) -> bool;

    /// Takes the lease, now that this process has the lock, which it keeps until [`ServingLease::end`]; returns whether
    /// it could.
    fn begin(&self, words: &dyn Words) -> bool;

    /// This process serves no more.
    fn end(&self, words: &dyn Words);
}

/// A thread that serves, or stands by. Ends when this is dropped; it carries out what it has planned first.
pub struct Serving {
    orders: Arc<Orders>,
    watch: ForkWatch,
    thread: Mutex<Option<JoinHandle<Lent>>>,
    /// Where it got its own locks from: the descriptor is this process's, and the thread that drops this closes it.
    _liveness: Arc<dyn Liveness>,
    /// The thread, to unpark it.
    sleeper: Thread,
}

/// What others have the thread do.
#[derive(Default)]
struct Orders {
    what: LocalWord,
    /// For [`END_WITH_ONE`]: the offset, what must be there, what shall be there.
    last: Mutex<(u64, u64, u64)>,
}

struct Base<'m, M: Memory>(&'m M);

impl<M: Memory> Words for Base<'_, M> {
    fn load(&self, word: SyncWord) -> u64 {
        word.load(self.0)
    }

    fn store(&self, word: SyncWord, value: u64) {
        word.store(self.0, value)
    }
}

/// What the thread has of the process's descriptors; it returns them to the thread that joins it. Dropped in the
/// thread, they would be closed in a table that does not have them, and stay open in the process's.
type Lent = Box<dyn std::any::Any + Send>;

impl Serving {
    /// Starts the thread. `lock` is the number of the lock by which the server is found.
    pub(crate) fn start<M: Memory>(
        mem: M,
        boxes: Mailboxes,
        limit: u64,
        liveness: Box<dyn Liveness>,
        lock: u32,
        lease: Box<dyn ServingLease>,
        watch: ForkWatch,
    ) -> Result<Self, MappingError> {
        let orders = Arc::<Orders>::default();
        let theirs = orders.clone();
        let liveness: Arc<dyn Liveness> = liveness.into();
        let process = liveness.clone();
        let thread = std::thread::Builder::new()
            .name("cenote-exchange".to_owned())
            .spawn(move || {
                ask_for_short_slice();
                {
                    let own = process.of_this_thread();
                    let liveness = own.as_deref().unwrap_or(&*process);
                    let serve = || serve(mem.clone(), boxes, limit, &theirs.what);
                    stand_by(&Base(&mem), liveness, lock, &*lease, &theirs, serve);
                }
                Box::new((mem, lease, process)) as Lent
            })
            .map_err(|source| MappingError::Os {
                what: "starting the thread that executes exchanges",
                source,
            })?;
        Ok(Self {
            orders,
            watch,
            sleeper: thread.thread().clone(),
            thread: Mutex::new(Some(thread)),
            _liveness: liveness,
        })
    }

    /// Has the thread poll at once, for a missing server or for requests. One system call if it sleeps.
    pub(crate) fn poll(&self) {
        self.sleeper.unpark();
    }

    /// Waits until this process is the server, which it must be about to be; makes one more exchange, the last one, and
    /// serves no more when this returns. If it stood by until now, it first carries out what the last server had
    /// planned.
    ///
    /// # Safety
    ///
    /// As for [`Memory::exchange_as_last_server`].
    pub(crate) unsafe fn end_with(&self, at: u64, current: u64, new: u64) {
        *self.orders.last.lock().unwrap_or_else(PoisonError::into_inner) = (at, current, new);
        self.end(END_WITH_ONE);
    }

    fn end(&self, how: u64) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.orders.what.store(how);
            self.poll();
            // A thread that panicked serves no more.
            let _ = thread.join();
        }
    }
}

/// Stands by until it may serve, then serves.
fn stand_by(
    words: &dyn Words,
    liveness: &dyn Liveness,
    lock: u32,
    lease: &dyn ServingLease,
    orders: &Orders,
    serve: impl Fn(),
) {
    while orders.what.load() != END {
        // A kernel that refuses to answer will refuse the other processes as well; nothing is served on a guess.
        if !lease.may_serve(words) || !liveness.try_lock(lock).unwrap_or(false) {
            std::thread::park_timeout(STANDBY);
            continue;
        }
        let has_served = lease.begin(words);
        if has_served {
            serve();
            if orders.what.load() == END_WITH_ONE {
                orders.exchange(words);
            }
            lease.end(words);
        }
        let _ = liveness.unlock(lock);
        if has_served {
            return;
        }
    }
}

impl Orders {
    fn exchange(&self, words: &dyn Words) {
        let (at, current, new) = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: who gave the offset promised it of a sync word (`end_with`).
        let word = unsafe { SyncWord::at(at) };
        if words.load(word) == current {
            words.store(word, new);
        }
    }
}

fn serve<M: Memory>(mem: M, boxes: Mailboxes, limit: u64, orders: &LocalWord) {
    let mut server = Server::take_over(mem.clone(), boxes, limit);
    let mut last = Instant::now();
    let mut polls = 0u32;
    while orders.load() == GO_ON {
        if server.pass() > 0 {
            polls = 0;
            continue;
        }
        polls = polls.wrapping_add(1);
        if polls == 1 {
            last = Instant::now();
        }
        if !polls.is_multiple_of(POLLS) || last.elapsed() < BUSY {
            mem.pause();
        } else {
            std::thread::park_timeout(IDLE);
            server.has_rested();
            polls = POLLS - 1;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if forked(self.watch) {
            // A forked child has no such thread.
            std::mem::forget(self.thread.get_mut().map(Option::take));
            return;
        }
        self.end(END);
    }
}
