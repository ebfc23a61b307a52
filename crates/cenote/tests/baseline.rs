//! The indexes made for comparison, on both backends: against a model, by threads, from other handles, after deaths.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use cenote::index::baseline::arena::Arena;
use cenote::index::baseline::art::{self, Art};
use cenote::index::baseline::clht::{self, Clht};
use cenote::index::baseline::hot::{self, Hot};
use cenote::index::baseline::masstree::{self, Masstree};
use cenote::index::baseline::{WordMap, btree, version};
use cenote::memory::{Mapped, SyncWord};
use cenote::{Coherent, Guidelines, Noncoherent, Options, Pool, Put};
use rand::prelude::*;

use crate::common::seed;

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of a pool of this test, which uses it in this way.
    unsafe { SyncWord::at(at) }
}

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 4 << 30,
        processes: 8,
        workers: 16,
        ..Options::default()
    }
}

/// An index under test.
trait Subject<M: Mapped>: WordMap<M> {
    /// What its arena begins with.
    const MAGIC: u64;
    /// The kind that a victim opens.
    const KIND: &'static str;
}

/// Trees of few pairs a node, so that they are high.
type LowBTree<M> = btree::BTree<M, 2>;
type LowMasstree<M> = Masstree<M, 3>;

impl<M: Mapped> Subject<M> for btree::BTree<M> {
    const MAGIC: u64 = btree::MAGIC ^ btree::IMAGE_LINES;
    const KIND: &'static str = "btree";
}

impl<M: Mapped> Subject<M> for LowBTree<M> {
    const MAGIC: u64 = btree::MAGIC ^ 2;
    const KIND: &'static str = "low-btree";
}

impl<M: Mapped> Subject<M> for Clht<M> {
    const MAGIC: u64 = clht::MAGIC;
    const KIND: &'static str = "clht";
}

impl<M: Mapped> Subject<M> for Art<M> {
    const MAGIC: u64 = art::MAGIC;
    const KIND: &'static str = "art";
}

impl<M: Mapped> Subject<M> for Masstree<M> {
    const MAGIC: u64 = masstree::MAGIC;
    const KIND: &'static str = "masstree";
}

impl<M: Mapped> Subject<M> for LowMasstree<M> {
    const MAGIC: u64 = masstree::MAGIC;
    const KIND: &'static str = "low-masstree";
}

/// Tries of few entries a node, so that they are high.
type HighHot<M> = Hot<M, 3>;

impl<M: Mapped> Subject<M> for Hot<M> {
    const MAGIC: u64 = hot::MAGIC ^ 32;
    const KIND: &'static str = "hot";
}

impl<M: Mapped> Subject<M> for HighHot<M> {
    const MAGIC: u64 = hot::MAGIC ^ 3;
    const KIND: &'static str = "high-hot";
}

/// Runs a test for every index on every backend.
macro_rules! everywhere {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use super::*;
            #[test]
            fn btree_coherent() { super::$name::<Coherent, btree::BTree<Coherent>>() }
            #[test]
            fn btree_noncoherent() { super::$name::<Noncoherent, btree::BTree<Noncoherent>>() }
            #[test]
            fn low_btree_coherent() { super::$name::<Coherent, LowBTree<Coherent>>() }
            #[test]
            fn low_btree_noncoherent() { super::$name::<Noncoherent, LowBTree<Noncoherent>>() }
            #[test]
            fn clht_coherent() { super::$name::<Coherent, Clht<Coherent>>() }
            #[test]
            fn clht_noncoherent() { super::$name::<Noncoherent, Clht<Noncoherent>>() }
            #[test]
            fn art_coherent() { super::$name::<Coherent, Art<Coherent>>() }
            #[test]
            fn art_noncoherent() { super::$name::<Noncoherent, Art<Noncoherent>>() }
            #[test]
            fn masstree_coherent() { super::$name::<Coherent, Masstree<Coherent>>() }
            #[test]
            fn masstree_noncoherent() { super::$name::<Noncoherent, Masstree<Noncoherent>>() }
            #[test]
            fn low_masstree_coherent() { super::$name::<Coherent, LowMasstree<Coherent>>() }
            #[test]
            fn low_masstree_noncoherent() { super::$name::<Noncoherent, LowMasstree<Noncoherent>>() }
            #[test]
            fn hot_coherent() { super::$name::<Coherent, Hot<Coherent>>() }
            #[test]
            fn hot_noncoherent() { super::$name::<Noncoherent, Hot<Noncoherent>>() }
            #[test]
            fn high_hot_coherent() { super::$name::<Coherent, HighHot<Coherent>>() }
            #[test]
            fn high_hot_noncoherent() { super::$name::<Noncoherent, HighHot<Noncoherent>>() }
        })*
    };
}

everywhere!(
    behaves_like_a_btree_map,
    keeps_what_comes_in_order,
    threads_agree,
    a_dead_owner_holds_nobody_up,
    a_killed_writer_leaves_all_or_nothing,
    a_full_arena_is_an_error,
    damage_is_an_error,
);

const NAME: &str = "m";

fn pool<M: Mapped>() -> (tempfile::TempDir, Pool<M>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    (folder, pool)
}

fn open<M: Mapped, I: WordMap<M>>(pool: &Pool<M>, records: u64) -> I {
    I::open_or_create(pool.worker().unwrap(), NAME, Guidelines::default(), records).unwrap()
}

fn assert_clean<M: Mapped>(pool: &Pool<M>) {
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

fn all<M: Mapped, I: WordMap<M>>(map: &I, from: u64) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    map.scan_u64(from, |key, value| {
        pairs.push((key, value));
        true
    })
    .unwrap();
    pairs
}

fn assert_same<M: Mapped, I: WordMap<M>>(map: &I, model: &BTreeMap<u64, u64>) {
    for (&key, &value) in model {
        assert_eq!(map.get_u64(key).unwrap(), Some(value), "{key:#x}");
    }
    if I::IS_ORDERED {
        let expected: Vec<_> = model.iter().map(|(&key, &value)| (key, value)).collect();
        let found = all(map, 0);
        let differs = found
            .iter()
            .zip(&expected)
            .find(|(found, expected)| found != expected);
        assert_eq!((found.len(), differs), (expected.len(), None));
    }
}

/// Keys of one kind a round: few, many, some that share their first bytes or their last, and the outermost.
fn any_key(rng: &mut StdRng, kind: u32) -> u64 {
    match kind {
        0 => rng.random_range(0..300),
        1 => rng.random(),
        2 => rng.random_range(0..3_000u64) << 40,
        3 => 1 << rng.random_range(0..64) | rng.random_range(0..40),
        _ => u64::MAX - rng.random_range(0..50) * rng.random_range(0..2),
    }
}

fn behaves_like_a_btree_map<M: Mapped, I: Subject<M>>() {
    let mut rng = StdRng::seed_from_u64(seed());
    let (_folder, pool) = pool::<M>();
    let map: I = open(&pool, 20_000);
    let mut model = BTreeMap::new();
    for step in 0..30_000u64 {
        let kind = rng.random_range(0..5);
        let mut key = any_key(&mut rng, kind);
        if rng.random_range(0..3) == 0
            && let Some((&known, _)) = model.range(key..).next()
        {
            key = known;
        }
        match rng.random_range(0..16) {
            0..6 => {
                let put = map.put_u64(key, step).unwrap();
                let old = model.insert(key, step);
                assert_eq!(put == Put::Replaced, old.is_some(), "step {step}");
            }
            6..9 => {
                let is_new = !model.contains_key(&key);
                assert_eq!(map.insert_u64(key, step).unwrap(), is_new, "step {step}");
                model.entry(key).or_insert(step);
            }
            9..12 => {
                let removed = map.remove_u64(key).unwrap();
                assert_eq!(removed, model.remove(&key).is_some(), "step {step}");
            }
            12 if step % 7 == 0 => {
                let mut found = Vec::new();
                map.scan_u64(key, |key, value| {
                    found.push((key, value));
                    found.len() < 20
                })
                .unwrap();
                let expected: Vec<_> = model.range(key..).take(20).map(|(&k, &v)| (k, v)).collect();
                assert!(found == expected || !I::IS_ORDERED, "step {step}");
            }
            _ => assert_eq!(map.get_u64(key).unwrap(), model.get(&key).copied(), "step {step}"),
        }
    }
    assert_same(&map, &model);
    // From a handle of another thread, as all that is known here lies in the pool.
    std::thread::scope(|scope| {
        scope.spawn(|| assert_same(&open::<M, I>(&pool, 1), &model));
    });
    for key in model.into_keys() {
        assert!(map.remove_u64(key).unwrap());
        assert_eq!(map.get_u64(key).unwrap(), None);
    }
    assert!(all(&map, 0).is_empty());
    drop(map);
    assert_clean(&pool);
}

fn keeps_what_comes_in_order<M: Mapped, I: Subject<M>>() {
    let (_folder, pool) = pool::<M>();
    let map: I = open(&pool, 40_000);
    let mut model = BTreeMap::new();
    for n in 0..20_000u64 {
        for key in [n, u64::MAX - n] {
            assert!(map.insert_u64(key, n).unwrap());
            assert!(!map.insert_u64(key, n + 1).unwrap());
            model.insert(key, n);
        }
    }
    assert_same(&map, &model);
}

fn threads_agree<M: Mapped, I: Subject<M>>() {
    const THREADS: u64 = 4;
    const EACH: u64 = 4_000;
    let seed = seed();
    let (_folder, pool) = pool::<M>();
    drop(open::<M, I>(&pool, 40_000));
    let inserted = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let pool = &pool;
                scope.spawn(move || {
                    let map: I = open(pool, 1);
                    let mut rng = StdRng::seed_from_u64(seed ^ thread);
                    let mut inserted = 0;
                    for n in 0..EACH {
                        // A key of its own, one that all want, and one that comes and goes.
                        let own = (n * THREADS + thread) << 3;
                        assert!(map.insert_u64(own, thread).unwrap());
                        inserted += u64::from(map.insert_u64(n << 3 | 1, thread).unwrap());
                        let wild = rng.random_range(0..50u64) << 3 | 2;
                        match n % 3 {
                            0 => drop(map.put_u64(wild, wild ^ thread << 32)),
                            1 => drop(map.remove_u64(wild)),
                            _ => {
                                let found = map.get_u64(wild).unwrap();
                                assert!(found.is_none_or(|found| found & 0xffff_ffff == wild));
                            }
                        }
                        if n % 500 == 0 && I::IS_ORDERED {
                            let keys = all(&map, own);
                            assert!(keys.windows(2).all(|pair| pair[0].0 < pair[1].0));
                            assert_eq!(keys[0], (own, thread));
                        }
                    }
                    inserted
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum::<u64>()
    });
    assert_eq!(inserted, EACH);
    let map: I = open(&pool, 1);
    for n in 0..EACH {
        for thread in 0..THREADS {
            assert_eq!(map.get_u64((n * THREADS + thread) << 3).unwrap(), Some(thread));
        }
        assert!(map.get_u64(n << 3 | 1).unwrap().unwrap() < THREADS);
    }
    drop(map);
    assert_clean(&pool);
}

/// Keys that a victim inserts one after the other.
fn key_of_victim(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !7
}

/// Starts a victim and waits until it is at work.
fn start_victim<M: Mapped, I: Subject<M>>(folder: &Path, task: &str) -> std::process::Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "baseline::victim", "--nocapture"])
        .env("CENOTE_VICTIM_POOL", folder.join("pool"))
        .env("CENOTE_VICTIM_TASK", format!("{} {} {task}", I::KIND, M::NAME))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("at work")), "no victim");
    child
}

/// A victim's side; does nothing unless it is started as one.
#[test]
fn victim() {
    let (Ok(path), Ok(task)) = (
        std::env::var("CENOTE_VICTIM_POOL"),
        std::env::var("CENOTE_VICTIM_TASK"),
    ) else {
        return;
    };
    let words: Vec<&str> = task.split(' ').collect();
    match words[..] {
        ["btree", "coherent", task] => be_victim::<Coherent, btree::BTree<Coherent>>(path, task),
        ["btree", _, task] => be_victim::<Noncoherent, btree::BTree<Noncoherent>>(path, task),
        ["low-btree", "coherent", task] => be_victim::<Coherent, LowBTree<Coherent>>(path, task),
        ["low-btree", _, task] => be_victim::<Noncoherent, LowBTree<Noncoherent>>(path, task),
        ["clht", "coherent", task] => be_victim::<Coherent, Clht<Coherent>>(path, task),
        ["clht", _, task] => be_victim::<Noncoherent, Clht<Noncoherent>>(path, task),
        ["art", "coherent", task] => be_victim::<Coherent, Art<Coherent>>(path, task),
        ["art", _, task] => be_victim::<Noncoherent, Art<Noncoherent>>(path, task),
        ["masstree", "coherent", task] => be_victim::<Coherent, Masstree<Coherent>>(path, task),
        ["masstree", _, task] => be_victim::<Noncoherent, Masstree<Noncoherent>>(path, task),
        ["low-masstree", "coherent", task] => be_victim::<Coherent, LowMasstree<Coherent>>(path, task),
        ["low-masstree", _, task] => be_victim::<Noncoherent, LowMasstree<Noncoherent>>(path, task),
        ["hot", "coherent", task] => be_victim::<Coherent, Hot<Coherent>>(path, task),
        ["hot", _, task] => be_victim::<Noncoherent, Hot<Noncoherent>>(path, task),
        ["high-hot", "coherent", task] => be_victim::<Coherent, HighHot<Coherent>>(path, task),
        ["high-hot", _, task] => be_victim::<Noncoherent, HighHot<Noncoherent>>(path, task),
        _ => panic!("{task}"),
    }
}

fn be_victim<M: Mapped, I: Subject<M>>(path: String, task: &str) {
    let pool: Pool<M> = Pool::open(path, &options()).unwrap();
    if task == "hold" {
        // The lock of the first node or bucket, which the first root refers to.
        let arena = Arena::open_or_create(pool.worker().unwrap(), NAME, I::MAGIC, 0).unwrap();
        let first = sync_word(arena.root(0).load(arena.worker().mem()));
        let seen = version::read(arena.worker(), first).unwrap();
        std::mem::forget(version::lock(arena.worker(), first, seen).unwrap());
        println!("at work");
        // SAFETY: ends this very process as kill -9 does.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let map: I = open(&pool, 1);
    let mut n = 0;
    while map.get_u64(key_of_victim(n)).unwrap().is_some() {
        n += 1;
    }
    println!("at work");
    loop {
        map.put_u64(key_of_victim(n), n).unwrap();
        map.put_u64(1, n).unwrap();
        n += 1;
    }
}

fn a_dead_owner_holds_nobody_up<M: Mapped, I: Subject<M>>() {
    let (folder, pool) = pool::<M>();
    let map: I = open(&pool, 10_000);
    for n in 0..100 {
        map.put_u64(n, n).unwrap();
    }
    for _ in 0..3 {
        let status = start_victim::<M, I>(folder.path(), "hold").wait().unwrap();
        assert!(!status.success());
        for n in 0..1_000 {
            map.put_u64(n, n).unwrap();
            assert_eq!(map.get_u64(n).unwrap(), Some(n));
        }
    }
}

fn a_killed_writer_leaves_all_or_nothing<M: Mapped, I: Subject<M>>() {
    let mut rng = StdRng::seed_from_u64(seed());
    let (folder, pool) = pool::<M>();
    let map: I = open(&pool, 400_000);
    let mut known = 0;
    for _ in 0..8 {
        let mut victim = start_victim::<M, I>(folder.path(), "write");
        std::thread::sleep(std::time::Duration::from_micros(rng.random_range(0..4_000)));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let mut count = known;
        while let Some(value) = map.get_u64(key_of_victim(count)).unwrap() {
            assert_eq!(value, count);
            count += 1;
        }
        assert!(count >= known && map.get_u64(key_of_victim(count + 1)).unwrap().is_none());
        // What was acknowledged before its last key is there.
        let last = map.get_u64(1).unwrap();
        assert!(
            last.map_or(count < 2, |last| last + 2 >= count),
            "{last:?} {count}"
        );
        let mut model: BTreeMap<u64, u64> = (0..count).map(|n| (key_of_victim(n), n)).collect();
        model.extend(last.map(|last| (1, last)));
        assert_same(&map, &model);
        // The survivors insert the same again, and a little more.
        for n in 0..count + 100 {
            map.put_u64(key_of_victim(n), n).unwrap();
        }
        known = count + 100;
        map.put_u64(1, known - 1).unwrap();
    }
}

fn a_full_arena_is_an_error<M: Mapped, I: Subject<M>>() {
    let (_folder, pool) = pool::<M>();
    let map: I = open(&pool, 1);
    let refused = (0..1_000_000u64).find(|&n| map.insert_u64(key_of_victim(n), n).is_err());
    let count = refused.expect("an arena has an end");
    // Nothing is held, and what was there is there.
    for n in 0..count {
        assert_eq!(map.get_u64(key_of_victim(n)).unwrap(), Some(n));
        map.put_u64(key_of_victim(n), n).ok();
    }
    assert!(map.remove_u64(key_of_victim(0)).unwrap());
}

/// A trie is low whatever its keys are like, and its nodes hold many.
#[test]
fn hot_stays_low() {
    const KEYS: u64 = 1_000_000;
    let mut rng = StdRng::seed_from_u64(seed());
    let random: Vec<u64> = (0..KEYS).map(|_| rng.random()).collect();
    let mut shuffled: Vec<u64> = (0..KEYS).collect();
    shuffled.shuffle(&mut rng);
    let few_bits = |n: u64| (0..8).fold(0, |key, byte| key | (n >> (3 * byte) & 7) << (8 * byte));
    for (kind, height_max, entries_least) in [
        ("ascending", 4, 28),
        ("dense, in no order", 5, 16),
        ("three bits of each byte", 4, 28),
        ("random", 6, 16),
    ] {
        let (_folder, pool) = pool::<Coherent>();
        let map: Hot<Coherent> = open(&pool, KEYS);
        let mut inserted = 0;
        for n in 0..KEYS {
            let key = match kind {
                "ascending" => n,
                "dense, in no order" => shuffled[n as usize],
                "random" => random[n as usize],
                _ => few_bits(n),
            };
            inserted += u64::from(map.insert_u64(key, n).unwrap());
        }
        let shape = map.shape().unwrap();
        println!("{kind}: {shape:?}");
        assert_eq!(shape.leaves, inserted);
        // Nodes are entries too, but for the root.
        let entries = (shape.leaves + shape.nodes - 1) as f64 / shape.nodes as f64;
        assert!(
            shape.height <= height_max && entries >= f64::from(entries_least),
            "{kind}: {shape:?}"
        );
    }
}

fn damage_is_an_error<M: Mapped, I: Subject<M>>() {
    let seed = seed();
    for round in 0..12 {
        let mut rng = StdRng::seed_from_u64(seed ^ round);
        let (_folder, pool) = pool::<M>();
        let map: I = open(&pool, 3_000);
        for n in 0..3_000 {
            map.put_u64(key_of_victim(n), n).unwrap();
        }
        let worker = pool.worker().unwrap();
        let arena = Arena::open_or_create(worker.clone(), NAME, I::MAGIC, 0).unwrap();
        let first = arena.root(0).load(worker.mem());
        for _ in 0..200 {
            // A word of what was made first, or any word.
            let words = [20_000, arena.bytes() / 8][rng.random_range(0..2)];
            let at = first + rng.random_range(0..words) * 8;
            if arena.has(at, 8) {
                let value = match rng.random_range(0..4) {
                    0 => rng.random(),
                    1 => first + rng.random_range(0..4_000u64) * 64,
                    2 => sync_word(at).load(worker.mem()) ^ 1 << rng.random_range(8..64),
                    // The process that holds this lock has died.
                    _ => 1 << 48 | 1,
                };
                sync_word(at).store(worker.mem(), value);
            }
        }
        for n in 0..3_000 {
            let key = key_of_victim(n);
            let _ = map.get_u64(key);
            let _ = map.put_u64(key, n);
            let _ = map.remove_u64(key + 1);
        }
        let mut left = 10_000;
        let _ = map.scan_u64(0, |_, _| {
            left -= 1;
            left > 0
        });
    }
}
