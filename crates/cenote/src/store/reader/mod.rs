//! Reading a pool without a place in it.
//!
//! This works when all places are taken, when the host has no agent, when records of workers are damaged, and for users
//! who may read the file but not write it. Nobody knows of such a reader, so nothing waits for it: what it reads may be
//! reused while it reads. So it reads in *attempts*, each a [`Snapshot`] of its own. It believes what an attempt has
//! read if the epoch has not moved meanwhile; else it tries again. The rule and its proof are in
//! `docs/protocols/snapshots.md`. It walks structures with the same code as all others, with a worker that has no
//! place.

mod maps;
mod open;
mod whole;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use maps::{MapReader, OrderedReader};
pub(super) use open::{open_to_read, read_head};

use crate::error::{Error, Result};
use crate::index::hooks;
use crate::memory::{Bounds, Coherent, Liveness, LocalWord, MappingError, Memory, ReaderLiveness, Snapshot};
use crate::pod::format::geometry::{FRAME, Geometry};
use crate::pod::format::superblock::{COMMITTED, EPOCH, Superblock};
use crate::pod::instance::process::Identity;
use crate::pod::names::directory;
use crate::pod::{Pod, Worker};

/// Attempts without a pause between them.
const QUICK_ATTEMPTS: u32 = 32;
/// Attempts in all, the later ones with pauses between them: about half a second.
const ATTEMPTS: u32 = 256;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);
/// Steps that an attempt may take in any pool.
const STEPS_MIN: u64 = 1 << 24;
/// Bytes of the pool for each further step: the largest possible value can be read in one attempt.
const BYTES_PER_STEP: u64 = 512;
/// How many times as many steps a walk of the whole pool may take.
const STEPS_OF_WHOLE: u64 = 64;

/// A pool that this process reads without a place in it. Cheap to share among threads.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("cities");
/// use cenote::{Options, Pool};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// pool.map("cities")?.put(b"paris", b"48.85 N 2.35 E")?;
///
/// let reader = Pool::<cenote::Coherent>::open_read_only(&path, &Options::default())?;
/// assert_eq!(reader.map("cities")?.get(b"paris")?.as_deref(), Some(&b"48.85 N 2.35 E"[..]));
/// assert!(reader.stat()?.without_place);
/// # Ok(())
/// # }
/// ```
pub struct Reader<M: Memory = Coherent> {
    mem: M,
    superblock: Superblock,
    geometry: Geometry,
    identity: Identity,
    locks: Option<Arc<ReaderLiveness>>,
    /// Bytes that may be read now.
    there: fn(&M) -> std::result::Result<u64, MappingError>,
    /// Committed frames that the file is known to have.
    checked: LocalWord,
}

/// The liveness locks, shared.
struct Locks(Arc<ReaderLiveness>);

impl Liveness for Locks {
    fn try_lock(&self, number: u32) -> std::result::Result<bool, MappingError> {
        self.0.try_lock(number)
    }

    fn unlock(&self, number: u32) -> std::result::Result<(), MappingError> {
        self.0.unlock(number)
    }

    fn is_locked(&self, number: u32) -> std::result::Result<bool, MappingError> {
        self.0.is_locked(number)
    }
}

/// How an attempt reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Ends as soon as what it has read may not be believed.
    Strict,
    /// Reads the whole pool, whatever happens meanwhile.
    Whole,
}

impl<M: Memory> Reader<M> {
    /// A reader of the pool in `mem`, all committed bytes of which can be read. It does not know which processes live.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn over(mem: M, superblock: Superblock, identity: Identity) -> Self {
        Self {
            mem,
            geometry: Geometry::new(superblock.parameters),
            superblock,
            identity,
            locks: None,
            there: |_| Ok(u64::MAX),
            checked: LocalWord::new(0),
        }
    }

    /// The pool's file.
    pub fn path(&self) -> &Path {
        &self.identity.path
    }

    /// The names of all maps and locks.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if the pool changes too quickly, as of all functions that read.
    pub fn names(&self) -> Result<Vec<String>> {
        let all = self.read(|worker, _| directory::list(worker))?;
        Ok(all.into_iter().map(|named| named.name).collect())
    }

    /// The hash map of a name, if there is one.
    ///
    /// Cost: a load for each entry of the directory, and its name.
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::Busy`](crate::Error::Busy).
    pub fn map(&self, name: &str) -> Result<MapReader<'_, M>> {
        MapReader::open(self, name)
    }

    /// The ordered map of a name, if there is one. Cost: as of [`Reader::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::Busy`](crate::Error::Busy).
    pub fn ordered(&self, name: &str) -> Result<OrderedReader<'_, M>> {
        OrderedReader::open(self, name)
    }

    /// Reads until what was read may be believed. `work` gets the number of attempts that failed, and must return
    /// nothing that refers to its worker.
    fn read<R>(&self, mut work: impl FnMut(&Rc<Worker<Snapshot<M>>>, u32) -> Result<R>) -> Result<R> {
        for attempt in 0..ATTEMPTS {
            let (result, snapshot) = self.attempt(Manner::Strict, |worker| work(worker, attempt))?;
            if snapshot.holds() {
                return result;
            }
            if snapshot.is_exhausted() {
                return Err(Error::corrupt(
                    "a walk without end, with the epoch",
                    EPOCH.offset(),
                ));
            }
            match attempt < QUICK_ATTEMPTS {
                true => self.mem.relax(),
                false => self.mem.rest(BETWEEN_ATTEMPTS),
            }
        }
        Err(Error::Busy)
    }

    /// Makes one attempt. The returned snapshot says whether it holds.
    fn attempt<R>(
        &self,
        manner: Manner,
        work: impl FnOnce(&Rc<Worker<Snapshot<M>>>) -> R,
    ) -> Result<(R, Snapshot<M>)> {
        let limit = self.geometry.data + self.committed()? * FRAME;
        let steps = STEPS_MIN + limit / BYTES_PER_STEP;
        let snapshot = Snapshot::new(
            self.mem.clone(),
            Bounds {
                epoch: EPOCH.offset(),
                committed: (COMMITTED.offset(), (limit - self.geometry.data) / FRAME),
                limit,
                steps: match manner {
                    Manner::Strict => steps,
                    Manner::Whole => steps * STEPS_OF_WHOLE,
                },
                is_strict: manner == Manner::Strict,
            },
        );
        let locks = self.locks.clone().filter(|_| manner == Manner::Whole);
        let pod = Pod::open_reader(
            snapshot.clone(),
            self.superblock,
            self.identity.clone(),
            locks.map(|locks| Box::new(Locks(locks)) as Box<dyn Liveness>),
            hooks(),
        )?;
        let worker = Rc::new(Worker::of_reader(&Arc::new(pod)));
        Ok((work(&worker), snapshot))
    }

    /// The committed frames, checked against the file's length.
    fn committed(&self) -> Result<u64> {
        let committed = COMMITTED.load(&self.mem);
        if committed > self.checked.load() {
            // The length is read after that: the file grows before the pool does.
            Superblock::check_committed(&self.geometry, committed, (self.there)(&self.mem)?)?;
            self.checked.store(committed);
        }
        Ok(committed)
    }

    /// The error for an attempt that takes more steps than possible.
    fn endless(&self) -> Error {
        Error::corrupt(
            "what has no end and is reached from the directory",
            self.geometry.directory,
        )
    }

    fn file_bytes(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(self.path()).ok()?;
        Some(file.blocks() * 512)
    }
}
