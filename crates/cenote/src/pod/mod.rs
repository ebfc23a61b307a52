//! The pod: a pool's superblock, the instances that share it, their liveness, allocation, reclamation and recovery.
//!
//! A folder uses itself and those above it in this table; `cargo xtask tidy` checks that. What a lower one needs of a higher one it is handed
//! by [`instance::hooks`].
//!
//! | folder | what it holds | protocol page |
//! |---|---|---|
//! | `format` | what the bytes mean: layout, superblock, records, frames, objects, chunks of lists | `docs/pool-format.md` |
//! | `instance` | processes and workers: joining, who lives, epochs; crash points | `docs/protocols/instances.md` |
//! | `lock` | the lock within the pool, and the redo log of what is changed under it | `docs/protocols/allocation.md` |
//! | `alloc` | frames, blocks, slabs, the heap, auxiliary allocations | `docs/protocols/allocation.md` |
//! | `reclaim` | retired lists, collection, taking over, flush rounds, room in a full pool | `docs/protocols/reclamation.md` |
//! | `commit` | operations that a crash cannot tear, recovery, how workers come and go | `docs/protocols/recovery.md` |
//! | `names` | names | `docs/protocols/recovery.md` |
//! | `group` | who is there, who died, in order | `docs/protocols/groups.md` |
//! | `death` | noticing deaths, telling other hosts | `docs/protocols/detection.md` |
//! | `hosts` | agents, monitors, fences, the executing host | `docs/protocols/hosts.md` |
//! | `tasks` | work that outlives its workers | `docs/protocols/tasks.md` |

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

/// What folders of the pod are notified of those above them.
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
