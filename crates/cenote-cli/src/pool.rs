//! Which pool a command means, and opening it as the kind of memory that it was created for.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::failure::Failure;

/// The pool that a command works on.
#[derive(clap::Args, Clone, Debug)]
pub struct PoolArg {
    /// The pool's file. A name without a slash means that file here if there is one, else /dev/shm/NAME
    #[arg(value_name = "POOL")]
    pub pool: String,
}

impl PoolArg {
    /// Its path, whether there is such a file or not.
    pub fn path(&self) -> PathBuf {
        resolve(&self.pool)
    }

    /// Its path, if there is such a file.
    pub fn existing(&self) -> Result<PathBuf, Failure> {
        let path = self.path();
        // To open a pipe would wait for its other end.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(Failure::failed(format!(
                "{}: this is no file; give the path of a pool's file",
                path.display()
            )));
        }
        match path.try_exists() {
            Ok(false) => Err(Failure::failed(format!(
                "{}: there is no such pool; create it with `cenote create {}`",
                path.display(),
                self.pool
            ))),
            // What else may be wrong, opening it will tell.
            _ => Ok(path),
        }
    }
}

/// The path that a user's name for a pool means: itself if it has a slash or is a file here, else `/dev/shm/NAME`.
pub fn resolve(name: &str) -> PathBuf {
    if name.contains('/') || Path::new(name).exists() {
        PathBuf::from(name)
    } else {
        Path::new("/dev/shm").join(name)
    }
}

/// What `--host` said.
static HOST: OnceLock<Option<u32>> = OnceLock::new();

/// Remembers what `--host` said; once, before anything is opened.
pub fn set_host(host: Option<u32>) {
    // The first call counts, and there is no other.
    let _ = HOST.set(host);
}

/// What `--host` said, for processes that do part of this command's work.
pub fn given_host() -> Option<u32> {
    HOST.get().copied().flatten()
}

/// The id of this host for what is a host's by nature: `--host`, the environment, or the file.
pub fn this_host() -> Result<u32, Failure> {
    Ok(cenote::host_id(given_host())?)
}

/// Options with the id of this host: what `--host` says, else that of the environment or the file if the pool is a pod's.
pub fn on_this_host(path: &Path, options: &cenote::Options) -> Result<cenote::Options, Failure> {
    let host = match given_host() {
        Some(host) => host,
        None if cenote::has_hosts(path)? => this_host()?,
        None => cenote::store::ALONE,
    };
    Ok(cenote::Options {
        host,
        ..options.clone()
    })
}

/// Opens the pool at a path as the kind of memory that it was created for and evaluates an expression with it:
/// `on_pool!(&path, &options, |pool| work(&pool, other)?)`. The expression is compiled once for each kind.
macro_rules! on_pool {
    ($path:expr, $options:expr, |$pool:ident| $work:expr) => {{
        let path: &std::path::Path = $path;
        let options = &$crate::pool::on_this_host(path, $options)?;
        match cenote::kind_of(path)? {
            cenote::Kind::Coherent => {
                let $pool = cenote::Pool::<cenote::Coherent>::open(path, options)?;
                $work
            }
            cenote::Kind::Noncoherent => {
                let $pool = cenote::Pool::<cenote::Noncoherent>::open(path, options)?;
                $work
            }
            cenote::Kind::Delegated => {
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
