//! Changes bytes of a task list while calls on tasks are made: errors, never a fault.
//!
//! `cargo fuzz run tasks` with a nightly toolchain, or
//! `cargo run --release --bin tasks -- -max_total_time=60 -max_len=16 -timeout=20` in this folder with a stable one,
//! without coverage. The first eight bytes of the input are a seed, which decides what is called and changed.
#![no_main]

use cenote_damage::aim::Part;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

mod fresh;
mod live_pool;

fuzz_target!(|input: &[u8]| live_pool::run(Part::Tasks, input));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fresh::fresh(data, size, max_size, seed)
});
