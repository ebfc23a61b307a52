//! The pod: a pool's superblock, the instances that share it, their liveness, allocation, reclamation and recovery.
//!
//! | file | concept | protocol page |
//! |---|---|---|
//! | `geometry`, `superblock`, `record` | where everything is and what it means | `docs/pool-format.md` |
//! | `process`, `worker`, `lives` | joining, leaving, who lives | `docs/protocols/instances.md` |
//! | `bell`, `relay`, `watch`, `log` | noticing deaths, waking those who wait, what was recovered | `docs/protocols/detection.md` |
//! | `group` | groups: who is there, who died, in order | `docs/protocols/groups.md` |
//! | `host`, `agency`, `fence`, `monitor` | hosts: their agents, who watches them, how they are fenced | `docs/protocols/hosts.md` |
//! | `lock`, `redo`, `buddy`, `block`, `units`, `runs`, `growth`, `holes` | blocks of units | `docs/protocols/allocation.md` |
//! | `class`, `slab`, `abandoned`, `heap` | objects | `docs/protocols/allocation.md` |
//! | `epoch`, `retire`, `collect`, `takeover`, `vacant`, `room`, `flush`, `recycle`, `backlog` | reclamation | `docs/protocols/reclamation.md` |
//! | `word_cache` | what words of an index held lately | `docs/protocols/reclamation.md` |
//! | `drain` | what the dead have left in caches | `docs/protocols/recovery.md` |
//! | `publish`, `recovery` | operations that a crash cannot tear | `docs/protocols/recovery.md` |
//! | `slots` | which locks of users a worker holds or waits for | `docs/protocols/locks.md` |
//! | `directory`, `rename` | names | `docs/protocols/recovery.md` |
//! | `tasks` | work that outlives its workers | `docs/protocols/tasks.md` |
//! | `crash` | the named crash points | `docs/protocols/recovery.md` |

pub mod abandoned;
pub mod actor;
pub mod advance;
pub mod agency;
mod attach;
pub mod auxiliary;
pub mod backlog;
mod beats;
pub mod bell;
pub mod block;
pub mod buddy;
pub mod chunk;
pub mod class;
mod class_cache;
mod classes;
pub mod collect;
pub(crate) mod contention;
pub mod crash;
pub mod directory;
mod drain;
pub mod epoch;
pub mod failures;
pub mod fence;
pub mod flush;
pub mod geometry;
pub mod group;
pub mod growth;
pub mod heap;
mod hints;
pub mod holes;
pub mod hooks;
pub mod host;
mod join;
pub mod limits;
mod lives;
pub mod lock;
pub mod log;
pub mod monitor;
pub mod process;
mod prospect;
pub mod publish;
pub mod record;
pub mod recovery;
pub mod recycle;
pub mod redo;
pub mod relay;
pub mod rename;
pub mod reserve;
pub mod retire;
pub mod room;
mod runs;
pub mod seat;
mod shortage;
pub mod slab;
pub mod slots;
pub mod superblock;
mod taken;
pub mod takeover;
mod takes;
pub mod tasks;
pub mod units;
pub mod vacant;
pub mod warden;
pub mod watch;
pub mod word_cache;
pub mod worker;

use crate::memory::Memory;

pub use process::Pod;
pub use worker::{Pin, Worker};

/// What folders of the pod are told of those above them.
pub fn inner_hooks<M: Memory>() -> hooks::Inner<M> {
    hooks::Inner {
        make_room: room::make_room,
        retire: |worker, actor, object| {
            retire::ensure_room_for(worker, actor, 1)?;
            retire::retire(worker, actor, object)
        },
        recover_dead: |worker| recovery::recover_dead(worker).map(drop),
        finish_record: |worker, actor| {
            recovery::finish_record(worker, actor, &mut recovery::Recovered::default())
        },
    }
}
