//! Iterations over maps: batches of pairs are copied, and given one after the other. The map is not held meanwhile.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use cenote::{Cursor, Range};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

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
    state: Mutex<(Source, Batch)>,
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
            state: Mutex::new((source, Batch::new())),
        }
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
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (source, pairs) = &mut *state;
        while pairs.is_empty() {
            match std::mem::replace(source, Source::Ended) {
                Source::Ended => return Ok(None),
                more => *source = more.next_batch(pairs)?,
            }
        }
        let Some((key, value)) = pairs.pop_front() else {
            return Ok(None);
        };
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).into_any();
        Ok(Some(match self.wanted {
            Wanted::Keys => bytes(&key),
            Wanted::Values => bytes(&value),
            Wanted::Pairs => PyTuple::new(py, [bytes(&key), bytes(&value)])?.into_any(),
        }))
    }
}
