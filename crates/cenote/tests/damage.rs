//! Damaged pools: flipped bytes and truncated files give errors, never a crash, a fault or an endless loop.
//!
//! Each case damages a copy of a well-filled pool and uses it in a child process, so that a fault or a hang is seen
//! as one. The seed of a case is printed when it fails; `CENOTE_TEST_SEED` and `CENOTE_DAMAGE_CASES` change the run.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cenote::pod::directory;
use cenote::{Coherent, Noncoherent, Pool};
use damaged::{fill, options, use_all};
use rand::prelude::*;

mod damaged;

/// A child that takes longer than this is taken to loop for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// The child's side; does nothing unless it is started as one.
#[test]
fn child() {
    let Ok(path) = std::env::var("CENOTE_DAMAGED_POOL") else {
        return;
    };
    let path = Path::new(&path);
    let outcome = match std::env::var("CENOTE_DAMAGED_KIND").as_deref() {
        Ok("noncoherent") => use_all::<Noncoherent>(path),
        _ => use_all::<Coherent>(path),
    };
    if let Err(error) = outcome {
        assert!(!error.to_string().is_empty());
    }
}

/// The parts of a pool, so that damage is not all spent on values.
fn interesting(rng: &mut StdRng, bytes: &[u8]) -> usize {
    let tables = 4096 + 8 * 256 + 8 * 4096 + 8 * 256;
    let data = 2 << 20;
    match rng.random_range(0..10) {
        0 => rng.random_range(0..640.min(bytes.len())),
        1..4 => rng.random_range(0..tables.min(bytes.len())),
        4 => rng.random_range(tables.min(bytes.len() - 1)..(tables + 64 * 1024).min(bytes.len())),
        5..8 => rng.random_range(data.min(bytes.len() - 1)..(data + (6 << 16)).min(bytes.len())),
        _ => rng.random_range(0..bytes.len()),
    }
}

fn damage(rng: &mut StdRng, bytes: &mut Vec<u8>) -> String {
    if rng.random_range(0..12) == 0 {
        let len = rng.random_range(0..bytes.len());
        bytes.truncate(len);
        return format!("truncated to {len}");
    }
    let count = [1, 1, 2, 8, 100][rng.random_range(0..5)];
    let mut places = Vec::new();
    for _ in 0..count {
        let at = interesting(rng, bytes);
        match rng.random_range(0..4) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random(),
            2 => bytes[at] = [0, 0xff][rng.random_range(0..2)],
            // A whole word from elsewhere: plausible, and wrong.
            _ => {
                let (from, to) = (interesting(rng, bytes) & !7, at & !7);
                if from + 8 <= bytes.len() && to + 8 <= bytes.len() {
                    bytes.copy_within(from..from + 8, to);
                }
            }
        }
        places.push(at);
    }
    places.truncate(8);
    format!("{count} places, the first {places:x?}")
}

fn run<M: cenote::memory::Mapped>(cases: u64) {
    let seed: u64 = std::env::var("CENOTE_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let cases = std::env::var("CENOTE_DAMAGE_CASES")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(cases);
    println!("seed: CENOTE_TEST_SEED={seed}, {cases} cases");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let sound = folder.path().join("sound");
    fill::<M>(&sound);
    let sound = std::fs::read(sound).unwrap();
    for case in seed..seed + cases {
        let mut rng = StdRng::seed_from_u64(case);
        let mut bytes = sound.clone();
        let what = damage(&mut rng, &mut bytes);
        let path = folder.path().join("damaged");
        std::fs::write(&path, &bytes).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("CENOTE_DAMAGED_POOL", &path)
            .env("CENOTE_DAMAGED_KIND", M::NAME)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if begun.elapsed() > PATIENCE => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        if !status.is_some_and(|status| status.success()) {
            let mut text = String::new();
            let _ = std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text);
            panic!(
                "CENOTE_TEST_SEED={case} CENOTE_DAMAGE_CASES=1 ({what}): {status:?} (none: it hung)\n{text}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_damaged_pool_gives_errors() {
    run::<Coherent>(250);
}

#[test]
fn a_damaged_noncoherent_pool_gives_errors() {
    run::<Noncoherent>(40);
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let open = || {
        Pool::<Coherent>::open(&path, &options())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(open().contains("No such file"), "{}", open());
    std::fs::write(&path, b"hello").unwrap();
    assert!(open().contains("too short"), "{}", open());
    std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
    assert!(open().contains("magic"), "{}", open());
    std::fs::remove_file(&path).unwrap();
    drop(Pool::<Coherent>::create(&path, &options()).unwrap());
    let again = Pool::<Coherent>::create(&path, &options())
        .err()
        .map(|error| error.to_string());
    assert!(again.unwrap().contains("exists"));
    let other = Pool::<Noncoherent>::open(&path, &options())
        .err()
        .map(|error| error.to_string());
    assert!(other.unwrap().contains("cannot be opened as noncoherent"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    assert!(open().contains("version 9"), "{}", open());
}

/// What a damaged thing is called does not keep `fsck` from what else there is.
#[test]
fn fsck_goes_on_behind_a_damaged_header() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let at = {
        let pool: Pool = Pool::create(&path, &options()).unwrap();
        pool.map("first").unwrap().put(b"key", b"value").unwrap();
        pool.ordered("second").unwrap().put(b"key", b"value").unwrap();
        pool.mutex("third").unwrap();
        let names = directory::list(&*pool.worker().unwrap()).unwrap();
        let offset = |name: &str| names.iter().find(|named| named.name == name).unwrap().offset;
        [offset("first"), offset("third")]
    };
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for at in at {
        file.write_all_at(&[0xff; 64], at).unwrap();
    }
    let pool: Pool = Pool::open(&path, &options()).unwrap();
    let report = pool.fsck(false).unwrap();
    assert!(report.problems.len() >= 2, "{:?}", report.problems);
    assert!(
        report
            .maps
            .iter()
            .any(|map| map.name == "second" && map.keys == 1),
        "{report:?}"
    );
}

/// Names of any bytes: what has another name is found, repair gives a name, and what the map behind it holds is kept.
#[test]
fn repair_gives_new_names() {
    fn check<M: cenote::memory::Mapped>() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let entries = {
            let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
            for name in ["first", "second", "recovered-1", "last"] {
                pool.map(name).unwrap().put(b"key", name.as_bytes()).unwrap();
            }
            let worker = pool.worker().unwrap();
            [worker.geometry().entry(0), worker.geometry().entry(1)]
        };
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // A length that no name has, and a name that is no text.
        file.write_all_at(&u64::MAX.to_le_bytes(), entries[0] + 64)
            .unwrap();
        file.write_all_at(&[0xff; 4], entries[1] + 72).unwrap();

        let pool: Pool<M> = Pool::open(&path, &options()).unwrap();
        let read = |name: &str| Some(pool.map(name).ok()?.get(b"key").ok()??.to_vec());
        assert_eq!(read("last"), Some(b"last".to_vec()));
        let error = pool.map("new").err().unwrap().to_string();
        assert!(error.contains("cenote fsck"), "{error}");
        let report = pool.fsck(false).unwrap();
        assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
        assert!(report.problems[0].contains("--repair"), "{:?}", report.problems);
        assert_eq!((report.leaked_bytes, report.maps.len()), (0, 4), "{report:?}");
        let report = pool.fsck(true).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.repaired_names, ["recovered-0", "recovered-2"]);
        assert_eq!(read("recovered-0"), Some(b"first".to_vec()));
        assert_eq!(read("recovered-2"), Some(b"second".to_vec()));
        assert_eq!(read("recovered-1"), Some(b"recovered-1".to_vec()));
        assert!(pool.map("new").is_ok());
    }
    check::<Coherent>();
    check::<cenote::Noncoherent>();
}

/// What only something damaged refers to is not freed as leaked.
#[test]
fn repair_keeps_what_damage_hides() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let at = {
        let pool: Pool = Pool::create(&path, &options()).unwrap();
        pool.map("m").unwrap().put(b"key", &[7; 1000]).unwrap();
        directory::find(&*pool.worker().unwrap(), "m")
            .unwrap()
            .unwrap()
            .offset
    };
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut header = [0; 64];
    file.read_exact_at(&mut header, at).unwrap();
    file.write_all_at(&[0xff; 64], at).unwrap();
    {
        let pool: Pool = Pool::open(&path, &options()).unwrap();
        let report = pool.fsck(true).unwrap();
        assert!(
            report.leaked_bytes >= 1000 && report.repaired_bytes == 0,
            "{report:?}"
        );
    }
    file.write_all_at(&header, at).unwrap();
    let pool: Pool = Pool::open(&path, &options()).unwrap();
    assert!(pool.fsck(false).unwrap().is_clean());
    assert_eq!(
        pool.map("m").unwrap().get(b"key").unwrap().as_deref(),
        Some(&[7; 1000][..])
    );
}

/// Worker records of any bytes, whose states say that they are taken: nothing panics.
#[test]
fn fsck_survives_damaged_worker_records() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut opened = 0;
    for seed in 1..=50 {
        let path = folder.path().join(format!("{seed}"));
        let of_many = cenote::Options {
            workers: 64,
            ..options()
        };
        let records = {
            let pool: Pool = Pool::create(&path, &of_many).unwrap();
            pool.map("m").unwrap().put(b"key", b"value").unwrap();
            let worker = pool.worker().unwrap();
            // Looks go as far as workers have been.
            cenote::pod::superblock::WORKERS_HIGH.store(worker.mem(), 12);
            worker.geometry().worker_table
        };
        let mut bytes = vec![0; 4 * cenote::pod::geometry::WORKER_BYTES as usize];
        StdRng::seed_from_u64(seed).fill(&mut bytes[..]);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // Behind those that this process takes.
        let at = records + 8 * cenote::pod::geometry::WORKER_BYTES;
        file.write_all_at(&bytes, at).unwrap();
        // Some are so bad that the pool is refused.
        let Ok(pool) = Pool::<Coherent>::open(&path, &options()) else {
            continue;
        };
        opened += 1;
        for repair in [false, true] {
            let looked =
                std::panic::AssertUnwindSafe(|| pool.fsck(repair).map(|report| report.problems.len()));
            let problems = std::panic::catch_unwind(looked).unwrap_or_else(|_| panic!("seed {seed}"));
            assert_ne!(problems.ok(), Some(0), "seed {seed}: nothing was damaged");
        }
    }
    assert!(opened > 25, "{opened} of 50 pools could be opened");
}

/// Places that nobody has, whose spare chunks cannot be any: `fsck` says so, its repair mends it, and nothing is lost.
#[test]
fn repair_clears_damaged_spare_chunks() {
    fn check<M: cenote::memory::Mapped>() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let first_place = {
            let of_many = cenote::Options {
                workers: 64,
                ..options()
            };
            let pool: Pool<M> = Pool::create(&path, &of_many).unwrap();
            pool.map("m").unwrap().put(b"key", b"value").unwrap();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| pool.map("m").unwrap().put(b"key", b"value").unwrap());
                }
            });
            let worker = pool.worker().unwrap();
            cenote::pod::superblock::WORKERS_HIGH.store(worker.mem(), 12);
            worker.geometry().worker_table
        };
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // Where a record names its spare chunk (docs/pool-format.md).
        const SPARE: u64 = 360;
        // Not in the pool, not a chunk, not aligned.
        let words = [u64::MAX, first_place, 12345];
        for (place, word) in (9..12).zip(words) {
            let record = first_place + place * cenote::pod::geometry::WORKER_BYTES;
            let at = record + SPARE;
            file.write_all_at(&word.to_le_bytes(), at).unwrap();
        }
        let pool: Pool<M> = Pool::open(&path, &options()).unwrap();
        let report = pool.fsck(false).unwrap();
        assert_eq!(report.problems.len(), 3, "{:?}", report.problems);
        let report = pool.fsck(true).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.repaired_places, 3);
        let report = pool.fsck(true).unwrap();
        assert!(report.is_clean() && report.repaired_places == 0, "{report:?}");
        assert_eq!(
            pool.map("m").unwrap().get(b"key").unwrap().as_deref(),
            Some(&b"value"[..])
        );
    }
    check::<Coherent>();
    check::<cenote::Noncoherent>();
}

/// What an operation has published is not given back when its end could not be written down.
#[test]
fn what_is_published_is_never_discarded() {
    use cenote::pod::record::operation;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let worker = pool.worker().unwrap();
    let (mem, record) = (worker.mem(), worker.record());
    let _hold = worker.hold_list().unwrap();
    let object = cenote::pod::heap::allocate(&worker, 100).unwrap();
    record.operation().set(mem, operation::COMMITTED);
    cenote::pod::heap::discard(&worker).unwrap();
    cenote::pod::heap::discard_with_companions(&worker).unwrap();
    assert_eq!(record.new_object().get(mem), object);
    record.operation().set(mem, operation::NONE);
    cenote::pod::heap::discard(&worker).unwrap();
    assert_eq!(record.new_object().get(mem), 0);
}

/// A tree of any bytes, of a pool whose maximum is no power of two of units: each search for units ends.
#[test]
fn a_damaged_tree_ends_every_search() {
    const UNIT: u64 = 64 << 10;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for seed in 1..=70 {
        let path = folder.path().join(format!("{seed}"));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut rng = StdRng::seed_from_u64(seed);
            let max = rng.random_range(20..120);
            let options = cenote::Options {
                size: rng.random_range(16..=max) * UNIT,
                max: max * UNIT,
                ..Default::default()
            };
            let pool: Pool = Pool::create(&path, &options).unwrap();
            let map = pool.map("m").unwrap();
            map.put(b"k", &[1; 100]).unwrap();
            let tree = pool.worker().unwrap().geometry().tree;
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            for _ in 0..rng.random_range(1..60) {
                let node = rng.random_range(1..2 * max.next_power_of_two());
                file.write_all_at(&[rng.random_range(0..8)], tree + node).unwrap();
            }
            for n in 0..12u8 {
                let units = rng.random_range(1..max as usize);
                // Whether it fits, and what is wrong, is not asked here.
                let _ = map.put(&[n], &vec![n; units * UNIT as usize - 64]);
            }
            tell.send(()).unwrap();
        });
        assert!(
            told.recv_timeout(PATIENCE).is_ok(),
            "seed {seed}: it loops, or has panicked"
        );
    }
}
