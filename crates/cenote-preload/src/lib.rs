//! `libcenote_preload.so`: replaces `pthread_rwlock_*` for process-shared locks in unmodified programs.
//!
//! | file | concept |
//! |---|---|
//! | `calls` | the functions that are replaced |
//! | `mark` | what a lock of ours has in its 56 bytes |
//! | `numbers` | which locks of the pool's array are in use |
//! | `state` | the pool, as this process has it open; forks |
//! | `next` | libc's functions |
//! | `settings` | environment variables |
//! | `log` | lines for people |
//!
//! A lock that a program initialises as process-shared gets the number of a lock in an array of the pool. Each of the
//! other functions looks at one word of the lock it is given, and passes it on to libc if that is not our mark. So
//! locks that are private, or statically initialised, stay libc's. All programs that share a lock must have this
//! library loaded, and the same pool.
//!
//! **A crash** of a program leaves the lock to the next that asks. POSIX's reader-writer locks have no way to tell that
//! one: `CENOTE_OWNER_DEAD` says what to do. `docs/c-interface.md` is the page for users.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod calls;
mod log;
mod mark;
mod next;
mod numbers;
mod settings;
mod state;

pub use calls::{
    pthread_rwlock_clockrdlock, pthread_rwlock_clockwrlock, pthread_rwlock_destroy, pthread_rwlock_init,
    pthread_rwlock_rdlock, pthread_rwlock_timedrdlock, pthread_rwlock_timedwrlock, pthread_rwlock_tryrdlock,
    pthread_rwlock_trywrlock, pthread_rwlock_unlock, pthread_rwlock_wrlock,
};
