//! Clients that are processes, and say what they do.

use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::time::Duration;

use cenote_check::history::Event;
use cenote_check::spec::map::{Op, Ret};
use cenote_cluster::{Error, Map, Masters, Options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::cluster::credentials;

/// Keys that the clients share.
const KEYS: u64 = 12;

/// How many further keys there are, and the first of them.
pub const BULK: u64 = 4000;

/// Nanoseconds of the clock that all processes of this machine share.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What a client does until it is killed: it says each call before it, and its result after it, so that nothing is lost
/// when it dies.
pub fn work(masters: Masters, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut map: Option<Map> = None;
    loop {
        let Some(open) = map.as_mut().filter(|map| !map.has_ended()) else {
            let options = Options {
                mapped: super::cluster::mapped(),
                ..Options::new(masters.clone(), credentials())
            };
            map = Map::open(&options).ok();
            if map.is_none() {
                std::thread::sleep(Duration::from_millis(10));
            }
            continue;
        };
        if random.random_range(0..3) == 0 {
            // Of many keys, so that the index grows; they are not in the history.
            let key = BULK + random.random_range(0..BULK);
            match open.put(&key.to_le_bytes(), &key.to_le_bytes()) {
                Ok(()) => {}
                Err(Error::Map(cenote_replica::client::Error::Ended(_))) => map = None,
                Err(error) => {
                    println!("\nproblem {error}");
                    return;
                }
            }
            continue;
        }
        let key = random.random_range(0..KEYS);
        let value = u64::from(open.session()) << 32 | u64::from(random.random::<u32>());
        let bytes = key.to_le_bytes();
        let long = [value.to_le_bytes().to_vec(), vec![7; value as usize % 400]].concat();
        let what =
            ["get", "get", "get", "put", "put", "insert", "insert", "remove"][random.random_range(0..8)];
        println!("\ncall {} {what} {key} {value} {}", open.session(), now());
        let outcome = match what {
            "get" => open.get(&bytes).map(|found| match found {
                Some(value) => format!("found {}", u64::from_le_bytes(value[..8].try_into().unwrap())),
                None => "missing 0".to_owned(),
            }),
            "put" => open.put(&bytes, &long).map(|()| "done 0".to_owned()),
            "insert" => open
                .insert(&bytes, &long)
                .map(|is_new| if is_new { "inserted 0" } else { "present 0" }.to_owned()),
            _ => open
                .remove(&bytes)
                .map(|was| if was { "removed 0" } else { "missing 0" }.to_owned()),
        };
        match outcome {
            Ok(result) => println!("\nreturn {result} {}", now()),
            Err(Error::Map(cenote_replica::client::Error::Ended(_))) => map = None,
            Err(error) => {
                println!("\nproblem {error}");
                return;
            }
        }
    }
}

/// The calls of a client, in their order; what has no end may come about later. A session is a process of the history.
pub fn calls(output: BufReader<ChildStdout>) -> Vec<Event<Op, Ret>> {
    let mut events: Vec<Event<Op, Ret>> = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| words[n].parse::<u64>().unwrap();
        match words[..] {
            ["call", _, what, ..] if words.len() == 6 => {
                let (key, value) = (number(3), number(4));
                let op = match what {
                    "get" => Op::Get { key },
                    "put" => Op::Write { key, value },
                    "bind" => Op::Put { key, value },
                    "insert" => Op::Insert { key, value },
                    _ => Op::Remove { key },
                };
                events.push(Event {
                    process: number(1) as u32,
                    op,
                    result: None,
                    invoke: number(5),
                    returned: None,
                    lost: None,
                });
            }
            ["return", result, ..] if words.len() == 4 => {
                let ret = match result {
                    "found" => Ret::Found(number(2)),
                    "missing" => Ret::Missing,
                    "done" => Ret::Done,
                    "inserted" => Ret::Inserted,
                    "replaced" => Ret::Replaced,
                    "present" => Ret::Present,
                    _ => Ret::Removed,
                };
                let last = events.last_mut().unwrap();
                (last.result, last.returned) = (Some(ret), Some(number(3)));
            }
            ["problem", ..] => panic!("{line}"),
            _ => {}
        }
    }
    events
}
