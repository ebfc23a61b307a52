//! Litmus tests of the simulated memory itself: a few operations on a few threads, and what they may find.
//!
//! The table in `machine/mod.rs` says which faults the simulator produces, and the memory contract which it must not.
//! `litmus/faults.rs` shows a run for each of the former. `litmus/guarantees.rs` and `litmus/publication.rs` look for
//! the latter in all schedules with so many preemptions, and, since those have no evictions and no early write-backs,
//! in many random runs too. The tests that leave out a step of publication show that both searches would find
//! something.
//!
//! Each prints how many schedules it ran, or the first seed that it found
//! (`cargo test --test runs litmus -- --nocapture`).

mod buffers;
mod deaths;
mod faults;
mod guarantees;
mod harness;
mod order;
mod publication;
mod sleep;
mod slices;
