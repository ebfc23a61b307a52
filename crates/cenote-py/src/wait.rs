//! Waiting without the GIL, and with an eye on signals.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::raise;
use crate::threads::Here;

/// A waiter looks for signals this often.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Asks again and again, so that signals are handled, until there is an answer or the time is over.
pub(crate) fn wait<T>(
    py: Python<'_>,
    limit: Option<Duration>,
    mut ask: impl FnMut(Duration) -> cenote::Result<Option<T>>,
) -> PyResult<Option<T>> {
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = until.map_or(SIGNALS_EVERY, |until| {
            until.saturating_duration_since(Instant::now())
        });
        // SAFETY: for the closure below, and out of it.
        let here = unsafe { Here::new(&mut ask) };
        let answer = py.detach(move || {
            let answer = here.into_inner()(left.min(SIGNALS_EVERY));
            // SAFETY: out of the closure.
            unsafe { Here::new(answer) }
        });
        match answer.into_inner().map_err(raise)? {
            None if left.is_zero() && until.is_some() => return Ok(None),
            None => py.check_signals()?,
            some => return Ok(some),
        }
    }
}
