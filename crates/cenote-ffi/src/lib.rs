//! The C interface: pools, and reader-writer locks in them that survive their owners.
//!
//! | file | concept |
//! |---|---|
//! | `boundary` | what crosses to C: `errno` values, the text of the last error, no panic |
//! | `object` | objects that C has pointers to |
//! | `pool` | `cenote_pool_*` |
//! | `rwlock` | `cenote_rwlock_*` |
//!
//! The header is `include/cenote.h`; `docs/c-interface.md` has an example. All functions but `cenote_last_error` return 0 or a value of `errno`,
//! as those of POSIX's threads do, and do not set `errno`. Any thread may use any object. A thread takes a place in the pool with its first lock there, and
//! gives it up when it ends.
//!
//! **A fork.** In the child every call with an object of the parent's is `ESTALE`, but for closing. The child opens the pool itself.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod boundary;
mod object;
mod pool;
mod rwlock;

pub use boundary::cenote_last_error;
pub use pool::{
    CenoteOptions, CenotePool, cenote_pool_close, cenote_pool_create, cenote_pool_open,
    cenote_pool_open_or_create,
};
pub use rwlock::{
    CenoteFormer, CenoteRwlock, cenote_rwlock_close, cenote_rwlock_consistent, cenote_rwlock_former,
    cenote_rwlock_note, cenote_rwlock_open, cenote_rwlock_rdlock, cenote_rwlock_timedrdlock,
    cenote_rwlock_timedwrlock, cenote_rwlock_tryrdlock, cenote_rwlock_trywrlock, cenote_rwlock_unlock,
    cenote_rwlock_wrlock,
};
