//! A client of a cluster that is tortured: says each call before it and its result after it, so that nothing is lost
//! when it is killed.
//!
//! | line | |
//! |---|---|
//! | `call SESSION WHAT KEY VALUE TIME` | it begins |
//! | `return RESULT VALUE TIME` | it is over |
//! | `problem TEXT` | what should not happen |

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use cenote_cluster::{Map, Options};
use cenote_replica::client::Error as MapError;
use cenote_sim::check::spec::map::{Op, Ret};
use cenote_sim::history::Event;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::failure::Failure;

/// Keys that the clients share, and whose history is checked.
pub const KEYS: u64 = 12;
/// How many further keys there are, so that the index grows; the first of them has the same number.
const BULK: u64 = 4000;

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

/// The client as a process: until it is killed, or nobody reads what it says.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let strange = || Failure::misuse("a client is started by `cenote torture --cluster` alone");
    let [master, token, seed] = args else {
        return Err(strange());
    };
    let master: SocketAddr = master.parse().map_err(|_| strange())?;
    let token = cenote_cluster::store::read_token(token.as_ref())?;
    let random = SmallRng::seed_from_u64(seed.parse().map_err(|_| strange())?);
    // The reader has gone: so has the test.
    let _ = work(&Options::new(master, token), random);
    Ok(ExitCode::SUCCESS)
}

fn work(options: &Options, mut random: SmallRng) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut map: Option<Map> = None;
    loop {
        let Some(open) = map.as_mut().filter(|map| !map.has_ended()) else {
            map = Map::open(options).ok();
            if map.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(10));
                writeln!(out)?;
            }
            continue;
        };
        let session = open.session();
        let outcome = if random.random_range(0..3) == 0 {
            let key = BULK + random.random_range(0..BULK);
            open.put(&key.to_le_bytes(), &key.to_le_bytes())
                .map(|()| String::new())
        } else {
            let key = random.random_range(0..KEYS);
            let value = u64::from(session) << 32 | u64::from(random.random::<u32>());
            let what =
                ["get", "get", "get", "put", "put", "insert", "insert", "remove"][random.random_range(0..8)];
            writeln!(out, "call {session} {what} {key} {value} {}", now())?;
            call(open, what, key, value).map(|result| format!("return {result} {}", now()))
        };
        match outcome {
            Ok(line) => writeln!(out, "{line}")?,
            Err(cenote_cluster::Error::Map(MapError::Ended(_))) => map = None,
            Err(error) => writeln!(out, "problem {error}")?,
        }
    }
}

/// What is returned, and the value of a get.
fn call(map: &mut Map, what: &str, key: u64, value: u64) -> Result<String, cenote_cluster::Error> {
    let key = key.to_le_bytes();
    let long = [value.to_le_bytes().to_vec(), vec![7; value as usize % 400]].concat();
    let or = |is: bool, yes: &str, no: &str| if is { yes } else { no }.to_owned();
    Ok(match what {
        "get" => match map.get(&key)? {
            Some(found) => format!(
                "found {}",
                found.first_chunk().map_or(0, |n| u64::from_le_bytes(*n))
            ),
            None => "missing 0".to_owned(),
        },
        "put" => {
            map.put(&key, &long)?;
            "done 0".to_owned()
        }
        "insert" => or(map.insert(&key, &long)?, "inserted 0", "present 0"),
        _ => or(map.remove(&key)?, "removed 0", "missing 0"),
    })
}

/// What a client said.
#[derive(Default)]
pub struct Heard {
    /// Its calls, in their order; a session is a process of the history. What has no end may come about later.
    pub events: Vec<Event<Op, Ret>>,
    /// What should not have happened.
    pub problems: Vec<String>,
}

/// Listens until the client has ended.
pub fn listen(output: impl BufRead) -> Heard {
    let mut heard = Heard::default();
    for line in output.lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| {
            words
                .get(n)
                .and_then(|word| word.parse::<u64>().ok())
                .unwrap_or(0)
        };
        match words[..] {
            ["call", _, what, _, _, _] => {
                let (key, value) = (number(3), number(4));
                heard.events.push(Event {
                    process: number(1) as u32,
                    op: match what {
                        "get" => Op::Get { key },
                        "put" => Op::Write { key, value },
                        "insert" => Op::Insert { key, value },
                        _ => Op::Remove { key },
                    },
                    result: None,
                    invoke: number(5),
                    returned: None,
                    lost: None,
                });
            }
            ["return", result, _, _] => {
                let ret = match result {
                    "found" => Ret::Found(number(2)),
                    "missing" => Ret::Missing,
                    "done" => Ret::Done,
                    "inserted" => Ret::Inserted,
                    "present" => Ret::Present,
                    _ => Ret::Removed,
                };
                if let Some(last) = heard.events.last_mut() {
                    (last.result, last.returned) = (Some(ret), Some(number(3)));
                }
            }
            ["problem", ..] => heard.problems.push(line),
            _ => {}
        }
    }
    heard
}
