//! What errors name: causes that a caller can tell apart, each with its text.
//!
//! An [`Error`](crate::Error) says what went wrong; these enums say why, or of what.

use crate::pod::format::lock_kind::LockKind;

/// Why a file is no pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Foreign {
    /// It is shorter than a superblock.
    #[error("it is too short")]
    TooShort,
    /// It begins with something else.
    #[error("it does not begin with the magic number")]
    OtherMagic,
}

/// Why a host cannot do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Another machine is the host's home.
    #[error(
        "it is up on another machine, or was before this one was started, or its processes use another lock file; \
         no two machines may have the same id, and a machine that failed must be fenced first"
    )]
    Elsewhere,
    /// This machine cannot be any host's home.
    #[error(
        "this machine cannot be told from others, as /proc/sys/kernel/random/boot_id or its lock file cannot be read"
    )]
    Unidentified,
    /// It has been suspected.
    #[error("it is being fenced: its heartbeats were missed")]
    Suspected,
    /// The leaving agent finds that its host is being fenced.
    #[error("it is being fenced")]
    Fenced,
    /// While a process joined, its host began to be fenced, or its agent to leave.
    #[error("it is being fenced, or its agent is leaving")]
    Closing,
    /// An agent starts while the last generation of its host ends.
    #[error("it is being fenced, or its agent is just leaving; start the agent again when that is over")]
    Ending,
    /// It was fenced while its agent started.
    #[error("it was fenced while its agent started; start it again")]
    FencedMeanwhile,
    /// Its agent has left, and was asked for something.
    #[error("its agent has left")]
    AgentLeft,
    /// It has no agent.
    #[error(
        "it has no agent on this pool; start `cenote agent`, or give host 0 if the machine is no part of a pod"
    )]
    NoAgent,
    /// It has an agent already.
    #[error("it has an agent already; one is enough, and a monitor needs a host id of its own")]
    HasAgent,
    /// Another agent of it was faster.
    #[error("another agent was faster, or the host was fenced; look at `cenote stat`")]
    AgentWasFaster,
    /// An agent cannot have the id 0.
    #[error("that is the id of a machine that is no part of a pod; ids of hosts begin with 1")]
    NoPod,
    /// A monitor cannot have the id 0.
    #[error("a monitor needs a host id of its own, from 1 on")]
    MonitorWithoutId,
    /// A process of a pod gave no host id.
    #[error("the pool is a pod's; say which host this is, by --host, CENOTE_HOST or /etc/cenote/host")]
    IdNeeded,
    /// A pool was to be created by a host of a pod.
    #[error("pools are created with host 0; then start the agents of the hosts that shall share it")]
    AtCreation,
    /// Processes without a host id have the pool open.
    #[error("processes without a host's id have the pool open; end them, or start them anew with --host")]
    OthersWithoutId,
    /// No server executes exchanges yet.
    #[error(
        "no host executes this pool's exchanges; start a monitor first: `cenote monitor --etcd ENDPOINT --fence COMMAND`"
    )]
    NoServer,
    /// The pool is for fewer hosts.
    #[error("the pool has no room for such a host; `cenote create --hosts` says for how many")]
    NoRoom,
}

/// What bounds a pool that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Shortage {
    /// The file system.
    #[error("its file system has no space left")]
    FileSystem,
    /// The file-size limit of this process.
    #[error("this process may not make its file larger: EFBIG, see `ulimit -f`; another one might")]
    FileSizeLimit,
    /// The object is larger than the pool's maximum.
    #[error("it is larger than the pool may ever be")]
    LargerThanPool,
    /// The pool has its maximum size.
    #[error("the pool is at its maximum size")]
    AtMaximum,
    /// The pool's maximum size is nearer than what is needed.
    #[error("the pool may not grow by that much")]
    NearMaximum,
    /// A map that is moving has used its spare lines.
    #[error("its maximum size is reached, and a map that is moving has no spare line left")]
    SpareLines,
    /// A page of an ordered map cannot hold its keys.
    #[error("keys that are this long and alike do not fit a page")]
    Page,
    /// The arena of an index that is made for comparison.
    #[cfg(feature = "baselines")]
    #[error("the baseline was created for fewer records")]
    Records,
    /// The server of a map by messages.
    #[cfg(feature = "baselines")]
    #[error("the server had no room for a record")]
    Server,
}

/// A table of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Table {
    /// Of processes, or of one host's.
    #[error("process places")]
    Processes,
    /// Of workers.
    #[error("worker places")]
    Workers,
    /// Of names.
    #[error("directory entries")]
    Names,
    /// Of clients of a map by messages.
    #[cfg(feature = "baselines")]
    #[error("places of clients")]
    Clients,
    /// Of servers of a map by messages.
    #[cfg(feature = "baselines")]
    #[error("places of servers")]
    Servers,
}

impl Table {
    /// The option of `cenote create` that sets its size, without the two dashes.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Workers => "workers",
            Self::Names => "names",
            #[cfg(feature = "baselines")]
            Self::Clients => "clients",
            #[cfg(feature = "baselines")]
            Self::Servers => "servers",
        }
    }
}

/// What has a name in a pool. Displayed as a noun without an article.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Structure {
    /// A map of either kind.
    #[error("map")]
    Map,
    /// What can be dropped: a map of either kind, an object store, a task list or a group.
    #[error("map, object store, task list or group")]
    Droppable,
    /// A map without an order.
    #[error("hash map")]
    HashMap,
    /// A map with an order.
    #[error("ordered map")]
    OrderedMap,
    /// An object store.
    #[error("object store")]
    Objects,
    /// A task list.
    #[error("task list")]
    Tasks,
    /// A lock of any kind, or an array of them.
    #[error("lock")]
    Lock,
    /// A lock of this kind.
    #[error("{}", .0.noun())]
    LockOf(LockKind),
    /// An array of locks.
    #[error("array of locks")]
    LockArray,
    /// A directory lock.
    #[error("directory lock")]
    DirectoryLock,
    /// A group.
    #[error("group")]
    Group,
    /// An index made for comparison.
    #[error("index made for comparison")]
    Baseline,
}

impl Structure {
    /// How one is made, where there is no method that opens or creates it.
    pub(crate) fn making(self) -> &'static str {
        match self {
            Self::Group => "; make it with `cenote group create`",
            _ => "",
        }
    }

    fn article(self) -> &'static str {
        match self {
            Self::OrderedMap | Self::Objects | Self::LockArray | Self::Baseline => "an",
            _ => "a",
        }
    }
}

/// What a name turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Found {
    /// This.
    #[error("{} {}", .0.article(), .0)]
    Is(Structure),
    /// Anything but what was asked for.
    #[error("no {0}")]
    IsNot(Structure),
    /// Something of a newer version.
    #[error("of a kind that this version does not know")]
    Unknown,
}

/// What a new pool would overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Occupant {
    /// A pool.
    #[error("there is a pool on this device already")]
    Pool,
    /// Something else.
    #[error("this device is not empty, and what it holds is no pool")]
    Unknown,
}

/// What is in the way of a repair, which needs the pool alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepairObstacle {
    /// Other processes.
    #[error("other processes have the pool open; end them first")]
    Processes,
    /// Other threads of this process.
    #[error("other threads of this process use the pool; end them first")]
    Threads,
    /// A host.
    #[error("a host of the pool's pod is up; end its agent first")]
    Hosts,
}

/// Things that are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Counted {
    /// Tasks of a list.
    #[error("task")]
    Task,
    /// Locks of an array.
    #[error("lock")]
    Lock,
}

/// A setting or an argument that can have a wrong value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Setting {
    /// A size in words, as of [`parse_size`](crate::parse_size).
    #[error("a size")]
    Size,
    /// [`Options::size`](crate::Options::size).
    #[error("the size of the pool")]
    PoolSize,
    /// One of the sizes of [`Options`](crate::Options).
    #[error("the size of a table or of the pool")]
    Sizes,
    /// [`Options::host`](crate::Options::host).
    #[error("the host's id")]
    Host,
    /// The host's id in the environment.
    #[error("the environment variable CENOTE_HOST")]
    HostVariable,
    /// The host's id in its file.
    #[error("the file that gives the host's id")]
    HostFile,
    /// What fences hosts.
    #[error("the fence of a monitor")]
    Fence,
    /// A [`Plan`](crate::Plan).
    #[error("the plan of a task list")]
    Plan,
    /// How many locks an array has.
    #[error("the number of locks of an array")]
    LockCount,
    /// How many nodes a directory lock has.
    #[error("the number of nodes of a directory lock")]
    LockNodes,
    /// How many regions a directory lock covers.
    #[error("the number of regions of a directory lock")]
    LockRegions,
    /// How large an object is, or its metadata.
    #[error("the size of an object")]
    ObjectSize,
    /// The shape of a map by messages.
    #[cfg(feature = "baselines")]
    #[error("the number of servers or clients")]
    Shape,
}
