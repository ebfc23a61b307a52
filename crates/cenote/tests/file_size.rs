//! A process whose limit of file sizes is below the size that its pool needs: an error, and no signal. The limit is the
//! whole process's, so this is one test, alone in its process.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

use cenote::{Coherent, Error, Options, Pool};

const MIB: u64 = 1 << 20;

fn limit(bytes: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a structure of ours, filled in and then read.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit), 0);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

/// Whether the signal is blocked in this thread, and whether it is pending.
fn signal() -> (bool, bool) {
    // SAFETY: fills in sets of ours, for which all zeroes is a valid value.
    unsafe {
        let (mut blocked, mut pending) = (std::mem::zeroed(), std::mem::zeroed());
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked);
        libc::sigpending(&mut pending);
        let has = |set| libc::sigismember(set, libc::SIGXFSZ) == 1;
        (has(&blocked), has(&pending))
    }
}

fn refused<T>(result: cenote::Result<T>) {
    let error = result.err().expect("it should be refused");
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("EFBIG") && text.contains("ulimit -f"), "{text}");
}

#[test]
fn a_file_size_limit_is_a_full_pool_and_no_signal() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let options = Options {
        size: MIB,
        ..Options::default()
    };
    let pool = Pool::<Coherent>::create(&path, &options).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"before", b"v").unwrap();
    let len = path.metadata().unwrap().len();
    limit(len + 16 * MIB);
    map.put(b"some", &vec![1; 8 * MIB as usize]).unwrap();
    refused(map.put(b"much", &vec![2; 32 * MIB as usize]));
    assert_eq!(signal(), (false, false));
    // Writes that fit go on: in this process into what is there, in others as far as their limits allow.
    map.put(b"after", b"v").unwrap();
    assert_eq!(map.get(b"some").unwrap().unwrap().len() as u64, 8 * MIB);
    for size in [4096, 64 * MIB] {
        let new = folder.path().join("new");
        limit(64 * 1024);
        refused(Pool::<Coherent>::create(
            &new,
            &Options {
                size,
                ..options.clone()
            },
        ));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
    assert_eq!(signal(), (false, false));
    // A signal that was blocked and pending stays so: the library must not take it.
    // SAFETY: changes this thread's mask, and sends it a signal that it has blocked.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        refused(map.put(b"much", &vec![2; 32 * MIB as usize]));
        assert_eq!(signal(), (true, false));
        libc::raise(libc::SIGXFSZ);
        refused(map.put(b"much", &vec![2; 32 * MIB as usize]));
        assert_eq!(signal(), (true, true));
        libc::sigtimedwait(&set, std::ptr::null_mut(), &std::mem::zeroed());
    }
    limit(u64::MAX);
    map.put(b"much", &vec![2; 32 * MIB as usize]).unwrap();
    drop(map);
    assert!(pool.fsck().unwrap().is_clean());
}
