//! The store: pools opened by address, named maps, figures and checks.

mod agent;
mod audit;
mod fence_command;
mod host_agent;
mod host_id;
mod options;
mod pool;
mod stat;

pub use crate::pod::host::ALONE;
pub use audit::{FsckReport, MapReport, audit};
pub use host_agent::{AgentStatus, HostAgent, Reporter, Watch};
pub use host_id::{HOST_FILE, HOST_FILE_VARIABLE, HOST_VARIABLE, host_id};
pub use options::{Options, parse_size};
pub use pool::{Map, Ordered, Pool, has_hosts, kind_of};
pub use stat::{HostStat, InstanceStat, LaggardStat, MapStat, Stat};
