//! Object stores.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use cenote::objects::{NewObject, ObjectInfo, ObjectSettings, Ttl};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::array::{Description, bytes_of};
use crate::buffer::{Buffer, Bytes, copy, python_bytes};
use crate::error::raise;
use crate::map::missing;
use crate::pool::{Opening, Pool, duration};
use crate::threads::{Handle, Here};
use crate::view::View;
use crate::wait::SIGNALS_EVERY;
use crate::writer::{Writer, Writing};

/// A store, as one thread has it open.
pub(crate) type Store = cenote::objects::Objects;

/// See `cenote.Objects`.
#[pyclass(subclass, frozen, weakref, module = "cenote")]
pub(crate) struct Objects {
    handle: Handle<Store>,
    name: String,
}

/// What is known of an object, as Python gets it: id, size, when it was made and when its time is over (milliseconds
/// since 1970, 0 for never), whether it was ever viewed, its metadata, and the format and the shape of an array.
type Info<'py> = (
    Bound<'py, PyBytes>,
    u64,
    u64,
    u64,
    bool,
    Bound<'py, PyBytes>,
    Option<(String, Vec<isize>)>,
);

fn info(py: Python<'_>, object: ObjectInfo) -> PyResult<Info<'_>> {
    let (array, metadata) = Description::split(&object.metadata, object.size as usize);
    let array = array.map(|array| (array.format.to_string_lossy().into_owned(), array.shape));
    Ok((
        python_bytes(py, &object.id)?,
        object.size,
        object.created_ms,
        object.expires_ms.unwrap_or(0),
        object.was_viewed,
        python_bytes(py, metadata)?,
        array,
    ))
}

/// A time to live, from seconds; without any it is the store's own.
fn time_to_live(ttl: Option<f64>) -> PyResult<Ttl> {
    Ok(milliseconds(ttl)?.map_or(Ttl::StoreDefault, |ms| Ttl::After(Duration::from_millis(ms))))
}

/// Milliseconds of a time to live in seconds.
fn milliseconds(ttl: Option<f64>) -> PyResult<Option<u64>> {
    let Some(seconds) = ttl else {
        return Ok(None);
    };
    let ttl = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    if ttl.is_zero() {
        return Err(PyValueError::new_err(format!(
            "nothing lives for {seconds} seconds: ttl is more than 0, or None"
        )));
    }
    // What is shorter than a millisecond is still not for ever.
    let ms = ttl.as_nanos().div_ceil(1_000_000);
    Ok(Some(u64::try_from(ms).unwrap_or(u64::MAX)))
}

/// How objects are to be stored.
struct New<'a> {
    metadata: &'a [u8],
    /// The same, of an object that is no array.
    metadata_of_bytes: Cow<'a, [u8]>,
    ttl: Ttl,
    overwrite: bool,
}

impl<'a> New<'a> {
    fn checked(metadata: Option<&'a Bytes<'_, '_>>, ttl: Option<f64>, overwrite: bool) -> PyResult<Self> {
        let metadata = metadata.map_or(&[][..], Bytes::as_slice);
        Ok(Self {
            metadata,
            metadata_of_bytes: Description::none_before(metadata),
            ttl: time_to_live(ttl)?,
            overwrite,
        })
    }
}

/// A batch lets other threads run, and looks for signals, after so many objects.
const BATCH: usize = 64;

/// Does so, if it is time.
fn breathe(py: Python<'_>, done: usize) -> PyResult<()> {
    match done % BATCH {
        0 if done != 0 => {
            py.detach(|| ());
            py.check_signals()
        }
        _ => Ok(()),
    }
}

/// All ids of a batch, so that nothing is done if one of them is none.
fn ids<'py>(ids: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if ids.is_instance_of::<PyString>() || ids.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(format!(
            "several ids are needed, not one {}",
            ids.get_type().name()?
        )));
    }
    ids.try_iter()?.collect()
}

/// The key and the value of an item.
fn pair<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = item.extract() {
        return Ok(pair);
    }
    match item.cast::<PyList>() {
        Ok(pair) if pair.len() == 2 => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        _ => Err(PyTypeError::new_err(format!(
            "a mapping, or pairs of ids and data, are needed; there is {} among them",
            item.get_type().name()?
        ))),
    }
}

/// Adds to an exception what was done before it, as an attribute and as a note.
fn with_progress<'py>(
    py: Python<'py>,
    error: PyErr,
    name: &str,
    done: impl IntoPyObject<'py>,
    note: &str,
) -> PyErr {
    let value = error.value(py);
    // An exception that takes neither is raised all the same.
    let _ = value.setattr(name, done);
    let _ = value.call_method1("add_note", (note,));
    error
}

impl Objects {
    /// Stores one object.
    fn store(&self, py: Python<'_>, id: &[u8], data: &Bound<'_, PyAny>, new: &New<'_>) -> PyResult<bool> {
        // Opened last: an object that lends its buffer may run Python code of its own then.
        let begin = |size: usize, metadata: &[u8]| {
            let object = NewObject {
                metadata,
                ttl: new.ttl,
            };
            Writing::begin(self.handle.get()?, id, size as u64, &object, new.overwrite)
        };
        let writing = if data.is_instance_of::<PyBytes>() || data.is_instance_of::<PyString>() {
            let data = Bytes::of(data)?;
            let data = data.as_slice();
            let Some(mut writing) = begin(data.len(), &new.metadata_of_bytes)? else {
                return Ok(false);
            };
            copy(py, data, writing.bytes());
            writing
        } else {
            let data = Buffer::of_array(data)?;
            let described = data.description()?.map(|array| array.before(new.metadata));
            let metadata = described.as_deref().unwrap_or(&new.metadata_of_bytes);
            let Some(mut writing) = begin(data.len(), metadata)? else {
                return Ok(false);
            };
            data.copy(writing.bytes())?;
            writing
        };
        writing.seal(new.overwrite)
    }

    /// Stores objects one after the other, and says of each whether it was stored.
    fn store_all(&self, items: &Bound<'_, PyAny>, new: &New<'_>, stored: &mut Vec<bool>) -> PyResult<()> {
        let py = items.py();
        // As of `dict`; to ask whether it is a `Mapping` runs code of Python's, whose exceptions would be lost.
        let items = match items.hasattr("keys")? {
            true => items.call_method0("items")?,
            false => items.clone(),
        };
        for item in items.try_iter()? {
            breathe(py, stored.len())?;
            let (id, data) = pair(&item?)?;
            stored.push(self.store(py, Bytes::of(&id)?.as_slice(), &data, new)?);
        }
        Ok(())
    }

    /// Deletes objects one after the other, and counts those that were there.
    fn delete_all(&self, py: Python<'_>, ids: &[Bytes<'_, '_>], deleted: &mut usize) -> PyResult<()> {
        for (n, id) in ids.iter().enumerate() {
            breathe(py, n)?;
            *deleted += usize::from(self.handle.get()?.delete(id.as_slice()).map_err(raise)?);
        }
        Ok(())
    }

    /// Waits for an object until `until`; looks once at least.
    fn wait(
        &self,
        py: Python<'_>,
        id: &[u8],
        until: Option<Instant>,
    ) -> PyResult<Option<cenote::objects::ObjectView>> {
        loop {
            let left = until.map_or(SIGNALS_EVERY, |until| {
                until.saturating_duration_since(Instant::now())
            });
            let store = self.handle.get()?;
            // SAFETY: for the closure below alone.
            let store = unsafe { Here::new(store) };
            let found = py
                .detach(|| store.into_inner().wait(id, left.min(SIGNALS_EVERY)))
                .map_err(raise)?;
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            py.check_signals()?;
        }
    }

    fn make(
        &self,
        id: &Bound<'_, PyAny>,
        size: u64,
        new: &NewObject<'_>,
        description: Option<Description>,
        overwrite: bool,
    ) -> PyResult<Option<Writer>> {
        let given = Bytes::of(id)?;
        let store = self.handle.get()?;
        let begun = Writing::begin(store, given.as_slice(), size, new, overwrite)?;
        let id = python_bytes(id.py(), given.as_slice())?.unbind();
        Ok(begun.map(|writing| Writer::new(self.handle.pool(), writing, id, description, overwrite)))
    }
}

#[pymethods]
impl Objects {
    #[new]
    #[pyo3(signature = (pool, name, *, create = true, evict = false, quota = 0, ttl = None))]
    fn new(
        pool: &Bound<'_, Pool>,
        name: &str,
        create: bool,
        evict: bool,
        quota: u64,
        ttl: Option<f64>,
    ) -> PyResult<Self> {
        let named = name.to_owned();
        let settings = ObjectSettings {
            evict,
            quota: (quota != 0).then_some(quota),
            ttl_ms: milliseconds(ttl)?,
        };
        let handle = Handle::new(&pool.get().open, move |pool| match create {
            true => pool.objects(&named, &settings),
            false => pool.existing_objects(&named),
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

    /// Stores an object: bytes, a str, or whatever has the buffer protocol. An array's elements and shape are kept, so
    /// that a view of it is an array again. Returns False, and stores nothing, if there is one of this id, unless
    /// `overwrite` says that it is to be replaced; views of the old one stay as they are.
    #[pyo3(signature = (id, data, *, metadata = None, ttl = None, overwrite = false))]
    fn put(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
        ttl: Option<f64>,
        overwrite: bool,
    ) -> PyResult<bool> {
        let id = Bytes::of(id)?;
        let metadata = metadata.map(Bytes::of).transpose()?;
        let new = New::checked(metadata.as_ref(), ttl, overwrite)?;
        self.store(py, id.as_slice(), data, &new)
    }

    /// Stores many objects, of a mapping or of pairs of ids and data, one after the other, each as `put` does. Returns
    /// for each, in their order, whether it was stored. If one fails, its exception is raised: those before it stay
    /// stored, those after it are not looked at. The exception's `stored` is the list so far, so that the item at
    /// `len(error.stored)` is the one that failed.
    #[pyo3(signature = (items, *, metadata = None, ttl = None, overwrite = false))]
    fn put_many(
        &self,
        items: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
        ttl: Option<f64>,
        overwrite: bool,
    ) -> PyResult<Vec<bool>> {
        let metadata = metadata.map(Bytes::of).transpose()?;
        let new = New::checked(metadata.as_ref(), ttl, overwrite)?;
        let mut stored = Vec::new();
        match self.store_all(items, &new, &mut stored) {
            Ok(()) => Ok(stored),
            Err(error) => {
                let note = format!(
                    "put_many failed at item {}, counted from 0; of those before it, {} were stored",
                    stored.len(),
                    stored.iter().filter(|&&is_stored| is_stored).count()
                );
                Err(with_progress(items.py(), error, "stored", stored, &note))
            }
        }
    }

    /// Makes an object of so many bytes, to be written where it is: a `Writer`, whose buffer is the object's memory.
    /// None if there is one of this id, unless `overwrite` says that it is to be replaced. Nobody sees the object until
    /// it is sealed; if its writer goes first, or its process dies, it is gone. Of several writers of one id the first
    /// to seal stays.
    #[pyo3(signature = (id, size, *, metadata = None, ttl = None, overwrite = false))]
    fn create(
        &self,
        id: &Bound<'_, PyAny>,
        size: u64,
        metadata: Option<&Bound<'_, PyAny>>,
        ttl: Option<f64>,
        overwrite: bool,
    ) -> PyResult<Option<Writer>> {
        let metadata = metadata.map(Bytes::of).transpose()?;
        let metadata = metadata.as_ref().map_or(&[][..], Bytes::as_slice);
        let new = NewObject {
            metadata: &Description::none_before(metadata),
            ttl: time_to_live(ttl)?,
        };
        self.make(id, size, &new, None, overwrite)
    }

    #[pyo3(signature = (id, format, itemsize, shape, metadata, ttl, overwrite))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn _create_array(
        &self,
        id: &Bound<'_, PyAny>,
        format: &str,
        itemsize: isize,
        shape: Vec<isize>,
        metadata: Option<&Bound<'_, PyAny>>,
        ttl: Option<f64>,
        overwrite: bool,
    ) -> PyResult<Option<Writer>> {
        if bytes_of(format) != Some(itemsize) {
            return Err(PyTypeError::new_err(format!(
                "elements of format {format:?} cannot be kept as an array: numbers in the byte order of the machine can"
            )));
        }
        let bad = || PyValueError::new_err(format!("an array cannot be {shape:?} large"));
        let description = Description::new(format, itemsize, &shape).ok_or_else(bad)?;
        let size = description.bytes().ok_or_else(bad)?;
        let metadata = metadata.map(Bytes::of).transpose()?;
        let described = description.before(metadata.as_ref().map_or(&[], Bytes::as_slice));
        let new = NewObject {
            metadata: &described,
            ttl: time_to_live(ttl)?,
        };
        self.make(id, size as u64, &new, Some(description), overwrite)
    }

    /// A view of an object, or `default`. With a `timeout` in seconds it waits until the object is sealed.
    #[pyo3(signature = (id, default = None, /, *, timeout = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        id: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let given = Bytes::of(id)?;
        let mut found = self.handle.get()?.get(given.as_slice()).map_err(raise)?;
        if let (None, Some(timeout)) = (&found, timeout) {
            // What is too long for the clock is for ever.
            let until = Instant::now().checked_add(duration(timeout)?);
            found = self.wait(py, given.as_slice(), until)?;
        }
        let Some(found) = found else {
            return Ok(default);
        };
        let id = python_bytes(py, given.as_slice())?.unbind();
        Ok(Some(
            Bound::new(py, View::new(self.handle.pool(), found, id))?.into_any(),
        ))
    }

    /// Views of many objects, in the order of their ids; None for those that are not there. If one fails, its exception
    /// is raised, and there are no views.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, View>>>> {
        let ids = self::ids(ids)?;
        let given = ids.iter().map(Bytes::of).collect::<PyResult<Vec<_>>>()?;
        let view = |(n, given): (usize, &Bytes<'_, '_>)| {
            breathe(py, n)?;
            let id = python_bytes(py, given.as_slice())?.unbind();
            let found = self.handle.get()?.get(given.as_slice()).map_err(raise)?;
            found
                .map(|found| Bound::new(py, View::new(self.handle.pool(), found, id)))
                .transpose()
        };
        given.iter().enumerate().map(view).collect()
    }

    /// A view of an object; KeyError if there is none.
    fn __getitem__<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.get(id.py(), id, None, None)?.ok_or_else(|| missing(id))
    }

    fn __contains__(&self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let id = Bytes::of(id)?;
        self.handle.get()?.contains(id.as_slice()).map_err(raise)
    }

    /// Deletes an object. Returns whether it was there. Its id is free at once; its memory comes back when the last
    /// view of it ends.
    fn delete(&self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let id = Bytes::of(id)?;
        self.handle.get()?.delete(id.as_slice()).map_err(raise)
    }

    /// Deletes many objects, one after the other. Returns how many were there. If one fails, its exception is raised:
    /// those before it are deleted, and counted by the exception's `deleted`; those after it are not looked at.
    fn delete_many(&self, ids: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = ids.py();
        let ids = self::ids(ids)?;
        let given = ids.iter().map(Bytes::of).collect::<PyResult<Vec<_>>>()?;
        let mut deleted = 0;
        match self.delete_all(py, &given, &mut deleted) {
            Ok(()) => Ok(deleted),
            Err(error) => {
                let note = format!("delete_many failed; {deleted} objects were deleted before");
                Err(with_progress(py, error, "deleted", deleted, &note))
            }
        }
    }

    fn __delitem__(&self, id: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.delete(id)? {
            true => Ok(()),
            false => Err(missing(id)),
        }
    }

    fn _stat<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Option<Info<'py>>> {
        let given = Bytes::of(id)?;
        let found = self.handle.get()?.stat(given.as_slice()).map_err(raise)?;
        found.map(|object| info(id.py(), object)).transpose()
    }

    fn _list<'py>(&self, prefix: &Bound<'py, PyAny>) -> PyResult<Vec<Info<'py>>> {
        let given = Bytes::of(prefix)?;
        let mut all = Vec::new();
        let each = |object| {
            all.push(object);
            ControlFlow::Continue(())
        };
        self.handle.get()?.list(given.as_slice(), each).map_err(raise)?;
        all.into_iter().map(|object| info(prefix.py(), object)).collect()
    }

    /// Bytes that its objects occupy, with what surrounds them.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.handle.get()?.bytes())
    }

    /// Evicts objects of so many bytes at least, if as many are not viewed. Returns how many bytes they had.
    fn evict(&self, nbytes: u64) -> PyResult<u64> {
        self.handle.get()?.evict(nbytes).map_err(raise)
    }

    /// Deletes all objects whose time is over. Returns how many.
    fn expire(&self) -> PyResult<u64> {
        self.handle.get()?.expire().map_err(raise)
    }

    /// What was evicted since the store was made: objects, their bytes, the sum of their ages in milliseconds, and
    /// objects whose time was over.
    fn _evictions(&self) -> PyResult<(u64, u64, u64, u64)> {
        let found = self.handle.get()?.evictions();
        Ok((found.objects, found.bytes, found.ages_ms, found.expired))
    }
}
