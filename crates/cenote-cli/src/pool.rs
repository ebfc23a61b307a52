//! Which pool a command means, and opening it as the kind of memory that it was created for.

use std::path::{Path, PathBuf};

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

/// Opens the pool at a path as the kind of memory that it was created for and evaluates an expression with it:
/// `on_pool!(&path, &options, |pool| work(&pool, other)?)`. The expression is compiled once for each kind.
macro_rules! on_pool {
    ($path:expr, $options:expr, |$pool:ident| $work:expr) => {{
        let (path, options): (&std::path::Path, &cenote::Options) = ($path, $options);
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
