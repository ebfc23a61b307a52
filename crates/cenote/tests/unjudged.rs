//! Planted faults that leave out checks: what the checks prevent happens. So the tests of the checks can fail.

use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use cenote::mutant::{Mutant, choose};
use cenote::pod::format::reserve::Reserve;
use cenote::pod::format::superblock::COMMITTED;
use cenote::{Coherent, Options, Plan, Pool};

/// Runs something with a fault planted, and without.
fn with_and_without<R>(fault: Mutant, run: impl Fn() -> R) -> [R; 2] {
    [Some(fault), None].map(|planted| {
        choose(planted);
        let done = run();
        choose(None);
        done
    })
}

fn pool_in(folder: &Path, mode: u32) -> std::path::PathBuf {
    let path = folder.join("pool");
    let pool = Pool::<Coherent>::create(&path, &Options::default()).unwrap();
    pool.map("m").unwrap().put(b"key", b"value").unwrap();
    drop(pool);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_word_without_its_valid_bit_reserves_something() {
    let cells = || Reserve(0xf).mask();
    assert_eq!(with_and_without(Mutant::ReserveUnjudged, cells), [0xf, 0]);
}

#[test]
fn frames_that_the_file_does_not_have_are_taken_for_committed() {
    let is_believed = with_and_without(Mutant::FramesBelieved, || {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool = Pool::<Coherent>::open(pool_in(folder.path(), 0o600), &Options::default()).unwrap();
        let worker = pool.worker().unwrap();
        let frames = COMMITTED.load(worker.mem());
        COMMITTED.store(worker.mem(), 2 * frames);
        let is_believed = worker.committed_frames().is_ok();
        COMMITTED.store(worker.mem(), frames);
        is_believed
    });
    assert_eq!(is_believed, [true, false]);
}

#[test]
fn lengths_that_reach_into_other_objects_are_clean() {
    for name in ["hash", "ordered", "tasks"] {
        let is_clean = with_and_without(Mutant::LengthUnjudged, || {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let path = folder.path().join("pool");
            let value = [0x5a; 104];
            let pool = Pool::<Coherent>::create(&path, &Options::default()).unwrap();
            match name {
                "hash" => drop(pool.map(name).unwrap().put(b"key", &value).unwrap()),
                "ordered" => drop(pool.ordered(name).unwrap().put(b"key", &value).unwrap()),
                _ => drop(
                    pool.tasks(name, &Plan::phases(vec![3]))
                        .unwrap()
                        .commit(1, &value),
                ),
            }
            let bytes = std::fs::read(&path).unwrap();
            let at = bytes
                .windows(value.len())
                .position(|bytes| bytes == value)
                .unwrap();
            // The value's length, of 8 bytes: after the key's, or alone before a result.
            let length = (at - 32..at)
                .rev()
                .find(|at| at % 8 == 0 && bytes[*at] == 104)
                .unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(&[1], length as u64 + 1).unwrap();
            pool.fsck().unwrap().is_clean()
        });
        assert_eq!(is_clean, [true, false], "{name}");
    }
}

#[test]
fn a_link_is_followed() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = pool_in(folder.path(), 0o600);
    let link = folder.path().join("link");
    symlink(path, &link).unwrap();
    let opens = || Pool::<Coherent>::open_read_only(&link, &Options::default()).is_ok();
    assert_eq!(with_and_without(Mutant::LinkFollowed, opens), [true, false]);
}

#[test]
fn what_every_user_may_write_is_opened() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = pool_in(folder.path(), 0o666);
    let opens = || Pool::<Coherent>::open(&path, &Options::default()).is_ok();
    assert_eq!(with_and_without(Mutant::OwnerBelieved, opens), [true, false]);
}
