//! A process that finds the pool full frees what an idle worker of another process has reserved, and is killed
//! meanwhile. The idle worker goes on, beside others: no two get the same memory, and nothing leaks.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::mpsc::channel;

use cenote::pod::instance::crash::Point;
use cenote::{Coherent, Map, Options, Pool};

use super::{Files, Outcome, text};

/// Where the process is killed, and at which passings: the first passings are for its own reserves.
const KILLS: [(Point, RangeInclusive<u64>); 3] = [
    (Point::TakeoverWanted, 1..=1),
    (Point::ReserveFreed, 1..=10),
    (Point::SlabRelease, 1..=10),
];
/// Sizes of values, each of a class of its own.
const SIZES: [usize; 8] = [20, 100, 300, 700, 1_500, 3_000, 9_000, 20_000];
/// Bytes of the values that fill the pool.
const FILLING: usize = 60_000;

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 16 << 20,
        ..Options::default()
    }
}

fn key_of(n: u64) -> Vec<u8> {
    format!("fill {n}").into_bytes()
}

/// The process that is killed.
pub fn fill(path: &Path) -> Outcome {
    let pool: Pool<Coherent> = Pool::open(path, &options()).map_err(text)?;
    let map = pool.map("map").map_err(text)?;
    let mut n = 0;
    while map.put(&key_of(n), &[1; FILLING]).is_ok() {
        n += 1;
    }
    Ok(())
}

fn value(who: &str, round: u64, size: usize) -> Vec<u8> {
    let word = format!("{who} {round} {size}.");
    word.bytes().cycle().take(size).collect()
}

fn put_all(map: &Map<Coherent>, who: &str, rounds: std::ops::Range<u64>) -> Outcome {
    for (round, size) in rounds.flat_map(|round| SIZES.map(|size| (round, size))) {
        let key = format!("{who} {round} {size}");
        map.put(key.as_bytes(), &value(who, round, size)).map_err(text)?;
    }
    Ok(())
}

fn check_all(map: &Map<Coherent>, who: &str, rounds: std::ops::Range<u64>) -> Outcome {
    for (round, size) in rounds.flat_map(|round| SIZES.map(|size| (round, size))) {
        let key = format!("{who} {round} {size}");
        let found = map.get(key.as_bytes()).map_err(text)?;
        if found.as_deref() != Some(&value(who, round, size)[..]) {
            return Err(format!("{key:?} has another value"));
        }
    }
    Ok(())
}

/// Kills at all of them.
pub fn all(
    folder: &Path,
    log: &Path,
    wanted: &dyn Fn(&str) -> bool,
    kills: &mut u64,
    failures: &mut Vec<String>,
) {
    let kills_at = KILLS.into_iter().filter(|(point, _)| wanted(point.name()));
    for (point, passing) in
        kills_at.flat_map(|(point, passings)| passings.map(move |passing| (point, passing)))
    {
        let files = Files::new(folder);
        let outcome = kill(&files, point, passing, log);
        files.remove();
        *kills += 1;
        if let Err(what) = outcome {
            failures.push(format!("{}:{passing}, reserves: {what}", point.name()));
        }
    }
    println!("reserves: {} failures so far", failures.len());
}

fn kill(files: &Files, point: Point, passing: u64, log: &Path) -> Outcome {
    let pool: Pool<Coherent> = Pool::create(&files.pool, &options()).map_err(text)?;
    let (tell, told) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let its_pool = pool.clone();
    let idle = std::thread::spawn(move || -> Outcome {
        let map = its_pool.map("map").map_err(text)?;
        put_all(&map, "idle", 0..1)?;
        let _ = tell.send(());
        let _ = may_go_on.recv();
        put_all(&map, "idle", 1..8)
    });
    let _ = told.recv();
    if !files.victim::<Coherent>("fill", point.name(), passing, log)? {
        return Err("the point was not passed".to_owned());
    }
    let map = pool.map("map").map_err(text)?;
    for n in 0..120 {
        map.remove(&key_of(n)).map_err(text)?;
    }
    put_all(&map, "other", 0..4)?;
    drop(go_on);
    idle.join().map_err(|_| "the idle thread panicked".to_owned())??;
    put_all(&map, "other", 4..8)?;
    check_all(&map, "idle", 0..8)?;
    check_all(&map, "other", 0..8)?;
    pool.recover().map_err(text)?;
    let report = pool.fsck().map_err(text)?;
    match report.is_clean() {
        true => Ok(()),
        false => Err(format!("{report:?}")),
    }
}
