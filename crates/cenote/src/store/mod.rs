//! The store: pools opened by address, named maps, figures and checks.

mod agent;
mod audit;
mod group;
mod options;
mod pool;
mod stat;

pub use audit::{FsckReport, MapReport, audit};
pub use group::{Events, Group, GroupSize, Listener, Membership, NextEvent};
pub use options::{Options, parse_size};
pub use pool::{Map, Ordered, Pool, kind_of};
pub use stat::{GroupStat, InstanceStat, LaggardStat, MapStat, RecoveryStat, Stat};
