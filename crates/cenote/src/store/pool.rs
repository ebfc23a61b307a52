//! A pool that a process has open, and its maps.

use std::any::Any;
use std::cell::RefCell;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::background::{BackgroundThread, BackgroundWork};
use super::device;
use super::downconvert_thread::DownconvertThread;
use super::options::{Options, claim_locks, open_locks};
use super::reader::{open_to_read, read_head};
use crate::causes::{HostError, Setting};
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::dropping::{self, Dropped};
use crate::index::hash::HashMap;
use crate::index::hooks;
use crate::index::objects::recover::recover_objects;
use crate::index::ordered::OrderedMap;
use crate::memory::{
    self, Backing, Coherent, FileLock, Guards, Liveness, Mapped, Mapping, MappingError, Memory, NamelessFile,
    ProcessName, Trust,
};
use crate::pod::alloc::{growth, holes};
use crate::pod::commit::recovery::{self, Recovered};
use crate::pod::format::geometry::{FRAME, Geometry, NO_HOST, Parameters};
use crate::pod::format::host_entry;
use crate::pod::format::superblock::{HEADER_BYTES, HOSTS_HIGH, MemoryKind, Superblock};
use crate::pod::hosts::agent;
use crate::pod::hosts::lease::{self, HostLease};
use crate::pod::instance::failures::Failure;
use crate::pod::instance::hooks::Hooks;
use crate::pod::instance::process::{Identity, seconds_since_1970};
use crate::pod::names::directory;
use crate::pod::reclaim::{collect, retire};
use crate::pod::{Pod, Worker};

/// A pool that this process has open. Cheap to clone; threads may share it.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("cities");
/// use cenote::{Options, Pool};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let cities = pool.map("cities")?;
/// cities.put(b"paris", b"48.85 N 2.35 E")?;
/// assert_eq!(cities.get(b"paris")?.as_deref(), Some(&b"48.85 N 2.35 E"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Pool<M: Memory = Coherent> {
    inner: Arc<Inner<M>>,
}

impl<M: Memory> Clone for Pool<M> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

/// Dropped with the last handle: first the background thread ends, then the process gives up its place in the pool.
pub(super) struct Inner<M: Memory> {
    /// Ends before the background thread, without which nothing that it retires would be free.
    downconvert_thread: Mutex<Option<DownconvertThread>>,
    background_thread: Mutex<Option<BackgroundThread>>,
    background_work: Arc<BackgroundWork>,
    pod: Arc<Pod<M>>,
    guidelines: Guidelines,
}

/// Reads what kind of memory a pool is for, without joining it. Does not check its owner; opening it does.
///
/// Errors: [`Error::Unfit`](crate::Error::Unfit), [`Error::NotAPool`](crate::Error::NotAPool),
/// [`Error::Version`](crate::Error::Version).
pub fn kind_of(path: &Path) -> Result<MemoryKind> {
    let head = read_head(path, open_to_read(path, Trust::All)?)?;
    Ok(superblock_of(path, &head)?.parameters.kind)
}

/// The random number that tells a pool from others, without joining it.
///
/// Errors: [`Error::Unfit`](crate::Error::Unfit), [`Error::NotAPool`](crate::Error::NotAPool),
/// [`Error::Version`](crate::Error::Version).
pub fn pool_id(path: &Path) -> Result<u64> {
    Ok(superblock_of(path, &read_head(path, open_to_read(path, Trust::All)?)?)?.id)
}

/// Whether a host has ever had an agent on a pool, without joining it. If so, processes need their host's id.
///
/// Errors: [`Error::Unfit`](crate::Error::Unfit), [`Error::NotAPool`](crate::Error::NotAPool),
/// [`Error::Version`](crate::Error::Version).
pub fn has_hosts(path: &Path) -> Result<bool> {
    let head = read_head(path, open_to_read(path, Trust::All)?)?;
    superblock_of(path, &head)?;
    let word = &head[HOSTS_HIGH.offset() as usize..][..8];
    Ok(word.iter().any(|&byte| byte != 0))
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io {
        path: path.to_owned(),
        source,
    }
}

/// The error for a file that could not be opened.
pub(super) fn opened(path: &Path) -> impl FnOnce(MappingError) -> Error {
    move |error| match error {
        MappingError::Os { source, .. } => io_error(path)(source),
        error => Error::about(path)(error),
    }
}

pub(super) fn open_file(path: &Path, trust: Trust) -> Result<File> {
    memory::open(path, trust).map_err(opened(path))
}

/// The superblock and the sync words behind it.
pub(super) const HEAD_BYTES: usize = 1024;

/// The superblock in the first bytes of a pool.
pub(super) fn superblock_of(path: &Path, head: &[u8; HEAD_BYTES]) -> Result<Superblock> {
    let mut bytes = [0; HEADER_BYTES];
    bytes.copy_from_slice(&head[..HEADER_BYTES]);
    Superblock::decode(path, &bytes)
}

impl<M: Mapped> Pool<M> {
    /// Creates a pool, and opens it. The file gets its name only when it is complete; it is an error if the file
    /// exists. On a device, which has its name already, it is an error if the device holds anything but zeroes at its
    /// beginning, unless `options.overwrite` allows that. A new pool has no host agents, so `options.host` must be 0.
    ///
    /// Cost: system calls for the file, a write-back of its tables; then as of [`Pool::open`].
    ///
    /// Errors: [`Error::CannotCreate`](crate::Error::CannotCreate), [`Error::Unfit`](crate::Error::Unfit),
    /// [`Error::Distrusted`](crate::Error::Distrusted), [`Error::Occupied`](crate::Error::Occupied),
    /// [`Error::InvalidOption`](crate::Error::InvalidOption), [`Error::Host`](crate::Error::Host),
    /// [`Error::LockFile`](crate::Error::LockFile), [`Error::Full`](crate::Error::Full),
    /// [`Error::TooMany`](crate::Error::TooMany), and of too many pools
    /// [`MappingError::TooMany`](crate::report::MappingError::TooMany).
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        if options.size == 0 {
            return Err(Error::InvalidOption {
                option: Setting::PoolSize,
                value: "0 bytes".to_owned(),
                why: "a pool has room for data from the beginning; the size is rounded up to 64 KiB",
            });
        }
        if options.host != NO_HOST {
            return Err(Error::Host {
                host: options.host,
                source: HostError::AtCreation,
            });
        }
        match Backing::at(path) {
            Ok(None) => {}
            Ok(Some(Backing::Device(found))) => {
                device::create::<M>(path, open_file(path, options.trust())?, found, options)?;
                return Self::open_made(path, options);
            }
            Ok(Some(Backing::File)) => {
                return Err(io_error(path)(std::io::ErrorKind::AlreadyExists.into()));
            }
            Err(error) => return Err(Error::about(path)(error)),
        }
        let parameters = parameters::<M>(options, options.max.max(options.size).div_ceil(FRAME));
        let superblock = superblock(parameters)?;
        let named = |source| Error::CannotCreate {
            path: path.to_owned(),
            source,
        };
        let nameless = NamelessFile::create(path, options.mode).map_err(named)?;
        let file = nameless.path();
        // Claimed first, so that a bad lock file leaves no pool behind. Held until this process has opened the pool, so
        // that no other pool uses it.
        let locks = match options.lock_file_of(path)? {
            own if own == path => None,
            other => Some(claim_locks(
                other,
                superblock.id,
                options.trust_in_what_was_made(),
            )?),
        };
        let mapping = Mapping::of_file(nameless.file()?, Geometry::new(parameters).mapped)?;
        format(M::over(Arc::new(mapping))?, superblock, options, &file, &file)?;
        nameless.publish(path).map_err(named)?;
        let pool = Self::open_made(path, options);
        drop(locks);
        pool
    }

    /// Opens a pool that this process has just created.
    fn open_made(path: &Path, options: &Options) -> Result<Self> {
        Self::open_of(path, options, options.trust_in_what_was_made())
    }

    /// Opens a pool, and recovers dead processes. What cannot be recovered is left, and does not keep others from using
    /// the rest: [`Pool::failures`] says what it is.
    ///
    /// It is an error if `options.host` is not 0 and that host has no agent on the pool, or if it is 0 and other hosts
    /// have agents; if the path names a symbolic link; and if the pool or the file of its liveness locks belongs to
    /// another user than this process's or root, or every user may write it, unless `options.trust_owner` allows that.
    ///
    /// Cost: system calls for the mapping and the liveness lock, and as of [`Pool::recover`]; on incoherent memory also
    /// a flush of every committed line.
    ///
    /// Errors: [`Error::Unfit`](crate::Error::Unfit), [`Error::Distrusted`](crate::Error::Distrusted),
    /// [`Error::NotAPool`](crate::Error::NotAPool), [`Error::Version`](crate::Error::Version),
    /// [`Error::OtherMemoryKind`](crate::Error::OtherMemoryKind), [`Error::LockFile`](crate::Error::LockFile),
    /// [`Error::TooMany`](crate::Error::TooMany), [`Error::InvalidOption`](crate::Error::InvalidOption),
    /// [`Error::Host`](crate::Error::Host), and of too many pools
    /// [`MappingError::TooMany`](crate::report::MappingError::TooMany).
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::open_of(path.as_ref(), options, options.trust())
    }

    fn open_of(path: &Path, options: &Options, trust: Trust) -> Result<Self> {
        let pod = join(path, options, trust, Pod::join)?;
        if !pod.is_in_pod() && !host_entry::up(pod.mem(), pod.geometry())?.is_empty() {
            // Nobody else can: hosts do not know whether it lives.
            pod.forget_dead_repairer();
            return Err(Error::Host {
                host: NO_HOST,
                source: HostError::IdNeeded,
            });
        }
        let pod = Arc::new(pod.on_lock_wait(options.on_lock_wait));
        let worker = Rc::new(Worker::attach(&pod, false)?);
        recovery::recover_dead(&worker)?;
        recover_objects(&worker);
        drop(worker);
        Self::begin(pod, options)
    }

    /// Joins a pool to become its host's agent.
    pub(super) fn join_as_agent(path: &Path, options: &Options) -> Result<Arc<Pod<M>>> {
        bring_up::<M>(path, options)?;
        Ok(Arc::new(join(
            path,
            options,
            options.trust(),
            Pod::join_as_agent,
        )?))
    }

    /// The last part of opening a pool: it is joined, and the dead are recovered or are about to be.
    pub(super) fn begin(pod: Arc<Pod<M>>, options: &Options) -> Result<Self> {
        let background_work = Arc::<BackgroundWork>::default();
        let background_thread = BackgroundThread::start_if_needed(&pod, &background_work)?;
        let pool = Self {
            inner: Arc::new(Inner {
                downconvert_thread: Mutex::default(),
                background_thread: Mutex::new(background_thread),
                background_work,
                pod,
                guidelines: options.guidelines,
            }),
        };
        if options.background_thread {
            pool.watch()?;
        }
        if let Some(after) = options.trim_after {
            pool.trim_after(after)?;
        }
        Ok(pool)
    }

    /// Opens a pool, creating it first if there is none.
    ///
    /// Cost: that of the one that it does.
    ///
    /// Errors: those of [`Pool::create`] and [`Pool::open`].
    pub fn open_or_create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        // A symbolic link counts as there, whatever it points to.
        let is_there = || path.symlink_metadata().is_ok();
        if !is_there() {
            match Self::create(path, options) {
                Err(_) if is_there() => {}
                other => return other,
            }
        }
        Self::open(path, options)
    }
}

/// How long a flush round takes, about.
const FLUSH_TIME: Duration = Duration::from_millis(1);
/// Flush times after which [`Pool::collect`] gives up if nothing was freed in them.
const FRUITLESS_MAX: u32 = 100;

impl<M: Memory> Pool<M> {
    /// The map of a name, created if there is none. The handle belongs to this thread; each thread opens its own.
    ///
    /// Cost: for each entry of the directory up to the name's a load, and one to three lines of the name that is there.
    /// A new name also takes the directory's lock and an allocation. The first handle of a thread also attaches a
    /// worker: a load for each place until one is vacant, and some stores. Keep the handle.
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn map(&self, name: &str) -> Result<Map<M>> {
        let map = HashMap::open_or_create(self.worker()?, name, self.inner.guidelines)?;
        Ok(Map {
            map,
            pool: self.clone(),
        })
    }

    /// The map of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_map(&self, name: &str) -> Result<Map<M>> {
        let map = HashMap::open(self.worker()?, name, self.inner.guidelines)?;
        Ok(Map {
            map,
            pool: self.clone(),
        })
    }

    /// The ordered map of a name, created if there is none. The handle belongs to this thread; each thread opens its
    /// own.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn ordered(&self, name: &str) -> Result<Ordered<M>> {
        let map = OrderedMap::open_or_create(self.worker()?, name, self.inner.guidelines)?;
        Ok(Ordered {
            map,
            pool: self.clone(),
        })
    }

    /// The ordered map of a name, if there is one.
    ///
    /// Cost: as of [`Pool::map`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_ordered(&self, name: &str) -> Result<Ordered<M>> {
        let map = OrderedMap::open(self.worker()?, name, self.inner.guidelines)?;
        Ok(Ordered {
            map,
            pool: self.clone(),
        })
    }

    /// The random number that tells the pool from others.
    pub fn id(&self) -> u64 {
        self.inner.pod.superblock().id
    }

    /// The names of all maps and locks.
    ///
    /// Cost: for each entry of the directory a load, and one to three lines of the name that is there.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(directory::list(&*self.worker()?)?
            .into_iter()
            .map(|named| named.name)
            .collect())
    }

    /// What this process could not recover of dead processes, and has not found repaired since.
    ///
    /// Cost: none; it reads nothing of the pool.
    pub fn failures(&self) -> Vec<Failure> {
        self.inner.pod.failures()
    }

    /// Recovers dead processes. There is no need to call it: a worker that is held up by a dead one recovers it. What
    /// cannot be recovered is left, and counted ([`Recovered::failed`]).
    ///
    /// Cost: a load for each place of a process and of a worker, and system calls for those that are taken; for each
    /// dead one its recovery, which takes the allocator's lock.
    pub fn recover(&self) -> Result<Recovered> {
        let worker = self.worker()?;
        let recovered = recovery::recover_dead(&worker)?;
        recover_objects(&worker);
        Ok(recovered)
    }

    /// Has a background thread of this process watch for deaths, as [`Options::background_thread`] does, from now until
    /// the pool is closed. It sleeps until a worker dies; then it recovers the dead, and reports the deaths to their
    /// groups.
    ///
    /// Cost: starts a thread, unless there is one.
    pub fn watch(&self) -> Result<()> {
        if self.inner.pod.is_forked() {
            return Err(Error::Forked);
        }
        let mut background_thread = self
            .inner
            .background_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        BackgroundThread::watch(
            &mut background_thread,
            &self.inner.pod,
            &self.inner.background_work,
        )
    }

    /// Drops a map, an ordered map, an object store, a task list or a group: its name is free at once, and its memory
    /// comes back. All other handles on it fail with [`Error::Dropped`](crate::Error::Dropped), in whatever process;
    /// views of objects stay, and members of a group lose the events that they have not read.
    ///
    /// An operation that another thread has begun may still take effect. If a thread reads for longer than a tenth of a
    /// second, or an object is viewed or being written, the memory comes back later: with the next call of this
    /// function, of [`Pool::collect`], or of a [watching](Pool::watch) process's background thread.
    ///
    /// Cost: as of [`Pool::map`], some round trips, and that of a removal for each key or object.
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind) of a lock
    /// ([`Pool::remove_lock`] removes those), [`Error::InvalidName`](crate::Error::InvalidName).
    pub fn drop_named(&self, name: &str) -> Result<Dropped> {
        dropping::drop_named(&self.worker()?, name)
    }

    /// Frees all reclaimable objects: those of this thread, of threads that have ended or died, of living threads that
    /// are idle, and of what was [dropped](Pool::drop_named). Objects that a thread retires meanwhile may stay, and so
    /// do objects that it reads. Returns how many were freed.
    ///
    /// On incoherent memory it waits until all hosts have dropped the freed objects from their caches, and until the
    /// processes of idle threads have freed theirs: some milliseconds for a hundred thousand objects. It gives up when
    /// nothing was freed for a tenth of a second.
    ///
    /// Cost: as of [`Pool::recover`]; then some round trips for each chunk of 63 retired objects of all lists that it
    /// takes, and an add or two for each object that it frees.
    pub fn collect(&self) -> Result<u64> {
        let worker = self.worker()?;
        // What is wrong with one keeps no other memory.
        let finished = dropping::finish_dropped(&worker);
        let mut freed = collect::free_all_and_chunks(&worker)?;
        if M::COHERENT {
            return finished.map(|_| freed);
        }
        let mut fruitless = 0;
        let mut waiting = retire::waiting(&worker);
        while waiting != 0 && fruitless < FRUITLESS_MAX {
            worker.mem().rest(FLUSH_TIME);
            freed += collect::free_all_and_chunks(&worker)?;
            let left = retire::waiting(&worker);
            fruitless = if left < waiting { 0 } else { fruitless + 1 };
            waiting = left;
        }
        finished.map(|_| freed)
    }

    /// Has the background thread of this process give memory back that has been free for so long, as
    /// [`Options::trim_after`] does, from now until the pool is closed. The thread watches for deaths, too.
    ///
    /// Cost: as of [`Pool::watch`].
    ///
    /// Errors: [`MappingError::Unsupported`](crate::report::MappingError::Unsupported),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn trim_after(&self, after: Duration) -> Result<()> {
        holes::check_support::<M>()?;
        self.inner.background_work.trim_after(after);
        self.watch()
    }

    /// This thread's worker, shared by all maps that it has open; for other structures on the pod layer.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn worker(&self) -> Result<Rc<Worker<M>>> {
        thread_local! {
            static SESSIONS: RefCell<Vec<(usize, Weak<dyn Any>)>> = const { RefCell::new(Vec::new()) };
        }
        if self.inner.pod.is_forked() {
            return Err(Error::Forked);
        }
        let identity = Arc::as_ptr(&self.inner.pod) as usize;
        let shared = SESSIONS.try_with(|sessions| {
            let mut sessions = sessions.borrow_mut();
            sessions.retain(|(_, session)| session.strong_count() > 0);
            let mine = sessions
                .iter()
                .find(|(pod, _)| *pod == identity)
                .and_then(|(_, s)| s.upgrade());
            if let Some(worker) = mine.and_then(|any| any.downcast::<Worker<M>>().ok()) {
                return Ok(worker);
            }
            let worker = self.attach()?;
            let any: Rc<dyn Any> = worker.clone();
            sessions.push((identity, Rc::downgrade(&any)));
            Ok(worker)
        });
        // A view in a thread-local value may outlive what this thread knows of its workers.
        shared.unwrap_or_else(|_| self.attach())
    }

    fn attach(&self) -> Result<Rc<Worker<M>>> {
        self.revive_background_thread()?;
        let worker = Worker::attach(&self.inner.pod, self.inner.guidelines.replicate)?;
        Ok(Rc::new(worker))
    }

    /// A count of the guards that a handle of this thread will give.
    pub(super) fn guards(&self) -> Result<Guards> {
        Guards::none().map_err(|source| Error::Io {
            path: self.inner.pod.path().to_owned(),
            source,
        })
    }

    /// Starts the thread that answers for directory locks, where there is something to answer.
    pub(super) fn start_downconvert_thread(&self) -> Result<()> {
        let mut agent = self
            .inner
            .downconvert_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !M::COHERENT && agent.is_none() {
            *agent = Some(DownconvertThread::start(&self.inner.pod)?);
        }
        Ok(())
    }

    /// Restarts the background thread if it has died alone.
    fn revive_background_thread(&self) -> Result<()> {
        if !self.inner.pod.has_lost_flush_server() {
            return Ok(());
        }
        let mut background_thread = self
            .inner
            .background_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        BackgroundThread::revive(
            &mut background_thread,
            &self.inner.pod,
            &self.inner.background_work,
        )
    }

    pub(super) fn guidelines(&self) -> Guidelines {
        self.inner.guidelines
    }

    pub(super) fn pod(&self) -> &Arc<Pod<M>> {
        &self.inner.pod
    }

    pub(super) fn background_work(&self) -> &BackgroundWork {
        &self.inner.background_work
    }
}

/// Starts what this memory needs in each process of a host. The exchange server has the lock after those of all places.
/// `liveness` holds the process's place; a copy of it lasts until the server has ended.
fn serve<M: Mapped>(
    mem: &M,
    geometry: &Geometry,
    lock_file: &Path,
    liveness: &FileLock,
    host: u32,
) -> Result<()> {
    if !M::DELEGATED {
        return Ok(());
    }
    lease::check(mem, geometry, host)?;
    let machine = ProcessName::here(lock_file).machine;
    let lease = Box::new(HostLease::new(mem, geometry, host, machine)?);
    Ok(mem.serve(
        geometry.mailboxes(),
        Box::new(liveness.again()?),
        geometry.parameters.processes,
        lease,
    )?)
}

/// Brings the host up, by a mapping of its own: its exchange server serves in the generation that it found, which may
/// be over when the host is up.
fn bring_up<M: Mapped>(path: &Path, options: &Options) -> Result<u32> {
    let trust = options.trust();
    let (mem, superblock, geometry) = map_pool::<M>(path, trust)?;
    let lock_file = options.lock_file_of(path)?;
    let liveness = open_locks(path, lock_file, superblock.id, options.host, trust)?;
    serve(&mem, &geometry, lock_file, &liveness, options.host)?;
    let identity = Identity::here(path, lock_file, options.host);
    agent::bring_up(&mem, &geometry, &identity, &liveness)
}

/// How a process joins a pool: [`Pod::join`], or [`Pod::join_as_agent`].
type Enter<M> = fn(M, Superblock, Identity, Box<dyn Liveness>, Hooks<M>) -> Result<Pod<M>>;

/// Maps a pool's file, and joins the pool.
fn join<M: Mapped>(path: &Path, options: &Options, trust: Trust, enter: Enter<M>) -> Result<Pod<M>> {
    let (mem, superblock, geometry) = map_pool::<M>(path, trust)?;
    let lock_file = options.lock_file_of(path)?;
    let liveness = Box::new(open_locks(path, lock_file, superblock.id, options.host, trust)?);
    serve(&mem, &geometry, lock_file, &liveness, options.host)?;
    let identity = Identity::here(path, lock_file, options.host);
    enter(mem, superblock, identity, liveness, hooks())
}

/// Maps a pool's file, and checks it.
pub(super) fn map_pool<M: Mapped>(path: &Path, trust: Trust) -> Result<(M, Superblock, Geometry)> {
    let file = open_file(path, trust)?;
    let head = read_head(path, file.try_clone().map_err(io_error(path))?)?;
    let superblock = superblock_of(path, &head)?;
    let parameters = superblock.parameters;
    if parameters.kind != MemoryKind::of::<M>() {
        return Err(Error::OtherMemoryKind {
            pool: parameters.kind,
            asked: MemoryKind::of::<M>(),
        });
    }
    let geometry = Geometry::new(parameters);
    let mapping = match Mapping::of_file(file, geometry.mapped) {
        Err(MappingError::Unfit(why)) => {
            let path = path.to_owned();
            return Err(Error::Unfit { path, why });
        }
        mapping => mapping?,
    };
    let file_len = mapping.file_len()?;
    if file_len < geometry.data {
        return Err(Error::corrupt(
            "a file shorter than its tables (was it truncated?), seen",
            file_len,
        ));
    }
    let mem = M::over(Arc::new(mapping))?;
    let committed = crate::pod::format::superblock::COMMITTED.load(&mem);
    // The length is read after that: the file grows before the pool does.
    Superblock::check_committed(&geometry, committed, mem.mapping().file_len()?)?;
    Ok((mem, superblock, geometry))
}

/// The sizes of a new pool and of its tables.
pub(super) fn parameters<M: Mapped>(options: &Options, max_frames: u64) -> Parameters {
    Parameters {
        kind: MemoryKind::of::<M>(),
        max_frames,
        processes: options.processes,
        workers: options.workers,
        entries: options.names,
        hosts: options.hosts,
    }
}

/// A new pool's superblock, if its parameters are valid.
pub(super) fn superblock(parameters: Parameters) -> Result<Superblock> {
    parameters.check().map_err(|why| Error::InvalidOption {
        option: Setting::Sizes,
        value: format!("{parameters:?}"),
        why,
    })?;
    Ok(Superblock {
        parameters,
        id: random_number(),
        created: seconds_since_1970(),
    })
}

/// Formats a pool in a file whose tables are zeroes, with `options.size` bytes at first.
pub(super) fn format<M: Mapped>(
    mem: M,
    superblock: Superblock,
    options: &Options,
    path: &Path,
    lock_file: &Path,
) -> Result<()> {
    superblock.format(&mem)?;
    let trust = options.trust_in_what_was_made();
    let liveness = Box::new(open_locks(path, lock_file, superblock.id, NO_HOST, trust)?);
    serve(
        &mem,
        &Geometry::new(superblock.parameters),
        lock_file,
        &liveness,
        NO_HOST,
    )?;
    let identity = Identity::here(path, lock_file, NO_HOST);
    let pod = Arc::new(Pod::join(mem, superblock, identity, liveness, hooks())?);
    let worker = Worker::attach(&pod, false)?;
    growth::commit_initial(&worker, options.size.div_ceil(FRAME))
}

/// A random number, for a pool's id or a group's salt.
pub(super) fn random_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// A named map, as one thread has it open. See [`HashMap`] for what it can do.
pub struct Map<M: Memory = Coherent> {
    map: HashMap<M>,
    pool: Pool<M>,
}

impl<M: Memory> Map<M> {
    /// The pool that it is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }
}

impl<M: Memory> Deref for Map<M> {
    type Target = HashMap<M>;

    fn deref(&self) -> &HashMap<M> {
        &self.map
    }
}

/// A named ordered map, as one thread has it open. See [`OrderedMap`] for what it can do.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Options, Pool, Range};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let cities = pool.ordered("cities")?;
/// for name in ["paris", "rome", "oslo"] {
///     cities.put(name.as_bytes(), b"")?;
/// }
/// let mut found = Vec::new();
/// cities.scan(Range { from: b"p", to: None }, |name, _| {
///     found.push(name.to_vec());
///     true
/// })?;
/// assert_eq!(found, [&b"paris"[..], b"rome"]);
/// assert_eq!(cities.predecessor(b"paris")?.unwrap().0, b"oslo");
/// # Ok(())
/// # }
/// ```
pub struct Ordered<M: Memory = Coherent> {
    map: OrderedMap<M>,
    pool: Pool<M>,
}

impl<M: Memory> Ordered<M> {
    /// The pool that it is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }
}

impl<M: Memory> Deref for Ordered<M> {
    type Target = OrderedMap<M>;

    fn deref(&self) -> &OrderedMap<M> {
        &self.map
    }
}

#[cfg(test)]
#[path = "drop_tests.rs"]
mod drop_tests;
