//! Starts threads. Where a limit of the user or the system forbids one, that is an error with a message, and no panic.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::failure::Failure;

/// Starts a thread of a scope for each of `works`. They begin when all are there; if one cannot be started, none
/// begins.
pub fn start_all<'scope, 'env, T: Send + 'scope, W>(
    scope: &'scope Scope<'scope, 'env>,
    name: &str,
    works: impl IntoIterator<Item = W>,
) -> Result<Vec<ScopedJoinHandle<'scope, Result<T, Failure>>>, Failure>
where
    W: FnOnce() -> Result<T, Failure> + Send + 'scope,
{
    // Locked until it is known. A panic leaves the word whole.
    let may_begin = Arc::new(RwLock::new(false));
    let mut told = may_begin.write().unwrap_or_else(PoisonError::into_inner);
    let start = |work: W| {
        let may_begin = may_begin.clone();
        let run = move || match *may_begin.read().unwrap_or_else(PoisonError::into_inner) {
            true => work(),
            false => Err(Failure::failed("not all threads could be started")),
        };
        Builder::new().name(name.to_owned()).spawn_scoped(scope, run)
    };
    let started: io::Result<Vec<_>> = works.into_iter().map(start).collect();
    *told = started.is_ok();
    drop(told);
    started.map_err(|error| not_started(name, &error))
}

/// Says that a thread could not be started, and what may be in its way.
pub fn not_started(name: &str, error: &io::Error) -> Failure {
    Failure::failed(format!(
        "the thread `{name}` cannot be started: {error}; ask for fewer threads, or raise the limit (`ulimit -u`, `ulimit -v`, TasksMax=)"
    ))
}
