//! Locks for users of a pool, which survive their owners.
//!
//! | file | concept |
//! |---|---|
//! | `object` | a lock's bytes in the pool |
//! | `held` | which slot of its worker area a worker uses for which lock |
//! | `wait` | polling and sleeping: when to poll, and for how long to sleep |
//! | `sleep` | sleeping until another worker has done something, or has died |
//! | `owner` | a word that names its owner: taking it, also from a dead owner |
//! | `wait_queue` | the queue of waiters, in the order in which they came |
//! | `exclusive` | a word that names its owner, with a queue before it |
//! | `mutex` | the mutex, whose waiters sleep and come first in the end |
//! | `spin` | the test-and-test-and-set lock |
//! | `queue` | the queue lock, first come first served |
//! | `rw` | the reader-writer lock |
//! | `semaphore` | the semaphore, whose permits survive their owners |
//! | `condvar` | the condition variable: waiting for what others do under a lock |
//! | `guard` | the guards of locks that are held |
//! | `directory/` | directory locks, which processes cache together with their data |
//! | `array` | many locks under one name |
//! | `removal` | names that are removed and given again |
//! | `recovery` | what recovery does with the locks of dead workers |
//! | `plain` | the same locks without owners, to compare with; with the feature `baselines` |
//! | `min_array` | a recoverable lock of another kind, to compare with |
//! | `inspect` | who holds a lock and who waits, for people to read |
//!
//! **Contract of all forms.** At most one living worker owns a lock exclusively. When an owner dies, the next worker
//! that asks gets the lock at once, without a timeout, as soon as [`is_gone`](crate::pod::lock::is_gone) knows of the
//! death. The successor is told: [`Acquired::Recovered`] says who died, and the *note*, one word that the dead owner
//! left ([`Guard::set_note`]). If the successor dies before it has unlocked, the next owner is told of the successor,
//! with the note as it then is: a new one, or still the first one. An unlock ends that.
//!
//! **A panic** that drops a guard is no unlock: what the lock protects is as a death would have left it. So the next
//! owner is told as if the thread had died, with its note. The same holds for a guard that a destructor takes and drops
//! while its thread unwinds.
//!
//! **Misuse.** A thread that asks for a lock that it holds gets [`Error::Deadlock`](crate::Error::Deadlock); it does
//! not hang. A forked child gets [`Error::Forked`](crate::Error::Forked), and the guards that it inherits do nothing.
//!
//! **Handles** belong to a thread. A thread can hold or wait for [`SLOTS`](crate::pod::format::lock_slots::SLOTS) locks
//! at a time; one more is [`Error::TooManyLocks`](crate::Error::TooManyLocks).
//!
//! The protocol page is `docs/protocols/locks.md`.

pub mod array;
pub mod condvar;
pub mod directory;
mod exclusive;
pub mod guard;
pub mod held;
pub mod inspect;
#[cfg(feature = "baselines")]
pub mod min_array;
pub mod mutex;
pub mod object;
pub mod owner;
pub mod owner_word;
#[cfg(feature = "baselines")]
pub mod plain;
pub mod queue;
mod queue_walk;
mod readying;
pub mod recovery;
pub mod removal;
pub mod rw;
pub mod semaphore;
mod sleep;
pub mod spin;
pub mod wait;
mod wait_queue;

pub use array::LockArray;
pub use condvar::{Condvar, Waited};
pub use guard::{Guard, ReadGuard};
pub use mutex::Mutex;
pub use queue::QueueLock;
pub use rw::ReadWriteLock;
pub use semaphore::{Permit, Semaphore};
pub use spin::SpinLock;
pub use wait::Timeout;

/// A worker that owned a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Owner {
    /// Its place in the worker table.
    pub worker: u32,
    /// The generation of the place.
    pub generation: u32,
}

impl Owner {
    /// Reads the identity in a lock's word.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn of(identity: u64) -> Self {
        Self {
            worker: u32::from(identity as u16).wrapping_sub(1),
            generation: (identity >> 32) as u32,
        }
    }
}

/// How the owner acquired a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Acquired {
    /// The last owner has unlocked it, or there was none.
    Clean,
    /// The last owner died, or a panic ended its hold. What the lock protects may be half changed.
    Recovered {
        /// Who it was.
        from: Owner,
        /// What it had said it was doing; 0 if nothing.
        note: u64,
    },
}
