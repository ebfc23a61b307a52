//! Flips and overwrites bytes of a well-filled pool, or truncates it, has the oracle judge it, and uses everything:
//! errors, never a crash, and no damage that goes unnoticed.
//!
//! `cargo fuzz run damage` with a nightly toolchain, or
//! `cargo run --release --bin damage -- -max_total_time=60 -max_len=200 -timeout=20` in this folder with a stable one,
//! without coverage. The input is a list of six-byte commands: four bytes for the offset, one for the change, one for
//! the value.
#![no_main]

use std::sync::OnceLock;

use cenote::{Coherent, Pool};
use cenote_damage::content::{self, Content};
use cenote_damage::options;
use cenote_damage::oracle::judge;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

mod fresh;

fn sound() -> &'static (Vec<u8>, Content) {
    static SOUND: OnceLock<(Vec<u8>, Content)> = OnceLock::new();
    SOUND.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
        let path = folder.path().join("sound");
        cenote_damage::fill::<Coherent>(&path).expect("a pool with everything in it");
        let bytes = std::fs::read(&path).expect("the pool that was just made");
        let pool = Pool::<Coherent>::open(&path, &options()).expect("the same");
        (bytes, content::read(&pool))
    })
}

fuzz_target!(|commands: &[u8]| {
    let (sound, before) = sound();
    let (mut bytes, mut allowance) = (sound.clone(), 0);
    for command in commands.chunks_exact(6) {
        let place = u32::from_le_bytes([command[0], command[1], command[2], command[3]]) as usize;
        if bytes.is_empty() {
            break;
        }
        let at = place % bytes.len();
        // A changed key counts twice: the old one is missing, and the new one is too many.
        allowance += 2;
        match command[4] % 16 {
            0 => bytes.truncate(at),
            1..6 => bytes[at] ^= 1 << (command[5] % 8),
            6..12 => bytes[at] = command[5],
            // The tables are small beside the data: aim at them.
            _ => {
                let at = place % (64 * 1024).min(bytes.len());
                bytes[at] = command[5];
            }
        }
    }
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let path = folder.path().join("damaged");
    std::fs::write(&path, &bytes).expect("room for a copy");
    judge::<Coherent>(&path, before, allowance).unwrap_or_else(|unseen| panic!("{unseen}"));
    let _ = cenote_damage::use_all::<Coherent>(&path);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fresh::fresh(data, size, max_size, seed)
});
