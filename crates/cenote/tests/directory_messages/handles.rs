//! Threads and their handles, over channels and over sockets of one process.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use cenote::Acquired;
use cenote::sync::Timeout;
use cenote::sync::directory::messages::hub::DirectoryThread;
use cenote::sync::directory::messages::link::Link;
use cenote::sync::directory::messages::{Directory, RemoteError, RemoteLock, RemoteNode, channel, socket};

const LOCK: u64 = 1;

fn directory() -> DirectoryThread {
    let mut directory = Directory::new();
    assert!(directory.create(LOCK, vec![0; 4096]) && !directory.create(LOCK, Vec::new()));
    DirectoryThread::start(directory).unwrap()
}

fn count(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn add_one(bytes: &mut [u8]) {
    let count = count(bytes) + 1;
    bytes[..8].copy_from_slice(&count.to_le_bytes());
    let last = bytes.len() - 8;
    bytes[last..].copy_from_slice(&count.to_le_bytes());
}

fn all_count(connect: impl Fn() -> Link) {
    const NODES: usize = 4;
    const THREADS: usize = 2;
    const TIMES: usize = 200;
    let nodes: Vec<RemoteNode> = (0..NODES).map(|_| RemoteNode::new(connect()).unwrap()).collect();
    std::thread::scope(|scope| {
        for node in &nodes {
            for _ in 0..THREADS {
                scope.spawn(move || {
                    let lock = RemoteLock::new(node, LOCK);
                    for _ in 0..TIMES {
                        let mut guard = lock.write().unwrap();
                        assert_eq!(guard.acquired(), Acquired::Clean);
                        add_one(&mut guard);
                        drop(guard);
                        let guard = lock.read().unwrap();
                        assert_eq!(count(&guard), count(&guard[4096 - 8..]));
                    }
                });
            }
        }
    });
    // What nodes that leave have written is kept.
    drop(nodes);
    let node = RemoteNode::new(connect()).unwrap();
    let lock = RemoteLock::new(&node, LOCK);
    let guard = lock.read().unwrap();
    assert_eq!(count(&guard), (NODES * THREADS * TIMES) as u64);
    assert_eq!(guard.acquired(), Acquired::Clean);
}

#[test]
fn nodes_count_together_over_channels() {
    let directory = directory();
    all_count(|| channel::connect(&directory.hub()).unwrap());
}

#[test]
fn nodes_count_together_over_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory");
    let directory = directory();
    let listener = socket::Listener::start(&path, directory.hub()).unwrap();
    all_count(|| socket::connect(&path).unwrap());
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn misuse_and_timeouts_are_told() {
    let directory = directory();
    let node = || RemoteNode::new(channel::connect(&directory.hub()).unwrap()).unwrap();
    let (one, other) = (node(), node());
    let (mine, theirs) = (RemoteLock::new(&one, LOCK), RemoteLock::new(&other, LOCK));
    let guard = mine.write().unwrap();
    assert_eq!(mine.read().err(), Some(RemoteError::Deadlock));
    assert!(theirs.write_with(Timeout::None).unwrap().is_none());
    let soon = Timeout::during(Duration::from_millis(50));
    assert!(theirs.read_with(soon).unwrap().is_none());
    drop(guard);
    drop(theirs.write().unwrap());
    // Kept, so that no wait is needed.
    assert!(theirs.write_with(Timeout::None).unwrap().is_some());
    let missing = RemoteLock::new(&one, 99);
    assert_eq!(missing.write().err(), Some(RemoteError::NoSuchLock(99)));
    assert_eq!(missing.read().err(), Some(RemoteError::NoSuchLock(99)));
    drop(directory);
    assert_eq!(mine.write().err(), Some(RemoteError::CutOff));
}

#[test]
fn a_panic_under_the_lock_and_a_node_that_is_cut_are_told() {
    let directory = directory();
    let node = || RemoteNode::new(channel::connect(&directory.hub()).unwrap()).unwrap();
    let (one, other) = (node(), node());
    let (mine, theirs) = (RemoteLock::new(&one, LOCK), RemoteLock::new(&other, LOCK));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut guard = mine.write().unwrap();
        add_one(&mut guard);
        panic!("under the lock");
    }));
    assert!(panicked.is_err());
    let guard = theirs.read().unwrap();
    assert!(matches!(guard.acquired(), Acquired::Recovered { from, .. } if from.worker == 0));
    assert_eq!(count(&guard), 1);
    drop(guard);
    // A writer that unlocks ends that. Then its node dies with what it has written.
    add_one(&mut mine.write().unwrap());
    assert_eq!(mine.read().unwrap().acquired(), Acquired::Clean);
    one.cut();
    let guard = theirs.write().unwrap();
    assert!(matches!(guard.acquired(), Acquired::Recovered { from, .. } if from.worker == 0));
    assert_eq!(count(&guard), 1);
    assert_eq!(mine.read().err(), Some(RemoteError::CutOff));
}

/// Bytes that are no messages end their own connection, and nothing else.
#[test]
fn who_sends_what_is_no_message_is_cut() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory");
    let directory = directory();
    let _listener = socket::Listener::start(&path, directory.hub()).unwrap();
    let node = RemoteNode::new(socket::connect(&path).unwrap()).unwrap();
    let lock = RemoteLock::new(&node, LOCK);
    add_one(&mut lock.write().unwrap());
    for bytes in [
        &[0xff_u8; 64][..],
        &[0, 0, 0, 0],
        &[3, 0, 0, 0, 1, 2, 3],
        &[64, 0, 0, 0, 1],
    ] {
        let mut hostile = UnixStream::connect(&path).unwrap();
        hostile.write_all(bytes).unwrap();
        hostile.shutdown(std::net::Shutdown::Write).unwrap();
        // Its welcome, then the end.
        let mut rest = Vec::new();
        let _ = hostile.read_to_end(&mut rest);
    }
    add_one(&mut lock.write().unwrap());
    assert_eq!(count(&lock.read().unwrap()), 2);
}
