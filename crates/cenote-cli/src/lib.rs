//! What the `cenote` command and the benchmarks share: the YCSB workloads.

#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

pub mod ycsb;
