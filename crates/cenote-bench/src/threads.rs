//! Threads that may not start: that is an error, and no panic.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::subjects::Failure;

/// Starts a thread of a scope for each of `works`. They begin when all are there; if one cannot be started, none
/// begins.
pub fn start_all<'scope, 'env, T: Send + 'scope, W>(
    scope: &'scope Scope<'scope, 'env>,
    works: impl IntoIterator<Item = W>,
) -> Result<Vec<ScopedJoinHandle<'scope, Result<T, Failure>>>, Failure>
where
    W: FnOnce() -> Result<T, Failure> + Send + 'scope,
{
    // Locked until it is known; whichever thread panics, a word is whole.
    let may_begin = Arc::new(RwLock::new(false));
    let mut told = may_begin.write().unwrap_or_else(PoisonError::into_inner);
    let start = |work: W| {
        let may_begin = may_begin.clone();
        let run = move || match *may_begin.read().unwrap_or_else(PoisonError::into_inner) {
            true => work(),
            false => Err(Failure::Broken("not all threads could be started".to_owned())),
        };
        Builder::new().spawn_scoped(scope, run)
    };
    let started: std::io::Result<Vec<_>> = works.into_iter().map(start).collect();
    *told = started.is_ok();
    drop(told);
    started.map_err(|error| Failure::Broken(format!("a thread cannot be started: {error}")))
}
