//! What a worker's thread remembers of reclamation, in its process's memory. Its use is in `pod/reclaim`.

use std::cell::Cell;

use super::recycle::Recycler;
use crate::memory::Memory;

/// See the [module documentation](self).
pub struct ReclaimState {
    /// Objects retired since the worker collected.
    pub(in crate::pod) retired_since: Cell<u32>,
    /// Bytes retired since, about.
    pub(in crate::pod) retired_bytes_since: Cell<u64>,
    /// The highest least announcement that it has seen: what was reclaimable stays so, even if an older epoch is
    /// announced later.
    pub(in crate::pod) least_seen: Cell<u64>,
    /// Scans for reclaimable entries.
    pub(in crate::pod) scans: Cell<u32>,
    /// Where the lists of other workers ended in the last scan.
    pub(in crate::pod) tails_seen: Cell<Vec<u64>>,
    /// Holds of the own list; see `takeover`.
    pub(in crate::pod) holds: Cell<u32>,
    /// The version of the own list that is known.
    pub(in crate::pod) list_version: Cell<u64>,
    /// Whether its record was brought into order.
    pub(in crate::pod) is_tidy: Cell<bool>,
    /// Whether the place came with a list that was not empty, and that still is not.
    pub(in crate::pod) has_adopted: Cell<bool>,
    /// Entries of its retired list that may be allocated again.
    pub(in crate::pod) recycler: Recycler,
}

impl ReclaimState {
    /// Of a worker that has retired nothing, and whose list has this version.
    pub(super) fn new<M: Memory>(list_version: u64) -> Self {
        Self {
            retired_since: Cell::new(0),
            retired_bytes_since: Cell::new(0),
            least_seen: Cell::new(0),
            scans: Cell::new(0),
            tails_seen: Cell::default(),
            holds: Cell::new(u32::from(!M::COHERENT)),
            list_version: Cell::new(list_version),
            is_tidy: Cell::new(false),
            has_adopted: Cell::new(false),
            recycler: Recycler::default(),
        }
    }
}
