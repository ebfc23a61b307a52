//! Clusters of real processes: memory nodes, a master and clients, which are killed and stopped. What the clients saw is linearizable.
//!
//! `CENOTE_TEST_SEED` repeats what was drawn; `CENOTE_TEST_SECONDS` is how long the clients work.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cenote_cluster::says::{Ask, Status, Told};
use cenote_cluster::session::Line;
use cenote_cluster::{Error, Map, Options, master, node};
use cenote_sim::check::linear::{Options as CheckOptions, check_parts};
use cenote_sim::check::spec::map::{Map as Spec, Op, Ret};
use cenote_sim::history::{Event, History};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const TOKEN: &str = "a token";
const MEMORY: u64 = 128 << 20;
/// A wait that nothing should take.
const LONG: Duration = Duration::from_secs(20);

/// A process, which ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn signal(&self, signal: i32) {
        // SAFETY: a child of ours that was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }
}

/// This program again, in a role; it says where it listens.
fn start(role: &str, set: &[(&str, String)]) -> (Running, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env("CENOTE_CLUSTER_ROLE", role)
        .envs(set.iter().cloned())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let child = Running(child);
    let address = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening ").map(|at| at.parse().unwrap()))
        .expect("it did not say where it listens");
    (child, address)
}

/// What the processes of this program do that [`start`] began.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_CLUSTER_ROLE") else {
        return;
    };
    let set = |name: &str| std::env::var(name).unwrap();
    let listener = TcpListener::bind(std::env::var("CENOTE_CLUSTER_AT").unwrap_or("127.0.0.1:0".to_owned())).unwrap();
    println!("\nlistening {}", listener.local_addr().unwrap());
    match role.as_str() {
        "node" => {
            let options = node::Options {
                memory: MEMORY,
                token: TOKEN.to_owned(),
            };
            node::run(options, listener).unwrap();
        }
        "master" => {
            let mut options = master::Options::new(TOKEN);
            options.nodes = set("CENOTE_CLUSTER_NODES")
                .split_whitespace()
                .map(|at| at.parse().unwrap())
                .collect();
            options.shape.replicas = set("CENOTE_CLUSTER_REPLICAS").parse().unwrap();
            options.shape.region_bytes = 4 << 20;
            options.shape.block = 64 << 10;
            // Small, so that segments are split.
            options.shape.groups = 4;
            options.shape.depth = 4;
            master::run(Path::new(&set("CENOTE_CLUSTER_STORE")), options, listener).unwrap();
        }
        other => panic!("no role {other:?}"),
    }
}

/// A cluster, which ends with its test.
struct Cluster {
    nodes: Vec<(Running, SocketAddr)>,
    master: Running,
    at: SocketAddr,
    replicas: usize,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new(nodes: usize, replicas: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let nodes: Vec<(Running, SocketAddr)> = (0..nodes).map(|_| start("node", &[])).collect();
        let addresses: Vec<SocketAddr> = nodes.iter().map(|(_, at)| *at).collect();
        let (master, at) = Self::master(folder.path(), &addresses, replicas, "127.0.0.1:0");
        Self {
            nodes,
            master,
            at,
            replicas,
            folder,
        }
    }

    fn master(folder: &Path, nodes: &[SocketAddr], replicas: usize, at: &str) -> (Running, SocketAddr) {
        let store: PathBuf = folder.join("store");
        let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
        let set = [
            ("CENOTE_CLUSTER_STORE", store.display().to_string()),
            ("CENOTE_CLUSTER_NODES", nodes.join(" ")),
            ("CENOTE_CLUSTER_REPLICAS", replicas.to_string()),
            ("CENOTE_CLUSTER_AT", at.to_owned()),
        ];
        start("master", &set)
    }

    /// Kills the master, and starts another one.
    fn restart_master(&mut self) {
        self.master.signal(libc::SIGKILL);
        self.master.0.wait().unwrap();
        let (master, _) = Self::master(self.folder.path(), &[], self.replicas, &self.at.to_string());
        self.master = master;
    }

    fn options(&self) -> Options {
        Options::new(self.at, TOKEN)
    }

    fn map(&self) -> Map {
        let begun = Instant::now();
        loop {
            match Map::open(&self.options()) {
                Ok(map) => return map,
                Err(error) if begun.elapsed() > LONG => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn ask(&self, ask: &Ask) -> Told {
        let begun = Instant::now();
        loop {
            match Line::open(self.at, TOKEN).and_then(|mut line| line.ask(ask)) {
                Ok(told) => return told,
                Err(error) if begun.elapsed() > LONG => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn status(&self) -> Status {
        match self.ask(&Ask::Status) {
            Told::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the cluster is as it should be.
    fn wait(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(begun.elapsed() < LONG, "{status:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_whole(status: &Status) -> bool {
        status.closed == 0 && status.short == 0
    }
}

fn key(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

#[test]
fn what_is_put_is_found_by_others() {
    for (nodes, replicas) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
        let cluster = Cluster::new(nodes, replicas);
        let (mut one, mut other) = (cluster.map(), cluster.map());
        for n in 0..600 {
            one.put(&key(n), &n.to_le_bytes().repeat(1 + n as usize % 50)).unwrap();
        }
        for n in 0..600 {
            let found = other.get(&key(n)).unwrap().unwrap();
            assert_eq!(found, n.to_le_bytes().repeat(1 + n as usize % 50));
        }
        assert!(!other.insert(&key(5), b"x").unwrap());
        assert!(other.remove(&key(5)).unwrap() && !one.remove(&key(5)).unwrap());
        assert!(!one.update(&key(5), b"x").unwrap() && one.insert(&key(5), b"y").unwrap());
        assert!(other.update(&key(5), b"z").unwrap());
        assert_eq!(one.get(&key(5)).unwrap().unwrap(), b"z");
        assert_eq!(one.get(b"").unwrap(), None);
        one.put(b"", b"").unwrap();
        assert_eq!(other.get(b"").unwrap().unwrap(), b"");
        let long = vec![7; 1 << 20];
        assert!(matches!(one.put(b"long", &long), Err(Error::Map(_))));
        one.close();
        other.close();
        let status = cluster.wait(|status| status.sessions.is_empty());
        assert!(Cluster::is_whole(&status));
    }
}

#[test]
fn a_node_that_is_killed_loses_nothing_and_is_replaced() {
    let mut cluster = Cluster::new(3, 2);
    let mut map = cluster.map();
    for n in 0..300 {
        map.put(&key(n), &key(n)).unwrap();
    }
    for victim in [0, 1] {
        cluster.nodes[victim].0.signal(libc::SIGKILL);
        for n in 0..300 {
            assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n), "key {n}");
        }
        map.put(&key(1000), b"while it is away").unwrap();
        let (node, at) = start("node", &[]);
        cluster.nodes.push((node, at));
        assert_eq!(cluster.ask(&Ask::AddNode { address: at }), Told::Done);
        cluster.wait(|status| Cluster::is_whole(status) && status.nodes.len() == 3);
    }
    for n in 0..300 {
        assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n));
    }
}

#[test]
fn a_node_is_drained() {
    let cluster = Cluster::new(3, 2);
    let mut map = cluster.map();
    for n in 0..300 {
        map.put(&key(n), &key(n)).unwrap();
    }
    assert_eq!(cluster.ask(&Ask::Drain { node: 1 }), Told::Done);
    cluster.wait(|status| status.nodes.len() == 2 && Cluster::is_whole(status));
    cluster.nodes[0].0.signal(libc::SIGKILL);
    for n in 0..300 {
        assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n));
    }
    assert!(matches!(cluster.ask(&Ask::Drain { node: 1 }), Told::Refused(_)));
}

#[test]
fn a_master_that_is_killed_is_followed_by_another() {
    let mut cluster = Cluster::new(3, 2);
    let mut map = cluster.map();
    for n in 0..100 {
        map.put(&key(n), &key(n)).unwrap();
    }
    cluster.restart_master();
    for n in 0..100 {
        assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n));
        map.put(&key(n), b"later").unwrap();
    }
    assert_eq!(map.session(), 1);
    assert!(!map.has_ended());
}

#[test]
fn strangers_get_nothing() {
    let cluster = Cluster::new(1, 1);
    let wrong = Options::new(cluster.at, "another token");
    assert!(matches!(Map::open(&wrong), Err(Error::Master { .. })));
    let none: SocketAddr = "127.0.0.1:1".parse().unwrap();
    assert!(matches!(Map::open(&Options::new(none, TOKEN)), Err(Error::Master { .. })));
}

/// A client that works, and says what it did.
struct Worker<'c> {
    cluster: SocketAddr,
    clock: &'c AtomicU64,
    stop: &'c AtomicBool,
    number: u32,
    random: SmallRng,
}

/// A key has this many values in flight at most.
const KEYS: u64 = 12;

impl Worker<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn work(mut self) -> Vec<Event<Op, Ret>> {
        let mut events = Vec::new();
        let mut map: Option<Map> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(open) = map.as_mut().filter(|map| !map.has_ended()) else {
                // A session that has ended is another process, for the history: what it had begun may come about later.
                self.number += 100;
                map = Map::open(&Options::new(self.cluster, TOKEN)).ok();
                if map.is_none() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                continue;
            };
            let key = self.random.random_range(0..KEYS);
            let value = u64::from(self.number) << 32 | u64::from(self.random.random::<u32>());
            let op = match self.random.random_range(0..10) {
                0..4 => Op::Get { key },
                4..7 => Op::Write { key, value },
                7..9 => Op::Insert { key, value },
                _ => Op::Remove { key },
            };
            let invoke = self.tick();
            let bytes = key.to_le_bytes();
            let long = [value.to_le_bytes().to_vec(), vec![7; value as usize % 400]].concat();
            let outcome = match op {
                Op::Get { .. } => open.get(&bytes).map(|found| match found {
                    Some(value) => Ret::Found(u64::from_le_bytes(value[..8].try_into().unwrap())),
                    None => Ret::Missing,
                }),
                Op::Write { .. } => open.put(&bytes, &long).map(|()| Ret::Done),
                Op::Insert { .. } => open.insert(&bytes, &long).map(|is_new| match is_new {
                    true => Ret::Inserted,
                    false => Ret::Present,
                }),
                _ => open.remove(&bytes).map(|was| match was {
                    true => Ret::Removed,
                    false => Ret::Missing,
                }),
            };
            let is_known = outcome.is_ok();
            if let Err(error) = &outcome {
                let is_usual = matches!(error, Error::Map(cenote_replica::client::Error::Ended(_)));
                assert!(is_usual, "{error}");
                map = None;
            }
            let returned = is_known.then(|| self.tick());
            events.push(Event {
                process: self.number,
                op,
                result: outcome.ok(),
                invoke,
                returned,
                lost: None,
            });
        }
        events
    }
}

fn check(events: Vec<Event<Op, Ret>>) -> usize {
    let done = events.iter().filter(|event| event.returned.is_some()).count();
    let history = History::new(events).unwrap();
    let verdict = check_parts(&Spec, &history, &CheckOptions::default());
    assert!(verdict.is_linearizable(), "{verdict:?}");
    done
}

fn set<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number")),
        Err(_) => default,
    }
}

#[test]
fn histories_are_linearizable_whoever_is_killed_or_stopped() {
    let seed = set("CENOTE_TEST_SEED", u64::from(std::process::id()));
    let time = Duration::from_secs(set("CENOTE_TEST_SECONDS", 8));
    println!("CENOTE_TEST_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cluster = Cluster::new(3, 2);
    let (clock, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let events = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=4)
            .map(|number| {
                let worker = Worker {
                    cluster: cluster.at,
                    clock: &clock,
                    stop: &stop,
                    number,
                    random: SmallRng::seed_from_u64(seed ^ u64::from(number) << 40),
                };
                scope.spawn(move || worker.work())
            })
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::thread::sleep(Duration::from_millis(random.random_range(100..900)));
            match random.random_range(0..6) {
                0 | 1 => {
                    // A node dies, and another one comes.
                    let victim = random.random_range(0..3);
                    cluster.nodes[victim].0.signal(libc::SIGKILL);
                    let (node, at) = start("node", &[]);
                    cluster.nodes[victim] = (node, at);
                    assert_eq!(cluster.ask(&Ask::AddNode { address: at }), Told::Done);
                    cluster.wait(Cluster::is_whole);
                }
                2 | 3 => {
                    // A node is stopped, for less or longer than its lease.
                    let victim = random.random_range(0..3);
                    let stopped = Duration::from_millis(random.random_range(50..900));
                    cluster.nodes[victim].0.signal(libc::SIGSTOP);
                    std::thread::sleep(stopped);
                    cluster.nodes[victim].0.signal(libc::SIGCONT);
                    let status = cluster.wait(|status| status.closed == 0);
                    let at = cluster.nodes[victim].1;
                    if !status.nodes.iter().any(|node| node.address == at && node.alive) {
                        // It was given up.
                        let (node, at) = start("node", &[]);
                        cluster.nodes[victim] = (node, at);
                        assert_eq!(cluster.ask(&Ask::AddNode { address: at }), Told::Done);
                    }
                    cluster.wait(Cluster::is_whole);
                }
                4 => {
                    let stopped = Duration::from_millis(random.random_range(50..600));
                    cluster.master.signal(libc::SIGSTOP);
                    std::thread::sleep(stopped);
                    cluster.master.signal(libc::SIGCONT);
                }
                _ => cluster.restart_master(),
            }
        }
        stop.store(true, Ordering::Relaxed);
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect::<Vec<_>>()
    });
    let done = check(events);
    println!("{done} calls, {} closings", cluster.status().closings);
    assert!(done > 100, "{done}");
}
