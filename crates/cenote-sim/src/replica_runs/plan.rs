//! What a run is.

use cenote_replica::client::Caching;
use cenote_replica::view::NodeId;
use cenote_ycsb::{Chooser, Mix, Workload};

use super::place::Place;
use crate::profile::ProfileError;
use crate::rdma::{MILLISECOND, RdmaProfile, Time};

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The map.
    Shipped(Caching),
    /// The map, with replicas changed one after another (FUSEE-CR).
    Sequential,
    /// The map, with each object allocated by a node.
    NodeAllocated,
    /// The index at a metadata server (Clover's shape).
    MetadataServer,
    /// Locks in remote memory (pDPM-Direct's shape).
    Locks {
        /// Whether a read locks.
        reads_lock: bool,
        /// How many locks there are at most; else one for each bucket.
        locks: u64,
    },
}

impl System {
    /// The map as it is.
    pub const OURS: Self = Self::Shipped(Caching {
        entries: 1 << 14,
        invalid_max: 50,
    });
    /// The map without a cache (FUSEE-NC).
    pub const UNCACHED: Self = Self::Shipped(Caching {
        entries: 0,
        invalid_max: 0,
    });
    /// Locks that reads take, too.
    pub const LOCKS: Self = Self::Locks {
        reads_lock: true,
        locks: u64::MAX,
    };
    /// Locks that reads do not take.
    pub const LOCKS_FOR_CHANGES: Self = Self::Locks {
        reads_lock: false,
        locks: u64::MAX,
    };

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::UNCACHED => "no cache",
            Self::Shipped(_) => "cenote",
            Self::Sequential => "sequential",
            Self::NodeAllocated => "allocation at nodes",
            Self::MetadataServer => "metadata server",
            Self::Locks { reads_lock: true, .. } => "remote locks",
            Self::Locks {
                reads_lock: false, ..
            } => "remote locks, reads without",
        }
    }
}

/// What clients do in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A mix of actions.
    Mix(Mix, Chooser),
    /// They remove records, each its own.
    Remove,
}

impl From<Workload> for Work {
    fn from(workload: Workload) -> Self {
        Self::Mix(workload.mix(), workload.chooser())
    }
}

/// Clients that come later and go earlier than the others: those from a number on, and when, from the begin of the
/// phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// How many are there from the begin to the end.
    pub after: u32,
    /// When the others come.
    pub come: Time,
    /// When they go.
    pub go: Time,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What is done.
    pub work: Work,
    /// How long before it counts.
    pub warm: Time,
    /// How long it counts.
    pub run: Time,
    /// How long a slice is of which operations are counted each on its own.
    pub slice: Time,
    /// Whether some clients are there for a part of it.
    pub late: Option<Late>,
    /// A node that dies, and when, from the begin of the phase.
    pub death: Option<(NodeId, Time)>,
}

impl Phase {
    /// One of so many milliseconds, and as many before.
    pub fn new(work: impl Into<Work>, milliseconds: u64) -> Self {
        Self {
            work: work.into(),
            warm: milliseconds * MILLISECOND,
            run: milliseconds * MILLISECOND,
            slice: milliseconds * MILLISECOND,
            late: None,
            death: None,
        }
    }
}

/// A run: records are loaded, then come the phases.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which store.
    pub system: System,
    /// What things cost.
    pub profile: RdmaProfile,
    /// Nodes, copies, records.
    pub place: Place,
    /// Clients.
    pub clients: u32,
    /// Bytes of a key, 8, and its value.
    pub bytes: u32,
    /// Whether clients reclaim memory meanwhile.
    pub reclaims: bool,
    /// What is done.
    pub phases: Vec<Phase>,
    /// Everything is drawn from it.
    pub seed: u64,
}

impl Plan {
    /// As in section 6.3 of the FUSEE paper: two nodes, one copy of the index and two of the data, keys and values of
    /// 1,024 bytes.
    pub fn new(system: System, clients: u32, records: u64) -> Result<Self, ProfileError> {
        Ok(Self {
            system,
            profile: RdmaProfile::rdma()?,
            place: Place {
                nodes: 2,
                index_copies: 1,
                data_copies: 2,
                records,
            },
            clients,
            bytes: 1024,
            reclaims: true,
            phases: Vec::new(),
            seed: 1,
        })
    }

    /// So many copies of everything.
    #[must_use]
    pub fn copies(mut self, copies: u32) -> Self {
        self.place.index_copies = copies;
        self.place.data_copies = copies;
        self
    }

    /// With a phase more.
    #[must_use]
    pub fn then(mut self, phase: Phase) -> Self {
        self.phases.push(phase);
        self
    }
}
