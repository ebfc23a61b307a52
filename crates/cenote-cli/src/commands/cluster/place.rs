//! Which cluster is meant: a folder that `cenote cluster start` has made, or the master's address.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cenote_cluster::control::{Request, Response, Status};
use cenote_cluster::masters::{Masters, SCHEME};
use cenote_cluster::store::TOKEN_VARIABLE;
use cenote_cluster::{Credentials, Map, Options, OrderedMap};
use serde::{Deserialize, Serialize};

use super::network::Network;
use super::tls::TlsArgs;
use super::token::read_token;
use crate::failure::Failure;

/// How long the master may take for what waits for nodes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The cluster that is meant.
#[derive(clap::Args, Clone, Debug)]
pub struct ClusterArg {
    /// The folder of a cluster that `cenote cluster start` has made, or cluster://HOST:PORT,HOST:PORT of its masters
    #[arg(value_name = "CLUSTER")]
    cluster: String,
    /// The file with the cluster's token; default: CENOTE_TOKEN_FILE, or that of the folder
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The folder with the memory of nodes of this machine that were started with --mapped: this process maps it;
    /// default: that of the cluster's folder, if it was started so
    #[arg(long, value_name = "FOLDER")]
    mapped: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// A process that was started: when, too, as process ids come back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its process id.
    pub pid: i32,
    /// When the kernel began it.
    pub began: u64,
    /// Where it listens.
    pub address: SocketAddr,
}

/// What a folder says of its cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Folder {
    /// The master.
    pub master: Process,
    /// The memory nodes.
    pub nodes: Vec<Process>,
    /// Bytes that each node offers.
    pub memory: u64,
    /// How verbs go to them.
    #[serde(default)]
    pub network: Network,
    /// Whether clients map their memory, from files in the folder.
    #[serde(default)]
    pub mapped: bool,
    /// Whether connections are TLS, with the certificate in the folder.
    #[serde(default)]
    pub tls: bool,
}

/// The token's file in a folder.
pub fn token_file(folder: &Path) -> PathBuf {
    folder.join("token")
}

fn description(folder: &Path) -> PathBuf {
    folder.join("cluster.json")
}

impl Process {
    /// A child that was started just now.
    pub fn of(pid: u32, address: SocketAddr) -> Self {
        let pid = pid as i32;
        Self {
            pid,
            began: began(pid).unwrap_or(0),
            address,
        }
    }

    /// Whether it is still there.
    pub fn is_there(&self) -> bool {
        began(self.pid) == Some(self.began)
    }

    /// Ends it with a signal, if it is still there.
    pub fn signal(&self, signal: i32) {
        if self.is_there() {
            // SAFETY: sends a signal to a process that was started for this cluster.
            unsafe { libc::kill(self.pid, signal) };
        }
    }
}

/// When the kernel began a process, in clock ticks; `None` if there is none, or it is a zombie.
fn began(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have spaces.
    let words: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    (words.first() != Some(&"Z"))
        .then(|| words.get(19)?.parse().ok())
        .flatten()
}

impl Folder {
    /// What a folder says.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let path = description(folder);
        let text = fs::read(&path).map_err(|error| {
            Failure::failed(format!(
                "{}: {error}; is this the folder of a cluster? cenote cluster start makes one",
                path.display()
            ))
        })?;
        serde_json::from_slice(&text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    }

    /// Keeps others from changing it, until the file is dropped.
    pub fn lock(folder: &Path) -> Result<fs::File, Failure> {
        let path = token_file(folder);
        let file = fs::File::open(&path).map_err(Failure::io(path.display()))?;
        file.lock().map_err(Failure::io(path.display()))?;
        Ok(file)
    }

    /// Writes it.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let path = description(folder);
        let new = folder.join("cluster.json.new");
        let text = serde_json::to_vec_pretty(self).map_err(|error| Failure::failed(error.to_string()))?;
        fs::write(&new, text).map_err(Failure::io(new.display()))?;
        fs::rename(&new, &path).map_err(Failure::io(path.display()))
    }
}

/// The file with a token that the command line or the environment names.
fn given(token_file: Option<PathBuf>) -> Option<PathBuf> {
    token_file.or_else(|| std::env::var_os(TOKEN_VARIABLE).map(PathBuf::from))
}

/// The token in a file that the command line or the environment names.
pub fn token_of(token_file: Option<PathBuf>) -> Result<String, Failure> {
    let named = given(token_file).ok_or_else(|| {
        Failure::misuse("--token-file or CENOTE_TOKEN_FILE must name the file with the cluster's token")
    })?;
    read_token(&named)
}

impl ClusterArg {
    /// That of a name.
    pub fn new(cluster: String, token_file: Option<PathBuf>) -> Self {
        Self {
            cluster,
            token_file,
            mapped: None,
            tls: TlsArgs::default(),
        }
    }

    /// That of a folder.
    pub fn of_folder(folder: &Path) -> Self {
        Self {
            cluster: folder.display().to_string(),
            token_file: Some(token_file(folder)),
            mapped: None,
            tls: TlsArgs::default(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> Result<&Path, Failure> {
        match self.cluster.starts_with(SCHEME) {
            true => Err(Failure::misuse(format!(
                "this needs the folder of the cluster, not {}: only the processes that cenote cluster start began can be ended here",
                self.cluster
            ))),
            false => Ok(Path::new(&self.cluster)),
        }
    }

    fn resolve(&self) -> Result<(Masters, Credentials), Failure> {
        if self.cluster.starts_with(SCHEME) {
            let masters: Masters = self.cluster.parse().map_err(Failure::misuse)?;
            let token = token_of(self.token_file.clone())?;
            return Ok((masters, self.tls.credentials(token)?));
        }
        let folder = Path::new(&self.cluster);
        let described = Folder::read(folder)?;
        let token = given(self.token_file.clone()).unwrap_or_else(|| token_file(folder));
        let tls = match described.tls && !self.tls.are_given() {
            true => TlsArgs::of_folder(folder),
            false => self.tls.clone(),
        };
        Ok((
            described.master.address.into(),
            tls.credentials(read_token(&token)?)?,
        ))
    }

    /// Asks the master that leads.
    pub fn ask(&self, request: &Request) -> Result<Response, Failure> {
        let (masters, credentials) = self.resolve()?;
        match masters.ask(credentials, request, TIMEOUT)? {
            Response::Refused(why) => Err(cenote_cluster::Error::Refused(why).into()),
            response => Ok(response),
        }
    }

    /// How the cluster is.
    pub fn status(&self) -> Result<Status, Failure> {
        match self.ask(&Request::Status)? {
            Response::Status(status) => Ok(status),
            _ => Err(Failure::failed(
                "the master answers with something else than was asked",
            )),
        }
    }

    /// The options of a client.
    pub fn options(&self) -> Result<Options, Failure> {
        let (masters, credentials) = self.resolve()?;
        let mut options = Options::new(masters, credentials);
        options.mapped = self.mapped.clone();
        if self.mapped.is_none() && !self.cluster.starts_with(SCHEME) {
            let folder = Path::new(&self.cluster);
            options.mapped = Folder::read(folder)?.mapped.then(|| folder.to_owned());
        }
        Ok(options)
    }

    /// Joins, for an ordered map.
    pub fn open_ordered(&self, name: &str) -> Result<OrderedMap, Failure> {
        Ok(OrderedMap::open(&self.options()?, name.as_bytes())?)
    }

    /// Joins.
    pub fn open(&self) -> Result<Map, Failure> {
        Ok(Map::open(&self.options()?)?)
    }
}
