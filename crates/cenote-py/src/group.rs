//! Groups: who is there, and who has died.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cenote::group::{Event, EventKind, Status};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::buffer::Bytes;
use crate::error::{closed, raise};
use crate::pool::{OpenPool, Pool, duration};
use crate::threads::{Handle, Here, Local};
use crate::wait::SIGNALS_EVERY;

/// All kinds of events.
const KINDS: [EventKind; 5] = [
    EventKind::Joined,
    EventKind::Left,
    EventKind::Died,
    EventKind::Rejoined,
    EventKind::HostDied,
];

/// A kind as JSON has it, and Python: "host_died".
fn name_of(kind: EventKind) -> String {
    kind.name().replace(' ', "_")
}

/// An event as Python gets it: its number, what happened, the member's name, and when (nanoseconds since 1970).
type Notification = (u64, String, String, u64);

fn notification(event: Event) -> Notification {
    (event.number, name_of(event.kind), event.member, event.time_ns)
}

/// The names of all kinds, for the tests of the package.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_EVENT_KINDS", KINDS.map(name_of).to_vec())
}

/// See `cenote.Group`.
#[pyclass(subclass, frozen, weakref, module = "cenote")]
pub(crate) struct Group {
    handle: Handle<cenote::Group>,
    name: String,
}

#[pymethods]
impl Group {
    #[new]
    #[pyo3(signature = (pool, name, token = None, *, create = true))]
    fn new(
        pool: &Bound<'_, Pool>,
        name: &str,
        token: Option<&Bound<'_, PyAny>>,
        create: bool,
    ) -> PyResult<Self> {
        let named = name.to_owned();
        let token = match token {
            Some(token) => Bytes::of(token)?.as_slice().to_vec(),
            None => Vec::new(),
        };
        let handle = Handle::new(&pool.get().open, move |pool| match create {
            true => pool.group(&named, &token),
            false => pool.existing_group(&named, &token),
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

    /// The names of its members, and what has become of them: "joined", "left" or "died".
    fn _members(&self) -> PyResult<Vec<(String, &'static str)>> {
        let members = self.handle.get()?.members().map_err(raise)?;
        let status = |status| match status {
            Status::Joined => Some("joined"),
            Status::Left => Some("left"),
            Status::Died => Some("died"),
            Status::Free | Status::Observer => None,
        };
        Ok(members
            .into_iter()
            .filter_map(|member| Some((member.name, status(member.status)?)))
            .collect())
    }

    /// Becomes a member: this thread is it, and the member dies with the thread or its process.
    fn _join(&self, name: &str) -> PyResult<Membership> {
        let membership = self.handle.get()?.join(name).map_err(raise)?;
        Ok(Membership::new(self.handle.pool(), membership))
    }

    /// Receives events without being a member.
    fn _observe(&self) -> PyResult<Membership> {
        let membership = self.handle.get()?.observe().map_err(raise)?;
        Ok(Membership::new(self.handle.pool(), membership))
    }
}

/// See `cenote.Membership`.
#[pyclass(frozen, weakref, module = "cenote")]
pub(crate) struct Membership {
    local: Local<RefCell<Option<cenote::Membership>>>,
}

impl Membership {
    fn new(pool: &Arc<OpenPool>, membership: cenote::Membership) -> Self {
        Self {
            local: Local::new(pool, RefCell::new(Some(membership)), false),
        }
    }
}

/// Waits for an event for so long. The membership is not borrowed after that: a handler of signals may use it.
fn wait(
    py: Python<'_>,
    local: &RefCell<Option<cenote::Membership>>,
    limit: Duration,
) -> PyResult<Option<Event>> {
    let mut membership = local
        .try_borrow_mut()
        .map_err(|_| PyRuntimeError::new_err("this thread waits for events already"))?;
    let membership = membership.as_mut().ok_or_else(|| closed("membership"))?;
    // SAFETY: for the closure below alone.
    let here = unsafe { Here::new(membership) };
    py.detach(move || here.into_inner().next(Some(limit)))
        .map_err(raise)
}

#[pymethods]
impl Membership {
    /// The next event; None if there is none within `timeout` seconds (None: for ever).
    fn _next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Notification>> {
        let limit = timeout.map(duration).transpose()?;
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let local = self.local.get("membership")?;
        loop {
            let left = until.map_or(SIGNALS_EVERY, |until| {
                until.saturating_duration_since(Instant::now())
            });
            match wait(py, &local, left.min(SIGNALS_EVERY))? {
                Some(event) => return Ok(Some(notification(event))),
                None if left == Duration::ZERO && until.is_some() => return Ok(None),
                None => py.check_signals()?,
            }
        }
    }

    /// Leaves the group: the others are notified that it left, not that it died.
    fn leave(&self) -> PyResult<()> {
        let local = self.local.get("membership")?;
        let mut membership = local
            .try_borrow_mut()
            .map_err(|_| PyRuntimeError::new_err("this thread waits for events already"))?;
        match membership.take() {
            Some(membership) => membership.leave().map_err(raise),
            None => Ok(()),
        }
    }
}
