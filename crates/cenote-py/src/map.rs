//! Hash maps.

use cenote::Replace;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::buffer::{Bytes, python_bytes};
use crate::error::raise;
use crate::pairs::{Pairs, Wanted};
use crate::pool::{Opening, Pool};
use crate::threads::Handle;

/// See `cenote.Map`.
#[pyclass(subclass, frozen, weakref, module = "cenote")]
pub(crate) struct Map {
    pub(crate) handle: Handle<cenote::Map>,
    name: String,
}

#[pymethods]
impl Map {
    #[new]
    #[pyo3(signature = (pool, name, *, create = true))]
    fn new(pool: &Bound<'_, Pool>, name: &str, create: bool) -> PyResult<Self> {
        let named = name.to_owned();
        let handle = Handle::new(&pool.get().open, move |pool| match create {
            true => pool.map(&named),
            false => pool.existing_map(&named),
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

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.handle.get()?.len() as usize)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = Bytes::of(key)?;
        let map = self.handle.get()?;
        let found = map.get(key.as_slice()).map_err(raise)?;
        Ok(found.is_some())
    }

    /// The value of a key; KeyError if there is none.
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.get(key, None)?.ok_or_else(|| missing(key))
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let given = Bytes::of(key)?;
        let map = self.handle.get()?;
        let found = map.get(given.as_slice()).map_err(raise)?;
        match found {
            Some(value) => Ok(Some(python_bytes(key.py(), &value)?.into_any())),
            None => Ok(default),
        }
    }

    /// The values of many keys, in their order; None for those that are missing. Faster than one after the other.
    fn get_many<'py>(&self, py: Python<'py>, keys: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let given = keys.iter().map(Bytes::of).collect::<PyResult<Vec<_>>>()?;
        let keys: Vec<&[u8]> = given.iter().map(Bytes::as_slice).collect();
        let mut found: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
        let map = self.handle.get()?;
        // Copied first: Python may run its own code whenever it makes an object.
        map.get_many(&keys, |n, value| found[n] = value.map(<[u8]>::to_vec))
            .map_err(raise)?;
        let list = PyList::empty(py);
        for value in found {
            list.append(value.map(|value| python_bytes(py, &value)).transpose()?)?;
        }
        Ok(list)
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, value) = (Bytes::of(key)?, Bytes::of(value)?);
        let map = self.handle.get()?;
        map.put(key.as_slice(), value.as_slice()).map_err(raise)?;
        Ok(())
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.remove(key)? {
            true => Ok(()),
            false => Err(missing(key)),
        }
    }

    /// Puts a value unless the key has one. Returns whether it did. Of many that try at once one succeeds.
    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (key, value) = (Bytes::of(key)?, Bytes::of(value)?);
        let map = self.handle.get()?;
        map.insert(key.as_slice(), value.as_slice()).map_err(raise)
    }

    /// Replaces the value of a key if it is `expected`: a compare-and-exchange. Returns whether it was.
    fn replace(
        &self,
        key: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, expected, value) = (Bytes::of(key)?, Bytes::of(expected)?, Bytes::of(value)?);
        let map = self.handle.get()?;
        let replaced = map
            .replace(key.as_slice(), expected.as_slice(), value.as_slice())
            .map_err(raise)?;
        Ok(matches!(replaced, Replace::Replaced))
    }

    /// Removes a key. Returns whether it was there.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = Bytes::of(key)?;
        let map = self.handle.get()?;
        map.remove(key.as_slice()).map_err(raise)
    }

    /// Makes room for so many keys at once, so that the map need not grow in steps.
    fn reserve(&self, py: Python<'_>, keys: u64) -> PyResult<()> {
        let map = self.handle.get()?;
        // SAFETY: for the closure below alone.
        let map = unsafe { crate::threads::Here::new(map) };
        py.detach(move || map.into_inner().reserve(keys)).map_err(raise)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Pairs {
        Pairs::of_map(slf.unbind(), Wanted::Keys)
    }

    fn _values(slf: Bound<'_, Self>) -> Pairs {
        Pairs::of_map(slf.unbind(), Wanted::Values)
    }

    fn _items(slf: Bound<'_, Self>) -> Pairs {
        Pairs::of_map(slf.unbind(), Wanted::Pairs)
    }
}

/// The exception for a key that is not there.
pub(crate) fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    pyo3::exceptions::PyKeyError::new_err(key.clone().unbind())
}
