//! A process that opens more pools than it can have: an error that says so, and what is open goes on. One test, alone
//! in its process, as the lists are the whole process's.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

use cenote::report::MappingError;
use cenote::{Coherent, Error, Options, Pool};

/// The most pools that a process can have open.
const MOST: usize = 1024;

/// Lets this process open so many descriptors, if it may.
fn allow(descriptors: u64) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a structure of ours, filled in and then read.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_cur.max(descriptors).min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= descriptors
    }
}

#[test]
fn one_pool_too_many_is_an_error_and_the_others_go_on() {
    if !allow(8 * MOST as u64) {
        eprintln!("not tested: this process may open too few files");
        return;
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let options = Options {
        size: 1 << 20,
        max: 1 << 20,
        processes: 2 * MOST as u32,
        background_thread: false,
        ..Options::default()
    };
    let pool = Pool::<Coherent>::create(&path, &options).unwrap();
    pool.map("m").unwrap().put(b"key", b"value").unwrap();
    let open = || Pool::<Coherent>::open_read_only(&path, &options);
    let mut readers = Vec::new();
    let refused = loop {
        match open() {
            Ok(reader) => readers.push(reader),
            Err(error) => break error,
        }
        assert!(readers.len() <= MOST, "the table is never full");
    };
    assert!(
        matches!(
            &refused,
            Error::Mapping(MappingError::TooMany { limit: MOST, .. })
        ),
        "{refused}"
    );
    assert_eq!(
        refused.to_string(),
        "this process has 1024 pools mapped already, as many as it can have; close pools that it no longer uses, or open others in another process"
    );
    assert_eq!(readers.len(), MOST - 1);
    assert!(open().is_err());
    readers.pop();
    let reader = open().unwrap();
    assert_eq!(reader.map("m").unwrap().get(b"key").unwrap().unwrap(), b"value");
    drop((reader, readers));
    // As many with places, too: their descriptors have room.
    let mut pools = Vec::new();
    let refused = loop {
        match Pool::<Coherent>::open(&path, &options) {
            Ok(pool) => pools.push(pool),
            Err(error) => break error,
        }
        assert!(pools.len() <= MOST, "the table is never full");
    };
    assert!(
        matches!(refused, Error::Mapping(MappingError::TooMany { .. })),
        "{refused}"
    );
    assert_eq!(pools.len(), MOST - 1);
}
