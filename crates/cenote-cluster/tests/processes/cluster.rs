//! A cluster of processes of this program.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cenote_cluster::control::{Request, Response, Status};
use cenote_cluster::memory_file::MemoryFile;
use cenote_cluster::session::MasterConnection;
use cenote_cluster::{Credentials, Map, Options, Transport, master, node};

pub const TOKEN: &str = "a token";
const MEMORY: u64 = 128 << 20;
/// A wait that nothing should take.
pub const LONG: Duration = Duration::from_secs(20);

/// How verbs go: by TCP, or by libfabric with `CENOTE_TEST_TRANSPORT=ofi`.
pub fn transport() -> Transport {
    match std::env::var("CENOTE_TEST_TRANSPORT").as_deref() {
        Ok("ofi") => Transport::Ofi,
        Ok(other) => panic!("no transport {other:?}"),
        Err(_) => Transport::Tcp,
    }
}

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
    /// The folder in which nodes have their memory, if clients map it.
    pub mapped: Option<PathBuf>,
}

impl Place {
    /// This machine, for processes that reach each other whatever happens.
    pub fn here() -> Self {
        Self {
            enter: Vec::new(),
            address: Ipv4Addr::LOCALHOST.into(),
            mapped: None,
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
        .envs(
            place
                .mapped
                .iter()
                .map(|folder| ("CENOTE_CLUSTER_MAPPED", folder)),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (Running(child), output)
}

/// A process that says where it listens.
pub fn listening(place: &Place, role: &str, set: &[(&str, String)]) -> (Running, SocketAddr) {
    let (child, output) = spawn(place, role, set);
    let address = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening ").map(|at| at.parse().unwrap()))
        .expect("it did not say where it listens");
    (child, address)
}

/// A memory node on this machine.
#[cfg(any(feature = "etcd", feature = "tls"))]
pub fn node() -> (Running, SocketAddr) {
    node_at(&Place::here())
}

/// A memory node at a place.
pub fn node_at(place: &Place) -> (Running, SocketAddr) {
    listening(place, "node", &[("CENOTE_CLUSTER_AT", place.any_port())])
}

/// A memory node whose memory is in a file.
fn node_of_file(at: &str, file: &Path) -> (Running, SocketAddr) {
    let set = [
        ("CENOTE_CLUSTER_AT", at.to_owned()),
        ("CENOTE_CLUSTER_POOL", file.display().to_string()),
    ];
    listening(&Place::here(), "node", &set)
}

/// What this process shows: a certificate too, if it is told where.
pub fn credentials() -> Credentials {
    #[cfg(feature = "tls")]
    if let Ok(folder) = std::env::var("CENOTE_CLUSTER_TLS") {
        return super::encrypted::credentials(folder.as_ref());
    }
    TOKEN.into()
}

/// The folder in which nodes of this role have their memory.
pub fn mapped() -> Option<PathBuf> {
    std::env::var_os("CENOTE_CLUSTER_MAPPED").map(PathBuf::from)
}

/// What the processes of this program do that [`start`] began.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_CLUSTER_ROLE") else {
        return;
    };
    let set = |name: &str| std::env::var(name).unwrap();
    let listen = || {
        let begun = Instant::now();
        let listener = loop {
            match TcpListener::bind(set("CENOTE_CLUSTER_AT")) {
                Ok(listener) => break listener,
                // Another test's connection may have the port for a moment.
                Err(error) if begun.elapsed() > LONG => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        println!("\nlistening {}", listener.local_addr().unwrap());
        listener
    };
    match role.as_str() {
        "node" => {
            let pool = std::env::var("CENOTE_CLUSTER_POOL").ok().map(|path| {
                let incarnation = node::Node::new_incarnation();
                Arc::new(MemoryFile::open(Path::new(&path), MEMORY / 4, incarnation).unwrap())
            });
            let memory = if pool.is_some() { MEMORY / 4 } else { MEMORY };
            let mut options = node::Options::new(memory, credentials());
            (options.transport, options.pool, options.mapped) = (transport(), pool, mapped());
            node::run(options, listen()).unwrap();
        }
        "master" => {
            let mut options = master::Options::new(credentials());
            options.transport = transport();
            options.nodes = set("CENOTE_CLUSTER_NODES")
                .split_whitespace()
                .map(|at| at.parse().unwrap())
                .collect();
            options.node_lease = Duration::from_millis(set("CENOTE_CLUSTER_LEASE_MS").parse().unwrap());
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
        "ordered" => super::ordered::work(
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
    /// The files of nodes whose memory is in files.
    files: Vec<PathBuf>,
    lease: Duration,
}

impl Cluster {
    pub fn new(nodes: usize, replicas: usize) -> Self {
        Self::at(Place::here(), vec![Place::here(); nodes], replicas)
    }

    /// One whose processes run at such places.
    pub fn at(capital: Place, places: Vec<Place>, replicas: usize) -> Self {
        let nodes = places.iter().map(node_at).collect();
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        Self::of(folder, nodes, capital, places, replicas, Duration::from_secs(1))
    }

    /// One whose nodes' memory the clients map.
    pub fn mapped(nodes: usize, replicas: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let place = Place {
            mapped: Some(folder.path().to_owned()),
            ..Place::here()
        };
        let places = vec![place; nodes];
        let begun = places.iter().map(node_at).collect();
        let lease = Duration::from_secs(1);
        Self::of(folder, begun, Place::here(), places, replicas, lease)
    }

    /// One with two copies whose nodes have their memory in themselves, and a lease.
    pub fn with_lease(nodes: usize, lease: Duration) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let places = vec![Place::here(); nodes];
        let begun = places.iter().map(node_at).collect();
        Self::of(folder, begun, Place::here(), places, 2, lease)
    }

    /// One with two copies whose nodes have their memory in files, and a lease.
    pub fn with_files(nodes: usize, lease: Duration) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = |number| folder.path().join(format!("memory {number}"));
        let files: Vec<PathBuf> = (0..nodes).map(file).collect();
        let begun = files.iter().map(|file| node_of_file("127.0.0.1:0", file));
        let (begun, places) = (begun.collect(), vec![Place::here(); nodes]);
        let cluster = Self::of(folder, begun, Place::here(), places, 2, lease);
        Self { files, ..cluster }
    }

    fn of(
        folder: tempfile::TempDir,
        nodes: Vec<(Running, SocketAddr)>,
        capital: Place,
        places: Vec<Place>,
        replicas: usize,
        lease: Duration,
    ) -> Self {
        let addresses: Vec<SocketAddr> = nodes.iter().map(|(_, at)| *at).collect();
        let any = capital.any_port();
        let (master, at) = Self::master(&capital, folder.path(), &addresses, replicas, lease, &any);
        let cluster = Self {
            nodes,
            master,
            at,
            replicas,
            folder,
            capital,
            places,
            files: Vec::new(),
            lease,
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
        lease: Duration,
        at: &str,
    ) -> (Running, SocketAddr) {
        let store: PathBuf = folder.join("store");
        let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
        let set = [
            ("CENOTE_CLUSTER_STORE", store.display().to_string()),
            ("CENOTE_CLUSTER_NODES", nodes.join(" ")),
            ("CENOTE_CLUSTER_REPLICAS", replicas.to_string()),
            ("CENOTE_CLUSTER_AT", at.to_owned()),
            ("CENOTE_CLUSTER_LEASE_MS", lease.as_millis().to_string()),
        ];
        listening(capital, "master", &set)
    }

    /// Kills the master, and starts another one.
    pub fn restart_master(&mut self) {
        self.master.signal(libc::SIGKILL);
        self.master.0.wait().unwrap();
        let at = self.at.to_string();
        let (master, _) = Self::master(
            &self.capital,
            self.folder.path(),
            &[],
            self.replicas,
            self.lease,
            &at,
        );
        self.master = master;
    }

    pub fn options(&self) -> Options {
        Options {
            mapped: self.place().mapped.clone(),
            ..Options::new(self.at, TOKEN)
        }
    }

    /// Where nodes run, or one of them.
    pub fn place(&self) -> &Place {
        &self.places[0]
    }

    /// A further node, which the master does not know.
    pub fn node(&self) -> (Running, SocketAddr) {
        node_at(self.place())
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

    pub fn ask(&self, request: &Request) -> Response {
        let begun = Instant::now();
        loop {
            match MasterConnection::open(self.at, TOKEN).and_then(|mut master| master.ask(request)) {
                Ok(response) => return response,
                Err(error) if begun.elapsed() > LONG => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Another node in the place of one.
    pub fn replace_node(&mut self, place: usize) {
        self.kill_node(place);
        self.nodes[place] = match self.files.get(place) {
            Some(file) => {
                std::fs::remove_file(file).unwrap();
                node_of_file("127.0.0.1:0", file)
            }
            None => node_at(&self.places[place]),
        };
        let address = self.nodes[place].1;
        assert_eq!(self.ask(&Request::AddNode { address }), Response::Done);
    }

    /// Kills a node, and returns when it is dead.
    pub fn kill_node(&mut self, place: usize) {
        let process = &mut self.nodes[place].0.0;
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts a node that was killed again, at its address and with its file.
    pub fn restart_node(&mut self, place: usize) {
        let at = self.nodes[place].1.to_string();
        self.nodes[place] = node_of_file(&at, &self.files[place]);
    }

    /// Starts a node that was killed again at its address, with memory that is new.
    pub fn begin_again(&mut self, place: usize) {
        let at = ("CENOTE_CLUSTER_AT", self.nodes[place].1.to_string());
        self.nodes[place] = listening(&self.places[place], "node", &[at]);
    }

    /// Adds a node that the master does not know any more.
    pub fn add_again(&self, place: usize) {
        let address = self.nodes[place].1;
        assert_eq!(self.ask(&Request::AddNode { address }), Response::Done);
    }

    /// Whether the master has not given a node up.
    pub fn is_alive(&self, place: usize) -> bool {
        let (at, status) = (self.nodes[place].1, self.status());
        status.nodes.iter().any(|node| node.address == at && node.alive)
    }

    /// Nodes that were given up are replaced.
    pub fn repair(&mut self) {
        self.wait(|status| status.closed == 0);
        for place in 0..self.nodes.len() {
            if !self.is_alive(place) {
                self.replace_node(place);
            }
        }
        self.wait(Self::is_whole);
    }

    pub fn status(&self) -> Status {
        match self.ask(&Request::Status) {
            Response::Status(status) => status,
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
        status.closed == 0 && status.under_replicated == 0
    }
}
