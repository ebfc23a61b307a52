//! What clients see while nodes, clients and the master are killed and stopped is linearizable.
//!
//! `CENOTE_TEST_SEED` repeats what was drawn; `CENOTE_TEST_SECONDS` is how long the clients work.

use std::fmt::Display;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cenote_check::history::{Event, History};
use cenote_check::linear::{Options, check_parts};
use cenote_check::spec::map::{Map, Op, Ret};
use cenote_cluster::Transport;
use cenote_cluster::control::{Request, Response, Status};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::clients::calls;
use super::cluster::{Cluster, Place, Running, spawn, transport};

/// A client, and what reads its calls.
pub struct Client {
    pub process: Running,
    calls: JoinHandle<Vec<Event<Op, Ret>>>,
}

impl Client {
    /// Starts one of a role at a place.
    pub fn start(place: &Place, role: &str, masters: &dyn Display, seed: u64) -> Self {
        let set = [
            ("CENOTE_CLUSTER_MASTER", masters.to_string()),
            ("CENOTE_CLUSTER_SEED", seed.to_string()),
        ];
        let (process, output) = spawn(place, role, &set);
        Self {
            process,
            calls: std::thread::spawn(move || calls(output)),
        }
    }

    /// Kills it, and returns its calls.
    pub fn end(self) -> Vec<Event<Op, Ret>> {
        drop(self.process);
        self.calls.join().unwrap()
    }
}

/// A number that the environment may set.
pub fn set<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number")),
        Err(_) => default,
    }
}

/// Stops a process for a while.
pub fn stop(process: &Running, random: &mut SmallRng, longest: u64) {
    let stopped = Duration::from_millis(random.random_range(20..longest));
    process.signal(libc::SIGSTOP);
    std::thread::sleep(stopped);
    process.signal(libc::SIGCONT);
}

/// Whether a node is there, as far as the master knows.
fn lives(status: &Status, at: SocketAddr) -> bool {
    status.nodes.iter().any(|node| node.address == at && node.alive)
}

/// Puts other nodes in the place of those that have been given up.
fn replace_lost(cluster: &mut Cluster) {
    let status = cluster
        .wait(|status| status.closed == 0 && status.nodes.iter().all(|node| node.answers || !node.alive));
    for place in 0..cluster.nodes.len() {
        if !lives(&status, cluster.nodes[place].1) {
            cluster.replace_node(place);
        }
    }
    cluster.wait(Cluster::is_whole);
}

/// Something befalls the cluster.
fn strike(cluster: &mut Cluster, clients: &mut [Client], random: &mut SmallRng) -> Vec<Event<Op, Ret>> {
    let (victim, client) = (random.random_range(0..3), random.random_range(0..clients.len()));
    match random.random_range(0..9) {
        0 | 1 => {
            // A node dies, and another one comes.
            let at = cluster.nodes[victim].1;
            cluster.nodes[victim].0.signal(libc::SIGKILL);
            cluster.replace_node(victim);
            // Until it is given up, nothing is missing.
            cluster.wait(|status| !lives(status, at) && Cluster::is_whole(status));
        }
        2 | 3 => {
            // For less or longer than its lease.
            stop(&cluster.nodes[victim].0, random, 2000);
            replace_lost(cluster);
        }
        4 => {
            let seed = random.random();
            let new = Client::start(cluster.place(), "client", &cluster.at, seed);
            return std::mem::replace(&mut clients[client], new).end();
        }
        5 => {
            // In the middle of a batch on memory that it maps, this costs a node.
            stop(&clients[client].process, random, 4500);
            replace_lost(cluster);
        }
        6 => stop(&cluster.master, random, 600),
        7 => {
            // A node is emptied, and another one comes in its place.
            let at = cluster.nodes[victim].1;
            let node = cluster
                .status()
                .nodes
                .iter()
                .find(|node| node.address == at)
                .map(|node| node.node);
            cluster.nodes.push(cluster.node());
            let address = cluster.nodes[3].1;
            assert_eq!(cluster.ask(&Request::AddNode { address }), Response::Done);
            if let Some(node) = node {
                assert_eq!(cluster.ask(&Request::Drain { node }), Response::Done);
            }
            cluster.wait(|status| {
                Cluster::is_whole(status) && status.nodes.iter().all(|node| node.address != at)
            });
            drop(cluster.nodes.swap_remove(victim));
        }
        _ => cluster.restart_master(),
    }
    Vec::new()
}

#[test]
fn histories_are_linearizable_under_kills_and_stops() {
    check(false);
}

#[test]
fn histories_are_linearizable_on_memory_that_clients_map() {
    if transport() == Transport::Tcp {
        check(true);
    }
}

fn check(is_mapped: bool) {
    let seed = set("CENOTE_TEST_SEED", u64::from(std::process::id()));
    let time = Duration::from_secs(set("CENOTE_TEST_SECONDS", 10));
    println!("CENOTE_TEST_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cluster = match is_mapped {
        true => Cluster::mapped(3, 2),
        false => Cluster::new(3, 2),
    };
    let mut clients: Vec<Client> = (0..4)
        .map(|_| Client::start(cluster.place(), "client", &cluster.at, random.random()))
        .collect();
    let mut events = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::thread::sleep(Duration::from_millis(random.random_range(100..900)));
        events.extend(strike(&mut cluster, &mut clients, &mut random));
    }
    std::thread::sleep(Duration::from_millis(500));
    events.extend(clients.into_iter().flat_map(Client::end));
    judge(&cluster, events);
}

/// Checks what clients saw that are dead by now.
pub fn judge(cluster: &Cluster, events: Vec<Event<Op, Ret>>) {
    // The dead clients' sessions end, and what they had begun is decided.
    let status = cluster.wait(|status| status.sessions.is_empty());
    let map = cluster.map();
    for key in super::clients::BULK..2 * super::clients::BULK {
        let bytes = key.to_le_bytes();
        assert!(
            map.get(&bytes).unwrap().is_none_or(|value| value == bytes),
            "key {key}"
        );
    }
    map.close();
    let done = events.iter().filter(|event| event.returned.is_some()).count();
    println!("{done} calls of {}, {} closings", events.len(), status.closings);
    let verdict = check_parts(&Map, &History::new(events).unwrap(), &Options::default());
    assert!(verdict.is_linearizable(), "{verdict:?}");
    assert!(done > 100, "{done}");
}
