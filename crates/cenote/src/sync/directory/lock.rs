//! A directory lock, as one thread has it open: on coherent memory a reader-writer lock, as hardware caches it and its
//! data; else one that processes cache themselves.

use std::rc::Rc;

use super::guard::{ReadGuard, ReadHold, WriteGuard, WriteHold};
use super::layout::{Layout, REGIONS_MAX, Region};
use super::node::NODES_MAX;
use super::node_handle::Cached;
use super::queue::Permission;
use crate::causes::{Found, Setting, Structure};
use crate::error::{Error, Result};
use crate::memory::{LINE, Memory};
use crate::pod::Worker;
use crate::pod::names::directory::{self, KIND_DIRECTORY_LOCK, KIND_LOCK, KIND_LOCKS, Named};
use crate::sync::ReadWriteLock;
use crate::sync::held::Handle;
use crate::sync::object::Object;
use crate::sync::wait::Timeout;

/// The most bytes of all regions of a lock: more than a pool has, and far from what numbers can say.
const BYTES_MAX: u64 = 1 << 40;

/// A directory lock, as one thread has it open.
pub struct DirectoryLock<M: Memory> {
    pub(super) worker: Rc<Worker<M>>,
    pub(super) regions: Rc<[Region]>,
    form: Form<M>,
}

enum Form<M: Memory> {
    /// Hardware keeps caches coherent.
    Coherent(ReadWriteLock<M>),
    /// The lock does.
    Cached(Cached<M>),
}

impl<M: Memory> DirectoryLock<M> {
    /// Opens the lock of a name, or creates it for so many nodes, with regions of these lengths.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str, nodes: u8, lens: &[u64]) -> Result<Self> {
        check_sizes(nodes, lens)?;
        let build = || Layout::create(&worker, nodes, lens);
        let named = directory::find_or_create(&worker, name, KIND_DIRECTORY_LOCK, build)?;
        Self::named(worker, named)
    }

    /// Opens the lock of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        directory::check_name(name)?;
        match directory::find(&worker, name)? {
            Some(named) => Self::named(worker, named),
            None => Err(Error::NoSuch {
                kind: Structure::DirectoryLock,
                name: name.to_owned(),
            }),
        }
    }

    fn named(worker: Rc<Worker<M>>, named: Named) -> Result<Self> {
        let is = match named.kind {
            KIND_DIRECTORY_LOCK => None,
            KIND_LOCK => Some(Found::Is(Structure::LockOf(
                Object::at(&worker, named.offset)?.kind(),
            ))),
            KIND_LOCKS => Some(Found::Is(Structure::LockArray)),
            _ => Some(Found::IsNot(Structure::DirectoryLock)),
        };
        if let Some(kind) = is {
            let name = named.name;
            return Err(Error::OtherKind { kind, name });
        }
        let layout = Layout::at(&worker, named.offset)?;
        layout.check_fits(&worker)?;
        let regions: Rc<[Region]> = layout.regions(&worker)?.into();
        let form = match M::COHERENT {
            true => {
                let object = Object::at(&worker, layout.inner())?;
                Form::Coherent(ReadWriteLock::new(Handle::new(worker.clone(), object, 0))?)
            }
            false => Form::Cached(Cached::new(worker.clone(), layout, &regions)),
        };
        Ok(Self {
            worker,
            regions,
            form,
        })
    }

    /// The pool's memory.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn mem(&self) -> &M {
        self.worker.mem()
    }

    /// What it covers.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Waits until no other thread writes.
    ///
    /// Cost on incoherent memory, if the process has the lock and no other one asks for it: nothing in the pool; else
    /// about ten round trips, and those of the data. On coherent memory that of [`ReadWriteLock::read`].
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyNodes`](crate::Error::TooManyNodes).
    #[inline]
    pub fn read(&self) -> Result<ReadGuard<'_, M>> {
        let hold = match &self.form {
            Form::Coherent(lock) => ReadHold::Coherent(lock.read()?),
            Form::Cached(lock) => ReadHold::Cached(lock, lock.acquire_for_ever(Permission::Shared)?),
        };
        Ok(ReadGuard::new(self, hold))
    }

    /// Waits until no other thread reads or writes. Cost: as [`DirectoryLock::read`].
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyNodes`](crate::Error::TooManyNodes).
    #[inline]
    pub fn write(&self) -> Result<WriteGuard<'_, M>> {
        let hold = match &self.form {
            Form::Coherent(lock) => WriteHold::Coherent(lock.write()?),
            Form::Cached(lock) => WriteHold::cached(lock, lock.acquire_for_ever(Permission::Exclusive)?),
        };
        Ok(WriteGuard::new(self, hold))
    }

    /// [`DirectoryLock::read`], until a timeout ends.
    pub fn read_with(&self, timeout: Timeout) -> Result<Option<ReadGuard<'_, M>>> {
        let hold = match &self.form {
            Form::Coherent(lock) => lock.read_with(timeout)?.map(ReadHold::Coherent),
            Form::Cached(lock) => lock
                .acquire(Permission::Shared, timeout)?
                .map(|former| ReadHold::Cached(lock, former)),
        };
        Ok(hold.map(|hold| ReadGuard::new(self, hold)))
    }

    /// [`DirectoryLock::write`], until a timeout ends.
    pub fn write_with(&self, timeout: Timeout) -> Result<Option<WriteGuard<'_, M>>> {
        let hold = match &self.form {
            Form::Coherent(lock) => lock.write_with(timeout)?.map(WriteHold::Coherent),
            Form::Cached(lock) => lock
                .acquire(Permission::Exclusive, timeout)?
                .map(|former| WriteHold::cached(lock, former)),
        };
        Ok(hold.map(|hold| WriteGuard::new(self, hold)))
    }
}

fn check_sizes(nodes: u8, lens: &[u64]) -> Result<()> {
    let error = |option, value: String, why| Err(Error::InvalidOption { option, value, why });
    if nodes == 0 || nodes > NODES_MAX {
        return error(
            Setting::LockNodes,
            nodes.to_string(),
            "a directory lock has 1 to 40 nodes",
        );
    }
    let add = |all: u64, len: &u64| all.checked_add(len.checked_next_multiple_of(LINE)?);
    if lens.iter().try_fold(0, add).is_none_or(|all| all > BYTES_MAX) {
        let most = lens.iter().max().copied().unwrap_or_default();
        return error(
            Setting::LockRegions,
            most.to_string(),
            "the regions of a lock have 2^40 bytes together at most",
        );
    }
    if lens.len() > REGIONS_MAX {
        return error(
            Setting::LockRegions,
            lens.len().to_string(),
            "a lock covers 1,024 regions at most",
        );
    }
    Ok(())
}
