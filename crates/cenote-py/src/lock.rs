//! Locks: as `threading`'s, but of a pool, and a dead owner's is somebody else's at once.

use std::cell::RefCell;
use std::time::Duration;

use cenote::locks::{Guard, Mutex, ReadGuard, ReadWriteLock};
use cenote::{Acquired, Coherent};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::error::{closed, raise};
use crate::pool::{Opening, Pool, duration};
use crate::threads::Handle;
use crate::wait::wait;

/// A lock with the hold of the thread that has it open.
struct Held<L: 'static, G: Poison> {
    /// Dropped before the lock that it refers to. With the object of Python, which stays as long as the lock is held.
    hold: RefCell<Option<(G, Py<PyAny>)>>,
    lock: Box<L>,
}

/// A hold that nobody will release: its thread has ended, its pool was closed, or nothing refers to the lock any more.
trait Poison {
    /// Leaves the lock as a death would: the next owner is notified.
    fn poison_at_end(self);
}

impl<L: cenote::sync::guard::Release<Coherent>> Poison for Guard<'_, Coherent, L> {
    fn poison_at_end(self) {
        self.poison();
    }
}

impl<L, G: Poison> Drop for Held<L, G> {
    fn drop(&mut self) {
        if let Some((hold, _object)) = self.hold.take() {
            hold.poison_at_end();
        }
    }
}

impl<L, G: Poison> Held<L, G> {
    fn new(lock: L) -> Self {
        Self {
            hold: RefCell::default(),
            lock: Box::new(lock),
        }
    }

    /// The lock, for as long as a hold that is kept here may refer to it.
    ///
    /// # Safety
    ///
    /// What is made of it stays in `hold`.
    unsafe fn lock(&self) -> &'static L {
        // SAFETY: the box stays where it is; `hold` is dropped before it, and is in it alone.
        unsafe { &*std::ptr::from_ref(&*self.lock) }
    }
}

type HeldMutex = Held<cenote::Mutex, Guard<'static, Coherent, Mutex<Coherent>>>;

/// How long to wait: the arguments of `threading.Lock.acquire`. None is for ever.
fn limit(blocking: bool, timeout: f64) -> PyResult<Option<Duration>> {
    match (blocking, timeout) {
        (false, -1.0) => Ok(Some(Duration::ZERO)),
        (false, _) => Err(PyValueError::new_err("who does not wait cannot say for how long")),
        (true, -1.0) => Ok(None),
        (true, seconds) => duration(seconds).map(Some),
    }
}

fn not_held() -> PyErr {
    PyRuntimeError::new_err("this thread does not hold the lock")
}

fn is_held() -> PyErr {
    PyRuntimeError::new_err("this thread holds the lock already, and it is not to be taken twice")
}

/// See `cenote.Lock`.
#[pyclass(subclass, frozen, weakref, module = "cenote")]
pub(crate) struct Lock {
    handle: Handle<HeldMutex>,
    name: String,
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (pool, name, *, create = true))]
    fn new(pool: &Bound<'_, Pool>, name: &str, create: bool) -> PyResult<Self> {
        let named = name.to_owned();
        let handle = Handle::new(&pool.get().open, move |pool| {
            let lock = match create {
                true => pool.mutex(&named),
                false => pool.existing_mutex(&named),
            }?;
            Ok(Held::new(lock))
        })?;
        Ok(Self {
            handle,
            name: name.to_owned(),
        })
    }

    /// Its name in the pool.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn _opening(&self) -> Opening {
        self.handle.pool().opening()
    }

    /// Takes the lock: at once, as soon as it can be had, or within `timeout` seconds (-1: for ever). Returns whether
    /// this thread has it. If the last owner died with it, `recovered` says so.
    #[pyo3(signature = (blocking = true, timeout = -1.0))]
    fn acquire(slf: Bound<'_, Self>, blocking: bool, timeout: f64) -> PyResult<bool> {
        let (py, limit) = (slf.py(), limit(blocking, timeout)?);
        let held = slf.get().handle.get()?;
        if held.hold.borrow().is_some() {
            return Err(is_held());
        }
        // SAFETY: the guard goes to `hold`.
        let lock = unsafe { held.lock() };
        let found = match lock.try_lock().map_err(raise)? {
            None => wait(py, limit, |left| lock.lock_for(left))?,
            found => found,
        };
        if found.is_some() && !slf.get().handle.is_current() {
            // Closed meanwhile: the lock is given back as it was.
            return Err(closed("pool"));
        }
        let is_taken = found.is_some();
        held.hold
            .replace(found.map(|hold| (hold, slf.into_any().unbind())));
        Ok(is_taken)
    }

    /// Gives the lock up. RuntimeError if this thread does not have it.
    fn release(&self) -> PyResult<()> {
        match self.handle.get()?.hold.take() {
            Some(_hold) => Ok(()),
            None => Err(not_held()),
        }
    }

    /// Whether this thread has it.
    #[getter]
    fn held(&self) -> PyResult<bool> {
        Ok(self.handle.get()?.hold.borrow().is_some())
    }

    /// Whether this thread has it, and the last owner died with it: what it protects may be half changed. If so, the
    /// note that the last owner left.
    #[getter]
    fn recovered(&self) -> PyResult<Option<u64>> {
        let held = self.handle.get()?;
        let hold = held.hold.borrow();
        match hold.as_ref().map(|(guard, _)| guard.acquired()) {
            Some(Acquired::Recovered { note, .. }) => Ok(Some(note)),
            Some(Acquired::Clean) => Ok(None),
            None => Err(not_held()),
        }
    }

    /// Leaves a note, a number, for the next owner, should this one die.
    fn set_note(&self, note: u64) -> PyResult<()> {
        let held = self.handle.get()?;
        let hold = held.hold.borrow();
        hold.as_ref().ok_or_else(not_held)?.0.set_note(note);
        Ok(())
    }

    /// A number greater than all that were drawn under this lock before.
    fn fencing_token(&self) -> PyResult<u64> {
        let held = self.handle.get()?;
        let hold = held.hold.borrow();
        Ok(hold.as_ref().ok_or_else(not_held)?.0.fencing_token())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        Self::acquire(slf.clone(), true, -1.0)?;
        Ok(slf)
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, _why: &Bound<'_, PyAny>) -> PyResult<()> {
        self.release()
    }
}

/// How a thread has a reader-writer lock.
enum Hold {
    Read(ReadGuard<'static, Coherent>),
    Write(Guard<'static, Coherent, ReadWriteLock<Coherent>>),
}

impl Poison for Hold {
    fn poison_at_end(self) {
        match self {
            // Readers change nothing.
            Self::Read(guard) => drop(guard),
            Self::Write(guard) => guard.poison(),
        }
    }
}

impl Hold {
    fn acquired(&self) -> Acquired {
        match self {
            Self::Read(guard) => guard.acquired(),
            Self::Write(guard) => guard.acquired(),
        }
    }
}

/// See `cenote.RwLock`.
#[pyclass(subclass, frozen, weakref, module = "cenote")]
pub(crate) struct RwLock {
    handle: Handle<Held<cenote::RawRwLock, Hold>>,
    name: String,
}

#[pymethods]
impl RwLock {
    #[new]
    #[pyo3(signature = (pool, name, *, create = true))]
    fn new(pool: &Bound<'_, Pool>, name: &str, create: bool) -> PyResult<Self> {
        let named = name.to_owned();
        let handle = Handle::new(&pool.get().open, move |pool| {
            let lock = match create {
                true => pool.raw_rwlock(&named),
                false => pool.existing_raw_rwlock(&named),
            }?;
            Ok(Held::new(lock))
        })?;
        Ok(Self {
            handle,
            name: name.to_owned(),
        })
    }

    /// Its name in the pool.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn _opening(&self) -> Opening {
        self.handle.pool().opening()
    }

    /// Takes the lock for reading, with other readers. Arguments and result as of `Lock.acquire`.
    #[pyo3(signature = (blocking = true, timeout = -1.0))]
    fn acquire_read(slf: Bound<'_, Self>, blocking: bool, timeout: f64) -> PyResult<bool> {
        Self::take(slf, blocking, timeout, |lock, left| {
            Ok(lock.read_for(left)?.map(Hold::Read))
        })
    }

    /// Takes the lock for writing, alone. Arguments and result as of `Lock.acquire`.
    #[pyo3(signature = (blocking = true, timeout = -1.0))]
    fn acquire_write(slf: Bound<'_, Self>, blocking: bool, timeout: f64) -> PyResult<bool> {
        Self::take(slf, blocking, timeout, |lock, left| {
            Ok(lock.write_for(left)?.map(Hold::Write))
        })
    }

    /// Gives the lock up. RuntimeError if this thread does not have it.
    fn release(&self) -> PyResult<()> {
        match self.handle.get()?.hold.take() {
            Some(_hold) => Ok(()),
            None => Err(not_held()),
        }
    }

    /// How this thread has it: "read", "write" or None.
    #[getter]
    fn held(&self) -> PyResult<Option<&'static str>> {
        Ok(self.handle.get()?.hold.borrow().as_ref().map(|hold| match hold {
            (Hold::Read(_), _) => "read",
            (Hold::Write(_), _) => "write",
        }))
    }

    /// As of `Lock.recovered`.
    #[getter]
    fn recovered(&self) -> PyResult<Option<u64>> {
        let held = self.handle.get()?;
        let hold = held.hold.borrow();
        match hold.as_ref().map(|(hold, _)| hold.acquired()) {
            Some(Acquired::Recovered { note, .. }) => Ok(Some(note)),
            Some(Acquired::Clean) => Ok(None),
            None => Err(not_held()),
        }
    }
}

impl RwLock {
    fn take(
        slf: Bound<'_, Self>,
        blocking: bool,
        timeout: f64,
        ask: impl Fn(&'static cenote::RawRwLock, Duration) -> cenote::Result<Option<Hold>>,
    ) -> PyResult<bool> {
        let (py, limit) = (slf.py(), limit(blocking, timeout)?);
        let held = slf.get().handle.get()?;
        if held.hold.borrow().is_some() {
            return Err(is_held());
        }
        // SAFETY: the guard goes to `hold`.
        let lock = unsafe { held.lock() };
        let found = match ask(lock, Duration::ZERO).map_err(raise)? {
            None => wait(py, limit, |left| ask(lock, left))?,
            found => found,
        };
        if found.is_some() && !slf.get().handle.is_current() {
            // Closed meanwhile: the lock is given back as it was.
            return Err(closed("pool"));
        }
        let is_taken = found.is_some();
        held.hold
            .replace(found.map(|hold| (hold, slf.into_any().unbind())));
        Ok(is_taken)
    }
}
