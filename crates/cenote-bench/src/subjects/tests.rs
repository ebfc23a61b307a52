//! Every subject does what the measurement takes for granted, and leaves nothing behind.

use super::dashmap::Dash;
use super::lmdb::Lmdb;
use super::ordered::Tree;
use super::redis::Redis;
use super::scc::{Index, Map};
use super::*;
use cenote_ycsb::key_of_record;
use foldhash::fast::RandomState;
use std::fs;
use std::path::Path;

const RECORDS: u64 = 5_000;

/// How often the bytes of a subject are looked at before they count as wrong.
const POLLS: usize = 5;

/// Inserts, fills, reads, reads in batches, updates and accounts.
fn conforms<S: Subject>() {
    let _alone = super::heap::tests::alone();
    // Some count what the heap of the whole process has grown by, and what an earlier subject has retired may be
    // freed meanwhile: a figure is wrong when it is wrong each time.
    let polls: Vec<f64> = (0..POLLS).map_while(|_| implausible::<S>()).collect();
    assert!(polls.len() < POLLS, "{}: {polls:?} bytes a record", S::NAME);
}

/// The bytes a record of a subject that works, if no map can have so few or so many.
fn implausible<S: Subject>() -> Option<f64> {
    let mut subject = match S::create() {
        Ok(subject) => subject,
        Err(Failure::Missing(reason)) => {
            println!("not tested: {reason}");
            return None;
        }
        Err(failure) => panic!("{}: {failure}", S::NAME),
    };
    let outcome = works(&mut subject);
    outcome.unwrap_or_else(|failure| panic!("{} ({}): {failure}", S::NAME, S::FORM));
    let bytes = subject.bytes().expect("it can be asked")?;
    let each = bytes as f64 / (2.0 * RECORDS as f64);
    (!(4.0..1_000.0).contains(&each)).then_some(each)
}

fn works<S: Subject>(subject: &mut S) -> Result<(), Failure> {
    let records: Vec<(u64, u64)> = (0..2 * RECORDS)
        .map(|record| (key_of_record(record), record))
        .collect();
    let (first, rest) = records.split_at(RECORDS as usize);
    let mut session = subject.session()?;
    for &(key, value) in first {
        session.insert(key, value)?;
    }
    assert_eq!(session.get(first[0].0)?, Some(0));
    session.fill(rest)?;
    drop(session);

    let mut session = subject.session()?;
    for &(key, value) in &records {
        assert_eq!(session.get(key)?, Some(value));
    }
    assert_eq!(session.get(key_of_record(u64::MAX))?, None);
    let keys = [records[7].0, key_of_record(u64::MAX), records[9_999].0];
    let mut values = [Some(1); 3];
    session.get_many(&keys, &mut values)?;
    assert_eq!(values, [Some(7), None, Some(9_999)]);

    if S::SCANS {
        let mut ordered = records.clone();
        ordered.sort_unstable();
        for (from, count) in [(0, 50), (77, 50), (9_990, 50), (3, 1)] {
            let wanted = ordered[from..].iter().take(count).map(|(_, value)| value);
            assert_eq!(session.scan(ordered[from].0, count)?, wanted.sum::<u64>());
        }
    }
    session.put(records[7].0, u64::MAX)?;
    assert_eq!(session.get(records[7].0)?, Some(u64::MAX));
    session.put(key_of_record(u64::MAX), 3)?;
    assert_eq!(session.get(key_of_record(u64::MAX))?, Some(3));
    Ok(())
}

/// The entries of the directories in which subjects keep files, made by this process.
fn left(kind: &str) -> usize {
    let directories = [Path::new("/dev/shm").to_owned(), std::env::temp_dir()];
    let entries = directories
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix(kind)))
        .count()
}

#[test]
fn dashmap_conforms() {
    conforms::<Dash<RandomState>>();
}

#[test]
fn scc_conforms() {
    conforms::<Index<RandomState>>();
    conforms::<Map<RandomState>>();
}

#[test]
fn trees() {
    conforms::<Tree<::cenote::Coherent>>();
    conforms::<Tree<::cenote::Noncoherent>>();
    conforms::<trees::Tree<trees::Scc>>();
    conforms::<trees::Tree<trees::Skip>>();
    conforms::<trees::Tree<trees::Concurrent>>();
}

#[test]
fn lmdb_conforms_and_leaves_no_files() {
    conforms::<Lmdb<false>>();
    conforms::<Lmdb<true>>();
    assert_eq!(left("lmdb"), 0);
}

#[test]
fn redis_conforms_and_leaves_no_files() {
    conforms::<Redis>();
    assert_eq!(left("redis"), 0);
}
