//! How a command reads a pool: with a place in it, or without one where no place is to be had.

use std::path::Path;
use std::rc::Rc;

use cenote::causes::{HostError, Table};
use cenote::memory::{Mapped, MappingError, Memory};
use cenote::pod::Worker;
use cenote::store::NO_HOST;
use cenote::{Error, FsckReport, LockWait, MapReader, Options, OrderedReader, Pool, Range, Reader, Stat};

use crate::complaint::complain;
use crate::failure::Failure;
use crate::map::AnyMap;
use crate::output::Output;
use crate::pool::{on_this_host, with_given};

/// How a command opens a pool that it only reads.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct ReadArg {
    /// Read the pool without a place in it: nothing is written, recovered or held back. Done unasked if all places are
    /// taken, the host has no agent, records are damaged, or the pool may not be written
    #[arg(long)]
    pub read_only: bool,
}

/// A pool that is read.
pub enum Source<M: Memory> {
    /// With a place, which the worker keeps.
    Pool {
        /// The pool.
        pool: Pool<M>,
        /// The worker.
        _worker: Rc<Worker<M>>,
    },
    /// Without one.
    Reader(Box<Reader<M>>),
}

/// A pair of a map.
pub type Pair = (Vec<u8>, Vec<u8>);

impl<M: Mapped> Source<M> {
    /// Opens the pool with a place; if none is to be had, without one, and says so on standard error.
    pub fn open(path: &Path, how: ReadArg, out: &Output) -> Result<Self, Failure> {
        if how.read_only {
            return Self::without_place(path, out, "as asked");
        }
        let refused = match Self::with_place(path) {
            Ok(source) => return Ok(source),
            Err(refused) => refused,
        };
        if !is_of_places(&refused) {
            return Err(refused.into());
        }
        // What is wrong with the pool itself was said the first time.
        Self::without_place(path, out, &refused.to_string()).map_err(|_| refused.into())
    }

    fn with_place(path: &Path) -> Result<Self, Error> {
        let options = Options {
            on_lock_wait: Some(tell_wait),
            ..Options::default()
        };
        let pool = Pool::open(path, &on_this_host(path, &options)?)?;
        Ok(Self::Pool {
            _worker: pool.worker()?,
            pool,
        })
    }

    fn without_place(path: &Path, out: &Output, why: &str) -> Result<Self, Failure> {
        let options = on_this_host(path, &Options::default())
            // A host that does not know its id sees less of the others.
            .unwrap_or_else(|_| with_given(&Options::default()));
        let reader = Pool::open_read_only(path, &options)?;
        match out.json {
            true => complain!("{}", serde_json::json!({ "without_place": true, "why": why })),
            false => complain!("cenote: read without a place in the pool: {why}"),
        }
        Ok(Self::Reader(Box::new(reader)))
    }
}

/// Says that the owner of one of the pool's own locks keeps it. The waiter goes on waiting.
fn tell_wait(wait: &LockWait) {
    complain!(
        "cenote: waiting for {}, which {} has: if that is stopped, have it go on, or kill it; `--read-only` waits for nobody",
        wait.lock,
        wait.holder
    );
}

/// Whether an error says that there is no place, or that nothing may be written, or may come from records that reading
/// does not need.
fn is_of_places(error: &Error) -> bool {
    let is_permission = |error: &std::io::Error| {
        matches!(
            error.kind(),
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
        )
    };
    match error {
        Error::TooMany { what, .. } => matches!(what, Table::Processes | Table::Workers),
        // A command with a wrong id, or none, should report that.
        Error::Host { host, source } => {
            *host != NO_HOST && !matches!(source, HostError::Elsewhere | HostError::Unidentified)
        }
        Error::Corrupt { .. } => true,
        Error::Io { source, .. }
        | Error::Mapping(MappingError::Os { source, .. })
        | Error::LockFile {
            source: MappingError::Os { source, .. },
            ..
        } => is_permission(source),
        _ => false,
    }
}

impl<M: Memory> Source<M> {
    /// Whether it is read without a place.
    pub fn is_without_place(&self) -> bool {
        matches!(self, Self::Reader(_))
    }

    /// The pool's figures.
    pub fn stat(&self) -> cenote::Result<Stat> {
        match self {
            Self::Pool { pool, .. } => pool.stat(),
            Self::Reader(reader) => reader.stat(),
        }
    }

    /// Whether the pool is sound.
    pub fn fsck(&self) -> cenote::Result<FsckReport> {
        match self {
            Self::Pool { pool, .. } => pool.fsck(),
            Self::Reader(reader) => reader.fsck(),
        }
    }

    /// The map of a name, if there is one.
    pub fn map(&self, name: &str) -> cenote::Result<SourceMap<'_, M>> {
        match self {
            Self::Pool { pool, .. } => AnyMap::existing(pool, name).map(SourceMap::Any),
            Self::Reader(reader) => match reader.map(name) {
                Err(Error::OtherKind { .. }) => reader.ordered(name).map(SourceMap::OrderedReader),
                other => other.map(SourceMap::HashReader),
            },
        }
    }
}

/// A map that is read.
#[expect(clippy::large_enum_variant, reason = "a command has one")]
pub enum SourceMap<'s, M: Memory> {
    /// With a place.
    Any(AnyMap<M>),
    /// A hash map without one.
    HashReader(MapReader<'s, M>),
    /// An ordered map without one.
    OrderedReader(OrderedReader<'s, M>),
}

impl<M: Memory> SourceMap<'_, M> {
    /// A copy of a key's value.
    pub fn get(&self, key: &[u8]) -> cenote::Result<Option<Vec<u8>>> {
        match self {
            Self::Any(map) => map.get(key),
            Self::HashReader(map) => map.get(key),
            Self::OrderedReader(map) => map.get(key),
        }
    }

    /// Copies of all pairs, if the map has no order; else [`SourceMap::page`] has them.
    pub fn unordered(&self) -> Option<Box<dyn Iterator<Item = cenote::Result<Pair>> + '_>> {
        match self {
            Self::Any(AnyMap::Hash(map)) => Some(Box::new(map.iter())),
            Self::HashReader(map) => Some(Box::new(map.iter())),
            Self::Any(AnyMap::Ordered(_)) | Self::OrderedReader(_) => None,
        }
    }

    /// Copies of the first pairs of a range, so many at most, or of the last, the last one first; of a map that has no
    /// order none.
    pub fn page(&self, range: Range<'_>, most: usize, reverse: bool) -> cenote::Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        let take = |key: &[u8], value: &[u8]| {
            pairs.push((key.to_vec(), value.to_vec()));
            pairs.len() < most
        };
        match (self, reverse) {
            (Self::Any(AnyMap::Ordered(map)), false) => map.scan(range, take)?,
            (Self::Any(AnyMap::Ordered(map)), true) => map.scan_reverse(range, take)?,
            (Self::OrderedReader(map), false) => map.scan(range, take)?,
            (Self::OrderedReader(map), true) => map.scan_reverse(range, take)?,
            (Self::Any(AnyMap::Hash(_)) | Self::HashReader(_), _) => {}
        }
        Ok(pairs)
    }
}

/// Opens the pool at a path to read it, as the kind of memory that it was created for, and evaluates an expression with
/// it: `on_source!(&path, how, out, |source| work(&source)?)`. The expression is compiled once for each kind.
macro_rules! on_source {
    ($path:expr, $how:expr, $out:expr, |$source:ident| $work:expr) => {{
        let path: &std::path::Path = $path;
        match cenote::kind_of(path)? {
            cenote::MemoryKind::Coherent => {
                let $source = $crate::source::Source::<cenote::Coherent>::open(path, $how, $out)?;
                $work
            }
            cenote::MemoryKind::Noncoherent => {
                let $source = $crate::source::Source::<cenote::Noncoherent>::open(path, $how, $out)?;
                $work
            }
            cenote::MemoryKind::Delegated => {
                let $source = $crate::source::Source::<cenote::Delegated>::open(path, $how, $out)?;
                $work
            }
        }
    }};
}
pub(crate) use on_source;
