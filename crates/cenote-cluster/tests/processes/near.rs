//! A near-memory map on memory nodes that are killed and stopped in the middle of batches: what was acknowledged is in
//! its files.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use cenote_cluster::control::Status;
use cenote_cluster::near::{Nodes, Options};
use cenote_near::durable::{Durable, Settings};
use cenote_near::map::{Answer, Config, Map, Operation};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::cluster::{Cluster, Place, Running, TOKEN, node_at};

const MODULE_BYTES: u64 = 1 << 20;

/// The map of a folder, on these nodes.
fn open(folder: &Path, nodes: &[SocketAddr]) -> Durable<Nodes> {
    let mut options = Options::new(4, MODULE_BYTES, TOKEN);
    options.silence = Duration::from_secs(3);
    let config = Config {
        module_bytes: MODULE_BYTES,
        // Redistribution pays at once, so that nearly every batch has some.
        horizon: 1000,
        accesses_per_round: 1.0,
        ..Config::default()
    };
    let map = Map::new(config, Nodes::connect(nodes, &options).unwrap()).unwrap();
    let settings = Settings {
        sync: false,
        log_bytes: 1 << 16,
    };
    Durable::open(folder, map, settings).unwrap()
}

fn batch(rng: &mut StdRng, hot: u64) -> Vec<Operation> {
    let draw = |rng: &mut StdRng| {
        let key = match rng.random_bool(0.8) {
            true => hot | rng.random_range(0..256),
            false => rng.random::<u64>() & 0x7000_0000_0000_00ff,
        };
        match rng.random_range(0..3) {
            0 => Operation::Delete(key),
            _ => Operation::Insert(key, rng.random()),
        }
    };
    (0..300).map(|_| draw(rng)).collect()
}

fn apply(model: &mut BTreeMap<u64, u64>, operations: &[Operation]) {
    for operation in operations {
        match *operation {
            Operation::Insert(key, value) => drop(model.entry(key).or_insert(value)),
            Operation::Delete(key) => drop(model.remove(&key)),
            _ => unreachable!("none other is drawn"),
        }
    }
}

#[test]
fn nodes_die_in_the_middle_of_batches_and_nothing_acknowledged_is_lost() {
    let seed = std::env::var("CENOTE_TEST_SEED").map_or(20_261_128, |seed| seed.parse().unwrap());
    println!("CENOTE_TEST_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut nodes: Vec<(Running, SocketAddr)> = (0..3).map(|_| node_at(&Place::here())).collect();
    // What the files have, or have with the batch that was under way: a node may die in the snapshot behind it.
    let (mut acknowledged, mut perhaps) = (BTreeMap::new(), BTreeMap::new());
    let (mut losses, mut batches) = (0, 0);
    while losses < 6 {
        let addresses: Vec<SocketAddr> = nodes.iter().map(|(_, at)| *at).collect();
        let mut map = open(folder.path(), &addresses);
        let all = Operation::Scan(Bound::Unbounded, Bound::Unbounded);
        let found: BTreeMap<u64, u64> = match map.execute(&[all]).unwrap().pop() {
            Some(Answer::Pairs(pairs)) => pairs.iter().copied().collect(),
            other => panic!("{other:?}"),
        };
        let is_right = found == acknowledged || found == perhaps;
        assert!(is_right, "{} pairs of {}", found.len(), acknowledged.len());
        acknowledged = found;
        let victim = rng.random_range(0..nodes.len());
        // SIGKILL, or SIGSTOP: then the node is silent.
        let signal = [libc::SIGKILL, libc::SIGSTOP][rng.random_range(0..2)];
        let after = Duration::from_micros(rng.random_range(0..20_000));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(after);
                nodes[victim].0.signal(signal);
            });
            let mut hot = rng.random::<u64>() << 8;
            for number in 1.. {
                if number % 10 == 0 {
                    hot = rng.random::<u64>() << 8;
                }
                let operations = batch(&mut rng, hot);
                if map.execute(&operations).is_err() {
                    perhaps.clone_from(&acknowledged);
                    apply(&mut perhaps, &operations);
                    // It is lost, and says so.
                    assert!(map.execute(&[Operation::Get(1)]).is_err());
                    break;
                }
                batches += 1;
                apply(&mut acknowledged, &operations);
            }
        });
        // Another node in its place.
        drop(map);
        nodes[victim] = node_at(&Place::here());
        losses += 1;
    }
    println!("{batches} batches, {losses} losses");
    assert!(batches >= losses);
}

/// All that a node has left is lent to a module.
fn borrow_all(node: SocketAddr) -> Nodes {
    let [_, memory, held, ..] = super::promises::info(node);
    Nodes::connect(&[node], &Options::new(1, memory - held, TOKEN)).unwrap()
}

#[test]
fn a_node_that_has_lent_its_memory_keeps_no_region_closed() {
    let mut cluster = Cluster::new(4, 2);
    let mut map = cluster.map();
    let _lent = borrow_all(cluster.nodes[3].1);
    cluster.kill_node(0);
    // Copies go to the node that has room. When that is full, none has, and all regions are open.
    let has_room = |status: &Status| {
        let mut nodes = status.nodes.iter().filter(|node| node.alive && node.node == 3);
        nodes.any(|node| {
            let held = (node.primary_of + node.backup_of) as u64 * u64::from(status.region_bytes);
            node.memory - held >= u64::from(status.region_bytes)
        })
    };
    let mended = cluster.wait(|status| status.closed == 0 && !has_room(status));
    assert!(mended.under_replicated > 0);
    for round in 0..30_u64 {
        std::thread::sleep(Duration::from_millis(100));
        map.put(b"key", &round.to_le_bytes()).unwrap();
        let status = cluster.status();
        assert_eq!(
            (status.closed, status.under_replicated),
            (0, mended.under_replicated)
        );
    }
    assert!(cluster.status().era > mended.era, "no era has ended");
}
