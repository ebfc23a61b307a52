//! A simulated pod, and measurements of real ones.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

pub mod campaign;
pub mod check;
pub mod clock;
pub mod detection;
pub mod exec;
pub mod lock_runs;
pub mod locks;
pub mod machine;
pub mod msi;
pub mod near_runs;
pub mod own;
pub mod policy;
pub mod profile;
pub mod rdma;
pub mod replica_runs;
pub mod reproduce;
pub mod schedule;
pub mod subjects;
pub mod sweep;
pub mod throughput;

pub use cenote_check::history;
