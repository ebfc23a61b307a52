//! Files for liveness locks beside a pool: all processes of a pool use one file, and no two pools the same. Else living
//! processes count as dead, or a server of one pool keeps processes of the other waiting.

use std::path::Path;

use cenote::memory::Mapped;
use cenote::{Coherent, Delegated, Options, Pool};

fn with(lock_file: &Path) -> Options {
    Options {
        lock_file: Some(lock_file.to_owned()),
        ..Options::default()
    }
}

fn refused<M: Mapped>(pool: cenote::Result<Pool<M>>, words: &str) {
    let error = pool.err().expect("it should be refused").to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_pool_that_is_open_has_its_locks_on_one_file() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let (plain, other) = (Options::default(), with(&folder.path().join("other")));
    for (first, second) in [(&plain, &other), (&other, &plain)] {
        let pool = match path.exists() {
            true => Pool::<Coherent>::open(&path, first).unwrap(),
            false => Pool::<Coherent>::create(&path, first).unwrap(),
        };
        let map = pool.map("m").unwrap();
        map.put_u64(1, 1).unwrap();
        refused(Pool::<Coherent>::open(&path, second), "on another file");
        // The same file by another name.
        let link = folder.path().join("link");
        std::fs::hard_link(first.lock_file.as_ref().unwrap_or(&path), &link).unwrap();
        let same = Pool::<Coherent>::open(&path, &with(&link)).unwrap();
        same.map("m").unwrap().put_u64(2, 2).unwrap();
        std::fs::remove_file(link).unwrap();
        map.put_u64(1, 3).unwrap();
        drop((map, same));
        // A process that has ended blocks nobody.
        drop(pool);
        drop(Pool::<Coherent>::open(&path, second).unwrap());
    }
}

#[test]
fn a_file_has_the_locks_of_one_pool_that_is_open() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let locks = with(&folder.path().join("locks"));
    let pool = Pool::<Delegated>::create(&one, &locks).unwrap();
    refused(Pool::<Delegated>::create(&two, &locks), "of another pool");
    assert!(!two.exists());
    drop(Pool::<Delegated>::create(&two, &Options::default()).unwrap());
    refused(Pool::<Delegated>::open(&two, &locks), "of another pool");
    pool.map("m").unwrap().put_u64(1, 1).unwrap();
    drop(pool);
    let pool = Pool::<Delegated>::open(&two, &locks).unwrap();
    pool.map("m").unwrap().put_u64(1, 1).unwrap();
    drop(pool);
    // The file may be a pool itself.
    let pool = Pool::<Delegated>::open(&two, &Options::default()).unwrap();
    refused(Pool::<Delegated>::open(&one, &with(&two)), "of another pool");
    pool.map("m").unwrap().put_u64(1, 1).unwrap();
}

#[test]
fn what_is_no_file_for_locks_is_refused_by_name() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    drop(Pool::<Coherent>::create(&path, &Options::default()).unwrap());
    let dangling = folder.path().join("dangling");
    std::os::unix::fs::symlink("no/such/file", &dangling).unwrap();
    for lock_file in [folder.path(), Path::new("/dev/null"), &dangling] {
        let name = lock_file.to_str().unwrap();
        refused(Pool::<Coherent>::open(&path, &with(lock_file)), name);
        let new = folder.path().join("new");
        refused(Pool::<Coherent>::create(&new, &with(lock_file)), name);
        assert!(!new.exists());
    }
    for place in [folder.path().join("no/folder"), dangling] {
        let refusal = Pool::<Coherent>::create(&place, &Options::default());
        refused(refusal, place.to_str().unwrap());
    }
}
