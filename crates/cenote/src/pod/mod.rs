//! The pod: a pool's superblock, the instances that share it, their liveness, allocation, reclamation and recovery.
//!
//! | file | concept | protocol page |
//! |---|---|---|
//! | `geometry`, `superblock`, `record` | where everything is and what it means | `docs/pool-format.md` |
//! | `process` | joining, leaving, who lives | `docs/protocols/instances.md` |
//! | `host`, `agency`, `fence`, `monitor` | hosts: their agents, who watches them, how they are fenced | `docs/protocols/hosts.md` |
//! | `lock`, `redo`, `buddy`, `block`, `units` | blocks of units | `docs/protocols/allocation.md` |
//! | `class`, `slab`, `abandoned`, `heap` | objects | `docs/protocols/allocation.md` |
//! | `epoch`, `retire` | reclamation | `docs/protocols/reclamation.md` |
//! | `publish`, `recovery` | operations that a crash cannot tear | `docs/protocols/recovery.md` |
//! | `directory` | names | `docs/protocols/recovery.md` |
//! | `crash` | the named crash points | `docs/protocols/recovery.md` |

pub mod abandoned;
pub mod agency;
pub mod block;
pub mod buddy;
pub mod class;
pub mod collect;
mod contention;
pub mod crash;
pub mod directory;
pub mod epoch;
pub mod fence;
pub mod flush;
pub mod geometry;
pub mod heap;
pub mod host;
pub mod lock;
pub mod monitor;
pub mod process;
pub mod publish;
pub mod record;
pub mod recovery;
pub mod redo;
pub mod retire;
pub mod slab;
pub mod superblock;
pub mod units;
pub mod worker;

pub use process::Pod;
pub use worker::{Pin, Worker};
