//! The store: pools opened by path, named maps, locks and task lists, groups, figures and checks.

mod audit;
mod audit_locks;
mod background;
mod device;
mod failover;
mod fence_command;
mod group;
mod host_agent;
mod host_id;
mod hosts;
mod lock_agent;
mod locks;
mod options;
mod passes;
mod pool;
mod reader;
mod relaying;
mod rwlock;
mod stat;
pub mod supervise;
mod tasks;
mod trim;

pub use crate::pod::format::geometry::ALONE;
pub use crate::pod::format::lock_wait::{LockHolder, LockWait};
pub use crate::pod::instance::failures::Failure;
pub use audit::{FsckReport, MapReport, TasksReport, audit};
pub use device::device_room;
pub use failover::FailoverThread;
pub use group::{Events, Group, GroupSize, Listener, Membership, NextEvent};
pub use host_agent::{AgentStatus, HostAgent, Leave, MonitorOptions, MonitorRole, Reporter};
pub use host_id::{HOST_FILE, HOST_FILE_VARIABLE, HOST_VARIABLE, host_id};
pub use locks::{Condvar, Locks, Mutex, Named, QueueMutex, RawRwLock, Semaphore, SpinMutex};
pub use options::{Options, parse_size};
pub use pool::{Map, Ordered, Pool, has_hosts, kind_of, pool_id};
pub use reader::{MapReader, OrderedReader, Reader};
pub use relaying::Peers;
pub use rwlock::{
    RegionsLock, RegionsReadGuard, RegionsWriteGuard, RwLock, RwLockBuilder, RwLockReadGuard,
    RwLockWriteGuard,
};
pub use stat::{
    DamagedStat, GroupStat, HeldBackStat, HostStat, InstanceStat, LaggardStat, LockStat, MapStat,
    RecoveryStat, Stat, TasksStat, stat,
};
pub use tasks::Tasks;
pub use trim::TrimReport;
