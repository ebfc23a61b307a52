//! Ordered maps of real processes: clients change one, and scan it, while clients, a node and the master are killed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cenote_check::history::{Event, History};
use cenote_check::linear::{self, check_parts};
use cenote_check::spec::map::{Map, Op, Ret};
use cenote_cluster::{Error, Options, OrderedMap};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::clients::now;
use super::cluster::{Cluster, Place, TOKEN};
use super::histories::{Client, set};

/// Keys, in pages of some ten.
const KEYS: u64 = 150;
const NAME: &[u8] = b"ordered";

fn bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

fn key_of(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

fn value_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// What a client does until it is killed; it says so as [`super::clients::calls`] reads it.
pub fn work(master: SocketAddr, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut map: Option<OrderedMap> = None;
    loop {
        let Some(open) = map.as_mut().filter(|map| !map.has_ended()) else {
            map = OrderedMap::open(&Options::new(master, TOKEN), NAME).ok();
            if map.is_none() {
                std::thread::sleep(Duration::from_millis(10));
            }
            continue;
        };
        let key = random.random_range(0..KEYS);
        let value = u64::from(open.session()) << 32 | u64::from(random.random::<u32>());
        let long = [value.to_le_bytes().to_vec(), vec![7; 200 + value as usize % 200]].concat();
        let what = ["get", "bind", "bind", "remove"][random.random_range(0..4)];
        println!("\ncall {} {what} {key} {value} {}", open.session(), now());
        let outcome = match what {
            "get" => open.get(&bytes(key)).map(|found| match found {
                Some(value) => format!("found {}", value_of(&value)),
                None => "missing 0".to_owned(),
            }),
            "bind" => open
                .put(&bytes(key), &long)
                .map(|was| if was { "replaced 0" } else { "inserted 0" }.to_owned()),
            _ => open
                .remove(&bytes(key))
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

/// Scans all keys, and returns what that says of each.
fn scan(map: &OrderedMap, process: u32, is_back: bool) -> Result<Vec<Event<Op, Ret>>, Error> {
    let invoke = now();
    let mut pairs = match is_back {
        true => map.scan_back(b"", None, usize::MAX)?,
        false => map.scan(b"", None, usize::MAX)?,
    };
    let returned = Some(now());
    if is_back {
        pairs.reverse();
    }
    assert!(pairs.is_sorted_by(|(one, _), (next, _)| one < next));
    let found = |key: u64| pairs.iter().find(|(has, _)| key_of(has) == key);
    let read = |key: u64| Event {
        process,
        op: Op::Get { key },
        result: Some(found(key).map_or(Ret::Missing, |(_, value)| Ret::Found(value_of(value)))),
        invoke,
        returned,
        lost: None,
    };
    Ok((0..KEYS).map(read).collect())
}

#[test]
fn ordered_maps_outlive_kills() {
    let seed = set("CENOTE_TEST_SEED", u64::from(std::process::id()));
    let time = Duration::from_secs(set("CENOTE_TEST_SECONDS", 5));
    println!("CENOTE_TEST_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cluster = Cluster::new(3, 2);
    let mut clients: Vec<Client> = (0..3)
        .map(|_| Client::start(&Place::here(), "ordered", &cluster.at, random.random()))
        .collect();
    let (mut events, mut scans) = (Vec::new(), 0);
    let mut map: Option<OrderedMap> = None;
    let begun = Instant::now();
    let mut blows = 0;
    while begun.elapsed() < time || blows < 3 {
        let Some(open) = map.as_ref().filter(|map| !map.has_ended()) else {
            map = OrderedMap::open(&cluster.options(), NAME).ok();
            continue;
        };
        match scan(open, open.session(), scans % 2 == 1) {
            Ok(reads) => events.extend(reads),
            Err(Error::Map(cenote_replica::client::Error::Ended(_))) => {
                map = None;
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        scans += 1;
        std::thread::sleep(Duration::from_millis(random.random_range(20..200)));
        if begun.elapsed() < time * (blows + 1) / 4 {
            continue;
        }
        match blows % 3 {
            0 => {
                let client = random.random_range(0..clients.len());
                let new = Client::start(&Place::here(), "ordered", &cluster.at, random.random());
                events.extend(std::mem::replace(&mut clients[client], new).end());
            }
            1 => {
                let victim = random.random_range(0..3);
                cluster.nodes[victim].0.signal(libc::SIGKILL);
                cluster.replace_node(victim);
                cluster.wait(Cluster::is_whole);
            }
            _ => cluster.restart_master(),
        }
        blows += 1;
    }
    events.extend(clients.into_iter().flat_map(Client::end));
    drop(map);
    // The dead clients' sessions end, and what they had begun is decided.
    cluster.wait(|status| status.sessions.is_empty());
    let map = OrderedMap::open(&cluster.options(), NAME).unwrap();
    events.extend(scan(&map, map.session(), false).unwrap());
    let shape = map.shape().unwrap();
    map.close();
    let done = events.iter().filter(|event| event.returned.is_some()).count();
    println!(
        "{done} calls and reads of {}, {scans} scans, {shape:?}",
        events.len()
    );
    let verdict = check_parts(&Map, &History::new(events).unwrap(), &linear::Options::default());
    assert!(verdict.is_linearizable(), "{verdict:?}");
    assert!(shape.levels > 1 && scans > 1, "{shape:?}, {scans} scans");
}
