//! Modules at nodes on the loopback interface.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use cenote_near::device::command::Command;
use cenote_near::map::{Answer, Config, Map, MapError, Operation};
use cenote_near::modules::{Modules, ModulesError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{NearError, Nodes, Options};
use crate::node;

const TOKEN: &str = "of the test";
const MEBIBYTE: u64 = 1 << 20;

/// A node of this process, which stays as long as that.
fn start(memory: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || node::run(node::Options::new(memory, TOKEN), listener));
    address
}

fn options() -> Options {
    Options::new(4, MEBIBYTE, TOKEN)
}

/// Which one refuses, and why.
fn refusal(outcome: Result<Nodes, NearError>) -> String {
    match outcome {
        Err(NearError::Refused { why, .. }) => why.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn a_map_on_nodes_is_a_map() {
    let nodes = [start(8 * MEBIBYTE), start(8 * MEBIBYTE), start(8 * MEBIBYTE)];
    let seed = 7;
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let config = Config {
        module_bytes: MEBIBYTE,
        horizon: 1000,
        accesses_per_round: 1.0,
        ..Config::default()
    };
    let mut map = Map::new(config, Nodes::connect(&nodes, &options()).unwrap()).unwrap();
    let mut model = BTreeMap::new();
    let mut hot = 0;
    for number in 0..60 {
        if number % 15 == 0 {
            hot = rng.random::<u64>() << 8;
        }
        let batch: Vec<(u64, u64, u8)> = (0..400)
            .map(|_| {
                (
                    hot | rng.random_range(0..256),
                    rng.random(),
                    rng.random_range(0..4),
                )
            })
            .collect();
        let operations: Vec<Operation> = batch
            .iter()
            .map(|&(key, value, what)| match what {
                0 | 1 => Operation::Insert(key, value),
                2 => Operation::Delete(key),
                _ => Operation::Predecessor(key),
            })
            .collect();
        let answers = map.execute(&operations).unwrap();
        for ((key, value, what), answer) in batch.into_iter().zip(answers) {
            let expected = match what {
                0 | 1 => {
                    let before = model.get(&key).copied();
                    model.entry(key).or_insert(value);
                    Answer::Insert { existing: before }
                }
                2 => Answer::Delete {
                    removed: model.remove(&key),
                },
                _ => {
                    let before = model.range(..=key).next_back();
                    Answer::Pair(before.map(|(key, value)| (*key, *value)))
                }
            };
            assert_eq!(answer, expected);
        }
    }
    assert_eq!(map.len(), model.len() as u64);
    let moves = map.moves();
    assert!(moves.splits > 0 && moves.moves + moves.pulls > 0, "{moves:?}");
    assert!(map.counters().chases > 0 && map.memory_bytes().modules > 0);
}

#[test]
fn long_batches_and_answers_come_in_parts() {
    let nodes = [start(80 * MEBIBYTE)];
    let options = Options {
        module_bytes: 64 * MEBIBYTE,
        modules_each: 1,
        ..options()
    };
    let config = Config {
        module_bytes: options.module_bytes,
        adaptive: false,
        ..Config::default()
    };
    let mut map = Map::new(config, Nodes::connect(&nodes, &options).unwrap()).unwrap();
    // More than a frame has, there and back.
    let pairs: Vec<(u64, u64)> = (0..600_000).map(|n| (n << 20, n)).collect();
    map.load(&pairs).unwrap();
    let scan = Operation::Scan(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let answers = map.execute(&[scan, Operation::Get(5 << 20)]).unwrap();
    assert_eq!(answers[0], Answer::Pairs(pairs.into()));
    assert_eq!(answers[1], Answer::Value(Some(5)));
}

#[test]
fn memory_is_lent_and_comes_back() {
    let node = start(8 * MEBIBYTE);
    let first = Nodes::connect(&[node], &options()).unwrap();
    let second = Nodes::connect(&[node], &options()).unwrap();
    let why = refusal(Nodes::connect(&[node], &options()));
    assert!(
        why.contains("4 modules of 1048576 bytes") && why.contains("0 bytes"),
        "{why}"
    );
    drop(first);
    let begun = Instant::now();
    while Nodes::connect(&[node], &options()).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is not given back");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(second);
}

#[test]
fn what_cannot_be_done_is_told() {
    let node = start(8 * MEBIBYTE);
    assert!(matches!(Nodes::connect(&[], &options()), Err(NearError::Nothing)));
    let none = Options {
        modules_each: 0,
        ..options()
    };
    assert!(matches!(Nodes::connect(&[node], &none), Err(NearError::Nothing)));
    let many = Options {
        modules_each: u32::MAX,
        ..options()
    };
    assert!(refusal(Nodes::connect(&[node], &many)).contains("ask for 1 to 65536"));
    // A module has a page at least, and that counts.
    let tiny = Options {
        modules_each: 4096,
        module_bytes: 0,
        ..options()
    };
    assert!(refusal(Nodes::connect(&[node], &tiny)).contains("4096 modules of 4096 bytes"));
    let stranger = Options {
        credentials: "another".into(),
        ..options()
    };
    let outcome = Nodes::connect(&[node], &stranger).map(drop);
    assert!(matches!(outcome, Err(NearError::Node { .. })), "{outcome:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = crate::memory_file::MemoryFile::open(&folder.path().join("memory"), 8 * MEBIBYTE, 1).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let kept = node::Options {
        pool: Some(std::sync::Arc::new(file)),
        ..node::Options::new(8 * MEBIBYTE, TOKEN)
    };
    std::thread::spawn(move || node::run(kept, listener));
    assert!(refusal(Nodes::connect(&[address], &options())).contains("in a file"));
}

#[test]
fn a_command_that_is_none_ends_the_round_and_the_connection() {
    let node = start(8 * MEBIBYTE);
    let mut nodes = Nodes::connect(&[node], &options()).unwrap();
    let mut drop = Vec::new();
    Command::Drop(0).write(&mut drop);
    let outcome = nodes.round(vec![vec![], drop, vec![255], vec![]]);
    assert!(
        matches!(outcome, Err(ModulesError::Malformed { module: 2, .. })),
        "{outcome:?}"
    );
    let outcome = nodes.round(vec![vec![255], vec![], vec![], vec![]]);
    assert!(matches!(outcome, Err(ModulesError::Lost { .. })), "{outcome:?}");
    assert!(matches!(nodes.collect(), Err(ModulesError::NoRound)));
    assert!(matches!(
        nodes.launch(vec![]),
        Err(ModulesError::Batches { given: 0, modules: 4 })
    ));
}

#[test]
fn answers_are_no_more_than_a_node_can_bear() {
    let node = start(8 * MEBIBYTE);
    let mut nodes = Nodes::connect(&[node], &options()).unwrap();
    let mut commands = Vec::new();
    Command::Import(0, 64, &[]).write(&mut commands);
    for key in 0..10_000 {
        Command::Insert(key, key).write(&mut commands);
    }
    nodes.round(vec![vec![], commands, vec![], vec![]]).unwrap();
    // 160 KB each.
    let mut scans = Vec::new();
    for _ in 0..1000 {
        Command::Scan(0, u64::MAX).write(&mut scans);
    }
    let outcome = nodes.round(vec![vec![], scans, vec![], vec![]]);
    assert!(
        matches!(outcome, Err(ModulesError::Malformed { module: 1, cause }) if cause.at > 0),
        "{:?}",
        outcome.map(drop)
    );
}

/// Answers a greeting and a question as a node does, and then nothing.
fn falls_silent() -> SocketAddr {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 64];
        let mut read = 0;
        let asked = 10 + TOKEN.len() + 4 + 1 + 20;
        while read < asked {
            read += stream.read(&mut bytes).unwrap();
        }
        let mut out = Vec::new();
        super::wire::Response::Opened.encode(&mut out);
        stream.write_all(&out).unwrap();
        // Until the other side gives it up.
        while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
    });
    address
}

#[test]
fn a_node_that_falls_silent_is_lost_and_the_map_says_which() {
    let silent = falls_silent();
    let nodes = [start(8 * MEBIBYTE), silent];
    let options = Options {
        silence: Duration::from_millis(300),
        ..options()
    };
    let nodes = Nodes::connect(&nodes, &options).unwrap();
    let config = Config {
        module_bytes: MEBIBYTE,
        ..Config::default()
    };
    let lost = Map::new(config, nodes).map(drop);
    let Err(MapError::Modules(ModulesError::Lost { module: 1, why })) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!(why, format!("memory node {silent}: it is silent"));
}
