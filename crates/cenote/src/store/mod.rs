//! The store: pools opened by address, named maps, figures and checks.

mod agent;
mod audit;
mod options;
mod pool;
mod stat;
pub mod supervise;
mod tasks;

pub use audit::{FsckReport, MapReport, TasksReport, audit};
pub use options::{Options, parse_size};
pub use pool::{Map, Ordered, Pool, kind_of};
pub use stat::{InstanceStat, LaggardStat, MapStat, Stat, TasksStat};
pub use tasks::Tasks;
