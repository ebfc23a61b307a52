//! The commands, one file each. `run` does a command's work; `worker` is the part that its child processes do.

pub mod agent;
pub mod bench;
pub mod cluster;
pub mod create;
pub mod del;
pub mod demo;
pub mod drop;
pub mod export;
pub mod fsck;
pub mod get;
pub mod group;
pub mod load;
pub mod lock;
pub mod lockd;
pub mod mapreduce;
pub mod memnode;
pub mod monitor;
pub mod object;
pub mod put;
pub mod remote_lock;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod scan;
pub mod sim;
pub mod soak;
pub mod stat;
pub mod torture;
pub mod trace;
pub mod trim;

pub mod worker;
