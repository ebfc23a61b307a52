//! Iterations over maps: batches of pairs are copied, and given one after the other. The map is not held meanwhile.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use cenote::{Cursor, Range};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use crate::buffer::python_bytes;
use crate::error::raise;
use crate::map::Map;
use crate::ordered::OrderedMap;

/// What of the pairs is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Keys,
    Values,
    Pairs,
}

/// Where the next batch comes from.
enum Source {
    Hash(Py<Map>, Cursor),
    Ascending {
        map: Py<OrderedMap>,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
    },
    Descending {
        map: Py<OrderedMap>,
        from: Vec<u8>,
        before: Option<Vec<u8>>,
    },
    Ended,
}

/// Pairs that are copied at a time in descending order.
const BATCH: usize = 256;

/// Pairs that were copied.
type Batch = VecDeque<(Vec<u8>, Vec<u8>)>;

/// An iterator of Python.
#[pyclass(frozen, module = "cenote")]
pub(crate) struct Pairs {
    wanted: Wanted,
    /// None while it is in use.
    state: Mutex<Option<(Source, Batch)>>,
}

impl Pairs {
    pub(crate) fn of_map(map: Py<Map>, wanted: Wanted) -> Self {
        Self::new(Source::Hash(map, Cursor::default()), wanted)
    }

    pub(crate) fn of_range(
        map: Py<OrderedMap>,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
        is_descending: bool,
        wanted: Wanted,
    ) -> Self {
        let source = match is_descending {
            true => Source::Descending {
                map,
                from,
                before: to,
            },
            false => Source::Ascending { map, from, to },
        };
        Self::new(source, wanted)
    }

    fn new(source: Source, wanted: Wanted) -> Self {
        Self {
            wanted,
            state: Mutex::new(Some((source, Batch::new()))),
        }
    }

    /// Puts a state in the place of another. Nothing is dropped under the lock.
    fn exchange(&self, state: Option<(Source, Batch)>) -> Option<(Source, Batch)> {
        std::mem::replace(
            &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner),
            state,
        )
    }
}

impl Source {
    /// Copies the next pairs, and says where those after them begin.
    fn next_batch(self, pairs: &mut Batch) -> PyResult<Self> {
        let mut copy = |key: &[u8], value: &[u8]| pairs.push_back((key.to_vec(), value.to_vec()));
        Ok(match self {
            Self::Hash(map, cursor) => {
                let next = map.get().handle.get()?.step(cursor, copy).map_err(raise)?;
                next.map_or(Self::Ended, |cursor| Self::Hash(map, cursor))
            }
            Self::Ascending { map, from, to } => {
                let range = Range {
                    from: &from,
                    to: to.as_deref(),
                };
                let next = map.get().handle.get()?.step(range, copy).map_err(raise)?;
                next.map_or(Self::Ended, |from| Self::Ascending { map, from, to })
            }
            Self::Descending { map, from, before } => {
                let range = Range {
                    from: &from,
                    to: before.as_deref(),
                };
                let mut copied = 0;
                let each = |key: &[u8], value: &[u8]| {
                    copy(key, value);
                    copied += 1;
                    copied < BATCH
                };
                map.get().handle.get()?.scan_reverse(range, each).map_err(raise)?;
                match (copied == BATCH, pairs.back()) {
                    (true, Some((least, _))) => Self::Descending {
                        map,
                        from,
                        before: Some(least.clone()),
                    },
                    _ => Self::Ended,
                }
            }
            Self::Ended => Self::Ended,
        })
    }
}

#[pymethods]
impl Pairs {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Taken out meanwhile: Python may run its own code whenever objects are made or dropped, and ask again.
        let Some((mut source, mut pairs)) = self.exchange(None) else {
            return Err(PyValueError::new_err("the iterator is in use already"));
        };
        let mut failed = None;
        while pairs.is_empty() && !matches!(source, Source::Ended) {
            source = source.next_batch(&mut pairs).unwrap_or_else(|error| {
                failed = Some(error);
                Source::Ended
            });
        }
        let next = pairs.pop_front();
        self.exchange(Some((source, pairs)));
        if let Some(error) = failed {
            return Err(error);
        }
        let Some((key, value)) = next else {
            return Ok(None);
        };
        let bytes = |bytes: &[u8]| python_bytes(py, bytes).map(Bound::into_any);
        Ok(Some(match self.wanted {
            Wanted::Keys => bytes(&key)?,
            Wanted::Values => bytes(&value)?,
            Wanted::Pairs => PyTuple::new(py, [bytes(&key)?, bytes(&value)?])?.into_any(),
        }))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.state.try_lock().as_deref() {
            Ok(Some((Source::Hash(map, _), _))) => visit.call(map),
            Ok(Some((Source::Ascending { map, .. } | Source::Descending { map, .. }, _))) => visit.call(map),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        drop(self.exchange(Some((Source::Ended, Batch::new()))));
    }
}
