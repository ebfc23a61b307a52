//! What cases share: pools, seeds, guidelines by name, and the check that every byte is accounted for.

#[path = "../common/mod.rs"]
mod shared;

use std::collections::BTreeMap;

use cenote::memory::Mapped;
use cenote::{Guidelines, Options, Pool};

pub use shared::seed;

/// The expected content of a map.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// All guidelines.
pub fn p3() -> Guidelines {
    Guidelines::P3
}

/// All but speculation.
pub fn replicated() -> Guidelines {
    Guidelines {
        speculate: false,
        ..Guidelines::P3
    }
}

/// Conversion only.
pub fn sp() -> Guidelines {
    Guidelines::SP
}

/// In place.
pub fn in_place() -> Guidelines {
    Guidelines::IN_PLACE
}

/// Small at first, so that pools grow too.
pub fn options(guidelines: Guidelines) -> Options {
    Options {
        size: 1 << 20,
        max: 4 << 30,
        guidelines,
        ..Options::default()
    }
}

/// A new pool, in a folder that is deleted when it is dropped.
pub fn pool<M: Mapped>(guidelines: Guidelines) -> (tempfile::TempDir, Pool<M>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options(guidelines)).unwrap();
    (folder, pool)
}

/// Checks that nothing is damaged or leaked, and that the figures add up.
pub fn assert_clean<M: Mapped>(pool: &Pool<M>) {
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    let sum = report.reachable_bytes
        + report.free_bytes
        + report.retired_bytes
        + report.held_bytes
        + report.overhead_bytes
        + report.leaked_bytes;
    assert_eq!(sum, report.committed_bytes, "{report:#?}");
}
