//! Ways in which threads increment a shared counter: under a lock, by exchanges, or in turn. The same code runs on
//! simulated and on real memory.

use std::cell::Cell;
use std::rc::Rc;

use cenote::index::baseline::arena::Arena;
use cenote::memory::{Memory, SyncWord};
use cenote::pod::Worker;
use cenote::sync::min_array::MinArrayLock;
use cenote::sync::plain::{Node, PlainQueue, PlainSpin};
use cenote::sync::{QueueLock, SpinLock};

const MAGIC: u64 = 0x6c75_7069_6e32;
/// Each thread of each run takes a chunk of it.
const ARENA_BYTES: u64 = 1 << 19;
/// A min-array has room for so many threads.
const THREADS_MAX: u32 = 32;

/// How a counter is incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By two threads in turn: each waits until the other has.
    Turns,
    /// The same by compare-exchanges of the value that the other leaves.
    TurnsByExchange,
    /// By compare-exchange, until it succeeds.
    Exchange,
    PlainSpin,
    Spin,
    PlainQueue,
    Queue,
    MinArray,
}

impl Way {
    /// Under the library's locks, and under plain ones of their kinds.
    pub const LOCKS: [Self; 4] = [Self::PlainSpin, Self::Spin, Self::PlainQueue, Self::Queue];

    /// What it is called in few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "in turn",
            Self::TurnsByExchange => "in turn by exchanges",
            Self::Exchange => "exchanges",
            Self::PlainSpin => "plain spin",
            Self::Spin => "spin",
            Self::PlainQueue => "MCS",
            Self::Queue => "queue",
            Self::MinArray => "min-array",
        }
    }
}

/// The counter, and what guards it, as a thread has them.
pub struct Counting<M: Memory> {
    counter: SyncWord,
    /// Counted from 0.
    thread: u64,
    threads: u64,
    /// In turn: what it increments next.
    next: Cell<u64>,
    by: By<M>,
}

enum By<M: Memory> {
    Turns,
    TurnsByExchange,
    Exchange,
    PlainSpin(PlainSpin),
    Spin(SpinLock<M>),
    PlainQueue(PlainQueue, Node),
    Queue(QueueLock<M>),
    MinArray(MinArrayLock),
}

impl<M: Memory> Counting<M> {
    /// Makes what the threads share, before they begin.
    pub fn prepare(worker: &Rc<Worker<M>>, way: Way) -> cenote::Result<()> {
        if let By::MinArray(lock) = Self::open(worker, way, 0, 1)?.by {
            lock.format(worker.mem());
        }
        Ok(())
    }

    /// What one of so many threads has of it.
    pub fn open(worker: &Rc<Worker<M>>, way: Way, thread: u32, threads: u32) -> cenote::Result<Self> {
        let arena = Arena::open_or_create(worker.clone(), "words", MAGIC, ARENA_BYTES)?;
        let by = match way {
            Way::Turns => By::Turns,
            Way::TurnsByExchange => By::TurnsByExchange,
            Way::Exchange => By::Exchange,
            Way::PlainSpin => By::PlainSpin(PlainSpin(arena.root(0))),
            Way::Spin => By::Spin(SpinLock::open_or_create(worker.clone(), "spin")?),
            Way::PlainQueue => By::PlainQueue(PlainQueue(arena.root(1)), Node(arena.take(64)?)),
            Way::Queue => By::Queue(QueueLock::open_or_create(worker.clone(), "queue")?),
            Way::MinArray => {
                let at = arena.first(MinArrayLock::bytes(THREADS_MAX))?;
                By::MinArray(MinArrayLock::at(at, THREADS_MAX))
            }
        };
        let (thread, threads) = (u64::from(thread), u64::from(threads.max(1)));
        let counter: SyncWord = arena.root(2);
        // No thread begins before all have it open.
        let begin = counter.load(worker.mem()).next_multiple_of(threads);
        Ok(Self {
            counter,
            thread,
            threads,
            next: Cell::new(begin + thread),
            by,
        })
    }

    /// The counter.
    pub fn count(&self, mem: &M) -> u64 {
        self.counter.load(mem)
    }

    /// Increments it.
    pub fn increment(&self, mem: &M) -> cenote::Result<()> {
        let add = || self.counter.store(mem, self.counter.load(mem) + 1);
        match &self.by {
            By::Turns => {
                let mut found = self.counter.load(mem);
                while found % self.threads != self.thread {
                    found = self.counter.load(mem);
                }
                self.counter.store(mem, found + 1);
            }
            By::TurnsByExchange => {
                let next = self.next.replace(self.next.get() + self.threads);
                while self.counter.compare_exchange(mem, next, next + 1).is_err() {}
            }
            By::Exchange => {
                let mut found = self.counter.load(mem);
                while let Err(other) = self.counter.compare_exchange(mem, found, found + 1) {
                    found = other;
                }
            }
            By::PlainSpin(lock) => {
                lock.lock(mem);
                add();
                lock.unlock(mem);
            }
            By::Spin(lock) => {
                let _guard = lock.lock()?;
                add();
            }
            By::PlainQueue(lock, node) => {
                lock.lock(mem, *node);
                add();
                lock.unlock(mem, *node);
            }
            By::Queue(lock) => {
                let _guard = lock.lock()?;
                add();
            }
            By::MinArray(lock) => {
                lock.lock(mem, self.thread);
                add();
                lock.unlock(mem, self.thread);
            }
        }
        Ok(())
    }
}
