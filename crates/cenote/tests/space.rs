//! A full file system and a full pool: calls return errors, nothing is lost, and the pool is usable after deletes.
//!
//! The file system is a tmpfs of 64 MiB in a mount namespace of the test's own (`unshare`, from util-linux).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use cenote::{Error, Map, Options, Ordered, Pool, Put, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What is filled: a map of either kind.
trait Filled: Sized {
    fn open(pool: &Pool) -> Self;
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Put>;
    fn has(&self, key: &[u8], value: &[u8]) -> bool;
    fn remove(&self, key: &[u8]) -> Result<bool>;
    fn len(&self) -> u64;
}

macro_rules! filled {
    ($map:ty, $open:ident) => {
        impl Filled for $map {
            fn open(pool: &Pool) -> Self {
                pool.$open("m").unwrap()
            }
            fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
                (**self).put(key, value)
            }
            fn has(&self, key: &[u8], value: &[u8]) -> bool {
                self.get(key).unwrap().as_deref() == Some(value)
            }
            fn remove(&self, key: &[u8]) -> Result<bool> {
                (**self).remove(key)
            }
            fn len(&self) -> u64 {
                (**self).len()
            }
        }
    };
}

filled!(Map, map);
filled!(Ordered, ordered);

/// Fills a pool to the last byte, deletes, and fills it again.
fn fill_and_refill<F: Filled>(path: &Path, max: u64) {
    let options = Options {
        size: 1 << 20,
        max,
        ..Options::default()
    };
    let pool: Pool = Pool::create(path, &options).unwrap();
    let map = F::open(&pool);
    let value = |key: u64| vec![key as u8; [8, 100, 1_000, 30_000, 200_000][(key % 5) as usize]];
    let mut stored = Vec::new();
    let mut refusals = 0;
    let mut key = 0u64;
    // Large values are refused first; go on until even small ones are.
    while refusals < 50 {
        match map.put(&key.to_le_bytes(), &value(key)) {
            Ok(Put::Inserted) => {
                stored.push(key);
                refusals = 0;
            }
            Err(Error::Full { .. }) => refusals += 1,
            other => panic!("{other:?}"),
        }
        key += 1;
    }
    assert!(stored.len() > 300, "{} keys fit", stored.len());
    let check = |stored: &[u64]| {
        for key in stored {
            assert!(map.has(&key.to_le_bytes(), &value(*key)), "key {key}");
        }
        assert_eq!(map.len(), stored.len() as u64);
        let report = pool.fsck().unwrap();
        assert!(report.is_clean(), "{report:#?}");
    };
    check(&stored);
    // A second process and a second map get the same error, and do no harm.
    let error = map.put(b"another", &vec![0; 10 << 20]).unwrap_err();
    assert!(
        matches!(error, Error::Full { .. }) && error.to_string().contains("delete something"),
        "{error}"
    );
    for round in 0..3u64 {
        let half: Vec<u64> = stored
            .iter()
            .copied()
            .filter(|key| key % 2 == round % 2)
            .collect();
        for key in &half {
            assert!(map.remove(&key.to_le_bytes()).unwrap(), "key {key}");
        }
        stored.retain(|key| key % 2 != round % 2);
        check(&stored);
        for key in half {
            match map.put(&key.to_le_bytes(), &value(key)) {
                Ok(_) => stored.push(key),
                Err(Error::Full { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        check(&stored);
    }
    for key in &stored {
        assert!(map.remove(&key.to_le_bytes()).unwrap());
    }
    check(&[]);
    assert_eq!(map.put(b"large again", &vec![1; 7 << 20]).unwrap(), Put::Inserted);
}

#[test]
fn a_pool_at_its_maximum_gives_errors_and_goes_on() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    fill_and_refill::<Map>(&folder.path().join("pool"), 48 << 20);
    fill_and_refill::<Ordered>(&folder.path().join("ordered"), 48 << 20);
}

/// A value that cannot fit, however much the pool grows, does not grow it.
#[test]
fn an_impossible_value_commits_nothing() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        size: 1 << 20,
        max: 256 << 20,
        ..Options::default()
    };
    let pool: Pool = Pool::create(folder.path().join("pool"), &options).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"a", b"b").unwrap();
    let before = pool.stat().unwrap().committed_bytes;
    // Larger than the pool may be; as large as it may be, but the pool is not empty.
    let mut fits = 0;
    for mib in [300, 256] {
        match map.put(b"k", &vec![0; mib << 20]) {
            Err(Error::Full { needed, largest, .. }) => {
                assert!(needed >= (mib as u64) << 20);
                fits = largest.unwrap();
            }
            other => panic!("{mib} MiB: {other:?}"),
        }
        assert_eq!(pool.stat().unwrap().committed_bytes, before, "{mib} MiB");
    }
    // The size that the error names does fit.
    assert!(fits > 250 << 20, "{fits} bytes would fit");
    map.put(b"k", &vec![0; fits as usize - 64]).unwrap();
    assert!(pool.fsck().unwrap().is_clean());
}

/// Values that are no power of two of frames lie side by side: a value of 1 MiB and its header take 17 frames, not 32.
#[test]
fn large_values_lie_side_by_side() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        size: 1 << 20,
        max: 64 << 20,
        ..Options::default()
    };
    let pool: Pool = Pool::create(folder.path().join("pool"), &options).unwrap();
    let map = pool.map("m").unwrap();
    let value = vec![7; 1 << 20];
    let put = |n: u64| map.put(&n.to_le_bytes(), &value);
    let fits = (0..).take_while(|&n| put(n).is_ok()).count() as u64;
    assert!(fits >= 58, "{fits} values of 1 MiB and a little fit into 64 MiB");
    // Every third value is removed; the gaps between the others are usable.
    let gone = (0..fits).filter(|n| n % 3 == 0).count();
    for n in (0..fits).filter(|n| n % 3 == 0) {
        assert!(map.remove(&n.to_le_bytes()).unwrap());
    }
    let back = (fits..).take_while(|&n| put(n).is_ok()).count();
    assert!(back >= gone, "{back} of {gone}");
    assert!(pool.fsck().unwrap().is_clean());
}

/// A pool whose free frames lie between others uses what fits: an error names the longest run, and that can be
/// allocated.
#[test]
fn what_fits_between_others_is_taken() {
    const FRAME: usize = 64 << 10;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for seed in 1..=12 {
        println!("seed {seed}");
        let mut draw = StdRng::seed_from_u64(seed);
        let max = draw.random_range(60..200) * FRAME as u64;
        let options = Options {
            size: 1 << 20,
            max,
            ..Options::default()
        };
        let pool: Pool = Pool::create(folder.path().join(format!("{seed}")), &options).unwrap();
        let map = pool.map("m").unwrap();
        let mut stored: BTreeMap<u64, (u8, usize)> = BTreeMap::new();
        let mut refused = 0;
        for key in 0..400 {
            let len = draw.random_range(1..=12) * FRAME - 64;
            let byte = draw.random();
            let put = |key: u64, len: usize| map.put(&key.to_le_bytes(), &vec![byte; len]);
            match put(key, len) {
                Ok(_) => _ = stored.insert(key, (byte, len)),
                Err(Error::Full { needed, largest, .. }) => {
                    refused += 1;
                    let fits = largest.unwrap();
                    assert!(fits < needed, "{fits} of {needed} bytes were free");
                    if fits >= 2 * FRAME as u64 {
                        put(key, fits as usize - 64).unwrap();
                        stored.insert(key, (byte, fits as usize - 64));
                    }
                    for _ in 0..draw.random_range(1..6.min(stored.len())) {
                        let nth = draw.random_range(0..stored.len());
                        let gone = *stored.keys().nth(nth).unwrap();
                        stored.remove(&gone);
                        assert!(map.remove(&gone.to_le_bytes()).unwrap());
                    }
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(refused > 20, "{refused}");
        for (key, &(byte, len)) in &stored {
            let found = map.get(&key.to_le_bytes()).unwrap();
            assert!(found.as_deref() == Some(&vec![byte; len]), "key {key}");
        }
        assert!(pool.fsck().unwrap().is_clean());
    }
}

/// A small pool of one ordered map with small values, which is full of leaves: every key can be removed.
#[test]
fn a_pool_full_of_leaves_can_be_emptied() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for value_len in [8, 20, 100] {
        let options = Options {
            size: 1 << 20,
            max: 2 << 20,
            ..Options::default()
        };
        let pool: Pool = Pool::create(folder.path().join(format!("{value_len}")), &options).unwrap();
        let map = pool.ordered("m").unwrap();
        let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let value = vec![1; value_len];
        let fits = (0..).take_while(|&n| map.put(&key(n), &value).is_ok()).count() as u64;
        assert!(fits > 1_000, "{fits} keys fit");
        for n in 0..fits {
            assert!(
                map.remove(&key(n)).unwrap(),
                "key {n} of {fits}, values of {value_len} bytes"
            );
            // Pages that had to be padded are sound.
            if n < 200 || n % 512 == 0 {
                let report = pool.fsck().unwrap();
                assert!(report.is_clean(), "key {n} of {fits}: {report:?}");
            }
        }
        assert_eq!(map.len(), 0);
        assert!(pool.fsck().unwrap().is_clean());
        assert_eq!(map.put(&key(1), &value).unwrap(), Put::Inserted);
    }
}

/// The part that runs in the namespace; does nothing unless it is started there.
#[test]
fn inside() {
    let Ok(folder) = std::env::var("CENOTE_SMALL_TMPFS") else {
        return;
    };
    fill_and_refill::<Ordered>(&Path::new(&folder).join("ordered"), 1 << 40);
    std::fs::remove_file(Path::new(&folder).join("ordered")).unwrap();
    fill_and_refill::<Map>(&Path::new(&folder).join("pool"), 1 << 40);
    // A full file system has no room for a second pool either, and says so.
    let filler = Path::new(&folder).join("filler");
    let mut size = 64 << 20;
    while size >= 4096 {
        let grown = std::fs::metadata(&filler).map(|m| m.len()).unwrap_or(0) + size;
        let mut bytes = std::fs::read(&filler).unwrap_or_default();
        bytes.resize(grown as usize, 1);
        if std::fs::write(&filler, &bytes).is_err() {
            size /= 2;
        }
    }
    let error =
        Pool::<cenote::Coherent>::create(Path::new(&folder).join("second"), &Options::default()).err();
    assert!(matches!(error, Some(Error::Full { .. })), "{error:?}");
}

#[test]
fn a_full_tmpfs_gives_errors_and_the_pool_goes_on() {
    run_inside("inside", "CENOTE_SMALL_TMPFS");
}

/// Runs a test of this file in a namespace that has a small file system, whose folder a variable names.
fn run_inside(test: &str, variable: &str) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64m tmpfs {0} && {variable}={0} exec {1} --exact space::{test} --nocapture",
        folder.path().display(),
        std::env::current_exe().unwrap().display(),
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .output()
        .expect("unshare, from util-linux, starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Takes all but so much of the file system.
fn take_all_but(folder: &Path, left: u64) -> std::path::PathBuf {
    let filler = folder.join("filler");
    let mut bytes = vec![1; 64 << 20];
    while std::fs::write(&filler, &bytes).is_err() {
        bytes.truncate(bytes.len() - (64 << 10));
    }
    bytes.truncate(bytes.len().saturating_sub(left as usize));
    std::fs::write(&filler, &bytes).unwrap();
    filler
}

/// Puts values of half a megabyte until there is no room for more; how many there was room for.
fn fill(map: &Map) -> u64 {
    (0..)
        .take_while(
            |key: &u64| match map.put(&key.to_le_bytes(), &vec![*key as u8; 500_000]) {
                Ok(_) => true,
                Err(Error::Full { .. }) => false,
                Err(other) => panic!("{other}"),
            },
        )
        .count() as u64
}

/// What the first `fill` put is there, and can be removed.
fn empty(map: &Map, keys: u64) {
    for key in 0..keys {
        let value = map.get(&key.to_le_bytes()).unwrap().unwrap();
        assert!(value.iter().all(|byte| *byte == key as u8), "key {key}");
        drop(value);
        assert!(map.remove(&key.to_le_bytes()).unwrap());
    }
}

/// The part that runs in the namespace; does nothing unless it is started there.
#[test]
fn inside_trimmed() {
    let Ok(folder) = std::env::var("CENOTE_TRIMMED_TMPFS") else {
        return;
    };
    let folder = Path::new(&folder);
    let options = Options {
        size: 1 << 20,
        max: 1 << 30,
        ..Options::default()
    };
    let pool: Pool = Pool::create(folder.join("pool"), &options).unwrap();
    let map = pool.map("m").unwrap();
    let first = fill(&map);
    assert!(first > 80, "{first} values fit");
    let full = pool.stat().unwrap();
    empty(&map, first);
    let trimmed = pool.trim().unwrap();
    assert!(
        trimmed.newly_given_back_bytes > full.committed_bytes / 2,
        "{trimmed:?}"
    );
    let stat = pool.stat().unwrap();
    assert!(
        stat.file_bytes.unwrap() < full.file_bytes.unwrap() / 2,
        "{stat:#?}"
    );
    assert_eq!(stat.given_back_bytes, trimmed.given_back_bytes);
    assert!(pool.fsck().unwrap().is_clean());

    // Others take what was given back: then the pool is full, without a signal.
    let filler = take_all_but(folder, 20 << 20);
    let second = fill(&map);
    assert!((5..first).contains(&second), "{second} values fit");
    assert!(pool.fsck().unwrap().is_clean());
    empty(&map, second);

    // Others use the pool while it is trimmed, and there is hardly any room.
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let pool = pool.clone();
            scope.spawn(move || {
                let map = pool.map("m").unwrap();
                let mut refused = 0;
                for n in 0..600u64 {
                    let key = ((thread << 32) | (n % 16)).to_le_bytes();
                    let len = [20, 3_000, 70_000, 900_000][(n * 7 + thread) as usize % 4];
                    match map.put(&key, &vec![n as u8; len]) {
                        Ok(_) => {
                            let found = map.get(&key).unwrap().unwrap();
                            assert!(found.len() == len && found.iter().all(|byte| *byte == n as u8));
                        }
                        Err(Error::Full { .. }) => refused += 1,
                        Err(other) => panic!("{other}"),
                    }
                    if n % 5 == 0 {
                        map.remove(&key).unwrap();
                    }
                }
                assert!(refused < 600, "not one value fits");
            });
        }
        for _ in 0..60 {
            pool.trim().unwrap();
        }
    });
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    for thread in 0..3u64 {
        for n in 0..16 {
            map.remove(&(thread << 32 | n).to_le_bytes()).unwrap();
        }
    }
    std::fs::remove_file(filler).unwrap();
    let last = fill(&map);
    // Small blocks are scattered by now.
    assert!(
        last > first / 4 * 3,
        "{last} values fit, and {first} did at first"
    );
    empty(&map, last);
}

#[test]
fn what_is_given_back_is_reserved_before_it_is_used_again() {
    run_inside("inside_trimmed", "CENOTE_TRIMMED_TMPFS");
}

#[test]
fn the_background_thread_gives_back_what_stays_free() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        size: 64 << 20,
        max: 1 << 30,
        trim_after: Some(std::time::Duration::from_millis(20)),
        ..Options::default()
    };
    let pool: Pool = Pool::create(folder.path().join("pool"), &options).unwrap();
    let begun = std::time::Instant::now();
    while pool.stat().unwrap().file_bytes.unwrap() > 16 << 20 {
        assert!(begun.elapsed().as_secs() < 60, "{:#?}", pool.stat().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let map = pool.map("m").unwrap();
    for key in 0..32 {
        map.put_u64(key, key).unwrap();
        map.put(&key.to_le_bytes(), &vec![key as u8; 1 << 20]).unwrap();
    }
    for key in 0..32u64 {
        let value = map.get(&key.to_le_bytes()).unwrap().unwrap();
        assert!(value.iter().all(|byte| *byte == key as u8));
    }
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn incoherent_memory_is_not_given_back() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<cenote::Noncoherent> =
        Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
    let error = pool.trim().unwrap_err();
    assert!(error.to_string().contains("incoherent"), "{error}");
    assert!(pool.trim_after(std::time::Duration::from_secs(1)).is_err());
    assert!(pool.fsck().unwrap().is_clean());
}
