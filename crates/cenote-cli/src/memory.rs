//! The kind of memory that a new pool is made for.

use std::path::Path;

use cenote::{Coherent, Delegated, MemoryKind, Noncoherent, Options, Pool, Stat};

/// The kind of memory of a new pool; coherent if nothing is said.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct MemoryArgs {
    /// Make the pool for memory whose sharers' caches are not kept coherent (x86-64)
    #[arg(long)]
    noncoherent: bool,
    /// The same, for sharers that have no atomic exchange in common either: one process executes those of all
    #[arg(long, conflicts_with = "noncoherent")]
    delegated: bool,
}

impl MemoryArgs {
    /// What they say.
    pub fn kind(self) -> MemoryKind {
        match (self.noncoherent, self.delegated) {
            (_, true) => MemoryKind::Delegated,
            (true, false) => MemoryKind::Noncoherent,
            (false, false) => MemoryKind::Coherent,
        }
    }
}

/// Creates a pool for a kind of memory. Returns its figures, even if this user may not open the pool again.
pub fn create(kind: MemoryKind, path: &Path, options: &Options) -> cenote::Result<Stat> {
    match kind {
        MemoryKind::Coherent => Pool::<Coherent>::create(path, options)?.stat(),
        MemoryKind::Noncoherent => Pool::<Noncoherent>::create(path, options)?.stat(),
        MemoryKind::Delegated => Pool::<Delegated>::create(path, options)?.stat(),
    }
}

/// How many bytes a pool for a kind of memory has room for on the device at a path; `None` if there is no device.
pub fn device_room(kind: MemoryKind, path: &Path, options: &Options) -> cenote::Result<Option<u64>> {
    match kind {
        MemoryKind::Coherent => cenote::store::device_room::<Coherent>(path, options),
        MemoryKind::Noncoherent => cenote::store::device_room::<Noncoherent>(path, options),
        MemoryKind::Delegated => cenote::store::device_room::<Delegated>(path, options),
    }
}
