//! Any bytes as a trace, in each of its formats: records or errors, and an end.
//!
//! `cargo fuzz run traces` with a nightly toolchain, or
//! `cargo run --release --bin traces -- -max_total_time=60 -max_len=4000` in this folder with a stable one, without
//! coverage. The first byte of the input says which format.
#![no_main]

use cenote_ycsb::trace::{Columns, Format, Reader, Record};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

mod fresh;

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else {
        return;
    };
    let format = match which % 4 {
        0 => Format::Twitter,
        1 => Format::Oracle,
        2 => Format::Text,
        _ => Format::Csv("time-col=1,obj-id-col=2,obj-size-col=3".parse::<Columns>().expect("columns")),
    };
    let mut reader = Reader::new(Box::new(bytes), &format, "input");
    let mut record = Record::default();
    // Each call ends, and passes something over: there are no more records than bytes.
    for _ in 0..=bytes.len() + 1 {
        if matches!(reader.read(&mut record), Ok(false)) {
            return;
        }
    }
    panic!("more records than bytes");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fresh::fresh(data, size, max_size, seed)
});
