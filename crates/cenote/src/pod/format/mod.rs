//! What the bytes of a pool mean: the layout, the superblock, records, frames and objects. Nothing here waits or decides. Pages:
//! `docs/pool-format.md`.

pub mod actor;
pub mod block;
pub mod chunk;
pub mod class;
pub mod form;
pub mod geometry;
pub mod host;
pub mod lock_wait;
pub mod log;
pub mod record;
pub mod reserve;
pub(in crate::pod) mod shortage;
pub mod slots;
pub mod superblock;
