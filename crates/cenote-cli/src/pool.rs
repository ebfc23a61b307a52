//! Finds the pool that a command means, and opens it as the kind of memory that it was created for.

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cenote::Options;
use cenote::memory::{Backing, MappingError};
use cenote::pod::format::geometry::FRAME;
use cenote::pod::format::superblock::{HEADER_BYTES, Superblock};

use crate::commands::cluster::place::ClusterArg;
use crate::destination::open_read_only;
use crate::failure::Failure;

/// The pool that a command works on.
#[derive(clap::Args, Clone, Debug)]
pub struct PoolArg {
    /// The pool's file, or a device (/dev/daxX.Y, the memory of a PCI device). A name without a slash means that file
    /// here if there is one, else /dev/shm/NAME
    #[arg(value_name = "POOL")]
    pub pool: String,
}

impl PoolArg {
    /// Its path, whether there is such a file or not.
    pub fn path(&self) -> PathBuf {
        resolve(&self.pool)
    }

    /// The cluster that is named, if it is one.
    pub fn cluster(&self, token: &TokenArg) -> Option<ClusterArg> {
        let is_one = self.pool.starts_with(cenote_cluster::store::SCHEME);
        is_one.then(|| ClusterArg::new(self.pool.clone(), token.token_file.clone()))
    }

    /// Its path, if there is such a file.
    pub fn existing(&self) -> Result<PathBuf, Failure> {
        if self.pool.starts_with(cenote_cluster::store::SCHEME) {
            return Err(Failure::misuse(format!(
                "{}: this needs a pool; of a cluster there are get, put, del, load, bench, and what cenote cluster does",
                self.pool
            )));
        }
        let path = self.path();
        match Backing::at(&path) {
            // To open a pipe would wait for its other end.
            Err(error @ MappingError::Unfit(_)) => {
                Err(Failure::failed(format!("{}: {error}", path.display())))
            }
            Ok(None) => Err(Failure::failed(format!(
                "{}: there is no such pool; create it with `cenote create {}`",
                path.display(),
                self.pool
            ))),
            // Opening it reports anything else that is wrong.
            _ => Ok(path),
        }
    }
}

/// For commands that work on clusters, too, which `cluster://HOST:PORT` in the pool's place names.
#[derive(clap::Args, Clone, Debug)]
pub struct TokenArg {
    /// The file with a cluster's token, if POOL is cluster://HOST:PORT of its master; default: CENOTE_TOKEN_FILE
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// The path that a user's name for a pool means: itself if it has a slash or is a file here, else `/dev/shm/NAME`.
pub fn resolve(name: &str) -> PathBuf {
    // A link is a file here, too, whatever it points to.
    if name.contains('/') || Path::new(name).symlink_metadata().is_ok() {
        PathBuf::from(name)
    } else {
        Path::new("/dev/shm").join(name)
    }
}

/// Bytes that a value has at most in the pool at a path: what the pool may grow to, and what its file has or finds on
/// its file system.
pub fn room(path: &Path) -> Result<u64, Failure> {
    let failed = || Failure::io(path.display());
    if let Ok(Some(Backing::Device(device))) = Backing::at(path) {
        return Ok(device.len);
    }
    let file = open_read_only(path).map_err(failed())?;
    let mut head = [0; HEADER_BYTES];
    if let Err(error) = file.read_exact_at(&mut head, 0)
        && error.kind() != io::ErrorKind::UnexpectedEof
    {
        return Err(failed()(error));
    }
    let most = Superblock::decode(path, &head)?
        .parameters
        .max_frames
        .saturating_mul(FRAME);
    let taken = file.metadata().map_err(failed())?.blocks().saturating_mul(512);
    let system = rustix::fs::fstatvfs(&file).map_err(|error| failed()(error.into()))?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    Ok(most.min(taken.saturating_add(free)))
}

/// The variable that names the file of liveness locks.
const LOCK_FILE_VARIABLE: &str = "CENOTE_LOCK_FILE";

/// The variable by which pools are opened whichever user owns them.
const TRUST_OWNER_VARIABLE: &str = "CENOTE_TRUST_OWNER";

/// What the options said that all commands have, about how pools are opened.
#[derive(Debug, Default)]
pub struct Given {
    /// `--host`.
    pub host: Option<u32>,
    /// `--lock-file`.
    pub lock_file: Option<PathBuf>,
    /// `--trust-owner`.
    pub trust_owner: bool,
}

static GIVEN: OnceLock<Given> = OnceLock::new();

/// Remembers what these options said; once, before anything is opened.
pub fn set_given(given: Given) {
    // The first call counts, and there is no other.
    let _ = GIVEN.set(given);
}

/// Has a process that does part of this command's work know what these options said.
pub fn hand_on(command: &mut Command) {
    if let Some(host) = given_host() {
        command.env(cenote::store::HOST_VARIABLE, host.to_string());
    }
    if let Some(file) = lock_file() {
        command.env(LOCK_FILE_VARIABLE, file);
    }
    if trust_owner() {
        command.env(TRUST_OWNER_VARIABLE, "1");
    }
}

/// The file of liveness locks that `--lock-file` or the environment names.
fn lock_file() -> Option<PathBuf> {
    let given = GIVEN.get().and_then(|given| given.lock_file.clone());
    let named = || std::env::var_os(LOCK_FILE_VARIABLE).filter(|name| !name.is_empty());
    given.or_else(|| named().map(PathBuf::from))
}

/// Whether `--trust-owner` or the environment says that pools are opened whichever user owns them.
fn trust_owner() -> bool {
    let is_said =
        || std::env::var_os(TRUST_OWNER_VARIABLE).is_some_and(|said| !said.is_empty() && said != "0");
    GIVEN.get().is_some_and(|given| given.trust_owner) || is_said()
}

/// Options for an agent of this host: its id, and what was given.
pub fn as_this_host() -> Result<Options, Failure> {
    Ok(Options {
        host: this_host()?,
        ..with_given(&Options::default())
    })
}

/// Options with the file of liveness locks that was given, and with whether the owners of pools are trusted.
pub fn with_given(options: &Options) -> Options {
    Options {
        lock_file: lock_file(),
        trust_owner: trust_owner(),
        ..options.clone()
    }
}

fn given_host() -> Option<u32> {
    GIVEN.get().and_then(|given| given.host)
}

/// The id of this host for what is a host's by nature: `--host`, the environment, or the file.
fn this_host() -> Result<u32, Failure> {
    Ok(cenote::host_id(given_host())?)
}

/// Options with the id of this host, what `--host` says, else that of the environment or the file if the pool is a
/// pod's; and with what else was given.
pub fn on_this_host(path: &Path, options: &Options) -> cenote::Result<Options> {
    let host = match given_host() {
        Some(host) => host,
        None if cenote::has_hosts(path)? => cenote::host_id(None)?,
        None => cenote::store::NO_HOST,
    };
    Ok(Options {
        host,
        ..with_given(options)
    })
}

/// Opens the pool at a path as the kind of memory that it was created for and evaluates an expression with it:
/// `on_pool!(&path, &options, |pool| work(&pool, other)?)`. The expression is compiled once for each kind.
macro_rules! on_pool {
    ($path:expr, $options:expr, |$pool:ident| $work:expr) => {{
        let path: &std::path::Path = $path;
        let options = &$crate::pool::on_this_host(path, $options)?;
        match cenote::kind_of(path)? {
            cenote::MemoryKind::Coherent => {
                let $pool = cenote::Pool::<cenote::Coherent>::open(path, options)?;
                $work
            }
            cenote::MemoryKind::Noncoherent => {
                let $pool = cenote::Pool::<cenote::Noncoherent>::open(path, options)?;
                $work
            }
            cenote::MemoryKind::Delegated => {
                let $pool = cenote::Pool::<cenote::Delegated>::open(path, options)?;
                $work
            }
        }
    }};
}
pub(crate) use on_pool;

/// The map of the pool that a command works on.
#[derive(clap::Args, Clone, Debug)]
pub struct MapArg {
    /// The map's name
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub map: String,
}

impl MapArg {
    /// A cluster has one map.
    pub fn of_cluster(&self) -> Result<(), Failure> {
        match self.map == cenote_cluster::store::MAP {
            true => Ok(()),
            false => Err(Failure::misuse("a cluster has one map: leave out --map")),
        }
    }
}
