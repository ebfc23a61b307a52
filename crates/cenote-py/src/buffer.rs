//! Bytes that Python gives: `bytes`, text, and whatever has the buffer protocol.

use std::ffi::{CStr, c_int};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::array::{Description, bytes_of};

/// A key, an id, or a value: what a user may give where bytes are wanted. Text counts as its UTF-8.
pub(crate) enum Bytes<'a, 'py> {
    Plain(&'a [u8]),
    Exported(Buffer<'py>),
}

impl<'a, 'py> Bytes<'a, 'py> {
    pub(crate) fn of(value: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Self::Plain(bytes.as_bytes()));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Self::Plain(text.to_str()?.as_bytes()));
        }
        match Buffer::of(value, ffi::PyBUF_SIMPLE) {
            Ok(buffer) => Ok(Self::Exported(buffer)),
            Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
                Err(PyTypeError::new_err(format!(
                    "bytes, a str or an object with the buffer protocol is needed, not {}",
                    value.get_type().name()?
                )))
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Exported(buffer) => buffer.bytes(),
        }
    }
}

/// An object's buffer, which the object lends.
pub(crate) struct Buffer<'py> {
    view: Box<ffi::Py_buffer>,
    py: Python<'py>,
}

impl<'py> Buffer<'py> {
    /// Borrows a buffer in the way that `flags` say.
    fn of(value: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object lives, and the view is to be filled.
        match unsafe { ffi::PyObject_GetBuffer(value.as_ptr(), &raw mut *view, flags) } {
            0 => Ok(Self { view, py: value.py() }),
            _ => Err(PyErr::fetch(value.py())),
        }
    }

    /// Borrows a buffer in whatever order its elements lie.
    pub(crate) fn of_array(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::of(value, ffi::PyBUF_FULL_RO)
    }

    /// Borrows a buffer to be written, whose elements lie side by side.
    pub(crate) fn of_writable(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::of(value, ffi::PyBUF_WRITABLE)
    }

    /// Writes as many bytes as it has.
    pub(crate) fn fill(&mut self, from: &[u8]) -> PyResult<usize> {
        if from.len() != self.len() {
            return Err(PyValueError::new_err(format!(
                "the buffer has {} bytes, and the object {}",
                self.len(),
                from.len()
            )));
        }
        if !from.is_empty() {
            // SAFETY: the lender keeps so many bytes there, to be written, until the view is released. Others may write
            // them meanwhile, as with every buffer of Python.
            let to = unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), from.len()) };
            copy(self.py, from, to);
        }
        Ok(from.len())
    }

    /// Bytes of all elements.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.view.len).unwrap_or(0)
    }

    fn is_in_order(&self) -> bool {
        // SAFETY: a view that was filled. 67 is the letter C.
        unsafe { ffi::PyBuffer_IsContiguous(&raw const *self.view, 67) != 0 }
    }

    /// The bytes of a buffer whose elements lie side by side, in the order of C. Its lender may change them at any
    /// time, as Python's own `bytes(buffer)` accepts.
    fn bytes(&self) -> &[u8] {
        match self.view.buf.is_null() || !self.is_in_order() {
            true => &[],
            // SAFETY: the lender keeps so many bytes there until the view is released.
            false => unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.len()) },
        }
    }

    /// What its elements are, if it is more than a string of bytes. TypeError if they are not numbers: they would be
    /// nothing in another process, or not known to be what they are.
    pub(crate) fn description(&self) -> PyResult<Option<Description>> {
        if self.view.format.is_null() || self.view.ndim < 0 {
            return Ok(None);
        }
        // SAFETY: a format of a view ends with a zero.
        let format = unsafe { CStr::from_ptr(self.view.format) }.to_string_lossy();
        if bytes_of(&format) != Some(self.view.itemsize) {
            return Err(PyTypeError::new_err(format!(
                "elements of format {format:?} cannot be kept as an array; numbers in the byte order of the machine can, \
                 bytes (`array.view(\"u1\")`) can, and `dump` keeps any value"
            )));
        }
        let dimensions = match self.view.shape.is_null() {
            true => &[],
            // SAFETY: a shape has as many numbers as there are dimensions.
            false => unsafe { std::slice::from_raw_parts(self.view.shape, self.view.ndim as usize) },
        };
        Ok(Description::of(&format, self.view.itemsize, dimensions))
    }

    /// Copies all elements, in the order of C, to `to`, which has as many bytes.
    pub(crate) fn copy(&self, to: &mut [u8]) -> PyResult<()> {
        if to.len() != self.len() {
            return Err(pyo3::exceptions::PyBufferError::new_err(
                "a buffer of another size",
            ));
        }
        if self.is_in_order() {
            copy(self.py, self.bytes(), to);
            return Ok(());
        }
        // SAFETY: a view that was filled, and room for all of it. 67 is the letter C.
        let copied = unsafe {
            ffi::PyBuffer_ToContiguous(to.as_mut_ptr().cast(), &raw const *self.view, self.view.len, 67)
        };
        match copied {
            0 => Ok(()),
            _ => Err(PyErr::fetch(self.py)),
        }
    }
}

/// Bytes for Python; MemoryError if there is no memory for them.
pub(crate) fn python_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let len = isize::try_from(bytes.len())?;
    // SAFETY: so many bytes are there; the result is a new `bytes`, or null with an exception set.
    unsafe {
        let made = ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), len);
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
    }
}

/// Bytes from which on a copy lets other threads of Python run.
const LARGE: usize = 256 << 10;

/// Copies bytes to as many.
pub(crate) fn copy(py: Python<'_>, from: &[u8], to: &mut [u8]) {
    let len = from.len().min(to.len());
    let (from, to) = (&from[..len], &mut to[..len]);
    match len < LARGE {
        true => to.copy_from_slice(from),
        false => py.detach(|| to.copy_from_slice(from)),
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: it was filled, and is released once; the GIL is held, as there is a `Python`.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
    }
}
