//! A cluster of processes of this program.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use cenote_cluster::says::{Ask, Status, Told};
use cenote_cluster::session::Line;
use cenote_cluster::{Credentials, Map, Options, master, node};

pub const TOKEN: &str = "a token";
const MEMORY: u64 = 128 << 20;
/// A wait that nothing should take.
pub const LONG: Duration = Duration::from_secs(20);

/// A process, which ends with its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn signal(&self, signal: i32) {
        // SAFETY: a child of ours that was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }
}

/// This program again, in a role.
pub fn spawn(role: &str, set: &[(&str, String)]) -> (Running, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cluster::role", "--nocapture"])
        .env("CENOTE_CLUSTER_ROLE", role)
        .envs(set.iter().cloned())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (Running(child), output)
}

/// A process that says where it listens.
pub fn listening(role: &str, set: &[(&str, String)]) -> (Running, SocketAddr) {
    let (child, output) = spawn(role, set);
    let address = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening ").map(|at| at.parse().unwrap()))
        .expect("it did not say where it listens");
    (child, address)
}

/// A memory node.
pub fn node() -> (Running, SocketAddr) {
    listening("node", &[])
}

/// What this process shows: a certificate too, if it is told where.
pub fn credentials() -> Credentials {
    #[cfg(feature = "tls")]
    if let Ok(folder) = std::env::var("CENOTE_CLUSTER_TLS") {
        return super::encrypted::credentials(folder.as_ref());
    }
    TOKEN.into()
}

/// What the processes of this program do that [`start`] began.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_CLUSTER_ROLE") else {
        return;
    };
    let set = |name: &str| std::env::var(name).unwrap();
    let listen = || {
        let at = std::env::var("CENOTE_CLUSTER_AT").unwrap_or("127.0.0.1:0".to_owned());
        let listener = TcpListener::bind(at).unwrap();
        println!("\nlistening {}", listener.local_addr().unwrap());
        listener
    };
    match role.as_str() {
        "node" => {
            let options = node::Options {
                memory: MEMORY,
                credentials: credentials(),
            };
            node::run(options, listen()).unwrap();
        }
        "master" => {
            let mut options = master::Options::new(credentials());
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
            let store: master::store::Place = set("CENOTE_CLUSTER_STORE").parse().unwrap();
            master::run(store, options, listen()).unwrap();
        }
        "client" => super::clients::work(
            set("CENOTE_CLUSTER_MASTER").parse().unwrap(),
            set("CENOTE_CLUSTER_SEED").parse().unwrap(),
        ),
        other => panic!("no role {other:?}"),
    }
}

/// A cluster, which ends with its test.
pub struct Cluster {
    pub nodes: Vec<(Running, SocketAddr)>,
    pub master: Running,
    pub at: SocketAddr,
    replicas: usize,
    folder: tempfile::TempDir,
}

impl Cluster {
    pub fn new(nodes: usize, replicas: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let nodes: Vec<(Running, SocketAddr)> = (0..nodes).map(|_| node()).collect();
        let addresses: Vec<SocketAddr> = nodes.iter().map(|(_, at)| *at).collect();
        let (master, at) = Self::master(folder.path(), &addresses, replicas, "127.0.0.1:0");
        let cluster = Self {
            nodes,
            master,
            at,
            replicas,
            folder,
        };
        // It is made once it answers.
        cluster.status();
        cluster
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
        listening("master", &set)
    }

    /// Kills the master, and starts another one.
    pub fn restart_master(&mut self) {
        self.master.signal(libc::SIGKILL);
        self.master.0.wait().unwrap();
        let (master, _) = Self::master(self.folder.path(), &[], self.replicas, &self.at.to_string());
        self.master = master;
    }

    pub fn options(&self) -> Options {
        Options::new(self.at, TOKEN)
    }

    pub fn map(&self) -> Map {
        let begun = Instant::now();
        loop {
            match Map::open(&self.options()) {
                Ok(map) => return map,
                Err(error) if begun.elapsed() > LONG => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    pub fn ask(&self, ask: &Ask) -> Told {
        let begun = Instant::now();
        loop {
            match Line::open(self.at, TOKEN).and_then(|mut line| line.ask(ask)) {
                Ok(told) => return told,
                Err(error) if begun.elapsed() > LONG => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Another node in the place of one.
    pub fn replace_node(&mut self, place: usize) {
        self.nodes[place] = node();
        let address = self.nodes[place].1;
        assert_eq!(self.ask(&Ask::AddNode { address }), Told::Done);
    }

    pub fn status(&self) -> Status {
        match self.ask(&Ask::Status) {
            Told::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the cluster is as it should be.
    pub fn wait(&self, is_so: impl Fn(&Status) -> bool) -> Status {
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

    pub fn is_whole(status: &Status) -> bool {
        status.closed == 0 && status.short == 0
    }
}
