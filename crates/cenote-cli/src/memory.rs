//! The kind of memory that a new pool is made for.

use std::path::Path;

use cenote::{Coherent, Delegated, Kind, Noncoherent, Options, Pool, Stat};

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
    pub fn kind(self) -> Kind {
        match (self.noncoherent, self.delegated) {
            (_, true) => Kind::Delegated,
            (true, false) => Kind::Noncoherent,
            (false, false) => Kind::Coherent,
        }
    }
}

/// Creates a pool for a kind of memory. Returns its figures, even if this user may not open the pool again.
pub fn create(kind: Kind, path: &Path, options: &Options) -> cenote::Result<Stat> {
    match kind {
        Kind::Coherent => Pool::<Coherent>::create(path, options)?.stat(),
        Kind::Noncoherent => Pool::<Noncoherent>::create(path, options)?.stat(),
        Kind::Delegated => Pool::<Delegated>::create(path, options)?.stat(),
    }
}

/// How many bytes a pool for a kind of memory has room for on the device at a path; `None` if there is no device.
pub fn device_room(kind: Kind, path: &Path, options: &Options) -> cenote::Result<Option<u64>> {
    match kind {
        Kind::Coherent => cenote::store::device_room::<Coherent>(path, options),
        Kind::Noncoherent => cenote::store::device_room::<Noncoherent>(path, options),
        Kind::Delegated => cenote::store::device_room::<Delegated>(path, options),
    }
}
