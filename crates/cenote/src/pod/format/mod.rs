//! What the bytes of a pool mean: the layout, the superblock, records, frames and objects. Nothing here waits or
//! decides. Pages: `docs/pool-format.md`.

pub mod actor;
pub mod block;
pub mod chunk;
pub mod class;
pub mod entry;
pub mod geometry;
pub mod host_entry;
pub mod lock_kind;
pub mod lock_slots;
pub mod lock_wait;
pub mod record;
pub mod recovery_log;
pub mod reserve;
pub(in crate::pod) mod shortage;
pub mod superblock;
