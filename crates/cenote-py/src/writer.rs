//! Objects that Python fills where they are.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::cell::RefCell;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cenote::objects::{NewObject, ObjectWriter, Sealed};
use pyo3::exceptions::{PyBufferError, PyFileExistsError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::Description;
use crate::error::{closed, raise};
use crate::objects::Store;
use crate::pool::OpenPool;
use crate::threads::{Here, Local};
use crate::view::{Memory, array};

/// An object that is being made.
pub(crate) struct Writing {
    writer: ObjectWriter,
}

impl Writing {
    /// Begins an object; none if there is one of this id that is not to be replaced.
    pub(crate) fn begin(
        store: Rc<Store>,
        id: &[u8],
        size: u64,
        new: &NewObject<'_>,
        overwrite: bool,
    ) -> PyResult<Option<Self>> {
        let begun = match overwrite {
            true => store.create_over(id, size, new).map(Some),
            false => store.create(id, size, new),
        };
        Ok(begun.map_err(raise)?.map(|writer| Self { writer }))
    }

    /// The object's memory.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.writer.as_mut_slice()
    }

    /// Seals it. False if another one has the id by now.
    pub(crate) fn seal(self, overwrite: bool) -> PyResult<bool> {
        match overwrite {
            true => self.writer.seal_over().map(|_| true),
            false => self.writer.seal().map(|sealed| sealed == Sealed::HasId),
        }
        .map_err(raise)
    }
}

/// An object that is being made: its buffer is the object's memory. Nobody sees it until it is sealed. As a context it
/// is sealed at the end, or given up if there was an exception. It belongs to the thread that made it.
#[pyclass(frozen, weakref, module = "cenote")]
pub(crate) struct Writer {
    writing: Local<RefCell<Option<Writing>>>,
    memory: Memory,
    is_open: AtomicBool,
    description: Option<Description>,
    overwrite: bool,
    #[pyo3(get)]
    id: Py<PyBytes>,
}

impl Writer {
    pub(crate) fn new(
        pool: &Arc<OpenPool>,
        mut writing: Writing,
        id: Py<PyBytes>,
        description: Option<Description>,
        overwrite: bool,
    ) -> Self {
        pool.lend();
        Self {
            memory: Memory::new(writing.bytes()),
            writing: Local::new(pool, RefCell::new(Some(writing)), true),
            is_open: AtomicBool::new(true),
            description,
            overwrite,
            id,
        }
    }

    /// Takes the object, which Python must not refer to any more.
    fn take(&self) -> PyResult<Writing> {
        if !self.is_open.load(Ordering::Relaxed) {
            return Err(closed("writer"));
        }
        if self.memory.lent() != 0 {
            return Err(self.memory.still_lent("writer"));
        }
        let taken = self
            .writing
            .get("writer")?
            .take()
            .ok_or_else(|| closed("writer"))?;
        self.is_open.store(false, Ordering::Relaxed);
        self.writing.pool().take_back();
        Ok(taken)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.is_open.load(Ordering::Relaxed) {
            // Its thread gives the object up: this one, or when it next comes by.
            self.writing.pool().take_back();
        }
    }
}

#[pymethods]
impl Writer {
    fn __len__(&self) -> usize {
        self.memory.len()
    }

    /// Bytes of the object.
    #[getter]
    fn nbytes(&self) -> usize {
        self.memory.len()
    }

    /// Seals the object: from now on its id finds it, and it never changes. False, and it is gone, if another one has
    /// the id by now. BufferError while something that was made of the writer is there: it could change the object.
    fn seal(&self, py: Python<'_>) -> PyResult<bool> {
        let writing = self.take()?;
        // SAFETY: for the closure below alone.
        let writing = unsafe { Here::new(writing) };
        let overwrite = self.overwrite;
        py.detach(move || writing.into_inner().seal(overwrite))
    }

    /// Gives the object up.
    fn abort(&self) -> PyResult<()> {
        if self.is_open.load(Ordering::Relaxed) {
            drop(self.take()?);
        }
        Ok(())
    }

    /// The object as a NumPy array, to be written.
    fn array<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf.into_any())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !self.is_open.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !kind.is_none() {
            // What the exception's frames refer to may include the writer's memory: it is given up when they are gone.
            return match self.memory.lent() {
                0 => self.abort(),
                _ => Ok(()),
            };
        }
        match self.seal(py)? {
            true => Ok(()),
            false => Err(PyFileExistsError::new_err(format!(
                "another object has the id {} by now; this one is gone",
                self.id.bind(py).repr()?
            ))),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id = self.id.bind(py).repr()?;
        let state = match self.is_open.load(Ordering::Relaxed) {
            true => "",
            false => ", closed",
        };
        Ok(format!(
            "<cenote.Writer of {id}, {} bytes{state}>",
            self.memory.len()
        ))
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        if !this.is_open.load(Ordering::Relaxed) {
            // SAFETY: a buffer that is refused refers to nothing.
            unsafe { (*view).obj = null_mut() };
            return Err(PyBufferError::new_err("the object has been sealed or given up"));
        }
        // SAFETY: a buffer to be filled, as Python says. The object is not sealed until the buffer is released, and is
        // not given up as long as this is there.
        unsafe {
            this.memory.lend(
                slf.clone().into_any(),
                this.description.as_ref(),
                true,
                view,
                flags,
            )
        }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.memory.take_back();
    }
}
