//! Damaged pools: flipped bytes and truncated files give errors, never a crash, a fault or an endless loop.
//!
//! Each case damages a copy of a well-filled pool and uses it in a child process, so that a fault or a hang is seen
//! as one. The seed of a case is printed when it fails; `CENOTE_TEST_SEED` and `CENOTE_DAMAGE_CASES` change the run.

use cenote::pod::names::directory;
use cenote::{Coherent, Noncoherent, Pool};
use cenote_damage::aim::Part;
use cenote_damage::child::{Ended, TIMEOUT, end, number, start, tell_faults};
use cenote_damage::oracle::{Seen, judge};
use cenote_damage::places::Places;
use cenote_damage::random::Random;
use cenote_damage::{content, fill, options, use_all};
use rand::prelude::*;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Exit codes of a child for what became of the damage.
const OUTCOMES: [(i32, Option<Seen>); 4] = [
    (40, Some(Seen::Noticed)),
    (41, Some(Seen::Sound)),
    (42, Some(Seen::Late)),
    (43, None),
];

/// The child's side; does nothing unless it is started as one.
#[test]
fn child() {
    let Ok(path) = std::env::var("CENOTE_DAMAGED_POOL") else {
        return;
    };
    tell_faults();
    let seen = match std::env::var("CENOTE_DAMAGED_KIND").as_deref() {
        Ok("noncoherent") => use_or_judge::<Noncoherent>(Path::new(&path)),
        _ => use_or_judge::<Coherent>(Path::new(&path)),
    };
    let code = OUTCOMES.iter().find(|(_, known)| *known == seen);
    std::process::exit(code.map_or(1, |(code, _)| *code));
}

/// Lets the oracle judge a pool, if the expected content is known; then uses all of it.
fn use_or_judge<M: cenote::memory::Mapped>(path: &Path) -> Option<Seen> {
    let seen = std::env::var("CENOTE_SOUND_CONTENT").ok().map(|sound| {
        let before = content::load(Path::new(&sound)).unwrap();
        let allowance = number("CENOTE_ALLOWANCE").unwrap() as usize;
        judge::<M>(path, &before, allowance).unwrap_or_else(|unseen| panic!("{unseen}"))
    });
    if let Err(error) = use_all::<M>(path) {
        assert!(!error.to_string().is_empty());
    }
    seen
}

/// Damages a pool, in some parts above all. Returns how, and how many keys may read differently after it.
fn damage(random: &mut Random, aim: &[Range<u64>], bytes: &mut Vec<u8>) -> (String, usize) {
    if random.below(12) == 0 {
        let len = random.below(bytes.len() as u64) as usize;
        bytes.truncate(len);
        return (format!("truncated to {len}"), 0);
    }
    let places = Places::new(bytes.len() as u64).aimed(aim);
    let count = [1, 1, 1, 2, 8, 40][random.below(6) as usize];
    let (mut what, mut allowance) = (Vec::new(), 0);
    for _ in 0..count {
        let word = |at: u64| u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap());
        let change = places.change(random, word);
        let at = change.at as usize;
        bytes[at..at + change.bytes.len()].copy_from_slice(&change.bytes);
        // A key that has become another one counts twice: one is missing, one is too many.
        allowance += if places.is_data(change.at) { 2 } else { 0 };
        what.push(format!("{:#x}: {:x?}", change.at, change.bytes));
    }
    what.truncate(8);
    (
        format!("{count} places, the first {}", what.join(", ")),
        allowance,
    )
}

fn run<M: cenote::memory::Mapped>(part: Part, cases: u64) {
    let seed = number("CENOTE_TEST_SEED").unwrap_or(1);
    let cases = number("CENOTE_DAMAGE_CASES").unwrap_or(cases);
    println!("seed: CENOTE_TEST_SEED={seed}, {cases} cases");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (sound, text) = (folder.path().join("sound"), folder.path().join("content"));
    fill::<M>(&sound).unwrap();
    let bytes_of_sound = std::fs::read(&sound).unwrap();
    let aim = {
        let pool: Pool<M> = Pool::open(&sound, &options()).unwrap();
        assert!(pool.fsck().unwrap().is_clean());
        let content = content::read(&pool);
        assert!(content.values().all(Result::is_ok), "nothing is damaged yet");
        content::store(&content, &text).unwrap();
        part.ranges(&pool, &bytes_of_sound)
    };
    assert_eq!(aim.is_empty(), part == Part::Everything);
    let (mut counts, mut failures) = ([0; OUTCOMES.len()], Vec::new());
    for case in seed..seed + cases {
        let mut random = Random::new(case);
        let mut bytes = bytes_of_sound.clone();
        let (what, allowance) = damage(&mut random, &aim, &mut bytes);
        let path = folder.path().join("damaged");
        std::fs::write(&path, &bytes).unwrap();
        let allowance = allowance.to_string();
        let mut variables = vec![
            ("CENOTE_DAMAGED_POOL", path.to_str().unwrap()),
            ("CENOTE_DAMAGED_KIND", M::NAME),
        ];
        // Some cases come upon the damage without a check.
        if random.below(4) > 0 {
            variables.push(("CENOTE_SOUND_CONTENT", text.to_str().unwrap()));
            variables.push(("CENOTE_ALLOWANCE", &allowance));
        }
        let ended = end(start("damage::child", &variables), TIMEOUT);
        let outcome = match ended {
            Ended::Status(code) => OUTCOMES.iter().position(|(known, _)| *known == code),
            _ => None,
        };
        match outcome {
            Some(n) => counts[n] += 1,
            None => failures.push(format!(
                "CENOTE_TEST_SEED={case} CENOTE_DAMAGE_CASES=1 ({what}): {ended}"
            )),
        }
        std::fs::remove_file(&path).unwrap();
        if number("CENOTE_DAMAGE_GO_ON").is_none() && !failures.is_empty() {
            break;
        }
    }
    let [noticed, sound, late, used] = counts;
    println!(
        "{noticed} noticed, {sound} sound, {late} late, {used} used only, {} failures",
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_damaged_pool_gives_errors() {
    run::<Coherent>(Part::Everything, 250);
}

#[test]
fn a_damaged_noncoherent_pool_gives_errors() {
    run::<Noncoherent>(Part::Everything, 40);
}

#[test]
fn damaged_locks_give_errors() {
    run::<Coherent>(Part::Locks, 30);
    run::<Noncoherent>(Part::Locks, 8);
}

#[test]
fn damaged_groups_give_errors() {
    run::<Coherent>(Part::Groups, 30);
    run::<Noncoherent>(Part::Groups, 8);
}

#[test]
fn damaged_tasks_give_errors() {
    run::<Coherent>(Part::Tasks, 30);
    run::<Noncoherent>(Part::Tasks, 8);
}

#[test]
fn damaged_names_give_errors() {
    run::<Coherent>(Part::Names, 30);
    run::<Noncoherent>(Part::Names, 8);
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

/// A damaged name does not keep `fsck` from checking the rest.
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
    let report = pool.fsck().unwrap();
    assert!(report.problems.len() >= 2, "{:?}", report.problems);
    assert!(
        report
            .maps
            .iter()
            .any(|map| map.name == "second" && map.keys == 1),
        "{report:?}"
    );
}

/// Names of random bytes: `fsck` finds them, repair gives a new name, and the map's content is kept.
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
        // An invalid length, and a name that is no text.
        file.write_all_at(&u64::MAX.to_le_bytes(), entries[0] + 64)
            .unwrap();
        file.write_all_at(&[0xff; 4], entries[1] + 72).unwrap();

        let pool: Pool<M> = Pool::open(&path, &options()).unwrap();
        let read = |name: &str| Some(pool.map(name).ok()?.get(b"key").ok()??.to_vec());
        assert_eq!(read("last"), Some(b"last".to_vec()));
        let error = pool.map("new").err().unwrap().to_string();
        assert!(error.contains("cenote fsck"), "{error}");
        let report = pool.fsck().unwrap();
        assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
        assert!(report.problems[0].contains("--repair"), "{:?}", report.problems);
        assert_eq!((report.leaked_bytes, report.maps.len()), (0, 4), "{report:?}");
        let report = pool.fsck_and_repair().unwrap();
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

/// An object that only something damaged refers to is not freed as leaked.
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
        let report = pool.fsck_and_repair().unwrap();
        assert!(
            report.leaked_bytes >= 1000 && report.repaired_bytes == 0,
            "{report:?}"
        );
    }
    file.write_all_at(&header, at).unwrap();
    let pool: Pool = Pool::open(&path, &options()).unwrap();
    assert!(pool.fsck().unwrap().is_clean());
    assert_eq!(
        pool.map("m").unwrap().get(b"key").unwrap().as_deref(),
        Some(&[7; 1000][..])
    );
}

/// Worker records of random bytes, whose states say that they are taken: nothing panics.
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
            // Scans go as far as places were used.
            cenote::pod::format::superblock::WORKERS_HIGH.store(worker.mem(), 12);
            worker.geometry().worker_table
        };
        let mut bytes = vec![0; 4 * cenote::pod::format::geometry::WORKER_BYTES as usize];
        StdRng::seed_from_u64(seed).fill(&mut bytes[..]);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // Behind those that this process takes.
        let at = records + 8 * cenote::pod::format::geometry::WORKER_BYTES;
        file.write_all_at(&bytes, at).unwrap();
        // Some are so bad that the pool is refused.
        let Ok(pool) = Pool::<Coherent>::open(&path, &options()) else {
            continue;
        };
        opened += 1;
        for repair in [false, true] {
            let looked = std::panic::AssertUnwindSafe(|| {
                let report = match repair {
                    true => pool.fsck_and_repair(),
                    false => pool.fsck(),
                };
                report.map(|report| report.problems.len())
            });
            let problems = std::panic::catch_unwind(looked).unwrap_or_else(|_| panic!("seed {seed}"));
            assert_ne!(problems.ok(), Some(0), "seed {seed}: nothing was damaged");
        }
    }
    assert!(opened > 25, "{opened} of 50 pools could be opened");
}

/// Vacant places with invalid spare chunks: `fsck` reports them, repair mends them, and nothing is lost.
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
            cenote::pod::format::superblock::WORKERS_HIGH.store(worker.mem(), 12);
            worker.geometry().worker_table
        };
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // Where a record names its spare chunk (docs/pool-format.md).
        const SPARE: u64 = 360;
        // Not in the pool, not a chunk, not aligned.
        let words = [u64::MAX, first_place, 12345];
        for (place, word) in (9..12).zip(words) {
            let record = first_place + place * cenote::pod::format::geometry::WORKER_BYTES;
            let at = record + SPARE;
            file.write_all_at(&word.to_le_bytes(), at).unwrap();
        }
        let pool: Pool<M> = Pool::open(&path, &options()).unwrap();
        let report = pool.fsck().unwrap();
        assert_eq!(report.problems.len(), 3, "{:?}", report.problems);
        let report = pool.fsck_and_repair().unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.repaired_places, 3);
        let report = pool.fsck_and_repair().unwrap();
        assert!(report.is_clean() && report.repaired_places == 0, "{report:?}");
        assert_eq!(
            pool.map("m").unwrap().get(b"key").unwrap().as_deref(),
            Some(&b"value"[..])
        );
    }
    check::<Coherent>();
    check::<cenote::Noncoherent>();
}

/// What an operation has published is not freed when its end could not be recorded.
#[test]
fn what_is_published_is_never_discarded() {
    use cenote::pod::format::record::operation;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let worker = pool.worker().unwrap();
    let (mem, record) = (worker.mem(), worker.record());
    let _hold = worker.hold_list().unwrap();
    let object = cenote::pod::alloc::heap::allocate(&worker, 100).unwrap();
    record.operation().set(mem, operation::COMMITTED);
    cenote::pod::alloc::heap::discard(&worker).unwrap();
    cenote::pod::alloc::heap::discard_with_secondaries(&worker).unwrap();
    assert_eq!(record.new_object().get(mem), object);
    record.operation().set(mem, operation::NONE);
    cenote::pod::alloc::heap::discard(&worker).unwrap();
    assert_eq!(record.new_object().get(mem), 0);
}

/// A tree of random bytes, in a pool whose maximum is no power of two of frames: each search for frames ends.
#[test]
fn a_damaged_tree_ends_every_search() {
    const FRAME: u64 = 64 << 10;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for seed in 1..=70 {
        let path = folder.path().join(format!("{seed}"));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut rng = StdRng::seed_from_u64(seed);
            let max = rng.random_range(20..120);
            let options = cenote::Options {
                size: rng.random_range(16..=max) * FRAME,
                max: max * FRAME,
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
                let frames = rng.random_range(1..max as usize);
                // Whether it succeeds does not matter here.
                let _ = map.put(&[n], &vec![n; frames * FRAME as usize - 64]);
            }
            tell.send(()).unwrap();
        });
        assert!(
            told.recv_timeout(TIMEOUT).is_ok(),
            "seed {seed}: it loops, or has panicked"
        );
    }
}
