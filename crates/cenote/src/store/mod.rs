//! The store: pools opened by address, named maps and locks, figures and checks.

mod agent;
mod audit;
mod locks;
mod options;
mod pool;
mod stat;
pub mod supervise;
mod tasks;

pub use audit::{FsckReport, MapReport, TasksReport, audit};
pub use locks::{Mutex, Named, QueueMutex, RwLock};
pub use options::{Options, parse_size};
pub use pool::{Map, Ordered, Pool, kind_of};
pub use stat::{InstanceStat, LaggardStat, LockStat, MapStat, Stat, TasksStat};
pub use tasks::Tasks;
