//! The C interface: pools, locks in them that survive their owners (reader-writer locks, and directory locks, which
//! cover regions of the pool), and object stores.
//!
//! | file | concept |
//! |---|---|
//! | `boundary` | what crosses to C: `errno` values, the text of the last error, no panic |
//! | `object` | objects that C has pointers to |
//! | `pool` | `cenote_pool_*` |
//! | `held` | what locks of both kinds have in common |
//! | `rwlock` | `cenote_rwlock_*` |
//! | `dlock` | `cenote_dlock_*` |
//! | `objects` | `cenote_objects_*`, `cenote_object_put`, `cenote_object_delete` |
//! | `writer` | `cenote_object_create`, `_seal`, `_abort` |
//! | `view` | `cenote_object_get`, and what a view can be asked |
//!
//! The header is `include/cenote.h`; `docs/c-interface.md` has an example. All functions but `cenote_last_error` return
//! 0 or a value of `errno`, as those of POSIX's threads do, and do not set `errno`. Any thread may use any object. A
//! thread takes a place in the pool with its first lock there, and gives it up when it ends.
//!
//! **A fork.** In the child every call with an object of the parent's is `ESTALE`, but for closing. The child opens the
//! pool itself.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod boundary;
mod dlock;
mod held;
mod object;
mod objects;
mod pool;
mod rwlock;
mod view;
mod writer;

pub use boundary::cenote_last_error;
pub use dlock::{
    CenoteDlock, cenote_dlock_clockrdlock, cenote_dlock_clockwrlock, cenote_dlock_close,
    cenote_dlock_consistent, cenote_dlock_former, cenote_dlock_note, cenote_dlock_open,
    cenote_dlock_open_or_create, cenote_dlock_rdlock, cenote_dlock_region_size, cenote_dlock_regions,
    cenote_dlock_timedrdlock, cenote_dlock_timedwrlock, cenote_dlock_tryrdlock, cenote_dlock_trywrlock,
    cenote_dlock_unlock, cenote_dlock_wrlock,
};
pub use objects::{
    CenoteObjectOptions, CenoteObjects, CenoteObjectsOptions, cenote_object_delete, cenote_object_put,
    cenote_objects_close, cenote_objects_open, cenote_objects_open_or_create,
};
pub use pool::{
    CenoteOptions, CenotePool, cenote_pool_close, cenote_pool_create, cenote_pool_open,
    cenote_pool_open_or_create,
};
pub use rwlock::{
    CenoteFormer, CenoteRwlock, cenote_rwlock_clockrdlock, cenote_rwlock_clockwrlock, cenote_rwlock_close,
    cenote_rwlock_consistent, cenote_rwlock_former, cenote_rwlock_note, cenote_rwlock_open,
    cenote_rwlock_rdlock, cenote_rwlock_timedrdlock, cenote_rwlock_timedwrlock, cenote_rwlock_tryrdlock,
    cenote_rwlock_trywrlock, cenote_rwlock_unlock, cenote_rwlock_wrlock,
};
pub use view::{CenoteObjectView, cenote_object_get, cenote_object_metadata, cenote_object_view_close};
pub use writer::{CenoteObjectWriter, cenote_object_abort, cenote_object_create, cenote_object_seal};
