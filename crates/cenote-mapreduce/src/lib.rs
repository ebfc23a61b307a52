//! MapReduce on a pool's task list: six workloads over real files, whose workers may be killed at any instruction.
//!
//! A [`Job`] says how many tasks each phase has, what a task's result is, and how the output is made of the last
//! results. It knows nothing of pools. [`join`] has a thread do a job's tasks together with threads of any number of
//! processes; [`alone`] does them one after the other, in memory of the process. Both give the same bytes.
//!
//! Three rules ensure that: a task reads only its input and results of earlier phases; numbers that are summed up are
//! whole; every task that puts a key into the job's map puts the same value.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod alone;
mod codec;
mod error;
mod generate;
mod input;
mod job;
mod join;
mod numbers;
mod workloads;

pub use alone::{Alone, alone};
pub use error::{Error, Result};
pub use generate::generate;
pub use job::{Data, Job, places, plan};
pub use join::{Joined, join, list_of};
pub use workloads::{Spec, Workload, open, undedup};
