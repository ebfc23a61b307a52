//! Processes that are killed in the middle of redistribution and elsewhere, logs that are cut off anywhere, and damage.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::device::Skiplist;
use crate::device::command::{Command, Reader};
use crate::map::Config;
use crate::modules::{Counters, ModulesError, Threads};

const FAULTS: [Fault; 3] = [Fault::Unlogged, Fault::LogFirst, Fault::Unchecked];
/// What a child is told: folder, where it is to stop, and the planted fault.
pub(super) const FOLDER: &str = "CENOTE_NEAR_FOLDER";
const STOP: &str = "CENOTE_NEAR_STOP";
const FAULT: &str = "CENOTE_NEAR_FAULT";

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

pub(super) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Where a fault shows only if the process is killed there.
pub(super) fn fault_stop() {
    stop();
}

/// Says that it stops, and waits to be killed.
fn stop() {
    println!("stopped");
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Modules that stop their process in the so-manieth round that has to do with redistribution.
struct Stopping {
    modules: Threads<Skiplist>,
    /// Rounds until then.
    left: u64,
    /// 0 before the launch, 1 between launch and collecting, 2 after it.
    when: u64,
    moving: bool,
}

fn redistributes(batch: &[u8]) -> bool {
    let mut rest = Reader(batch);
    while let Some(command) = Command::read(&mut rest) {
        if let Command::Export(..) | Command::Split(..) = command {
            return true;
        }
        if let Command::Import(_, _, pairs) = command
            && !pairs.is_empty()
        {
            return true;
        }
    }
    false
}

impl Stopping {
    fn stop_if(&self, when: u64) {
        if self.moving && self.left == 0 && self.when == when {
            stop();
        }
    }
}

impl Modules for Stopping {
    fn count(&self) -> usize {
        self.modules.count()
    }

    fn launch(&mut self, batches: Vec<Vec<u8>>) -> Result<(), ModulesError> {
        self.moving = batches.iter().any(|batch| redistributes(batch));
        if self.moving {
            self.left = self.left.saturating_sub(1);
        }
        self.stop_if(0);
        self.modules.launch(batches)?;
        self.stop_if(1);
        Ok(())
    }

    fn collect(&mut self) -> Result<Vec<Vec<u8>>, ModulesError> {
        let answers = self.modules.collect();
        self.stop_if(2);
        answers
    }

    fn counters(&self) -> Counters {
        self.modules.counters()
    }

    fn memory_bytes(&self) -> u64 {
        self.modules.memory_bytes()
    }
}

/// With which little load suffices to move subranges.
fn config() -> Config {
    Config {
        cold_batches: 2,
        accesses_per_round: 300.0,
        ..Config::default()
    }
}

pub(super) fn small() -> Settings {
    Settings {
        sync: false,
        log_bytes: 20_000,
    }
}

pub(super) fn map(modules: usize) -> Map<Threads<Skiplist>> {
    Map::threads(config(), modules, 2).unwrap()
}

/// The batch of a number: most of its keys near a place that it goes to for some batches.
pub(super) fn batch(number: u64) -> Vec<Operation> {
    let mut rng = ChaCha8Rng::seed_from_u64(number);
    let hot = ChaCha8Rng::seed_from_u64(number / 5).random::<u64>();
    (0..200)
        .map(|_| {
            let key = if rng.random_bool(0.8) {
                hot ^ rng.random_range(0..128) << rng.random_range(0..8)
            } else {
                rng.random::<u64>() & 0xff << 56
            };
            match rng.random_range(0..6) {
                0 => Operation::Get(key),
                1 => Operation::Delete(key),
                2 => Operation::CompareSwap {
                    key,
                    expected: number - 1,
                    value: number,
                },
                _ => Operation::Insert(key, number),
            }
        })
        .collect()
}

/// What a map has after so many batches.
pub(super) fn model(batches: u64) -> BTreeMap<u64, u64> {
    let mut model = BTreeMap::new();
    for number in 1..=batches {
        for operation in batch(number) {
            match operation {
                Operation::Insert(key, value) => {
                    model.entry(key).or_insert(value);
                }
                Operation::Delete(key) => {
                    model.remove(&key);
                }
                Operation::CompareSwap { key, expected, value } => {
                    if let Some(bound) = model.get_mut(&key)
                        && *bound == expected
                    {
                        *bound = value;
                    }
                }
                _ => {}
            }
        }
    }
    model
}

pub(super) fn all<M: Modules>(map: &mut Durable<M>) -> BTreeMap<u64, u64> {
    let scan = Operation::Scan(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    match map.execute(&[scan]).unwrap().remove(0) {
        Answer::Pairs(pairs) => pairs.iter().copied().collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "run by the tests that kill it"]
fn child() {
    let folder = std::env::var(FOLDER).unwrap();
    let stop = std::env::var(STOP).unwrap();
    let numbers: Vec<u64> = stop.split(',').map(|number| number.parse().unwrap()).collect();
    let fault = std::env::var(FAULT).unwrap();
    PLANTED.set(FAULTS.into_iter().find(|one| format!("{one:?}") == fault));
    let programs = (0..8).map(|module| Skiplist::new(1 << 20, module)).collect();
    let modules = Stopping {
        modules: Threads::new(programs, 2).unwrap(),
        left: numbers[1],
        when: numbers[2],
        moving: false,
    };
    let map = Map::new(config(), modules).unwrap();
    let mut map = Durable::open(Path::new(&folder), map, small()).unwrap();
    // Far more than it takes to redistribute eight times.
    for number in numbers[0] + 1..numbers[0] + 2000 {
        map.execute(&batch(number)).unwrap();
        println!("batch {number}");
        std::io::stdout().flush().unwrap();
    }
}

/// Has a child execute batches after so many, kills it where it stops, or after a time if it is not to stop anywhere;
/// the last batch that it acknowledged.
fn kill_one(folder: &Path, done: u64, left: u64, when: u64, after: Option<u64>, fault: Option<Fault>) -> u64 {
    let mut child = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "durable::tests::child", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env(STOP, format!("{done},{left},{when}"))
        .env(FAULT, fault.map_or(String::new(), |fault| format!("{fault:?}")))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut acknowledged, mut reached) = (done, false);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some((_, number)) = line.split_once("batch ") {
            acknowledged = number.parse().unwrap();
        }
        reached = line.contains("stopped") || after.is_some_and(|after| acknowledged >= done + after);
        if reached {
            break;
        }
    }
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reached, "the child ended by itself after batch {acknowledged}");
    acknowledged
}

/// Kills processes of one folder at random places of redistribution, and between; none if what is found agrees with
/// what was acknowledged each time, else what does not.
fn trial(seed: u64, fault: Option<Fault>) -> Option<String> {
    println!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut done = 0;
    for kill in 0..6 {
        let (left, when) = (rng.random_range(1..8), rng.random_range(0..3));
        let after = rng.random_bool(0.3).then(|| rng.random_range(1..40));
        let left = if after.is_some() { u64::MAX } else { left };
        let acknowledged = kill_one(folder.path(), done, left, when, after, fault);
        let mut opened = match Durable::open(folder.path(), map(4), small()) {
            Ok(opened) => opened,
            Err(error) => return Some(error.to_string()),
        };
        let found = all(&mut opened);
        // More may have been acknowledged than was read, if the child went on until it was killed.
        let last = acknowledged + if after.is_some() { 400 } else { 1 };
        match (acknowledged..=last).find(|batches| model(*batches) == found) {
            Some(batches) => done = batches,
            None => {
                return Some(format!(
                    "kill {kill}: {acknowledged} batches were acknowledged, and are not what is found"
                ));
            }
        }
    }
    None
}

#[test]
fn what_was_acknowledged_outlives_a_kill_in_the_middle_of_redistribution() {
    for seed in 0..4 {
        assert_eq!(trial(seed, None), None, "seed {seed}");
    }
}

#[test]
fn planted_faults_are_found() {
    for fault in [Fault::Unlogged, Fault::LogFirst] {
        let found = (0..6).find_map(|seed| trial(seed, Some(fault)));
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} was not found");
    }
    PLANTED.set(Some(Fault::Unchecked));
    let outcome = std::panic::catch_unwind(any_cut_is_recovered);
    PLANTED.set(None);
    assert!(outcome.is_err(), "Unchecked was not found");
}

/// A folder with some batches, of which the last ones are in the log; after which of its bytes each record ends.
fn written(folder: &Path, batches: u64) -> Vec<u64> {
    let settings = Settings {
        sync: true,
        ..Settings::default()
    };
    let mut opened = Durable::open(folder, map(4), settings).unwrap();
    let mut ends = Vec::new();
    for number in 1..=batches {
        let few = batch(number).into_iter().take(12).collect::<Vec<_>>();
        opened.execute(&few).unwrap();
        ends.push(opened.log.bytes());
    }
    ends
}

#[test]
fn any_cut_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let ends = written(folder.path(), 4);
    let log = folder.path().join("log");
    let whole = std::fs::read(&log).unwrap();
    for cut in ends[1] as usize..=whole.len() {
        // What was not written may be missing, or be zeros.
        for filled in [0, 1] {
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + filled * 40, 0);
            std::fs::write(&log, &bytes).unwrap();
            let opened = Durable::open(folder.path(), map(1), Settings::default()).unwrap();
            // What is missing may have been zeros.
            let is_whole = |end: &&u64| bytes.get(..**end as usize) == whole.get(..**end as usize);
            let expected = ends.iter().filter(is_whole).count() as u64;
            assert_eq!(opened.number, expected, "cut at {cut}");
            assert_eq!(opened.log.bytes(), std::fs::metadata(&log).unwrap().len());
        }
    }
}

#[test]
fn damage_is_an_error_that_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let ends = written(folder.path(), 4);
    let log = folder.path().join("log");
    let whole = std::fs::read(&log).unwrap();
    let open_with = |bytes: &[u8]| {
        std::fs::write(&log, bytes).unwrap();
        Durable::open(folder.path(), map(1), Settings::default())
            .err()
            .map(|error| error.to_string())
    };
    let mut flipped = whole.clone();
    flipped[ends[1] as usize + 20] ^= 1;
    let error = open_with(&flipped).unwrap();
    assert!(
        error.contains(&format!(
            "log is damaged at byte {}: a whole record follows",
            ends[2]
        )),
        "{error}"
    );
    let missing = [&whole[..ends[1] as usize], &whole[ends[2] as usize..]].concat();
    let error = open_with(&missing).unwrap();
    assert!(error.contains("a record is missing before this one"), "{error}");
    assert!(
        open_with(b"something")
            .unwrap()
            .contains("does not begin as a log")
    );
    assert_eq!(open_with(&whole), None);
    let mut opened = Durable::open(folder.path(), map(1), Settings::default()).unwrap();
    let second = Durable::open(folder.path(), map(1), Settings::default());
    assert!(matches!(second, Err(DurableError::InUse { .. })));
    opened.snapshot().unwrap();
    let pairs = all(&mut opened);
    drop(opened);
    let snapshot = folder.path().join("snapshot");
    let bytes = std::fs::read(&snapshot).unwrap();
    // Between the two renames of a snapshot the log is still the old one.
    assert_eq!(open_with(&whole), None);
    let mut opened = Durable::open(folder.path(), map(1), Settings::default()).unwrap();
    assert_eq!(all(&mut opened), pairs);
    drop(opened);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 4;
        std::fs::write(&snapshot, flipped).unwrap();
        let error = Durable::open(folder.path(), map(1), Settings::default()).err();
        assert!(
            matches!(error, Some(DurableError::Damaged { .. })),
            "byte {at}: {error:?}"
        );
    }
}

#[test]
fn a_loaded_map_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let pairs: Vec<(u64, u64)> = (0..1000).map(|key| (key << 50, key)).collect();
    let mut opened = Durable::open(folder.path(), map(4), Settings::default()).unwrap();
    opened.load(&pairs).unwrap();
    assert!(matches!(opened.load(&pairs), Err(DurableError::Map(_))));
    opened
        .execute(&[Operation::Delete(0), Operation::Get(1), Operation::Insert(5, 6)])
        .unwrap();
    drop(opened);
    let mut opened = Durable::open(folder.path(), map(2), Settings::default()).unwrap();
    let mut expected: BTreeMap<u64, u64> = pairs.into_iter().skip(1).collect();
    expected.insert(5, 6);
    assert_eq!(all(&mut opened), expected);
    assert_eq!(opened.map().len(), 1000);
}

#[test]
fn a_load_that_is_killed_between_its_renames_leaves_a_map_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Durable::open(folder.path(), map(4), Settings::default());
    let mut opened = open().unwrap();
    opened.execute(&[Operation::Insert(1, 1)]).unwrap();
    opened.execute(&[Operation::Delete(1)]).unwrap();
    let log = folder.path().join("log");
    let before = std::fs::read(&log).unwrap();
    opened.load(&[(5, 5)]).unwrap();
    drop(opened);
    // Killed between the two renames.
    std::fs::write(&log, before).unwrap();
    let mut opened = open().unwrap();
    assert_eq!(all(&mut opened), BTreeMap::from([(5, 5)]));
    opened.execute(&[Operation::Insert(6, 6)]).unwrap();
    drop(opened);
    let mut opened = open().unwrap();
    assert_eq!(all(&mut opened), BTreeMap::from([(5, 5), (6, 6)]));
}

#[test]
fn a_snapshot_without_synced_log_outlives_a_loss_of_power() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        sync: false,
        ..Settings::default()
    };
    let open = || Durable::open(folder.path(), map(4), settings.clone());
    let mut opened = open().unwrap();
    opened.execute(&[Operation::Insert(1, 1)]).unwrap();
    let log = folder.path().join("log");
    let before = std::fs::read(&log).unwrap();
    opened.execute(&[Operation::Insert(2, 2)]).unwrap();
    opened.snapshot().unwrap();
    drop(opened);
    // Power is lost after the snapshot's rename; of the log the device has the first record.
    std::fs::write(&log, before).unwrap();
    let mut opened = open().unwrap();
    opened.execute(&[Operation::Insert(6, 6)]).unwrap();
    drop(opened);
    let mut opened = open().unwrap();
    assert_eq!(all(&mut opened).len(), 3);
}

#[test]
fn a_big_record_that_is_torn_is_cut_off_soon() {
    for count in [20_000u64, 40_000, 80_000, 160_000, 320_000] {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for small in [false, true] {
            let changes: Vec<Operation> = (0..count)
                .map(|n| {
                    if small {
                        Operation::Insert(n, n)
                    } else {
                        Operation::Insert(rng.random(), rng.random())
                    }
                })
                .collect();
            let answers = vec![Answer::Insert { existing: None }; changes.len()];
            let changes = record::Changes::of(&changes, &answers);
            let record = record::bytes(1, &changes).unwrap();
            let mut bytes = b"cnearlg\x01".to_vec();
            bytes.extend_from_slice(&record[..record.len() - 1]);
            std::fs::write(folder.path().join("log"), &bytes).unwrap();
            let began = std::time::Instant::now();
            let (_, records) = Log::open(folder.path(), 0).unwrap();
            assert!(records.is_empty());
            println!(
                "{count} inserts, small {small}, {} bytes: {:?}",
                bytes.len(),
                began.elapsed()
            );
            if began.elapsed() > Duration::from_secs(60) {
                return;
            }
        }
    }
}

#[test]
fn what_was_acknowledged_can_be_opened_with_the_same_settings() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        module_bytes: 64 << 10,
        accesses_per_round: 300.0,
        ..Config::default()
    };
    let open = || {
        let map = Map::threads(config.clone(), 8, 2).unwrap();
        Durable::open(
            folder.path(),
            map,
            Settings {
                sync: false,
                ..Settings::default()
            },
        )
    };
    let mut opened = open().unwrap();
    // Numbers from 0, as a table's.
    let (mut full, mut bound) = (0, 0);
    for begin in 0..100u64 {
        let mut batch: Vec<Operation> = (0..100).map(|n| Operation::Insert(begin * 100 + n, n)).collect();
        batch.extend((0..2000u64).map(|n| Operation::Get(begin * 100 + n % 100)));
        let answers = opened.execute(&batch).unwrap();
        for answer in &answers[..100] {
            match answer {
                Answer::Full => full += 1,
                _ => bound += 1,
            }
        }
    }
    println!(
        "{bound} bound, {full} refused; {:?} {:?} {:?}",
        opened.map().moves(),
        opened.map().host_holds(),
        opened.map().memory_bytes()
    );
    let before = all(&mut opened);
    drop(opened);
    let mut opened = open().unwrap();
    assert_eq!(all(&mut opened), before);
}

#[test]
fn a_record_that_cannot_be_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut changes = vec![7u8];
    changes.extend_from_slice(&9u64.to_le_bytes());
    changes.push(1); // cut
    let mut bytes = b"cnearlg\x01".to_vec();
    let mut head = (changes.len() as u32).to_le_bytes().to_vec();
    head.extend_from_slice(&1u64.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&head), &changes);
    bytes.extend(head);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(changes);
    std::fs::write(folder.path().join("log"), &bytes).unwrap();
    let opened = Durable::open(folder.path(), map(1), Settings::default());
    assert!(
        matches!(opened, Err(DurableError::Damaged { .. })),
        "it was opened"
    );
}

#[test]
fn a_snapshot_may_have_the_last_number() {
    let folder = tempfile::tempdir().unwrap();
    snapshot::write(folder.path(), u64::MAX, &[(1, 1)]).unwrap();
    let mut bytes = b"cnearlg\x01".to_vec();
    let mut change = vec![0u8];
    change.extend_from_slice(&9u64.to_le_bytes());
    let answers = [Answer::Delete { removed: Some(1) }];
    let c = record::Changes::of(&[Operation::Delete(9)], &answers);
    bytes.extend(record::bytes(1, &c).unwrap());
    std::fs::write(folder.path().join("log"), &bytes).unwrap();
    let outcome =
        std::panic::catch_unwind(|| Durable::open(folder.path(), map(1), Settings::default()).is_err());
    println!("{outcome:?}");
    assert!(outcome.is_ok());
}

/// A module that is full of keys that were inserted one by one may have less room for the same keys, loaded.
#[test]
fn a_full_map_without_redistribution_can_be_opened_again() {
    for seed in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let config = Config {
                adaptive: false,
                module_bytes: 4096,
                seed,
                ..Config::default()
            };
            Durable::open(
                folder.path(),
                Map::threads(config, 1, 1).unwrap(),
                Settings::default(),
            )
        };
        let mut opened = open().unwrap();
        let mut refused = 0;
        for key in (2..).step_by(2) {
            let answers = opened.execute(&[Operation::Insert(key, key)]).unwrap();
            refused += u32::from(answers == [Answer::Full]);
            if refused == 30 {
                break;
            }
        }
        let expected = all(&mut opened);
        assert!(expected.len() > 100);
        drop(opened);
        let mut opened = open().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(all(&mut opened), expected);
    }
}
