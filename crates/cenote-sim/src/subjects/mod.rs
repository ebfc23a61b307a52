//! Subjects: parts of the library, put to work on the simulated machine. A subject says what its processes do and what
//! they write down; the checkers judge what was written.

mod allocator;
mod assemble;
mod baseline;
mod bulk;
mod condvar;
mod crowded;
mod death_notices;
mod directory_locks;
mod drop_times;
mod drops;
mod epochs;
pub(crate) mod gathering;
mod group;
mod group_drops;
mod hash;
mod holding;
mod hosts;
mod lease;
pub mod lock_service;
mod locks;
mod log;
mod machines;
mod messages;
mod names;
mod objects;
mod observers;
mod ordered;
mod own;
pub mod pool;
mod removal;
mod repairs;
mod second_processes;
mod semaphore;
mod shared_lock;
mod sherman;
mod slots;
mod tasks;
mod trim;
mod words;

pub use log::{Inner, Log};
pub use own::{Index, Makes, OwnIndex};

use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::baseline::art::Art;
use cenote::index::baseline::btree::BTree;
use cenote::index::baseline::clht::Clht;
use cenote::index::baseline::hot::Hot;
use cenote::index::baseline::masstree::Masstree;
use cenote::pod::format::geometry::Parameters;
use cenote::sync::object::LockKind;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::check::linear::Durability;
use crate::exec::{Body, Context, SimMemory};

/// What a subject's processes run, and with what.
pub struct Scenario<const C: bool> {
    /// Makes the pool, alone.
    pub prepare: Body<C>,
    /// What each process does.
    pub body: Rc<dyn Fn(Context<C>)>,
    /// Checks everything, alone.
    pub audit: Body<C>,
    /// What they write down.
    pub log: Log,
}

/// How much work there is. Everything else is drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Hosts, each with one process.
    pub hosts: u32,
    /// Threads of each process.
    pub threads: u32,
    /// Operations of each thread.
    pub operations: u32,
    /// Which optimisations the map's handles use.
    pub guidelines: Guidelines,
    /// What data is drawn from.
    pub seed: u64,
    /// So many threads wait for each other before their first operation; 0 if none does.
    pub gathers: u32,
    /// How many processes may die.
    pub crashes: u32,
}

impl Load {
    /// How many workers each thread may have besides its own.
    fn workers_besides(self, wanted: u32) -> u32 {
        wanted.min(WORKERS_BESIDES / (self.hosts * self.threads))
    }
}

/// Workers besides one a thread, in subjects that have them.
const WORKERS_BESIDES: u32 = 36;

/// A part of the library, or an index of somebody's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The hash map on one bucket and few keys.
    Hash,
    /// The hash map on the point of growing.
    Growth,
    /// The hash map with all but its last groups moved.
    Moving,
    /// The hash map on one bucket full of slots that removed keys have left.
    Reuse,
    /// The hash map with all but its last groups moved to a smaller level.
    Shrinking,
    /// The ordered map, whose one leaf is nearly full.
    Ordered,
    /// The ordered map with keys so long that all its nodes are nearly full.
    Tree,
    /// The ordered map on the point of losing leaves; with long keys for every other seed.
    Thin,
    /// The ordered map with a full leaf below its root.
    Split,
    /// The ordered map with two leaves that a remove begins to merge.
    Merge,
    /// The same, where keys at the end go and come back: the root is lowered and raised.
    Ends,
    /// The ordered map whose last leaf comes and goes, and handles that mostly read.
    Notes,
    /// The ordered map on the point of losing and gaining leaves, by calls about several keys.
    Bulk,
    /// The hash map with values of mixed sizes, in a pool that is nearly full.
    Crowded,
    /// Frames, slabs and the pool's growth, without a map.
    Allocator,
    /// The same, and bytes of free frames are given back to the file system.
    Trim,
    /// Names that are made, found, and left half made.
    Names,
    /// Readers, and objects that are reused at once.
    Epochs,
    /// Processes that come and go.
    Instances,
    /// The same, with no more places than processes and workers: a new one takes the place of a dead one.
    Places,
    /// The same, of which some have the pool alone for a while, as who repairs it.
    Repairs,
    /// Maps and object stores that are dropped by their names.
    Drops,
    /// Groups that are dropped while others use them.
    GroupDrops,
    /// An object store.
    Objects,
    /// A task list, in three phases.
    Tasks,
    /// Spin locks.
    Spin,
    /// Mutexes.
    Mutex,
    /// Queue locks.
    Queue,
    /// Reader-writer locks.
    Rwlock,
    /// Directory locks, which processes cache together with their data.
    DirectoryLocks,
    /// A lock service and its nodes, on a network.
    LockService,
    /// Locks whose names are removed and given again.
    Removal,
    /// Semaphores.
    Semaphore,
    /// Condition variables.
    Condvar,
    /// A group whose members join, leave, and die.
    Group,
    /// Hosts of a pod: agents that send heartbeats, monitors that fence, and work on the allocator by all.
    Hosts,
    /// The same, with all workers in a group that is notified of deaths, and a lock that they share.
    DeathNotices,
    /// Hosts with a second process each, which works beside the agent and dies alone: its lines stay in a cache that
    /// others use.
    SecondProcesses,
    /// Hosts on machines with kernels of their own, and other machines that have the ids of some of them by mistake.
    Machines,
    /// The lease of the server of exchanges, and failover controllers that move it.
    Lease,
    /// Maps, a lock and a group, and observers that read the whole pool as `cenote stat` does.
    Observers,
    /// BTreeOLC with nodes of six pairs.
    BTree,
    /// CLHT.
    Clht,
    /// ARTOLC.
    Art,
    /// Masstree with nodes of four keys.
    Masstree,
    /// HOT with nodes of three entries.
    Hot,
    /// Maps by messages.
    Messages,
    /// The tree in the manner of Sherman.
    Sherman,
    /// An index that is not the library's.
    Own(OwnIndex),
}

impl Subject {
    /// All parts of the library that pools of users have. Indexes made for comparison are run by name.
    pub const ALL: [Self; 41] = [
        Self::Hash,
        Self::Growth,
        Self::Moving,
        Self::Reuse,
        Self::Shrinking,
        Self::Ordered,
        Self::Tree,
        Self::Thin,
        Self::Split,
        Self::Merge,
        Self::Ends,
        Self::Notes,
        Self::Bulk,
        Self::Crowded,
        Self::Allocator,
        Self::Trim,
        Self::Names,
        Self::Epochs,
        Self::Instances,
        Self::Places,
        Self::Repairs,
        Self::Drops,
        Self::GroupDrops,
        Self::Objects,
        Self::Tasks,
        Self::Spin,
        Self::Mutex,
        Self::Queue,
        Self::Rwlock,
        Self::DirectoryLocks,
        Self::LockService,
        Self::Removal,
        Self::Semaphore,
        Self::Condvar,
        Self::Group,
        Self::Hosts,
        Self::DeathNotices,
        Self::SecondProcesses,
        Self::Machines,
        Self::Lease,
        Self::Observers,
    ];

    /// Indexes made for comparison.
    pub const BASELINES: [Self; 7] = [
        Self::BTree,
        Self::Clht,
        Self::Art,
        Self::Masstree,
        Self::Hot,
        Self::Messages,
        Self::Sherman,
    ];

    /// An index of somebody's own.
    pub const fn own<I: Index>() -> Self {
        Self::Own(OwnIndex::of::<I>())
    }

    /// Its name, on the command line too unless it is somebody's own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Growth => "growth",
            Self::Moving => "moving",
            Self::Reuse => "reuse",
            Self::Shrinking => "shrinking",
            Self::Ordered => "ordered",
            Self::Tree => "tree",
            Self::Thin => "thin",
            Self::Split => "split",
            Self::Merge => "merge",
            Self::Ends => "ends",
            Self::Notes => "notes",
            Self::Bulk => "bulk",
            Self::Crowded => "crowded",
            Self::Allocator => "allocator",
            Self::Trim => "trim",
            Self::Names => "names",
            Self::Epochs => "epochs",
            Self::Instances => "instances",
            Self::Places => "places",
            Self::Repairs => "repairs",
            Self::Drops => "drops",
            Self::GroupDrops => "group-drops",
            Self::Objects => "objects",
            Self::Tasks => "tasks",
            Self::Spin => "spin",
            Self::Mutex => "mutex",
            Self::Queue => "queue",
            Self::Rwlock => "rwlock",
            Self::DirectoryLocks => "directory-locks",
            Self::LockService => "lock-service",
            Self::Removal => "removal",
            Self::Semaphore => "semaphore",
            Self::Condvar => "condvar",
            Self::Group => "group",
            Self::Hosts => "hosts",
            Self::DeathNotices => "death-notices",
            Self::SecondProcesses => "second-processes",
            Self::Machines => "machines",
            Self::Lease => "lease",
            Self::Observers => "observers",
            Self::BTree => "btree",
            Self::Clht => "clht",
            Self::Art => "art",
            Self::Masstree => "masstree",
            Self::Hot => "hot",
            Self::Messages => "messages",
            Self::Sherman => "sherman",
            Self::Own(index) => index.name(),
        }
    }

    /// The subject of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .chain(Self::BASELINES)
            .find(|subject| subject.name() == name)
    }

    /// The tables of its pools, for so many hosts with so many threads each.
    pub fn parameters(self, coherent: bool, hosts: u32, threads: u32) -> Parameters {
        // A worker a thread, and one for the background thread; the last place is for recovery.
        let workers_least = hosts * (threads + u32::from(!coherent)) + 1;
        // Each process may be one that begins while the kernel still holds the locks of the killed one before it.
        let workers = (2 * workers_least).max(24);
        let frames_max = match self {
            Self::Allocator | Self::Trim | Self::Epochs | Self::Hosts => 12,
            Self::DeathNotices | Self::SecondProcesses | Self::Machines => 16,
            Self::Objects => 20,
            Self::Tree | Self::Thin => 128,
            Self::Crowded | Self::Messages | Self::Sherman => 64,
            _ => 40,
        };
        Parameters {
            processes: match self {
                Self::Places => hosts,
                Self::Hosts | Self::DeathNotices => 32,
                Self::SecondProcesses | Self::Machines => 64,
                _ => 16,
            },
            workers: match self {
                Self::Moving | Self::Shrinking => workers + WORKERS_BESIDES,
                // Until they are fenced, the dead keep their places, and others begin in their stead.
                Self::Hosts | Self::DeathNotices => 96,
                Self::SecondProcesses | Self::Machines => 192,
                Self::Places => workers_least,
                _ => workers,
            },
            entries: if self == Self::Messages { 1 + hosts } else { 4 },
            ..pool::parameters(coherent, frames_max)
        }
    }

    /// Until when a call may take effect whose process died in it. A request may be carried out after its client's
    /// death.
    pub fn durability(self) -> Durability {
        match self {
            Self::Messages => Durability::Durable,
            Self::Own(index) => index.durability(),
            _ => Durability::Strict,
        }
    }

    /// The host of each process that a run begins with, for so many hosts.
    pub fn processes(self, hosts: u32) -> Vec<u32> {
        match self {
            Self::SecondProcesses | Self::Machines => (0..hosts).chain(0..hosts).collect(),
            _ => (0..hosts).collect(),
        }
    }

    /// Whether another process always begins in the place of one that dies: a pod without monitors is stuck.
    pub fn restarts(self, process: u32) -> bool {
        match self {
            Self::Hosts | Self::DeathNotices | Self::SecondProcesses | Self::Machines => {
                process < hosts::MONITORS
            }
            _ => self == Self::Lease,
        }
    }

    /// About how many steps its processes take together.
    pub fn steps(self) -> u64 {
        match self {
            Self::Epochs
            | Self::Spin
            | Self::Mutex
            | Self::Queue
            | Self::Rwlock
            | Self::Semaphore
            | Self::Condvar
            | Self::LockService
            | Self::Lease => 1 << 11,
            Self::Moving | Self::Shrinking => 1 << 13,
            _ => 1 << 14,
        }
    }

    /// What its processes do.
    pub fn scenario<const C: bool>(self, load: Load, parameters: Parameters) -> Scenario<C>
    where
        OwnIndex: Makes<C>,
    {
        match self {
            Self::Hash => hash::scenario(load, hash::Shape::Bucket, parameters),
            Self::Growth => hash::scenario(load, hash::Shape::Growing, parameters),
            Self::Moving => hash::scenario(load, hash::Shape::Moving, parameters),
            Self::Reuse => hash::scenario(load, hash::Shape::Removed, parameters),
            Self::Shrinking => hash::scenario(load, hash::Shape::Shrinking, parameters),
            Self::Instances | Self::Places => hash::scenario(load, hash::Shape::Visits, parameters),
            Self::Ordered => ordered::scenario(load, ordered::Shape::Leaf, parameters),
            Self::Split => ordered::scenario(load, ordered::Shape::Split, parameters),
            Self::Merge => ordered::scenario(load, ordered::Shape::Merge, parameters),
            Self::Ends => ordered::scenario(load, ordered::Shape::Ends, parameters),
            Self::Notes => ordered::scenario(load, ordered::Shape::Notes, parameters),
            Self::Bulk => ordered::scenario(load, ordered::Shape::Bulk, parameters),
            Self::Tree => ordered::scenario(load, ordered::Shape::Tree, parameters),
            Self::Thin => {
                let shape = match load.seed % 2 {
                    0 => ordered::Shape::Thin,
                    _ => ordered::Shape::ThinTree,
                };
                ordered::scenario(load, shape, parameters)
            }
            Self::Crowded => crowded::scenario(load, parameters),
            Self::Allocator => allocator::scenario(load, parameters),
            Self::Trim => trim::scenario(load, parameters),
            Self::Names => names::scenario(load, parameters),
            Self::Epochs => epochs::scenario(load, parameters),
            Self::Repairs => repairs::scenario(load, parameters),
            Self::Drops => drops::scenario(load, parameters),
            Self::GroupDrops => group_drops::scenario(load, parameters),
            Self::Objects => objects::scenario(load, parameters),
            Self::Tasks => tasks::scenario(load, parameters),
            Self::Spin => locks::scenario(load, LockKind::Spin, parameters),
            Self::Mutex => locks::scenario(load, LockKind::Mutex, parameters),
            Self::Queue => locks::scenario(load, LockKind::Queue, parameters),
            Self::Rwlock => locks::scenario(load, LockKind::Rw, parameters),
            Self::DirectoryLocks => directory_locks::scenario(load, parameters),
            Self::LockService => lock_service::scenario(load, parameters),
            Self::Removal => removal::scenario(load, parameters),
            Self::Semaphore => semaphore::scenario(load, parameters),
            Self::Condvar => condvar::scenario(load, parameters),
            Self::Group => group::scenario(load, parameters),
            Self::Hosts => hosts::scenario(load, parameters, hosts::Shape::Alone),
            Self::DeathNotices => hosts::scenario(load, parameters, hosts::Shape::DeathNotices),
            Self::SecondProcesses => hosts::scenario(load, parameters, hosts::Shape::SecondProcesses),
            Self::Machines => hosts::scenario(load, parameters, hosts::Shape::Machines),
            Self::Lease => lease::scenario(load, parameters),
            Self::Observers => observers::scenario(load, parameters),
            Self::BTree => baseline::scenario::<C, BTree<SimMemory<C>, 2>>(load, parameters),
            Self::Clht => baseline::scenario::<C, Clht<SimMemory<C>>>(load, parameters),
            Self::Art => baseline::scenario::<C, Art<SimMemory<C>>>(load, parameters),
            Self::Masstree => baseline::scenario::<C, Masstree<SimMemory<C>, 4>>(load, parameters),
            Self::Hot => baseline::scenario::<C, Hot<SimMemory<C>, 3>>(load, parameters),
            Self::Messages => messages::scenario(load, parameters),
            Self::Sherman => sherman::scenario(load, parameters),
            Self::Own(index) => index.scenario(load, parameters),
        }
    }
}

/// Numbers for one thread of a run.
pub(crate) fn random(seed: u64, thread: u32) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(thread).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A number below a bound.
pub(crate) fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}
