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

pub mod alloc;
pub mod commit;
pub mod death;
pub mod format;
pub mod group;
pub mod hosts;
pub mod instance;
pub mod lock;
pub mod names;
pub mod reclaim;
pub mod tasks;

use crate::memory::Memory;

pub use instance::process::Pod;
pub use instance::worker::{Pin, Worker};

/// What folders of the pod are told of those above them.
pub fn inner_hooks<M: Memory>() -> instance::hooks::Inner<M> {
    instance::hooks::Inner {
        make_room: reclaim::room::make_room,
        retire: |worker, actor, object| {
            reclaim::retire::ensure_room_for(worker, actor, 1)?;
            reclaim::retire::retire(worker, actor, object)
        },
        recover_dead: |worker| commit::recovery::recover_dead(worker).map(drop),
        finish_record: |worker, actor| {
            commit::recovery::finish_record(worker, actor, &mut commit::recovery::Recovered::default())
        },
    }
}
