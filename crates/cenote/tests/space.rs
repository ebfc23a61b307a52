//! A full file system and a full pool: error values, nothing lost, usable after deletes.
//!
//! The file system is a tmpfs of 64 MiB in a mount namespace of the test's own (`unshare`, from util-linux).

use std::path::Path;
use std::process::Command;

use cenote::{Error, Map, Options, Ordered, Pool, Put, Result};

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
        let report = pool.fsck(false).unwrap();
        assert!(report.is_clean(), "{report:#?}");
    };
    check(&stored);
    // A second process and a second map are told the same, and do no harm.
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
    // A range needs an aligned block of the next power of two; there is one, as free blocks were merged.
    assert_eq!(map.put(b"large again", &vec![1; 7 << 20]).unwrap(), Put::Inserted);
}

#[test]
fn a_pool_at_its_maximum_gives_errors_and_goes_on() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    fill_and_refill::<Map>(&folder.path().join("pool"), 48 << 20);
    fill_and_refill::<Ordered>(&folder.path().join("ordered"), 48 << 20);
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
        }
        assert_eq!(map.len(), 0);
        assert!(pool.fsck(false).unwrap().is_clean());
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
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64m tmpfs {0} && CENOTE_SMALL_TMPFS={0} exec {1} --exact inside --nocapture",
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
