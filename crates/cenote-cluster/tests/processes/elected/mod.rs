//! Clusters with several masters, of which a real etcd elects one: Debian's package etcd-server.

mod fences;
mod histories;
mod refusals;
#[path = "../../../../cenote-cli/tests/etcd/server.rs"]
mod server;
mod started;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cenote_cluster::control::{Request, Response, Status};
use cenote_cluster::session::MasterConnection;
use cenote_cluster::{Map, Masters, Options};

use super::cluster::{LONG, Place, Running, TOKEN, listening, node};
use server::Etcd;

/// What the keys of these clusters begin with.
const PREFIX: &str = "tests/one";

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "not in {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A cluster with several masters, which ends with its test.
struct Elected {
    masters: Vec<(Running, SocketAddr)>,
    nodes: Vec<(Running, SocketAddr)>,
    etcd: Etcd,
}

impl Elected {
    fn new(masters: usize) -> Self {
        let mut cluster = Self {
            masters: Vec::new(),
            nodes: (0..3).map(|_| node()).collect(),
            etcd: Etcd::start(),
        };
        let nodes: Vec<SocketAddr> = cluster.nodes.iter().map(|(_, at)| *at).collect();
        cluster.masters.push(cluster.master(&nodes));
        cluster.status();
        while cluster.masters.len() < masters {
            cluster.masters.push(cluster.master(&[]));
        }
        cluster
    }

    fn store(&self) -> String {
        format!("etcd://{}/{PREFIX}", self.etcd.endpoint())
    }

    /// Another master.
    fn master(&self, nodes: &[SocketAddr]) -> (Running, SocketAddr) {
        self.master_at("127.0.0.1:0", nodes)
    }

    /// Another master, at an address.
    fn master_at(&self, at: &str, nodes: &[SocketAddr]) -> (Running, SocketAddr) {
        let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
        let set = [
            ("CENOTE_CLUSTER_STORE", self.store()),
            ("CENOTE_CLUSTER_NODES", nodes.join(" ")),
            ("CENOTE_CLUSTER_REPLICAS", "2".to_owned()),
            ("CENOTE_CLUSTER_AT", at.to_owned()),
            ("CENOTE_CLUSTER_LEASE_MS", "1000".to_owned()),
        ];
        listening(&Place::here(), "master", &set)
    }

    fn all(&self) -> Masters {
        let all: Vec<String> = self.masters.iter().map(|(_, at)| at.to_string()).collect();
        all.join(",").parse().unwrap()
    }

    fn ask(&self, request: &Request) -> Response {
        self.all().ask(TOKEN, request, LONG).unwrap()
    }

    fn status(&self) -> Status {
        match self.ask(&Request::Status) {
            Response::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

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

    /// Which master leads, of those that answer.
    fn leader(&self) -> usize {
        let mut leader = None;
        until("a master leads", || {
            leader = (0..self.masters.len()).find(|n| matches!(self.told(*n), Some(Response::Status(_))));
            leader.is_some()
        });
        leader.unwrap()
    }

    /// What a master says of the cluster, if it says anything soon.
    fn told(&self, n: usize) -> Option<Response> {
        let mut master = MasterConnection::open(self.masters[n].1, TOKEN).ok()?;
        master.set_timeout(Duration::from_millis(200)).ok()?;
        master.ask(&Request::Status).ok()
    }

    fn map(&self) -> Map {
        Map::open(&Options::new(self.all(), TOKEN)).unwrap()
    }
}
