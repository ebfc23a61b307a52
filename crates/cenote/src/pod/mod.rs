//! The pod: a pool's superblock, the instances that share it, their liveness, allocation, reclamation and recovery.
//!
//! Folders, top first. A folder uses itself and those below it in this table; `cargo xtask tidy` checks that.
//! [`instance::hooks`] hands functions of upper folders to lower ones.
//!
//! | folder | what it holds | protocol page |
//! |---|---|---|
//! | `tasks` | work that outlives its workers | `docs/protocols/tasks.md` |
//! | `hosts` | agents, monitors, fences, the server lease | `docs/protocols/hosts.md` |
//! | `death` | noticing deaths, notifying other hosts | `docs/protocols/detection.md` |
//! | `group` | members that are there, left or died, in order | `docs/protocols/groups.md` |
//! | `names` | the directory: names of maps, locks, groups and task lists | `docs/protocols/recovery.md` |
//! | `commit` | operations that a crash cannot tear, recovery, how workers attach and detach | `docs/protocols/recovery.md` |
//! | `reclaim` | retired lists, collection, taking over, flush rounds, room in a full pool | `docs/protocols/reclamation.md` |
//! | `alloc` | frames, blocks, slabs, the heap, auxiliary allocations | `docs/protocols/allocation.md` |
//! | `lock` | the lock within the pool, and the redo log of what is changed under it | `docs/protocols/allocation.md` |
//! | `instance` | processes and workers: joining, liveness, epochs; crash points | `docs/protocols/instances.md` |
//! | `format` | what the bytes mean: layout, superblock, records, frames, objects, chunks of lists | `docs/pool-format.md` |

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

#[cfg(test)]
mod pool_for_tests;

use crate::memory::Memory;

pub use instance::process::Pod;
pub use instance::worker::{Pin, Worker};

/// The functions that [`instance::hooks`] hands to lower folders.
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
