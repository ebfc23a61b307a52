//! A cluster of processes of this program.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use cenote_cluster::says::{Ask, Status, Told};
use cenote_cluster::session::Line;
use cenote_cluster::{Map, Options, master, node};

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

/// Where a process runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// What starts a program there, with its arguments.
    pub enter: Vec<String>,
    /// The address there.
    pub address: IpAddr,
}

impl Place {
    /// This machine, for processes that reach each other whatever happens.
    pub fn here() -> Self {
        Self {
            enter: Vec::new(),
            address: Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn any_port(&self) -> String {
        SocketAddr::new(self.address, 0).to_string()
    }
}

/// This program again, in a role, at a place.
pub fn spawn(place: &Place, role: &str, set: &[(&str, String)]) -> (Running, BufReader<ChildStdout>) {
    let program = std::env::current_exe().unwrap().display().to_string();
    let words: Vec<String> = place.enter.iter().cloned().chain([program]).collect();
    let mut child = Command::new(&words[0])
        .args(&words[1..])
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
fn listening(place: &Place, role: &str, set: &[(&str, String)]) -> (Running, SocketAddr) {
    let (child, output) = spawn(place, role, set);
    let address = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening ").map(|at| at.parse().unwrap()))
        .expect("it did not say where it listens");
    (child, address)
}

/// A memory node.
pub fn node() -> (Running, SocketAddr) {
    node_at(&Place::here())
}

/// A memory node at a place.
pub fn node_at(place: &Place) -> (Running, SocketAddr) {
    listening(place, "node", &[("CENOTE_CLUSTER_AT", place.any_port())])
}

/// What the processes of this program do that [`start`] began.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_CLUSTER_ROLE") else {
        return;
    };
    let set = |name: &str| std::env::var(name).unwrap();
    let listen = || {
        let listener = TcpListener::bind(set("CENOTE_CLUSTER_AT")).unwrap();
        println!("\nlistening {}", listener.local_addr().unwrap());
        listener
    };
    match role.as_str() {
        "node" => {
            let options = node::Options {
                memory: MEMORY,
                token: TOKEN.to_owned(),
            };
            node::run(options, listen()).unwrap();
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
            master::run(Path::new(&set("CENOTE_CLUSTER_STORE")), options, listen()).unwrap();
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
    /// Where the master runs.
    capital: Place,
    /// Where nodes run.
    places: Vec<Place>,
}

impl Cluster {
    pub fn new(nodes: usize, replicas: usize) -> Self {
        Self::at(Place::here(), vec![Place::here(); nodes], replicas)
    }

    /// One whose processes run at such places.
    pub fn at(capital: Place, places: Vec<Place>, replicas: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let nodes: Vec<(Running, SocketAddr)> = places.iter().map(node_at).collect();
        let addresses: Vec<SocketAddr> = nodes.iter().map(|(_, at)| *at).collect();
        let any = capital.any_port();
        let (master, at) = Self::master(&capital, folder.path(), &addresses, replicas, &any);
        let cluster = Self {
            nodes,
            master,
            at,
            replicas,
            folder,
            capital,
            places,
        };
        // It is made once it answers.
        cluster.status();
        cluster
    }

    fn master(
        capital: &Place,
        folder: &Path,
        nodes: &[SocketAddr],
        replicas: usize,
        at: &str,
    ) -> (Running, SocketAddr) {
        let store: PathBuf = folder.join("store");
        let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
        let set = [
            ("CENOTE_CLUSTER_STORE", store.display().to_string()),
            ("CENOTE_CLUSTER_NODES", nodes.join(" ")),
            ("CENOTE_CLUSTER_REPLICAS", replicas.to_string()),
            ("CENOTE_CLUSTER_AT", at.to_owned()),
        ];
        listening(capital, "master", &set)
    }

    /// Kills the master, and starts another one.
    pub fn restart_master(&mut self) {
        self.master.signal(libc::SIGKILL);
        self.master.0.wait().unwrap();
        let at = self.at.to_string();
        let (master, _) = Self::master(&self.capital, self.folder.path(), &[], self.replicas, &at);
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
        self.nodes[place] = node_at(&self.places[place]);
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
