//! One way to open a pool or a cluster, and one interface for the maps in both.
//!
//! ```no_run
//! let store = cenote_cluster::Store::open("cluster://10.0.0.10:7400")?; // or "/dev/shm/pool"
//! let mut map = store.map("default")?;
//! map.put(b"key", b"value")?;
//! assert_eq!(map.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), cenote_cluster::Error>(())
//! ```
//!
//! It is in this crate because crate `cenote` knows no network (`docs/decisions/0041-one-facade.md`).

use std::path::{Path, PathBuf};

use cenote::{Backend, Coherent, Delegated, MemoryKind, Noncoherent, Pool, Replace};

use crate::wire::TOKEN_MAX;
use crate::{Error, Map, Masters, Options, TokenError};

pub use crate::masters::SCHEME;
/// The variable that names the file with the token.
pub const TOKEN_VARIABLE: &str = "CENOTE_TOKEN_FILE";
/// The name of the map of a cluster, which has one.
pub const MAP: &str = "default";

/// A map of bytes to bytes, wherever it is. What one call has returned, later calls of anybody see.
///
/// Costs are those of the map: memory accesses in a pool; round trips in a cluster, as [`Map`]'s functions say. Calls
/// for many keys overlap their cache misses or round trips; they are no transactions. If one fails, some of its keys
/// may be changed.
pub trait KeyValue {
    /// The value of a key.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Binds a key to a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// Binds a key to a value if it is bound to none. Returns whether it did.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error>;

    /// Binds a key to another value if it is bound. Returns whether it did.
    fn replace_existing(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error>;

    /// Unbinds a key. Returns whether it was bound.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Error>;

    /// The values of keys, in their order.
    fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error>;

    /// Binds keys to values; of a key that is there twice, the later value counts.
    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Error>;
}

impl KeyValue for Map {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Map::get(self, key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        Map::put(self, key, value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        Map::insert(self, key, value)
    }

    fn replace_existing(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        Map::replace_existing(self, key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        Map::remove(self, key)
    }

    fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        Map::get_many(self, keys)
    }

    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        Map::put_many(self, pairs)
    }
}

impl<M: Backend> KeyValue for cenote::Map<M> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.get_copied(key)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        (**self).put(key, value)?;
        Ok(())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        Ok((**self).insert(key, value)?)
    }

    fn replace_existing(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let Some(mut old) = self.get_copied(key)? else {
            return Ok(false);
        };
        loop {
            match self.replace(key, &old, value)? {
                Replace::Replaced => return Ok(true),
                Replace::Missing => return Ok(false),
                Replace::Differs(found) => old = found,
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok((**self).remove(key)?)
    }

    fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut values = vec![None; keys.len()];
        (**self).get_many(keys, |n, value| values[n] = value.map(<[u8]>::to_vec))?;
        Ok(values)
    }

    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        pairs
            .iter()
            .try_for_each(|(key, value)| KeyValue::put(self, key, value))
    }
}

/// A pool that is open, or a cluster whose master is known.
pub enum Store {
    /// A pool of coherent memory.
    Coherent(Pool<Coherent>),
    /// A pool of memory without coherence between hosts.
    Noncoherent(Pool<Noncoherent>),
    /// A pool of memory whose exchanges a server executes.
    Delegated(Pool<Delegated>),
    /// A cluster.
    Cluster(Options),
}

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Those of a pool.
    pub pool: cenote::Options,
    /// The file with a cluster's token; default: what the variable [`TOKEN_VARIABLE`] names.
    pub token_file: Option<PathBuf>,
    /// The folder with files of a cluster's memory nodes on this machine, whose memory clients map (`docs/cluster.md`).
    pub mapped: Option<PathBuf>,
}

impl Store {
    /// Opens a pool that exists, by the path of its file or device, or finds a cluster, by
    /// `cluster://HOST:PORT,HOST:PORT` of its masters and the token in the file that [`TOKEN_VARIABLE`] names.
    ///
    /// Errors: [`Error::Pool`]; [`Error::Address`], [`Error::Token`] for a cluster. Whether its master answers,
    /// [`Store::map`] finds out.
    pub fn open(place: &str) -> Result<Self, Error> {
        Self::open_with(place, &StoreOptions::default())
    }

    /// The same, with options.
    pub fn open_with(place: &str, options: &StoreOptions) -> Result<Self, Error> {
        if place.starts_with(SCHEME) {
            let masters: Masters = place.parse().map_err(Error::Address)?;
            let set = std::env::var_os(TOKEN_VARIABLE).map(PathBuf::from);
            let file = options.token_file.clone().or(set).ok_or_else(|| Error::Token {
                path: PathBuf::from(TOKEN_VARIABLE),
                why: TokenError::Unnamed,
            })?;
            let mut cluster = Options::new(masters, read_token(&file)?);
            cluster.mapped = options.mapped.clone();
            return Ok(Self::Cluster(cluster));
        }
        let path = Path::new(place);
        Ok(match cenote::kind_of(path)? {
            MemoryKind::Coherent => Self::Coherent(Pool::open(path, &options.pool)?),
            MemoryKind::Noncoherent => Self::Noncoherent(Pool::open(path, &options.pool)?),
            MemoryKind::Delegated => Self::Delegated(Pool::open(path, &options.pool)?),
        })
    }

    /// A map of a pool, which is made if there is none of that name; or the map of a cluster, whose name is [`MAP`],
    /// with a session of its own. It belongs to one thread.
    ///
    /// Errors: [`Error::Pool`]; [`Error::NoSuchMap`] and those of [`Map::open`] for a cluster.
    pub fn map(&self, name: &str) -> Result<Box<dyn KeyValue>, Error> {
        Ok(match self {
            Self::Coherent(pool) => Box::new(pool.map(name)?),
            Self::Noncoherent(pool) => Box::new(pool.map(name)?),
            Self::Delegated(pool) => Box::new(pool.map(name)?),
            Self::Cluster(_) if name != MAP => {
                return Err(Error::NoSuchMap(name.to_owned()));
            }
            Self::Cluster(options) => Box::new(Map::open(options)?),
        })
    }
}

/// Reads a token: a file's first line.
pub fn read_token(path: &Path) -> Result<String, Error> {
    let wrong = |why| Error::Token {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(TokenError::Unreadable(error)))?;
    let token = text.lines().next().unwrap_or_default().trim();
    match token.len() {
        1..=TOKEN_MAX => Ok(token.to_owned()),
        _ => Err(wrong(TokenError::Length)),
    }
}
