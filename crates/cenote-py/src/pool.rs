//! A pool that Python has open.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cenote::locks::Timeout;
use cenote::{Dropped, Error, Options, parse_size};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::error::{closed, exceptions, raise};
use crate::threads;
use crate::wait::wait;

/// A pool, which every Python object that is in it keeps.
pub(crate) struct OpenPool {
    path: PathBuf,
    /// Tells it from another pool that has its path by now.
    id: u64,
    options: Options,
    state: Mutex<State>,
    /// Grows when the pool is closed, or opened anew in a child.
    generation: AtomicU64,
    /// Views of objects, and objects that are being written.
    borrowed: AtomicUsize,
}

/// What another process needs to open a pool: its path, its id, and options (`lock_file`, `trust_owner`, `background`).
pub(crate) type Opening = (PathBuf, u64, Option<PathBuf>, bool, bool);

struct State {
    pool: Option<cenote::Pool>,
    /// [`threads::forks`] when it was opened.
    forks: u64,
}

impl OpenPool {
    /// Locked with the GIL held, and not for long, so that no fork finds it locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells apart what was opened before and after the pool was closed or opened anew.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The library's pool, and its generation. The child of a fork opens it anew.
    pub(crate) fn current(&self) -> PyResult<(cenote::Pool, u64)> {
        let mut state = self.state();
        let forks = threads::forks();
        if state.forks != forks && state.pool.is_some() {
            let anew = cenote::Pool::open(&self.path, &self.options).map_err(raise)?;
            if anew.id() != self.id {
                return Err(exceptions::Error::new_err(format!(
                    "{}: another pool has been made in the place of the one that the parent of this process has open",
                    self.path.display()
                )));
            }
            // The parent's is nothing that this process could close.
            std::mem::forget(state.pool.replace(anew));
            state.forks = forks;
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        match &state.pool {
            Some(pool) => Ok((pool.clone(), self.generation())),
            None => Err(closed("pool")),
        }
    }

    /// Closes it. What the child of a fork has of its parent's pool is nothing that it could close.
    fn take(&self) -> Option<cenote::Pool> {
        let mut state = self.state();
        let pool = state.pool.take();
        self.generation.fetch_add(1, Ordering::AcqRel);
        match state.forks == threads::forks() {
            true => pool,
            false => {
                std::mem::forget(pool);
                None
            }
        }
    }

    /// Another view, or another object that is being written.
    pub(crate) fn lend(&self) {
        self.borrowed.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub(crate) fn take_back(&self) {
        self.borrowed.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn opening(&self) -> Opening {
        let Options {
            lock_file,
            trust_owner,
            background_thread,
            ..
        } = &self.options;
        (
            self.path.clone(),
            self.id,
            lock_file.clone(),
            *trust_owner,
            *background_thread,
        )
    }
}

impl Drop for OpenPool {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A size in bytes, as a number or with a unit.
fn bytes_of_size(what: &str, size: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(text) = size.cast::<PyString>() {
        return parse_size(text.to_str()?).map_err(raise);
    }
    match size.extract() {
        Ok(bytes) => Ok(bytes),
        Err(_) if size.is_instance_of::<PyInt>() => Err(PyValueError::new_err(format!(
            "{what} is a number of bytes from 0 on, below 2**64, not {size}"
        ))),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{what} is a number of bytes, or a text like \"512MiB\", not {}",
            size.get_type().name()?
        ))),
    }
}

/// See `cenote.Pool`.
#[pyclass(subclass, frozen, weakref, module = "cenote")]
pub(crate) struct Pool {
    pub(crate) open: Arc<OpenPool>,
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (path, *, create = true, exclusive = false, size = None, max = None, processes = None,
        workers = None, names = None, mode = 0o600, lock_file = None, trust_owner = false, background = false,
        trim_after = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        exclusive: bool,
        size: Option<&Bound<'_, PyAny>>,
        max: Option<&Bound<'_, PyAny>>,
        processes: Option<u32>,
        workers: Option<u32>,
        names: Option<u32>,
        mode: u32,
        lock_file: Option<PathBuf>,
        trust_owner: bool,
        background: bool,
        trim_after: Option<f64>,
    ) -> PyResult<Self> {
        // For those who open it later, when the current folder may be another one.
        let path = std::path::absolute(&path)?;
        let lock_file = lock_file.map(std::path::absolute).transpose()?;
        let usual = Options::default();
        let options = Options {
            size: size.map_or(Ok(usual.size), |size| bytes_of_size("size", size))?,
            max: max.map_or(Ok(usual.max), |max| bytes_of_size("max", max))?,
            processes: processes.unwrap_or(usual.processes),
            workers: workers.unwrap_or(usual.workers),
            names: names.unwrap_or(usual.names),
            mode,
            lock_file,
            trust_owner,
            background_thread: background,
            trim_after: trim_after.map(duration).transpose()?,
            ..usual
        };
        if options.size > options.max {
            return Err(PyValueError::new_err(format!(
                "a pool of {} bytes at first cannot have {} at most",
                options.size, options.max
            )));
        }
        let forks = threads::forks();
        let pool = py
            .detach(|| match (create, exclusive) {
                (true, true) => cenote::Pool::create(&path, &options),
                (true, false) => cenote::Pool::open_or_create(&path, &options),
                (false, _) => cenote::Pool::open(&path, &options),
            })
            .map_err(raise)?;
        Ok(Self {
            open: Arc::new(OpenPool {
                path,
                id: pool.id(),
                options,
                state: Mutex::new(State {
                    pool: Some(pool),
                    forks,
                }),
                generation: AtomicU64::new(0),
                borrowed: AtomicUsize::new(0),
            }),
        })
    }

    /// The pool's file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.open.path.clone()
    }

    #[getter]
    fn _opening(&self) -> Opening {
        self.open.opening()
    }

    /// Whether it has been closed.
    #[getter]
    fn closed(&self) -> bool {
        self.open.state().pool.is_none()
    }

    /// Closes the pool for this process. Other threads give up their places in it when they next use this module, or
    /// end. BufferError, and nothing is closed, while there are views of objects, or objects that are being written.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let borrowed = self.open.borrowed.load(Ordering::Relaxed);
        if borrowed != 0 {
            return Err(PyBufferError::new_err(format!(
                "{}: {borrowed} views of objects, or objects that are being written, are still there; \
                 release them, and what was made of them, first",
                self.open.path.display()
            )));
        }
        let pool = self.open.take();
        threads::pool_closed();
        py.detach(|| drop(pool));
        Ok(())
    }

    /// The names of all that is in it.
    fn names(&self) -> PyResult<Vec<String>> {
        self.open.current()?.0.names().map_err(raise)
    }

    /// What can be said of it, as JSON.
    fn _stat(&self, py: Python<'_>) -> PyResult<String> {
        let pool = self.open.current()?.0;
        json(&py.detach(|| pool.stat()).map_err(raise)?)
    }

    /// Checks it, as JSON.
    fn _fsck(&self, py: Python<'_>, repair: bool) -> PyResult<String> {
        let pool = self.open.current()?.0;
        let check = || match repair {
            true => pool.fsck_and_repair(),
            false => pool.fsck(),
        };
        json(&py.detach(check).map_err(raise)?)
    }

    /// Frees what nobody can refer to any more. Returns how many objects that were.
    fn collect(&self, py: Python<'_>) -> PyResult<u64> {
        let pool = self.open.current()?.0;
        py.detach(|| pool.collect()).map_err(raise)
    }

    /// Recovers what dead processes have left. Returns how many processes, and how many workers, were recovered.
    fn _recover(&self, py: Python<'_>) -> PyResult<(u32, u32)> {
        let pool = self.open.current()?.0;
        let recovered = py.detach(|| pool.recover()).map_err(raise)?;
        Ok((recovered.processes, recovered.workers))
    }

    /// Drops a map, an ordered map, an object store, a task list or a group. Its name is free at once; who has it open
    /// gets RemovedError, and views of objects stay. Whether all its memory is free: if not, somebody uses it still,
    /// and what is left comes back with a later call of this or of `collect`.
    fn drop(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        let pool = self.open.current()?.0;
        let dropped = py.detach(|| pool.drop_named(name)).map_err(raise)?;
        Ok(dropped == Dropped::Freed)
    }

    /// Removes a lock, as soon as nobody holds it, or within `timeout` seconds (None: for ever). Its name is free then,
    /// and who has it open gets RemovedError. HeldError if another thread holds it all the time, DeadlockError if this
    /// one holds it.
    #[pyo3(signature = (name, *, timeout = None))]
    fn remove_lock(&self, py: Python<'_>, name: &str, timeout: Option<f64>) -> PyResult<()> {
        let limit = timeout.map(duration).transpose()?;
        let pool = self.open.current()?.0;
        let removed = wait(py, limit, |left| {
            match pool.remove_lock_with(name, Timeout::during(left)) {
                Err(Error::LockHeld { .. }) => Ok(None),
                ended => ended.map(Some),
            }
        })?;
        let name = name.to_owned();
        removed.ok_or_else(|| raise(Error::LockHeld { name }))
    }
}

/// Seconds as Python says them.
pub(crate) fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        pyo3::exceptions::PyValueError::new_err(format!(
            "{seconds} is no time to wait: give seconds, from 0 on, or None"
        ))
    })
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| exceptions::Error::new_err(error.to_string()))
}
