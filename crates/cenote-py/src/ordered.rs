//! Ordered maps.

use cenote::{Range, Replace};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::{Bytes, python_bytes};
use crate::error::raise;
use crate::map::missing;
use crate::pairs::{Pairs, Wanted};
use crate::pool::{Opening, Pool};
use crate::threads::Handle;

/// See `cenote.OrderedMap`.
#[pyclass(subclass, frozen, weakref, module = "cenote")]
pub(crate) struct OrderedMap {
    pub(crate) handle: Handle<cenote::Ordered>,
    name: String,
}

type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn pair(py: Python<'_>, found: Option<(Vec<u8>, Vec<u8>)>) -> PyResult<Option<Pair<'_>>> {
    match found {
        Some((key, value)) => Ok(Some((python_bytes(py, &key)?, python_bytes(py, &value)?))),
        None => Ok(None),
    }
}

fn owned(bound: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<u8>>> {
    bound
        .map(|bound| Ok(Bytes::of(bound)?.as_slice().to_vec()))
        .transpose()
}

#[pymethods]
impl OrderedMap {
    #[new]
    #[pyo3(signature = (pool, name, *, create = true))]
    fn new(pool: &Bound<'_, Pool>, name: &str, create: bool) -> PyResult<Self> {
        let named = name.to_owned();
        let handle = Handle::new(&pool.get().open, move |pool| match create {
            true => pool.ordered(&named),
            false => pool.existing_ordered(&named),
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

    fn _get<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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

    /// The least key and its value; None if the map is empty.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        pair(py, self.handle.get()?.first().map_err(raise)?)
    }

    /// The greatest key and its value; None if the map is empty.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        pair(py, self.handle.get()?.last().map_err(raise)?)
    }

    /// The next greater key and its value; None if there is none.
    fn successor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let given = Bytes::of(key)?;
        let found = self.handle.get()?.successor(given.as_slice()).map_err(raise)?;
        pair(key.py(), found)
    }

    /// The next smaller key and its value; None if there is none.
    fn predecessor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let given = Bytes::of(key)?;
        let found = self.handle.get()?.predecessor(given.as_slice()).map_err(raise)?;
        pair(key.py(), found)
    }

    /// How many keys there are from `start` on and before `stop`.
    #[pyo3(signature = (start = None, stop = None))]
    fn count(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (from, to) = (owned(start)?.unwrap_or_default(), owned(stop)?);
        let map = self.handle.get()?;
        // SAFETY: for the closure below alone.
        let map = unsafe { crate::threads::Here::new(map) };
        py.detach(move || {
            map.into_inner().count(Range {
                from: &from,
                to: to.as_deref(),
            })
        })
        .map_err(raise)
    }

    #[pyo3(signature = (start, stop, reverse, wanted))]
    fn _scan(
        slf: Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        wanted: u8,
    ) -> PyResult<Pairs> {
        let wanted = match wanted {
            0 => Wanted::Keys,
            1 => Wanted::Values,
            _ => Wanted::Pairs,
        };
        let (from, to) = (owned(start)?.unwrap_or_default(), owned(stop)?);
        Ok(Pairs::of_range(slf.unbind(), from, to, reverse, wanted))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Pairs {
        Pairs::of_range(slf.unbind(), Vec::new(), None, false, Wanted::Keys)
    }
}
