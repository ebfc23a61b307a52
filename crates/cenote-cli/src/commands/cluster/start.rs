//! Clusters on this machine: memory nodes and a master as processes in the background, with a folder that says which
//! they are.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use cenote_cluster::control::{Request, Response};

use super::network::Network;
use super::place::{ClusterArg, Folder, Process, token_file};
use super::status;
use super::tls::{TlsArgs, make_identity};
use super::token::make_token;
use crate::failure::Failure;
use crate::output::Output;

/// How long a process may take until it says where it listens, and a master until it answers.
const BEGIN: Duration = Duration::from_secs(20);

/// Arguments of `start`.
#[derive(clap::Args)]
pub struct StartArgs {
    /// The folder: it must not exist. It should be in memory, such as /dev/shm/NAME
    folder: PathBuf,
    /// How many memory nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    nodes: u8,
    /// Keep so many copies of everything, on different nodes
    #[arg(long, value_name = "R", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    replicas: u8,
    /// Memory of each node, such as 1GiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = crate::commands::memnode::memory)]
    memory: u64,
    /// How verbs go to the memory nodes
    #[arg(long, value_name = "NETWORK", value_enum, default_value_t)]
    network: Network,
    /// Keep the nodes' memory in files of the folder, which clients of this machine map: they execute the verbs
    /// themselves, and no key or value goes over a network
    #[arg(long)]
    mapped: bool,
    /// Encrypt all connections, by a certificate that is made for this cluster and is in its folder
    #[arg(long)]
    tls: bool,
}

/// Processes that are ended unless all goes well.
pub struct Begun(Vec<Child>);

impl Begun {
    /// They go on without this process.
    pub fn go_on(mut self) {
        self.0.clear();
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts this program in the background, and returns where it listens.
fn start(begun: &mut Begun, folder: &Path, name: &str, arguments: &[String]) -> Result<Process, Failure> {
    let log = folder.join(format!("{name}.log"));
    let program = std::env::current_exe().map_err(Failure::io("this program"))?;
    let errors = File::create(&log).map_err(Failure::io(log.display()))?;
    let mut command = Command::new(program);
    command
        .arg("--json")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        // Ctrl-C in this terminal is not meant for it.
        .process_group(0);
    let mut child = command.spawn().map_err(Failure::io(name))?;
    let output = child.stdout.take();
    let pid = child.id();
    begun.0.push(child);
    let said = output
        .and_then(|output| BufReader::new(output).lines().next())
        .and_then(Result::ok);
    let address = said
        .and_then(|line| serde_json::from_str::<serde_json::Value>(&line).ok())
        .and_then(|said| said["listening"].as_str()?.parse::<SocketAddr>().ok());
    match address {
        Some(address) => Ok(Process::of(pid, address)),
        None => Err(Failure::failed(format!(
            "{name} did not begin: {}",
            fs::read_to_string(&log).unwrap_or_default().trim()
        ))),
    }
}

/// What all memory nodes of a folder have in common.
#[derive(Clone, Copy)]
struct Shape {
    memory: u64,
    network: Network,
    mapped: bool,
    tls: bool,
}

impl From<&Folder> for Shape {
    fn from(described: &Folder) -> Self {
        let Folder {
            memory,
            network,
            mapped,
            tls,
            ..
        } = *described;
        Self {
            memory,
            network,
            mapped,
            tls,
        }
    }
}

fn node(begun: &mut Begun, folder: &Path, number: usize, shape: Shape) -> Result<Process, Failure> {
    let mut arguments = [
        "memnode",
        "--listen",
        "127.0.0.1:0",
        "--memory",
        &shape.memory.to_string(),
        "--network",
        shape.network.argument(),
        "--token-file",
        &token_file(folder).display().to_string(),
    ]
    .map(str::to_owned)
    .to_vec();
    if shape.mapped {
        arguments.extend(["--mapped".to_owned(), folder.display().to_string()]);
    }
    if shape.tls {
        arguments.extend(TlsArgs::of_folder(folder).arguments());
    }
    start(begun, folder, &format!("node-{number}"), &arguments)
}

/// Starts a cluster.
pub fn run(args: &StartArgs, out: &Output) -> Result<ExitCode, Failure> {
    let folder = &args.folder;
    if args.nodes < args.replicas {
        return Err(Failure::misuse(format!(
            "{} nodes cannot hold {} copies: --nodes must be --replicas or more",
            args.nodes, args.replicas
        )));
    }
    args.network.transport()?;
    if args.mapped && args.network != Network::Tcp {
        return Err(Failure::misuse(
            "--mapped and --network ofi do not go together: what clients change in memory that they map is atomic for processors alone",
        ));
    }
    if args.tls && args.network != Network::Tcp {
        return Err(Failure::misuse(
            "--tls and --network ofi do not go together: libfabric sends keys and values as they are",
        ));
    }
    fs::create_dir(folder).map_err(Failure::io(folder.display()))?;
    let done = begin(args);
    if done.is_err() {
        // Nothing but what was made just now is in it.
        let _ = fs::remove_dir_all(folder);
    }
    done?;
    status::run(&ClusterArg::of_folder(folder), out)
}

/// Starts a cluster whose folder must not exist, of nodes with 256 MiB.
pub fn begin_in(folder: &Path, nodes: u8, replicas: u8) -> Result<(), Failure> {
    fs::create_dir(folder).map_err(Failure::io(folder.display()))?;
    begin(&StartArgs {
        folder: folder.to_owned(),
        nodes,
        replicas,
        memory: 256 << 20,
        network: Network::Tcp,
        mapped: false,
        tls: false,
    })
}

fn begin(args: &StartArgs) -> Result<(), Failure> {
    let folder = &args.folder;
    make_token(&token_file(folder))?;
    if args.tls {
        make_identity(folder)?;
    }
    let mut begun = Begun(Vec::new());
    let mut nodes = Vec::new();
    let shape = Shape {
        memory: args.memory,
        network: args.network,
        mapped: args.mapped,
        tls: args.tls,
    };
    for number in 1..=usize::from(args.nodes) {
        nodes.push(node(&mut begun, folder, number, shape)?);
    }
    let mut arguments = [
        "cluster",
        "master",
        "--listen",
        "127.0.0.1:0",
        "--store",
        &folder.join("store").display().to_string(),
        "--token-file",
        &token_file(folder).display().to_string(),
        "--replicas",
        &args.replicas.to_string(),
        "--network",
        args.network.argument(),
    ]
    .map(str::to_owned)
    .to_vec();
    for node in &nodes {
        arguments.extend(["--node".to_owned(), node.address.to_string()]);
    }
    if args.tls {
        arguments.extend(TlsArgs::of_folder(folder).arguments());
    }
    let master = start(&mut begun, folder, "master", &arguments)?;
    let described = Folder {
        master,
        nodes,
        memory: args.memory,
        network: args.network,
        mapped: args.mapped,
        tls: args.tls,
    };
    described.write(folder)?;
    let cluster = ClusterArg::of_folder(folder);
    let began = Instant::now();
    while let Err(error) = cluster.status() {
        let is_there = described.master.is_there();
        if !is_there || began.elapsed() > BEGIN {
            let log = fs::read_to_string(folder.join("master.log")).unwrap_or_default();
            return Err(Failure::failed(match log.trim() {
                "" => error.to_string(),
                log => format!("the master did not begin: {log}"),
            }));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.go_on();
    Ok(())
}

/// Arguments of `add-node`.
#[derive(clap::Args)]
pub struct AddArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    /// Where the node listens; default: a new one is started here
    address: Option<SocketAddr>,
}

/// Starts another node for a folder, and returns where it listens; it ends again unless it [goes on](Begun::go_on).
pub fn another(folder: &Path) -> Result<(SocketAddr, Begun), Failure> {
    let mut begun = Begun(Vec::new());
    let _lock = Folder::lock(folder)?;
    let mut described = Folder::read(folder)?;
    let number = described.nodes.len() + 1;
    let node = node(&mut begun, folder, number, Shape::from(&described))?;
    let address = node.address;
    described.nodes.push(node);
    described.write(folder)?;
    Ok((address, begun))
}

/// Adds a node.
pub fn add(args: &AddArgs, out: &Output) -> Result<ExitCode, Failure> {
    let (address, begun) = match args.address {
        Some(address) => (address, Begun(Vec::new())),
        None => another(args.cluster.folder()?)?,
    };
    args.cluster.ask(&Request::AddNode { address })?;
    begun.go_on();
    status::run(&args.cluster, out)
}

/// Arguments of `drain`, `give-up` and `kill-node`.
#[derive(clap::Args)]
pub struct NodeArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    /// The node's number, as `status` shows it
    node: u32,
}

/// Moves all that a node holds to others; `status` shows it until it is empty.
pub fn drain(args: &NodeArgs, out: &Output) -> Result<ExitCode, Failure> {
    args.cluster.ask(&Request::Drain { node: args.node })?;
    status::run(&args.cluster, out)
}

/// Has the master go on without a node.
pub fn give_up(args: &NodeArgs, out: &Output) -> Result<ExitCode, Failure> {
    args.cluster.ask(&Request::GiveUp { node: args.node })?;
    status::run(&args.cluster, out)
}

/// Kills a node that `start` or `add-node` began, to try what happens.
pub fn kill(args: &NodeArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::read(args.cluster.folder()?)?;
    let status = args.cluster.status()?;
    let address = status
        .nodes
        .iter()
        .find(|node| node.node == args.node)
        .map(|node| node.address);
    let process = folder.nodes.iter().find(|node| Some(node.address) == address);
    match process {
        Some(process) => process.signal(libc::SIGKILL),
        None => {
            return Err(Failure::failed(format!(
                "node {} is none of this folder's",
                args.node
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Arguments of `stop`.
#[derive(clap::Args)]
pub struct StopArgs {
    #[command(flatten)]
    cluster: ClusterArg,
}

/// Ends a cluster: all that is in it is lost.
pub fn stop(args: &StopArgs) -> Result<ExitCode, Failure> {
    let path = args.cluster.folder()?;
    let folder = Folder::read(path)?;
    let is_told = matches!(args.cluster.ask(&Request::Stop), Ok(Response::Done));
    let began = Instant::now();
    while is_told && folder.master.is_there() && began.elapsed() < BEGIN {
        std::thread::sleep(Duration::from_millis(5));
    }
    for process in std::iter::once(&folder.master).chain(&folder.nodes) {
        process.signal(libc::SIGKILL);
    }
    fs::remove_dir_all(path).map_err(Failure::io(path.display()))?;
    Ok(ExitCode::SUCCESS)
}
