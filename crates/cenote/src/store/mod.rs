//! The store: pools opened by path, named maps, locks and task lists, groups, figures and checks.

mod background;
mod device;
mod downconvert_thread;
mod failover_thread;
mod fence_command;
mod fsck;
mod fsck_locks;
mod fsck_passes;
mod group;
mod host_agent;
mod host_id;
mod hosts;
mod locks;
mod monitor_options;
mod objects;
mod options;
mod pool;
mod reader;
mod relay_threads;
mod rwlock;
mod stat;
pub mod supervise;
mod tasks;
mod trim;

pub use crate::pod::format::geometry::NO_HOST;
pub use crate::pod::format::lock_wait::{LockHolder, LockWait};
pub use crate::pod::instance::failures::Failure;
pub use device::device_room;
pub use failover_thread::FailoverThread;
pub use fsck::{FsckReport, MapKind, MapReport, ObjectsReport, TasksReport, audit};
pub use group::{Events, Group, GroupSize, Listener, Membership, NextEvent};
pub use host_agent::{AgentStatus, HostAgent, Leave, MonitorRole, Reporter};
pub use host_id::{HOST_FILE, HOST_FILE_VARIABLE, HOST_VARIABLE, host_id};
pub use hosts::HostStatus;
pub use locks::{Condvar, Locks, Mutex, Named, QueueMutex, RawRwLock, Semaphore, SpinMutex};
pub use monitor_options::{MonitorHandler, MonitorOptions};
pub use objects::{ObjectView, ObjectWriter, Objects};
pub use options::{Options, parse_size};
pub use pool::{Map, Ordered, Pool, has_hosts, kind_of, pool_id};
pub use reader::{MapReader, OrderedReader, Reader};
pub use relay_threads::Peers;
pub use rwlock::{
    RegionsLock, RegionsLockBuilder, RegionsReadGuard, RegionsWriteGuard, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};
pub use stat::{
    DamagedStat, GroupStat, HeldBackStat, HostStat, InstanceStat, LaggardStat, LockStat, MapStat,
    ObjectsStat, RecoveryStat, Stat, TasksStat, stat,
};
pub use tasks::Tasks;
pub use trim::TrimReport;
