//! YCSB by several processes on a bucket table: every value is whole and of its key, no update is lost, also when
//! processes are killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use cenote::{Backend, Coherent, Noncoherent, Options, Pool, RegionsLock};
use cenote_locked::buckets::{Shape, Table};
use cenote_ycsb::{Action, Operation, Spec, Workload, key_of_record};

const SHAPE: Shape = Shape {
    buckets: 24,
    slots: 60,
    value_max: 96,
};
const RECORDS: u64 = 600;
const OPERATIONS: u64 = 4000;
const PROCESSES: u64 = 3;

fn open<M: Backend>(path: &Path) -> Pool<M> {
    let options = Options {
        size: 8 << 20,
        max: 64 << 20,
        ..Options::default()
    };
    Pool::open_or_create(path, &options).unwrap()
}

fn table<M: Backend>(pool: &Pool<M>) -> Table<RegionsLock<M>> {
    Table::in_pool(pool, "table", SHAPE).unwrap()
}

/// A value: the key, how often it was updated, words that follow from both, of a length that does too.
fn value(key: u64, count: u64) -> Vec<u8> {
    let words = 2 + (key ^ count) % 11;
    let word = |n| match n {
        0 => key,
        1 => count,
        _ => key.wrapping_mul(count + n).rotate_left(n as u32),
    };
    (0..words).flat_map(|n| word(n).to_le_bytes()).collect()
}

/// How often a value was updated; it must be whole.
fn count_in(key: u64, found: &[u8]) -> u64 {
    let count = u64::from_le_bytes(found[8..16].try_into().unwrap());
    assert!(
        found == value(key, count),
        "the value of {key:#x} is torn or another key's: {found:?}"
    );
    count
}

fn load<M: Backend>(table: &Table<RegionsLock<M>>) {
    for record in 0..RECORDS {
        let key = key_of_record(record);
        assert!(!table.put(key, &value(key, 0)).unwrap());
    }
}

/// The sum of all counts. Scans see what gets see.
fn updates<M: Backend>(table: &Table<RegionsLock<M>>) -> u64 {
    let (mut sum, mut keys) = (0, 0);
    for bucket in 0..SHAPE.buckets {
        let seen = table.scan(bucket, |key, value| {
            assert_eq!(table.bucket_of(key), bucket);
            sum += count_in(key, value);
            keys += 1;
        });
        seen.unwrap();
    }
    assert_eq!(keys, RECORDS);
    sum
}

fn apply<M: Backend>(table: &Table<RegionsLock<M>>, operation: Operation) {
    let key = key_of_record(operation.record);
    match operation.action {
        Action::Read => table
            .with(key, |found| count_in(key, found.expect("a key is gone")))
            .map(drop)
            .unwrap(),
        _ => {
            let was = table.update(key, |found| *found = value(key, count_in(key, found) + 1));
            assert!(was.unwrap(), "a key is gone");
        }
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start<M: Backend>(path: &Path, worker: u64, operations: u64) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env("CENOTE_LOCKED_POOL", path)
        .env("CENOTE_LOCKED_KIND", M::NAME)
        .env("CENOTE_LOCKED_WORKER", worker.to_string())
        .env("CENOTE_LOCKED_OPERATIONS", operations.to_string())
        .stdout(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

fn stream(worker: u64, operations: u64) -> impl Iterator<Item = Operation> {
    let spec = Spec {
        operations,
        seed: 21,
        ..Spec::new(Workload::A, RECORDS)
    };
    spec.for_worker(worker, PROCESSES).stream()
}

fn processes_count<M: Backend>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool = open::<M>(&path);
    let table = table(&pool);
    load(&table);
    let mut workers: Vec<Running> = (0..PROCESSES)
        .map(|worker| start::<M>(&path, worker, OPERATIONS))
        .collect();
    for worker in &mut workers {
        assert!(worker.0.wait().unwrap().success());
    }
    let wanted: usize = (0..PROCESSES)
        .map(|worker| {
            let all = stream(worker, OPERATIONS);
            all.filter(|operation| operation.action != Action::Read).count()
        })
        .sum();
    assert_eq!(updates(&table), wanted as u64);
}

#[test]
fn processes_update_under_ycsb_and_nothing_is_lost() {
    processes_count::<Coherent>();
    processes_count::<Noncoherent>();
}

fn processes_die<M: Backend>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool = open::<M>(&path);
    let table = table(&pool);
    load(&table);
    let mut counted = 0;
    for round in 0..12 {
        let mut victim = start::<M>(&path, round % PROCESSES, u64::MAX);
        // Beside this one, until the victim has updated something.
        let mut own = 0;
        while updates(&table) == counted + own {
            for operation in stream(round % PROCESSES, 50) {
                apply(&table, operation);
                own += u64::from(operation.action != Action::Read);
            }
        }
        victim.0.kill().unwrap();
        victim.0.wait().unwrap();
        let now = updates(&table);
        assert!(now > counted + own);
        counted = now;
    }
    drop(table);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn processes_that_are_killed_leave_whole_values() {
    processes_die::<Coherent>();
    processes_die::<Noncoherent>();
}

#[test]
fn misuse_is_an_error() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = open::<Coherent>(&folder.path().join("pool"));
    let shape = Shape {
        buckets: 1,
        slots: 2,
        value_max: 8,
    };
    let table = Table::in_pool(&pool, "small", shape).unwrap();
    for key in 0..2 {
        table.put(key, b"12345678").unwrap();
    }
    let refused = |error: cenote_locked::Error, words: &str| {
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
    };
    refused(table.put(2, b"").unwrap_err(), "bucket 0 is full");
    refused(table.put(1, b"123456789").unwrap_err(), "a value of 9 bytes");
    refused(
        table.update(1, |value| value.push(0)).unwrap_err(),
        "a value of 9 bytes",
    );
    refused(table.scan(1, |_, _| ()).unwrap_err(), "there is no bucket 1");
    assert_eq!(table.get(1).unwrap().as_deref(), Some(&b"12345678"[..]));
    assert_eq!(table.get(9).unwrap(), None);
    assert!(table.remove(1).unwrap() && !table.remove(1).unwrap());
    let other = Shape { slots: 3, ..shape };
    refused(
        Table::in_pool(&pool, "small", other).map(drop).unwrap_err(),
        "made with other sizes",
    );
}

/// A worker; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(path) = std::env::var("CENOTE_LOCKED_POOL") else {
        return;
    };
    match std::env::var("CENOTE_LOCKED_KIND").as_deref() {
        Ok("noncoherent") => work::<Noncoherent>(Path::new(&path)),
        _ => work::<Coherent>(Path::new(&path)),
    }
}

fn work<M: Backend>(path: &Path) {
    let number = |name: &str| std::env::var(name).unwrap().parse().unwrap();
    let pool = open::<M>(path);
    let table = table(&pool);
    let (worker, operations) = (number("CENOTE_LOCKED_WORKER"), number("CENOTE_LOCKED_OPERATIONS"));
    stream(worker, operations).for_each(|operation| apply(&table, operation));
}
