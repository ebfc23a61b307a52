//! A pool that is used while bytes of one part of it change.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cenote::{Coherent, Pool};
use cenote_damage::aim::Part;
use cenote_damage::live::{Manner, damage, exercise};
use cenote_damage::options;
use cenote_damage::random::Random;

/// A pool with everything in it, and the offsets of one part of it.
type Sound = (Vec<u8>, Vec<Range<u64>>);

fn sound(part: Part) -> &'static Sound {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    SOUND.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
        let path = folder.path().join("sound");
        cenote_damage::fill::<Coherent>(&path).expect("a pool with everything in it");
        let bytes = std::fs::read(&path).expect("the pool that was just made");
        let pool = Pool::<Coherent>::open(&path, &options()).expect("the same");
        let ranges = part.ranges(&pool, &bytes);
        (bytes, ranges)
    })
}

/// Runs one case, of a part that is the same in all cases of a process.
pub fn run(part: Part, input: &[u8]) {
    let seed = input
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let path = folder.path().join("pool");
    let (bytes, aim) = sound(part);
    std::fs::write(&path, bytes).expect("room for a copy");
    let until = Instant::now() + Duration::from_millis(100);
    std::thread::scope(|scope| {
        scope.spawn(|| exercise::<Coherent>(&path, seed, part, until));
        let mut random = Random::new(seed);
        let manner = Manner::of(&mut random);
        damage(&path, &mut random, aim, manner, until).expect("a file to write to");
    });
}
