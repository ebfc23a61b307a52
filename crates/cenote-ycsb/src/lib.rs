//! YCSB workloads: which records are read, updated, inserted or scanned, in which order, from a seed.
//!
//! A benchmark asks a [`Spec`] for its [`Stream`] of [`Operation`]s and usually collects it before the clock
//! starts, so that drawing a key costs nothing while it measures:
//!
//! ```
//! use cenote_ycsb::{Spec, Workload, key_of_record};
//!
//! let spec = Spec { operations: 1_000, seed: 7, ..Spec::new(Workload::A, 10_000) };
//! let operations: Vec<_> = spec.stream().collect();
//! assert_eq!(operations.len(), 1_000);
//! let _key = key_of_record(operations[0].record);
//! ```
//!
//! - [`workload`]: the mixes A to F and Load, the choosers, and the stream of operations.
//! - [`zipf`]: zipfian ranks (Gray et al.), and the permutation that scatters them over the records.
//! - [`skewed`]: zipfian ranks of any exponent.
//! - [`trace`]: traces of caches, read from files or drawn.
//!
//! A **record** is a number: 0 to `records - 1` are loaded, later ones are inserted by the workload. A **key** is
//! what a store sees; [`key_of_record`] makes one of a record, so that neighbours in load order are not
//! neighbours in key order. YCSB does the same by hashing its "user" numbers.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

pub mod skewed;
pub mod trace;
pub mod workload;
pub mod zipf;

pub use skewed::Skewed;
pub use workload::{Action, Chooser, Mix, Operation, Spec, Stream, Workload};
pub use zipf::{Scatter, Zipfian};

/// The 8-byte key of a record. One to one (the finaliser of SplitMix64), so that no two records share a key.
#[inline]
pub const fn key_of_record(record: u64) -> u64 {
    let mut word = record.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::key_of_record;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_fixed() {
        let keys: HashSet<u64> = (0..100_000).map(key_of_record).collect();
        assert_eq!(keys.len(), 100_000);
        // A pool loaded by one version must be readable by the benchmarks of the next. The first value is the
        // first output of SplitMix64 from seed 0.
        assert_eq!(key_of_record(0), 0xe220_a839_7b1d_cdaf);
    }
}
