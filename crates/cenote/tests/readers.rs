//! Readers without a place: they read when nobody else can, they do not believe memory that was reused while they read,
//! and damage ends in errors.
//!
//! Values verify themselves: each has the key it was written for, and a checksum. The seed of a run is printed when it
//! fails, and `CENOTE_TEST_SEED` repeats it.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cenote::causes::{Structure, Table};
use cenote::memory::{LocalWord, Mapped};
use cenote::{Coherent, Error, Map, Noncoherent, Options, Ordered, Pool, Range, Reader};
use rand::prelude::*;

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("cenote-readers-")
        .tempdir_in("/dev/shm")
        .unwrap()
}

fn options() -> Options {
    Options {
        size: 4 << 20,
        max: 64 << 20,
        processes: 4,
        workers: 8,
        names: 8,
        ..Options::default()
    }
}

fn seed() -> u64 {
    let seed = std::env::var("CENOTE_TEST_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("CENOTE_TEST_SEED={seed}");
    seed
}

/// A checksum that depends on the value and position of each byte.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(5)
    })
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

/// A value for a key: the key, a salt repeated to a length, and the checksum of all that.
fn value(key: &[u8], salt: u64, len: usize) -> Vec<u8> {
    let mut value = key.to_vec();
    value.extend_from_slice(&salt.to_le_bytes());
    value.extend((0..len).map(|n| (salt.rotate_left(n as u32) as u8) ^ n as u8));
    let sum = sum(&value);
    value.extend_from_slice(&sum.to_le_bytes());
    value
}

fn certify(key: &[u8], value: &[u8]) {
    assert!(value.starts_with(key), "{key:?}: {value:?}");
    let (all, own) = value.split_at(value.len() - 8);
    assert_eq!(sum(all).to_le_bytes(), own, "{key:?}: {value:?}");
}

const KEYS: u64 = 300;
const SIZES: [usize; 6] = [0, 5, 40, 200, 1500, 20_000];

/// What both kinds of map can do, for a test.
trait Kind<M: Mapped> {
    type Writer;
    fn writer(pool: &Pool<M>) -> Self::Writer;
    fn put(map: &Self::Writer, key: &[u8], value: &[u8]);
    fn remove(map: &Self::Writer, key: &[u8]);
    fn get(reader: &Reader<M>, key: &[u8]) -> cenote::Result<Option<Vec<u8>>>;
    fn all(reader: &Reader<M>) -> cenote::Result<Vec<(Vec<u8>, Vec<u8>)>>;
}

struct Hashed;

impl<M: Mapped> Kind<M> for Hashed {
    type Writer = Map<M>;

    fn writer(pool: &Pool<M>) -> Map<M> {
        pool.map("map").unwrap()
    }

    fn put(map: &Map<M>, key: &[u8], value: &[u8]) {
        map.put(key, value).unwrap();
    }

    fn remove(map: &Map<M>, key: &[u8]) {
        map.remove(key).unwrap();
    }

    fn get(reader: &Reader<M>, key: &[u8]) -> cenote::Result<Option<Vec<u8>>> {
        reader.map("map")?.get(key)
    }

    fn all(reader: &Reader<M>) -> cenote::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        reader.map("map")?.iter().collect()
    }
}

struct Sorted;

impl<M: Mapped> Kind<M> for Sorted {
    type Writer = Ordered<M>;

    fn writer(pool: &Pool<M>) -> Ordered<M> {
        pool.ordered("map").unwrap()
    }

    fn put(map: &Ordered<M>, key: &[u8], value: &[u8]) {
        map.put(key, value).unwrap();
    }

    fn remove(map: &Ordered<M>, key: &[u8]) {
        map.remove(key).unwrap();
    }

    fn get(reader: &Reader<M>, key: &[u8]) -> cenote::Result<Option<Vec<u8>>> {
        reader.ordered("map")?.get(key)
    }

    fn all(reader: &Reader<M>) -> cenote::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let map = reader.ordered("map")?;
        let (mut up, mut down) = (Vec::new(), Vec::new());
        map.scan(Range::ALL, |key, value| {
            up.push((key.to_vec(), value.to_vec()));
            true
        })?;
        map.scan_reverse(Range::ALL, |key, value| {
            down.push((key.to_vec(), value.to_vec()));
            true
        })?;
        assert!(up.is_sorted_by(|one, other| one.0 < other.0));
        assert!(down.is_sorted_by(|one, other| one.0 > other.0));
        up.append(&mut down);
        Ok(up)
    }
}

/// The result of a read; `None` if others changed the pool too quickly, which is no failure.
fn unless_busy<R>(result: cenote::Result<R>) -> Option<R> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Busy) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Two threads write as fast as they can while two read; every even key is there all the time.
fn reads_under_writes<M: Mapped, K: Kind<M>>(writes: u64) {
    let folder = folder();
    let path = folder.path().join("pool");
    let pool = Pool::<M>::create(&path, &options()).unwrap();
    let seed = seed();
    let map = K::writer(&pool);
    for n in 0..KEYS {
        K::put(&map, &key(n), &value(&key(n), n, 40));
    }
    drop(map);
    let (done, found) = (LocalWord::default(), LocalWord::default());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (pool, done) = (&pool, &done);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed ^ thread);
                let map = K::writer(pool);
                for _ in 0..writes {
                    let n = rng.random_range(0..KEYS);
                    if n % 2 == 1 && rng.random_range(0..4) == 0 {
                        K::remove(&map, &key(n));
                    } else {
                        let size = SIZES[rng.random_range(0..SIZES.len())];
                        K::put(&map, &key(n), &value(&key(n), rng.random(), size));
                    }
                }
                done.add(1);
            });
        }
        for thread in 2..4 {
            let (path, done, found) = (&path, &done, &found);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed ^ thread);
                let reader = Pool::<M>::open_read_only(path, &Options::default()).unwrap();
                while done.load() < 2 {
                    for _ in 0..50 {
                        let n = rng.random_range(0..KEYS);
                        match unless_busy(K::get(&reader, &key(n))) {
                            Some(Some(read)) => {
                                certify(&key(n), &read);
                                found.add(1);
                            }
                            Some(None) => assert!(n % 2 == 1, "{n} is there all the time"),
                            None => {}
                        }
                    }
                    let all = unless_busy(K::all(&reader)).unwrap_or_default();
                    let is_even = |key: &[u8]| key.last().unwrap().is_multiple_of(2);
                    let even = all.iter().filter(|(key, _)| is_even(key)).count() as u64;
                    assert!(
                        all.is_empty() || even.is_multiple_of(KEYS / 2),
                        "{even} are there all the time"
                    );
                    all.iter().for_each(|(key, value)| certify(key, value));
                    unless_busy(reader.stat()).unwrap();
                }
            });
        }
    });
    assert!(found.load() > 0);
    // Nobody writes now: the reader sees all keys, and `fsck` finds nothing.
    let reader = Pool::<M>::open_read_only(&path, &Options::default()).unwrap();
    assert!(K::all(&reader).unwrap().len() as u64 >= KEYS / 2);
    let report = reader.fsck().unwrap();
    assert!(report.is_clean() && report.without_place, "{report:?}");
    assert_eq!((report.other_processes, report.unrecovered_processes), (1, 0));
}

#[test]
fn hashed_values_are_those_that_were_written() {
    reads_under_writes::<Coherent, Hashed>(150_000);
}

#[test]
fn ordered_values_are_those_that_were_written() {
    reads_under_writes::<Coherent, Sorted>(100_000);
}

#[test]
fn hashed_values_are_those_that_were_written_on_incoherent_memory() {
    reads_under_writes::<Noncoherent, Hashed>(40_000);
}

#[test]
fn ordered_values_are_those_that_were_written_on_incoherent_memory() {
    reads_under_writes::<Noncoherent, Sorted>(25_000);
}

/// A pool with maps of both kinds, which nobody has open.
fn filled<M: Mapped>(path: &Path) {
    let pool = Pool::<M>::create(path, &options()).unwrap();
    let (map, ordered) = (pool.map("map").unwrap(), pool.ordered("ordered").unwrap());
    for n in 0..KEYS {
        let value = value(&key(n), n, SIZES[n as usize % 5]);
        map.put(&key(n), &value).unwrap();
        ordered.put(&key(n), &value).unwrap();
        map.put_u64(n, n).unwrap();
    }
}

fn finds_all<M: Mapped>(reader: &Reader<M>) {
    let (map, ordered) = (reader.map("map").unwrap(), reader.ordered("ordered").unwrap());
    for n in 0..KEYS {
        certify(&key(n), &map.get(&key(n)).unwrap().unwrap());
        certify(&key(n), &ordered.get(&key(n)).unwrap().unwrap());
        assert_eq!(map.get(&n.to_le_bytes()).unwrap().unwrap(), n.to_le_bytes());
    }
    assert_eq!(map.get(b"nothing").unwrap(), None);
    assert_eq!(map.len().unwrap(), 2 * KEYS);
    assert_eq!(map.iter().map(Result::unwrap).count() as u64, 2 * KEYS);
    assert_eq!(reader.names().unwrap(), ["map", "ordered"]);
    assert!(matches!(reader.map("ordered"), Err(Error::OtherKind { .. })));
    assert!(matches!(
        reader.map("none"),
        Err(Error::NoSuch {
            kind: Structure::Map,
            ..
        })
    ));
}

fn reads_when_all_places_are_taken<M: Mapped>() {
    let folder = folder();
    let path = folder.path().join("pool");
    let few = Options {
        processes: 1,
        // One for this thread; one to recover with; on incoherent memory one for the background thread.
        workers: if M::COHERENT { 2 } else { 3 },
        ..options()
    };
    let pool = Pool::<M>::create(&path, &few).unwrap();
    let map = pool.map("map").unwrap();
    map.put(b"key", b"value").unwrap();
    let is_refused = Pool::<M>::open(&path, &few);
    assert!(matches!(
        is_refused,
        Err(Error::TooMany {
            what: Table::Processes,
            ..
        })
    ));
    let of_another_thread = || pool.map("map").map(drop);
    let is_refused = std::thread::scope(|scope| scope.spawn(of_another_thread).join().unwrap());
    assert!(matches!(
        is_refused,
        Err(Error::TooMany {
            what: Table::Workers,
            ..
        })
    ));
    let reader = Pool::<M>::open_read_only(&path, &few).unwrap();
    assert_eq!(reader.map("map").unwrap().get(b"key").unwrap().unwrap(), b"value");
    let stat = reader.stat().unwrap();
    assert!(
        stat.without_place && stat.processes.len() == 1 && stat.processes[0].is_alive,
        "{stat:?}"
    );
    let report = reader.fsck().unwrap();
    assert!(report.is_clean() && report.other_processes == 1, "{report:?}");
    drop(map);
    drop(pool);
    let report = reader.fsck().unwrap();
    assert!(report.is_clean() && report.other_processes == 0, "{report:?}");
}

#[test]
fn who_has_no_place_reads_when_all_are_taken() {
    reads_when_all_places_are_taken::<Coherent>();
    reads_when_all_places_are_taken::<Noncoherent>();
}

fn overwrite(path: &Path, from: u64, len: u64, rng: &mut StdRng) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let bytes: Vec<u8> = (0..len).map(|_| rng.random()).collect();
    file.write_all_at(&bytes, from).unwrap();
}

/// Where the tables of processes and of workers begin, and where the latter ends, with what follows it.
const PROCESSES: u64 = 4096;
const WORKERS: u64 = 2 * 4096;
const BEHIND_WORKERS: u64 = WORKERS + 8 * (4096 + 1024);

/// `fsck` by a reader while a process holds everything that has a lock of its own.
fn audits_what_has_locks<M: Mapped>() {
    let folder = folder();
    let path = folder.path().join("pool");
    let pool = Pool::<M>::create(&path, &options()).unwrap();
    filled_with_names(&pool);
    let member = pool.group("group", b"token").unwrap().join("member").unwrap();
    let (says, said) = std::sync::mpsc::channel();
    let theirs = path.clone();
    // A thread that waits for ever is not joined.
    std::thread::spawn(move || {
        let reader = Pool::<M>::open_read_only(&theirs, &options()).unwrap();
        says.send(reader.fsck().unwrap()).unwrap();
    });
    let report = said.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    drop(member);
}

fn filled_with_names<M: Mapped>(pool: &Pool<M>) {
    pool.map("map").unwrap().put(b"key", b"value").unwrap();
    let mutex = pool.mutex("mutex").unwrap();
    drop(mutex.lock().unwrap());
}

#[test]
fn an_audit_without_a_place_waits_for_no_lock() {
    audits_what_has_locks::<Coherent>();
    audits_what_has_locks::<Noncoherent>();
}

fn reads_beside_damaged_records<M: Mapped>(rng: &mut StdRng) {
    let folder = folder();
    let path = folder.path().join("pool");
    filled::<M>(&path);
    for (from, to) in [(WORKERS, BEHIND_WORKERS), (PROCESSES, BEHIND_WORKERS)] {
        overwrite(&path, from, to - from, rng);
        let reader = Pool::<M>::open_read_only(&path, &Options::default()).unwrap();
        finds_all(&reader);
        let stat = reader.stat().unwrap();
        assert_eq!(stat.maps.len(), 2, "{stat:?}");
        // It ends, and returns something.
        let report = reader.fsck();
        assert!(report.is_ok_and(|report| report.maps.len() == 2));
    }
}

#[test]
fn who_has_no_place_needs_no_records() {
    let mut rng = StdRng::seed_from_u64(seed());
    reads_beside_damaged_records::<Coherent>(&mut rng);
    reads_beside_damaged_records::<Noncoherent>(&mut rng);
}

/// Runs something as an ordinary user, without root's permissions; as this user, if that is not root.
fn as_ordinary_user(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            // SAFETY: these calls take numbers, and as system calls they change the calling thread alone, which ends
            // after that.
            unsafe {
                if libc::geteuid() == 0 {
                    assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u8>()), 0);
                    assert_eq!(libc::syscall(libc::SYS_setresgid, 65534, 65534, 65534), 0);
                    assert_eq!(libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534), 0);
                }
            }
            run();
        });
        done.join().unwrap();
    });
}

fn reads_what_may_not_be_written<M: Mapped>() {
    let folder = folder();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path: PathBuf = folder.path().join("pool");
    filled::<M>(&path);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let before = std::fs::read(&path).unwrap();
    as_ordinary_user(|| {
        assert!(Pool::<M>::open(&path, &Options::default()).is_err());
        assert_eq!(cenote::kind_of(&path).unwrap(), cenote::MemoryKind::of::<M>());
        assert!(!cenote::has_hosts(&path).unwrap());
        let reader = Pool::<M>::open_read_only(&path, &Options::default()).unwrap();
        finds_all(&reader);
        assert_eq!(reader.stat().unwrap().maps.len(), 2);
        let report = reader.fsck().unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
    assert!(before == std::fs::read(&path).unwrap(), "somebody wrote");
}

#[test]
fn who_may_only_read_reads() {
    reads_what_may_not_be_written::<Coherent>();
    reads_what_may_not_be_written::<Noncoherent>();
}

/// Reads everything, with whatever result.
fn read_all<M: Mapped>(reader: &Reader<M>, rng: &mut StdRng) {
    let n = rng.random_range(0..KEYS);
    if let Ok(map) = reader.map("map") {
        let _ = (map.get(&key(n)), map.get(&n.to_le_bytes()), map.len());
        let _ = map.iter().take(5000).count();
    }
    if let Ok(map) = reader.ordered("ordered") {
        let _ = (map.get(&key(n)), map.len());
        let mut left = 5000;
        let mut each = |_: &[u8], _: &[u8]| {
            left -= 1;
            left > 0
        };
        let _ = map.scan(Range::ALL, &mut each);
        let _ = map.scan_reverse(Range::ALL, &mut each);
    }
    let _ = (reader.names(), reader.stat(), reader.fsck());
}

/// One thread flips and moves bytes of everything but the superblock, where there is something, while another reads.
fn reads_while_damage_goes_on<M: Mapped>(rounds: u64) {
    let seed = seed();
    for round in 0..rounds {
        let folder = folder();
        let path = folder.path().join("pool");
        filled::<M>(&path);
        let whole = std::fs::read(&path).unwrap();
        let used: Vec<u64> = (4096..whole.len() as u64 - 8)
            .step_by(8)
            .filter(|&at| whole[at as usize..][..8] != [0; 8])
            .collect();
        let is_done = LocalWord::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = StdRng::seed_from_u64(seed ^ round);
                let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
                while is_done.load() == 0 {
                    let [at, from] = [(); 2].map(|()| used[rng.random_range(0..used.len())]);
                    let mut word = [0; 8];
                    file.read_exact_at(&mut word, at).unwrap();
                    match rng.random_range(0..4) {
                        0 => word[rng.random_range(0..8)] ^= 1 << rng.random_range(0..8),
                        1 => word = rng.random(),
                        2 => file.read_exact_at(&mut word, from).unwrap(),
                        // Restored: not all is damaged for ever.
                        _ => word.copy_from_slice(&whole[at as usize..][..8]),
                    }
                    file.write_all_at(&word, at).unwrap();
                    for _ in 0..100 {
                        let at = used[rng.random_range(0..used.len())];
                        file.write_all_at(&whole[at as usize..][..8], at).unwrap();
                    }
                }
            });
            let mut rng = StdRng::seed_from_u64(seed ^ round ^ 1 << 63);
            let reader = Pool::<M>::open_read_only(&path, &Options::default());
            if let Ok(reader) = reader {
                (0..20).for_each(|_| read_all(&reader, &mut rng));
            }
            is_done.store(1);
        });
    }
}

#[test]
fn damage_under_a_reader_ends_in_errors() {
    reads_while_damage_goes_on::<Coherent>(6);
    reads_while_damage_goes_on::<Noncoherent>(3);
}

#[test]
fn a_value_is_copied_as_it_is_read() {
    fn check<M: Mapped>() {
        let folder = folder();
        let pool: Pool<M> = Pool::create(folder.path().join("pool"), &options()).unwrap();
        let map: Map<M> = pool.map("map").unwrap();
        let ordered: Ordered<M> = pool.ordered("ordered").unwrap();
        let pairs: Vec<_> = (0..400)
            .map(|n| (key(n), value(&key(n), n, n as usize % 40)))
            .collect();
        for (key, value) in &pairs {
            map.put(key, value).unwrap();
            ordered.put(key, value).unwrap();
        }
        map.put_u64(7, 8).unwrap();
        ordered.put_u64(7, 8).unwrap();
        for (key, value) in &pairs {
            assert_eq!(map.get_copied(key).unwrap().as_ref(), Some(value));
            assert_eq!(map.get(key).unwrap().as_deref(), Some(&value[..]));
            assert_eq!(ordered.get_copied(key).unwrap().as_ref(), Some(value));
        }
        let short = ordered.get_copied(&7_u64.to_be_bytes()).unwrap();
        assert_eq!(short, Some(vec![8, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(ordered.get_copied(b"another key").unwrap(), None);
        assert_eq!(
            map.get_copied(&7_u64.to_le_bytes()).unwrap(),
            Some(vec![8, 0, 0, 0, 0, 0, 0, 0])
        );
        assert_eq!(map.get_copied(b"another key").unwrap(), None);
    }
    check::<Coherent>();
    check::<Noncoherent>();
}
