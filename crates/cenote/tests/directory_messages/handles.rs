//! Threads and their handles, over channels and over sockets of one process.

use std::path::Path;
use std::time::Duration;

use cenote::Acquired;
use cenote::remote::{Address, Error, LeaseState, LockClient, LockService, ServiceOptions, status};
use cenote::sync::Timeout;

fn service() -> LockService {
    LockService::start(&ServiceOptions::default()).unwrap()
}

/// Numbers at both ends of a value.
type Ends = [u64; 512];

fn all_count(connect: impl Fn() -> LockClient) {
    const NODES: usize = 4;
    const THREADS: usize = 2;
    const TIMES: u64 = 200;
    let clients: Vec<LockClient> = (0..NODES).map(|_| connect()).collect();
    std::thread::scope(|scope| {
        for client in &clients {
            for _ in 0..THREADS {
                scope.spawn(move || {
                    let lock = client.rwlock::<Ends>("ends").unwrap();
                    for _ in 0..TIMES {
                        let mut guard = lock.write().unwrap();
                        assert_eq!(guard.acquired(), Acquired::Clean);
                        guard[0] += 1;
                        guard[511] += 1;
                        guard.unlock().unwrap();
                        let guard = lock.read().unwrap();
                        assert_eq!(guard[0], guard[511]);
                        guard.verify().unwrap();
                    }
                });
            }
        }
    });
    // What nodes that leave have written is kept.
    clients.into_iter().for_each(|client| client.close().unwrap());
    let client = connect();
    let lock = client.existing_rwlock::<Ends>("ends").unwrap();
    let guard = lock.read().unwrap();
    assert_eq!(guard[0], (NODES * THREADS) as u64 * TIMES);
    assert_eq!(guard.acquired(), Acquired::Clean);
}

#[test]
fn nodes_count_together_over_channels() {
    let service = service();
    all_count(|| service.client("").unwrap());
}

fn unix(folder: &Path) -> Address {
    Address::Unix(folder.join("locks"))
}

#[test]
fn nodes_count_together_over_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let (service, address) = (service(), unix(folder.path()));
    assert_eq!(service.listen(&address).unwrap(), address);
    all_count(|| LockClient::connect(&address).unwrap());
    drop(service);
    assert!(!folder.path().join("locks").exists());
}

#[test]
fn nodes_count_together_over_tcp() {
    let service = service();
    let address = service.listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
    all_count(|| LockClient::connect(&address).unwrap());
}

#[test]
fn several_regions_travel_as_far_as_they_have_changed() {
    let service = service();
    let [one, other] = ["one", "other"].map(|label| service.client(label).unwrap());
    let open = |client: &LockClient| {
        client
            .regions_builder("table")
            .region(4096)
            .region(3)
            .region(0)
            .open()
            .unwrap()
    };
    let (mine, theirs) = (open(&one), open(&other));
    assert_eq!(mine.regions(), 3);
    for n in 1..20_u8 {
        let (writes, reads) = if n % 2 == 0 {
            (&mine, &theirs)
        } else {
            (&theirs, &mine)
        };
        let mut guard = writes.write().unwrap();
        // Sometimes one, sometimes the other, sometimes none.
        if n % 3 > 0 {
            guard.region_mut(0)[17] = n;
        }
        if n % 3 < 2 {
            guard.region_mut(1)[2] = n;
        }
        drop(guard);
        let guard = reads.read().unwrap();
        let last = |is: fn(u8) -> bool| (1..=n).rev().find(|n| is(n % 3)).unwrap_or(0);
        assert_eq!(guard.region(0)[17], last(|rest| rest > 0));
        assert_eq!(guard.region(1), [0, 0, last(|rest| rest < 2)]);
        assert!(guard.region(2).is_empty());
    }
}

#[test]
fn a_try_asks_the_service_once() {
    let service = service();
    let [one, other] = ["one", "other"].map(|label| service.client(label).unwrap());
    let mine = one.rwlock::<u64>("stock").unwrap();
    let theirs = other.rwlock::<u64>("stock").unwrap();
    // Free: granted at once, to either.
    assert!(mine.try_read().unwrap().is_some());
    assert!(theirs.try_read().unwrap().is_some());
    let guard = mine.try_read().unwrap().unwrap();
    assert!(theirs.try_write().unwrap().is_none());
    drop(guard);
    // It has been asked for, and comes without being asked for again.
    drop(theirs.write().unwrap());
    assert!(theirs.try_write().unwrap().is_some());
}

#[test]
fn misuse_and_timeouts_are_told() {
    let service = service();
    let [one, other] = ["one", "other"].map(|label| service.client(label).unwrap());
    let mine = one.rwlock::<u64>("stock").unwrap();
    let theirs = other.rwlock::<u64>("stock").unwrap();
    let guard = mine.write().unwrap();
    assert_eq!(mine.read().err(), Some(Error::Deadlock));
    assert!(theirs.write_for(Duration::ZERO).unwrap().is_none());
    assert!(theirs.read_for(Duration::from_millis(50)).unwrap().is_none());
    drop(guard);
    drop(theirs.write().unwrap());
    assert!(theirs.write_with(Timeout::None).unwrap().is_some());

    let name = || "stock".to_owned();
    let other_size = Error::OtherSize {
        name: name(),
        has: 8,
        asked: 4,
    };
    assert_eq!(one.rwlock::<u32>("stock").err(), Some(other_size));
    let missing = Error::Missing {
        name: "none".to_owned(),
    };
    assert_eq!(one.existing_regions("none").err(), Some(missing));
    let long = "x".repeat(181);
    assert_eq!(
        one.rwlock::<u32>(&long).err(),
        Some(Error::InvalidName { name: long })
    );
    assert_eq!(
        one.rwlock::<u32>("").err(),
        Some(Error::InvalidName { name: String::new() })
    );
    let too_much = one.regions_builder("much").region(1 << 20).region(1);
    assert_eq!(too_much.open().err(), Some(Error::Regions));
    assert_eq!(
        one.regions_builder("more").region(1 << 40).open().err(),
        Some(Error::Regions)
    );

    let guard = mine.write().unwrap();
    assert_eq!(one.close().err(), Some(Error::Held { name: name() }));
    drop(guard);
    assert_eq!(mine.write().err(), Some(Error::Closed));
    drop(service);
    assert_eq!(theirs.write().err(), Some(Error::Disconnected));
    assert_eq!(other.lease_state(), LeaseState::Ended);
}

#[test]
fn a_service_is_bounded() {
    let mut options = ServiceOptions::default();
    (options.max_locks, options.max_bytes) = (2, 100);
    let service = LockService::start(&options).unwrap();
    let client = service.client("").unwrap();
    client.rwlock::<[u64; 8]>("one").unwrap();
    assert_eq!(client.rwlock::<[u64; 8]>("two").err(), Some(Error::Full));
    client.rwlock::<u64>("two").unwrap();
    assert_eq!(client.rwlock::<u8>("three").err(), Some(Error::Full));
    client.rwlock::<[u64; 8]>("one").unwrap();
    options.lease = Duration::from_millis(1);
    assert!(LockService::start(&options).is_err());
}

#[test]
fn a_panic_under_the_lock_and_a_node_that_is_cut_are_told() {
    let service = service();
    let [one, other] = ["one", "other"].map(|label| service.client(label).unwrap());
    let mine = one.rwlock::<u64>("stock").unwrap();
    let theirs = other.rwlock::<u64>("stock").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut guard = mine.write().unwrap();
        *guard += 1;
        guard.set_note(77).unwrap();
        panic!("under the lock");
    }));
    assert!(panicked.is_err());
    let told = |note| Acquired::Recovered {
        from: one.owner(),
        note,
    };
    let guard = theirs.read().unwrap();
    assert_eq!((guard.acquired(), *guard), (told(77), 1));
    drop(guard);
    // A writer that unlocks ends that. A note is one of a hold.
    *mine.write().unwrap() += 1;
    assert_eq!(mine.read().unwrap().acquired(), Acquired::Clean);
    // What is committed is safe. Then the node dies with what it has written, and its last note.
    let mut guard = mine.write().unwrap();
    *guard += 1;
    guard.commit().unwrap();
    let mut guard = mine.write().unwrap();
    let token = guard.fencing_token();
    *guard = 99;
    guard.set_note(5).unwrap();
    let dead = one.owner();
    one.cut();
    assert_eq!(guard.verify().err(), Some(Error::Disconnected));
    assert_eq!(guard.set_note(6).err(), Some(Error::Disconnected));
    assert_eq!(guard.commit().err(), Some(Error::Disconnected));
    let guard = theirs.write().unwrap();
    let recovered = Acquired::Recovered { from: dead, note: 5 };
    assert_eq!((guard.acquired(), *guard), (recovered, 3));
    assert!(guard.fencing_token() > token);
    assert_eq!(mine.read().err(), Some(Error::Disconnected));
}

#[test]
fn who_has_what_can_be_seen() {
    let service = service();
    let address = service.listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let second = Duration::from_secs(10);
    let one = LockClient::connect_as(&address, "one", second).unwrap();
    let other = LockClient::connect_as(&address, "other", second).unwrap();
    let stock = one.rwlock::<[u64; 8]>("stock").unwrap();
    let guard = stock.write().unwrap();
    let theirs = other.existing_rwlock::<[u64; 8]>("stock").unwrap();
    assert!(theirs.read_for(Duration::from_millis(10)).unwrap().is_none());
    let seen = status(&address).unwrap();
    assert_eq!(seen.lease_ms, 10_000);
    let labels: Vec<&str> = seen.nodes.iter().map(|node| &*node.label).collect();
    assert_eq!(labels, ["one at 127.0.0.1", "other at 127.0.0.1"]);
    let lock = &seen.locks[0];
    assert_eq!((&*lock.name, lock.regions, lock.bytes), ("stock", 1, 64));
    assert_eq!(
        (lock.writer, lock.next_writer, lock.transfers),
        (Some(0), None, 0)
    );
    assert_eq!(
        lock.waiting
            .iter()
            .map(|waiting| (waiting.node, waiting.is_shared))
            .collect::<Vec<_>>(),
        [(1, true)]
    );
    drop(guard);
    drop(theirs.read().unwrap());
    let lock = &service.status().unwrap().locks[0];
    assert_eq!(
        (lock.writer, &lock.readers[..], lock.transfers),
        (None, &[1][..], 1)
    );
    one.cut();
    while service.status().unwrap().nodes.len() > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
