//! Maps by messages: conformance, several clients with several servers, processes that are killed.

use std::collections::BTreeMap;
use std::sync::mpsc;

use cenote::index::baseline::WordMap;
use cenote::index::baseline::messages::{Client, Server, Shape, part_name, part_of};
use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote::memory::Mapped;
use cenote::{Coherent, Error, Guidelines, Noncoherent, Options, Pool, Put};
use rand::prelude::*;

use crate::common::seed;
use cenote::memory::SyncWord;

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of a pool of this test, which uses it in this way.
    unsafe { SyncWord::at(at) }
}

const NAME: &str = "by messages";

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 1 << 30,
        ..Options::default()
    }
}

/// Runs a test on both kinds of memory, with servers on both kinds of maps.
macro_rules! everywhere {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use super::*;
            #[test]
            fn coherent_hash() { super::$name::<Coherent, HashMap<Coherent>>() }
            #[test]
            fn coherent_ordered() { super::$name::<Coherent, OrderedMap<Coherent>>() }
            #[test]
            fn noncoherent_hash() { super::$name::<Noncoherent, HashMap<Noncoherent>>() }
            #[test]
            fn noncoherent_ordered() { super::$name::<Noncoherent, OrderedMap<Noncoherent>>() }
        })*
    };
}

everywhere!(behaves_like_a_btree_map, threads_agree);

fn pool<M: Mapped>() -> (tempfile::TempDir, Pool<M>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    (folder, pool)
}

/// Runs `work` while so many servers answer, each a thread with a worker of its own. Returns how many requests they
/// had.
fn with_servers<M: Mapped, W: WordMap<M>>(pool: &Pool<M>, shape: Shape, work: impl FnOnce()) -> usize {
    std::thread::scope(|scope| {
        let servers: Vec<_> = (0..shape.servers)
            .map(|_| {
                let (stop, stopped) = mpsc::channel::<()>();
                let (ready, is_ready) = mpsc::channel();
                let server = scope.spawn(move || {
                    let worker = pool.worker().unwrap();
                    let server = Server::<M, W>::open(worker, NAME, shape, Guidelines::P3, 1000).unwrap();
                    ready.send(()).unwrap();
                    let is_over = || matches!(stopped.try_recv(), Err(mpsc::TryRecvError::Disconnected));
                    server.serve_until(is_over).unwrap()
                });
                is_ready.recv().unwrap();
                (server, stop)
            })
            .collect();
        work();
        servers
            .into_iter()
            .map(|(server, stop)| {
                drop(stop);
                server.join().unwrap()
            })
            .sum()
    })
}

fn client<M: Mapped>(pool: &Pool<M>) -> Client<M> {
    Client::open(pool.worker().unwrap(), NAME, Shape::default()).unwrap()
}

fn assert_clean<M: Mapped>(pool: &Pool<M>) {
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

fn behaves_like_a_btree_map<M: Mapped, W: WordMap<M>>() {
    let (_folder, pool) = pool::<M>();
    let mut rng = StdRng::seed_from_u64(seed());
    let mut model = BTreeMap::new();
    let shape = Shape {
        servers: 2,
        clients: 3,
    };
    let steps = 2000;
    let answered = with_servers::<M, W>(&pool, shape, || {
        let client = client(&pool);
        assert_eq!(client.shape(), shape);
        for step in 0..steps {
            let (key, value) = (rng.random_range(0..64) << rng.random_range(0..56), rng.random());
            match rng.random_range(0..8) {
                0..=2 => {
                    let expected = match model.insert(key, value) {
                        Some(_) => Put::Replaced,
                        None => Put::Inserted,
                    };
                    assert_eq!(client.put_u64(key, value).unwrap(), expected, "step {step}");
                }
                3 => {
                    let is_new = !model.contains_key(&key);
                    assert_eq!(client.insert_u64(key, value).unwrap(), is_new, "step {step}");
                    model.entry(key).or_insert(value);
                }
                4 => {
                    let was_there = model.remove(&key).is_some();
                    assert_eq!(client.remove_u64(key).unwrap(), was_there, "step {step}");
                }
                _ => assert_eq!(
                    client.get_u64(key).unwrap(),
                    model.get(&key).copied(),
                    "step {step}"
                ),
            }
        }
    });
    assert_eq!(answered, steps);
    // Each part is an ordinary map, and has its own keys.
    for part in 0..shape.servers {
        let worker = pool.worker().unwrap();
        let map = W::open_or_create(worker, &part_name(NAME, part), Guidelines::P3, 0).unwrap();
        for (&key, &value) in &model {
            let expected = (part_of(key, shape.servers) == part).then_some(value);
            assert_eq!(map.get_u64(key).unwrap(), expected);
        }
    }
    assert_clean(&pool);
}

/// Each client has keys of its own, and one key that all put.
fn threads_agree<M: Mapped, W: WordMap<M>>() {
    let (_folder, pool) = pool::<M>();
    let seed = seed();
    let shape = Shape {
        servers: 2,
        clients: 5,
    };
    with_servers::<M, W>(&pool, shape, || {
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let pool = &pool;
                scope.spawn(move || {
                    let client = client(pool);
                    let mut rng = StdRng::seed_from_u64(seed + thread);
                    let mut model = BTreeMap::new();
                    for n in 0..500u64 {
                        let key = thread << 32 | rng.random_range(0..50);
                        match rng.random_range(0..4) {
                            0 => assert_eq!(client.get_u64(key).unwrap(), model.get(&key).copied()),
                            1 => assert_eq!(client.remove_u64(key).unwrap(), model.remove(&key).is_some()),
                            _ => {
                                let is_new = model.insert(key, n).is_none();
                                assert_eq!(client.put_u64(key, n).unwrap() == Put::Inserted, is_new);
                            }
                        }
                        if n % 16 == 0 {
                            client.put_u64(u64::MAX, thread << 32 | n).unwrap();
                            let found = client.get_u64(u64::MAX).unwrap().unwrap();
                            assert!(found >> 32 < 3 && found & 0xffff_ffff < 500, "{found:#x}");
                        }
                    }
                    for (key, value) in model {
                        assert_eq!(client.get_u64(key).unwrap(), Some(value));
                    }
                });
            }
        });
    });
    assert_clean(&pool);
}

#[test]
fn places_are_counted() {
    let (_folder, pool) = pool::<Coherent>();
    let shape = Shape {
        servers: 1,
        clients: 1,
    };
    let worker = pool.worker().unwrap();
    type Hashed = Server<Coherent, HashMap<Coherent>>;
    let open = || Hashed::open(worker.clone(), NAME, shape, Guidelines::P3, 0);
    let server = open().unwrap();
    assert_eq!(server.place(), 0);
    assert!(matches!(open(), Err(Error::TooMany { limit: 1, .. })));
    drop(server);
    open().unwrap();
    let first = Client::open(worker.clone(), NAME, shape).unwrap();
    for _ in 0..3 {
        let second = Client::open(worker.clone(), NAME, shape);
        assert!(matches!(second, Err(Error::TooMany { limit: 1, .. })));
    }
    assert!(matches!(first.get_u64(1), Err(Error::Unanswered)));
    let impossible = Shape {
        servers: 0,
        clients: 1,
    };
    let refused = Client::open(worker.clone(), "other", impossible);
    assert!(matches!(refused, Err(Error::InvalidOption { .. })));
    assert!(matches!(
        Client::open(worker.clone(), "0123456789".repeat(30).as_str(), shape),
        Err(Error::InvalidName { .. })
    ));
}

/// Forks a process that works on the pool and ends with a code. It must not return.
fn fork(child: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: the child only runs `child` and ends with `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let code = child();
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        pid => pid,
    }
}

fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for the very child that was made above.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        -libc::WTERMSIG(status)
    }
}

fn kill(pid: libc::pid_t) {
    // SAFETY: a child of this process that was not waited for yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Two processes, and two more that are killed: a client in the middle of an operation, and then the server.
fn processes_ask_each_other<M: Mapped>() {
    let (folder, created) = pool::<M>();
    drop(created);
    let path = folder.path().join("pool");
    let shape = Shape {
        servers: 1,
        clients: 8,
    };
    let serve = || {
        let Ok(pool) = Pool::<M>::open(&path, &options()) else {
            return 2;
        };
        let Ok(worker) = pool.worker() else { return 3 };
        let Ok(server) = Server::<M, HashMap<M>>::open(worker, NAME, shape, Guidelines::P3, 0) else {
            return 4;
        };
        let _ = server.serve_until(|| false);
        5
    };
    let first = fork(serve);
    let ask = || {
        let pool = Pool::<M>::open(&path, &options()).unwrap();
        let client = client(&pool);
        let mut rounds = 0;
        // Until the server is there.
        while client.put_u64(1, 0).is_err() && rounds < 10_000 {
            rounds += 1;
        }
        (pool, client)
    };
    let victim = fork(|| {
        let (_pool, client) = ask();
        for n in 0.. {
            if client.put_u64(2, n).is_err() {
                return 2;
            }
        }
        3
    });
    let (_pool, client) = ask();
    while client.get_u64(2).unwrap().is_none_or(|n| n < 100) {}
    kill(victim);
    assert_eq!(wait_for(victim), -libc::SIGKILL);
    for n in 0..100 {
        client.put_u64(1, n).unwrap();
        assert_eq!(client.get_u64(1).unwrap(), Some(n));
    }
    kill(first);
    assert_eq!(wait_for(first), -libc::SIGKILL);
    assert!(matches!(client.get_u64(1), Err(Error::Unanswered)));
    let second = fork(serve);
    let mut found = client.get_u64(1);
    for _ in 0..10_000 {
        if found.is_ok() {
            break;
        }
        found = client.get_u64(1);
    }
    assert_eq!(found.unwrap(), Some(99));
    kill(second);
    wait_for(second);
}

#[test]
fn processes_ask_each_other_on_coherent_memory() {
    processes_ask_each_other::<Coherent>();
}

#[test]
fn processes_ask_each_other_on_noncoherent_memory() {
    processes_ask_each_other::<Noncoherent>();
}

/// A ticket that nobody fills does not block the others, and a reference that comes twice is answered once.
#[test]
fn a_lost_ticket_is_passed_over() {
    let (_folder, pool) = pool::<Noncoherent>();
    let shape = Shape {
        servers: 1,
        clients: 2,
    };
    let worker = pool.worker().unwrap();
    let server =
        Server::<Noncoherent, HashMap<Noncoherent>>::open(worker.clone(), NAME, shape, Guidelines::P3, 0)
            .unwrap();
    // The tail: the second line of the first server, after two lines of header; see the table in `queues`.
    let arena = cenote::index::baseline::arena::Arena::open_or_create(
        worker.clone(),
        NAME,
        u64::from_le_bytes(*b"MESSAGE\x01"),
        0,
    )
    .unwrap();
    let queues = arena.root(0).load(worker.mem());
    let claimed = sync_word(queues + 3 * 64).fetch_add(worker.mem(), 1);
    assert_eq!(claimed, 0);
    std::thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let pool = &pool;
        scope.spawn(move || {
            let client = client(pool);
            for n in 0..20 {
                assert_eq!(client.put_u64(1, n).unwrap() == Put::Inserted, n == 0);
            }
            drop(stop);
        });
        let is_over = || matches!(stopped.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        assert_eq!(server.serve_until(is_over).unwrap(), 20);
    });
    assert_eq!(server.map().get_u64(1).unwrap(), Some(19));
    // The client's last request once more: after the tail come slots of a line each, four for two clients.
    server.map().put_u64(1, 100).unwrap();
    let ticket = sync_word(queues + 3 * 64).fetch_add(worker.mem(), 1);
    let slot = queues + (4 + ticket % 4) * 64;
    sync_word(slot).store(worker.mem(), (ticket + 1) << 16);
    assert_eq!(server.serve_once().unwrap(), 0);
    assert_eq!(sync_word(slot).load(worker.mem()) >> 16, ticket + 1);
    assert_eq!(server.map().get_u64(1).unwrap(), Some(100));
}
