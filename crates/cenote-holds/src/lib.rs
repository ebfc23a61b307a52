//! Locks of a pool for programs in which a lock is an object that any thread may use, as in C: reader-writer locks, and
//! those that cover regions.
//!
//! | file | concept |
//! |---|---|
//! | `pool` | a pool that the process has open, and a lock in it |
//! | `thread` | what a thread has open and holds; made when it first needs it, ended with it |
//! | `entry` | one lock, as one thread has it: the handle, and the hold |
//! | `cancel` | threads are not cancelled within calls |
//! | `deadline` | moments of the system's clocks |
//! | `refusal` | why a thread does not get a lock, as text and as a value of `errno` |
//!
//! The library's handles belong to a thread, and its guards to a handle. Here each thread keeps its handles by the
//! number of the lock, with the hold if it has one. So a lock can be taken by one call and released by another, and any
//! thread may do so. The layers below the store are used, as a thread may hold more locks than one worker can: it has
//! as many workers as that takes.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod cancel;
mod deadline;
mod entry;
mod pool;
mod refusal;
mod thread;

pub use cancel::uncancelled;
pub use deadline::{Deadline, Wait};
pub use entry::Access;
pub use pool::{Lock, OpenPool, Which};
pub use refusal::{Refusal, errno_of};
pub use thread::{Thread, forget, with};
