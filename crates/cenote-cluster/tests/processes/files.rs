//! Nodes whose memory is in files are killed and come back, or come back too late.
//!
//! `CENOTE_TEST_SEED` repeats what was drawn; `CENOTE_TEST_SECONDS` is how long the clients work.

use std::time::{Duration, Instant};

use cenote_check::history::Event;
use cenote_check::spec::map::{Op, Ret};
use cenote_cluster::Transport;
use cenote_cluster::control::{Request, Response};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::cluster::{Cluster, Place, transport};
use super::histories::{Client, judge, set};

fn key(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

#[test]
fn all_nodes_and_the_master_come_back_with_what_they_had() {
    if transport() != Transport::Tcp {
        return;
    }
    // Longer than any restart takes.
    let mut cluster = Cluster::with_files(3, Duration::from_secs(60));
    let mut map = cluster.map();
    for n in 0..200 {
        map.put(&key(n), &key(n).repeat(40)).unwrap();
    }
    let numbers = |cluster: &Cluster| -> Vec<u32> {
        let nodes = cluster.status().nodes;
        nodes
            .iter()
            .filter(|node| node.alive)
            .map(|node| node.node)
            .collect()
    };
    let before = numbers(&cluster);
    for round in 0..3 {
        (0..3).for_each(|place| cluster.kill_node(place));
        if round > 0 {
            cluster.restart_master();
        }
        (0..3).rev().for_each(|place| cluster.restart_node(place));
        for n in 0..200 {
            let found = map.get(&key(n)).unwrap();
            assert_eq!(found.unwrap(), key(n).repeat(40), "key {n}, round {round}");
        }
        map.put(&key(1000 + round), &key(round)).unwrap();
    }
    for round in 0..3 {
        assert_eq!(map.get(&key(1000 + round)).unwrap().unwrap(), key(round));
    }
    assert_eq!(numbers(&cluster), before, "a node was given up");
}

/// A node is killed and given up, and comes back with what it had when others have gone on without it. Returns whether
/// it had anything.
fn come_back_too_late(cluster: &mut Cluster, place: usize) -> bool {
    let address = cluster.nodes[place].1;
    let status = cluster.status();
    let had = status
        .nodes
        .iter()
        .any(|node| node.address == address && node.primary_of + node.backup_of > 0);
    cluster.kill_node(place);
    cluster.wait(|status| {
        status.closed == 0
            && !status
                .nodes
                .iter()
                .any(|node| node.address == address && node.alive)
    });
    cluster.restart_node(place);
    assert!(!cluster.is_alive(place));
    // What it has is old. If it has nothing, it is as good as a new one.
    let told = cluster.ask(&Request::AddNode { address });
    assert_eq!(matches!(told, Response::Refused(_)), had, "{told:?}");
    had
}

#[test]
fn a_node_that_comes_back_too_late_is_refused() {
    if transport() != Transport::Tcp {
        return;
    }
    let mut cluster = Cluster::with_files(3, Duration::from_secs(1));
    let mut map = cluster.map();
    map.put(b"key", b"old").unwrap();
    for place in 0..3 {
        assert!(come_back_too_late(&mut cluster, place));
        let value = key(place as u64);
        map.put(b"key", &value).unwrap();
        assert_eq!(map.get(b"key").unwrap().unwrap(), value);
        cluster.repair();
        assert_eq!(map.get(b"key").unwrap().unwrap(), value);
    }
}

fn strike(cluster: &mut Cluster, clients: &mut [Client], random: &mut SmallRng) -> Vec<Event<Op, Ret>> {
    let (victim, client) = (random.random_range(0..3), random.random_range(0..clients.len()));
    let pause = |random: &mut SmallRng, longest: u64| {
        std::thread::sleep(Duration::from_millis(random.random_range(0..longest)));
    };
    match random.random_range(0..8) {
        0..=2 => {
            // For less or longer than its lease.
            cluster.kill_node(victim);
            pause(random, 1500);
            cluster.restart_node(victim);
        }
        3 => {
            come_back_too_late(cluster, victim);
        }
        4 | 5 => {
            let mut places = [0, 1, 2];
            places.shuffle(random);
            places.iter().for_each(|place| cluster.kill_node(*place));
            pause(random, 1500);
            if random.random() {
                cluster.restart_master();
            }
            places.shuffle(random);
            for place in places {
                cluster.restart_node(place);
                pause(random, 300);
            }
        }
        6 => cluster.restart_master(),
        _ => {
            let new = Client::start(&Place::here(), "client", &cluster.at, random.random());
            return std::mem::replace(&mut clients[client], new).end();
        }
    }
    Vec::new()
}

#[test]
fn histories_are_linearizable_while_nodes_come_back() {
    if transport() != Transport::Tcp {
        return;
    }
    let seed = set("CENOTE_TEST_SEED", u64::from(std::process::id()));
    let time = Duration::from_secs(set("CENOTE_TEST_SECONDS", 5));
    println!("CENOTE_TEST_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cluster = Cluster::with_files(3, Duration::from_secs(1));
    let mut clients: Vec<Client> = (0..4)
        .map(|_| Client::start(&Place::here(), "client", &cluster.at, random.random()))
        .collect();
    let mut events = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::thread::sleep(Duration::from_millis(random.random_range(50..600)));
        events.extend(strike(&mut cluster, &mut clients, &mut random));
        cluster.repair();
    }
    std::thread::sleep(Duration::from_millis(500));
    events.extend(clients.into_iter().flat_map(Client::end));
    judge(&cluster, events);
}
