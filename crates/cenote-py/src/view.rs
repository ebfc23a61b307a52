//! Views of objects: Python reads them where they are.
//!
//! A view lends its memory by the buffer protocol, read-only. What Python makes of it (a `memoryview`, an array, a
//! slice of either) keeps a reference to the view, and the view keeps the object. So a view ends when the last of these
//! is gone, or when it is released; that is refused while they are there.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cenote::memory::mapped_at;
use cenote::objects::ObjectView;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::array::Description;
use crate::buffer::{Buffer, python_bytes};
use crate::error::{closed, raise};
use crate::pool::OpenPool;
use crate::threads;

/// An object's bytes, where they are: they do not change, and they stay as long as this is there, or anything that was
/// made of it, whatever becomes of the object.
#[pyclass(frozen, weakref, module = "cenote")]
pub(crate) struct View {
    view: Mutex<Option<ObjectView>>,
    memory: Memory,
    about: OnceLock<(Option<Description>, Vec<u8>)>,
    pool: Arc<OpenPool>,
    #[pyo3(get)]
    id: Py<PyBytes>,
}

/// Memory that is lent to Python.
pub(crate) struct Memory {
    at: usize,
    len: usize,
    lent: AtomicUsize,
    /// [`threads::forks`] when it was made: the child of a fork has a copy, and no claim on the memory.
    forks: u64,
}

impl Memory {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self {
            at: bytes.as_ptr() as usize,
            len: bytes.len(),
            lent: AtomicUsize::new(0),
            forks: threads::forks(),
        }
    }

    /// Whether it is the memory of this process's parent.
    pub(crate) fn is_parents(&self) -> bool {
        self.forks != threads::forks()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes of a view that is not released, nor will be as long as they are lent.
    fn bytes(&self) -> &[u8] {
        // SAFETY: as of `new`; the view is there, and sealed objects do not change.
        unsafe { std::slice::from_raw_parts(self.at as *const u8, self.len) }
    }

    /// How many buffers refer to it.
    pub(crate) fn lent(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    pub(crate) fn take_back(&self) {
        self.lent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Says to Python what it may refer to, as long as `owner` is there.
    ///
    /// # Safety
    ///
    /// `view` is a buffer to be filled. `owner` has this memory, and the description, until the buffer is released; if
    /// `is_writable`, Python may write it until then.
    pub(crate) unsafe fn lend(
        &self,
        owner: Bound<'_, PyAny>,
        description: Option<&Description>,
        is_writable: bool,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let refused = |why: &'static str| {
            // SAFETY: a buffer that is refused refers to nothing.
            unsafe { (*view).obj = null_mut() };
            Err(PyBufferError::new_err(why))
        };
        let wants = |flag: c_int| flags & flag == flag;
        if wants(ffi::PyBUF_WRITABLE) && !is_writable {
            return refused("a sealed object never changes: it can only be read");
        }
        if self.is_parents() {
            return refused("it is the parent's of this process; get the object anew");
        }
        let is_in_both_orders = description.is_none_or(Description::is_in_both_orders);
        if wants(ffi::PyBUF_F_CONTIGUOUS) && !is_in_both_orders {
            return refused("the elements lie in the order of C, not in that of Fortran");
        }
        // SAFETY: a buffer to be filled.
        let view = unsafe { &mut *view };
        view.buf = self.at as *mut c_void;
        view.len = self.len as isize;
        view.readonly = c_int::from(!is_writable);
        view.suboffsets = null_mut();
        view.internal = null_mut();
        let (mut format, mut shape, mut strides) = (null_mut(), null_mut(), null_mut());
        match description {
            Some(array) => {
                view.itemsize = array.itemsize;
                view.ndim = array.shape.len() as c_int;
                format = array.format.as_ptr().cast_mut();
                // The protocol has no constant pointers; nobody writes there.
                if !array.shape.is_empty() {
                    shape = array.shape.as_ptr().cast_mut();
                    strides = array.strides.as_ptr().cast_mut();
                }
            }
            None => {
                view.itemsize = 1;
                view.ndim = 1;
                if wants(ffi::PyBUF_FORMAT) {
                    format = c"B".as_ptr().cast_mut();
                }
                if wants(ffi::PyBUF_ND) {
                    shape = &raw mut view.len;
                }
                if wants(ffi::PyBUF_STRIDES) {
                    strides = &raw mut view.itemsize;
                }
            }
        }
        view.format = if wants(ffi::PyBUF_FORMAT) {
            format
        } else {
            null_mut()
        };
        view.shape = if wants(ffi::PyBUF_ND) { shape } else { null_mut() };
        view.strides = if wants(ffi::PyBUF_STRIDES) {
            strides
        } else {
            null_mut()
        };
        if !wants(ffi::PyBUF_ND) {
            view.ndim = 1;
        }
        view.obj = owner.into_ptr();
        self.lent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The exception for memory that cannot be given up yet.
    pub(crate) fn still_lent(&self, what: &str) -> PyErr {
        PyBufferError::new_err(format!(
            "{} buffers still refer to the {what}; delete what was made of it (memoryviews, arrays) first",
            self.lent()
        ))
    }
}

impl View {
    pub(crate) fn new(pool: &Arc<OpenPool>, view: ObjectView, id: Py<PyBytes>) -> Self {
        pool.lend();
        Self {
            memory: Memory::new(&view),
            view: Mutex::new(Some(view)),
            about: OnceLock::new(),
            pool: pool.clone(),
            id,
        }
    }

    /// What its elements are, and what the user has said of it.
    fn about(&self) -> PyResult<&(Option<Description>, Vec<u8>)> {
        if let Some(about) = self.about.get() {
            return Ok(about);
        }
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let view = view.as_ref().ok_or_else(|| closed("view"))?;
        let metadata = view.metadata().map_err(raise)?;
        let (description, said) = Description::split(&metadata, self.memory.len());
        let said = said.to_vec();
        Ok(self.about.get_or_init(|| (description, said)))
    }

    fn end(&self) {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).take();
        if view.is_some() {
            drop(view);
            self.pool.take_back();
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.memory.len()
    }

    /// Bytes of the object.
    #[getter]
    fn nbytes(&self) -> usize {
        self.memory.len()
    }

    /// What was said of the object when it was stored.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        python_bytes(py, &self.about()?.1)
    }

    /// When the object's time is over, in seconds since 1970; None for never. The view outlasts that.
    #[getter]
    fn expires(&self) -> PyResult<Option<f64>> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let view = view.as_ref().ok_or_else(|| closed("view"))?;
        let expires_ms = view.expires_ms();
        Ok(expires_ms.map(|ms| ms as f64 / 1000.0))
    }

    /// Whether it has been released, or is the parent's of this process.
    #[getter]
    fn released(&self) -> bool {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.is_none() || self.memory.is_parents()
    }

    /// Ends the view. BufferError, and it stays, while something that was made of it is there.
    fn release(&self) -> PyResult<()> {
        if self.memory.lent() != 0 {
            return Err(self.memory.still_lent("view"));
        }
        self.end();
        Ok(())
    }

    /// A copy of the bytes.
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let view = view.as_ref().filter(|_| !self.memory.is_parents());
        python_bytes(py, view.ok_or_else(|| closed("view"))?)
    }

    /// Copies all bytes to a buffer that has as many, and lets other threads run meanwhile. Returns how many.
    fn readinto(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut buffer = Buffer::of_writable(buffer)?;
        if self.released() {
            return Err(closed("view"));
        }
        // Not under the lock, as others run meanwhile: what is lent is not released.
        self.memory.lent.fetch_add(1, Ordering::Relaxed);
        let copied = buffer.fill(self.memory.bytes());
        self.memory.take_back();
        copied
    }

    /// The object as a NumPy array, read-only and without a copy.
    fn array<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf.into_any())
    }

    /// The object as a `numpy.memmap`, read-only and without a copy: another mapping of the same memory, which other
    /// processes can map again by its `filename` and `offset`. It keeps this view, as an array does. A process that
    /// maps it again has no claim on the object: this one must keep the array, or the view, for as long as that reads
    /// it. FileNotFoundError if the pool's file has no name any more, or another file has it.
    fn as_memmap<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        // Before the address is looked up: it is there from now on.
        let memory = PyMemoryView::from(&slf)?;
        let Some(mapped) = mapped_at(this.memory.at) else {
            return Err(PyValueError::new_err("an object without bytes cannot be mapped"));
        };
        py.import("cenote._memmap")?
            .call_method1("of", (memory, this.pool.path(), mapped.descriptor, mapped.offset))
    }

    /// DLPack: what other libraries for arrays make their arrays of, without a copy.
    #[pyo3(signature = (**arguments))]
    fn __dlpack__<'py>(
        slf: Bound<'py, Self>,
        arguments: Option<&Bound<'py, pyo3::types::PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        array(slf.into_any())?.call_method("__dlpack__", (), arguments)
    }

    /// DLPack: the memory is the processor's.
    fn __dlpack_device__(&self) -> (u32, u32) {
        (1, 0)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, _why: &Bound<'_, PyAny>) -> PyResult<()> {
        self.release()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id = self.id.bind(py).repr()?;
        let state = if self.released() { ", released" } else { "" };
        Ok(format!(
            "<cenote.View of {id}, {} bytes{state}>",
            self.memory.len()
        ))
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let about = match this.released() {
            true => Err(PyBufferError::new_err("the view has been released")),
            false => this.about(),
        };
        match about {
            // SAFETY: a buffer to be filled, as Python says. The object is viewed until the buffer is released.
            Ok((description, _)) => unsafe {
                this.memory
                    .lend(slf.clone().into_any(), description.as_ref(), false, view, flags)
            },
            Err(error) => {
                // SAFETY: a buffer that is refused refers to nothing.
                unsafe { (*view).obj = null_mut() };
                Err(error)
            }
        }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.memory.take_back();
    }
}

/// A NumPy array of something that lends a buffer.
pub(crate) fn array(lender: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    // Looking it up takes longer than all else that a view's array needs.
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let asarray = ASARRAY.import(lender.py(), "numpy", "asarray")?;
    // Of something that lends none NumPy would make an array of objects.
    asarray.call1((PyMemoryView::from(&lender)?,))
}
