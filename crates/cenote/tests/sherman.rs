//! The tree in the manner of Sherman: conformance, threads that split the same nodes, processes that are killed.

use std::collections::BTreeMap;

use cenote::index::baseline::WordMap;
use cenote::index::baseline::sherman::Sherman;
use cenote::memory::Mapped;
use cenote::{Coherent, Error, Guidelines, Noncoherent, Options, Pool, Put};
use rand::prelude::*;

use crate::common::seed;
use cenote::memory::OwnedWord;

/// An owned word.
#[inline(always)]
fn owned_word(at: u64) -> OwnedWord {
    // SAFETY: an owned word of a pool of this test, which uses it in this way.
    unsafe { OwnedWord::at(at) }
}

const NAME: &str = "tree";

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 1 << 30,
        ..Options::default()
    }
}

/// Runs a test on both kinds of memory.
macro_rules! everywhere {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use super::*;
            #[test]
            fn coherent() { super::$name::<Coherent>() }
            #[test]
            fn noncoherent() { super::$name::<Noncoherent>() }
        })*
    };
}

everywhere!(
    behaves_like_a_btree_map,
    grows_in_any_order,
    threads_agree,
    survives_kills,
    damage_is_an_error,
);

fn pool<M: Mapped>() -> (tempfile::TempDir, Pool<M>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    (folder, pool)
}

fn tree<M: Mapped>(pool: &Pool<M>, records: u64) -> Sherman<M> {
    Sherman::open_or_create(pool.worker().unwrap(), NAME, Guidelines::P3, records).unwrap()
}

fn all<M: Mapped>(tree: &Sherman<M>) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    tree.scan_u64(0, |key, value| {
        pairs.push((key, value));
        true
    })
    .unwrap();
    pairs
}

fn behaves_like_a_btree_map<M: Mapped>() {
    let (_folder, pool) = pool::<M>();
    let tree = tree(&pool, 10_000);
    let mut rng = StdRng::seed_from_u64(seed());
    let mut model = BTreeMap::new();
    for step in 0..if M::COHERENT { 60_000 } else { 15_000 } {
        // Few keys at first, then more and more; some at the ends of the range.
        let bits = rng.random_range(1..14);
        let key = match rng.random_range(0..20) {
            0 => u64::MAX - rng.random_range(0..3),
            _ => rng.random_range(0..1u64 << bits),
        };
        let value = rng.random();
        match rng.random_range(0..8) {
            0..=2 => {
                let expected = match model.insert(key, value) {
                    Some(_) => Put::Replaced,
                    None => Put::Inserted,
                };
                assert_eq!(tree.put_u64(key, value).unwrap(), expected, "step {step}");
            }
            3 => {
                let is_new = !model.contains_key(&key);
                assert_eq!(tree.insert_u64(key, value).unwrap(), is_new, "step {step}");
                model.entry(key).or_insert(value);
            }
            4 => {
                let was_there = model.remove(&key).is_some();
                assert_eq!(tree.remove_u64(key).unwrap(), was_there, "step {step}");
            }
            5 => {
                let mut expected = model.range(key..).take(40).map(|(&key, &value)| (key, value));
                let mut left = 40;
                tree.scan_u64(key, |key, value| {
                    assert_eq!(expected.next(), Some((key, value)), "step {step}");
                    left -= 1;
                    left > 0
                })
                .unwrap();
                assert_eq!(expected.next(), None, "step {step}");
            }
            _ => assert_eq!(
                tree.get_u64(key).unwrap(),
                model.get(&key).copied(),
                "step {step}"
            ),
        }
    }
    assert!(all(&tree).into_iter().eq(model));
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

fn grows_in_any_order<M: Mapped>() {
    let count = if M::COHERENT { 60_000 } else { 10_000u64 };
    for order in 0..3 {
        let (_folder, pool) = pool::<M>();
        let tree = tree(&pool, count);
        let key = |n: u64| match order {
            0 => n,
            1 => u64::MAX - n,
            _ => n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        for n in 0..count {
            assert_eq!(tree.put_u64(key(n), n).unwrap(), Put::Inserted);
        }
        for n in 0..count {
            assert_eq!(tree.get_u64(key(n)).unwrap(), Some(n));
        }
        let pairs = all(&tree);
        assert!(pairs.is_sorted() && pairs.len() as u64 == count);
        // A tree that was made for fewer records reports that it is full, and keeps its keys.
        let mut n = count;
        let error = loop {
            match tree.put_u64(key(n), n) {
                Ok(_) => n += 1,
                Err(error) => break error,
            }
            assert!(n < 10 * count + 200_000, "no end");
        };
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert_eq!(tree.get_u64(key(n - 1)).unwrap(), Some(n - 1));
    }
}

/// Threads insert neighbours, so that they split the same nodes; and count one key's changes.
fn threads_agree<M: Mapped>() {
    let (_folder, pool) = pool::<M>();
    let seed = seed();
    let (threads, count) = (3u64, if M::COHERENT { 20_000 } else { 3000u64 });
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let pool = &pool;
            scope.spawn(move || {
                let tree = tree(pool, threads * count);
                let mut rng = StdRng::seed_from_u64(seed + thread);
                for n in 0..count {
                    let key = n * threads + thread;
                    assert!(tree.insert_u64(key, n).unwrap());
                    let seen = rng.random_range(0..=n) * threads + thread;
                    let expected = (seen % 7 != 0 || seen == key).then_some(seen / threads);
                    assert_eq!(tree.get_u64(seen).unwrap(), expected, "{seen}");
                    if key % 7 == 0 {
                        // Another thread may remove it as well; only the first one succeeds.
                        assert_eq!(tree.put_u64(key, n).unwrap(), Put::Replaced);
                        assert!(tree.remove_u64(key).unwrap());
                    }
                }
            });
        }
    });
    let tree = tree(&pool, 0);
    let expected = (0..threads * count)
        .filter(|key| key % 7 != 0)
        .map(|key| (key, key / threads));
    assert!(all(&tree).into_iter().eq(expected));
}

/// Forks a process that works on the pool and ends with a code.
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

/// Processes insert keys in turn and are killed, perhaps with locks and half-made changes; the tree goes on.
fn survives_kills<M: Mapped>() {
    let (folder, pool) = pool::<M>();
    let path = folder.path().join("pool");
    let mut rng = StdRng::seed_from_u64(seed());
    let tree = tree(&pool, 200_000);
    tree.put_u64(u64::MAX, 0).unwrap();
    for round in 1..=12u64 {
        let victim = fork(|| {
            let Ok(pool) = Pool::<M>::open(&path, &options()) else {
                return 2;
            };
            let Ok(worker) = pool.worker() else { return 3 };
            let Ok(tree) = Sherman::open_or_create(worker, NAME, Guidelines::P3, 0) else {
                return 4;
            };
            for n in 0..10_000 {
                // The key that says how far it has come is next to those it puts: they share leaves and locks.
                let key = n << 8 | round;
                if tree.put_u64(key, key).is_err() || tree.put_u64(u64::MAX, key).is_err() {
                    return 5;
                }
            }
            loop {
                std::thread::yield_now();
            }
        });
        let wanted = rng.random_range(1..400u64);
        let mut far = 0;
        while far & 0xff != round || far >> 8 < wanted {
            far = tree.get_u64(u64::MAX).unwrap().unwrap();
            tree.put_u64(rng.random_range(0..400u64) << 8, 0).unwrap();
        }
        // SAFETY: a child of this process that was not waited for yet.
        unsafe { libc::kill(victim, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: waits for the very child that was made above.
        unsafe { libc::waitpid(victim, &mut status, 0) };
        assert!(libc::WIFSIGNALED(status), "{status}");
        let far = tree.get_u64(u64::MAX).unwrap().unwrap() >> 8;
        for n in 0..=far {
            let key = n << 8 | round;
            assert_eq!(tree.get_u64(key).unwrap(), Some(key), "round {round}");
            tree.put_u64(key, key).unwrap();
        }
        let pairs = all(&tree);
        assert!(pairs.is_sorted_by_key(|&(key, _)| key));
        let torn = pairs
            .iter()
            .find(|&&(key, value)| key != u64::MAX && value != key && key & 0xff != 0);
        assert_eq!(torn, None, "round {round}");
    }
}

/// Flips words of a tree: every call ends, with a result or an error.
fn damage_is_an_error<M: Mapped>() {
    let mut rng = StdRng::seed_from_u64(seed());
    for _ in 0..30 {
        let (_folder, pool) = pool::<M>();
        {
            let tree = tree(&pool, 0);
            for key in 0..400 {
                tree.put_u64(key, key).unwrap();
            }
        }
        // A handle without copies.
        let tree = tree(&pool, 0);
        let worker = pool.worker().unwrap();
        let arena = cenote::index::baseline::arena::Arena::open_or_create(
            worker.clone(),
            NAME,
            u64::from_le_bytes(*b"SHERMAN\x01"),
            0,
        )
        .unwrap();
        let mem = worker.mem();
        let root = arena.root(1).load(mem) & !63;
        // The root is an inner node, its children are leaves. Whole lines: a torn line would be repaired.
        let node = match rng.random_range(0..3) {
            0 => root,
            _ => owned_word(root + 64 + 16).peek(mem),
        };
        let word = node + 64 * rng.random_range(0..3) + 8 * rng.random_range(1..7);
        owned_word(word).set(mem, rng.random::<u64>() >> rng.random_range(0..64));
        mem.persist(word, 8);
        for key in (0..500).step_by(7) {
            let _ = tree.get_u64(key);
            let _ = tree.put_u64(key, key);
            let _ = tree.remove_u64(key);
            let _ = tree.scan_u64(key, |_, _| true);
        }
    }
}
