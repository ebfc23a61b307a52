//! Overwrites bytes of a small pool with an ordered map, and uses the map in all ways: errors, never a crash.
//!
//! `cargo fuzz run ordered_damage` with a nightly toolchain, or
//! `cargo run --release --bin ordered_damage -- -max_total_time=60 -max_len=200 -timeout=20` in this folder with a
//! stable one, without coverage. The input is a list of commands of twelve bytes: two for the part of the map, one for
//! the position in it, one for the change; eight are what is written.
#![no_main]

use std::sync::OnceLock;

use cenote::Coherent;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

mod fresh;

use cenote_damage::ordered::{Place, content, fill, judge, places};

fn sound() -> &'static (Vec<u8>, Vec<Place>) {
    static SOUND: OnceLock<(Vec<u8>, Vec<Place>)> = OnceLock::new();
    SOUND.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
        let path = folder.path().join("sound");
        let header = fill::<Coherent>(&path);
        let bytes = std::fs::read(&path).expect("the pool that was just made");
        let places = places(&bytes, header);
        (bytes, places)
    })
}

fuzz_target!(|commands: &[u8]| {
    let (bytes, places) = sound();
    let mut bytes = bytes.clone();
    let mut allowance = 0;
    for command in commands.chunks_exact(12) {
        // A changed key counts twice: the old one is missing, and the new one is too many. The first hit may be on any
        // part.
        allowance += 2;
        let which = usize::from(u16::from_le_bytes([command[0], command[1]]));
        let (_, start, len) = places[which % places.len()];
        let at = start + usize::from(command[2]) % len;
        match command[3] % 8 {
            0..3 => bytes[at] ^= 1 << (command[4] % 8),
            3..5 => bytes[at] = command[4],
            5 => {
                let n = len.min(8);
                bytes[start..start + n].copy_from_slice(&command[4..4 + n]);
            }
            6 => {
                let from = usize::from(u16::from_le_bytes([command[4], command[5]]));
                let (_, from, _) = places[from % places.len()];
                bytes.copy_within(from..from + 8, start);
            }
            // Anywhere.
            _ => {
                let place = u32::from_le_bytes([command[4], command[5], command[6], command[7]]);
                let at = place as usize % bytes.len();
                bytes[at] = command[8];
            }
        }
    }
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let path = folder.path().join("damaged");
    std::fs::write(&path, &bytes).expect("room for a copy");
    judge::<Coherent>(&path, &content(), allowance).unwrap_or_else(|unseen| panic!("{unseen}"));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fresh::fresh(data, size, max_size, seed)
});
