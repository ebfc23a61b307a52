//! All that an index of somebody's own needs, to be written and to be run. What is re-exported here is meant to be used
//! from outside; the modules that it comes from are not.
//!
//! | to write it | |
//! |---|---|
//! | [`WordMap`] | the map: what each call promises stands there |
//! | [`Index`] | names the map's type on each memory |
//! | [`Arena`] | its memory, found by a name: eight roots, and lines that are allocated and never freed |
//! | [`Worker`] | the thread's place in the pool; an index asks it for [`mem`](Worker::mem), [`is_forked`](Worker::is_forked) and [`identity`](Worker::identity) |
//! | [`Memory`] | the memory contract; [`SyncWord`], [`OwnedWord`], [`WordLine`], [`Unpublished`] and [`Published`] are its cells, of [`LINE`]s |
//! | [`lock`] | a lock that is taken over from a dead owner, and whether an owner is dead |
//! | [`version`] | a lock and a version in one word, for nodes that are read without a lock |
//! | [`Guidelines`], [`Put`], [`Error`], [`Result`] | what goes in and what comes out |
//!
//! | to run it | |
//! |---|---|
//! | [`Subject::own`] | the index as a subject |
//! | [`Plan`] | what a run is like: [`PolicyKind`] with its [`Bounds`], [`LimitsKind`], hosts, crashes; [`Plan::new`] has usual ones |
//! | [`Plan::try_seeds`] | many runs: [`Passed`], or the first [`Failure`], shrunk |
//! | [`Plan::run`], [`Plan::replay`], [`Plan::explore`] | one [`Run`], which has [`Ended`] in some way; a [`schedule`] again; all schedules within bounds: [`Explored`] |
//! | [`Durability`] | when a call may take effect whose process died in it |
//!
//! `docs/simulator.md` says how ("Bring your own index"), and `examples/own_index` is an index that does.
//!
//! Not here, on purpose: memory that is freed and reused. What recovery and reclamation do with an object they know
//! from its kind, and only the library has kinds (`pod::instance::hooks`).

pub use cenote::index::baseline::arena::Arena;
pub use cenote::index::baseline::{WordMap, version};
pub use cenote::memory::{LINE, Memory, OwnedWord, Published, SyncWord, Unpublished, WordLine};
pub use cenote::pod::Worker;
pub use cenote::{Error, Guidelines, Put, Result};

pub use crate::campaign::{Explored, Failure, LimitsKind, Passed, Plan, PolicyKind, Result as Ended, Run};
pub use crate::check::linear::Durability;
pub use crate::policy::Bounds;
pub use crate::schedule;
pub use crate::subjects::{Index, Subject};

/// Locks that are words of an index: a worker's identity while it holds one, else 0.
pub mod lock {
    pub use cenote::pod::lock::{Held, acquire, is_gone};
}
