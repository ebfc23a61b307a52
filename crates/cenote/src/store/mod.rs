//! The store: pools opened by address, named maps and locks, figures and checks.

mod agent;
mod audit;
mod group;
mod locks;
mod options;
mod pool;
mod stat;
pub mod supervise;
mod tasks;

pub use audit::{FsckReport, MapReport, TasksReport, audit};
pub use group::{Events, Group, GroupSize, Listener, Membership, NextEvent};
pub use locks::{Mutex, Named, QueueMutex, RwLock};
pub use options::{Options, parse_size};
pub use pool::{Map, Ordered, Pool, kind_of};
pub use stat::{GroupStat, InstanceStat, LaggardStat, LockStat, MapStat, RecoveryStat, Stat, TasksStat};
pub use tasks::Tasks;
