//! Changes bytes of a well-filled pool while calls of all kinds are made on it: locks, groups, tasks, maps and names; errors, never a fault.
//!
//! `cargo fuzz run live` with a nightly toolchain, or `cargo run --release --bin live -- -max_total_time=60 -max_len=16 -timeout=20` in this
//! folder with a stable one, without coverage. The first eight bytes of the input are a seed, which decides what is called and changed.
#![no_main]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cenote::Coherent;
use cenote_damage::live::{Manner, damage, exercise};
use cenote_damage::random::Random;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

mod fresh;

fn sound() -> &'static Vec<u8> {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
        let path = folder.path().join("sound");
        cenote_damage::fill::<Coherent>(&path).expect("a pool with everything in it");
        std::fs::read(&path).expect("the pool that was just made")
    })
}

fuzz_target!(|input: &[u8]| {
    let seed = input.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let path = folder.path().join("pool");
    std::fs::write(&path, sound()).expect("room for a copy");
    let until = Instant::now() + Duration::from_millis(100);
    std::thread::scope(|scope| {
        scope.spawn(|| exercise::<Coherent>(&path, seed, until));
        let mut random = Random::new(seed);
        let manner = Manner::of(&mut random);
        damage(&path, &mut random, manner, until).expect("a file to write to");
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fresh::fresh(data, size, max_size, seed)
});
