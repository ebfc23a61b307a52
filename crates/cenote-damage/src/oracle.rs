//! The oracle of all tests and fuzz targets that damage a pool: damage may destroy, but it must not go unseen.
//!
//! **What `fsck` calls clean must hold.** After damage, a pool is opened and checked. If that fails or finds anything,
//! the damage is *noticed*, and nothing more is asked of it. If the pool is clean:
//!
//! 1. A full read of everything gives no error, and all ways to read agree ([`content::read`]).
//! 2. The read gives what was there before the damage, except for at most as many keys as the damage can have hit
//!    (`allowance`): keys and values have no checksums. Damage to the tables before the data hits none.
//! 3. Then fresh keys of all sizes are put and removed in all maps. What succeeds of that can be read, and everything
//!    else reads as in 1. Writes may fail with an error: then damage was noticed late, and nothing is known of the key
//!    that was written.
//! 4. If none has failed, `fsck` still calls the pool clean, and does so again when the pool is opened again.
//!
//! [`judge`] asks exactly this.

use std::collections::BTreeSet;
use std::path::Path;

use cenote::memory::Mapped;
use cenote::{FsckReport, Pool, Result};

use crate::content::{self, Content, MAPS, ORDERED, differences};
use crate::options;

/// The outcome of damage that was not silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The pool cannot be opened, or `fsck` reports something.
    Noticed,
    /// `fsck` called it clean, and it is.
    Sound,
    /// `fsck` called it clean, all reads are right, and a later call failed with an error.
    Late,
}

/// Sizes of fresh values: of small classes, of blocks of several frames, of extents.
const SIZES: [usize; 12] = [0, 1, 17, 40, 100, 250, 600, 1_000, 3_000, 7_000, 15_000, 70_000];
/// Fresh keys of each size in each map.
const FRESH: u64 = 25;

/// Judges a damaged pool; `Err` says what went unseen.
pub fn judge<M: Mapped>(
    path: &Path,
    before: &Content,
    allowance: usize,
) -> std::result::Result<Seen, String> {
    let Ok(pool) = Pool::<M>::open(path, &options()) else {
        return Ok(Seen::Noticed);
    };
    if !pool.fsck().is_ok_and(|report| report.is_clean()) {
        return Ok(Seen::Noticed);
    }
    let read = content::read(&pool);
    if let Some(((name, key), Err(error))) = read.iter().find(|(_, value)| value.is_err()) {
        return Err(format!(
            "fsck is clean, and {name} {key:x?} cannot be read: {error}"
        ));
    }
    if let (count, Some(first)) = differences(before, &read)
        && count > allowance
    {
        return Err(format!(
            "fsck is clean, and {count} keys read otherwise, as {first}"
        ));
    }
    let (fresh, uncertain) = write_fresh(&pool);
    let errors = uncertain.len();
    let mut expected = read;
    expected.extend(fresh);
    let mut now = content::read(&pool);
    now.retain(|key, _| !uncertain.contains(key));
    if let (count, Some(first)) = differences(&expected, &now) {
        return Err(format!(
            "fsck was clean, and after writes of others {count} keys read otherwise, as {first} ({errors} errors)"
        ));
    }
    if errors > 0 {
        return Ok(Seen::Late);
    }
    let is_clean = |report: Result<FsckReport>| match report {
        Ok(report) if report.is_clean() => Ok(()),
        other => Err(format!(
            "fsck was clean, no call has failed, and now it says: {other:?}"
        )),
    };
    is_clean(pool.fsck())?;
    drop(pool);
    let pool = Pool::<M>::open(path, &options()).map_err(|error| format!("it opens no more: {error}"))?;
    is_clean(pool.fsck())?;
    Ok(Seen::Sound)
}

/// Keys of structures.
type Keys = BTreeSet<(String, Vec<u8>)>;

/// Puts fresh keys, and removes some again. Returns what is there of them, and the keys of which a call has failed:
/// such a call may have taken effect.
fn write_fresh<M: Mapped>(pool: &Pool<M>) -> (Content, Keys) {
    let (mut fresh, mut uncertain) = (Content::new(), Keys::new());
    let mut write = |name: &str, put: &dyn Fn(&[u8], &[u8]) -> bool, remove: &dyn Fn(&[u8]) -> bool| {
        for (n, size) in (0..FRESH).flat_map(|n| SIZES.map(|size| (n, size))) {
            if size > 10_000 && n > 2 {
                continue;
            }
            let key = format!("fresh {name} {size} {n}").into_bytes();
            let value = vec![n as u8 ^ 0x5a; size];
            let (is_removed, at) = (n % 3 == 1, (name.to_owned(), key.clone()));
            if !put(&key, &value) || is_removed && !remove(&key) {
                uncertain.insert(at);
            } else if !is_removed {
                fresh.insert(at, Ok(value));
            }
        }
    };
    for name in MAPS {
        // The reads that follow see what is not there any more.
        if let Ok(map) = pool.existing_map(name) {
            let put = |key: &[u8], value: &[u8]| map.put(key, value).is_ok();
            write(name, &put, &|key| map.remove(key).is_ok());
        }
    }
    if let Ok(map) = pool.existing_ordered(ORDERED) {
        let put = |key: &[u8], value: &[u8]| map.put(key, value).is_ok();
        write(ORDERED, &put, &|key| map.remove(key).is_ok());
    }
    (fresh, uncertain)
}
